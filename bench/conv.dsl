# One convolution and its two gradients, of square images and kernels; `conv` with all channels, `depthwise` with one each.
dim B = 8
dim H = 56, C = 64, F = 64, K = 3, stride = 1, P = 1
let O = floor_div(H + 2 * P - K, stride) + 1

model conv {
    input x : f32[B, H, H, C]
    input w : f32[K, K, C, F]
    input u : f32[B, O, O, F]
    y = convolve(x, w, O, O, P, P, stride, 1)
    output forward = y
    output dx = vjp(y, x, u)
    output dw = vjp(y, w, u)
}

model depthwise {
    input x : f32[B, H, H, C]
    input w : f32[K, K, C]
    input u : f32[B, O, O, C]
    y[n, h in 0..O, v in 0..O, c] = sum[r, s] x[n, h*stride + r - P, v*stride + s - P, c] * w[r, s, c]
    output forward = y
    output dx = vjp(y, x, u)
    output dw = vjp(y, w, u)
}
