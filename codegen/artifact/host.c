/* The host form's part of MODEL.h: the functions that drive MODEL.o through libfusec_host.a. */
#include "codegen/artifact/artifact.h"

static void example(const ArtifactHeader *h) {
    FILE *const f = h->f;
    const char *p = h->p, *macro = h->macro;
    static const char *const block[][3] = {
        {"param", "params", "PARAM_BYTES"}, {"state", "states", "STATE_BYTES"}, {"arena", "arena", "ARENA_BYTES"}};
    const char *call =
        h->m->entry[ENTRY_STEP].present ? "step(&model, &inputs, &outputs, NULL)" : "infer(&model, &inputs, &outputs)";
    fprintf(
        f,
        " *\n * The model is MODEL.o beside this file; what runs it, with the threads, is libfusec_host.a of fusec:\n"
        " *\n *     cc main.c MODEL.o libfusec_host.a -lm -lpthread\n *\n"
        " *     #include \"MODEL.h\"\n *     #include <stdio.h>\n *     #include <stdlib.h>\n *\n"
        " *     static void *block(size_t n) { return aligned_alloc(%s_ALIGN, (n / %s_ALIGN + 1) * %s_ALIGN); }\n"
        " *     int main(void) {\n"
        " *         static %s model;\n"
        " *         const %s_options options = {.seed = 1, .threads = 0}; // all cores\n"
        " *         const %s_memory memory = {\n",
        macro, macro, macro, p, p, p);
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        fprintf(f, " *             .%s = block(%s_%s), .%s_bytes = %s_%s%s\n", block[i][1], macro, block[i][2],
                block[i][0], macro, block[i][2], i + 1 < sizeof block / sizeof *block ? "," : "};");
    fprintf(f,
            " *         const %s_inputs inputs = {0};   // pointers to the data, extents\n"
            " *         const %s_outputs outputs = {0}; // pointers to where results go\n"
            " *         fusec_status s = %s_init(&model, &memory, &options);\n"
            " *         for (int i = 0; i < 100 && s == FUSEC_OK; i++) s = %s_%s;\n"
            " *         if (s != FUSEC_OK) fprintf(stderr, \"%%s\\n\", fusec_status_text(s));\n"
            " *         %s_free(&model);\n *         return s != FUSEC_OK;\n *     }\n",
            p, p, p, p, call, p);
}

static void declarations(const ArtifactHeader *h) {
    const char *text = artifact_runtime(h->a, "host.h");
    fprintf(h->f, "%s\n", text ? text : "");
}

static void run_function(FILE *f, const char *p) {
    fprintf(
        f,
        "/* In MODEL.o. */\nextern const fusec_manifest %s_manifest;\nextern const fusec_host_kernel %s_kernels[];\n\n"
        "/* Any entry, by manifest indices; the functions below are this with types.  syms NULL: the bounds. */\n"
        "static inline fusec_status %s_run(%s *model, int entry, const void *const *inputs, void *const *outputs,\n"
        "    const float *hyper, int32_t step, uint32_t seed, const int32_t *syms) {\n"
        "    fusec_host_call call;\n    if (!model) return FUSEC_E_ARGUMENT;\n"
        "    call.inputs = inputs;\n    call.outputs = outputs;\n    call.syms = syms;\n    call.hypers = hyper;\n"
        "    call.step = step;\n    model->host.options.seed = seed;\n"
        "    return fusec_host_run(&model->host, entry, &call);\n}\n\n",
        p, p, p, p);
}

static void init_and_free(FILE *f, const Module *m, const char *p) {
    fprintf(
        f,
        "/* Keeps `memory`, starts the threads (options->threads; 0: all cores; none with options->parallel_for) and "
        "fills\n"
        " * parameters and states from options->seed.  options NULL: all cores, seed 0.  The results do not depend on "
        "the\n"
        " * number of threads. */\n"
        "static inline fusec_status %s_init(%s *model, const %s_memory *memory, const %s_options *options) {\n"
        "    fusec_status status;\n    if (!model) return FUSEC_E_ARGUMENT;\n"
        "    model->seed = options ? options->seed : 0;\n    model->step = 0;\n"
        "    status = fusec_host_init(&model->host, &%s_manifest, %s_kernels, memory, options);\n",
        p, p, p, p, p, p);
    if (m->entry[ENTRY_INIT].present)
        fprintf(f,
                "    if (status != FUSEC_OK) return status;\n"
                "    status = %s_run(model, FUSEC_INIT, 0, 0, 0, 0, model->seed, 0);\n"
                "    if (status != FUSEC_OK) fusec_host_free(&model->host);\n",
                p);
    fprintf(
        f,
        "    return status;\n}\n\n/* Ends the threads; the memory stays the caller's.  Also after an init that failed. "
        "*/\n"
        "static inline void %s_free(%s *model) {\n    if (model) fusec_host_free(&model->host);\n}\n\n",
        p, p);
}

static void functions(const ArtifactHeader *h) {
    run_function(h->f, h->p);
    init_and_free(h->f, h->m, h->p);
}

const ArtifactForm artifact_host_form = {.context = "fusec_host host",
                                         .options = "fusec_options",
                                         .runs_on = "model",
                                         .memory = "host.memory",
                                         .example = example,
                                         .declarations = declarations,
                                         .functions = functions};
