let a = if true then 1
let b = [if true then 1, 2]
let c = 1 + (if true then 1)
