/* fusec run: options to a compiled module and its executor. */
#include "tools/fusec/run.h"
#include "tools/fusec/tune.h"
#include <stdlib.h>
#include <string.h>

static bool number(const char *text, double *v) {
    char *end;
    *v = strtod(text, &end);
    return end != text && !*end;
}

static bool set_hypers(Run *r) {
    const Module *m = r->m;
    const char **names = ARENA_ARRAY(r->arena, const char *, m->hypers.n + 1);
    r->hypers = ARENA_ARRAY(r->arena, float, m->hypers.n + 1);
    for (int i = 0; i < m->hypers.n; i++) {
        names[i] = m->hypers.at[i].name;
        r->hypers[i] = (float)m->hypers.at[i].value;
    }
    for (int i = 0; i < r->o->hypers.n; i++) {
        const Override *x = &r->o->hypers.at[i];
        int h = 0;
        double v;
        while (h < m->hypers.n && strcmp(names[h], x->name)) h++;
        if (h == m->hypers.n)
            return run_usage(r, run_error("--hyper: %s has no %s%s; it has: %s", m->name, x->name,
                                          names_hint(r->arena, x->name, names, m->hypers.n),
                                          names_text(r->arena, names, m->hypers.n)));
        if (!number(x->value, &v)) return run_usage(r, run_error("--hyper %s: not a number: %s", x->name, x->value));
        r->hypers[h] = (float)v;
    }
    return true;
}

static bool set_extents(Run *r) {
    const Module *m = r->m;
    r->syms = ARENA_ARRAY(r->arena, int32_t, m->syms.n + 1);
    for (int s = 0; s < m->syms.n; s++) r->syms[s] = (int32_t)m->syms.at[s].bound;
    for (int i = 0; i < r->o->extents.n; i++) {
        const Override *x = &r->o->extents.at[i];
        int s = 0;
        double v;
        while (s < m->syms.n && strcmp(m->syms.at[s].name, x->name)) s++;
        if (s == m->syms.n)
            return run_usage(r, run_error("--extent: %s has no bounded dimension %s", m->name, x->name));
        if (!number(x->value, &v) || v < 1 || v > (double)m->syms.at[s].bound || v != (double)(int32_t)v)
            return run_usage(r, run_error("--extent %s: a whole number from 1 to %lld is needed", x->name,
                                          (long long)m->syms.at[s].bound));
        r->syms[s] = (int32_t)v;
    }
    return true;
}

static bool unknown_line(Run *r, const char *name) {
    const Module *m = r->m;
    const char **named = ARENA_ARRAY(r->arena, const char *, m->lines.n + 1);
    int n = 0;
    for (int l = 0; l < m->lines.n; l++)
        if (*m->lines.at[l]) named[n++] = m->lines.at[l];
    return run_error("--line: no `train` line of %s is named %s%s; there are: %s", m->name, name, names_hint(r->arena, name, named, n),
                     names_text(r->arena, named, n));
}

static bool set_turns(Run *r) {
    const Module *m = r->m;
    r->turn = ARENA_ARRAY(r->arena, uint32_t, r->o->lines.n + 1);
    for (int i = 0; i < r->o->lines.n; i++) {
        const char *name = r->o->lines.at[i];
        int l = 0;
        while (l < m->lines.n && strcmp(m->lines.at[l], name)) l++;
        if (!*name || m->lines.n == 0)
            return run_usage(r, run_error("--line: %s has no `train` line with a name; write `train LOSS as NAME with ..`", m->name));
        if (l == m->lines.n) return run_usage(r, unknown_line(r, name));
        r->turn[r->n_turns++] = (uint32_t)1 << l;
    }
    return true;
}

bool run_extent_given(const Run *r, int sym) {
    for (int i = 0; i < r->o->extents.n; i++)
        if (!strcmp(r->o->extents.at[i].name, r->m->syms.at[sym].name)) return true;
    return false;
}

static bool open_executor(Run *r) {
    const ExecutorOptions eo = {.arch = r->o->arch, .threads = r->o->threads, .check_finite = r->o->check_finite};
    const char *error = "failed";
    r->executor = r->kind->open(r->arena, r->m, &eo, &error);
    return r->executor || run_error("%s: %s", r->kind->name, error);
}

/* Tiles of another GPU's profile are right, but perhaps not the fastest. */
static void check_profile(const Run *r) {
    TuneDevice d;
    const Profile *p = r->session.context.profile;
    if (!p || !tune_device_open(&d)) return;
    if (strcmp(d.name, p->field[PROFILE_GPU]))
        fprintf(stderr, "fusec: warning: %s was measured on %s, this is %s: measure here with `fusec tune`\n",
                r->o->profile, p->field[PROFILE_GPU], d.name);
    else if (strcmp(d.driver, p->field[PROFILE_DRIVER]))
        fprintf(stderr, "fusec: warning: %s was measured with driver %s, this is %s: measure here with `fusec tune`\n",
                r->o->profile, p->field[PROFILE_DRIVER], d.driver);
    tune_device_close(&d);
}

bool run_open(Run *r, Arena *a, const Options *o, const bool entries[ENTRY_COUNT]) {
    const char *name = o->target ? o->target : "host";
    Options compile = *o;
    *r = (Run){.arena = a, .o = o, .kind = executor_find(name), .seed = o->seed, .status = EXIT_USAGE};
    if (!r->kind && target_find(name))
        return run_error("run --target takes host, c99, cuda or interp: for %s write --target cuda --arch %s", name,
                         name);
    if (!r->kind) return run_error("run --target takes host, c99, cuda or interp, not %s", name);
    if (o->arch && r->kind == &executor_c99)
        return run_error("--arch says nothing about c99, which $CC compiles; leave it out");
    if (o->threads && r->kind != &executor_host)
        return run_error("--threads says nothing about %s, which has none of ours; leave it out", name);
    const char *target = r->kind->target(o->arch);
    if (!target) return run_error("no such arch: %s; cuda takes sm_80, sm_90 or sm_90a", o->arch);
    r->status = EXIT_ERROR;
    memcpy(compile.entry, entries, sizeof compile.entry);
    if (session_open(&r->session, a, o)) {
        for (int e = 0; e < ENTRY_COUNT; e++)
            if (entries[e] && !r->session.graph[e])
                return run_error("%s has no entry %s: it needs a `train` statement", o->input, entry_name[e]);
        if (entries[ENTRY_INFER] && !wants_apply(r, r->session.graph[ENTRY_INFER])) return false;
        r->m = session_compile(&r->session, &compile, target_find(target));
    }
    if (session_finish(&r->session) != EXIT_OK || !r->m) return false;
    check_profile(r);
    return set_hypers(r) && set_extents(r) && set_turns(r) && open_executor(r);
}

void run_close(Run *r) {
    if (r->m) run_free(r);
    if (r->executor) r->kind->close(r->executor);
    r->executor = NULL;
}

/* An option that this entry, or training, passes over; NULL: none. */
static const char *useless_option(const Options *o) {
    const bool data = o->data.n > 0, asked = o->run_entry != ENTRY_COUNT;
    const Entry entry = asked ? o->run_entry : data ? ENTRY_STEP : ENTRY_INFER;
    const bool infers = entry == ENTRY_INFER, tests = data && o->test_rows;
    if (o->accumulate && entry != ENTRY_GRAD) return "--accumulate adds up gradients: --entry grad";
    if (o->lines.n && entry != ENTRY_STEP) return "--line chooses among the `train` lines: --entry step";
    if (o->wants.n && !infers && !tests)
        return "--want chooses among the outputs of --entry infer, or with --test-rows";
    if (!data) return NULL;
    if (infers && (o->steps || o->epochs || o->save))
        return "--steps, --epochs and --save are for training: --entry step";
    if (infers && o->rows && tests) return "--rows or --test-rows: --entry infer takes one of them";
    if (!infers && !tests && o->accuracy) return "--accuracy is measured on --test-rows A:B";
    if (!infers && !tests && o->outputs)
        return "--outputs are those of --test-rows A:B; --save writes what was trained";
    return NULL;
}

int command_run(const Options *o) {
    const char *useless = useless_option(o);
    if (useless) {
        fprintf(stderr, "fusec: %s\n", useless);
        return EXIT_USAGE;
    }
    Arena *a = arena_new();
    Run r = {.arena = a, .o = o};
    const int status = o->data.n ? run_train(&r) : run_once(&r);
    run_close(&r);
    arena_free(a);
    return status;
}
