# A stride must divide a bounded extent, or the number of windows is no extent.
dim S <= 64
dim T <= 3
model m {
    input x : f32[2, S, 8, 3]
    input y : f32[2, 6*T + 1, 8, 3]
    output a = max_pool2d(x, 2, padding = "valid")
    output b = conv2d(x, 4, 3, stride = 2) as b
    output c = max_pool2d(y, 2)
    output d = max_pool2d(y, 4)
    output e = zeros [floor_div(7 - T, 2)]
    output f = zeros [T / 0]
}
