#!/bin/sh
# beats.sh DIR: cuts the record into beats.  DIR/train.csv: the narrow ones among the first 300; DIR/test.csv: all others
# after those 300.
set -eu
here=$(dirname "$0")
od -An -v -t d2 -w2 "$here/ecg-mitbih-208.i16le" | awk -f "$here/beats.awk" > "$1/beats.csv"
head -n 300 "$1/beats.csv" | awk -F, '$65 == 0' > "$1/train.csv"
tail -n +301 "$1/beats.csv" > "$1/test.csv"
