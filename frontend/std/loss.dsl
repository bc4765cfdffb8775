# Losses.

# logits: [.., V], labels: i32[..] -> one value per label, 0 where the label is `ignore`
fn cross_entropy(logits, labels, ignore = none) {
    if labels.rank + 1 != logits.rank { return fail("cross_entropy takes class numbers, of all axes of logits but the last (of shares p: -sum(p * log_softmax(logits), axis = -1))", labels) }
    z = logits - row_max(logits, -1)
    hit = expand_dims(labels, -1) == iota(logits.dim(-1), axis = -1, rank = logits.rank)
    loss = log(sum(exp(z), axis = -1)) - sum(where(hit, z, 0), axis = -1)
    if ignore == none { return loss }
    return where(labels == ignore, 0, loss)
}
fn mse(a, b) { return mean((a - b)^2) }

# d^2/2 near 0, linear past delta
fn huber(d, delta = 1) {
    a = abs(d)
    return where(a <= delta, 0.5 * d^2, delta * (a - 0.5 * delta))
}
