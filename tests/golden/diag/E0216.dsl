# Limits are refused at once.
model m {
    input x : f32[4]
    a = zeros [1000000, 1000000, 1000000]
    b = zeros [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    repeat 100000000 { x = x + 1 }
    d[i in 0..4] = x[i * 4611686018427387904]
    e[i in 0..4] = max[j in 0..2] x[(i + j) / 1099511627777]
    f[i in 0..4] = sum[j in 0..2] x[i + 9223372036854775807] * x[j]
    input wide : f32[65536, 65536]
    input at : i32[4] in 0..65536
    g[i in 0..4] = wide[at[i], at[i]]
    output c = ones [99999999999999]
}
