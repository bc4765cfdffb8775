# Limits are refused at once.
model m {
    input x : f32[4]
    a = zeros [1000000, 1000000, 1000000]
    b = zeros [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    repeat 100000000 { x = x + 1 }
    output c = ones [99999999999999]
}
