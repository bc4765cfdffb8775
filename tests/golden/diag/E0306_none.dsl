# A library of functions is no model.
fn f(x) { return x }
