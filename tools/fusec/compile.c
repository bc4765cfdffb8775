/* fusec MODEL.dsl -o FILE: what FILE's suffix asks for, and the files that belong beside it.  Everything is made in
 * memory first and written together. */
#include "codegen/artifact/artifact.h"
#include "codegen/host/host.h"
#include "codegen/nvptx/nvptx.h"
#include "ir/memory.h"
#include "tools/fusec/array.h"
#include "tools/fusec/cli.h"
#include "tools/fusec/process.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_OUTPUTS = 3 };

typedef struct Compile {
    Arena *arena;
    const Options *o;
    Session session;
    const Target *target;
    Module *m;
    OutputFile file[MAX_OUTPUTS];
    void *owned[MAX_OUTPUTS]; /* malloc'd contents */
    const char *ptx;          /* the text of a .ptx output, one of them */
    int n;
} Compile;

static bool fail(const char *what, const char *why) {
    fprintf(stderr, "fusec: error: %s: %s\n", what, why);
    return false;
}

static void add(Compile *c, const char *path, void *bytes, size_t n) {
    c->owned[c->n] = bytes;
    c->file[c->n++] = (OutputFile){.path = path, .bytes = bytes, .n = n};
}

/* FILE with another suffix. */
static const char *beside(const Compile *c, const char *suffix) {
    const char *dot = strrchr(c->o->output, '.');
    return arena_printf(c->arena, "%.*s%s", (int)(dot - c->o->output), c->o->output, suffix);
}
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Text printed by `print` as the contents of `path`. */
static bool add_text(Compile *c, const char *path, const char *(*print)(FILE *f, Compile *c)) {
    TextStream t;
    const char *why = print(text_open(&t), c);
    char *text = text_close(&t);
    add(c, path, text, t.n);
    return !why || fail(path, why);
}

static const char *print_header(FILE *f, Compile *c) {
    artifact_header(f, c->m, c->target->backend);
    return NULL;
}

/* ---- one function per suffix -------------------------------------------------------------------------------- */
static const char *print_graphs(FILE *f, Compile *c) {
    session_prepare(&c->session, c->o, c->target);
    for (int e = 0; e < ENTRY_COUNT; e++) {
        Graph *g = c->session.graph[e];
        if (!g) continue;
        g = pass_canonicalize(&c->session.context, g);
        fprintf(f, "# entry %s\n", entry_name[e]);
        graph_print(f, g);
    }
    return NULL;
}
static bool emit_graph(Compile *c) { return add_text(c, c->o->output, print_graphs); }

static const char *print_kernels(FILE *f, Compile *c) {
    for (int k = 0; k < c->m->kernels.n; k++) {
        kernel_print(f, c->m->kernels.at[k]);
        fputc('\n', f);
    }
    return NULL;
}

/* A message of a back end, to be freed. */
static bool back_end_failed(const Compile *c, char *why) {
    fail(c->target->name, why ? why : "failed");
    free(why);
    return false;
}

static HostOptions host_options(const Options *o) { return (HostOptions){.triple = o->triple, .cpu = o->arch}; }

/* With what the host's back end decides for the processor. */
static bool emit_tile(Compile *c) {
    const HostOptions ho = host_options(c->o);
    char *why = NULL;
    if (c->target->device->is_cpu && !host_schedule(c->m, &ho, &why)) return back_end_failed(c, why);
    return add_text(c, c->o->output, print_kernels);
}

static bool emit_ll(Compile *c) {
    const HostOptions ho = host_options(c->o);
    const NvptxOptions no = {.arch = c->target->name};
    char *text, *why;
    const bool gpu = c->target->device->is_gpu;
    if (!(gpu ? nvptx_emit_ir_text(c->m, &no, &text, &why) : host_emit_ir_text(c->m, &ho, &text, &why)))
        return back_end_failed(c, why);
    add(c, c->o->output, text, strlen(text));
    return true;
}

static bool emit_object(Compile *c) {
    const HostOptions ho = host_options(c->o);
    void *bytes;
    size_t n;
    char *why;
    if (!host_emit_object(c->m, &ho, &bytes, &n, &why)) return back_end_failed(c, why);
    add(c, c->o->output, bytes, n);
    return add_text(c, beside(c, ".h"), print_header);
}

static const char *print_c99(FILE *f, Compile *c) { return artifact_c99(f, c->m, base_name(beside(c, ".h"))); }
static bool emit_c(Compile *c) {
    return add_text(c, c->o->output, print_c99) && add_text(c, beside(c, ".h"), print_header);
}

static bool ptx_text(const Compile *c, char **text) {
    const NvptxOptions no = {.arch = c->target->name};
    char *why;
    return nvptx_emit_ptx(c->m, &no, text, &why) || back_end_failed(c, why);
}

/* The launcher beside the kernels; it opens their file, or with --embed carries the PTX. */
static const char *print_cuda(FILE *f, Compile *c) {
    return artifact_cuda(f, c->m, base_name(beside(c, ".h")), base_name(c->o->output), c->o->embed ? c->ptx : NULL);
}
static bool emit_launcher(Compile *c) {
    return add_text(c, beside(c, ".c"), print_cuda) && add_text(c, beside(c, ".h"), print_header);
}

static bool emit_ptx(Compile *c) {
    char *text;
    if (!ptx_text(c, &text)) return false;
    add(c, c->o->output, text, strlen(text));
    c->ptx = text;
    return emit_launcher(c);
}

static bool assemble(Compile *c, Scratch *s, const char *text, const char **error) {
    const char *ptx = scratch_file(s, "model.ptx"), *cubin = scratch_file(s, "model.cubin");
    const char *arch = arena_printf(c->arena, "-arch=%s", c->target->name);
    char *argv[] = {"ptxas", (char *)(uintptr_t)arch, "-o", (char *)(uintptr_t)cubin, (char *)(uintptr_t)ptx, NULL};
    uint8_t *bytes;
    size_t n;
    if (!scratch_write(s, ptx, text, strlen(text), error) || !process_run(s, argv, error) ||
        !file_read(c->arena, cubin, &bytes, &n, error))
        return false;
    add(c, c->o->output, memcpy(memory_alloc(n), bytes, n), n);
    return true;
}

static bool emit_cubin(Compile *c) {
    const char *error = "failed";
    char *text;
    Scratch s;
    if (!ptx_text(c, &text)) return false;
    bool ok = scratch_open(c->arena, &s, &error);
    if (ok) {
        ok = assemble(c, &s, text, &error);
        scratch_close(&s);
    }
    free(text);
    if (!ok)
        return fail(".cubin needs ptxas of the CUDA toolkit on PATH (or write .ptx, which the driver assembles)",
                    error);
    return emit_launcher(c);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
typedef struct Form {
    const char *suffix, *target; /* the default target */
    bool gpu, host, c99;         /* which back ends it can be for */
    bool graphs_only;
    bool (*emit)(Compile *c);
} Form;

static const Form forms[] = {
    {".graph", "host", true, true, true, true, emit_graph},     {".tile", "host", true, true, true, false, emit_tile},
    {".ll", "host", true, true, false, false, emit_ll},         {".o", "host", false, true, false, false, emit_object},
    {".c", "c99", false, false, true, false, emit_c},           {".ptx", "sm_90", true, false, false, false, emit_ptx},
    {".cubin", "sm_90", true, false, false, false, emit_cubin},
};

static const Form *find_form(const char *path) {
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(dot, forms[i].suffix)) return &forms[i];
    return NULL;
}

static const Target *form_target(const Options *o, const Form *form) {
    const Target *t = target_asked(o, form->target, form->host && !form->graphs_only);
    if (!t) return NULL;
    if (t->device->is_gpu ? form->gpu : t->device->is_cpu ? form->host : form->c99) return t;
    fprintf(stderr, "fusec: a %s file is not made for target %s: -o FILE%s is, or --target %s\n", form->suffix, t->name,
            t->device->suffix, form->target);
    return NULL;
}

static int compile(Compile *c, const Form *form) {
    if (session_open(&c->session, c->arena, c->o) && !form->graphs_only)
        c->m = session_compile(&c->session, c->o, c->target);
    const bool tested = !c->o->selftest || !c->m || selftest_measure(c->arena, c->o, c->m);
    const bool ok = !diag_errors(c->session.diag) && (form->graphs_only || c->m) && tested && form->emit(c) &&
                    write_files(c->file, c->n);
    const int status = session_finish(&c->session);
    for (int i = 0; i < c->n; i++) free(c->owned[i]);
    return ok ? status : EXIT_ERROR;
}

int command_compile(const Options *o) {
    const Form *form = find_form(o->output);
    if (!form) {
        fprintf(stderr, "fusec: %s: what to write follows from the suffix: .ptx .cubin .o .c .ll .graph .tile\n",
                o->output);
        return EXIT_USAGE;
    }
    if (o->threads && !o->selftest) {
        fputs("fusec: --threads: a compile uses them for --selftest only; leave it out\n", stderr);
        return EXIT_USAGE;
    }
    Compile c = {.o = o, .target = form_target(o, form)};
    if (!c.target) return EXIT_USAGE;
    c.arena = arena_new();
    const int status = compile(&c, form);
    arena_free(c.arena);
    return status;
}
