/* MODEL.h: sizes as macros, the typed interface over MODEL_run. */
#include "codegen/artifact/artifact.h"
#include "codegen/c99/c99.h"
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef const ArtifactHeader Header;

/* An identifier that none of the header's macros, MODEL_.., can be. */
static const char *field_name(Header *h, const char *text) {
    const size_t prefix = strlen(h->macro);
    const char *s = c99_identifier(h->a, text);
    return strncmp(s, h->macro, prefix) == 0 && s[prefix] == '_' ? arena_printf(h->a, "%s_", s) : s;
}

/* Field names: identifiers, unique among one struct's. */
static const char **field_names(Header *h, int n, const char *(*name)(const Module *, int), C99Names *names) {
    const char **s = ARENA_ARRAY(h->a, const char *, n + 1);
    for (int i = 0; i < n; i++) s[i] = c99_unique(h->a, names, field_name(h, name(h->m, i)));
    return s;
}
static const char *input_name(const Module *m, int i) { return m->inputs.at[i].name; }
static const char *output_name(const Module *m, int i) { return m->outputs.at[i].name; }
static const char *sym_name(const Module *m, int i) { return m->syms.at[i].name; }
static const char *hyper_name(const Module *m, int i) { return m->hypers.at[i].name; }

static const char *pointer_type(DType t) { return c99_type(t, true) ? c99_type(t, true) : "void"; }

static char *shape_comment(Header *h, const ModuleTensor *t) {
    char *s = shape_text(h->a, t->shape);
    if (t->dtype == DT_BF16) s = arena_printf(h->a, "%s bf16: the upper halves of floats", s);
    if (t->dtype == DT_F16) s = arena_printf(h->a, "%s f16: IEEE half precision", s);
    if (t->has_range) s = arena_printf(h->a, "%s in %" PRId64 "..%" PRId64, s, t->lo, t->hi);
    return s;
}

/* What paths are called in macros: unique identifiers. */
static const char **macro_names(Header *h, const ModuleTensor *at, int n) {
    C99Names names = {0};
    const char **s = ARENA_ARRAY(h->a, const char *, n + 1);
    for (int i = 0; i < n; i++) {
        char *name = c99_identifier(h->a, at[i].name);
        for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
        s[i] = c99_unique(h->a, &names, name);
    }
    return s;
}

typedef struct Named {
    const char *path, *name;
} Named;

static int by_path(const void *a, const void *b) { return strcmp(((const Named *)a)->path, ((const Named *)b)->path); }

/* A gradient is called as its parameter is, though gradients have an order of their own. */
static const char **gradient_names(Header *h, const char **params) {
    const Module *m = h->m;
    const char **s = ARENA_ARRAY(h->a, const char *, m->grads.n + 1);
    Named *all = ARENA_ARRAY(h->a, Named, m->params.n + 1);
    for (int i = 0; i < m->params.n; i++) all[i] = (Named){m->params.at[i].name, params[i]};
    if (m->params.n) qsort(all, (size_t)m->params.n, sizeof *all, by_path);
    for (int i = 0; i < m->grads.n; i++) {
        const Named wanted = {.path = m->grads.at[i].name};
        const Named *found = bsearch(&wanted, all, (size_t)m->params.n, sizeof *all, by_path);
        assert(found && "a gradient has a parameter's path");
        s[i] = found->name;
    }
    return s;
}

static void offsets(Header *h, const char *what, const ModuleTensor *at, int n, const char **names) {
    for (int i = 0; i < n; i++)
        fprintf(h->f, "#define %s_%s_%s %" PRId64 " /* %s %s */\n", h->macro, what, names[i], at[i].offset,
                dtype_name(at[i].dtype), shape_text(h->a, at[i].shape));
}

static void macros(Header *h) {
    const Module *m = h->m;
    int64_t most = 0;
    fprintf(h->f, "/* Sizes in bytes; every block is aligned to %s_ALIGN. */\n", h->macro);
    fprintf(h->f, "#define %s_ABI_VERSION %d\n#define %s_HASH UINT64_C(0x%016" PRIx64 ")\n", h->macro,
            FUSEC_ABI_VERSION, h->macro, m->hash);
    fprintf(h->f, "#define %s_ALIGN %d\n#define %s_PARAM_BYTES %" PRId64 "\n", h->macro, m->align, h->macro,
            m->param_bytes);
    fprintf(h->f, "#define %s_STATE_BYTES %" PRId64 "\n#define %s_GRAD_BYTES %" PRId64 "\n", h->macro, m->state_bytes,
            h->macro, m->grad_bytes);
    for (int e = 0; e < ENTRY_COUNT; e++) {
        if (!m->entry[e].present) continue;
        char *name = arena_strdup(h->a, entry_name[e]);
        for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
        fprintf(h->f, "#define %s_%s_ARENA_BYTES %" PRId64 "\n", h->macro, name, m->entry[e].arena_bytes);
        if (m->entry[e].arena_bytes > most) most = m->entry[e].arena_bytes;
    }
    fprintf(h->f, "#define %s_ARENA_BYTES %" PRId64 " /* the largest of them */\n", h->macro, most);
    if (h->form->sizes) h->form->sizes(h);
    fputs("\n/* Where each tensor lies in its block. */\n", h->f);
    const char **params = macro_names(h, m->params.at, m->params.n);
    offsets(h, "PARAM", m->params.at, m->params.n, params);
    offsets(h, "STATE", m->states.at, m->states.n, macro_names(h, m->states.at, m->states.n));
    offsets(h, "GRAD", m->grads.at, m->grads.n, gradient_names(h, params));
}

static void structs(Header *h, const char **in, const char **out, const char **syms, const char **hypers) {
    const Module *m = h->m;
    fprintf(h->f, "\n/* Tensors are dense, row-major, at their largest extents. */\ntypedef struct %s_inputs {\n",
            h->p);
    for (int i = 0; i < m->inputs.n; i++)
        fprintf(h->f, "    const %s *%s; /* %s */\n", pointer_type(m->inputs.at[i].dtype), in[i],
                shape_comment(h, &m->inputs.at[i]));
    for (int i = 0; i < m->syms.n; i++)
        fprintf(h->f, "    int32_t %s; /* 1 to %" PRId64 " */\n", syms[i], m->syms.at[i].bound);
    if (!m->inputs.n && !m->syms.n) fputs("    int32_t unused;\n", h->f);
    fprintf(
        h->f,
        "} %s_inputs;\n\n/* What is NULL is not computed.  No two may overlap, nor an input: what others need is read from "
        "here. */\ntypedef struct %s_outputs {\n",
        h->p, h->p);
    for (int i = 0; i < m->outputs.n; i++)
        fprintf(h->f, "    %s *%s; /* %s */\n", pointer_type(m->outputs.at[i].dtype), out[i],
                shape_comment(h, &m->outputs.at[i]));
    if (!m->outputs.n) fputs("    int32_t unused;\n", h->f);
    fprintf(h->f, "} %s_outputs;\n\ntypedef struct %s_hyper {\n", h->p, h->p);
    for (int i = 0; i < m->hypers.n; i++)
        fprintf(h->f, "    float %s; /* default %.9g */\n", hypers[i], m->hypers.at[i].value);
    if (!m->hypers.n) fputs("    float unused;\n", h->f);
    fprintf(h->f, "} %s_hyper;\n\ntypedef fusec_memory %s_memory;\ntypedef %s %s_options;\n\n", h->p, h->p, h->form->options,
            h->p);
    fprintf(h->f,
            "/* The caller's storage for one model; two contexts are independent. */\ntypedef struct %s {\n"
            "    %s;\n    uint32_t seed;\n    int32_t step; /* steps taken */\n} %s;\n\n",
            h->p, h->form->context, h->p);
}

/* The arrays that MODEL_run takes, filled from the structs. */
static void gather(Header *h, const char **in, const char **out, const char **syms) {
    const Module *m = h->m;
    fprintf(h->f, "    const void *in[%d];\n    void *out[%d];\n    int32_t syms[%d];\n", m->inputs.n + 1,
            m->outputs.n + 1, m->syms.n + 1);
    fputs("    if (!model || !inputs || !outputs) return FUSEC_E_ARGUMENT;\n", h->f);
    for (int i = 0; i < m->inputs.n; i++) fprintf(h->f, "    in[%d] = inputs->%s;\n", i, in[i]);
    for (int i = 0; i < m->outputs.n; i++) fprintf(h->f, "    out[%d] = outputs->%s;\n", i, out[i]);
    for (int i = 0; i < m->syms.n; i++) fprintf(h->f, "    syms[%d] = inputs->%s;\n", i, syms[i]);
    fprintf(h->f, "    in[%d] = 0;\n    out[%d] = 0;\n    syms[%d] = 0;\n", m->inputs.n, m->outputs.n, m->syms.n);
}

const char *artifact_bounds(Header *h) {
    char *s = arena_strdup(h->a, "");
    for (int i = 0; i < h->m->syms.n; i++) s = arena_printf(h->a, "%s%" PRId64 ", ", s, h->m->syms.at[i].bound);
    return arena_printf(h->a, "%s0", s);
}

/* line: of a step of one `train` line alone; -1: of all. */
static void entry_function(Header *h, Entry e, int line, const char **in, const char **out, const char **syms,
                           const char **hypers) {
    static const char *const comment[ENTRY_COUNT] = {
        [ENTRY_INFER] = "Forward; parameters and states do not change unless the model says so.",
        [ENTRY_GRAD] = "Forward and backward; gradients into memory->grads, added to what is there if `accumulate`.",
        [ENTRY_STEP] = "Forward, backward and update; hyper NULL: the defaults."};
    static const char *const code[ENTRY_COUNT] = {"FUSEC_INIT", "FUSEC_INFER", "FUSEC_GRAD", "FUSEC_STEP"};
    if (!h->m->entry[e].present) return;
    const char *extra = e == ENTRY_GRAD   ? ", bool accumulate"
                        : e == ENTRY_STEP ? arena_printf(h->a, ", const %s_hyper *hyper", h->p)
                                          : "";
    const char *name = line < 0 ? entry_name[e] : arena_printf(h->a, "step_%s", h->m->lines.at[line]);
    if (line < 0) fprintf(h->f, "/* %s", comment[e]);
    else fprintf(h->f, "/* A step of the `train` line %s alone: other parameters stay as they are", h->m->lines.at[line]);
    if (e == ENTRY_GRAD && h->form->grad_comment) h->form->grad_comment(h);
    fprintf(h->f,
            " */\nstatic inline fusec_status %s_%s(%s *model, const %s_inputs *inputs, const %s_outputs "
            "*outputs%s) {\n",
            h->p, name, h->p, h->p, h->p, extra);
    gather(h, in, out, syms);
    const char *values = "0";
    if (e == ENTRY_STEP && h->m->hypers.n) {
        fprintf(h->f, "    float values[%d];\n", h->m->hypers.n);
        for (int i = 0; i < h->m->hypers.n; i++)
            fprintf(h->f, "    values[%d] = hyper ? hyper->%s : %s_manifest.hypers[%d].value;\n", i, hypers[i], h->p,
                    i);
        values = "values";
    } else if (e == ENTRY_STEP)
        fputs("    (void)hyper;\n", h->f);
    const char *which = e == ENTRY_GRAD ? "accumulate ? FUSEC_GRAD | FUSEC_ACCUMULATE : FUSEC_GRAD"
                        : line >= 0     ? arena_printf(h->a, "FUSEC_STEP | FUSEC_LINE(%d)", line)
                                        : code[e];
    const char *call = arena_printf(h->a, "%s_run(%s, %s, in, out, %s, model->step + 1, model->seed, syms)", h->p,
                                    h->form->runs_on, which, values);
    if (e == ENTRY_STEP)
        fprintf(h->f,
                "    const fusec_status status = %s;\n    if (fusec_step_ran(status)) model->step++;\n"
                "    return status;\n}\n\n",
                call);
    else
        fprintf(h->f, "    return %s;\n}\n\n", call);
}

/* FUSEC_INIT and FUSEC_DERIVE for fusec_load; parameters and states live in the caller's memory. */
static void begin_function(Header *h) {
    fprintf(h->f,
            "static inline fusec_status %s_begin(void *user, int entry) {\n    %s *model = (%s *)user;\n"
            "    int32_t syms[%d] = {%s};\n"
            "    return %s_run(%s, entry, 0, 0, 0, 0, model->seed, syms);\n}\n\n",
            h->p, h->p, h->p, h->m->syms.n + 1, artifact_bounds(h), h->p, h->form->runs_on);
}

const char artifact_load_comment[] =
    "/* The weights of a safetensors file through the caller's callbacks.  A file with the states goes on where it was saved:\n"
    " * step and seed are the file's (0 and as they are where it has none).  One with parameters alone begins anew: step 0,\n"
    " * states as after init, those that are computed from parameters from the file's. */\n";

static void save_and_load(Header *h) {
    const char *memory = h->form->memory;
    begin_function(h);
    fprintf(h->f,
            "/* Weights, step and seed as a safetensors file through the caller's callbacks. */\n"
            "static inline fusec_status %s_save(const %s *model, const fusec_io *io) {\n"
            "    fusec_position at;\n    if (!model) return FUSEC_E_ARGUMENT;\n"
            "    at.step = model->step;\n    at.seed = model->seed;\n"
            "    return fusec_save(&%s_manifest, &model->%s, &at, io);\n}\n\n",
            h->p, h->p, h->p, memory);
    fprintf(h->f,
            "%sstatic inline fusec_status %s_load(%s *model, const fusec_io *io) {\n"
            "    fusec_position at;\n    fusec_begin begin;\n    fusec_status status;\n"
            "    if (!model) return FUSEC_E_ARGUMENT;\n"
            "    at.step = 0;\n    at.seed = model->seed;\n    begin.user = model;\n    begin.run = %s_begin;\n"
            "    status = fusec_load(&%s_manifest, &model->%s, &at, io, &begin);\n"
            "    if (status == FUSEC_OK) model->step = at.step, model->seed = at.seed;\n    return status;\n}\n\n",
            artifact_load_comment, h->p, h->p, h->p, h->p, memory);
}

/* For an embedder that writes parameters itself. */
static void derive_function(Header *h) {
    if (!h->m->entry[ENTRY_DERIVE].present) return;
    fprintf(h->f,
            "/* States whose initial values are computed from parameters, from the parameters as they are now: to be called when\n"
            " * parameters were written to memory between %s_init and the first step.  %s_load does it itself. */\n"
            "static inline fusec_status %s_derive(%s *model) {\n"
            "    int32_t syms[%d] = {%s};\n    if (!model) return FUSEC_E_ARGUMENT;\n"
            "    return %s_run(%s, FUSEC_DERIVE, 0, 0, 0, 0, model->seed, syms);\n}\n\n",
            h->p, h->p, h->p, h->p, h->m->syms.n + 1, artifact_bounds(h), h->p,
            h->form->runs_on);
}

void artifact_header(FILE *f, const Module *m, const ArtifactForm *form) {
    Arena *a = arena_new();
    ArtifactHeader h = {.f = f, .a = a, .m = m, .p = artifact_prefix(a, m), .macro = artifact_macro_prefix(a, m), .form = form};
    C99Names inputs = {0}, outputs = {0}, hyper = {0};
    const char **in = field_names(&h, m->inputs.n, input_name, &inputs),
               **syms = field_names(&h, m->syms.n, sym_name, &inputs);
    const char **out = field_names(&h, m->outputs.n, output_name, &outputs);
    const char **hypers = field_names(&h, m->hypers.n, hyper_name, &hyper);
    const char *runtime = artifact_runtime(a, "fusec.h");
    fprintf(f,
            "/* %s: the interface of a model compiled by fusec%s%s.  Generated; C99 and C++.",
            h.p, m->source ? " from " : "", m->source ? m->source : "");
    if (form->example) {
        fputs("\n", f);
        form->example(&h);
    }
    fprintf(f,
            " */\n#ifndef %s_MODEL_H\n#define %s_MODEL_H\n"
            "#include <stdbool.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n%s\n",
            h.macro, h.macro, runtime ? runtime : "");
    if (form->declarations) form->declarations(&h);
    macros(&h);
    structs(&h, in, out, syms, hypers);
    h.out = out;
    form->functions(&h);
    for (int e = ENTRY_INFER; e <= ENTRY_STEP; e++) entry_function(&h, (Entry)e, -1, in, out, syms, hypers);
    for (int l = 0; l < m->lines.n; l++)
        if (*m->lines.at[l]) entry_function(&h, ENTRY_STEP, l, in, out, syms, hypers);
    derive_function(&h);
    if (form->memory) save_and_load(&h);
    if (m->selftest) artifact_selftest(&h);
    fputs("#ifdef __cplusplus\n}\n#endif\n#endif\n", f);
    arena_free(a);
}
