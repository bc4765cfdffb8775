#include "tools/fusec/profile_file.h"
#include "tools/fusec/write_file.h"
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of --entry. */
static void check_entries(Session *s, const Options *o) {
    for (int e = 0; e < ENTRY_COUNT; e++) {
        if (!o->entry[e] || s->graph[e]) continue;
        diag_report(s->diag, E0306, (SrcLoc){0}, "there is no entry %s", entry_name[e]);
        diag_help(s->diag, "it needs a `train` statement");
    }
}

bool session_open(Session *s, Arena *a, const Options *o) {
    const double start = now();
    *s = (Session){.arena = a, .diag = diag_new(a)};
    const FrontendOptions fo = {.overrides = o->overrides.at, .n_overrides = o->overrides.n, .model = o->model,
                                .check_finite = o->check_finite};
    s->program = program_load(a, s->diag, o->input, &fo);
    for (int i = 0; i < diag_files(s->diag); i++)
        if (!diag_source(s->diag, i)->library) write_file_keeps(diag_source(s->diag, i)->name);
    const bool ok = s->program && program_lower(a, s->diag, s->program, o->model, s->graph);
    if (ok) check_entries(s, o);
    s->frontend_seconds = now() - start;
    return ok && !diag_errors(s->diag);
}

static void report(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    static const DiagCode code[] = {[COMPLAINT_WARNING] = W0301, [COMPLAINT_ERROR] = E0501, [COMPLAINT_TOO_LARGE] = E0216, [COMPLAINT_BUDGET] = E0502};
    Session *s = user;
    if (what == COMPLAINT_WARNING && s->context.tried_again) return;
    diag_report(s->diag, code[what], loc, "%s", message);
    if (help) diag_help(s->diag, "%s", help);
}

static void print_times(const Session *s) {
    fprintf(stderr, "%-14s %8.2f ms\n", "frontend", s->frontend_seconds * 1e3);
    for (int i = 0; i < PASS_COUNT; i++)
        fprintf(stderr, "%-18s %8.2f ms\n", pass_info[i].name, s->context.seconds[i] * 1e3);
}

void session_prepare(Session *s, const Options *o, const Target *t) {
    s->context = (PassContext){.arena = s->arena,
                               .target = t,
                               .checkpoint = o->checkpoint,
                               .memory_budget = o->memory_budget,
                               .verify = o->verify,
                               .no_verify = o->no_verify,
                               .report = report,
                               .user = s,
                               .print_to = stdout};
    memcpy(s->context.print_after, o->print_after, sizeof o->print_after);
    memcpy(s->context.disabled, o->disabled, sizeof o->disabled);
    bool some = false;
    for (int e = 0; e < ENTRY_COUNT; e++) some |= o->entry[e];
    for (int e = 0; e < ENTRY_COUNT; e++)
        if (some && !o->entry[e] && e != ENTRY_INIT && e != ENTRY_DERIVE) s->graph[e] = NULL;
}

Module *session_compile(Session *s, const Options *o, const Target *t) {
    session_prepare(s, o, t);
    if (o->profile) {
        const ProfileFile *p = profile_read(s, o->profile);
        if (!p || !profile_suits(s, p, t)) return NULL;
        s->context.profile = &p->profile;
    }
    s->context.consumes = true;
    Module *m = compile_module(&s->context, s->graph);
    if (m) m->check_finite = o->check_finite;
    if (o->time_passes) print_times(s);
    return m;
}

int session_finish(Session *s) {
    diag_print(s->diag, stderr);
    return diag_errors(s->diag) ? EXIT_ERROR : EXIT_OK;
}

const Target *find_target(const char *name) {
    const Target *t = target_find(name);
    if (t) return t;
    fprintf(stderr, "fusec: no such target: %s (", name);
    for (int i = 0; i < n_targets; i++) fprintf(stderr, "%s%s", i ? ", " : "", targets[i].name);
    fputs("; a microcontroller compiles what c99 writes, or takes host with --triple)\n", stderr);
    return NULL;
}

static bool is_gpu(const Target *t) { return t && t->device->is_gpu; }

/* --arch is a GPU's architecture, or for machine code of the host a CPU, which the back end looks up. */
static bool arch_fits(const Options *o, const Target *t, bool machine_code) {
    const bool of_gpu = o->arch && is_gpu(target_find(o->arch));
    if (!o->arch || !strcmp(o->arch, t->name) || (t->device->is_cpu && machine_code && !of_gpu)) return true;
    if (of_gpu)
        fprintf(stderr, "fusec: --arch %s and --target %s differ: leave one out\n", o->arch, t->name);
    else if (is_gpu(t))
        fprintf(stderr, "fusec: --arch %s: for a GPU it is sm_80, sm_90 or sm_90a\n", o->arch);
    else
        fprintf(stderr, "fusec: --arch %s: no machine code is made here for target %s; leave it out\n", o->arch,
                t->name);
    return false;
}

const Target *target_asked(const Options *o, const char *fallback, bool machine_code) {
    const bool by_arch = !o->target && o->arch && is_gpu(target_find(o->arch));
    const Target *t = find_target(o->target ? o->target : by_arch ? o->arch : fallback);
    if (!t || !arch_fits(o, t, machine_code)) return NULL;
    if (!o->triple || t->device->is_cpu) return t;
    fprintf(stderr, "fusec: --triple %s: code for %s is not for a processor; leave it out\n", o->triple, t->name);
    return NULL;
}

/* One model; false when it has errors of its own. */
static bool check_model(Session *s, const Options *o, const char *model) {
    memset(s->graph, 0, sizeof s->graph);
    return program_lower(s->arena, s->diag, s->program, model, s->graph) && !diag_errors(s->diag) &&
           session_compile(s, o, target_find("c99"));
}

/* Every model, unless one is named; the first with errors is the last looked at.  Tiles
 * are not chosen here: a profile is read, and compared with --target. */
int command_check(const Options *asked) {
    Arena *a = arena_new();
    Session s = {.arena = a, .diag = diag_new(a)};
    Options any = *asked;
    const Options *o = &any;
    const FrontendOptions fo = {.overrides = o->overrides.at, .n_overrides = o->overrides.n, .model = o->model,
                                .check_finite = o->check_finite};
    const ProfileFile *p = o->profile ? profile_read(&s, o->profile) : NULL;
    const Target *t = o->target ? find_target(o->target) : NULL;
    if (o->target && !t) {
        arena_free(a);
        return EXIT_USAGE;
    }
    if (p && t) profile_suits(&s, p, t);
    any.profile = NULL;
    s.program = program_load(a, s.diag, o->input, &fo);
    const int n = s.program ? program_models(s.program) : 0;
    if (s.program && (o->model || n == 0)) check_model(&s, o, o->model);
    for (int i = 0; !o->model && i < n && check_model(&s, o, program_model_name(s.program, i)); i++) continue;
    const int status = session_finish(&s);
    arena_free(a);
    return status;
}
