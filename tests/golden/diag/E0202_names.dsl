# Arguments by other names, of functions of the library.
model m {
    input x : f32[4, 6]
    output b = mean(x, axis = 1, keepdim = true)
    output c = softmax(x, dim = 1)
    output d = softmax(x, axes = 1)
}
