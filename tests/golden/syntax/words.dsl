# Every contextual keyword as a name, beside its use as a keyword.
dim dim = 3, let <= 4
let layer = 1
fn model(in, over = 1, only = in, like = 2) { return f(in = in, axis = axis, with = over) }
fn sum(max) { return max }
layer use(x) { return x }
optimizer train(p, g) { p <- p - g }
model input {
    input input : f32[in, over] in in..over
    input in : f32
    in = input + in * over
    input = input + 1
    state, save, scan = input, in, over
    state state = state
    state <- state + scan
    output = 3
    output output
    output scan = scan
    scan[in in 0..3, axis] = sum[over in 0..2] x[in, over] * over
    sum[i] = sum (i) + sum[j] j
    repeat hyper as as_name { hyper = hyper - 1 }
    repeat f(g(x) as y) as h { x = x }
    scan over over over axis axis, init = scan { emit over }
    axis = scan x over scan axis 1, scan = 3 { emit x }
    checkpoint { checkpoint = checkpoint }
    save save, only, clip_norm
    recompute recompute
    precision precision
    precision = precision
    with = param [with] init init as init
    with = param [with] init init(init = init) as zeros_like
    like = zeros like like
    lr = hyper 3 + hyper
    training = training and step
    z = x.sum[0] + x.input.in(in = 3).scan
    train train with with(with = hyper 1e-2) clip_norm clip_norm only "only"[only, ...], "b"
}
