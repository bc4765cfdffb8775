# How tightly each operator binds; the tree shows it.
let p01 = -x^2
let p02 = a@b*c
let p03 = a - b - c / d / e
let p04 = a ^ b ^ c
let p05 = 2^-x^y*z
let p06 = not a == b and not c or d and e
let p07 = if a then b else if c then d else e + 1
let p08 = (if a then b else c) + 1
let p09 = 1 + if a then b else c + 2
let p10 = sum[r] a[r]*b[r] + c[i]
let p11 = -sum[r] max[s in 0..2] a[r, s] / 2 - 1
let p12 = 2 * prod[r in 0..n-1] a[r] @ b - 1
let p13 = zeros like p + 1
let p14 = ones like p.q[0] ^ 2
let p15 = a < b or c >= d
let p16 = a == not b
let p17 = dense(x, 3) as d * 2 + (param [3] init normal(0.02, mean = 1) as w)
let p18 = -a * -b
let p19 = x.dim(-1).rank[0, ..., 1:, :2, ::3, 1:2:3].if.sum
let p20 = f(lo..hi, [1, 2,], axis = 0..-1,)
let p25 = sum[over in 0..2,] in[over] * sum[q] hyper 3
let p21 = a+b < c*d
let p22 = - - a
let p23 = hyper 3 as lr
let p24 = [[1, 2], [], [3.5e-3, "s\"\\"]]
