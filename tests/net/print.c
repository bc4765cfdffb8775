#include "tests/net/scan.h"
#include "tests/net/tensor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A constant in one of the forms that the language has for it; every tenth program has them.
void print_constant(FILE *f, const Prog *p, int n) {
    static const struct { const char *before, *after; int scale, shift; } forms[] = {
        {"ceil_div(", ", 2)", 2, -1}, {"floor_div(", ", 2)", 2, 1}, {"mod(", ", 1000)", 1, 3000}, {"[0, ", "][1]", 1, 0}, {"same(", ")", 1, 0},
        {"max(", ", 0)", 1, 0}, {"(if 2 > 1 then ", " else 0)", 1, 0}, {"size(zeros [", "])", 1, 0}, {"(zeros [", "]).dim(-1)", 1, 0},
        {"-(-", ")", 1, 0}, {"same(k = 1, n = ", ")", 1, 0}, {"(", ") / 2", 2, 1}};
    Random r = {p->seed + 17 * (uint64_t)n};
    int k = random_below(&r, 24);
    if (p->seed % 10 || k > 11 || n < 1) fprintf(f, "%d", n);
    else fprintf(f, "%s%d%s", forms[k].before, forms[k].scale * n + forms[k].shift, forms[k].after);
}
static void print_list(FILE *f, const Prog *p, const int *n, int count, unsigned bounded, bool spelled) {
    fputc('[', f);
    for (int i = 0; i < count; i++) {
        fprintf(f, "%s", i ? ", " : "");
        if (bounded >> i & 1) print_bounded(f, p, n[i]);
        else if (spelled) print_constant(f, p, n[i]);
        else fprintf(f, "%d", n[i]);
    }
    fputc(']', f);
}
// One choice of several spellings, the same whenever the program is printed.
static int spelling(const Prog *p, int id, int n) {
    Random r = {p->seed * 131 + (uint64_t)id};
    return random_below(&r, n);
}
static void print_axis_list(FILE *f, unsigned mask) {
    bool first = true;
    fputc('[', f);
    for (int d = 0; d < MAX_RANK; d++)
        if (mask >> d & 1) fprintf(f, "%s%d", first ? "" : ", ", d), first = false;
    fputc(']', f);
}
// As a list, one number from either end, a range, or `all`.
static void print_axes(FILE *f, unsigned mask, int rank, int form) {
    int low = 0, high;
    while (!(mask >> low & 1) && low < MAX_RANK) low++;
    for (high = low; mask >> high & 1; high++) {}
    bool run = mask == (1u << high) - (1u << low);
    if (form == 0 || !run) print_axis_list(f, mask);
    else if (high == low + 1) fprintf(f, "%d", form == 1 ? low : low - rank);
    else if (high == rank && low == 0) fputs("all", f);
    else if (high < rank && form > 1) fprintf(f, "%d..%d", low, high - rank);
    else fprintf(f, "%d..%d", low, high);
}
// One extent of a reshape may be what is left.
static void print_extents(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    int list[MAX_ATTRS], k = spelling(p, id, 2 * v->nattrs + 1);
    memcpy(list, v->attr, sizeof list);
    if (k < v->nattrs && shape_size(&v->shape) > 0) list[k] = -1;
    print_list(f, p, list, v->nattrs, 0, k >= v->nattrs && !torch);
}
// An integer constant becomes a float where one is needed.
static void print_number(FILE *f, double x, bool as_integer) { fprintf(f, "%.9g%s", x, x == floor(x) && !as_integer ? ".0" : ""); }

static bool is_whole(const int *x, const Shape *s, int d) { return x[0] == 0 && x[2] == 1 && (x[1] == s->n[d] || s->bounded >> d & 1); }

// start, count, step as a slice: the bounds left out where they say nothing, or past the end
static void print_subscript(FILE *f, const int *x, const Shape *s, int d, int form) {
    int stop = x[0] + x[1] * x[2];
    if (!x[2]) fprintf(f, "%d", form == 1 ? x[0] - s->n[d] : x[0]);
    else if (is_whole(x, s, d)) fputc(':', f);
    else if (x[1] == 0) fprintf(f, "0:0");
    else if (x[2] > 0 && stop >= s->n[d] && form == 2) fprintf(f, "%d:%d:%d", x[0], s->n[d] + 3, x[2]);
    else if (x[2] > 0) fprintf(f, stop >= s->n[d] ? "%d::%d" : "%d:%d:%d", x[0], stop >= s->n[d] ? x[2] : stop, x[2]);
    else if (stop < 0) fprintf(f, "%d::%d", x[0], x[2]);
    else fprintf(f, "%d:%d:%d", x[0] - s->n[d], stop, x[2]);
}
static void print_subscripts(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    const Shape *s = &p->at[v->arg[0]].shape;
    int form = spelling(p, id, 4), low = s->rank, high;
    if (form == 3)
        for (low = 0; low < s->rank && !is_whole(&v->attr[3 * low], s, low); low++) {}
    for (high = low; high < s->rank && is_whole(&v->attr[3 * high], s, high); high++) {}
    for (int d = 0; d < s->rank; d++) {
        const int *x = &v->attr[3 * d];
        if (x[2] == 99 && !torch) fputs(d ? ", " : "", f), print_arg(f, p, v->arg[1], false);
        else if (torch) fprintf(f, "%s(%d, %d, %d)", d ? ", " : "", x[0], x[1], x[2]);
        else if (d >= low && d < high) fputs(d > low ? "" : d ? ", ..." : "...", f);
        else fputs(d ? ", " : "", f), print_subscript(f, x, s, d, form);
    }
}
static void print_pads(FILE *f, const Value *v) {
    fputc('[', f);
    for (int d = 0; d < v->nattrs / 2; d++) fprintf(f, "%s[%d, %d]", d ? ", " : "", v->attr[2 * d], v->attr[2 * d + 1]);
    fputc(']', f);
}
static void print_padding(FILE *f, int p) {
    static const char *names[] = {"\"reflect\"", "\"valid\"", "\"same\""};
    if (p < 0) fputs(names[p + 3], f);
    else fprintf(f, "%d", p);
}

static void print_instance(FILE *f, const Prog *p, int id, bool torch) {
    char own[16], path[96];
    snprintf(own, sizeof own, "c%d", id);
    path_of_value(p, id, own, path);
    fputs(torch ? path : own, f);
}
static void print_template(FILE *f, const Prog *p, int id, const char *t, bool torch) {
    const Value *v = &p->at[id];
    for (; *t; t++) {
        if (*t != '%') {
            fputc(*t, f);
            continue;
        }
        int c = *++t, a = strchr("abmqci", c) && t[1] >= '0' && t[1] <= '9' ? v->attr[*++t - '0'] : 0;
        switch (c) {
        case 'a': fprintf(f, "%d", a); break;
        case 'b': fprintf(f, "%s", a ? "true" : "false"); break;
        case 'm': print_axes(f, (unsigned)a, p->at[v->arg[0]].shape.rank, torch ? 0 : spelling(p, id, 3)); break;
        case 'q': print_padding(f, a); break;
        case 'c': fprintf(f, "%s", a ? "\"causal\"" : "none"); break;
        case 'i': if (a < 0) fputs("none", f); else fprintf(f, "%d", a); break;
        case 's': print_list(f, p, v->shape.n, v->shape.rank, v->shape.bounded, !torch); break;
        case 'e': print_extents(f, p, id, torch); break;
        case 'l': print_list(f, p, v->attr, v->nattrs, 0, false); break;
        case 'n': torch ? (void)fprintf(f, "%.17g", v->number) : print_number(f, v->number, spelling(p, id, 3) == 0); break;
        case 'r': print_number(f, v->number, false); break;
        case 'L': print_instance(f, p, id, torch); break;
        case 'I': print_by_index(f, p, id); break;
        case 'x': print_subscripts(f, p, id, torch); break;
        case 'E': print_bounded(f, p, v->shape.n[0]); break;
        case 'p': print_pads(f, v); break;
        case 'g': for (int d = 0; d < v->attr[0]; d++) fputs(":, ", f); break;
        case 'A': for (int k = 0; k < v->nargs; k++) fputs(k ? ", " : "", f), print_arg(f, p, v->arg[k], torch); break;
        default: print_arg(f, p, v->arg[c - '0'], torch); break;
        }
    }
}

void print_arg(FILE *f, const Prog *p, int id, bool torch) {
    const Op *op = &ops[p->at[id].op];
    const char *t = torch && op->torch ? op->torch : op->dsl;
    if (!p->at[id].inlined) {
        fprintf(f, "v%d", name_of(p, id, torch));
        return;
    }
    bool bracket = t[0] == '%' && (p->at[id].nargs || p->at[id].attr[0] < 0);
    if (bracket || p->at[id].number < 0) fputc('(', f);
    print_template(f, p, id, t, torch);
    if (bracket || p->at[id].number < 0) fputc(')', f);
}

static void print_split(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    fprintf(f, "u%d, v%d, w%d = split(", id, name_of(p, id, torch), id);
    print_arg(f, p, v->arg[0], torch);
    fprintf(f, ", ");
    print_list(f, p, v->attr + 1, 3, 0, false);
    fprintf(f, ", axis = %d)\n", v->attr[0]);
}

static void print_plain(FILE *f, const Prog *p, int id, bool torch) {
    const Op *op = &ops[p->at[id].op];
    fprintf(f, "    ");
    if (p->at[id].body) {
        print_indexed(f, p, id, torch);
        return;
    }
    void (*special)(FILE *, const Prog *, int, bool) = !strcmp(op->name, "split") ? print_split : !strcmp(op->name, "repeat") ? print_loop
                                                       : !strcmp(op->name, "state") ? print_state
                                                       : !strcmp(op->name, "cache") ? print_cache : NULL;
    if (special) {
        special(f, p, id, torch);
        return;
    }
    fprintf(f, "v%d = ", name_of(p, id, torch));
    print_template(f, p, id, torch && op->torch ? op->torch : op->dsl, torch);
    fputc('\n', f);
}

// A condition that holds, or does not.
static void print_condition(FILE *f, const Prog *p, int id, bool holds, bool both) {
    const Value *v = &p->at[id];
    const Value *a = v->nargs ? &p->at[v->arg[0]] : NULL;
    int form = spelling(p, id + 1000, 3);
    bool training = p->loss >= 0;
    both &= layer_of(p, v->scope) < 0; // elsewhere calls may differ in extents
    if (form == 0 && a && !a->inlined) fprintf(f, "v%d.rank %s %d", p->at[v->arg[0]].name, holds ? "==" : "!=", a->shape.rank);
    else if (form == 1 && both && v->type == D_F) fprintf(f, "%straining", training == holds ? "" : "not ");
    else fprintf(f, "%d > 2 or %s", holds ? 3 : 1, "false");
}
// A statement in the body of a block stands further in.
void print_indent(FILE *f, const Prog *p, int id) {
    for (int s = p->at[id].scope; s && !is_layer(&p->at[s - 1]); s = p->at[s - 1].scope) fputs("    ", f);
}
void print_statement(FILE *f, const Prog *p, int id, bool torch) {
    if (is_scan_part(&p->at[id])) {
        print_scan(f, p, id, torch);
        return;
    }
    print_indent(f, p, id);
    int form = torch || owns(p, id) || p->at[id].body ? 99 : spelling(p, id + 2000, 24);
    if (form > 1) {
        print_plain(f, p, id, torch);
        return;
    }
    fprintf(f, "    if ");
    print_condition(f, p, id, form == 0, form == 1);
    fprintf(f, " {\n");
    if (form == 0) print_plain(f, p, id, torch);
    else fprintf(f, "    v%d = zeros ", p->at[id].name), print_list(f, p, p->at[id].shape.n, p->at[id].shape.rank, p->at[id].shape.bounded, false), fputc('\n', f);
    fprintf(f, "    }");
    if (form == 1) fprintf(f, " else {\n"), print_plain(f, p, id, torch), fprintf(f, "    }");
    fputc('\n', f);
}

static const char *const storages[] = {"f32", "bf16", "f16"};
void print_leaf(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    static const char *types[] = {"f32", "i32", "bool"};
    if (torch) {
        fprintf(f, is_input(v) ? "    v%d = env.input(%d)\n" : "    v%d = env.param('v%d')\n", id, id);
        return;
    }
    print_indent(f, p, id);
    if (!is_input(v)) {
        fprintf(f, "    v%d = param ", id);
        print_list(f, p, v->shape.n, v->shape.rank, 0, true);
        fprintf(f, " init normal(0.5)\n");
        return;
    }
    fprintf(f, "    input v%d : %s", id, v->type == D_F ? storages[v->attr[0]] : types[v->type]);
    print_list(f, p, v->shape.n, v->shape.rank, v->shape.bounded, true);
    if (v->type == D_I) fprintf(f, " in %d..%d", v->low, v->high);
    fputc('\n', f);
}

static bool group_precision(const Prog *p) {
    for (int g = 0; g < p->ngroups; g++)
        if (p->group[g].precision) return true;
    return false;
}
void print_value(FILE *f, const Prog *p, int i, bool torch) {
    const Value *v = &p->at[i];
    if (v->dead || v->inlined || (!torch && group_of(p, i) >= 0)) return;
    if (!is_leaf(v)) print_statement(f, p, i, torch);
    else if (!before_scan(p, i, torch)) print_leaf(f, p, i, torch);
}
void print_dsl(FILE *f, const Prog *p) {
    static const char *precisions[] = {"f32", "bf16", "f16", "tf32"};
    if (uses_bound(p)) fprintf(f, "dim S <= %d\n", p->bound);
    if (p->seed % 10 == 0) fputs("fn same(n, k = 1) {\n    if not is_integer(n) { return fail(\"no integer\", n) }\n    return n * k\n}\n", f);
    print_optimizer(f, p);
    for (int g = 0; g < p->ngroups; g++) print_group(f, p, g);
    print_layers(f, p);
    fprintf(f, "model m {\n");
    if (p->precision && !group_precision(p) && p->stated != IN_BLOCKS) fprintf(f, "    precision %s\n", precisions[p->precision]);
    for (int i = 0; i < p->count; i++) {
        if (text_of(p, i) < 0) print_value(f, p, i, false);
        for (int g = 0; g < p->ngroups; g++)
            if (p->group[g].high == i) print_group_call(f, p, g);
    }
    for (int i = 0; i < p->nresults; i++) fprintf(f, p->stored_as[i] ? "    output v%d : %s\n" : "    output v%d\n", p->results[i], storages[p->stored_as[i]]);
    if (p->loss >= 0) print_training(f, p);
    fprintf(f, "}\n");
}

void print_torch(FILE *f, const Prog *p) {
    fprintf(f, "def program(env):\n    global S\n    S = %d\n", p->extent);
    for (int i = 0; i < p->count; i++) print_value(f, p, i, true);
    fprintf(f, "    return {");
    for (int i = 0; i < p->nresults; i++) fprintf(f, "'v%d': v%d, ", p->results[i], p->results[i]);
    if (p->loss >= 0) fprintf(f, "'v%d': v%d", p->loss, p->loss);
    fprintf(f, "}, ");
    if (p->loss >= 0) fprintf(f, "v%d\n", p->loss);
    else fprintf(f, "None\n");
}
