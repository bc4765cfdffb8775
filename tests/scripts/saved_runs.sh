#!/bin/sh
# A run that is saved and loaded ends in the bits of one that was not, in each form of the artifact: dropout, a schedule and
# Adam go by step and seed.  States computed from parameters follow the parameters that a file or the embedder gives.
# check_finite: what is not finite, given or computed, gives a status and changes nothing.  Misaligned memory is refused.
. "$SRC/tests/support/script.sh"
mkdir host c99 gpu plain || exit 1
cc=${CC:-cc}
flags="-std=c11 -Wall -Wextra -Werror -O1 $sanitize"

cat >m.dsl <<'END_DSL'
dim B <= 12
optimizer averaged(p, g, lr) {
    state m = zeros like p
    state v = zeros like p
    state e = p                       # an average of the parameters
    state twice = 2 * e               # begins with what e begins with
    m <- 0.9 * m + 0.1 * g
    v <- 0.99 * v + 0.01 * g^2
    p <- p - lr * (m / (1 - 0.9^step)) / (sqrt(v / (1 - 0.99^step)) + 1e-8)
    e <- 0.9 * e + 0.1 * p
    twice <- twice + e
}
model m {
    input image : f32[B, 10]
    input label : i32[B] in 0..4
    state seen = 0.0
    state inverse = zeros [2]
    seen <- seen + sum(image)
    h = dropout(linear(image, 24) as hidden, 0.3)
    logits = linear(h, 4) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    rate = hyper 1.0
    train loss with averaged(lr = rate * warmup_cosine(0.05, 4, 20))
}
END_DSL

cat >main.c <<'END_C'
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MUST(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); exit(1); } } while (0)
#define IS(call, expected) do { const fusec_status got = (call); if (got != (expected)) { \
    fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, fusec_status_text(got)); exit(1); } } while (0)
enum { FILE_BYTES = 1 << 17, ALL = M_PARAM_BYTES + M_STATE_BYTES };
typedef struct Saved { unsigned char data[FILE_BYTES]; size_t n; } Saved;
static int put(void *user, const void *from, uint32_t n) {
    Saved *s = user;
    if (n > FILE_BYTES - s->n) return 1;
    memcpy(s->data + s->n, from, n);
    s->n += n;
    return 0;
}
static int get(void *user, uint64_t offset, void *to, uint32_t n) {
    const Saved *s = user;
    if (offset > s->n || n > s->n - offset) return 1;
    memcpy(to, s->data + offset, n);
    return 0;
}
static Saved saved, weights;
static const fusec_io whole = {&saved, put, get}, part = {&weights, put, get};
static float image[120];
static int32_t label[12];

#ifdef FUSEC_CUDA_H
static void start(m *x, uint32_t seed) {
    const m_options o = {.seed = seed, .check_finite = 1};
    IS(m_init(x, NULL, &o), FUSEC_OK);
}
static void read_all(m *x, unsigned char *to) {
    IS(fusec_cuda_read(&x->cuda, FUSEC_R_PARAM, 0, to, M_PARAM_BYTES), FUSEC_OK);
    IS(fusec_cuda_read(&x->cuda, FUSEC_R_STATE, 0, to + M_PARAM_BYTES, M_STATE_BYTES), FUSEC_OK);
}
static void write_params(m *x, const void *from) {
    IS(fusec_cuda_write(&x->cuda, FUSEC_R_PARAM, 0, from, M_PARAM_BYTES), FUSEC_OK);
}
static void finish(m *x) { m_free(x); }
#else
static void *block(size_t n) { void *p = aligned_alloc(M_ALIGN, (n / M_ALIGN + 2) * M_ALIGN); MUST(p); memset(p, 0, n); return p; }
static m_memory memory_of(void) {
    const m_memory y = {.params = block(M_PARAM_BYTES), .param_bytes = M_PARAM_BYTES, .states = block(M_STATE_BYTES),
        .state_bytes = M_STATE_BYTES, .grads = block(M_GRAD_BYTES), .grad_bytes = M_GRAD_BYTES, .arena = block(M_ARENA_BYTES),
        .arena_bytes = M_ARENA_BYTES};
    return y;
}
static void release(const m_memory *y) { free(y->params), free(y->states), free(y->grads), free(y->arena); }
#ifdef FUSEC_HOST_H
static m_memory *of(m *x) { return &x->host.memory; }
static void end(m *x) { m_free(x); }
#else
static m_memory *of(m *x) { return &x->memory; }
static void end(m *x) { (void)x; }
#endif
static void start(m *x, uint32_t seed) {
    const m_options o = {.seed = seed, .threads = 2, .check_finite = 1};
    const m_memory y = memory_of();
    IS(m_init(x, &y, &o), FUSEC_OK);
}
static void read_all(m *x, unsigned char *to) {
    memcpy(to, of(x)->params, M_PARAM_BYTES);
    memcpy(to + M_PARAM_BYTES, of(x)->states, M_STATE_BYTES);
}
static void write_params(m *x, const void *from) { memcpy(of(x)->params, from, M_PARAM_BYTES); }
static void finish(m *x) { const m_memory y = *of(x); end(x); release(&y); }
static void misaligned_blocks_are_refused(void) {
    for (int i = 0; i < 4; i++)
        for (int by = 1; by < M_ALIGN; by *= 2) {
            static m x;
            const m_memory right = memory_of();
            m_memory y = right;
            void **at[] = {&y.params, &y.states, &y.grads, &y.arena};
            *at[i] = (char *)*at[i] + by;
            IS(m_init(&x, &y, NULL), FUSEC_E_ARGUMENT);
            end(&x);
            release(&right);
        }
}
#endif

/* Tensors only: what lies between them is nobody's. */
static int same(const unsigned char *a, const unsigned char *b) {
    int same = 1;
    for (uint32_t i = 0; i < m_manifest.n_params; i++) {
        const fusec_tensor *t = &m_manifest.params[i];
        same &= !memcmp(a + t->offset, b + t->offset, t->bytes);
    }
    for (uint32_t i = 0; i < m_manifest.n_states; i++) {
        const fusec_tensor *t = &m_manifest.states[i];
        same &= !memcmp(a + M_PARAM_BYTES + t->offset, b + M_PARAM_BYTES + t->offset, t->bytes);
    }
    return same;
}
static const float *at(const unsigned char *all, int state, const char *name) {
    const fusec_tensor *t = state ? m_manifest.states : m_manifest.params;
    for (uint32_t i = 0; i < (state ? m_manifest.n_states : m_manifest.n_params); i++)
        if (!strcmp(t[i].name, name)) return (const float *)(all + (state ? M_PARAM_BYTES : 0) + t[i].offset);
    MUST(!"such a tensor");
    return NULL;
}
/* States as they begin, e from the parameters that are there. */
static void begins(const unsigned char *all) {
    const float *w = at(all, 0, "hidden.w"), *e = at(all, 1, "hidden.w.e"), *twice = at(all, 1, "hidden.w.twice"),
                *v = at(all, 1, "hidden.w.v");
    for (int i = 0; i < 240; i++) MUST(e[i] == w[i] && twice[i] == 2 * w[i] && v[i] == 0);
    MUST(*at(all, 1, "seen") == 0);
}
static fusec_status step(m *x, const m_hyper *h) {
    const m_inputs in = {.image = image, .label = label, .B = 12};
    float loss;
    const m_outputs out = {.loss = &loss};
    const fusec_status s = m_step(x, &in, &out, h);
#ifdef FUSEC_CUDA_H
    if (s == FUSEC_OK) IS(fusec_cuda_wait(&x->cuda), FUSEC_OK);
#endif
    return s;
}
static void steps(m *x, int n) { while (n-- > 0) IS(step(x, NULL), FUSEC_OK); }

static void a_saved_run_goes_on(unsigned char *a, unsigned char *b) {
    static m one, two, other;
    start(&one, 5);
    steps(&one, 9);
    read_all(&one, a);
    start(&two, 5);
    steps(&two, 5);
    saved.n = 0;
    IS(m_save(&two, &whole), FUSEC_OK);
    const size_t n = saved.n;
    start(&other, 77);
    steps(&other, 2);
    IS(m_load(&other, &whole), FUSEC_OK);
    MUST(other.step == 5 && other.seed == 5);
    steps(&other, 4);
    MUST(other.step == 9);
    read_all(&other, b);
    MUST(same(a, b));
    other.step = INT32_MAX, other.seed = UINT32_MAX;
    saved.n = 0;
    IS(m_save(&other, &whole), FUSEC_OK);
    MUST(saved.n == n);
    IS(m_load(&two, &whole), FUSEC_OK);
    MUST(two.step == INT32_MAX && two.seed == UINT32_MAX);
    finish(&one), finish(&two), finish(&other);
}

static void parameters_alone_begin_anew(unsigned char *a, unsigned char *b) {
    static m x;
    fusec_manifest params = m_manifest;
    const fusec_position far = {123, 4};
    start(&x, 6);
    steps(&x, 3);
    read_all(&x, a);
    fusec_memory y = {.params = a, .param_bytes = M_PARAM_BYTES};
    params.n_states = 0, params.state_bytes = 0;
    weights.n = 0;
    IS(fusec_save(&params, &y, &far, &part), FUSEC_OK);
    steps(&x, 2);
    IS(m_load(&x, &part), FUSEC_OK);
    MUST(x.step == 0 && x.seed == 6);
    read_all(&x, b);
    MUST(!memcmp(at(a, 0, "hidden.w"), at(b, 0, "hidden.w"), 960));
    begins(b);
    steps(&x, 1);
    y.states = a + M_PARAM_BYTES, y.state_bytes = M_STATE_BYTES;
    weights.n = 0;
    IS(fusec_save(&m_manifest, &y, NULL, &part), FUSEC_OK); /* as files were before they had a step */
    IS(m_load(&x, &part), FUSEC_OK);
    MUST(x.step == 0 && x.seed == 6);
    read_all(&x, b);
    MUST(same(a, b));
    finish(&x);
}

static void parameters_may_be_written(unsigned char *a) {
    static m x;
    start(&x, 1);
    read_all(&x, a);
    begins(a);
    for (int i = 0; i < 240; i++) ((float *)(uintptr_t)at(a, 0, "hidden.w"))[i] = (float)i;
    write_params(&x, a);
    IS(m_derive(&x), FUSEC_OK);
    read_all(&x, a);
    begins(a);
    MUST(at(a, 1, "hidden.w.e")[7] == 7);
    finish(&x);
}

static void unchanged(m *x, const unsigned char *a, unsigned char *b, int skipped) {
    read_all(x, b);
#ifdef GUARDED /* counts what was skipped */
    int32_t n;
    memcpy(&n, at(b, 1, "check_finite.outcome"), sizeof n);
    MUST(n == -2 * skipped);
    memset((void *)(uintptr_t)at(b, 1, "check_finite.outcome"), 0, sizeof n);
#else
    MUST(!skipped);
#endif
    MUST(same(a, b) && x->step == 1 + skipped); /* it has run */
}

static void what_is_not_finite_changes_nothing(unsigned char *a, unsigned char *b) {
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    static m x;
    start(&x, 2);
    steps(&x, 1);
    read_all(&x, a);
    for (int i = 0; i < 3; i++) {
        const m_hyper h = {.rate = bad[i]};
        image[119] = bad[i];
        IS(step(&x, NULL), FUSEC_E_NOT_FINITE);
        unchanged(&x, a, b, 0);
        image[119] = 0;
        IS(step(&x, &h), FUSEC_E_NOT_FINITE);
        unchanged(&x, a, b, 0);
    }
    for (int i = 0; i < 120; i++) image[i] = 3e38f; /* finite, but nothing that is computed from them */
    IS(step(&x, NULL), FUSEC_E_DIVERGED);
#ifdef GUARDED
    unchanged(&x, a, b, 1);
    for (int i = 0; i < 120; i++) image[i] = 1;
    steps(&x, 1);
    MUST(x.step == 3);
#else
    MUST(x.step == 2); /* it has updated */
#endif
    finish(&x);
}

int main(int argc, char **argv) {
    static unsigned char a[ALL], b[ALL];
    for (int i = 0; i < 120; i++) image[i] = (float)(i * 37 % 17) / 8 - 1;
    for (int i = 0; i < 12; i++) label[i] = i % 4;
    a_saved_run_goes_on(a, b);
    if (argc > 1) { /* a file of `fusec run --save`, and one for `fusec run --load` */
        static m x;
        FILE *f = fopen(argv[1], "rb");
        MUST(f);
        saved.n = fread(saved.data, 1, FILE_BYTES, f);
        fclose(f);
        start(&x, 0);
        IS(m_load(&x, &whole), FUSEC_OK);
        MUST(x.step == 5 && x.seed == 3);
        saved.n = 0;
        IS(m_save(&x, &whole), FUSEC_OK);
        f = fopen(argv[2], "wb");
        MUST(f && fwrite(saved.data, 1, saved.n, f) == saved.n && !fclose(f));
        finish(&x);
    }
    parameters_alone_begin_anew(a, b);
    parameters_may_be_written(a);
#ifndef FUSEC_CUDA_H
    misaligned_blocks_are_refused();
#endif
    what_is_not_finite_changes_nothing(a, b);
    return 0;
}
END_C
sed -i 's/#include <stdio.h>/#include <math.h>\n#include <stdio.h>/' main.c
cp main.c host; cp main.c c99; cp main.c gpu; cp main.c plain

awk 'BEGIN { for (i = 0; i < 40; i++) { for (k = 0; k < 10; k++) printf "%g,", (i * 7 + k * 3) % 11 / 8; print i % 4 } }' >d.csv
run() { "$FUSEC" run m.dsl --check-finite --data image=d.csv:1-10 --data label=d.csv:11 --quiet "$@"; }
run --steps 5 --seed 3 --save run.safetensors || die "no run to load"

try() { # NAME PROGRAM: exits 0 on what `fusec run` wrote, and writes what it takes
    "$2" run.safetensors "$1.safetensors" || die "$1"
    run --steps 1 --load "$1.safetensors" || die "$1: its file is not loaded"
}
"$FUSEC" m.dsl -o host/m.o --check-finite || die "no object"
$cc $flags -DGUARDED -o host/main host/main.c host/m.o "$BUILD/runtime/libfusec_host.a" -lm -lpthread || die "host"
try host host/main
"$FUSEC" m.dsl -o c99/m.c --check-finite || die "no C"
$cc $flags -ffp-contract=off -DGUARDED -o c99/main c99/main.c c99/m.c || die "c99"
try c99 c99/main
"$FUSEC" m.dsl -o plain/m.c || die "no plain C"
$cc $flags -ffp-contract=off -DM_CHECK_FINITE=1 -o plain/main plain/main.c plain/m.c || die "plain c99"
plain/main || die "plain c99"
if has_software_gpu; then
    "$FUSEC" m.dsl -o gpu/m.ptx --embed --check-finite || die "no PTX"
    $cc $flags -DGUARDED -o gpu/main gpu/main.c gpu/m.c -ldl || die "gpu"
    case "$flags" in *sanitize*) ;; *) try gpu gpu/main ;; esac
fi

# fusec run: a resumed run, on every target
for target in host c99 interp cuda; do
    [ $target = cuda ] && ! has_software_gpu && continue
    run --target $target --steps 9 --seed 5 --save whole.safetensors || die "$target: no whole run"
    run --target $target --steps 4 --seed 5 --save part.safetensors || die "$target: no first part"
    run --target $target --steps 9 --resume part.safetensors --save part.safetensors || die "$target: not resumed"
    cmp whole.safetensors part.safetensors || fail "$target: a resumed run differs"
done

# fusec run: states follow the parameters given, in every way to give them; a file's own states stay
cat >ema.dsl <<'END_DSL'
optimizer averaged(p, g, lr) {
    state e = p
    p <- p - lr * g
    e <- e + 0
}
model ema {
    input a : f32[2, 4]
    w = param [4] init normal(1.0)
    loss = mean(a @ w)
    output loss
    train loss with averaged(lr = hyper 0.0)
}
END_DSL
printf '1,2,3,4\n5,6,7,8\n' >a.csv
ones='\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\100' # 1 2 3 4
twos='\000\000\000\100\000\000\000\100\000\000\000\100\000\000\000\100' # 2 2 2 2
w='"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}' e='"state/w.e":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}'
nans='\000\000\000\100\000\000\000\100\000\000\000\100\000\000\300\177'
file() { # NAME HEADER DATA: safetensors
    printf "\\$(printf %o ${#2})\\0\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
    printf "$3" >>"$1"
}
file w.safetensors "{$w}" "$ones"
file both.safetensors "{$w,$e}" "$ones$twos"
ends() { tail -c 32 "$1" | od -An -f -v | tr -s ' \n' ' '; } # w, then e
for target in host c99 interp cuda; do
    [ $target = cuda ] && ! has_software_gpu && continue
    for how in --params --load; do
        for given in w both; do
            "$FUSEC" run ema.dsl --target $target --data a=a.csv:1-4 --steps 1 --quiet $how $given.safetensors \
                --save out.safetensors || die "$target $how $given"
            right=' 1 2 3 4 1 2 3 4 '
            [ $given = both ] && right=' 1 2 3 4 2 2 2 2 '
            [ "$(ends out.safetensors)" = "$right" ] || fail "$target $how $given: $(ends out.safetensors)"
        done
    done
    file nan.safetensors '{"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}}' "$ones$nans"
    "$FUSEC" run ema.dsl --target $target --entry step --inputs nan.safetensors --check-finite >log 2>&1 &&
        fail "$target: a NaN is taken"
    grep -q 'step of ema on .*: an input or a hyperparameter is NaN or infinite' log || fail "$target: $(cat log)"
    "$FUSEC" run ema.dsl --target $target --entry step --inputs nan.safetensors >log 2>&1 || fail "$target: $(cat log)"
done
exit $bad
