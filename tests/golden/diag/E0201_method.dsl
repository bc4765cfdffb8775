# What tensors do not have.
model m {
    input x : f32[4, 6]
    input c : bool[4, 6]
    output a = x.T @ x
    output b = x.sum()
    output d = x.shape
    output e = x.device
    output f = x[:, none]
    output g = x[c]
    output h = x @ x
    i[r] = x[r, 0] + x[r]
    output i
}
