# Initial values are known before the first input.
model m {
    input x : f32[4]
    state s = x * 2
    s <- s + x
    output s
}
