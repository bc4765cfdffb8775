# One extent of a reshape may be -1.
dim S <= 64
model m {
    input x : f32[4, 5]
    input y : f32[S, 6]
    output a = reshape(x, [5, -1])
    output b = reshape(x, [-1, 3])
    output c = reshape(x, [-1, -1])
    output d = reshape(x, [-2, 10])
    output e = reshape(x, [0, -1])
    output f = reshape(x, -1)
    output g = reshape(y, [-1, 3])
    output h = reshape(y, [4, -1])
}
