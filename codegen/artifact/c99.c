/* MODEL.c of the C99 back end: runtime, kernels, one function per entry, the manifest. */
#include "codegen/artifact/artifact.h"
#include "codegen/c99/c99.h"
#include <inttypes.h>

typedef struct Model {
    FILE *f;
    Arena *a;
    const Module *m;
    const char *p, *macro;
    const char **kernel; /* function names */
} Model;

static bool is_empty(const Buffer *b) {
    for (int d = 0; d < b->rank; d++)
        if (b->dim[d].bound == 0) return true;
    return false;
}

static char *output(const Model *x, const LaunchArg *arg) {
    char *given = arg->offset
                      ? arena_printf(x->a, "(void *)((char *)outputs[%d] + %" PRId64 ")", arg->index, arg->offset)
                      : arena_printf(x->a, "outputs[%d]", arg->index);
    if (!arg->scratch) return given;
    return arena_printf(x->a, "wanted & UINT64_C(0x%" PRIx64 ") ? %s : FUSEC_AT(block->arena, %" PRId64 ")",
                        (uint64_t)1 << arg->index, given, arg->scratch - 1 + arg->offset);
}

/* What holds nothing shares its place in a block with something else, which `restrict` would deny: it has none. */
static char *argument(const Model *x, const LaunchArg *arg, const Buffer *b) {
    if (arg->region <= REGION_ARENA && is_empty(b)) return arena_strdup(x->a, "NULL");
    switch (arg->region) {
    case REGION_PARAM: return arena_printf(x->a, "FUSEC_AT(block->params, %" PRId64 ")", arg->offset);
    case REGION_STATE: return arena_printf(x->a, "FUSEC_AT(block->states, %" PRId64 ")", arg->offset);
    case REGION_GRAD: return arena_printf(x->a, "FUSEC_AT(block->grads, %" PRId64 ")", arg->offset);
    case REGION_ARENA: return arena_printf(x->a, "FUSEC_AT(block->arena, %" PRId64 ")", arg->offset);
    case REGION_SCALAR:
        return arena_printf(x->a, "&scalars[%" PRId64 "].%s", arg->offset / 4, dtype_is_float(b->dtype) ? "f" : "i");
    case REGION_INPUT:
        if (!arg->offset) return arena_printf(x->a, "inputs[%d]", arg->index);
        return arena_printf(x->a, "(const void *)((const char *)inputs[%d] + %" PRId64 ")", arg->index, arg->offset);
    case REGION_OUTPUT: return output(x, arg);
    }
    return arena_strdup(x->a, "0");
}

/* Run-time extents come with the call, a launch's own constants are written out. */
static char *integer(const Model *x, const Launch *l, const Kernel *k, int i) {
    const int extents = k->n_syms - k->n_constants;
    if (i < extents) return arena_printf(x->a, "syms[%d]", i);
    return arena_printf(x->a, "%" PRId32, l->constant[i - extents]);
}

static void launch(const Model *x, Entry e, const Launch *l) {
    const uint64_t needed = artifact_wanted_by(x->m, e, l);
    const Kernel *k = x->m->kernels.at[l->kernel];
    const char *comma = "";
    int column = 4;
    fputs("    ", x->f);
    if (needed != FUSEC_ALWAYS) column += fprintf(x->f, "if (wanted & UINT64_C(0x%" PRIx64 ")) ", needed);
    column += fprintf(x->f, "%s(", x->kernel[l->kernel]);
    for (int i = 0; i < l->n_args + k->n_syms; i++) {
        const char *arg = i < l->n_args ? argument(x, &l->args[i], &k->buffers.at[i]) : integer(x, l, k, i - l->n_args);
        if (column > 96) {
            fprintf(x->f, ",\n        ");
            comma = "";
            column = 8;
        }
        column += fprintf(x->f, "%s%s", comma, arg);
        comma = ", ";
    }
    fputs(");\n", x->f);
}

/* The calls whose launches touch this tensor of the caller: *mask, or all of them. */
static bool always_touched(const Model *x, Entry e, Region region, int index, uint64_t *mask) {
    *mask = 0;
    for (int l = 0; l < x->m->entry[e].launches.n; l++) {
        const Launch *at = &x->m->entry[e].launches.at[l];
        const uint64_t needed = artifact_wanted_by(x->m, e, at);
        for (int i = 0; i < at->n_args; i++) {
            if (at->args[i].region != region || at->args[i].index != index || at->args[i].scratch) continue;
            if (needed == FUSEC_ALWAYS) return true;
            *mask |= needed;
        }
    }
    return false;
}

/* Refuses calls that lack an input or output; the other forms find that in their launch tables. */
static void check_given(const Model *x, Entry e, Region region, const char *array, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t mask;
        const bool always = always_touched(x, e, region, i, &mask);
        if (!always && !mask) continue;
        fputs("    if (", x->f);
        if (!always) fprintf(x->f, "(wanted & UINT64_C(0x%" PRIx64 ")) && ", mask);
        fprintf(x->f, "%s!%s || !%s[%d]%s) return FUSEC_E_ARGUMENT;\n", always ? "" : "(", array, array, i,
                always ? "" : ")");
    }
}

/* The gradient that the byte of the region belongs to; they lie in their order. */
static int gradient_at(const Module *m, int64_t offset) {
    int first = 0;
    for (int n = m->grads.n; n > 1;) { /* of n from `first` on, the last that begins at or before it */
        const int half = n / 2;
        const bool right = m->grads.at[first + half].offset <= offset;
        first += right ? half : 0;
        n = right ? n - half : half;
    }
    return first;
}

/* Of each gradient, the last launch of entry grad that touches it; -1: none does. */
static int *last_uses(const Model *x) {
    const Module *m = x->m;
    int *last = ARENA_ARRAY(x->a, int, m->grads.n + 1);
    for (int g = 0; g < m->grads.n; g++) last[g] = -1;
    for (int l = 0; l < m->entry[ENTRY_GRAD].launches.n; l++) {
        const Launch *at = &m->entry[ENTRY_GRAD].launches.at[l];
        for (int i = 0; i < at->n_args; i++)
            if (at->args[i].region == REGION_GRAD) last[gradient_at(m, at->args[i].offset)] = l;
    }
    return last;
}

/* Gradients that are final after launch l, in their order; `next` is the first not reported so far. */
static int gradients_ready(const Model *x, const int *last, int next, int l) {
    for (; next < x->m->grads.n && last[next] <= l; next++)
        fprintf(x->f, "    %s_GRADIENT_READY(memory, %" PRId64 ", %" PRId64 ");\n", x->macro,
                x->m->grads.at[next].offset, x->m->grads.at[next].bytes);
    return next;
}

/* The state that tells of skipped steps, or NULL. */
static const ModuleTensor *outcome_state(const Module *m) {
    for (int i = 0; i < m->states.n; i++)
        if (m->states.at[i].outcome) return &m->states.at[i];
    return NULL;
}

/* volatile: a launch reads a block's address anew; hundreds kept for later ones would fill the stack */
static void open_function(const Model *x, const char *type, const char *name) {
    fprintf(x->f,
            "static %s %s(const fusec_memory *memory, const void *const *inputs, void *const *outputs,\n"
            "    const union %s_scalar *scalars, const int32_t *syms, uint64_t wanted) {\n"
            "    const volatile fusec_memory *const block = memory; /* no address is kept across launches */\n"
            "    (void)block, (void)memory, (void)inputs, (void)outputs, (void)scalars, (void)syms, (void)wanted;\n",
            type, name, x->p);
}

/* Launches of the entry from number `from` on, those before `to`; final: last_uses(), or NULL; how many gradients are ready. */
static int launches(const Model *x, Entry e, int from, int to, const int *final, int ready) {
    static const char *const phase[] = {"forward", "backward", "update"};
    const ModuleEntry *n = &x->m->entry[e];
    for (int l = from; l < to; l++) {
        const Launch *at = &n->launches.at[l];
        const bool begins = l == 0 || at->phase != n->launches.at[l - 1].phase;
        if ((e == ENTRY_GRAD || e == ENTRY_STEP) && begins) fprintf(x->f, "    /* %s */\n", phase[at->phase]);
        launch(x, e, at);
        if (final) ready = gradients_ready(x, final, ready, l);
    }
    return ready;
}

/* Thousands of launches are not one function: GCC takes time for the square of what one stores for its calls.  How many parts. */
enum { LAUNCHES = 16, MOST = 256 }; /* of a part; of what stays one function */
static int parts(const Model *x, Entry e, const int *final, int *ready) {
    const int n = x->m->entry[e].launches.n, count = n > MOST ? (n + LAUNCHES - 1) / LAUNCHES : 0;
    for (int i = 0; i < count; i++) {
        open_function(x, "void", arena_printf(x->a, "%s_run_%s_%d", x->p, entry_name[e], i));
        *ready = launches(x, e, i * LAUNCHES, i + 1 < count ? (i + 1) * LAUNCHES : n, final, *ready);
        fputs("}\n\n", x->f);
    }
    return count;
}

static void entry(const Model *x, Entry e) {
    const ModuleEntry *n = &x->m->entry[e];
    const char *name = arena_printf(x->a, "%s_run_%s", x->p, entry_name[e]);
    const int *final = e == ENTRY_GRAD ? last_uses(x) : NULL;
    int ready = 0;
    const int count = parts(x, e, final, &ready);
    open_function(x, "fusec_status", name);
    const ModuleTensor *outcome = outcome_state(x->m);
    const bool skips = outcome && (e == ENTRY_GRAD || e == ENTRY_STEP);
    if (skips)
        fprintf(x->f,
                "    const int32_t *outcome = (const int32_t *)FUSEC_AT(block->states, %" PRId64 ");\n"
                "    const int32_t skips = *outcome;\n",
                outcome->offset);
    check_given(x, e, REGION_INPUT, "inputs", x->m->inputs.n);
    check_given(x, e, REGION_OUTPUT, "outputs", x->m->outputs.n);
    for (int i = 0; i < count; i++) fprintf(x->f, "    %s_%d(memory, inputs, outputs, scalars, syms, wanted);\n", name, i);
    if (!count) ready = launches(x, e, 0, n->launches.n, final, 0);
    if (final) gradients_ready(x, final, ready, n->launches.n);
    if (skips)
        fputs("    return fusec_outcome(skips, *outcome); /* an overflow in f16 leaves all as it was */\n}\n\n", x->f);
    else
        fputs("    return FUSEC_OK;\n}\n\n", x->f);
}

static void run_function(const Model *x) {
    const Module *m = x->m;
    fprintf(
        x->f,
        "fusec_status %s_run(const fusec_memory *memory, int entry, const void *const *inputs, void *const *outputs,\n"
        "    const float *hyper, int32_t step, uint32_t seed, const int32_t *syms) {\n"
        "    union %s_scalar scalars[%d];\n    uint64_t wanted;\n"
        "    const int accumulate = (entry & FUSEC_ACCUMULATE) != 0;\n",
        x->p, x->p, SCALAR_HYPER0 + m->hypers.n);
    fprintf(x->f,
            "    fusec_status status = fusec_check(&%s_manifest, entry & ~FUSEC_ACCUMULATE, memory, inputs, "
            "outputs, syms, &wanted);\n"
            "#if %s_CHECK_FINITE\n"
            "    if (status == FUSEC_OK) status = fusec_check_inputs(&%s_manifest, inputs, hyper, syms);\n#endif\n"
            "    if (status != FUSEC_OK) return status;\n"
            "    scalars[%d].i = step;\n    scalars[%d].i = (int32_t)seed;\n    scalars[%d].i = accumulate;\n",
            x->p, x->macro, x->p, SCALAR_STEP, SCALAR_SEED, SCALAR_ACCUMULATE);
    if (m->hypers.n)
        fprintf(x->f,
                "    for (int i = 0; i < %d; i++) scalars[%d + i].f = hyper ? hyper[i] : %s_table_hypers[i].value;\n",
                m->hypers.n, SCALAR_HYPER0, x->p);
    else
        fputs("    (void)hyper;\n", x->f);
    fputs("    switch (FUSEC_ENTRY(entry)) {\n", x->f);
    static const char *const code[ENTRY_COUNT] = {"FUSEC_INIT", "FUSEC_INFER", "FUSEC_GRAD", "FUSEC_STEP",
                                                  "FUSEC_DERIVE"};
    for (int e = 0; e < ENTRY_COUNT; e++)
        if (m->entry[e].present)
            fprintf(x->f, "    case %s: status = %s_run_%s(memory, inputs, outputs, scalars, syms, wanted); break;\n",
                    code[e], x->p, entry_name[e]);
    fprintf(x->f,
            "    default: return FUSEC_E_UNSUPPORTED;\n    }\n#if %s_CHECK_FINITE\n"
            "    if (status == FUSEC_OK)\n        status = fusec_check_results(&%s_manifest, FUSEC_ENTRY(entry), "
            "memory->grads, outputs, syms);\n#endif\n    return status;\n}\n",
            x->macro, x->p);
}

/* The runtime the model needs, defined weakly so that several models of one program share it. */
static void runtime(const Model *x) {
    static const char *const files[] = {"status.c", "crc32.c", "check.c", "save.c", "load.c", "selftest.c"};
    fputs(
        "#undef FUSEC_WEAK\n#if defined(__GNUC__)\n#define FUSEC_WEAK __attribute__((weak))\n#else\n#define "
        "FUSEC_WEAK\n#endif\n\n"
        "/* ---- runtime; other models of this compiler bring the same: define FUSEC_NO_RUNTIME for all but one where\n"
        " *      the compiler has no weak symbols ---- */\n#ifndef FUSEC_NO_RUNTIME\n",
        x->f);
    const size_t n = sizeof files / sizeof *files - !x->m->selftest;
    for (size_t i = 0; i < n; i++) {
        const char *text = artifact_runtime(x->a, files[i]);
        fprintf(x->f, "%s\n", text ? text : "");
    }
    const char *finite = artifact_runtime(x->a, "finite.c");
    fprintf(x->f,
            "#endif\n\n/* 1: calls refuse inputs, hyperparameters and results that are NaN or infinite. */\n"
            "#ifndef %s_CHECK_FINITE\n#define %s_CHECK_FINITE %d\n#endif\n#if %s_CHECK_FINITE\n%s#endif\n\n",
            x->macro, x->macro, x->m->check_finite, x->macro, finite ? finite : "");
}

static const char *kernels(Model *x) {
    const Module *m = x->m;
    C99Unit *u = c99_unit(x->a);
    C99Names names = {0};
    for (int e = 0; e < ENTRY_COUNT; e++)
        c99_unique(x->a, &names, arena_printf(x->a, "%s_run_%s", x->p, entry_name[e]));
    static const char *const used[] = {"run",   "manifest", "inputs",   "outputs",      "memory",       "options",
                                       "hyper", "init",     "infer",    "grad",         "step",         "save",
                                       "load",  "scalar",   "selftest", "selftest_run", "selftest_read",
                                       "begin", "derive"};
    static const char *const tables[] = {"params", "states",  "grads",    "inputs", "outputs", "syms",
                                         "hypers", "kernels", "launches", "args",   "selftest"};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        c99_unique(x->a, &names, arena_printf(x->a, "%s_%s", x->p, used[i]));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        c99_unique(x->a, &names, arena_printf(x->a, "%s_table_%s", x->p, tables[i]));
    for (int l = 0; l < m->lines.n; l++) c99_unique(x->a, &names, arena_printf(x->a, "%s_step_%s", x->p, m->lines.at[l]));
    c99_unique(x->a, &names, x->p);
    x->kernel = ARENA_ARRAY(x->a, const char *, m->kernels.n + 1);
    for (int i = 0; i < m->kernels.n; i++) {
        if (m->kernels.at[i]->buffers.n > UINT8_MAX)
            return arena_printf(m->arena, "kernel %s has more than 255 arguments", m->kernels.at[i]->name);
        x->kernel[i] = c99_unique(x->a, &names, c99_identifier(x->a, m->kernels.at[i]->name));
        const char *why = c99_kernel(u, m->kernels.at[i], x->kernel[i]);
        if (why) return arena_printf(m->arena, "kernel %s: %s", m->kernels.at[i]->name, why);
    }
    c99_print(x->f, u);
    return NULL;
}

const char *artifact_c99(FILE *f, const Module *m, const char *header) {
    Arena *a = arena_new();
    Model x = {.f = f, .a = a, .m = m, .p = artifact_prefix(a, m), .macro = artifact_macro_prefix(a, m)};
    fprintf(f,
            "/* %s: a model compiled by fusec%s%s.  Generated: freestanding C99, no allocation, no mutable globals. "
            "*/\n#include %s\n\n",
            x.p, m->source ? " from " : "", m->source ? m->source : "", artifact_string(a, header));
    runtime(&x);
    fputs("/* ---- kernels ---- */\n", f);
    const char *why = kernels(&x);
    if (!why) {
        fputs("\n/* ---- manifest ---- */\n", f);
        artifact_manifest(f, m, false);
        fprintf(f,
                "\n/* ---- entries: the kernels in planned order, at planned addresses ---- */\n#define "
                "FUSEC_AT(block, offset) ((void *)((char *)(block) + (offset)))\n"
                "union %s_scalar {\n    int32_t i;\n    float f;\n};\n\n",
                x.p);
        if (m->entry[ENTRY_GRAD].present)
            fprintf(f,
                    "#ifdef %s_GRADIENT_READY\n"
                    "void %s_GRADIENT_READY(const fusec_memory *memory, uint64_t offset, uint64_t bytes);\n"
                    "#else\n#define %s_GRADIENT_READY(memory, offset, bytes) ((void)0)\n#endif\n\n",
                    x.macro, x.macro, x.macro);
        for (int e = 0; e < ENTRY_COUNT; e++)
            if (m->entry[e].present) entry(&x, (Entry)e);
        run_function(&x);
    }
    arena_free(a);
    return why;
}
