# Matrix products in every combination of transposes, one and many: bench/shapes.txt gives the sizes.
dim M = 1024, N = 1024, K = 1024, B = 16

model nn {
    input a : f32[M, K]
    b = param [K, N] init uniform(-1.0, 1.0)
    output y = a @ b
}

model nt {
    input a : f32[M, K]
    b = param [N, K] init uniform(-1.0, 1.0)
    output y = a @ transpose(b)
}

model tn {
    input a : f32[K, M]
    b = param [K, N] init uniform(-1.0, 1.0)
    output y = transpose(a) @ b
}

model tt {
    input a : f32[K, M]
    b = param [N, K] init uniform(-1.0, 1.0)
    output y = transpose(a) @ transpose(b)
}

model batch_nn {
    input a : f32[B, M, K]
    b = param [B, K, N] init uniform(-1.0, 1.0)
    output y = a @ b
}

model batch_nt {
    input a : f32[B, M, K]
    b = param [B, N, K] init uniform(-1.0, 1.0)
    output y = a @ transpose(b)
}

model batch_tn {
    input a : f32[B, K, M]
    b = param [B, K, N] init uniform(-1.0, 1.0)
    output y = transpose(a) @ b
}

# Factors of bf16 in memory, sums of f32.
model nn_bf16 {
    precision bf16 weights bf16
    input a : bf16[M, K]
    b = param [K, N] init uniform(-1.0, 1.0)
    output y = a @ b
}
