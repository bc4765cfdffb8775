dim B <= 4, T <= 16
model attention {
    input x : f32[B, T, 8]
    output y = self_attention(layernorm(x) as ln, 2) as at
}
