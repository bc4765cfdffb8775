#!/bin/sh
# The C99 form reports each gradient once, in the manifest's order, with its final value, before the last kernels have
# run; compiled without a hook it has no trace of one.
. "$SRC/tests/support/script.sh"
cat >m.dsl <<'END'
model m {
    input x : f32[8, 10]
    input label : i32[8] in 0..4
    h = gelu(linear(x, 24) as first)
    logits = linear(layernorm(h) as norm, 4) as second
    loss = mean(cross_entropy(logits, label))
    output loss
    train loss with sgd(lr = hyper 0.1)
}
END
cat >main.c <<'END'
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void ready(const fusec_memory *memory, uint64_t offset, uint64_t bytes);
static char seen[M_GRAD_BYTES];
static unsigned n, later;
void ready(const fusec_memory *memory, uint64_t offset, uint64_t bytes) {
    const fusec_tensor *t = &m_manifest.grads[n++];
    if (n > m_manifest.n_grads || t->offset != offset || t->bytes != bytes) exit(2);
    memcpy(seen + offset, (char *)memory->grads + offset, bytes);
    const fusec_tensor *last = &m_manifest.grads[m_manifest.n_grads - 1];
    if (n == 1) later = ((float *)((char *)memory->grads + last->offset))[0] == 1234;
}
int main(void) {
    static m model;
    float x[80], loss;
    int32_t label[8] = {0, 1, 2, 3, 3, 2, 1, 0};
    const m_memory memory = {.params = aligned_alloc(256, M_PARAM_BYTES + 256), .param_bytes = M_PARAM_BYTES,
        .states = aligned_alloc(256, 256), .state_bytes = M_STATE_BYTES, .grads = aligned_alloc(256, M_GRAD_BYTES + 256),
        .grad_bytes = M_GRAD_BYTES, .arena = aligned_alloc(256, M_ARENA_BYTES + 256), .arena_bytes = M_ARENA_BYTES};
    const m_inputs in = {.x = x, .label = label};
    const m_outputs out = {.loss = &loss};
    for (int i = 0; i < 80; i++) x[i] = (float)(i * 37 % 19) / 7 - 1;
    for (unsigned i = 0; i < M_GRAD_BYTES / 4; i++) ((float *)memory.grads)[i] = 1234;
    if (m_init(&model, &memory, NULL) || m_grad(&model, &in, &out, false)) return 1;
    for (unsigned g = 0; g < n; g++) {
        const fusec_tensor *t = &m_manifest.grads[g];
        if (memcmp(seen + t->offset, (char *)memory.grads + t->offset, t->bytes)) return 3;
    }
    printf("%u of %u%s\n", n, m_manifest.n_grads, later ? ", the first before the last was there" : "");
    return 0;
}
END
"$FUSEC" m.dsl -o m.c || exit 1
flags='-std=c11 -Wall -Wextra -Werror -O1'
${CC:-cc} $flags -DM_GRADIENT_READY=ready main.c m.c -lm -o with && ${CC:-cc} $flags main.c m.c -lm -o without || exit 1
[ "$(./with)" = "6 of 6, the first before the last was there" ] || { ./with; exit 1; }
[ "$(./without)" = "0 of 6" ] || { ./without; exit 1; }

# hundreds of launches are functions of a few each: C compilers take time for the square of one that stores for thousands of calls
sed '/h = gelu/a\    repeat 60 as l { h = h + tanh(linear(layernorm(h) as n, 24) as p) }' m.dsl >deep.dsl
"$FUSEC" deep.dsl -o m.c || exit 1
grep -q '^static void m_run_grad_16(' m.c || { echo "FAIL: one function has all launches"; exit 1; }
${CC:-cc} $flags -DM_GRADIENT_READY=ready main.c m.c -lm -o with || exit 1
[ "$(./with)" = "246 of 246, the first before the last was there" ] || { ./with; exit 1; }
quick_c
"$FUSEC" verify deep.dsl --target c99 --entry step --rounds 1 --quiet || exit 1
