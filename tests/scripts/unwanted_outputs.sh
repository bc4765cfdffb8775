#!/bin/sh
# Outputs that others read, left out or given, in every form: what is given has the same bytes either way, and so have gradients and
# parameters.  One is read from an element past the first, one would be laid out wider in the arena, one leaves in another shape than
# that in which a loss reads it: that one is written once.
. "$SRC/tests/support/script.sh"

cat >m.dsl <<'END_DSL'
dim B <= 6
model m {
    input x : f32[B, 64]
    h = tanh(linear(x, 64) as f)
    square = param [24, 64] init normal(1.0)
    y = softmax(square)
    narrow = square[:, 0:37] * 0.5
    logits = linear(reshape(square, [4, 6, 64]), 9) as head
    labels = iota(6, axis = 1, rank = 2) + 0 * iota(4, axis = 0, rank = 2)
    loss = mean(exp(h)) + mean(y[8:24, 16:48]^2) + mean(y) + mean(transpose(narrow) @ y) + mean(cross_entropy(logits, labels))
    output h
    output y
    output narrow
    output loss
    output logits
    train loss with sgd(lr = 0.1)
}
END_DSL
cat >main.c <<'END_C'
#include "any_form.h"
enum { OUTPUTS = 5, EXTENT = 5, KEPT = M_PARAM_BYTES + M_GRAD_BYTES };
static const size_t COUNT[OUTPUTS] = {6 * 64, 24 * 64, 24 * 37, 1, 24 * 9};
static float x[6 * 64], all[OUTPUTS][24 * 64], some[OUTPUTS][24 * 64];
static unsigned char with_all[KEPT], with_some[KEPT];

/* The outputs of `mask` into `to`, from the seed's parameters on. */
static void call(int entry, unsigned mask, float to[OUTPUTS][24 * 64], unsigned char *kept) {
    float *at[OUTPUTS];
    begin();
    for (int o = 0; o < OUTPUTS; o++) {
        memset(to[o], 0xee, sizeof to[o]);
        at[o] = mask >> o & 1 ? to[o] : NULL;
    }
    const m_inputs in = {.x = x, .B = EXTENT};
    const m_outputs out = {.h = at[0], .y = at[1], .narrow = at[2], .loss = at[3], .logits = at[4]};
    fusec_status s = FUSEC_OK;
    if (entry == 0) s = m_infer(&model, &in, &out);
    if (entry == 1) s = m_grad(&model, &in, &out, 0);
    if (entry == 2) s = m_step(&model, &in, &out, NULL);
    if (s != FUSEC_OK) fprintf(stderr, "entry %d, outputs %x: %s\n", entry, mask, fusec_status_text(s)), exit(1);
    read_memory(FUSEC_R_PARAM, kept, M_PARAM_BYTES);
    read_memory(FUSEC_R_GRAD, kept + M_PARAM_BYTES, M_GRAD_BYTES);
    end();
}

int main(void) {
    for (int i = 0; i < 6 * 64; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int entry = 0; entry < 3; entry++) {
        call(entry, 31, all, with_all);
        for (unsigned mask = entry == 0; mask < 31; mask++) {
            call(entry, mask, some, with_some);
            for (int o = 0; o < OUTPUTS; o++) {
                const unsigned char *bytes = (const unsigned char *)some[o];
                const size_t n = mask >> o & 1 ? (o ? COUNT[o] : EXTENT * 64) * sizeof(float) : 0;
                MUST(!memcmp(some[o], all[o], n));
                for (size_t b = n; b < sizeof some[o]; b++) MUST(n || bytes[b] == 0xee); /* what is not given is not touched */
            }
            MUST(entry == 0 || !memcmp(with_some, with_all, entry == 1 ? KEPT : M_PARAM_BYTES));
        }
    }
    return 0;
}
END_C
in_every_form m.dsl
grep -q 'outputs\[[01]\] + ' m.c || fail "nothing is read from past the first element of an output"
"$FUSEC" report m.dsl --target c99 --entry infer >log || die "no report"
[ "$(grep -c infer_map log)" = 1 ] || fail "another output than the one of 37 columns is copied: $(grep infer_ log)"
# Several outputs of one value, each in a shape of its own.
cat >shapes.dsl <<'END_DSL'
model shapes {
    input x : f32[4, 6]
    v = x @ (param [6, 8] init normal(1.0) as w)
    a = reshape(v, [2, 2, 8])
    output a
    output b = reshape(v, [32])
    output c = reshape(a, [8, 4])
    loss = mean(tanh(v)^2) + mean(a[0]^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END_DSL
all_targets
for more in '' '    output v'; do
    sed "s/^    output loss/&\n$more/" shapes.dsl >several.dsl
    "$FUSEC" verify several.dsl --target $targets --rounds 1 --quiet >log 2>&1 || fail "several shapes: $(cat log)"
done
exit $bad
