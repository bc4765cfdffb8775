x = 3
input y : f32[4]
modle typo { output y }
return 4
relu(x)
model m {
    let a = 3
    dim B = 4
    fn inner(x) { return x }
    input x : f32[4]
    output x
}
