#!/bin/sh
# N steps in one go, and k steps, save, load into another context of another seed, N - k steps: the same bits of parameters and
# states, for each optimizer of the library and some of a user's own (an average that begins as the parameters, one by `step`,
# one that draws), in f32, bf16, weights of bf16 (rounded at
# random) and f16 (the loss scale is a state; steps that it skips count), in every form of the artifact.
. "$SRC/tests/support/script.sh"
cc=${CC:-cc}
flags="-std=c11 -Wall -Wextra -Werror -O1 $sanitize"

cat >main.c <<'END_C'
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MUST(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); exit(1); } } while (0)
enum { ROOM = 1 << 16, ALL = M_PARAM_BYTES + M_STATE_BYTES + 1, STEPS = 7 };
static unsigned char file[ROOM];
static size_t n;
static int put(void *user, const void *from, uint32_t bytes) {
    (void)user;
    if (bytes > ROOM - n) return 1;
    memcpy(file + n, from, bytes);
    n += bytes;
    return 0;
}
static int get(void *user, uint64_t offset, void *to, uint32_t bytes) {
    (void)user;
    if (offset > n || bytes > n - offset) return 1;
    memcpy(to, file + offset, bytes);
    return 0;
}
static const fusec_io io = {NULL, put, get};
static m whole, part, rest;
static unsigned char a[ALL], b[ALL];
static int skipped;

#ifdef FUSEC_CUDA_H
static void start(m *x, uint32_t seed) {
    const m_options o = {.seed = seed};
    MUST(m_init(x, NULL, &o) == FUSEC_OK);
}
static void read_all(m *x, unsigned char *to) {
    MUST(fusec_cuda_read(&x->cuda, FUSEC_R_PARAM, 0, to, M_PARAM_BYTES) == FUSEC_OK);
    MUST(fusec_cuda_read(&x->cuda, FUSEC_R_STATE, 0, to + M_PARAM_BYTES, M_STATE_BYTES) == FUSEC_OK);
}
static void finish(m *x) { m_free(x); }
#else
#ifdef FUSEC_HOST_H
#define MEMORY(x) (x)->host.memory
#define END(x) m_free(x)
#else
#define MEMORY(x) (x)->memory
#define END(x) (void)(x)
#endif
static void *block(size_t bytes) { void *p = aligned_alloc(256, (bytes / 256 + 2) * 256); MUST(p); return memset(p, 0, bytes); }
static void start(m *x, uint32_t seed) {
    const m_options o = {.seed = seed, .threads = 2};
    const m_memory y = {.params = block(M_PARAM_BYTES), .param_bytes = M_PARAM_BYTES, .states = block(M_STATE_BYTES),
        .state_bytes = M_STATE_BYTES, .grads = block(M_GRAD_BYTES), .grad_bytes = M_GRAD_BYTES, .arena = block(M_ARENA_BYTES),
        .arena_bytes = M_ARENA_BYTES};
    MUST(m_init(x, &y, &o) == FUSEC_OK);
}
static void read_all(m *x, unsigned char *to) {
    memcpy(to, MEMORY(x).params, M_PARAM_BYTES);
    memcpy(to + M_PARAM_BYTES, MEMORY(x).states, M_STATE_BYTES);
}
static void finish(m *x) {
    const m_memory y = MEMORY(x);
    END(x);
    free(y.params), free(y.states), free(y.grads), free(y.arena);
}
#endif

static void steps(m *x, int count) {
    static float in[30], target[6], loss;
    for (int i = 0; i < 30; i++) in[i] = (float)(i * 7 % 11) / 6 - 1;
    for (int i = 0; i < 6; i++) target[i] = (float)(i % 4) / 4;
    const m_inputs given = {.x = in, .y = target};
    const m_outputs out = {.loss = &loss};
    while (count-- > 0) {
        const int32_t step = x->step;
        target[0] = step < 2 ? 1e5f : 0.25f; /* no gradient in f16 */
        fusec_status s = m_step(x, &given, &out, NULL);
#ifdef FUSEC_CUDA_H
        if (s == FUSEC_OK) s = fusec_cuda_wait(&x->cuda);
#endif
        MUST((s == FUSEC_OK || s == FUSEC_SKIPPED) && x->step == step + 1);
        skipped += s == FUSEC_SKIPPED;
    }
}
static int same(void) {
    int same = 1;
    for (uint32_t i = 0; i < m_manifest.n_params; i++)
        same &= !memcmp(a + m_manifest.params[i].offset, b + m_manifest.params[i].offset, m_manifest.params[i].bytes);
    for (uint32_t i = 0; i < m_manifest.n_states; i++) {
        const uint64_t at = M_PARAM_BYTES + m_manifest.states[i].offset;
        same &= !memcmp(a + at, b + at, m_manifest.states[i].bytes);
    }
    return same;
}

int main(void) {
    start(&whole, 3);
    steps(&whole, STEPS);
    read_all(&whole, a);
    for (int k = 0; k <= STEPS; k += k ? 3 : 1) {
        start(&part, 3);
        steps(&part, k);
        n = 0;
        MUST(m_save(&part, &io) == FUSEC_OK);
        start(&rest, 1000u + (uint32_t)k);
        steps(&rest, k % 2);
        MUST(m_load(&rest, &io) == FUSEC_OK);
        MUST(rest.step == part.step && rest.seed == 3);
        steps(&rest, STEPS - k);
        read_all(&rest, b);
        MUST(same());
        MUST(rest.step == whole.step);
        finish(&part), finish(&rest);
    }
    printf("%d skipped\n", skipped);
    finish(&whole);
    return 0;
}
END_C

model() { # OPTIMIZER STATEMENT
    cat <<END
optimizer mean(p, g, lr) {
    state e = p
    state t = sum(p) * 0.5
    p <- p - lr * (g + 0.01 * (p - e)) * (1 + 1 / step)
    e <- 0.9 * e + 0.1 * p
    t <- t + sum(g)
}
optimizer counts(p, g, lr) {
    state k = 0.0
    p <- p - lr / (k + step) * g
    k <- k + 1
}
optimizer noisy(p, g, lr) { p <- dropout(p - lr * g, 0.2) }
model m {
    input x : f32[6, 5]
    input y : f32[6]
    state seen = 0.0
    seen <- seen + sum(x)
    $2
    h = dropout(tanh(linear(x, 7) as a), 0.25)
    loss = mse(sum(linear(h, 1) as b, axis = 1), y)
    output loss
    rate = hyper 0.05
    train loss with $1(lr = rate * warmup_cosine(1.0, 3, 9))
}
END
}

try() { # WHAT DIR SOURCES AND FLAGS..
    what=$1 dir=$2
    shift 2
    # shellcheck disable=SC2086
    $cc $flags -I"$dir" main.c "$@" -o "$dir/run" || die "$what: not compiled"
    "$dir/run" >log 2>&1 && case $what in *' f16') grep -q '^[1-9]' log ;; *) grep -q '^0' log ;; esac ||
        fail "$what: $(cat log)"
}
mkdir host c99 gpu || exit 1
tried=0
for optimizer in sgd momentum adam adamw mean counts noisy; do
    for precision in f32 bf16 'bf16 weights bf16' f16; do
        case $optimizer.$precision in adamw.* | mean.* | *.f32) ;; *) continue ;; esac
        model $optimizer "$([ "$precision" = f32 ] || echo "precision $precision")" >m.dsl
        what="$optimizer in $precision"
        "$FUSEC" m.dsl -o c99/m.c || die "$what: no C"
        try "c99, $what" c99 -ffp-contract=off c99/m.c
        "$FUSEC" m.dsl -o host/m.o || die "$what: no object"
        try "host, $what" host host/m.o "$BUILD/runtime/libfusec_host.a" -lm -lpthread
        tried=$((tried + 1))
        case "$flags $precision" in *sanitize* | *' bf16') continue ;; esac
        has_software_gpu || continue
        "$FUSEC" m.dsl -o gpu/m.ptx --embed || die "$what: no PTX"
        try "gpu, $what" gpu gpu/m.c -ldl
    done
done
echo "$tried programs"
exit $bad
