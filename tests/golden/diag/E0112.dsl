let a = 
let b = 3 +
dim = 4
fn f(x y) { return x }
fn g(x) return x
model m {
    input x f32[4]
    input z : f32[4] in 3
    input : f32
    y = f(x, , 2)
    if x { 3 }
    y = if true { 1 } else { 2 }
    } else {
    output
    lr = hyper x
    repeat 3 x = y
    train loss by sgd(lr = 1)
    train loss with sgd
    train loss as with sgd(lr = 1)
    w = param [3]
    y = zeros like
    y[i in 3] = x[i]
    y = x.3
    y = sum[] x
}
use them
