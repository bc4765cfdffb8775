#include "tests/net/judge.h"
#include "tests/net/tensor.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void path_of(char *to, const Command *c, const char *name) { snprintf(to, 400, "%s/%s", c->folder, name); }

static Stored stored(const char *name, const char *dtype, const Shape *s, double *data) {
    Stored r = {.rank = s->rank, .data = data, .size = shape_size(s)};
    snprintf(r.name, sizeof r.name, "%s", name);
    snprintf(r.dtype, sizeof r.dtype, "%s", dtype);
    for (int d = 0; d < s->rank; d++) r.n[d] = s->n[d];
    return r;
}

// Parameters as they were before any step: drawn again from the seed.
static bool write_params(const Prog *p, const Command *c) {
    Expected x;
    Stored s[MAX_RESULTS];
    char path[400];
    expect(p, p->loss >= 0 ? E_GRAD : E_INFER, &x);
    int n = 0;
    for (; n < x.eval.nparams && n < MAX_RESULTS; n++) s[n] = stored(x.eval.params[n].path, "F32", &x.eval.params[n].shape, x.eval.params[n].data);
    path_of(path, c, "params.safetensors");
    bool ok = stored_write(path, s, n);
    expected_free(&x);
    return ok;
}
static bool write_inputs(const Prog *p, const Command *c, const Eval *e) {
    static const char *types[] = {"F32", "I32", "BOOL"};
    Stored s[MAX_VALUES];
    char path[400], name[16];
    int n = 0;
    for (int i = 0; i < p->count; i++) {
        if (!e->inputs[i]) continue;
        snprintf(name, sizeof name, "v%d", i);
        s[n++] = stored(name, types[p->at[i].type], &p->at[i].shape, e->inputs[i]);
    }
    path_of(path, c, "inputs.safetensors");
    return stored_write(path, s, n);
}
static bool write_program(const Prog *p, const Command *c) {
    char path[400];
    path_of(path, c, "m.dsl");
    FILE *f = fopen(path, "w");
    if (!f) return false;
    print_dsl(f, p);
    return fclose(f) == 0;
}

// Of the processors that are drawn the greatest up to `most` whose code runs here; -1: none of them.
static int arch_here(int most) {
#if defined __x86_64__
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    bool has[3] = {true, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), wide && __builtin_cpu_supports("avx512dq")};
    while (most > 0 && !has[most]) most--;
    return most;
#else
    (void)most;
    return -1;
#endif
}

// Options of the run that a program asks for, as text; of archs, those of the target.
static void print_options(FILE *f, const Prog *p, const Command *c) {
    static const char *const arch[2][3] = {{"sm_80", "sm_90", "sm_90a"}, {"x86-64", "haswell", "skylake-avx512"}};
    bool on_host = !strcmp(c->target, "host");
    fprintf(f, "--entry=%s --target=%s --quiet", entry_name(entry_of(p)), c->target);
    if (adds_up(p)) fprintf(f, " --steps=2 --accumulate");
    else if (p->steps > 1) fprintf(f, " --steps=%d", p->steps);
    for (int i = 0; i < p->nturns && entry_of(p) == E_STEP; i++) fprintf(f, " --line=line%d", p->turn[i]);
    if (one_wanted(p)) fprintf(f, " --want=v%d", p->results[0]);
    if (uses_bound(p)) fprintf(f, " --extent=S=%d", p->extent);
    if (p->sqrt_checkpoint) fprintf(f, " --checkpoint=sqrt");
    if (p->without) fprintf(f, " %s", p->without);
    int level = p->arch - 1;
    if (on_host && p->arch) level = arch_here(level);
    if (level >= 0 && (on_host || !strcmp(c->target, "cuda"))) fprintf(f, " --arch=%s", arch[on_host][level]);
    if (p->threads && on_host) fprintf(f, " --threads=%d", p->threads);
}
void run_options(const Prog *p, const Command *c, char *text, size_t size) {
    FILE *f = fmemopen(text, size, "w");
    if (!f) abort();
    print_options(f, p, c);
    fputc(0, f);
    fclose(f);
}

static int run(const Prog *p, const Command *c) {
    char dsl[400], in[400], params[400], out[400], log[400], options[400];
    path_of(dsl, c, "m.dsl"), path_of(in, c, "inputs.safetensors"), path_of(params, c, "params.safetensors"), path_of(out, c, "out.safetensors"), path_of(log, c, "log");
    unlink(out);
    run_options(p, c, options, sizeof options);
    char *args[30] = {(char *)c->fusec, "run", dsl, "--inputs", in, "--params", params, "--outputs", out}, *rest = options;
    for (int n = 9; n < 29 && (args[n] = strtok_r(rest, " ", &rest)); n++) {}
    pid_t child = fork();
    if (child == 0) {
        int f = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(f, 1), dup2(f, 2);
        alarm(100);
        execv(c->fusec, args);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

static void read_log(const Command *c, Judgement *j) {
    char log[400];
    path_of(log, c, "log");
    FILE *f = fopen(log, "r");
    size_t n = f ? fread(j->message, 1, sizeof j->message - 1, f) : 0;
    j->message[n] = 0;
    if (f) fclose(f);
}

static double bound_of(const Result *r, int i) { return r->type == D_F ? 6 * r->error[i] + 1e-37 : r->error[i]; }

// In f16 the loss is scaled: what overflows then gives gradients that are not finite, or a step that is left out.
static bool overflowed(const Prog *p, const Expected *x, const char *name, int i, double got) {
    if (p->precision != P_F16 || p->loss < 0) return false;
    if (!isfinite(got)) return true;
    for (int k = 0; k < x->eval.nparams; k++)
        if (!strncmp(name, "param/", 6) && !strcmp(name + 6, x->eval.params[k].path)) return x->eval.params[k].first[i] == got;
    return false;
}

// A gradient through what is left out is 0 times a derivative, which may be infinite (docs/numerics.md).
static bool undefined(const Expected *x, const char *name, double got) {
    bool derived = !strncmp(name, "grad/", 5) || !strncmp(name, "param/", 6) || !strncmp(name, "state/", 6);
    return isnan(got) && x->infinite && derived;
}

static void compare(const Prog *p, const Result *r, const Stored *s, Expected *x, Judgement *j) {
    double worst = 0;
    for (int i = 0; i < r->size; i++) {
        double want = r->value[i], got = s->data[i], bound = bound_of(r, i);
        bool same = got == want || (isnan(got) && isnan(want));
        x->compared++;
        if (same) continue;
        if (overflowed(p, x, r->name, i, got) || undefined(x, r->name, got) || isinf(r->error[i]) || !(fabs(want) < 1e37) || bound > 0.1 * (1 + fabs(want))) {
            x->skipped++;
            continue;
        }
        double ratio = fabs(got - want) <= bound ? 0 : isfinite(got) ? fabs(got - want) / bound : INFINITY;
        if (!(ratio > worst)) continue;
        worst = ratio;
        j->verdict = V_DIFFERS, j->element = i, j->got = got, j->want = want, j->bound = bound;
        snprintf(j->tensor, sizeof j->tensor, "%s", r->name);
    }
}

static void compare_all(const Prog *p, const Command *c, Expected *x, Judgement *j) {
    Stored *s = calloc(MAX_RESULTS, sizeof *s);
    char path[400];
    path_of(path, c, "out.safetensors");
    int n = stored_read(path, s, MAX_RESULTS);
    for (int k = 0; k < x->count && j->verdict == V_AGREES; k++) {
        int i = 0;
        while (i < n && strcmp(s[i].name, x->at[k].name)) i++;
        bool there = i < n && s[i].size == x->at[k].size && s[i].rank == x->at[k].rank && !memcmp(s[i].n, x->at[k].n, sizeof(int) * (size_t)s[i].rank);
        if (there) {
            compare(p, &x->at[k], &s[i], x, j);
            continue;
        }
        j->verdict = V_DIED;
        snprintf(j->message, sizeof j->message, "%s %s\n", x->at[k].name, i < n ? "has another shape" : "is missing in the outputs");
    }
    for (int i = 0; i < n; i++) free(s[i].data);
    free(s);
}

Judgement judge(const Prog *p, const Command *c, Expected *x) {
    Judgement j = {.verdict = V_AGREES};
    Entry entry = entry_of(p);
    expect(p, entry, x);
    if (!x->usable || !x->count) j.verdict = V_UNUSABLE;
    else if (!write_program(p, c) || !write_params(p, c) || !write_inputs(p, c, &x->eval)) j.verdict = V_UNUSABLE;
    if (j.verdict == V_UNUSABLE) return j;
    int status = run(p, c);
    if (status == 0) {
        compare_all(p, c, x, &j);
        return j;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) fprintf(stderr, "net: cannot run %s\n", c->fusec), exit(2);
    read_log(c, &j);
    j.verdict = WIFSIGNALED(status) ? V_DIED : V_REFUSED;
    if (WIFSIGNALED(status)) snprintf(j.message, sizeof j.message, "killed by signal %d\n", WTERMSIG(status));
    return j;
}
