# What is computed element by element and then reduced needs no memory; a running sum is read as a whole.
model m {
    input x : f32[2000000]
    input z : f32[1000000]
    d[i, j] = exp(-(x[i] - z[j])^2)
    output near = sum(d, axis = 0) / max(d, axis = 0)
    output far = sum(sqrt(cumsum(d, axis = 0)), axis = 0)
}
