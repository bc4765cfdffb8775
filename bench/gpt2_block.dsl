# One block, behind the layers of examples/gpt2/gpt2.dsl, with its gradients for a given gradient of the result.
model block {
    input u : f32[B, T, C]
    x = param [B, T, C] init normal(1.0)
    y = block(x) as h
    output y
    loss = sum(y * u)
    train loss with adamw(lr = 6e-4, decay = 0.1)
}
