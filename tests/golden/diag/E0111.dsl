let a = (1 + 2))
let b = [1, 2)
let c = max(1, [2, 3)
let d = 3]
}
let e = , 4
