let tiny = 1e-300
let a = 1e400
let b = 2.5e-400
