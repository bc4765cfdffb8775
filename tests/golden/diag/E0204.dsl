# Element types do not convert by themselves.
model m {
    input i : i32[4] in 0..10
    input x : f32[4]
    input c : tf32[4]
    input d : float[4]
    output a = i * 0.5
    output b = i + x
    output e = exp(i)
    output f = where(x, 1, 2)
    output g = (x > 0) + 1
    output h = x and x
    output j = "text" + x
    output k = x @ 2
}
