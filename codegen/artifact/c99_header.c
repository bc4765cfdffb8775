/* The C form's part of MODEL.h. */
#include "codegen/artifact/artifact.h"
#include "codegen/c99/c99.h"
#include <inttypes.h>

/* The runtime's part, the pointers and numbers of one call, the arguments of a kernel, what the kernel keeps. */
static void stack_bytes(const ArtifactHeader *h) {
    C99Unit *u = c99_unit(h->a);
    C99Names names = {0};
    for (int i = 0; i < h->m->kernels.n; i++) {
        Kernel *k = h->m->kernels.at[i];
        c99_kernel(u, k, c99_unique(h->a, &names, c99_identifier(h->a, k->name)));
    }
    const C99Stack s = c99_stack(u);
    const Module *m = h->m;
    const int64_t words = 2 * (m->inputs.n + m->outputs.n) + 2 * m->hypers.n + m->syms.n + s.arguments;
    fprintf(h->f,
            "/* No call takes more of the stack, as gcc and clang compile MODEL.c for this target. */\n"
            "#define %s_STACK_BYTES \\\n    (FUSEC_STACK_RUNTIME + %" PRId64 " * FUSEC_STACK_WORD + %" PRId64
            " * FUSEC_STACK_VALUE + %" PRId64 ")\n",
            h->macro, words, s.values, s.arrays);
}

static void init_function(const ArtifactHeader *h) {
    fprintf(h->f,
            "/* Keeps `memory` and fills parameters and states from options->seed (NULL: seed 0). */\n"
            "static inline fusec_status %s_init(%s *model, const %s_memory *memory, const %s_options *options) {\n"
            "    int32_t syms[%d] = {%s};\n"
            "    if (!model || !memory) return FUSEC_E_ARGUMENT;\n"
            "    model->memory = *memory;\n    model->seed = options ? options->seed : 0;\n    model->step = 0;\n",
            h->p, h->p, h->p, h->p, h->m->syms.n + 1, artifact_bounds(h));
    fprintf(h->f, "    return %s_run(&model->memory, FUSEC_INIT, 0, 0, 0, 0, model->seed, syms);\n}\n\n", h->p);
}

static void functions(const ArtifactHeader *h) {
    fprintf(h->f,
            "extern const fusec_manifest %s_manifest;\n\n/* Any entry, by manifest indices; the functions below "
            "are this "
            "with types. */\n"
            "fusec_status %s_run(const fusec_memory *memory, int entry, const void *const *inputs, void *const "
            "*outputs,\n"
            "    const float *hyper, int32_t step, uint32_t seed, const int32_t *syms);\n\n",
            h->p, h->p);
    init_function(h);
}

static void gradient_ready(const ArtifactHeader *h) {
    fprintf(h->f,
            "\n * Where MODEL.c is compiled with -D%s_GRADIENT_READY=NAME, it calls `void NAME(const fusec_memory *memory,\n"
            " * uint64_t offset, uint64_t bytes)` for each gradient, in their order, as soon as it is final.",
            h->macro);
}

const ArtifactForm artifact_c99_form = {.context = "fusec_memory memory",
                                        .options = "fusec_options",
                                        .runs_on = "&model->memory",
                                        .memory = "memory",
                                        .sizes = stack_bytes,
                                        .functions = functions,
                                        .grad_comment = gradient_ready};
