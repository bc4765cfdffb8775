# A name stands once in a scan's header.
model m {
    input x : f32[2, 3]
    s = scan v over x, v = zeros [3] { emit v }
    output s
}
