# Convolutions and pooling on [N, H, W, C].

# How many windows of `span` elements an extent has, and how far the first reaches before the start.
fn windows(extent, span, stride, padding) {
    if stride < 1 { return fail("the stride must be at least 1", stride) }
    if span < 1 { return fail("a window needs at least one element a side", span) }
    if padding == "valid" { return windows_padded(extent, span, stride, 0) }
    if padding == "same" {
        n = ceil_div(extent, stride)
        return n, floor_div(max(0, (n - 1) * stride + span - extent), 2)
    }
    if is_integer(padding) { return windows_padded(extent, span, stride, padding) }
    return fail("padding must be \"same\", \"valid\", a number of elements, or for conv2d \"reflect\"", padding)
}
fn windows_padded(extent, span, stride, padding) {
    if padding < 0 { return fail("a padding must be at least 0", padding) }
    n = floor_div(extent + 2 * padding - span, stride) + 1
    if is_integer(n) { if n < 1 { return fail("no window fits into the image and its padding") } }
    return n, padding
}

# For positions -before .. extent + after, the element that stands there when the tensor is mirrored at its ends.
fn mirrored(extent, before, after) {
    if is_integer(extent) {
        if max(before, after) >= extent { return fail("an image is mirrored by less than its extent", max(before, after)) }
    }
    i = abs(iota(extent + before + after) - before)
    return (extent - 1) - abs((extent - 1) - i)
}

# k: [R, S, C, F]; ph, pw: how far the first window reaches before the start
fn convolve(x, k, oh, ow, ph, pw, stride, dilation) {
    y[n, h in 0..oh, w in 0..ow, f] = sum[r, s, c] x[n, h*stride + r*dilation - ph, w*stride + s*dilation - pw, c] * k[r, s, c, f]
    return y
}
# x: [N, H, W, G, C/G], k: [R, S, C/G, G, F/G]
fn convolve_groups(x, k, oh, ow, ph, pw, stride, dilation) {
    y[n, h in 0..oh, w in 0..ow, g, f] = sum[r, s, c] x[n, h*stride + r*dilation - ph, w*stride + s*dilation - pw, g, c] * k[r, s, c, g, f]
    return reshape(y, [x.dim(0), oh, ow, k.dim(3) * k.dim(4)])
}

layer conv2d(x, n, k, stride = 1, dilation = 1, groups = 1, padding = "same", bias = true) {
    if x.rank != 4 { return fail("conv2d takes images [N, H, W, C]", x) }
    if not is_integer(k) { return fail("conv2d takes one number for both sides of its kernel; others are written as sums", k) }
    if dilation < 1 { return fail("the dilation must be at least 1", dilation) }
    w = param [k, k, x.dim(3) / groups, n] init kaiming
    span = (k - 1) * dilation + 1
    reach = if padding == "reflect" then "same" else padding
    oh, ph = windows(x.dim(1), span, stride, reach)
    ow, pw = windows(x.dim(2), span, stride, reach)
    if padding == "reflect" {
        x = x[:, mirrored(x.dim(1), ph, max(0, (oh - 1) * stride + span - x.dim(1) - ph))]
        x = x[:, :, mirrored(x.dim(2), pw, max(0, (ow - 1) * stride + span - x.dim(2) - pw))]
        ph, pw = 0, 0
    }
    if groups == 1 {
        y = convolve(x, w, oh, ow, ph, pw, stride, dilation)
    } else {
        if mod(x.dim(3), groups) != 0 or mod(n, groups) != 0 {
            return fail("the number of groups must divide the channels that come in and go out", groups)
        }
        grouped = reshape(x, [x.dim(0), x.dim(1), x.dim(2), groups, x.dim(3) / groups])
        kernel = reshape(w, [k, k, x.dim(3) / groups, groups, n / groups])
        y = convolve_groups(grouped, kernel, oh, ow, ph, pw, stride, dilation)
    }
    if bias { y = y + (param [n] init zeros as b) }
    return y
}

# [N, H, W, C] -> [N, (H - 1)*stride + k - 2*padding, .., n]; w: [k, k, C, n]
layer conv_transpose2d(x, n, k, stride = 1, padding = 0, bias = true) {
    if not is_integer(padding) { return fail("the padding of conv_transpose2d must be a number of elements", padding) }
    if x.rank != 4 { return fail("conv_transpose2d takes images [N, H, W, C]", x) }
    kernel = (param [k, k, x.dim(3), n] init kaiming as w)
    oh = (x.dim(1) - 1) * stride + k - 2 * padding
    ow = (x.dim(2) - 1) * stride + k - 2 * padding
    if is_integer(oh) and is_integer(ow) {
        if min(oh, ow) < 1 { return fail("the padding leaves nothing of the image", padding) }
    }
    rows, ph = windows(oh, k, stride, padding)       # of the result: as many as the image has
    columns, pw = windows(ow, k, stride, padding)
    y[i, h in 0..oh, w in 0..ow, f] = sum[r, s, c] x[i, (h + ph - r) / stride, (w + pw - s) / stride, c] * kernel[r, s, c, f]
    if bias { y = y + (param [n] init zeros as b) }
    return y
}

fn max_pool2d(x, k, stride = k, padding = "valid") {
    if x.rank != 4 { return fail("max_pool2d takes images [N, H, W, C]", x) }
    oh, ph = windows(x.dim(1), k, stride, padding)
    ow, pw = windows(x.dim(2), k, stride, padding)
    y[n, h in 0..oh, w in 0..ow, c] = max[r in 0..k, s in 0..k] x[n, h*stride + r - ph, w*stride + s - pw, c]
    return y
}

# The mean of what lies inside.
fn avg_pool2d(x, k, stride = k, padding = "valid") {
    if x.rank != 4 { return fail("avg_pool2d takes images [N, H, W, C]", x) }
    oh, ph = windows(x.dim(1), k, stride, padding)
    ow, pw = windows(x.dim(2), k, stride, padding)
    y[n, h in 0..oh, w in 0..ow, c] = sum[r in 0..k, s in 0..k] x[n, h*stride + r - ph, w*stride + s - pw, c]
    if padding == "valid" { return y / float(k * k) }
    inside = ones [x.dim(1), x.dim(2)]
    count[h in 0..oh, w in 0..ow, c in 0..1] = sum[r in 0..k, s in 0..k] inside[h*stride + r - ph, w*stride + s - pw]
    return y / count
}
