# What hands used to other languages type.
def f(x):
    y = x + 1
    return y

import torch
const a = 3
fn g(x)
    return x
class Net {
    fn forward(x) { return x }
}
model m:
    input x : f32[4]
    output x

model n {
    input x : f32[4]
    for i in 0..3 {
        x = x * 2
    }
    y = x if true else 3
    y[0] = 1
    if true:
        y = x
    elif false:
        y = 2
    while true { y = x }
    y = x x
          + 3
          + 4
    z = f(x)(y)
    w = param [3] init normal 0.02
    repeat i in 0..3 { y = x }
    let q: int = 3
    return
    output y
}
let last = 1 +* 2
