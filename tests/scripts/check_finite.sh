#!/bin/sh
# check_finite in every runtime: an input, a label or a hyperparameter that is NaN or infinite gives a status, and parameters,
# states, gradients and the step counter are what they were; what lies past the run-time extents does not count.  Without it the
# call is made, and a step leaves NaN in the parameters, as docs/numerics.md says.
. "$SRC/tests/support/script.sh"
cc=${CC:-cc}
flags="-std=c11 -Wall -Wextra -Werror -O1 $sanitize"

cat >m.dsl <<'END_DSL'
dim B <= 6
model m {
    input x : f32[B, 4]
    input half : f16[3]
    input brain : bf16[2]
    input target : f32[B]
    input label : i32[B] in 0..3
    state seen = 0.0
    seen <- seen + 1.0
    rate = hyper 0.1
    weight = hyper 1.0
    h = linear(x, 3) as f
    loss = weight * mean(cross_entropy(h, label)) + mse(sum(h, axis = 1), target) + 0.01 * (sum(half) + sum(brain)) 
    output loss
    output h
    train loss with adam(lr = rate)
}
END_DSL
cat >main.c <<'END_C'
#include "m.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MUST(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); exit(1); } } while (0)
enum { EXTENT = 5, ALL = M_PARAM_BYTES + M_STATE_BYTES + M_GRAD_BYTES };
static m model;
static float x[24], target[6], loss, h[18];
static uint16_t half[3], brain[2];
static int32_t label[6];
static bool accumulate; /* once there is something to add to */
static unsigned char before[ALL], after[ALL];

static void *block(size_t n) { void *p = aligned_alloc(256, (n / 256 + 2) * 256); MUST(p); return memset(p, 0, n); }
#ifdef FUSEC_CUDA_H
static fusec_status begin(int check) {
    const m_options o = {.check_finite = check};
    return m_init(&model, NULL, &o);
}
static void read_all(unsigned char *to) {
    MUST(fusec_cuda_read(&model.cuda, FUSEC_R_PARAM, 0, to, M_PARAM_BYTES) == FUSEC_OK);
    MUST(fusec_cuda_read(&model.cuda, FUSEC_R_STATE, 0, to + M_PARAM_BYTES, M_STATE_BYTES) == FUSEC_OK);
    MUST(fusec_cuda_read(&model.cuda, FUSEC_R_GRAD, 0, to + M_PARAM_BYTES + M_STATE_BYTES, M_GRAD_BYTES) == FUSEC_OK);
}
static void end(void) { m_free(&model); (void)block; }
#else
static m_memory y;
static fusec_status begin(int check) {
    const m_options o = {.check_finite = check, .threads = 1};
    const m_memory new = {.params = block(M_PARAM_BYTES), .param_bytes = M_PARAM_BYTES, .states = block(M_STATE_BYTES),
        .state_bytes = M_STATE_BYTES, .grads = block(M_GRAD_BYTES), .grad_bytes = M_GRAD_BYTES, .arena = block(M_ARENA_BYTES),
        .arena_bytes = M_ARENA_BYTES};
    y = new;
    return m_init(&model, &y, &o);
}
static void read_all(unsigned char *to) {
    memcpy(to, y.params, M_PARAM_BYTES);
    memcpy(to + M_PARAM_BYTES, y.states, M_STATE_BYTES);
    memcpy(to + M_PARAM_BYTES + M_STATE_BYTES, y.grads, M_GRAD_BYTES);
}
static void end(void) {
#ifdef FUSEC_HOST_H
    m_free(&model);
#endif
    free(y.params), free(y.states), free(y.grads), free(y.arena);
}
#endif

static fusec_status call(int entry, const m_hyper *hyper) {
    const m_inputs in = {.x = x, .half = half, .brain = brain, .target = target, .label = label, .B = EXTENT};
    const m_outputs out = {.loss = &loss, .h = h};
    fusec_status s = entry == 0   ? m_infer(&model, &in, &out)
                     : entry == 1 ? m_grad(&model, &in, &out, accumulate)
                                  : m_step(&model, &in, &out, hyper);
#ifdef FUSEC_CUDA_H
    if (s == FUSEC_OK) s = fusec_cuda_wait(&model.cuda);
#endif
    return s;
}
static void fill(void) {
    for (int i = 0; i < 24; i++) x[i] = (float)(i * 5 % 7) / 4 - 1;
    for (int i = 0; i < 6; i++) target[i] = (float)i / 8, label[i] = i % 3;
    for (int i = 0; i < 3; i++) half[i] = (uint16_t)(0x3800 + 64 * i), brain[i < 2 ? i : 1] = 0x3f00;
}
static int tried;
static void refused(fusec_status expected, const m_hyper *hyper) {
    for (int entry = hyper ? 2 : 0; entry < 3; entry++) { /* the others take the defaults */
        const int32_t step = model.step;
        read_all(before);
        const fusec_status got = call(entry, hyper);
        if (got != expected) fprintf(stderr, "entry %d: %s\n", entry, fusec_status_text(got)), exit(1);
        read_all(after);
        MUST(!memcmp(before, after, ALL) && model.step == step);
        tried++;
    }
}
static int has_nan(void) {
    int found = 0;
    read_all(after);
    for (uint32_t p = 0; p < m_manifest.n_params; p++)
        for (uint64_t i = 0; i < m_manifest.params[p].bytes / 4; i++)
            found |= !isfinite(((const float *)(after + m_manifest.params[p].offset))[i]);
    return found;
}

int main(void) {
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    static const uint16_t bad_half[] = {0x7c00, 0xfc00, 0x7e00}, bad_brain[] = {0x7f80, 0xff80, 0x7fc0};
    fill();
    MUST(begin(1) == FUSEC_OK && call(2, NULL) == FUSEC_OK && call(1, NULL) == FUSEC_OK && model.step == 1);
    accumulate = true;
    for (int k = 0; k < 3; k++) {
        const m_hyper rate = {.rate = bad[k], .weight = 1}, weight = {.rate = 0.1f, .weight = bad[k]};
        for (int i = 0; i < 4 * EXTENT; i += 4 * EXTENT - 1) x[i] = bad[k], refused(FUSEC_E_NOT_FINITE, NULL), fill();
        for (int i = 0; i < EXTENT; i += EXTENT - 1) target[i] = bad[k], refused(FUSEC_E_NOT_FINITE, NULL), fill();
        for (int i = 0; i < 3; i++) half[i] = bad_half[k], refused(FUSEC_E_NOT_FINITE, NULL), fill();
        for (int i = 0; i < 2; i++) brain[i] = bad_brain[k], refused(FUSEC_E_NOT_FINITE, NULL), fill();
        refused(FUSEC_E_NOT_FINITE, &weight);
        refused(FUSEC_E_NOT_FINITE, &rate);
        x[4 * EXTENT] = target[EXTENT] = bad[k]; /* past the extent */
        for (int entry = 0; entry < 3; entry++) MUST(call(entry, NULL) == FUSEC_OK);
        fill();
    }
    label[EXTENT - 1] = 3;
    refused(FUSEC_E_RANGE, NULL);
    fill();
    MUST(!has_nan() && call(2, NULL) == FUSEC_OK);
    end();
    if (M_CHECKED) return printf("%d calls refused\n", tried), 0; /* compiled in: there is no way without */
    MUST(begin(0) == FUSEC_OK);
    x[3] = NAN;
    MUST(call(2, NULL) == FUSEC_OK && has_nan());
    end();
    printf("%d calls refused\n", tried);
    return 0;
}
END_C
mkdir host c99 gpu || exit 1
try() { # NAME DIR SOURCES AND FLAGS..
    what=$1 dir=$2
    shift 2
    # shellcheck disable=SC2086
    $cc $flags -I"$dir" main.c "$@" -o "$dir/run" || die "$what: not compiled"
    "$dir/run" >log 2>&1 || fail "$what: $(cat log)"
    echo "$what: $(cat log)"
}
"$FUSEC" m.dsl -o host/m.o || die "no object"
try host host -DM_CHECKED=0 host/m.o "$BUILD/runtime/libfusec_host.a" -lm -lpthread
"$FUSEC" m.dsl -o c99/m.c || die "no C"
try 'c99 with the macro' c99 -ffp-contract=off -DM_CHECKED=1 -DM_CHECK_FINITE=1 c99/m.c
"$FUSEC" m.dsl -o c99/m.c --check-finite || die "no C"
try 'c99 with the option' c99 -ffp-contract=off -DM_CHECKED=1 c99/m.c
if has_software_gpu && case $flags in *sanitize*) false ;; esac then
    "$FUSEC" m.dsl -o gpu/m.ptx --embed || die "no PTX"
    try gpu gpu -DM_CHECKED=0 gpu/m.c -ldl
fi

# fusec run: nothing is saved over what was there
cat >d.dsl <<'END_DSL'
dim B <= 4
model d {
    input x : f32[B, 2]
    input target : f32[B]
    loss = mse(sum(linear(x, 1) as f, axis = 1), target)
    output loss
    train loss with adam(lr = hyper 0.1 as rate)
}
END_DSL
for i in 1 2 3 4 5 6 7 8; do echo "$i,0.5,$i"; done >good.csv
sed '6s/,0.5,/,nan,/' good.csv >nan.csv
sed '6s/,0.5,/,inf,/' good.csv >x.csv
sed '6s/,6$/,-inf/' good.csv >target.csv
run() { # FILE OPTIONS..
    file=$1
    shift
    "$FUSEC" run d.dsl --quiet --epochs 1 --data x="$file":1-2 --data target="$file":3 --save out.safetensors --target "$target" "$@" >log 2>&1
}
for target in host c99 interp cuda; do
    [ $target = cuda ] && ! has_software_gpu && continue
    rm -f out.safetensors
    run good.csv --check-finite || fail "$target: $(cat log)"
    cp out.safetensors kept
    for how in 'x.csv' 'target.csv' 'good.csv --hyper rate=nan' 'good.csv --hyper rate=inf'; do
        # shellcheck disable=SC2086
        run $how --check-finite && fail "$target, $how: is taken"
        grep -q 'an input or a hyperparameter is NaN or infinite' log || fail "$target, $how: $(cat log)"
        cmp -s out.safetensors kept || fail "$target, $how: what was saved is gone"
    done
    run nan.csv && fail "$target: NaN in data is taken"
    cmp -s out.safetensors kept || fail "$target: what was saved is gone"
    run x.csv || fail "$target, without the option: $(cat log)"
done
exit $bad
