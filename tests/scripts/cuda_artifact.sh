#!/bin/sh
# One program over the typed interface, built twice: with the C99 form of a model and with its launcher and PTX, the latter
# on the software GPU.  Both must print the same numbers, to 1e-4 of the larger of 1 and the number (sums are taken in
# another order).
. "$SRC/tests/support/script.sh"
needs_software_gpu
mkdir c99 gpu || exit 1

cat >m.dsl <<'END'
dim B <= 12
model m {
    input image : f32[B, 10]
    input label : i32[B] in 0..4
    x = layernorm(linear(image, 24) as hidden) as norm
    logits = linear(gelu(x), 4) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output probability = softmax(logits)
    train loss with adam(lr = hyper 0.01)
}
END

cat >main.c <<'END'
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
static char log_text[4096];
static m model;
#ifdef M_DEVICE_BYTES
static fusec_status start(void) {
    const m_options options = {.seed = 3, .log = log_text, .log_bytes = sizeof log_text};
    return m_init(&model, NULL, &options);
}
static fusec_status fetch(fusec_region region, void *to, uint64_t n) { return fusec_cuda_read(&model.cuda, region, 0, to, n); }
#else
static void *block(size_t n) { return aligned_alloc(256, (n + 256) / 256 * 256); }
static fusec_status start(void) {
    const m_options options = {.seed = 3};
    const m_memory memory = {.params = block(M_PARAM_BYTES), .param_bytes = M_PARAM_BYTES, .states = block(M_STATE_BYTES),
        .state_bytes = M_STATE_BYTES, .grads = block(M_GRAD_BYTES), .grad_bytes = M_GRAD_BYTES, .arena = block(M_ARENA_BYTES),
        .arena_bytes = M_ARENA_BYTES};
    return m_init(&model, &memory, &options);
}
static fusec_status fetch(fusec_region region, void *to, uint64_t n) {
    const char *from = region == FUSEC_R_PARAM ? model.memory.params : model.memory.grads;
    for (uint64_t i = 0; i < n; i++) ((char *)to)[i] = from[i];
    return FUSEC_OK;
}
#endif
/* Tensors of the block, by the manifest: what lies between them is nobody's. */
static fusec_status show(fusec_region region, const fusec_tensor *t, uint32_t n, uint64_t bytes) {
    char *data = malloc(bytes);
    fusec_status s = fetch(region, data, bytes);
    for (uint32_t i = 0; i < n && !s; i++)
        for (uint64_t e = 0; e < t[i].bytes / sizeof(float); e++) printf("%s %.6g\n", t[i].name, (double)((float *)(data + t[i].offset))[e]);
    free(data);
    return s;
}
int main(void) {
    float image[120], loss = 0, probability[48];
    int32_t label[12];
    fusec_status s = start();
    for (int i = 0; i < 120; i++) image[i] = (float)(i * 37 % 19) / 7 - 1;
    for (int i = 0; i < 12; i++) label[i] = i * 5 % 4;
    const m_outputs out = {.loss = &loss, .probability = probability};
    for (int step = 0; step < 4 && !s; step++) {
        const m_inputs in = {.image = image, .label = label, .B = 12 - 3 * (step % 2)};
        s = m_step(&model, &in, &out, NULL);
        printf("loss %.6g\n", (double)loss);
    }
    const m_inputs in = {.image = image, .label = label, .B = 7};
    if (!s) s = m_grad(&model, &in, &out, false);
    if (!s) s = m_grad(&model, &in, &out, true);
    if (!s) s = m_infer(&model, &in, &out);
    for (int i = 0; i < 28 && !s; i++) printf("probability %.6g\n", (double)probability[i]);
    if (!s) s = show(FUSEC_R_PARAM, m_manifest.params, m_manifest.n_params, M_PARAM_BYTES);
    if (!s) s = show(FUSEC_R_GRAD, m_manifest.grads, m_manifest.n_grads, M_GRAD_BYTES);
    if (s) fprintf(stderr, "%s\n%s", fusec_status_text(s), log_text);
#ifdef M_DEVICE_BYTES
    m_free(&model);
#endif
    return s != FUSEC_OK;
}
END

flags='-std=c11 -Wall -Wextra -Werror -O1'
"$FUSEC" m.dsl -o c99/m.c || exit 1
"$FUSEC" m.dsl -o gpu/m.ptx --arch sm_80 || exit 1
${CC:-cc} $flags -Ic99 main.c c99/m.c -lm -o c99/run || exit 1
${CC:-cc} $flags $sanitize -Igpu main.c gpu/m.c -ldl -o gpu/run || exit 1
./c99/run >expected || exit 1
(cd gpu && ./run) >got || exit 1
# The kernels in other orders that the graph's edges allow: the same bits.
for seed in 1 2 3; do
    (cd gpu && PTXSIM_SEED=$seed ./run) | cmp - got || exit 1
done

[ "$(wc -l <expected)" -gt 300 ] || { echo "too few numbers"; exit 1; }
for form in expected got; do sort -s -k 1,1 $form >$form.sorted; done # gradients come in the order in which they are computed
paste -d ' ' expected.sorted got.sorted | awk '
    { e = $2 - $4; if (e < 0) e = -e; s = $2 < 0 ? -$2 : $2; if (s < 1) s = 1
      if ($1 != $3 || NF != 4 || !(e <= 1e-4 * s)) { print "differs: " $0; bad = 1 } }
    END { exit bad }'
