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
    rows = reshape(zeros [1048576, 1048576, 2], [-1])
    long = concat(zeros [1099511627776, 0], zeros [1, 0], axis = 0)
    input table : f32[1048576, 1048577]
    output pairs = zeros [1048576, 1048576] + zeros [2, 1, 1]
    p = param [1048576, 1048577] init zeros
    state s = zeros [1048577, 1048576]
}
