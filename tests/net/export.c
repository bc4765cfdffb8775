// Programs written for PyTorch (goldens.py evaluates them), and what it gave for them compared with the tape.  A tensor is kept as two
// sums: of its elements times cos(k), and of their magnitudes.
#include "tests/net/judge.h"
#include "tests/net/tensor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of the program's text: goldens of another text are of another program.
static unsigned long text_hash(const Prog *p) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    unsigned h = 2166136261u;
    if (!f) abort();
    print_torch(f, p);
    fclose(f);
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    free(text);
    return h;
}
static void one_call(Prog *p) {
    p->accumulate = p->want = false;
    p->steps = 1;
}
static Entry value_entry(const Prog *p) { return p->loss >= 0 ? E_GRAD : E_INFER; }

static void write_data(FILE *f, const char *name, Type type, const Shape *s, const double *data) {
    fprintf(f, "%s %c", name, "fib"[type]);
    for (int d = 0; d < s->rank; d++) fprintf(f, " %d", s->n[d]);
    fprintf(f, "\n");
    for (int i = 0; i < shape_size(s); i++) fprintf(f, "%.17g ", data[i]);
    fprintf(f, "\n");
}
static void write_all_data(FILE *f, const Prog *p, const Expected *x) {
    char name[16];
    for (int i = 0; i < p->count; i++) {
        snprintf(name, sizeof name, "v%d", i);
        if (x->eval.inputs[i]) write_data(f, name, p->at[i].type, &p->at[i].shape, x->eval.inputs[i]);
    }
    for (int k = 0; k < x->eval.nparams; k++) write_data(f, x->eval.params[k].path, D_F, &x->eval.params[k].shape, x->eval.params[k].first);
}
static FILE *open_in(const char *folder, uint64_t seed, const char *suffix) {
    char path[500];
    snprintf(path, sizeof path, "%s/%llu.%s", folder, (unsigned long long)seed, suffix);
    FILE *f = fopen(path, "w");
    if (!f) fprintf(stderr, "net: cannot write %s\n", path), exit(1);
    return f;
}
// The functions in goldens.py are of floats.
static bool has_integer_body(const Prog *p) {
    for (int i = 0; i < p->count; i++)
        if (p->at[i].body && p->at[i].type == D_I) return true;
    return false;
}
void export_torch(const Prog *program, const char *folder, uint64_t seed) {
    Prog once = *program, *p = &once;
    Expected x;
    one_call(p);
    expect(p, value_entry(p), &x);
    if (x.usable && x.count && p->precision == P_F32 && !has_integer_body(p)) {
        FILE *f = open_in(folder, seed, "py"), *g = open_in(folder, seed, "data");
        fprintf(f, "text = '%08lx'\ntraining = %s\n", text_hash(p), p->loss >= 0 ? "True" : "False");
        print_torch(f, p);
        write_all_data(g, p, &x);
        fclose(f);
        fclose(g);
    }
    expected_free(&x);
}

// ---- goldens: lines of seed, hash, tensor, two sums ------------------------------------------------------------------------
typedef struct { unsigned long long seed; unsigned long text; char tensor[112]; double waves, sizes; } Golden;
typedef struct { Prog *p; Kind what; Expected x; unsigned long long seed; unsigned long text; bool open; long same, differ, skipped, programs; } Check;

static void close_program(Check *c) {
    if (c->open) expected_free(&c->x), prog_free(c->p);
    c->open = false;
}
static void open_program(Check *c, unsigned long long seed) {
    close_program(c);
    generate(c->p, seed, c->what);
    one_call(c->p);
    expect(c->p, value_entry(c->p), &c->x);
    c->seed = seed, c->text = text_hash(c->p), c->open = true, c->programs++;
}
// Whether f32 could decide otherwise somewhere: then double precision could as well.
static bool undecided(const Result *r) {
    for (int i = 0; i < r->size; i++)
        if (!(r->error[i] < 1e-3 * (1 + fabs(r->value[i])))) return true;
    return false;
}
static void check_tensor(Check *c, const Golden *g) {
    const Result *r = NULL;
    double waves = 0, sizes = 0, room = 1e-13;
    for (int k = 0; k < c->x.count; k++)
        if (!strcmp(c->x.at[k].name, g->tensor)) r = &c->x.at[k];
    if (!r || undecided(r) || !isfinite(g->sizes)) {
        c->skipped++;
        return;
    }
    for (int i = 0; i < r->size; i++) {
        waves += r->value[i] * cos(i), sizes += fabs(r->value[i]);
        room += 1e-6 * r->error[i] + 1e-11 * fabs(r->value[i]);
    }
    bool same = fabs(waves - g->waves) <= room && fabs(sizes - g->sizes) <= room;
    c->same += same, c->differ += !same;
    if (!same) printf("seed %llu, %s: %.12g %.12g, PyTorch gives %.12g %.12g\n", g->seed, g->tensor, waves, sizes, g->waves, g->sizes);
}
static bool check_line(Check *c, const char *line) {
    Golden g;
    if (sscanf(line, "%llu %lx %111s %lf %lf", &g.seed, &g.text, g.tensor, &g.waves, &g.sizes) != 5) return false;
    if (!c->open || c->seed != g.seed) open_program(c, g.seed);
    if (c->text == g.text) check_tensor(c, &g);
    else c->differ++, printf("seed %llu gives another program: the goldens are of an earlier generator (goldens.py)\n", g.seed);
    return true;
}
int check_goldens(const char *path, Kind what) {
    char line[300];
    FILE *f = fopen(path, "r");
    Check c = {.p = calloc(1, sizeof *c.p), .what = what};
    if (!f || !c.p) return fprintf(stderr, "net: cannot read %s\n", path), -1;
    while (fgets(line, sizeof line, f) && check_line(&c, line)) {}
    close_program(&c);
    free(c.p);
    fclose(f);
    printf("goldens: %ld programs, %ld tensors agree, %ld differ, %ld not decided\n", c.programs, c.same, c.differ, c.skipped);
    return c.programs ? (int)c.differ : -1;
}
