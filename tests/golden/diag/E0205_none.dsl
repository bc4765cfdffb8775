# A bounded dimension has at least one element at its bound.
dim N <= 0
model m {
    input x : f32[N, 2]
    output y = x + 1
}
