# One byte past 16 MiB, all of it blank.
awk 'BEGIN { s = sprintf("%1023s\n", ""); for (i = 0; i < 16384; i++) printf "%s", s; print "" }'
