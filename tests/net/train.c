// The `train` lines of a program: what each trains, and by which loss.
#include "tests/net/scan.h"
#include "tests/net/tensor.h"
#include <string.h>

int lines_of(const Prog *p) { return p->loss < 0 ? 0 : p->nlines > 1 ? p->nlines : 1; }
int loss_of_line(const Prog *p, int k) { return k ? p->line[k].loss : p->loss; }
bool is_loss(const Prog *p, int id) {
    bool is = p->loss == id;
    for (int k = 1; k < lines_of(p); k++) is |= p->line[k].loss == id;
    return is;
}

// A pattern of `only`: * matches any characters.
static bool matches(const char *pattern, const char *path) {
    if (*pattern == '*') return matches(pattern + 1, path) || (*path && matches(pattern, path + 1));
    return *pattern == *path && (!*path || matches(pattern + 1, path + 1));
}
static bool selects(const Line *l, const char *path) {
    bool any = false;
    for (int i = 0; i < l->npatterns; i++) any |= matches(l->only[i], path);
    return any;
}
int line_of(const Prog *p, const char *path) {
    int without = -1;
    for (int k = 0; k < lines_of(p); k++) {
        if (selects(&p->line[k], path)) return k;
        if (!p->line[k].npatterns) without = k;
    }
    return without;
}
void drop_line(Prog *p, int k) {
    memmove(p->line + k, p->line + k + 1, sizeof *p->line * (size_t)(p->nlines - k - 1));
    p->nlines--;
    int n = 0;
    for (int i = 0; i < p->nturns; i++)
        if (p->turn[i] != k) p->turn[n++] = p->turn[i] - (p->turn[i] > k);
    p->nturns = n;
}
bool trains_in(const Prog *p, int line, int step) { return !p->nturns || p->turn[(step - 1) % p->nturns] == line; }

// ---- drawing ---------------------------------------------------------------------------------------------------------------
// `only` with one parameter, or with all that begins as it does.  Of those that the loss reaches none need be left.
void choose_only(Gen *g) {
    const Eval *e = &g->eval;
    Line *l = &g->prog->line[0];
    if (g->prog->loss < 0 || !e->nparams || !random_chance(&g->random, 15)) return;
    char *only = l->only[l->npatterns++];
    snprintf(only, MAX_PATH, "%s", e->params[random_below(&g->random, e->nparams)].path);
    char *dot = strchr(only, '.');
    if (dot && random_chance(&g->random, 50)) dot[1] = '*', dot[2] = 0;
}

// A loss of its own: what there is, a scalar as it is, else the mean or the sum of its squares.
static int another_loss(Gen *g) {
    Prog *p = g->prog;
    int found = -1, seen = 0;
    for (int i = 0; i < p->count; i++) {
        const Value *v = &p->at[i];
        bool fits = v->type == D_F && v->nargs && !v->inlined && !v->scope && !is_loss(p, i) && shape_size(&v->shape);
        if (fits && random_below(&g->random, ++seen) == 0) found = i;
    }
    if (found < 0 || p->at[found].shape.rank == 0) return found;
    const char *const name = random_chance(&g->random, 50) ? "mean" : "sum";
    int all = (1 << p->at[found].shape.rank) - 1;
    int square = push_value(g, (Value){.op = op_named("mul"), .nargs = 2, .arg = {found, found}, .inlined = true});
    return push_value(g, (Value){.op = op_named(name), .nargs = 1, .arg = {square}, .nattrs = 2, .attr = {all, 0}});
}

// Patterns that select a parameter: its path, all that begins or ends as it does.
static void some_pattern(Gen *g, const char *path, char *pattern) {
    int form = random_below(&g->random, 3);
    const char *last = strrchr(path, '.');
    snprintf(pattern, MAX_PATH, "%s", path);
    char *dot = strchr(pattern, '.');
    if (form == 1 && dot) dot[1] = '*', dot[2] = 0;
    if (form == 2 && last) snprintf(pattern, MAX_PATH, "*%s", last);
}
static bool taken(const Gen *g, int line, const char *pattern) {
    for (int k = 0; k < g->eval.nparams; k++) {
        const char *path = g->eval.params[k].path;
        for (int i = 0; i < g->prog->nlines && matches(pattern, path); i++)
            if (i != line && selects(&g->prog->line[i], path)) return true;
    }
    return false;
}
static void add_pattern(Gen *g, int line) {
    Line *l = &g->prog->line[line];
    char pattern[MAX_PATH];
    some_pattern(g, g->eval.params[random_below(&g->random, g->eval.nparams)].path, pattern);
    if (!taken(g, line, pattern)) memcpy(l->only[l->npatterns++], pattern, MAX_PATH);
}
static bool all_train(const Gen *g) {
    bool some[MAX_LINES] = {false}, all = true;
    for (int k = 0; k < g->eval.nparams; k++) {
        int line = line_of(g->prog, g->eval.params[k].path);
        if (line >= 0) some[line] = true;
    }
    for (int i = 0; i < g->prog->nlines; i++) all &= some[i];
    return all;
}
static void draw_selections(Gen *g) {
    Prog *p = g->prog;
    int without = random_chance(&g->random, 60) ? random_below(&g->random, p->nlines) : -1;
    for (int k = 0; k < p->nlines; k++) {
        int n = k == without ? 0 : 1 + random_below(&g->random, MAX_PATTERNS);
        for (int tries = 0; p->line[k].npatterns < n && tries < 12; tries++) add_pattern(g, k);
    }
    while (p->nlines && !all_train(g)) p->nlines--; // the last may be one that nothing was left for
    if (p->nlines < 2) p->nlines = 0, p->line[0].npatterns = 0;
}
static void choose_turns(Gen *g) {
    Prog *p = g->prog;
    int n = random_chance(&g->random, 70) && p->precision != P_F16 ? 1 + random_below(&g->random, 3) : 0;
    for (int k = 0; k < lines_of(p); k++) p->line[k].named = random_chance(&g->random, 80);
    for (int i = 0; i < n; i++) {
        int k = random_below(&g->random, lines_of(p));
        if (p->line[k].named) p->turn[p->nturns++] = k;
    }
}
void choose_lines(Gen *g) {
    static const double rates[] = {0.125, 0.25, 0.0625};
    Prog *p = g->prog;
    int n = random_chance(&g->random, 40) ? 1 : 2 + random_below(&g->random, 2);
    if (p->loss < 0 || g->eval.nparams < 2 || n == 1) {
        choose_only(g);
        return;
    }
    p->nlines = 1;
    while (p->nlines < n) {
        Line *l = &p->line[p->nlines];
        *l = (Line){.loss = random_chance(&g->random, 10) ? p->loss : another_loss(g), .rate = rates[p->nlines]};
        if (l->loss < 0) break;
        l->optimizer = (Optimizer)(1 + random_below(&g->random, 5));
        l->hyper = random_chance(&g->random, 25), l->schedule = random_chance(&g->random, 15);
        l->clip = random_chance(&g->random, 35) ? 0.25 : 0;
        p->nlines++;
    }
    draw_selections(g);
    bool step = lines_of(p) > 1 && p->line[0].optimizer == O_NONE && random_chance(&g->random, 65); // else the gradients are compared
    if (step) p->line[0].optimizer = (Optimizer)(1 + random_below(&g->random, 5));
    if (lines_of(p) > 1 && p->line[0].optimizer != O_NONE && random_chance(&g->random, 80)) choose_turns(g);
}

// ---- text ------------------------------------------------------------------------------------------------------------------
static const char own_optimizer[] = "optimizer own(p, g, lr, mu = 0.5) {\n    state m = ones like p\n    m <- mu * m + tanh(g)\n"
                                    "    d = if p.rank >= 2 then 0.25 else 0.0\n    p <- p - lr * (m + d * p)\n}\n";
void print_optimizer(FILE *f, const Prog *p) {
    bool own = false;
    for (int k = 0; k < lines_of(p); k++) own |= p->line[k].optimizer == O_OWN;
    if (own) fputs(own_optimizer, f);
}
static void print_rate(FILE *f, const Line *l, int k) {
    if (l->schedule) fprintf(f, "warmup_cosine(");
    fprintf(f, l->hyper ? "hyper %g" : "%g", l->rate);
    if (l->hyper && l->schedule) fprintf(f, " as peak");
    else if (l->hyper && k) fprintf(f, " as rate");
    if (l->hyper && k) fprintf(f, "%d", k);
    fprintf(f, l->schedule ? ", 2, 8))" : ")");
}
static void print_line(FILE *f, const Prog *p, int k) {
    static const char *forms[] = {"sgd(lr = ", "sgd(lr = ", "momentum(lr = ", "adam(eps = 0.01, lr = ", "adamw(eps = 0.01, lr = ",
                                  "own(lr = "};
    const Line *l = &p->line[k];
    fprintf(f, "    train v%d", loss_of_line(p, k));
    if (l->named) fprintf(f, " as line%d", k);
    fprintf(f, " with %s", forms[l->optimizer]);
    print_rate(f, l, k);
    for (int i = 0; i < l->npatterns; i++) fprintf(f, "%s\"%s\"", i ? ", " : " only ", l->only[i]);
    if (l->clip > 0) fprintf(f, " clip_norm %g", l->clip);
    fputc('\n', f);
}
void print_training(FILE *f, const Prog *p) {
    fprintf(f, "    output v%d\n", p->loss);
    for (int k = 0; k < lines_of(p); k++) print_line(f, p, k);
}
