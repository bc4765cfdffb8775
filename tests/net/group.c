// Functions and layers of a program: neighbouring values, printed as a definition of their own and a call.
#include "tests/net/scan.h"
#include <string.h>

static bool member(const Prog *p, const Group *g, int id) {
    return id >= g->low && id <= g->high && !p->at[id].dead && !p->at[id].inlined && !is_leaf(&p->at[id]);
}
int group_of(const Prog *p, int id) {
    for (int g = 0; g < p->ngroups; g++)
        if (member(p, &p->group[g], id)) return g;
    return -1;
}

static void formals(const Prog *p, const Group *g, bool *formal) {
    for (int i = g->low; i <= g->high; i++)
        if (member(p, g, i)) names_in(p, i, formal);
    for (int i = 0; i < p->count; i++) formal[i] &= !member(p, g, i);
}
static int results(const Prog *p, const Group *g, bool *result) {
    bool used[MAX_VALUES] = {false};
    int n = 0;
    for (int i = 0; i < p->count; i++)
        if (!p->at[i].dead && !p->at[i].inlined && !member(p, g, i)) names_in(p, i, used);
    for (int k = 0; k < p->nresults; k++) used[p->results[k]] = true;
    for (int k = 0; k < lines_of(p); k++) used[loss_of_line(p, k)] = true;
    for (int i = 0; i < p->count; i++) n += result[i] = used[i] && member(p, g, i);
    return n;
}
static void print_names(FILE *f, const Prog *p, const bool *list, bool last_by_name) {
    int last = -1, first = 1;
    for (int i = 0; i < p->count; i++)
        if (list[i]) last = i;
    for (int i = 0; i < p->count; i++) {
        if (!list[i]) continue;
        fprintf(f, "%s", first ? "" : ", ");
        if (last_by_name && i == last) fprintf(f, "v%d = ", p->at[i].name);
        fprintf(f, "v%d", p->at[i].name);
        first = 0;
    }
}

void print_group(FILE *f, const Prog *p, int group) {
    static const char *precisions[] = {"f32", "bf16", "f16", "tf32"};
    const Group *g = &p->group[group];
    bool formal[MAX_VALUES] = {false}, result[MAX_VALUES] = {false};
    formals(p, g, formal);
    if (!results(p, g, result)) return;
    fprintf(f, "%s f%d(", g->layer ? "layer" : "fn", group);
    print_names(f, p, formal, false);
    fprintf(f, ") {\n");
    if (g->precision) fprintf(f, "    precision %s\n", precisions[g->precision]);
    for (int i = g->low; i <= g->high; i++)
        if (member(p, g, i)) print_statement(f, p, i, false);
    fprintf(f, "    return ");
    print_names(f, p, result, false);
    fprintf(f, "\n}\n");
}
void print_group_call(FILE *f, const Prog *p, int group) {
    const Group *g = &p->group[group];
    bool formal[MAX_VALUES] = {false}, result[MAX_VALUES] = {false};
    formals(p, g, formal);
    if (!results(p, g, result)) return;
    fprintf(f, "    ");
    print_names(f, p, result, false);
    fprintf(f, " = f%d(", group);
    print_names(f, p, formal, group == 1);
    fprintf(f, ")");
    if (g->layer && g->named) fprintf(f, " as g%d", group);
    fputc('\n', f);
}

static bool group_owns(const Prog *p, const Group *g) {
    for (int i = g->low; i <= g->high; i++)
        if (member(p, g, i) && owns(p, i)) return true;
    return false;
}
// A scan is in a group as a whole, or the group in its body: what is neither is made one of them.  False: it is no group then.
static bool fit_scan(const Prog *p, Group *g, int h, int at, bool whole) {
    int end = end_of(p, h), first = h + 1, last = end;
    while (is_scan_name(&p->at[first]) && p->at[first].arg[0] == h) first++;
    while (last + 1 < p->count && is_scan_result(&p->at[last + 1]) && p->at[last + 1].arg[0] == end) last++;
    bool fits = (g->low <= h && last <= g->high) || (first <= g->low && g->high < end) || g->high < h || last < g->low;
    if (fits) return true;
    if (whole) g->low = h < g->low ? h : g->low, g->high = last > g->high ? last : g->high;
    else g->low = first > g->low ? first : g->low, g->high = end - 1 < g->high ? end - 1 : g->high;
    return at <= g->low && g->low <= g->high;
}
static bool fit_scans(Gen *g, Group *q, int at) {
    const Prog *p = g->prog;
    bool whole = random_chance(&g->random, 50);
    for (int h = 0; h < p->count; h++)
        if (is_header(&p->at[h]) && !fit_scan(p, q, h, at, whole)) return false;
    for (int h = 0; h < p->count; h++) { // one may have been made to cut another
        Group same = *q;
        if (is_header(&p->at[h]) && (!fit_scan(p, &same, h, at, whole) || same.low != q->low || same.high != q->high)) return false;
    }
    return true;
}
void draw_groups(Gen *g) {
    Prog *p = g->prog;
    int at = 0;
    while (p->ngroups < MAX_GROUPS && random_chance(&g->random, 35)) {
        Group *q = &p->group[p->ngroups];
        bool result[MAX_VALUES] = {false};
        *q = (Group){.low = at + random_below(&g->random, 6)};
        q->high = q->low + random_below(&g->random, 10);
        if (q->high >= p->count) return;
        int next = q->high + 1;
        bool fits = !has_scan(p) || fit_scans(g, q, at);
        at = fits ? q->high + 1 : next;
        if (!fits || !results(p, q, result)) continue;
        q->layer = group_owns(p, q) || random_chance(&g->random, 30);
        q->named = q->layer && random_chance(&g->random, 60);
        if (p->precision && random_chance(&g->random, 50)) q->precision = p->precision;
        p->ngroups++;
    }
}
