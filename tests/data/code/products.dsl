# Products at sizes of layers: square, odd, thin, long, in batches, either operand transposed, and their gradients.
model products {
    input a : f32[256, 768]
    input one : f32[1, 768]
    input odd : f32[37, 129]
    input tall : f32[2048, 8]
    input wide : f32[16, 8192]
    input left : f32[512, 64]
    input batch : f32[8, 96, 64]
    input heads : f32[2, 4, 33, 16]
    output square = gelu((linear(a, 768) as square))
    output narrow = linear(a, 5) as narrow
    output row = relu((linear(one, 3072, bias = false) as row))
    output column = linear(one, 1) as column
    output uneven = odd @ (param [129, 65] init kaiming as uneven_w)
    output across = tall @ (param [8, 1000] init kaiming as across_w)
    output long = wide @ (param [8192, 12] init kaiming as long_w)
    output turned = transpose(left) @ (param [512, 48] init kaiming as turned_w)
    output other = left @ transpose(param [80, 64] init kaiming as other_w)
    output gram = left @ transpose(left)
    output each = batch @ (param [8, 64, 40] init kaiming as each_w)
    output shared = batch @ (param [64, 128] init kaiming as shared_w)
    output scores = heads @ transpose(heads)
    output few = (param [1, 32] init kaiming as few_w) @ transpose(param [8, 32] init kaiming as few_w2)
    output vector = wide @ (param [8192] init normal(0.1) as vector_w)
    output small = (param [3, 5] init kaiming as small_w) @ (param [5, 7] init kaiming as small_w2)
    w = param [768, 96] init kaiming
    output gated = (a @ w) * sigmoid(a @ (param [768, 96] init kaiming as gated_w))
    output twice = tanh(relu(a @ w) @ (param [96, 10] init kaiming as twice_w))
    loss = mean(square^2) + mean(narrow^2) + mean(row) + mean(column^2) + mean(uneven^2) + mean(across^2) +
           mean(long^2) + mean(turned^2) + mean(other^2) + mean(each^2) + mean(shared^2) + mean(vector^2) +
           mean(small^2) + mean(gated^2) + mean(twice^2)
    train loss with sgd(lr = hyper 0.1)
}
