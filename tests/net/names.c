// The names of the text.  Most values are named by their number.  In and after a scan some take the name of another, which is read no more
// where they stand: what a carry becomes that of the carry, a name of the header that of its tensor, a value of the body any.
#include "tests/net/scan.h"
#include <string.h>

int name_of(const Prog *p, int id, bool torch) { return torch ? id : p->at[id].name; }

void names_in(const Prog *p, int id, bool *named) {
    for (int k = 0; k < p->at[id].nargs; k++) {
        int a = p->at[id].arg[k];
        if (p->at[a].inlined) names_in(p, a, named);
        else if (p->at[a].type != D_NONE) named[a] = true;
    }
}
static bool written(const Value *v) { return !v->dead && !v->inlined; }
// Whether the text of values from .. to, or that of what the model gives, names it.
static bool named_between(const Prog *p, int id, int from, int to) {
    for (int i = from; i <= to && i < p->count; i++) {
        bool named[MAX_VALUES] = {false};
        if (written(&p->at[i])) names_in(p, i, named);
        if (named[id]) return true;
    }
    return false;
}
static bool given(const Prog *p, int id) {
    bool result = is_loss(p, id);
    for (int k = 0; k < p->nresults; k++) result |= p->results[k] == id;
    return result;
}
// Whether value i may take a name: who has it is read no more, in the body or, of the same scope, at all.
static bool is_free(const Prog *p, int name, int i) {
    int scope = p->at[i].scope, end = scope ? end_of(p, scope - 1) : p->count;
    int from = p->at[i].body ? i : i + 1; // an indexed definition does not read what it defines
    for (int z = 0; z < i; z++) {
        if (p->at[z].name != name || p->at[z].inlined || !visible(p, scope, z)) continue;
        if (named_between(p, z, from, end) || (!scope && given(p, z))) return false;
    }
    return true;
}

// A name of the header may be that of the tensor beside it, if nothing else in the program reads that any more.
static int name_beside(const Prog *p, int i) {
    int header = p->at[i].arg[0], a = p->at[header].arg[p->at[i].attr[0]], times = 0;
    for (int k = 0; k < p->at[header].nargs; k++) {
        bool named[MAX_VALUES] = {false};
        int b = p->at[header].arg[k];
        if (p->at[b].inlined) names_in(p, b, named);
        times += b == a || named[a];
    }
    if (!is_carry(&p->at[header], p->at[i].attr[0]) && times_of(&p->at[header]) > 1) return i;
    bool own = !p->at[a].inlined && p->at[a].name == a && p->at[a].scope == p->at[header].scope;
    return own && times == 1 && !given(p, a) && !named_between(p, a, header + 1, p->count) ? a : i;
}
static int carry_that_becomes(const Prog *p, int i) {
    int header = p->at[i].scope - 1, end = end_of(p, header);
    for (int k = 0; k < p->at[header].nargs; k++)
        if (is_carry(&p->at[header], k) && next_of(p, end, k) == i) return header_name(p, header, k);
    return -1;
}
// What the body is named after by chance: anything that it sees, or the first result of the scan.
static int any_name(const Prog *p, Random *r, int i) {
    int end = end_of(p, p->at[i].scope - 1), result = result_name(p, end, 0);
    if (result >= 0 && p->at[result].name == result && random_below(r, 4) == 0) return result;
    int z = random_below(r, i);
    return written(&p->at[z]) && p->at[z].type != D_NONE && visible(p, p->at[i].scope, z) ? p->at[z].name : i;
}
static int name_of_next(const Prog *p, Random *r, int i) {
    int carry = carry_that_becomes(p, i);
    bool takes = carry >= 0 && random_below(r, 10) < 8 && is_free(p, p->at[carry].name, i);
    return takes ? p->at[carry].name : i;
}
static int name_in_body(const Prog *p, Random *r, int i) {
    int name = name_of_next(p, r, i);
    if (name == i && random_below(r, 3) == 0) name = any_name(p, r, i);
    return is_free(p, name, i) ? name : i;
}
static int name_after(const Prog *p, Random *r, int i) {
    int end = p->at[i].arg[0], header = p->at[end].arg[0], k = p->at[i].attr[0] - emissions(p, end);
    if (k < 0) return p->at[i].scope ? name_of_next(p, r, i) : i;
    int name = header_name(p, header, k);
    return name >= 0 && !given(p, i) && random_below(r, 2) ? p->at[name].name : i;
}
// Statements of several lines read their operands after the first has bound the name.
static bool may_be_renamed(const Prog *p, int i) {
    const Value *v = &p->at[i];
    return v->scope && end_of(p, v->scope - 1) >= 0 && !is_scan_part(v) && !is_leaf(v) && group_of(p, i) < 0 && strcmp(ops[v->op].name, "repeat");
}
void name_values(Prog *p) {
    for (int i = 0; i < p->count; i++) {
        Value *v = &p->at[i];
        Random r = {p->seed * 59 + (uint64_t)i};
        v->name = i;
        if (p->plain || !written(v)) continue;
        if (is_scan_name(v) && random_below(&r, 3) == 0) v->name = name_beside(p, i);
        else if (is_scan_result(v)) v->name = name_after(p, &r, i);
        else if (may_be_renamed(p, i)) v->name = name_in_body(p, &r, i);
    }
}
