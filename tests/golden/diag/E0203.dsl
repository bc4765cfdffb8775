# Shapes that do not agree, with the names of the dimensions.
dim B = 32, T <= 64
model m {
    input x : f32[B, 8]
    input y : f32[B, 10]
    input z : f32[T, 4]
    output a = x + y
    output b = x @ y
    output c = reshape(x, [B, 7])
    output d = concat(x, y, axis = 0)
    output e = z + x[0:4, 0:4]
    output f = cross_entropy(x, argmax(y, axis = 0))
    output g = linear(x, 4) as l @ y
    output h = split(x, 3, axis = 1)
    output i = reshape(z, [T * 2, 3])
    state s = zeros [4]
    s <- x
}
