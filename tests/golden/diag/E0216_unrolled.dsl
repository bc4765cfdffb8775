model m {
    input x : f32[4]
    repeat 100000 {
        repeat 100000 { x = x + 1 }
    }
    output x
}
