# Every form of an indexed definition.
dim S <= 8
model indexed {
    input x : f32[6, 4]
    input k : f32[3, 4]
    input i : i32[6] in 0..4
    input b : f32[S]
    product[n in 0..6, c] = sum[r] x[n + r - 1, c] * k[r, c] / 2
    exact[n in 0..12, c] = x[n / 2, c]
    diagonal[n in 0..3] = k[n, n]
    rows[n, c] = k[i[n], c]
    along[n] = x[n, i[n]]
    widest[n in 0..3] = max[r in 0..3, c] (x[2*n + r - 1, c] - k[r, c])
    square = sum[s] b[s]^2
    turned[s] = b[s] * square + float(s)
    output product
    output exact
    output diagonal
    output rows
    output along
    output widest
    output turned
}
