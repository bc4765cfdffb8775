# A block of the gpt2 example takes as many launches however it is written: in other words and another order, with a softmax in base 2,
# without a maximum, or normalized by the user, norms and gelu by hand, scores scaled in front of the product.
. "$SRC/tests/support/script.sh"
most_forward=7 most_all=20 # of infer, and of step

sed '/^model gpt2/,$d' "$SRC/examples/gpt2/gpt2.dsl" >head
[ "$(grep -c '^layer' head)" = 2 ] || die "the example has other layers"
tail=$SRC/bench/gpt2_block.dsl
cat head "$tail" >plain.dsl

# variant NAME: on stdin the layers
variant() { { sed '/^layer/,$d' head; cat; cat "$tail"; } >"$1.dsl"; }

variant reordered <<'END'
layer mixing(h) {
    three = linear(h, 3 * C) as projection
    key, value, query = three[:, :, C:2*C], three[:, :, 2*C:], three[:, :, :C]
    near = where(causal(T), rsqrt(float(C / H)) * (to_heads(query, H) @ transpose(to_heads(key, H))), -inf)
    return linear(from_heads(softmax(near) @ to_heads(value, H)), C) as back
}
layer block(stream) {
    stream = (mixing(layernorm(stream) as before) as mix) + stream
    wide = linear(layernorm(stream) as between, 4 * C) as up
    return (linear(gelu(wide, form = "tanh"), C) as down) + stream
}
END
attention() { # on stdin what leads from q, k, v to o
    printf 'layer attention(x) {\n    q, k, v = split(linear(x, 3 * C) as qkv, 3, axis = -1)\n'
    cat
    printf '    return linear(from_heads(o), C) as proj\n}\n'
    sed -n '/^layer block/,$p' head
}
attention <<'END' | variant base2
    s = to_heads(q, H) @ transpose(to_heads(k, H)) * (1.44269504 * rsqrt(float(C / H)))
    s = where(causal(T), s, -inf)
    e = 2.0 ^ (s - max(s, axis = -1, keep = true))
    o = (e / sum(e, axis = -1, keep = true)) @ to_heads(v, H)
END
attention <<'END' | variant unshifted
    e = exp(where(causal(T), to_heads(q, H) @ transpose(to_heads(k, H)) * rsqrt(float(C / H)), -inf))
    o = (e / sum(e, axis = -1, keep = true)) @ to_heads(v, H)
END
attention <<'END' | variant normalized
    s = where(causal(T), to_heads(q, H) @ transpose(to_heads(k, H)) * rsqrt(float(C / H)), -inf)
    e = exp(s - max(s, axis = -1, keep = true))
    o = (e / sum(e, axis = -1, keep = true)) @ to_heads(v, H)
END
attention <<'END' | variant scaled
    s = (to_heads(q, H) / 8) @ transpose(to_heads(k, H))
    o = softmax(where(causal(T), s, -inf)) @ to_heads(v, H)
END
variant by_hand <<'END'
layer norm(x) {
    gain = param [C] init ones
    shift = param [C] init zeros
    centred = x - mean(x, axis = -1, keep = true)
    return shift + gain * (centred * rsqrt(mean(centred * centred, axis = -1, keep = true) + 1e-5))
}
fn smooth(u) { return 0.5 * u * (1 + tanh(0.7978845608028654 * (u + 0.044715 * u * u * u))) }
layer attention(x) {
    v = linear(x, C) as value
    k = linear(x, C) as key
    q = linear(x, C) as query
    s = where(causal(T), to_heads(q, H) @ transpose(to_heads(k, H)) * rsqrt(float(C / H)), -inf)
    return linear(from_heads(softmax(s) @ to_heads(v, H)), C) as proj
}
layer block(x) {
    x = x + attention(norm(x) as ln_1) as attn
    return x + linear(smooth(linear(norm(x) as ln_2, 4 * C) as fc), C) as proj
}
END

launches() { "$FUSEC" report $name.dsl --target sm_80 --entry $1 | sed -n "s/^entry $1: \([0-9]*\) launches/\1/p"; }
for name in plain reordered base2 unshifted normalized scaled by_hand; do
    forward=$(launches infer) all=$(launches step)
    [ "${forward:-99}" -le $most_forward ] && [ "${all:-99}" -le $most_all ] ||
        fail "$name: $forward launches forward and $all in a step, not $most_forward and $most_all"
    echo "$name $forward $all"
done
exit $bad
