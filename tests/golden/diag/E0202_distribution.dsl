# Initial values that are no distribution.
model m {
    output w = param [4] init normal(-1)
    output v = param [4] init uniform(2, 1)
}
