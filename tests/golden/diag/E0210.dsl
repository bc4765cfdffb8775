# Constant arithmetic that has no result.
let big = 9223372036854775807
model m {
    input x : f32[4]
    input i : i32[4]
    a = x * (big + 1)
    b = x / (1 / 0)
    c = i + 3000000000
    d = int(1e300)
    output e = 7 ^ 99
}
