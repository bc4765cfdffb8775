# A convolutional autoencoder of heart beats.  Trained on narrow beats alone, it reconstructs others badly: a beat
# with a large error is flagged.
dim B <= 32, T = 64                       # beats, values of one
let threshold = 0.015                     # mV^2, mean over the beat: five times the loss reached in training

# x: [B, t, c] -> [B, ceil(t / stride), n]; SAME
layer conv1d(x, n, stride = 1) {
    w = param [5, x.dim(2), n] init kaiming
    y[i, t in 0..ceil_div(x.dim(1), stride), f] = sum[r, c] x[i, t*stride + r - 2, c] * w[r, c, f]
    return y + (param [n] init zeros as b)
}
# x: [B, t, c] -> [B, 2 t, n]: its transpose
layer grow1d(x, n) {
    w = param [5, x.dim(2), n] init kaiming
    y[i, t in 0..2 * x.dim(1), f] = sum[r, c] x[i, (t + 2 - r) / 2, c] * w[r, c, f]
    return y + (param [n] init zeros as b)
}

model ecg {
    input beat : f32[B, T]
    input wide : i32[B] in 0..2           # only compared with
    x = relu(conv1d(reshape(beat, [beat.dim(0), T, 1]), 8, stride = 2) as down1)
    x = relu(conv1d(x, 16, stride = 2) as down2)
    x = relu(conv1d(x, 16, stride = 2) as down3)
    code = linear(flatten(x), 6) as code
    x = relu(reshape(linear(code, 8 * 16) as decode, [beat.dim(0), 8, 16]))
    x = relu(grow1d(x, 16) as up1)
    x = relu(grow1d(x, 8) as up2)
    again = reshape(grow1d(x, 1) as up3, [beat.dim(0), T])
    output error = mean((again - beat)^2, axis = 1)
    loss = mean(error)
    output loss
    output verdict = concat(reshape(threshold - error, [beat.dim(0), 1]), reshape(error - threshold, [beat.dim(0), 1]), axis = 1)
    flagged = error > threshold
    output hits = mean(float(flagged and wide == 1))           # flagged and wide
    output misses = mean(float(not flagged and wide == 1))
    output false_alarms = mean(float(flagged and wide == 0))
    train loss with adam(lr = hyper 3e-3)
}
