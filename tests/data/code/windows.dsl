# Convolutions and pooling at sizes of layers: sides, strides, dilation, groups, channels few and many, transposed ones.
model windows {
    input image : f32[4, 64, 64, 3]
    input deep : f32[2, 14, 14, 128]
    input middle : f32[2, 28, 28, 32]
    input flat : f32[1, 9, 17, 24]
    input afar : f32[8, 56, 56, 128]
    input conflicting : f32[2, 14, 14, 512]
    input heavy : f32[1, 7, 7, 1024]
    input broad : f32[4, 64, 300]
    input flat_planes : f32[2, 3, 32, 32]
    input many : f32[8, 28, 28, 512]
    input signal : f32[8, 300, 12]
    k = param [7, 12, 20] init kaiming
    output stem = conv2d(image, 32, 7, stride = 2) as stem
    output five = conv2d(image, 8, 5, padding = "valid") as five
    output three = relu((conv2d(middle, 64, 3) as three))
    output strided = conv2d(middle, 48, 3, stride = 2, bias = false) as strided
    output point = conv2d(deep, 64, 1) as point
    output halved = conv2d(deep, 256, 1, stride = 2) as halved
    output wide = conv2d(deep, 128, 3) as wide
    output dilated = conv2d(middle, 32, 3, dilation = 2) as dilated
    output depth = conv2d(middle, 32, 3, groups = 32) as depth
    output depth5 = conv2d(flat, 24, 5, groups = 24, stride = 2) as depth5
    output depth_afar = conv2d(afar, 128, 3, groups = 128) as depth_afar
    output depth_afar2 = conv2d(afar, 128, 5, groups = 128, stride = 2) as depth_afar2
    output depth_sets = conv2d(conflicting, 512, 3, groups = 512) as depth_sets
    output depth_sets2 = conv2d(conflicting, 512, 3, groups = 512, stride = 2) as depth_sets2
    output doubled = conv2d(middle, 64, 3, groups = 32) as doubled
    output grouped = conv2d(middle, 64, 3, groups = 4) as grouped
    output up = conv_transpose2d(flat, 8, 2, stride = 2) as up
    output up4 = conv_transpose2d(middle, 16, 4, stride = 2, padding = 1) as up4
    output largest = max_pool2d(middle, 3, stride = 2)
    output largest2 = max_pool2d(image, 2)
    output average = avg_pool2d(deep, 7)
    output same = avg_pool2d(flat, 3, stride = 1, padding = "same")
    along[b, t in 0..294, f] = sum[s, c] signal[b, t + s, c] * k[s, c, f]
    output along
    pair[b, t in 0..63, f] = sum[s, c] broad[b, t + s, c] * (param [2, 300, 8] init kaiming as pair_k)[s, c, f]
    output pair
    output heavy_out = conv2d(heavy, 64, 3) as heavy_out
    planes[n, f, h in 0..30, v in 0..30] = sum[c, r, s] flat_planes[n, c, h + r, v + s] * (param [3, 48, 3, 3] init kaiming as planes_k)[c, f, r, s]
    output planes
    halves[n, f, h in 0..15, v in 0..15] = sum[c, r, s] flat_planes[n, c, 2*h + r, 2*v + s] * (param [3, 48, 3, 3] init kaiming as halves_k)[c, f, r, s]
    output halves
    output many_out = conv2d(many, 512, 3, groups = 512, stride = 2) as many_out
    output blurred = conv2d((conv2d(middle, 16, 3) as blurred2), 8, 3) as blurred
    loss = mean(stem^2) + mean(five^2) + mean(three^2) + mean(strided^2) + mean(point^2) + mean(halved^2) +
           mean(wide^2) + mean(dilated^2) + mean(depth^2) + mean(depth5^2) + mean(doubled^2) + mean(grouped^2) +
           mean(up^2) + mean(depth_afar^2) + mean(depth_afar2^2) + mean(depth_sets^2) + mean(depth_sets2^2) +
           mean(up4^2) + mean(pair^2) + mean(heavy_out^2) + mean(along^2) + mean(blurred^2) + mean(planes^2) + mean(halves^2) + mean(many_out^2)
    train loss with sgd(lr = hyper 0.1)
}
