# What a repeat that is bound to names emits.
model m {
    input x : f32[3]
    a = repeat 2 { y = x }
    b = repeat 0 { emit x }
    c, d = repeat 2 { emit x }
    e = repeat i in 0..2 { emit zeros [i + 1] }
    f = repeat i in 0..2 {
        emit x
        emit x
    }
    g = repeat i in 3..1 { emit x }
    h = repeat i in -1..1 { emit x }
    output x
}
