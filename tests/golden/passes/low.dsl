# Precisions: bf16, with one layer in f32 and one in tf32; norms, softmax and the loss are f32 by themselves.
dim B = 4
layer exact(x) {
    precision f32
    return x * tanh(linear(x, 8) as gate)
}
layer medium(x) {
    precision tf32
    return linear(x, 8) as project
}
model low {
    precision bf16
    input ids : i32[B] in 0..6
    input label : i32[B] in 0..3
    x = embed(ids, 6, 8) as table
    h = relu(linear(layernorm(x) as norm, 16) as up)
    x = x + (linear(h, 8) as down) * 0.1
    x = x + (exact(x) as exact)
    x = x + (medium(x) as medium)
    loss = mean(cross_entropy(linear(x, 3) as head, label))
    output loss
    output p = softmax(linear(x, 3, bias = false) as other)
    train loss with sgd(lr = hyper 0.1)
}
