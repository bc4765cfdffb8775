# Characters that the language has no use for; the rest of each line is read in silence.
let a = 3 $ 4
let b = “text”
let c = 2 × 3
let d = naïve
let e = 'text' # in “comments” anything may stand: naïve × ≤
model m {
    input x : f32[4] ?
    output y = x − 1
}
