# A product with as many columns as a vocabulary and the mean cross entropy of its rows, with both gradients.
dim R = 4096, C = 768, V = 50257
model linear_loss {
    input label : i32[R] in 0..V
    x = param [R, C] init normal(1.0)
    w = param [V, C] init normal(0.02)
    loss = mean(cross_entropy(x @ transpose(w), label))
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
