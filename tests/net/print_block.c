// The text of `repeat`, of layers of the program's own, and of their calls.
#include "tests/net/print_block.h"
#include <string.h>

static int spelling(const Prog *p, int id, int n) {
    Random r = {p->seed * 191 + (uint64_t)id};
    return random_below(&r, n);
}

// Whether the text of a body names the index of the loop.
static bool uses_index(const Prog *p, int header) {
    for (int i = header + 1, end = end_of(p, header); i < end; i++) {
        const Value *v = &p->at[i];
        bool by_index = strstr(ops[v->op].dsl, "%I") || !strcmp(ops[v->op].name, "cache");
        if (by_index && (v->attr[0] == header || v->attr[3] == header)) return true;
        if (is_repeat(v) && block_attr(v, A_FOLLOWS) == header + 1) return true;
    }
    return false;
}
// From 0 on and without its index it may be a number of rounds.
void print_repeat(FILE *f, const Prog *p, int header) {
    const Value *h = &p->at[header];
    int low = least_index(h), rounds = block_attr(h, A_ROUNDS), outer = block_attr(h, A_FOLLOWS);
    fprintf(f, "repeat ");
    if (!uses_index(p, header) && low == 0 && !outer && spelling(p, header, 3)) print_constant(f, p, rounds);
    else {
        fprintf(f, "i%d in %d..", header, low);
        if (outer) fprintf(f, "i%d + ", outer - 1);
        print_constant(f, p, low + rounds);
    }
    fprintf(f, " as h%d {\n", header);
    print_block_precision(f, p, header);
}

// In some bodies the precision of the program, or, where the model states that, another: the bounds are those of the program's
// everywhere.
void print_block_precision(FILE *f, const Prog *p, int header) {
    static const char *const names[] = {"f32", "bf16", "f16", "tf32"};
    if (!p->precision || p->stated == IN_MODEL || spelling(p, header + 300, 2)) return;
    const char *other = p->precision != P_TF32 && spelling(p, header + 301, 2) ? "tf32" : "f32";
    fprintf(f, "    ");
    if (!is_layer(&p->at[header])) begin(f, p, header);
    fprintf(f, "precision %s\n", p->stated == IN_BLOCKS ? names[p->precision] : other);
}

// ---- layers ----------------------------------------------------------------------------------------------------------------
static bool body_owns(const Prog *p, int header) {
    for (int i = header + 1, end = end_of(p, header); i < end; i++)
        if (!p->at[i].dead && in_scope(p, i, header + 1) && (owns(p, i) || is_leaf(&p->at[i]))) return true;
    return false;
}
static bool is_shared(const Prog *p, int header) {
    for (int i = end_of(p, header) + 1; i < p->count; i++)
        if (!p->at[i].dead && is_sharing(&p->at[i]) && p->at[p->at[i].arg[0]].arg[0] == header) return true;
    return false;
}
// What owns nothing, calls nothing and shares nothing may be a function.
static bool is_function(const Prog *p, int header) {
    bool calls = p->at[header].scope > 0;
    for (int i = header + 1, end = end_of(p, header); i < end; i++) calls |= is_layer(&p->at[i]) || is_repeat(&p->at[i]);
    return !body_owns(p, header) && !is_shared(p, header) && !calls && spelling(p, header, 2);
}
static void print_layer(FILE *f, const Prog *p, int header) {
    int end = end_of(p, header);
    fprintf(f, "%s f%d(", is_function(p, header) ? "fn" : "layer", header);
    for (int k = 0; k < p->at[header].nargs; k++) fputs(k ? ", " : "", f), print_header_name(f, p, header, k, false);
    fprintf(f, ") {\n");
    print_block_precision(f, p, header);
    for (int i = header + 1; i < end; i++)
        if (text_of(p, i) == header) print_value(f, p, i, false);
    fprintf(f, "    return ");
    for (int k = 0; k < emissions(p, end); k++) fputs(k ? ", " : "", f), print_arg(f, p, emitted(p, end, k), false);
    fprintf(f, "\n}\n");
}
void print_layers(FILE *f, const Prog *p) {
    for (int i = 0; i < p->count; i++)
        if (!p->at[i].dead && is_layer(&p->at[i])) print_layer(f, p, i);
}
void print_call(FILE *f, const Prog *p, int id) {
    const Value *v = &p->at[id];
    if (is_layer(v)) return;
    bool sharing = is_sharing(v);
    int header = p->at[sharing ? v->arg[0] : id].arg[0], count = p->at[header].nargs;
    begin(f, p, sharing ? id : header);
    print_emitted_names(f, p, id);
    fprintf(f, "f%d(", header);
    for (int k = 0; k < count; k++) {
        fputs(k ? ", " : "", f);
        print_arg(f, p, sharing ? v->arg[k + 1] : p->at[header].arg[k], false);
    }
    fputc(')', f);
    if (sharing) fprintf(f, " sharing g%d", header);
    else if (block_attr(&p->at[header], A_NAMED) && !is_function(p, header)) fprintf(f, " as g%d", header);
    fputc('\n', f);
}
