/* MODEL.c of the CUDA form: the runtime, the manifest, the kernels or their file's name; and its part of MODEL.h. */
#include "codegen/artifact/artifact.h"
#include "runtime/cuda/fusec_cuda.h"
#include <inttypes.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------- */
static int64_t round_up(int64_t bytes) { return (bytes + FUSEC_CUDA_ALIGN - 1) / FUSEC_CUDA_ALIGN * FUSEC_CUDA_ALIGN; }

static int64_t tensor_bytes(const ModuleTensor *t, int n) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += round_up(t[i].bytes);
    return bytes;
}

int64_t artifact_device_bytes(const Module *m) {
    int64_t arena = 0;
    for (int e = 0; e < ENTRY_COUNT; e++)
        if (m->entry[e].present && m->entry[e].arena_bytes > arena) arena = m->entry[e].arena_bytes;
    return round_up(m->param_bytes) + round_up(m->state_bytes) +
           (m->entry[ENTRY_GRAD].present ? round_up(m->grad_bytes) : 0) + round_up(arena) +
           round_up(4 * ((int64_t)SCALAR_HYPER0 + m->hypers.n)) + tensor_bytes(m->inputs.at, m->inputs.n) +
           tensor_bytes(m->outputs.at, m->outputs.n);
}

/* ---- MODEL.h -------------------------------------------------------------------------------------------------- */
static void declarations(const ArtifactHeader *h) {
    static const char *const files[] = {"cuda_driver.h", "fusec_cuda.h"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *text = artifact_runtime(h->a, files[i]);
        fprintf(h->f, "%s\n", text ? text : "");
    }
}

static void run_function(FILE *f, const char *p) {
    fprintf(f,
            "extern const fusec_manifest %s_manifest;\nextern const fusec_cuda_image %s_image; /* the kernels */\n\n"
            "/* Any entry, by manifest indices; the functions below are this with types. */\n"
            "static inline fusec_status %s_run(%s *model, int entry, const void *const *inputs, void *const *outputs,\n"
            "    const float *hyper, int32_t step, uint32_t seed, const int32_t *syms) {\n"
            "    fusec_cuda_call call;\n"
            "    call.inputs = inputs;\n    call.outputs = outputs;\n    call.syms = syms;\n    call.hypers = hyper;\n"
            "    call.step = step;\n    call.wanted = 0;\n    model->cuda.seed = seed;\n"
            "    return fusec_cuda_run(&model->cuda, entry, &call);\n}\n\n",
            p, p, p, p);
}

static void init_and_free(FILE *f, const Module *m, const char *p) {
    fprintf(f,
            "/* Opens the driver, loads the kernels (options->image_path, if given), allocates all memory there will "
            "be and fills\n"
            " * parameters and states from options->seed.  options may be NULL; memory is not used: the device has its "
            "own, and\n"
            " * fusec_cuda_read(&model->cuda, FUSEC_R_GRAD, ...) and fusec_cuda_write move parts of it. */\n"
            "static inline fusec_status %s_init(%s *model, const %s_memory *memory, const %s_options *options) {\n"
            "    fusec_status status;\n    (void)memory;\n    if (!model) return FUSEC_E_ARGUMENT;\n"
            "    model->seed = options ? options->seed : 0;\n    model->step = 0;\n"
            "    status = fusec_cuda_init(&model->cuda, &%s_manifest, options && options->image_path ? 0 : &%s_image, "
            "options);\n",
            p, p, p, p, p, p);
    if (m->entry[ENTRY_INIT].present)
        fprintf(f,
                "    if (status != FUSEC_OK) return status;\n    status = %s_run(model, FUSEC_INIT, 0, 0, 0, 0, "
                "model->seed, 0);\n"
                "    if (status != FUSEC_OK) fusec_cuda_free(&model->cuda);\n",
                p);
    fprintf(f,
            "    return status;\n}\n\n/* Gives everything back. */\nstatic inline void %s_free(%s *model) {\n"
            "    if (model) fusec_cuda_free(&model->cuda);\n}\n\n",
            p, p);
}

static void save_and_load(FILE *f, const char *p) {
    fprintf(f,
            "/* Weights, step and seed as a safetensors file through the caller's callbacks. */\n"
            "static inline fusec_status %s_save(%s *model, const fusec_io *io) {\n"
            "    fusec_position at;\n    if (!model) return FUSEC_E_ARGUMENT;\n"
            "    at.step = model->step;\n    at.seed = model->seed;\n"
            "    return fusec_cuda_save(&model->cuda, &at, io);\n}\n\n",
            p, p);
    fprintf(f,
            "%sstatic inline fusec_status %s_load(%s *model, const fusec_io *io) {\n"
            "    fusec_position at;\n    fusec_status status;\n    if (!model) return FUSEC_E_ARGUMENT;\n"
            "    at.step = 0;\n    at.seed = model->cuda.seed = model->seed;\n"
            "    status = fusec_cuda_load(&model->cuda, &at, io);\n"
            "    if (status == FUSEC_OK) model->step = at.step, model->seed = at.seed;\n    return status;\n}\n\n",
            artifact_load_comment, p, p);
}

static void sizes(const ArtifactHeader *h) {
    fprintf(h->f, "#define %s_DEVICE_BYTES %" PRId64 " /* all of the above, inputs, outputs and scalars */\n", h->macro,
            artifact_device_bytes(h->m));
}

/* MODEL_run, init, save, load, fetch, free. */
static void functions(const ArtifactHeader *h) {
    FILE *const f = h->f;
    const Module *m = h->m;
    const char *prefix = h->p;
    run_function(f, prefix);
    init_and_free(f, m, prefix);
    save_and_load(f, prefix);
    if (m->outputs.n)
        fputs("/* Entries grad and step compute outputs that are NULL too, and do not wait for them; these wait and "
              "copy.  The\n"
              " * place has room for the output at its largest extents. */\n",
              f);
    for (int i = 0; i < m->outputs.n; i++)
        fprintf(f,
                "static inline fusec_status %s_fetch_%s(%s *model, void *to) {\n"
                "    return model ? fusec_cuda_fetch(&model->cuda, %d, to) : FUSEC_E_ARGUMENT;\n}\n",
                prefix, h->out[i], prefix, i);
    fputs("\n", f);
}

const ArtifactForm artifact_cuda_form = {.context = "fusec_cuda cuda",
                                         .options = "fusec_cuda_options",
                                         .runs_on = "model",
                                         .declarations = declarations,
                                         .sizes = sizes,
                                         .functions = functions};

/* ---- MODEL.c -------------------------------------------------------------------------------------------------- */
/* The comment at the top: how a program uses the model. */
static void example(FILE *f, const Module *m, const char *p, const char *header) {
    const char *call =
        m->entry[ENTRY_STEP].present ? "step(&model, &inputs, &outputs, NULL)" : "infer(&model, &inputs, &outputs)";
    fprintf(f,
            " * A program that uses it (cc -std=c99 main.c MODEL.c -ldl):\n *\n"
            " *     #include \"%s\"\n *     #include <stdio.h>\n *\n *     int main(void) {\n"
            " *         static char log[4096];\n *         static %s model;\n"
            " *         const %s_options options = {.seed = 1, .log = log, .log_bytes = sizeof log};\n"
            " *         const %s_inputs inputs = {0};   // pointers to the data, extents\n"
            " *         const %s_outputs outputs = {0}; // pointers to where results go\n"
            " *         fusec_status s = %s_init(&model, NULL, &options);\n"
            " *         for (int i = 0; i < 100 && s == FUSEC_OK; i++) s = %s_%s;\n"
            " *         if (s != FUSEC_OK) fprintf(stderr, \"%%s\\n%%s\", fusec_status_text(s), log);\n"
            " *         %s_free(&model);\n *         return s != FUSEC_OK;\n *     }\n",
            header, p, p, p, p, p, p, call, p);
}

static void runtime(FILE *f, Arena *a, bool selftest) {
    static const char *const files[] = {"status.c",      "crc32.c",         "check.c",           "finite.c", "save.c",
                                        "load.c",        "cuda_internal.h", "cuda_driver.c",     "cuda_module.c",
                                        "cuda_device.c", "cuda_graph.c",    "cuda_tensor_map.c", "cuda_run.c",
                                        "cuda_copy.c",   "selftest.c"};
    fputs(
        "#undef FUSEC_WEAK\n#if defined(__GNUC__)\n#define FUSEC_WEAK __attribute__((weak))\n#else\n#define "
        "FUSEC_WEAK\n#endif\n\n"
        "/* ---- runtime; other models of this compiler bring the same: define FUSEC_NO_RUNTIME for all but one where\n"
        " *      the compiler has no weak symbols ---- */\n#ifndef FUSEC_NO_RUNTIME\n",
        f);
    const size_t n = sizeof files / sizeof *files - !selftest;
    for (size_t i = 0; i < n; i++) {
        const char *text = artifact_runtime(a, files[i]);
        fprintf(f, "%s\n", text ? text : "");
    }
    fputs("#endif\n\n", f);
}

/* Text as C strings, one per line and none longer than every compiler must take. */
static void embed(FILE *f, Arena *a, const char *p, const char *text) {
    enum { LONGEST = 1000 };
    fprintf(f, "static const char *const %s_ptx[] = {\n", p);
    while (*text) {
        char piece[LONGEST + 1];
        const size_t line = strcspn(text, "\n") + 1, left = strlen(text);
        size_t n = line < left ? line : left;
        if (n > LONGEST) n = LONGEST;
        memcpy(piece, text, n);
        piece[n] = 0;
        fprintf(f, "    %s,\n", artifact_string(a, piece));
        text += n;
    }
    fprintf(f, "    0};\nconst fusec_cuda_image %s_image = {.lines = %s_ptx};\n", p, p);
}

/* NULL, or what the manifest or the runtime has no room for. */
static const char *too_large(const Module *m) {
    struct fusec_grid grid[FUSEC_MAX_GRID];
    int n;
    if (m->align > FUSEC_CUDA_ALIGN) return "tensors are aligned to more than 256 bytes";
    if (m->syms.n > FUSEC_CUDA_MAX_SYMS) return "more than 64 run-time extents";
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        if (k->buffers.n > UINT8_MAX) return arena_printf(m->arena, "kernel %s: more than 255 arguments", k->name);
        if (!artifact_grid(k, grid, &n)) return arena_printf(m->arena, "kernel %s: its grid is too large", k->name);
    }
    return NULL;
}

const char *artifact_cuda(FILE *f, const Module *m, const char *header, const char *ptx_file, const char *ptx) {
    const char *why = too_large(m);
    if (why) return why;
    Arena *a = arena_new();
    const char *p = artifact_prefix(a, m);
    fprintf(f,
            "/* %s: a model compiled by fusec%s%s, for NVIDIA GPUs.  Generated: C99 and dlopen, no CUDA toolkit "
            "needed.\n *\n",
            p, m->source ? " from " : "", m->source ? m->source : "");
    example(f, m, p, header);
    fprintf(f, " */\n#include %s\n\n", artifact_string(a, header));
    runtime(f, a, m->selftest != NULL);
    fputs("/* ---- manifest ---- */\n", f);
    artifact_manifest(f, m, true);
    fputs("\n/* ---- kernels ---- */\n", f);
    if (ptx)
        embed(f, a, p, ptx);
    else
        fprintf(f, "const fusec_cuda_image %s_image = {.path = %s};\n", p, artifact_string(a, ptx_file));
    arena_free(a);
    return NULL;
}
