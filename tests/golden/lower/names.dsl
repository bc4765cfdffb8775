# Paths: `as`, names, loops, unnamed instances.
layer scale(x) { return x * (param [x.dim(-1)] init ones as g) }
layer twice(x) { return scale(scale(x) as inner) }
model names {
    input x : f32[4]
    bias = param [4] init zeros
    x = twice(x + bias)
    repeat 2 as h {
        x = twice(x) as t
        repeat 2 { x = scale(x) }
    }
    output y = scale(x) as last
}
