#!/bin/sh
# The host form through model.h alone: `cc main.c model.o libfusec_host.a -lm -lpthread`.  One program trains, infers, saves
# and loads; its numbers are the same bits with any number of threads, and those of the C99 form to 1e-4 of the larger of 1
# and the number (sums are taken in another order).  Two models share one program.
set -e
. "$SRC/tests/support/script.sh"
mkdir host c99 two

library="$BUILD/runtime/libfusec_host.a"
[ -e "$library" ] || die "there is no $library"
flags="-Wall -Wextra -Werror -O1 $sanitize"
cc=${CC:-cc}

cat >main.c <<'END_C'
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { ROWS = 256, PIXELS = 64, CLASSES = 10, STEPS = 20, FILE_BYTES = 1 << 20 };

static void *block(size_t n) { return aligned_alloc(DIGITS_MLP_ALIGN, (n / DIGITS_MLP_ALIGN + 1) * DIGITS_MLP_ALIGN); }
static digits_mlp_memory memory_of(void) {
    const digits_mlp_memory memory = {
        .params = block(DIGITS_MLP_PARAM_BYTES), .param_bytes = DIGITS_MLP_PARAM_BYTES,
        .states = block(DIGITS_MLP_STATE_BYTES), .state_bytes = DIGITS_MLP_STATE_BYTES,
        .grads = block(DIGITS_MLP_GRAD_BYTES), .grad_bytes = DIGITS_MLP_GRAD_BYTES,
        .arena = block(DIGITS_MLP_ARENA_BYTES), .arena_bytes = DIGITS_MLP_ARENA_BYTES};
    return memory;
}
static void release(const digits_mlp_memory *m) {
    free(m->params), free(m->states), free(m->grads), free(m->arena);
}

#ifdef FUSEC_HOST_H /* the host form has threads, the C99 form has not */
static void start_down(void *user, int n, void (*run)(void *ctx, int i), void *ctx) { /* the last piece first */
    ++*(int *)user;
    while (n-- > 0) run(ctx, n);
}
static void end(digits_mlp *model) { digits_mlp_free(model); }
#else
static void end(digits_mlp *model) { (void)model; }
#endif

typedef struct Saved {
    unsigned char data[FILE_BYTES];
    size_t n;
} Saved;
static int save_bytes(void *user, const void *from, uint32_t n) {
    Saved *s = user;
    if (n > FILE_BYTES - s->n) return 1;
    memcpy(s->data + s->n, from, n);
    s->n += n;
    return 0;
}
static int load_bytes(void *user, uint64_t offset, void *to, uint32_t n) {
    const Saved *s = user;
    if (offset > s->n || n > s->n - offset) return 1;
    memcpy(to, s->data + offset, n);
    return 0;
}
static Saved saved;

static float image[ROWS * PIXELS];
static int32_t label[ROWS];
static void data(void) {
    uint32_t r = 12345;
    for (int i = 0; i < ROWS; i++) {
        label[i] = i * 7 % CLASSES;
        for (int p = 0; p < PIXELS; p++) {
            r = r * 1664525u + 1013904223u;
            image[i * PIXELS + p] = (float)(r >> 28) * (p % CLASSES == label[i] ? 1.0f : 0.5f);
        }
    }
}

static void show(const char *what, const float *x, int n) {
    for (int i = 0; i < n; i++) printf("%s %.9g\n", what, (double)x[i]);
}
/* By the manifest: the forms align tensors differently, and may compute gradients in another order. */
static void show_grads(const char *what, const void *grads) {
    for (uint32_t i = 0; i < digits_mlp_manifest.n_grads; i++) {
        const fusec_tensor *t = &digits_mlp_manifest.grads[i];
        char name[64];
        snprintf(name, sizeof name, "%s.%s", what, t->name);
        show(name, (const float *)((const char *)grads + t->offset), (int)(t->bytes / sizeof(float)));
    }
}
#define MUST(call, expected) \
    do { \
        const fusec_status got = (call); \
        if (got != (expected)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, fusec_status_text(got)); \
            return 1; \
        } \
    } while (0)

int main(int argc, char **argv) {
    float loss = 0, before[ROWS * CLASSES], after[ROWS * CLASSES];
    digits_mlp model;
    digits_mlp_options options = {.seed = 7, .threads = argc > 1 ? atoi(argv[1]) : 1};
    const digits_mlp_memory memory = memory_of(), other = memory_of();
    const digits_mlp_inputs in = {.image = image, .label = label, .B = ROWS}, few = {.image = image, .label = label, .B = 5};
    const digits_mlp_outputs none = {0}, out = {.loss = &loss, .probability = before};
    data();
#ifdef FUSEC_HOST_H
    int calls = 0;
    if (options.threads < 0) options.parallel_for = start_down, options.user = &calls;
    memset(&model, 0xa5, sizeof model);
    MUST(digits_mlp_init(&model, NULL, &options), FUSEC_E_ARGUMENT);
    end(&model); /* after an error too */
#endif
    MUST(digits_mlp_init(&model, &memory, &options), FUSEC_OK);
    for (int step = 0; step < STEPS; step++) {
        MUST(digits_mlp_step(&model, step % 5 == 3 ? &few : &in, &out, NULL), FUSEC_OK);
        show("loss", &loss, 1);
    }
    const digits_mlp_hyper slow = {.lr = 1e-5f};
    MUST(digits_mlp_step(&model, &in, &none, &slow), FUSEC_OK); /* outputs may be left out */
    if (model.step != STEPS + 1) return 2;
    MUST(digits_mlp_grad(&model, &in, &out, false), FUSEC_OK);
    show_grads("grad", memory.grads);
    MUST(digits_mlp_grad(&model, &in, &out, true), FUSEC_OK);
    show_grads("twice", memory.grads);
    const digits_mlp_outputs only = {.probability = before}, again = {.probability = after};
    MUST(digits_mlp_infer(&model, &in, &only), FUSEC_OK);
    show("probability", before, ROWS * CLASSES);

    /* Refused: a label out of its range, an extent above its bound, an input that is missing. */
    const digits_mlp_inputs many = {.image = image, .label = label, .B = ROWS + 1}, blank = {.label = label, .B = ROWS};
    label[3] = CLASSES;
    MUST(digits_mlp_step(&model, &in, &out, NULL), FUSEC_E_RANGE);
    label[3] = 3 * 7 % CLASSES;
    MUST(digits_mlp_infer(&model, &many, &out), FUSEC_E_ARGUMENT);
    MUST(digits_mlp_infer(&model, &blank, &out), FUSEC_E_ARGUMENT);

    /* Saved weights, loaded into a model that began elsewhere, give the same answers. */
    const fusec_io io = {.user = &saved, .write = save_bytes, .read = load_bytes};
    digits_mlp second;
    options.seed = 8;
    MUST(digits_mlp_save(&model, &io), FUSEC_OK);
    MUST(digits_mlp_init(&second, &other, &options), FUSEC_OK);
    MUST(digits_mlp_infer(&second, &in, &again), FUSEC_OK);
    if (memcmp(before, after, sizeof before) == 0) return 3; /* another seed, other weights */
    MUST(digits_mlp_load(&second, &io), FUSEC_OK);
    MUST(digits_mlp_infer(&second, &in, &again), FUSEC_OK);
    if (memcmp(before, after, sizeof before) != 0) return 4;
    saved.data[saved.n - 1] ^= 1;
    MUST(digits_mlp_load(&second, &io), FUSEC_E_FORMAT);
#ifdef FUSEC_HOST_H
    if (options.parallel_for && calls == 0) return 5;
#endif
    end(&second), end(&model), release(&memory), release(&other);
    return 0;
}
END_C

# 256 rows, for at most 32 are too little work to be divided.
"$FUSEC" "$SRC/examples/digits/mlp.dsl" -D B=256 -o host/m.o
"$FUSEC" "$SRC/examples/digits/mlp.dsl" -D B=256 -o c99/m.c
grep -q 'cc main.c MODEL.o libfusec_host.a -lm -lpthread' host/m.h || die "m.h does not say how to link"
$cc $flags -std=c11 -Ihost main.c host/m.o "$library" -lm -lpthread -o host/run
$cc $flags -std=c11 -Ic99 main.c c99/m.c -lm -o c99/run
for threads in 1 2 5 0 -1; do # 0: all cores; -1: options.parallel_for
    host/run $threads >host/out.$threads || die "$threads threads: exit status $?"
    cmp host/out.1 host/out.$threads || die "$threads threads: other bits"
done
c99/run >c99/out || die "the C99 form: exit status $?"

[ "$(grep -c '^loss ' host/out.1)" = 20 ] && [ "$(wc -l <host/out.1)" -gt 10000 ] || die "too few numbers"
for out in c99/out host/out.1; do sort -s -k 1,1 $out >$out.sorted; done
paste -d ' ' c99/out.sorted host/out.1.sorted | awk '
    { e = $2 - $4; if (e < 0) e = -e; s = $2 < 0 ? -$2 : $2; if (s < 1) s = 1
      if ($1 != $3 || NF != 4 || !(e <= 1e-4 * s)) { print "differs: " $0; bad = 1 } }
    $1 == "loss" { if (first == "") first = $4; last = $4 }
    $1 ~ /^grad[.]/ { grad[g++] = $4 }
    $1 ~ /^twice[.]/ { e = $4 - 2 * grad[t++]; if (e > 1e-5 || e < -1e-5) { print "not accumulated: " $0; bad = 1 } }
    END { if (!(last < first)) { print "the loss does not fall: " first " to " last; bad = 1 }; exit bad }' >differences || { head -n 5 differences; die "wrong numbers"; }

# Two models in one program, one of them called what C keeps for itself, and one that has nothing to train.
cat >a.dsl <<'END_DSL'
model double {
    input x : f32[4]
    output y = x * 2 + (param [4] init ones as w)
}
END_DSL
sed 's/model double/model other/; s/\* 2/* 3/' a.dsl >b.dsl
cat >two.c <<'END_C'
#include "a.h"
#include "b.h"
static double_ a;
static other b;
int main(void) {
    static union { float w[1024]; double align[512]; } pa, pb;
    const float x[4] = {1, 2, 3, 4};
    float ya[4], yb[4];
    static fusec_memory ma, mb;
    static fusec_options options;
    double__inputs ia;
    double__outputs oa;
    other_inputs ib;
    other_outputs ob;
    options.threads = 2;
    ma.params = (void *)(((uintptr_t)&pa + DOUBLE__ALIGN - 1) / DOUBLE__ALIGN * DOUBLE__ALIGN);
    ma.param_bytes = DOUBLE__PARAM_BYTES;
    mb.params = (void *)(((uintptr_t)&pb + OTHER_ALIGN - 1) / OTHER_ALIGN * OTHER_ALIGN);
    mb.param_bytes = OTHER_PARAM_BYTES;
    ia.x = ib.x = x;
    oa.y = ya;
    ob.y = yb;
    if (double__init(&a, &ma, &options) || other_init(&b, &mb, &options)) return 1;
    if (double__infer(&a, &ia, &oa) || other_infer(&b, &ib, &ob)) return 2;
    double__free(&a);
    other_free(&b);
    for (int i = 0; i < 4; i++)
        if (ya[i] != 2 * x[i] + 1 || yb[i] != 3 * x[i] + 1) return 3;
    return 0;
}
END_C
for m in a b; do "$FUSEC" $m.dsl -o two/$m.o; done
$cc $flags -std=c99 -pedantic -Itwo two.c two/a.o two/b.o "$library" -lm -lpthread -o two/run
two/run || die "two models: exit status $?"
if command -v c++ >/dev/null; then # the headers are C++ too, in one program with C's objects
    cp two.c two.cc
    c++ $flags -Itwo -c two.cc -o two/cc.o
    $cc $flags two/cc.o two/a.o two/b.o "$library" -lm -lpthread -o two/run
    two/run || die "two models, C++: exit status $?"
fi

# A pooling window is shorter than a vector: its extremum runs along the channels, though positions in a table, which tell
# what lies inside, are neighbours along the window.
cat >pool.dsl <<'END'
model pool {
    input x : f32[2, 16, 16, 32]
    w = param [32] init ones
    loss = sum(max_pool2d(x * w, 3, stride = 2, padding = 1))
    output loss
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" pool.dsl -o pool.ll --entry grad --triple x86_64-linux-gnu --arch x86-64-v3
grep -q 'fcmp oeq <8 x float>' pool.ll || die "an extremum over a window compares one number at a time"

# Two paths that are one identifier in C: a gradient is called as its parameter is, in whatever order gradients come.
cat >paths.dsl <<'END'
layer one(x) {
    b = param [2] init ones
    return x * b
}
model paths {
    input x : f32[2]
    a_b = param [3] init zeros
    y = one(x) as a
    loss = sum(y) + sum(a_b)
    output loss
    train loss with sgd(lr = 0.1) only "a.b"
}
END
"$FUSEC" paths.dsl -o paths.o
grep -q 'PATHS_PARAM_A_B_2 .* f32 \[2\]' paths.h && grep -q 'PATHS_GRAD_A_B_2 .* f32 \[2\]' paths.h ||
    die "a gradient has the name of another parameter: $(grep _A_B paths.h)"
