/* fusec MODEL.dsl -o FILE: what FILE's suffix asks for, and the files that belong beside it.  Everything is made in
 * memory first and written together. */
#include "codegen/back_end.h"
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
    const BackEnd *back_end;
    BackEndOptions options;
    Module *m;
    OutputFile file[MAX_OUTPUTS];
    void *owned[MAX_OUTPUTS]; /* malloc'd contents */
    const char *code;         /* the text of the output, where that is the back end's own; one of `owned` */
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
    artifact_header(f, c->m, c->back_end->form);
    return NULL;
}

/* ---- what is written ---------------------------------------------------------------------------------------- */
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

/* With what the back end decides for the processor. */
static bool emit_tile(Compile *c) {
    char *why = NULL;
    if (c->back_end->schedule && !c->back_end->schedule(c->m, &c->options, &why)) return back_end_failed(c, why);
    return add_text(c, c->o->output, print_kernels);
}

static bool emit_ir(Compile *c) {
    char *text, *why = NULL;
    if (!c->back_end->ir_text(c->m, &c->options, &text, &why)) return back_end_failed(c, why);
    add(c, c->o->output, text, strlen(text));
    return true;
}

/* The launcher beside the code; it opens the code's file, or with --embed carries it. */
static const char *print_launcher(FILE *f, Compile *c) {
    return c->back_end->launcher(f, c->m, base_name(beside(c, ".h")), base_name(c->o->output), c->o->embed ? c->code : NULL);
}
static bool emit_around(Compile *c) {
    return (!c->back_end->launcher || add_text(c, beside(c, ".c"), print_launcher)) && add_text(c, beside(c, ".h"), print_header);
}

static bool back_end_code(Compile *c, void **bytes, size_t *n) {
    char *why = NULL;
    return c->back_end->code(c->m, &c->options, base_name(beside(c, ".h")), bytes, n, &why) || back_end_failed(c, why);
}

static bool emit_code(Compile *c) {
    void *bytes;
    size_t n;
    if (!back_end_code(c, &bytes, &n)) return false;
    add(c, c->o->output, bytes, n);
    c->code = bytes;
    return emit_around(c);
}

static bool assemble(Compile *c, Scratch *s, const char *text, const char **error) {
    const char *from = scratch_file(s, "model"), *to = scratch_file(s, "model.out");
    const char *arch = arena_printf(c->arena, "-arch=%s", c->target->name);
    char *argv[] = {(char *)(uintptr_t)c->back_end->assembler, (char *)(uintptr_t)arch, "-o", (char *)(uintptr_t)to, (char *)(uintptr_t)from, NULL};
    uint8_t *bytes;
    size_t n;
    if (!scratch_write(s, from, text, strlen(text), error) || !process_run(s, argv, error) ||
        !file_read(c->arena, to, &bytes, &n, error))
        return false;
    add(c, c->o->output, memcpy(memory_alloc(n), bytes, n), n);
    return true;
}

static bool emit_assembled(Compile *c) {
    const char *error = "failed";
    void *text;
    size_t n;
    Scratch s;
    if (!back_end_code(c, &text, &n)) return false;
    bool ok = scratch_open(c->arena, &s, &error);
    if (ok) {
        ok = assemble(c, &s, text, &error);
        scratch_close(&s);
    }
    free(text);
    if (!ok)
        return fail(arena_printf(c->arena, "%s needs %s of the CUDA toolkit on PATH (or write %s, which the driver assembles)",
                                 c->back_end->assembled, c->back_end->assembler, c->target->device->suffix),
                    error);
    return emit_around(c);
}

/* ---- which of them ------------------------------------------------------------------------------------------------ */
typedef struct Form {
    const char *suffix;
    bool (*emit)(Compile *c);
    const BackEnd *back_end; /* whose it alone is; NULL: of any */
    bool graphs_only;
} Form;

/* false: no file has the suffix. */
static bool find_form(const char *path, Form *form) {
    static const Form of_any[] = {{.suffix = ".graph", .emit = emit_graph, .graphs_only = true}, {.suffix = ".tile", .emit = emit_tile}, {.suffix = ".ll", .emit = emit_ir}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof of_any / sizeof *of_any; i++)
        if (!strcmp(dot, of_any[i].suffix)) return *form = of_any[i], true;
    for (int i = 0; dot && i < n_targets; i++) {
        const BackEnd *b = back_ends[targets[i].backend];
        const bool code = !strcmp(dot, targets[i].device->suffix);
        if (code || (b->assembled && !strcmp(dot, b->assembled)))
            return *form = (Form){.suffix = dot, .emit = code ? emit_code : emit_assembled, .back_end = b}, true;
    }
    return false;
}

static const Target *form_target(const Options *o, const Form *form) {
    const char *usual = form->back_end ? form->back_end->usual : "host";
    const Target *t = target_asked(o, usual, !form->graphs_only);
    if (!t) return NULL;
    const BackEnd *b = back_ends[t->backend];
    if (form->back_end ? b == form->back_end : form->emit != emit_ir || b->ir_text) return t;
    fprintf(stderr, "fusec: a %s file is not made for target %s: -o FILE%s is, or --target %s\n", form->suffix, t->name,
            t->device->suffix, usual);
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
    Form form;
    if (!find_form(o->output, &form)) {
        fprintf(stderr, "fusec: %s: what to write follows from the suffix: .ptx .cubin .o .c .ll .graph .tile\n",
                o->output);
        return EXIT_USAGE;
    }
    if (o->threads && !o->selftest) {
        fputs("fusec: --threads: a compile uses them for --selftest only; leave it out\n", stderr);
        return EXIT_USAGE;
    }
    Compile c = {.o = o, .target = form_target(o, &form)};
    if (!c.target) return EXIT_USAGE;
    c.back_end = back_ends[c.target->backend];
    c.options = (BackEndOptions){.target = c.target, .arch = o->arch, .triple = o->triple};
    c.arena = arena_new();
    const int status = compile(&c, &form);
    arena_free(c.arena);
    return status;
}
