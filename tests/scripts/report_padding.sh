#!/bin/sh
# fusec report: which buffers layout padded, by how much, and where they come from; and which line most of the arena.
. "$SRC/tests/support/script.sh"
cat >odd.dsl <<'DSL'
model odd {
    input x : f32[32, 100]
    input label : i32[32] in 0..1001
    h = relu(linear(x, 50257) as a)
    loss = mean(cross_entropy(linear(h, 1001) as b, label))
    output loss
    train loss with sgd(lr = 0.1)
}
DSL
"$FUSEC" report odd.dsl --entry=infer >out || exit 1

# 50257 floats become a multiple of 16: 15 more in each of 32 rows
expect() { grep -qxF "$1" out || { echo "FAIL: not in the report: $1"; bad=1; }; }
expect '    f32[32,50257]: rows of 50257 laid out as 50272, 1920 bytes more, from line 4'
expect '    f32[32,1001]: rows of 1001 laid out as 1008, 896 bytes more, from line 5'
expect '  padded by layout: 2 buffers, 2816 bytes in all'

"$FUSEC" report odd.dsl --entry=infer -fno-layout >out || exit 1
if grep -q 'padded by layout' out; then
    echo 'FAIL: padding is reported where there is none'
    bad=1
fi

# two blocks of a line are more than the largest block, which is another one's
cat >peak.dsl <<'DSL'
model peak {
    input x : f32[256, 64]
    a = tanh(x @ (param [64, 64] init kaiming as u)) * sigmoid(x @ (param [64, 64] init kaiming as v))
    b = tanh(a @ (param [64, 96] init kaiming as w))
    loss = mean(b^2)
    train loss with sgd(lr = 0.1)
}
DSL
"$FUSEC" report peak.dsl --entry=grad >out || exit 1
expect '    most of it from line 3'
[ $bad = 0 ] || cat out
exit $bad
