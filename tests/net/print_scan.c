// The text of scans, for the compiler and for PyTorch.
#include "tests/net/print_block.h"

static int spelling(const Prog *p, int id, int n) {
    Random r = {p->seed * 173 + (uint64_t)id};
    return random_below(&r, n);
}

static bool in_branch(const Prog *p, int header) { return spelling(p, header + 700, 12) == 0; }
void begin(FILE *f, const Prog *p, int id) {
    print_indent(f, p, id);
    fputs("    ", f);
}

// The block outside of all others, and of all functions, among whose values a leaf stands but not in its body; -1: none.
static int outermost(const Prog *p, int id, bool torch) {
    for (int h = 0; h < id; h++) {
        bool around = !p->at[h].dead && is_header(&p->at[h]) && end_of(p, h) > id;
        if (around && (torch || (group_of(p, h) < 0 && !in_scope(p, id, h + 1)))) return h;
    }
    return -1;
}
bool before_scan(const Prog *p, int leaf, bool torch) { return outermost(p, leaf, torch) >= 0; }
static void print_leaves(FILE *f, const Prog *p, int header, bool torch) {
    for (int i = header + 1, end = end_of(p, header); i < end; i++)
        if (is_leaf(&p->at[i]) && !p->at[i].dead && outermost(p, i, torch) == header) print_leaf(f, p, i, torch);
}

// What is emitted has a name even where nothing reads it.
void print_emitted_names(FILE *f, const Prog *p, int end) {
    for (int k = 0; k < emissions(p, end); k++) {
        int name = result_name(p, end, k);
        if (name >= 0) fprintf(f, "%sv%d", k ? ", " : "", p->at[name].name);
        else fprintf(f, "%se%d_%d", k ? ", " : "", end, k);
    }
    if (emissions(p, end)) fprintf(f, " = ");
}
void print_header_name(FILE *f, const Prog *p, int header, int k, bool torch) {
    int name = header_name(p, header, k);
    if (name >= 0) fprintf(f, "v%d", name_of(p, name, torch));
    else fprintf(f, "x%d_%d", header, k);
}
// Where a scan is done again, and of a `repeat`, carries are bound before; now and then it stands in a branch.
static bool bound_before(const Value *h) { return times_of(h) > 1 || is_repeat(h); }
static void print_around(FILE *f, const Prog *p, int id) {
    const Value *h = &p->at[id];
    for (int k = 0; k < h->nargs && bound_before(h); k++) {
        if (!is_carry(h, k)) continue;
        begin(f, p, id);
        print_header_name(f, p, id, k, false);
        fprintf(f, " = ");
        print_arg(f, p, h->arg[k], false);
        fputc('\n', f);
    }
    begin(f, p, id);
    if (times_of(h) > 1) fprintf(f, "repeat %d {\n", times_of(h)), begin(f, p, id);
    if (in_branch(p, id)) fprintf(f, "if 3 > 2 or false {\n"), begin(f, p, id);
}
static void print_header(FILE *f, const Prog *p, int id) {
    const Value *h = &p->at[id];
    print_around(f, p, id);
    print_emitted_names(f, p, end_of(p, id));
    if (is_repeat(h)) {
        print_repeat(f, p, id);
        return;
    }
    fprintf(f, "scan ");
    for (int k = 0; k < h->nargs; k++) {
        int axis = h->attr[k], form = spelling(p, id + k, 4), rank = p->at[h->arg[k]].shape.rank;
        if (k) fprintf(f, ", ");
        print_header_name(f, p, id, k, false);
        fprintf(f, is_carry(h, k) ? " = " : " over ");
        if (is_carry(h, k) && times_of(h) > 1) print_header_name(f, p, id, k, false);
        else print_arg(f, p, h->arg[k], false);
        if (is_carry(h, k) || (!axis && !form)) continue;
        fprintf(f, " axis ");
        print_constant(f, p, form == 1 ? axis - rank : axis);
    }
    fprintf(f, " {\n");
    print_block_precision(f, p, id);
}

// Whether what a carry becomes does not have its name already.
static bool is_assigned(const Prog *p, int end, int k) {
    int header = p->at[end].arg[0], name = header_name(p, header, k);
    if (!is_carry(&p->at[header], k) || name < 0) return false;
    int next = next_of(p, end, k);
    return p->at[next].inlined || p->at[next].name != p->at[name].name;
}
// All carries that need it at once, since one may become what another was.
static void print_assignment(FILE *f, const Prog *p, int end) {
    int header = p->at[end].arg[0], count = 0;
    for (int k = 0; k < p->at[header].nargs; k++) {
        if (!is_assigned(p, end, k)) continue;
        if (count++) fprintf(f, ", ");
        else begin(f, p, end);
        print_header_name(f, p, header, k, false);
    }
    for (int k = 0, n = 0; count && k < p->at[header].nargs; k++)
        if (is_assigned(p, end, k)) fprintf(f, n++ ? ", " : " = "), print_arg(f, p, next_of(p, end, k), false);
    if (count) fputc('\n', f);
}
int emitted(const Prog *p, int end, int k) { return p->at[end].arg[p->at[end].nargs - emissions(p, end) + k]; }
static void print_emission(FILE *f, const Prog *p, int end) {
    for (int k = 0; k < emissions(p, end); k++) {
        if (k) fprintf(f, ", ");
        else begin(f, p, end), fprintf(f, "emit ");
        print_arg(f, p, emitted(p, end, k), false);
    }
    if (emissions(p, end)) fputc('\n', f);
}
// Whether what is emitted reads a name that the assignment binds anew.
static bool emits_carry(const Prog *p, int end) {
    int header = p->at[end].arg[0];
    bool named[MAX_VALUES] = {false};
    for (int k = 0; k < emissions(p, end); k++) {
        int y = emitted(p, end, k);
        if (p->at[y].inlined) names_in(p, y, named);
        else named[y] = true;
    }
    for (int k = 0; k < p->at[header].nargs; k++)
        for (int i = 0; i < p->count && is_assigned(p, end, k); i++)
            if (named[i] && p->at[i].name == p->at[header_name(p, header, k)].name) return true;
    return false;
}
static void print_end(FILE *f, const Prog *p, int id) {
    bool first = emits_carry(p, id) || spelling(p, id, 2);
    if (first) print_emission(f, p, id);
    print_assignment(f, p, id);
    if (!first) print_emission(f, p, id);
    int header = p->at[id].arg[0], blocks = 1 + (times_of(&p->at[header]) > 1) + in_branch(p, header);
    for (; blocks > 0; blocks--) print_indent(f, p, id), fprintf(f, "}\n");
}
// What has the name of the header after the scan anyway needs no statement.
static void print_result(FILE *f, const Prog *p, int id) {
    int end = p->at[id].arg[0], k = p->at[id].attr[0] - emissions(p, end);
    if (k < 0 || p->at[id].name != id) return;
    begin(f, p, id);
    fprintf(f, "v%d = ", id);
    print_header_name(f, p, p->at[end].arg[0], k, false);
    fputc('\n', f);
}

// ---- Python: a loop over places; carries are variables, what is emitted is a list of tuples ----------------------------------
static void torch_operand(FILE *f, const Prog *p, int header, int k) {
    begin(f, p, header);
    fprintf(f, "q%d_%d = ", header, k);
    print_arg(f, p, p->at[header].arg[k], true);
    fputc('\n', f);
    if (!is_carry(&p->at[header], k)) return;
    begin(f, p, header);
    print_header_name(f, p, header, k, true);
    fprintf(f, " = q%d_%d\n", header, k);
}
static void torch_header(FILE *f, const Prog *p, int id) {
    const Value *h = &p->at[id];
    for (int k = 0; k < h->nargs; k++) torch_operand(f, p, id, k);
    begin(f, p, id);
    fprintf(f, "e%d = []\n", id);
    begin(f, p, id);
    fprintf(f, "for t%d in list(range(%d)) * %d:\n", id, rounds_of(p, h), times_of(h));
    for (int k = 0; k < h->nargs; k++) {
        if (is_carry(h, k)) continue;
        begin(f, p, id);
        fprintf(f, "    ");
        print_header_name(f, p, id, k, true);
        fprintf(f, " = q%d_%d.select(%d, t%d)\n", id, k, h->attr[k], id);
    }
}
static void torch_end(FILE *f, const Prog *p, int id) {
    int header = p->at[id].arg[0], n = 0;
    begin(f, p, id);
    fprintf(f, "e%d.append((", header);
    for (int k = 0; k < emissions(p, id); k++) print_arg(f, p, emitted(p, id, k), true), fprintf(f, ", ");
    fprintf(f, "))\n");
    for (int k = 0; k < p->at[header].nargs; k++) {
        if (!is_carry(&p->at[header], k)) continue;
        if (n++) fprintf(f, ", ");
        else begin(f, p, id);
        print_header_name(f, p, header, k, true);
    }
    for (int k = 0, m = 0; n && k < p->at[header].nargs; k++) {
        if (!is_carry(&p->at[header], k)) continue;
        fprintf(f, m++ ? ", becomes(" : " = becomes(");
        print_arg(f, p, next_of(p, id, k), true);
        fprintf(f, ", q%d_%d)", header, k);
    }
    if (n) fputc('\n', f);
}
static void torch_result(FILE *f, const Prog *p, int id) {
    const Value *v = &p->at[id];
    int end = v->arg[0], header = p->at[end].arg[0], k = v->attr[0] - emissions(p, end);
    begin(f, p, id);
    fprintf(f, "v%d = ", id);
    if (k >= 0 && is_carry(&p->at[header], k)) print_header_name(f, p, header, k, true);
    else if (k >= 0) fprintf(f, "last(q%d_%d, %d)", header, k, p->at[header].attr[k]);
    else {
        fprintf(f, "stacked(e%d[-%d:], %d, %d, '%c', [", header, rounds_of(p, &p->at[header]), v->attr[0], emission_axis(&p->at[header]), "fib"[v->type]);
        for (int d = 0; d < v->shape.rank; d++) fprintf(f, "%d, ", v->shape.n[d]);
        fprintf(f, "])");
    }
    fputc('\n', f);
}

void print_scan(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    if (is_layer(v) || is_sharing(v) || (is_end(v) && is_layer(&p->at[v->arg[0]]))) print_call(f, p, id);
    else if (is_header(v)) {
        print_leaves(f, p, id, torch);
        torch ? torch_header(f, p, id) : print_header(f, p, id);
    } else if (v->type == D_NONE) torch ? torch_end(f, p, id) : print_end(f, p, id);
    else if (is_scan_result(v)) torch ? torch_result(f, p, id) : print_result(f, p, id);
}
