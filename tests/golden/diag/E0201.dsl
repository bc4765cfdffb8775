# Unknown names, functions, initial values; names near them are suggested.
fn scaled(value) { return valeu * 2 }
model m {
    input image : f32[2, 3]
    x = imege + 1
    y = sofmax(x)
    w = param [3] init kaimin
    z = x.size
    output y
    output nowhere
    train y with adan(lr = 0.1)
}
