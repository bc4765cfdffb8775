/* fusec verify: targets, rounds, the table. */
#include "tools/fusec/verify.h"
#include "ir/target.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const all_targets = "host,c99,interp,cuda";

/* ---- targets ----------------------------------------------------------------------------------------------------- */
static bool has_program(const char *name) {
    const char *path = getenv("PATH");
    if (strchr(name, '/')) return access(name, X_OK) == 0;
    for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
        char file[4096];
        const int n = snprintf(file, sizeof file, "%.*s/%s", (int)strcspn(path, ":"), path, name);
        if (n > 0 && (size_t)n < sizeof file && access(file, X_OK) == 0) return true;
    }
    return false;
}

/* Why this machine cannot run it; NULL: it can. */
static const char *absent(Arena *a, const char *target) {
    const char *cc = getenv("CC");
    if (!cc || !*cc) cc = "cc";
    if (!strcmp(target, "c99") && !has_program(arena_strndup(a, cc, strcspn(cc, " "))))
        return arena_printf(a, "no C compiler: %s (set CC)", cc);
    if (strcmp(target, "cuda") != 0) return NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "no libcuda.so.1: a GPU's driver, or the software GPU (LD_LIBRARY_PATH=BUILD/ptxsim)";
    dlclose(library);
    return NULL;
}

static void add_target(Verify *v, const char *name) {
    VerifyTarget t = {.name = name, .options = *v->o};
    const Target *arch = v->o->arch ? target_find(v->o->arch) : NULL;
    const bool host = !strcmp(name, "host"), gpu = arch && arch->device->is_gpu;
    t.options.target = name;
    /* a processor's name and the threads are for host, a GPU's name for cuda and for the interpreter of its kernels */
    if (!host) t.options.threads = 0;
    if (host ? gpu : !gpu || !strcmp(name, "c99")) t.options.arch = NULL;
    vec_push(v->arena, v->targets, t);
}

/* False: usage. */
static bool find_targets(Verify *v) {
    const char *list = v->o->target ? v->o->target : all_targets;
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        const char *name = arena_strndup(v->arena, at, strcspn(at, ","));
        const char *why;
        if (!executor_find(name))
            return run_error("verify --target takes host, c99, interp and cuda, not %s", name), false;
        why = v->o->target ? NULL : absent(v->arena, name);
        if (why)
            printf("%s: skipped, %s\n", name, why);
        else
            add_target(v, name);
    }
    return v->targets.n || run_error("verify --target: no target is named");
}

/* False: usage, which is the same for every target, and is said. */
static bool open_targets(Verify *v) {
    bool entries[ENTRY_COUNT];
    for (int e = 0; e < ENTRY_COUNT; e++) entries[e] = v->graph[e] != NULL;
    for (int i = 0; i < v->targets.n; i++) {
        VerifyTarget *t = &v->targets.at[i];
        t->open = run_open(&t->run, v->arena, &t->options, entries) && run_allocate(&t->run, entries);
        if (!t->open && t->run.status == EXIT_USAGE) return false;
        if (!t->open) t->failed = "it does not compile, or cannot run here";
    }
    return true;
}

static void close_targets(Verify *v) {
    for (int i = 0; i < v->targets.n; i++) run_close(&v->targets.at[i].run);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */
static void check_target(Verify *v, VerifyTarget *t, Entry e, int line, const Bounds *b) {
    t->wrong = (Wrong){0};
    if (!verify_entry(v, t, e, line, b)) t->failed = arena_printf(v->arena, "entry %s fails%s", entry_name[e],
                                 v->o->check_finite ? "; without --check-finite what is not finite is no error" : "");
    if (!t->wrong.found) return;
    v->bad = true;
    if (line >= 0) printf("%s: a step of `train` line %s alone is wrong\n", t->name, v->model->lines.at[line]);
    if (t->blamed || line >= 0) return;
    t->blamed = true;
    verify_blame(v, t, b);
}

static bool check_entry(Verify *v, Entry e) {
    const char *error;
    Arena *const a = v->scratch;
    const Bounds *b = graph_eval_bounds(a, v->graph[e], &v->env, verify_results(a, v->graph[e]), &error);
    if (!b) return run_error("entry %s in float64: %s", entry_name[e], error);
    for (int line = -1; line < (e == ENTRY_STEP ? v->model->lines.n : 0); line++)
        for (int i = 0; i < v->targets.n; i++)
            if (!v->targets.at[i].failed) check_target(v, &v->targets.at[i], e, line, b);
    if (e == ENTRY_STEP) verify_advance(v, e, b->value);
    return true;
}

static bool check_round(Verify *v) {
    bool ok = true;
    v->scratch = arena_new();
    verify_round(v);
    for (Entry e = v->round ? ENTRY_INFER : ENTRY_INIT; e < ENTRY_COUNT && ok; e++)
        if (v->graph[e]) ok = check_entry(v, e);
    if (ok && v->round == 0 && v->lowered[ENTRY_GRAD]) ok = verify_gradients(v);
    arena_free(v->scratch);
    return ok;
}

/* ---- what was found ---------------------------------------------------------------------------------------------- */
static void print_finding(const Verify *v, Entry e, const VerifyTarget *t, int result) {
    const Finding *f = &t->finding[e][result];
    const Result *r = &v->graph[e]->results.at[result];
    const bool none = f->elements > 0 && f->undecided == f->elements; /* was compared */
    if (v->o->quiet && !f->wrong && !none) return;
    printf("  %-6s %-7s %-32s error %-10.3g bound %-10.3g", entry_name[e], t->name, verify_name(v, r), f->error,
           f->within);
    if (f->undecided) printf(" %lld of %lld undecided", (long long)f->undecided, (long long)f->elements);
    if (f->wrong) printf(" WRONG: %lld of %lld", (long long)f->wrong, (long long)f->elements);
    if (none) printf(": not compared");
    putchar('\n');
}

static void print_findings(const Verify *v) {
    for (int e = 0; e < ENTRY_COUNT; e++)
        for (int i = 0; i < v->targets.n && v->graph[e]; i++)
            for (int r = 0; v->targets.at[i].finding[e] && r < v->graph[e]->results.n; r++)
                print_finding(v, (Entry)e, &v->targets.at[i], r);
}

typedef struct VerifyTotal {
    int64_t elements, wrong, undecided;
} VerifyTotal;

static VerifyTotal total_of(const Verify *v, const VerifyTarget *t) {
    VerifyTotal sum = {0};
    for (int e = 0; e < ENTRY_COUNT; e++)
        for (int r = 0; t->finding[e] && r < v->graph[e]->results.n; r++) {
            sum.elements += t->finding[e][r].elements;
            sum.wrong += t->finding[e][r].wrong;
            sum.undecided += t->finding[e][r].undecided;
        }
    return sum;
}

static void print_verdicts(Verify *v) {
    for (int i = 0; i < v->targets.n; i++) {
        const VerifyTarget *t = &v->targets.at[i];
        const VerifyTotal sum = total_of(v, t);
        printf("%s: ", t->name);
        if (t->failed) v->bad = true;
        if (t->failed)
            printf("FAILED: %s\n", t->failed);
        else
            printf("%s, %lld elements compared, %lld undecided, %lld wrong\n", sum.wrong ? "WRONG" : "agrees",
                   (long long)(sum.elements - sum.undecided), (long long)sum.undecided, (long long)sum.wrong);
    }
}

static int verify(Verify *v, int rounds) {
    if (!open_targets(v)) return EXIT_USAGE;
    if (!verify_given(v)) return EXIT_ERROR;
    printf("model %s, seed %u, %d rounds, against float64\n", v->model->name, v->o->seed, rounds);
    verify_start(v);
    bool ok = true;
    for (v->round = 0; v->round < rounds && ok; v->round++) ok = check_round(v);
    print_findings(v);
    print_verdicts(v);
    return ok && !v->bad ? EXIT_OK : EXIT_ERROR;
}

int command_verify(const Options *asked) {
    Arena *a = arena_new();
    Options o = *asked;
    const int rounds = o.rounds > 0 ? o.rounds : 2;
    memset(o.print_after, 0, sizeof o.print_after);
    Verify v = {.arena = a, .o = &o, .random = o.seed};
    int status = EXIT_USAGE;
    if (find_targets(&v)) {
        const bool graphs = verify_graphs(&v);
        const bool sound = session_finish(&v.session) == EXIT_OK && graphs;
        status = sound && verify_affordable(&v, rounds) ? verify(&v, rounds) : EXIT_ERROR;
        close_targets(&v);
    }
    arena_free(a);
    return status;
}
