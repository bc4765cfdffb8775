# Rows read several times, rows never read, masked reductions.
model embedding {
    input ids : i32[3, 5] in 0..8
    input weight : f32[3, 5]
    e = embed(ids, 8, 4) as table                        # [3, 5, 4]
    keep = ids != 2
    bag = mean(e * expand_dims(weight, -1), axis = 1)    # [3, 4]
    peak = max(e, axis = 1)
    masked = mean(e, axis = 1, where = expand_dims(keep, -1))
    one = one_hot(ids[:, 0], 8) @ (param [8, 4] init normal(0.5) as other)
    loss = sum(bag * peak) + sum((masked - one)^2)
    output loss
    output masked
    output best = argmax(e, axis = 1)
    train loss with adamw(lr = hyper 1e-2)
}
