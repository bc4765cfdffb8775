let a = 1. + 2
let b = .5
let c = 2x
let d = 1e-
let e = 0x10
let f = 1_000
let g = 1.5.2
