# Names of a scan's body are gone after it.
model m {
    input x : f32[2, 3]
    s = scan v over x {
        w = v + 1
        emit w
    }
    output s
    output gone = w
}
