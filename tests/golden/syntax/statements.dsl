# Each statement in each of its forms.
use "lib/blocks.dsl"
let a = 1, b = true, c = "s"
fn several(x) { return x, x + 1 }
layer l(x, n, bias = true, r = 0..3) {
    p, q = several(x)
    p, q = q, p
    y[i, j in 0..4] = x[i, j]
    y = zeros []
    y = ones [2, 3,]
    state m = zeros [2]
    m <- m + 1
    if n > 1 { y = p } else if n > 2 { y = q } else { y = x }
    repeat n as r { y = l(y, n) as inner }
    repeat 2 { y = y }
    scan x over xs, h = y {
        h = h + x
        emit h, x
    }
    e = scan x over xs axis -1 { emit x }
    checkpoint { y = y }
    save y
    recompute p, q
    return y
}
model m {
    precision bf16
    input s : f32
    input e : i32[] in 0..10
    input t : i32[2, a * 3] in -1..a
    w = param [] init zeros
    v = param [1] init kaiming() as v
    output w
    output loss = w
    train loss with sgd()
    train loss with sgd(0.1, lr = hyper 1 as rate) only "w" clip_norm 1.0
    train loss with sgd(lr = 1,) clip_norm hyper 2.0 only "a", "b"[0], "c"[0:1, ...]
}
