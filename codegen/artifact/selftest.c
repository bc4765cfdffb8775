/* The part of MODEL.h that tests the model against results known at compile time. */
#include "codegen/artifact/artifact.h"
#include <inttypes.h>
#include <string.h>

static int64_t round_up(const Module *m, int64_t bytes) { return (bytes + m->align - 1) / m->align * m->align; }

/* What fusec_selftest_bytes() says. */
static int64_t scratch_bytes(const Module *m) {
    int64_t bytes = 0;
    for (int i = 0; i < m->inputs.n; i++) bytes += round_up(m, m->inputs.at[i].bytes);
    for (int i = 0; i < m->outputs.n; i++) bytes += round_up(m, m->outputs.at[i].bytes);
    if (bytes < FUSEC_SELFTEST_PART) bytes = FUSEC_SELFTEST_PART;
    return bytes + round_up(m, 8 * ((int64_t)m->inputs.n + m->outputs.n) + 4 * (int64_t)m->syms.n);
}

static void callbacks(FILE *f, const ArtifactForm *form, const char *p) {
    const char *member = strstr(form->runs_on, "->"); /* of the model, at whose address MODEL_run works */
    fprintf(f,
            "static inline fusec_status %s_selftest_run(void *user, int entry, const void *const *inputs, void *const "
            "*outputs,\n    uint32_t seed, const int32_t *syms) {\n"
            "    return %s_run(%s((%s *)user)%s, entry, inputs, outputs, 0, 1, seed, syms);\n}\n"
            "static inline fusec_status %s_selftest_read(void *user, uint64_t offset, void *to, uint64_t n) {\n",
            p, p, member ? "&" : "", p, member ? member : "", p);
    if (!form->memory)
        fprintf(f, "    return fusec_cuda_read(&((%s *)user)->cuda, FUSEC_R_GRAD, offset, to, n);\n}\n", p);
    else
        fprintf(f,
                "    const char *from = (const char *)((%s *)user)->%s.grads + offset;\n"
                "    for (uint64_t i = 0; i < n; i++) ((char *)to)[i] = from[i];\n    return FUSEC_OK;\n}\n",
                p, form->memory);
}

void artifact_selftest(const ArtifactHeader *h) {
    FILE *const f = h->f;
    const Module *m = h->m;
    const char *prefix = h->p, *macro_prefix = h->macro;
    fprintf(f, "/* Bytes of scratch for %s_selftest, aligned to %s_ALIGN. */\n#define %s_SELFTEST_BYTES %" PRId64 "\n",
            prefix, macro_prefix, macro_prefix, scratch_bytes(m));
    callbacks(f, h->form, prefix);
    fprintf(
        f,
        "/* Does this model compute here what it computed where it was compiled?  Entry init with a seed of its own, "
        "then "
        "entry\n * %s on made inputs; outputs%s are compared by sums.  FUSEC_E_SELFTEST: they differ.  Afterwards "
        "parameters and\n * states are as %s_init left them: call it before training or loading.  Memory as for entry "
        "%s. */\n"
        "static inline fusec_status %s_selftest(%s *model, void *scratch) {\n"
        "    fusec_selftest_calls calls;\n    if (!model) return FUSEC_E_ARGUMENT;\n"
        "    calls.user = model;\n    calls.run = %s_selftest_run;\n    calls.read = %s_selftest_read;\n"
        "    model->step = 0;\n"
        "    return fusec_selftest(&%s_manifest, &calls, model->seed, scratch, 0);\n}\n\n",
        m->entry[ENTRY_GRAD].present ? "grad" : "infer", m->entry[ENTRY_GRAD].present ? " and gradients" : "", prefix,
        m->entry[ENTRY_GRAD].present ? "grad" : "infer", prefix, prefix, prefix, prefix, prefix);
}
