#!/bin/sh
# What fusec run and fusec -o say about bad options, data, weights and places: the exact words, the exit status, and
# that nothing is left behind.
. "$SRC/tests/support/script.sh"

# says STATUS MESSAGE COMMAND..: the last line on stderr begins with the message
says() {
    want=$1 text=$2
    shift 2
    "$@" >out 2>err
    got=$?
    last=$(tail -n 1 err)
    case $last in "$text"*) ;; *) echo "FAIL: $*"; echo "  expected: $text"; echo "  got:      $last"; bad=1 ;; esac
    [ "$got" = "$want" ] || { echo "FAIL: $*: exit status $got, not $want"; bad=1; }
}
error() { text=$1; shift; says 1 "fusec: error: $text" "$FUSEC" "$@"; }
usage() { text=$1; shift; says 2 "fusec: error: $text" "$FUSEC" "$@"; }

# st HEADER BYTES > FILE
st() { printf "\\$(printf %o $((${#1} % 256)))\\$(printf %o $((${#1} / 256)))\\0\\0\\0\\0\\0\\0%s$2" "$1"; }

cat > m.dsl <<'END'
dim B = 2, S <= 4
model m {
    input x : f32[B, 3]
    input label : i32[B] in 0..3
    input seq : f32[S]
    input seq2 : f32[S]
    logits = linear(x, 3) as f
    loss = mean(cross_entropy(logits, label)) + 0 * sum(seq * seq2)
    output loss
    output logits
    train loss with sgd(lr = hyper 0.1 as rate)
}
END
sed '/seq/d; s/^    output loss/    loss = mean(cross_entropy(logits, label))\n    output loss/' m.dsl > d.dsl
sed '/train/d' d.dsl > notrain.dsl

# ---- options ----
error 'host: no processor `fast` is known for' run d.dsl --arch fast
usage 'run --target takes host, c99, cuda or interp, not gpu' run d.dsl --target gpu
usage '--hyper: m has no lr; it has: rate' run d.dsl --hyper lr=1
usage '--hyper rate: not a number: fast' run d.dsl --hyper rate=fast
usage '--extent: m has no bounded dimension T' run m.dsl --extent T=1
usage '--extent S: a whole number from 1 to 4 is needed' run m.dsl --extent S=5
error '--want: m has no output logit (did you mean logits?); it has: loss, logits' run d.dsl --want logit
for way in run report verify '-o a.c' '-o a.graph'; do
    says 1 '     = help: it needs a `train` statement' "$FUSEC" $way notrain.dsl --entry step
    grep -q '^notrain.dsl: error: there is no entry step' err || fail "$way: an entry that is not there"
done
says 2 'fusec: error: run --entry takes infer, grad or step' "$FUSEC" run d.dsl --entry init
says 2 'fusec: error: run --data trains (--entry step) or infers (--entry infer)' "$FUSEC" run d.dsl --entry grad --data x=a.csv
says 2 'fusec: error: --data and --inputs exclude each other' "$FUSEC" run d.dsl --data x=a.csv --inputs x.safetensors
says 2 'fusec: error: --load and --resume exclude each other' "$FUSEC" run d.dsl --data x=a.csv --load a --resume b

# ---- inputs ----
error 'missing input: x, label (--inputs FILE)' run d.dsl
st '{"x":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}}' '\1\2\3\4\5\6' > x.safetensors
error 'missing input: label (--inputs FILE); without it --want can have: logits' run d.dsl --inputs x.safetensors
st '{"y":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}}' '\1\2\3\4\5\6' > y.safetensors
error 'y.safetensors: m has no input y' run d.dsl --inputs y.safetensors
st '{"x":{"dtype":"U8","shape":[3,2],"data_offsets":[0,6]}}' '\1\2\3\4\5\6' > shape.safetensors
error 'x has shape [3, 2], the model declares [B=2, 3]' run d.dsl --inputs shape.safetensors
st '{"label":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' '\1\3' > range.safetensors
error 'range.safetensors: label: element 1 is 3, outside its declared range 0..3' run d.dsl --inputs range.safetensors
st '{"label":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' '\0\0\0\0\0\0\0\77' > half.safetensors
error 'half.safetensors: label: element 1, 0.5, is no i32' run d.dsl --inputs half.safetensors
st '{"seq":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"seq2":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}}' '\1\2\1\2\3' > seq.safetensors
error 'S is 2 in seq [2] but 3 in seq2 [3]' run m.dsl --inputs seq.safetensors
error 'S is 4 in --extent but 3 in seq2 [3]' run m.dsl --inputs seq.safetensors --extent S=4
st '{"seq":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' '' > none_seq.safetensors
error 'seq has shape [0], the model declares [S<=4]; S is at least 1: make no call where there is nothing' run m.dsl --inputs none_seq.safetensors
st '{"seq":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}}' '\1\2\3\4\5' > long_seq.safetensors
error 'seq has shape [5], the model declares [S<=4]; -D S=5 plans memory for as many' run m.dsl --inputs long_seq.safetensors
error 'none.safetensors: No such file or directory' run d.dsl --inputs none.safetensors
st '{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' '\1\2\3' > cut.safetensors
error 'cut.safetensors: truncated: tensor x ends 21 bytes past the end of the file' run d.dsl --inputs cut.safetensors
error 'm.dsl: not a safetensors file' run d.dsl --inputs m.dsl
st '{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' '12345678901234567890123' > one.safetensors
error 'one.safetensors: truncated: tensor x ends 1 byte past the end of the file' run d.dsl --inputs one.safetensors
st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}}' '\1\2\3\4' > over.safetensors
error 'over.safetensors: corrupt header: tensor b overlaps another' run d.dsl --inputs over.safetensors
st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}' '\1\2\3' > hole.safetensors
error 'hole.safetensors: corrupt header: tensor a does not begin where the one before it ends' run d.dsl --inputs hole.safetensors
st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' '\1\2\3' > more.safetensors
error 'more.safetensors: corrupt: its tensors end 1 before the data do' run d.dsl --inputs more.safetensors
error '/dev/zero: is a device, which may never end' run d.dsl --inputs /dev/zero
error '/dev/zero: is a device, which may never end' run d.dsl --data x=/dev/zero

# ---- weights ----
st '{"f.v":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' '\1\2\3' > unknown.safetensors
error 'unknown.safetensors: the model has no parameter f.v (did you mean f.w?)' run d.dsl --want logits --inputs x.safetensors --params unknown.safetensors
st '{"f.b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' '\1\2\3\4' > misshapen.safetensors
error 'misshapen.safetensors: f.b has shape [4], the model has [3]' run d.dsl --want logits --inputs x.safetensors --params misshapen.safetensors
st '{"f.b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' '\1\2\3' > part.safetensors
printf '1,2,3,0\n4,5,6,1\n7,8,9,2\n' > d.csv
data="--data x=d.csv:1-3 --data label=d.csv:4"
printf '1,2,3,0\n4,1e39,6,1\n' > far.csv
error 'far.csv: 1e+39 in row 1, column 2 (rows count from 0, columns from 1) is beyond f32, which x is in' run d.dsl --data x=far.csv:1-3 --data label=far.csv:4
printf '1,2,3,0\n4,5,six,1\n' > bad.csv # two inputs of one file: said once
error 'bad.csv:2: column 3 is not a number' run d.dsl --data x=bad.csv:1-3 --data label=bad.csv:4
[ "$(grep -c bad.csv err)" = 1 ] || { echo "FAIL: said twice: $(cat err)"; bad=1; }
error 'part.safetensors: missing: f.w' run d.dsl $data --load part.safetensors
error 'part.safetensors: no step: not saved by `fusec run --save`; --load takes weights alone' run d.dsl $data --resume part.safetensors
"$FUSEC" run d.dsl $data --save w.safetensors --quiet || bad=1
error 'w.safetensors: it began with --seed 0, and goes on with that: leave out --seed' run d.dsl $data --resume w.safetensors --seed 5
usage '--rows 1:1: no row lies between; it takes rows from A up to but without B' run d.dsl $data --rows 1:1
usage '--rows 1:0: no row lies between; it takes rows from A up to but without B' run d.dsl $data --rows 1:0
"$FUSEC" run d.dsl $data --resume w.safetensors --steps 1 >out || bad=1
grep -q '^nothing to train: w.safetensors has done [1-9][0-9]* steps, of 1$' out || { echo "FAIL: resumed: $(cat out)"; bad=1; }
error 'w.safetensors: cannot continue: its batch was 2, now it is 1' run d.dsl $data --resume w.safetensors -D B=1
sed 's/"step":"[0-9]/"step":"7/' w.safetensors > step.safetensors
error 'step.safetensors: corrupt: the CRC-32 of its data and position is not' run d.dsl $data --resume step.safetensors
sed 's/"step"/"stdp"/' w.safetensors > step.safetensors
error 'step.safetensors: corrupt: the CRC-32 of its data and position is not' run d.dsl $data --load step.safetensors
sed 's/"row":"0"/"row":"2"/' w.safetensors > row.safetensors
error 'row.safetensors: corrupt: its position is outside the data' run d.dsl $data --resume row.safetensors
n=$(wc -c < w.safetensors)
{ head -c $((n - 1)) w.safetensors; printf '\252'; } > corrupt.safetensors
error 'corrupt.safetensors: corrupt: the CRC-32 of its data and position is not' run d.dsl $data --load corrupt.safetensors
head -c $((n - 1)) w.safetensors > cut.safetensors
error 'cut.safetensors: truncated: tensor f.b ends 1 byte past the end of the file' run d.dsl $data --load cut.safetensors

# ---- data ----
error '--data: m has no input y; it has: x, label' run d.dsl --data y=d.csv
error '--data x is given twice' run d.dsl --data x=d.csv:1-3 --data x=d.csv:1-3
error 'missing input: label (--data label=FILE)' run d.dsl --data x=d.csv:1-3
error 'none.csv: No such file or directory' run d.dsl --data x=none.csv --data label=d.csv:4
error 'd.csv: no columns 3-5: it has 1-4' run d.dsl --data x=d.csv:3-5 --data label=d.csv:4
error 'd.csv: no columns 0-2: it has 1-4' run d.dsl --data x=d.csv:0-2 --data label=d.csv:4
error 'd.csv: no columns 99999999999999999999: it has 1-4' run d.dsl --data x=d.csv:1-3 --data label=d.csv:99999999999999999999
error '--data label: a shift is for windows over a sequence; d.csv has rows' run d.dsl --data x=d.csv:1-3 --data label=d.csv:4:+1
error '--data d.csv:4:+x: a shift is +N, as in FILE:+1' run d.dsl --data x=d.csv:1-3 --data label=d.csv:4:+x
error 'd.csv: no column class; it has no header' run d.dsl --data x=d.csv:1-3 --data label=d.csv:class
error 'd.csv: a row has 4 values, x [B=2, 3] takes 3' run d.dsl --data x=d.csv --data label=d.csv:4
usage '--rows 0:4: the data has rows 0:3' run d.dsl $data --rows 0:4
usage '--rows takes A:B, not 3' run d.dsl $data --rows 3
refused() { # MESSAGE COMMAND..: by the command line
    text=$1
    shift
    "$FUSEC" "$@" >out 2>err
    [ $? = 2 ] && [ "$(head -n 1 err)" = "fusec: $text" ] || { echo "FAIL: $*: $(cat err)"; bad=1; }
}
for counted in --steps --epochs --threads; do
    refused "a whole number from 1 on is needed: $counted" run d.dsl $data $counted=0
done
refused 'the number is too large: --seed' run d.dsl --seed=99999999999999999999
refused 'no such command (see --help), and one input file at a time: frob' frob d.dsl
error '1 rows are fewer than a batch of 2' run d.dsl $data --rows 0:1
error '--accuracy logits=x: logits has shape [B=2, 3]; x must be i32 of that without the last axis, but is f32 [B=2, 3]' \
    run d.dsl $data --test-rows 0:2 --accuracy logits=x --quiet
printf '1,2,3,0\n4,nan,6,1\n7,8,9,3\n' > nan.csv
error 'nan.csv: NaN in row 1, column 2 (rows count from 0, columns from 1)' run d.dsl --data x=nan.csv:1-3 --data label=nan.csv:4
error 'nan.csv: 3 in row 2, column 4 (rows count from 0, columns from 1) is outside the range of label, 0..3' \
    run d.dsl --data x=d.csv:1-3 --data label=nan.csv:4
printf '1,2,3,0.5\n4,5,6,1\n' > half.csv
error 'half.csv: 0.5 in row 0, column 4 (rows count from 0, columns from 1) is no 32-bit integer, which label needs' \
    run d.dsl --data x=half.csv:1-3 --data label=half.csv:4
error 'd.csv has 3 rows, half.csv has 2' run d.dsl --data x=d.csv:1-3 --data label=half.csv:4
printf '1,2,3,0\n4,5,6\n' > ragged.csv
error 'ragged.csv:2: 3 fields, where the first line has 4' run d.dsl --data x=ragged.csv:1-3 --data label=ragged.csv:4
printf '1,2,3,0\n4,five,6,1\n' > word.csv
error 'word.csv:2: column 2 is not a number: "five"' run d.dsl --data x=word.csv:1-3 --data label=word.csv:4
gzip -c d.csv > d.csv.gz
n=$(wc -c < d.csv.gz)
head -c $((n - 4)) d.csv.gz > cut.csv.gz
error 'cut.csv.gz: truncated' run d.dsl --data x=cut.csv.gz:1-3 --data label=d.csv:4
printf '\223NUMPY\1\0\1\0' > short.npy
error 'short.npy: truncated: the header ends past the end of the file' run d.dsl --data x=short.npy --data label=d.csv:4
error 'm.dsl: not .csv, .npy or .safetensors; bytes are for integer inputs, x is f32' run d.dsl --data x=m.dsl --data label=d.csv:4

# ---- a loss scale that can go no lower ----
sed 's/^model m {/&\n    precision f16/; /seq/d; s/^    output loss/    loss = mean((logits * 1e30)^2)\n    output loss/; /label/d' m.dsl > low.dsl
for target in host c99; do
    error "step of m on $target: the step was skipped: a gradient overflowed in f16 at the least loss scale; use precision bf16 or f32, or a smaller learning rate" \
        run low.dsl --target $target --data x=d.csv:1-3 --steps 60 -D B=1 --quiet
done

# ---- places that cannot be written ----
error 'cannot write /nowhere/o.safetensors: No such file or directory' run d.dsl --want logits --inputs x.safetensors --outputs /nowhere/o.safetensors
# before anything is trained
for option in '--save nodir/w.safetensors' '--test-rows 0:2 --outputs nodir/w.safetensors'; do
    error 'cannot write nodir/w.safetensors: No such file or directory' run d.dsl $data $option
    [ ! -s out ] || { echo "FAIL: trained, though it could not be written: $(cat out)"; bad=1; }
done
mkdir dir dir/m.h
says 1 'fusec: error: cannot write dir/m.h: Is a directory' "$FUSEC" d.dsl -o dir/m.c
says 1 'fusec: error: cannot write dir/none/m.c: No such file or directory' "$FUSEC" d.dsl -o dir/none/m.c
[ "$(ls dir)" = m.h ] || { echo "FAIL: left behind: $(ls dir)"; bad=1; }
[ -z "$(find . -name '.fusec-*')" ] || { echo "FAIL: temporary files are left"; bad=1; }
says 2 'fusec: d.xyz: what to write follows from the suffix: .ptx .cubin .o .c .ll .graph .tile' "$FUSEC" d.dsl -o d.xyz
says 2 'fusec: a .c file is not made for target sm_80' "$FUSEC" d.dsl -o d.c --target sm_80

# ---- targets that are not there ----
(
    PATH=/nonexistent CC=no-such-compiler
    export PATH CC
    "$FUSEC" run d.dsl --target c99 --want logits --inputs x.safetensors
) 2>err
grep -q '^fusec: error: c99: no-such-compiler cannot be run: No such file or directory' err || { echo "FAIL: no C compiler: $(cat err)"; bad=1; }
(
    PATH=/nonexistent
    export PATH
    "$FUSEC" d.dsl -o d.cubin
) 2>err
grep -q '^fusec: error: .cubin needs ptxas of the CUDA toolkit on PATH' err || { echo "FAIL: no ptxas: $(cat err)"; bad=1; }
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    LD_LIBRARY_PATH= "$FUSEC" run d.dsl --target cuda --want logits --inputs x.safetensors 2>err
    grep -q '^no CUDA driver: libcuda.so.1' err || { echo "FAIL: no libcuda: $(cat err)"; bad=1; }
fi
[ $bad = 0 ] && echo ok
exit $bad
