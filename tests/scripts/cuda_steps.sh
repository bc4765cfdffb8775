#!/bin/sh
# The emitted launcher as a user builds it, on the software GPU: a hundred steps with a learning rate that changes every
# step build one graph and neither wait, nor allocate, nor copy pageable memory; in both architectures; and so says the
# line at exit for a program that only calls cuProfilerStart.
. "$SRC/tests/support/script.sh"
needs_software_gpu

cat >m.dsl <<'END'
dim B <= 12
model m {
    input image : f32[B, 10]
    input label : i32[B] in 0..4
    x = layernorm(linear(image, 24) as hidden) as norm
    logits = linear(gelu(x), 4) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    train loss with adam(lr = hyper 0.01)
}
END

cat >main.c <<'END'
#include "m.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static char log_text[4096];
static m model;
static void profiler(const char *name) {
    int (*call)(void);
    void *symbol = dlsym(model.cuda.driver.library, name);
    memcpy(&call, &symbol, sizeof call);
    call();
}
int main(void) {
    float image[120], first = 0, last = 0;
    int32_t label[12];
    const m_options options = {.seed = 3, .log = log_text, .log_bytes = sizeof log_text};
    const m_outputs none = {0};
    fusec_status s = m_init(&model, NULL, &options);
    for (int i = 0; i < 120; i++) image[i] = (float)(i * 37 % 19) / 7 - 1;
    for (int i = 0; i < 12; i++) label[i] = i * 5 % 4;
    const m_inputs in = {.image = image, .label = label, .B = 12};
    m_hyper hyper = {.lr = 0.05f};
    if (!s) s = m_step(&model, &in, &none, &hyper);
    if (!s) s = m_fetch_loss(&model, &first);
    if (s) { fprintf(stderr, "%s\n%s", fusec_status_text(s), log_text); return 1; }
    profiler("cuProfilerStart");
    for (int n = 0; n < 100 && !s; n++) {
        s = m_step(&model, &in, &none, &hyper);
        hyper.lr *= 0.97f;
    }
    profiler("cuProfilerStop");
    if (!s) s = m_fetch_loss(&model, &last);
    m_free(&model);
    return s || !(last < first / 2); /* it has learnt */
}
END

for arch in sm_80 sm_90; do
    "$FUSEC" m.dsl -o m.ptx --arch $arch || exit 1
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -O1 $sanitize main.c m.c -ldl -o run || exit 1
    PTXSIM_STATS=1 ./run 2>err || { cat err; exit 1; }
    line=$(grep 'interval "profiler"' err)
    for want in synchronisations=0 allocations=0 frees=0 pageable_copies=0 \
        graph_instantiations=0 graph_updates=0 graph_launches=100; do
        case " $line " in *" $want "*) ;; *) echo "$arch: no $want: $line"; exit 1 ;; esac
    done
    # before it: those of the first step and of the parameters' first values
    grep 'interval ""' err | grep -q 'graph_instantiations=2 ' || { grep interval err; exit 1; }
    ! grep -q 'ptxsim: leak' err || { grep leak err; exit 1; }
done
