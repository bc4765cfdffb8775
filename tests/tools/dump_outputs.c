/* dump: every float of every output of an emitted host model, -DMODEL=NAME, after infer and after each of three steps;
 * inputs are drawn from a fixed seed. */
#include "bench/model.h"
#include <stdio.h>

#include BENCH_HEADER(MODEL)
BENCH_FORM(MODEL)

static void show(const BenchModel *m, const char *after) {
    const fusec_manifest *manifest = m->form->manifest;
    for (uint32_t o = 0; o < manifest->n_outputs; o++) {
        const fusec_tensor *t = &manifest->outputs[o];
        const float *value = m->outputs[o];
        for (uint64_t i = 0; t->dtype == FUSEC_F32 && i < t->bytes / sizeof *value; i++)
            printf("%s %s %.9g\n", after, t->name, (double)value[i]);
    }
}

int main(void) {
    BenchModel m;
    bench_open(&m, &BENCH_NAMED(MODEL, _form), 2);
    bench_infer(&m, m.outputs);
    show(&m, "infer");
    for (int step = 0; step < 3 && m.form->manifest->entry[FUSEC_STEP].n_launches; step++) {
        bench_step(&m);
        show(&m, "step");
    }
    bench_close(&m);
    return 0;
}
