# What a scan's body may not have, and what does not fit its header.
layer counts(x) {
    state n = zeros [3]
    n <- n + 1
    return x + n
}
model m {
    input x : f32[2, 3]
    input other : f32[5]
    state s = zeros [3]
    a = scan v over x {
        s <- v
        emit v
    }
    b = scan v over x {
        w = counts(v) as c
        emit w
        emit w
    }
    d, e = scan v over x { emit v }
    f = scan v over x { w = v }
    g = scan h = zeros [3] { emit h }
    i = scan v over x, u over other { emit v * u }
    j = scan v over x axis 2 { emit v }
    k = scan v over x, h = 0.0 {
        h = h + v
        emit h
    }
    l = scan v over other axis 0, h = zeros [2] {
        emit v
    }
    p = scan v over x axis 1 { emit sum(v) }
    scan v over x, h = zeros [3] { h = h + v }
    output h
}
