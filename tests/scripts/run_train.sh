#!/bin/sh
# fusec run over data: a resumed run ends in the same bits, an interrupted one is saved, a partial batch counts its real
# rows only, windows over text, and the memory used is the memory reported.
set -e
. "$SRC/tests/support/script.sh"

awk 'function u() { s = s * 16807 % 2147483647; return s / 2147483647 }
    BEGIN { s = 3; print "a,b,c,class"; for (i = 0; i < 110; i++) { a = u(); b = u(); c = u(); print a "," b "," c "," (a + b > c + 0.5) + (a > b) } }' > d.csv
cat > m.dsl <<'END'
dim B = 16
model m {
    input x : f32[B, 3]
    input class : i32[B] in 0..3
    h = dropout(relu(batchnorm(linear(x, 16) as l1) as norm), 0.1)
    logits = linear(h, 3) as l2
    loss = mean(cross_entropy(logits, class))
    output loss
    output logits
    train loss with adamw(lr = hyper 0.02)
}
END
sed 's/dim B = 16/dim B <= 16/' m.dsl > bounded.dsl
data="--data x=d.csv:1-3 --data class=d.csv:class"
run() { m=$1; shift; "$FUSEC" run "$m" $data --rows 0:100 --quiet "$@"; }

for m in m.dsl bounded.dsl; do
    run $m --epochs 5 --save whole.safetensors
    run $m --steps 9 --save part.safetensors              # in the middle of the second epoch
    run $m --epochs 5 --resume part.safetensors --save part.safetensors
    cmp whole.safetensors part.safetensors || die "$m: a resumed run differs"
    run $m --epochs 5 --seed 1 --save other.safetensors
    ! cmp -s whole.safetensors other.safetensors || die "$m: the seed does nothing"
done
run m.dsl --epochs 5 --save whole.safetensors
run m.dsl --epochs 5 --threads 1 --save one.safetensors
cmp whole.safetensors one.safetensors || die "the number of threads changes the result"

# 6 whole batches of 16 and one of 4 that a fixed batch leaves out
"$FUSEC" run m.dsl $data --rows 0:100 | grep -q '^step 6 ' || die "a fixed batch drops the last rows"
"$FUSEC" run bounded.dsl $data --rows 0:100 | grep -q '^step 7 ' || die "a bounded batch takes the last rows"

# the mean over 10 rows is the same whether the last batch is padded (16), partial (bounded), or never (-D B=1, B=5);
# the last digit printed may differ, for another batch is another sum
evaluate() { m=$1; shift; run "$m" --entry infer --load whole.safetensors --rows 100:110 --accuracy logits=class "$@"; }
close() {
    printf '%s\n%s\n' "$1" "$2" | tr -c '0-9.\n' ' ' | awk '
        NR == 1 { n = split($0, a); next }
        { if (split($0, b) != n) exit 1
          for (i = 1; i <= n; i++) { d = a[i] - b[i]; if (d < 0) d = -d; if (d > 1e-5 * (1 + a[i])) exit 1 } }'
}
first=$(evaluate m.dsl)
[ -n "$first" ] || die "no evaluation"
close "$first" "$(echo "$first" | sed 's/\([0-9]\)\.\([0-9]\)/\1.9\2/')" && die "two evaluations that differ are called close"
for other in "bounded.dsl" "m.dsl -D B=1" "m.dsl -D B=5" "m.dsl -D B=7"; do
    close "$first" "$(evaluate $other)" || die "evaluated differently: '$first' and, $other, '$(evaluate $other)'"
done
case $first in "infer: 10 rows  loss "*"  accuracy "*"% ("*" of 10)") ;; *) die "unexpected: $first" ;; esac

# a scalar that is no mean over rows leaves out the rows that fill no batch, and says so
cat >root.dsl <<'END'
dim B = 4
model m {
    input x : f32[B, 1]
    output root = sqrt(mean(x^2))
    output low = min(x)
    output mean = mean(x)
}
END
printf '1\n1\n1\n1\n9\n1\n' >column.csv
root() { "$FUSEC" run root.dsl --entry infer --data x=column.csv:1 "$@" 2>log; }
[ "$(root)" = "infer: 6 rows  root 1  low 1  mean 2.33333" ] || die "a root of a mean: $(root) $(cat log)"
[ "$(grep -c 'is no mean over rows: it leaves out the last 2, which fill no batch of 4' log)" = 2 ] || die "no warning: $(cat log)"
[ "$(root --rows 3:6)" = "infer: 3 rows  mean 3.66667" ] || die "less than a batch: $(root --rows 3:6)"
[ "$(root --rows 2:6)" = "infer: 4 rows  root 4.58258  low 1  mean 3" ] && [ ! -s log ] || die "a whole batch: $(root --rows 2:6)"
sed 's/B = 4/B <= 4/' root.dsl >root2.dsl && mv root2.dsl root.dsl
[ "$(root --rows 3:6)" = "infer: 3 rows  root 5.25991  low 1  mean 3.66667" ] || die "a bounded batch: $(root --rows 3:6)"

# interrupted: saved, and continued to the same bits
run m.dsl --epochs 20000 --save i.safetensors 2>log & pid=$!
while [ ! -e i.safetensors ]; do sleep 0.05; done
kill -TERM "$(ps -o pid= --ppid $pid 2>/dev/null | tr -d ' ' | grep . || echo $pid)"
status=0; wait $pid || status=$?
[ $status = 130 ] || die "exit status $status after an interrupt"
grep -q 'interrupted after step [0-9]*; saved to i.safetensors' log || die "no word about the interrupt: $(cat log)"
step=$(head -c 400 i.safetensors | tr -d '\0' | sed -n 's/.*"step":"\([0-9]*\)".*/\1/p' | head -n 1)
steps=$((step + 10))
run m.dsl --steps $steps --resume i.safetensors --save i.safetensors
run m.dsl --steps $steps --save j.safetensors
cmp i.safetensors j.safetensors || die "an interrupted run continues differently"

# memory: reported before, allocated in the run
reported=$("$FUSEC" report m.dsl --entry step | sed -n 's/^  peak \([0-9]*\)$/\1/p')
used=$("$FUSEC" run m.dsl $data --rows 0:100 | sed -n 's/^memory: \([0-9]*\) bytes.*/\1/p')
[ -n "$used" ] && [ "$reported" = "$used" ] || die "reported $reported bytes, used $used"

# bytes in windows: the target of a byte is the one after it
cat > t.dsl <<'END'
dim B = 4, T = 6
model t {
    input now  : i32[B, T] in 0..128
    input next : i32[B, T] in 0..128
    output same = sum(float(now == next))
    output gap = mean(float(next - now))
    loss = mean((float(now) - (param [1] init zeros as p))^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
printf 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' > text
[ "$("$FUSEC" run t.dsl --entry infer --data now=text --data next=text:+1 --want gap)" = "infer: 20 rows  gap 1" ] || die "windows"
[ "$("$FUSEC" run t.dsl --entry infer --data now=text --data next=text:+3 --want gap)" = "infer: 18 rows  gap 3" ] || die "shifted windows"
[ "$("$FUSEC" run t.dsl --entry infer --data now=text --data next=text --want gap)" = "infer: 21 rows  gap 0" ] || die "equal windows"
gzip -c text > text.gz
[ "$("$FUSEC" run t.dsl --entry infer --data now=text.gz --data next=text --want gap)" = "infer: 21 rows  gap 0" ] || die "gz"
echo ok
