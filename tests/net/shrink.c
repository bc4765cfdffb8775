#include "tests/net/scan.h"
#include "tests/net/shrink.h"
#include <stdlib.h>
#include <string.h>

typedef struct { Prog *p; const Command *c; Judgement *j; int trials; } Shrink;

static void drop_dead(Prog *p) {
    for (int i = p->count - 1; i >= 0; i--) {
        bool used = is_loss(p, i);
        for (int k = 0; k < p->nresults; k++) used |= p->results[k] == i;
        for (int k = i + 1; k < p->count; k++)
            for (int a = 0; a < p->at[k].nargs; a++) used |= !p->at[k].dead && p->at[k].arg[a] == i;
        p->at[i].dead = !used;
    }
}

// Two messages of one kind: equal but for numbers and names.
static bool same_message(const char *a, const char *b) {
    const char *x = strstr(a, "error"), *y = strstr(b, "error");
    if (!x || !y) return !x == !y;
    int n = 0;
    while (n < 34 && x[n] && x[n] == y[n]) n++;
    return n > 18;
}
static bool same_failure(const Judgement *a, const Judgement *b) {
    return a->verdict == b->verdict && (a->verdict == V_DIFFERS || same_message(a->message, b->message));
}

// Takes the candidate if it still fails in the same way.
static bool try(Shrink *s, Prog *candidate) {
    drop_dead(candidate);
    Prog *q = malloc(sizeof *q);
    Expected x;
    bool same = false;
    if (!q) abort();
    if (s->trials++ < 250 && infer_all(candidate) && (candidate->loss >= 0 || candidate->nresults)) {
        *q = *candidate;
        Judgement j = judge(q, s->c, &x);
        same = same_failure(&j, s->j);
        if (same) *s->p = *q, *s->j = j;
        expected_free(&x);
    }
    free(q);
    return same;
}

static bool without_results(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    for (int k = 0; q && k < s->p->nresults; k++) {
        *q = *s->p;
        memmove(q->stored_as + k, q->stored_as + k + 1, sizeof(int) * (size_t)(q->nresults - k - 1));
        memmove(q->results + k, q->results + k + 1, sizeof(int) * (size_t)(q->nresults - k - 1));
        q->nresults--;
        if (try(s, q)) done = true, k--;
    }
    if (q && s->p->loss >= 0 && s->p->nresults) {
        *q = *s->p;
        q->loss = -1, q->nlines = 0;
        done |= try(s, q);
    }
    free(q);
    return done;
}

static void make_leaf(Prog *q, int i) {
    const Value v = q->at[i];
    int scope = layer_of(q, v.scope) + 1; // a layer sees nothing outside of it
    const char *op = v.type == D_F && !v.shape.bounded ? "param" : "input";
    q->at[i] = (Value){.op = op_named(op), .type = v.type, .shape = v.shape, .low = 0, .high = 3, .scope = scope};
}
// A value becomes a parameter or an input.
static bool leaves(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    for (int i = s->p->count - 1; q && i >= 0; i--) {
        const Value *v = &s->p->at[i];
        if (v->dead || v->nargs == 0 || is_loss(s->p, i) || (is_scan_part(v) && !is_scan_result(v))) continue;
        *q = *s->p;
        make_leaf(q, i);
        done |= try(s, q);
    }
    free(q);
    return done;
}
// A reader reads an operand of what it read instead.
static bool bypass(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    for (int i = s->p->count - 1; q && i >= 0; i--)
        for (int a = 0; !s->p->at[i].dead && a < s->p->at[i].nargs; a++) {
            const Value *from = &s->p->at[s->p->at[i].arg[a]];
            if (from->nargs == 0) continue;
            *q = *s->p;
            q->at[i].arg[a] = from->arg[0];
            done |= try(s, q);
        }
    free(q);
    return done;
}
static bool loss_smaller(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    for (int a = 0; q && s->p->loss >= 0 && a < s->p->at[s->p->loss].nargs; a++) {
        *q = *s->p;
        int to = q->at[q->loss].arg[a];
        if (q->at[to].shape.rank || q->at[to].type != D_F || !q->at[to].nargs) continue;
        q->loss = to;
        q->at[to].inlined = false;
        if (try(s, q)) done = true, a = -1;
    }
    free(q);
    return done;
}
// Of a `repeat`: two rounds, one, or as many in each round of the loop around it.
static void fewer_rounds(Value *v, int form) {
    if (!is_repeat(v)) return;
    int *rounds = &v->attr[v->nargs + A_ROUNDS];
    if (form == 15) v->attr[v->nargs + A_FOLLOWS] = 0;
    else if (*rounds > form - 15) *rounds = form - 15;
}
static bool fewer_lines(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    for (int k = 1; q && k < lines_of(s->p); k++) {
        *q = *s->p;
        drop_line(q, k);
        done |= try(s, q);
        *q = *s->p;
        q->line[k] = (Line){.loss = q->line[k].loss, .rate = 0.125, .optimizer = O_SGD, .named = q->line[k].named, .npatterns = q->line[k].npatterns};
        memcpy(q->line[k].only, s->p->line[k].only, sizeof q->line[k].only);
        if (k < lines_of(s->p) && memcmp(q, s->p, sizeof *q)) done |= try(s, q);
    }
    free(q);
    return done;
}
static bool plainer(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    if (!q) abort();
    for (int form = 0; form < 21; form++) {
        *q = *s->p;
        if (form == 0) q->line[0].optimizer = O_NONE;
        if (form == 1) q->precision = P_F32;
        if (form == 18) q->stated = IN_MODEL;
        if (form == 2) q->line[0].clip = 0;
        if (form == 3) q->steps = 1;
        if (form == 19) q->nturns = 0;
        for (int k = 0; form == 20 && !q->nturns && k < MAX_LINES; k++) q->line[k].named = false;
        if (form == 4) q->ngroups = 0;
        if (form == 5) q->line[0].npatterns = 0;
        if (form == 6) q->line[0].hyper = q->line[0].schedule = false;
        if (form == 11) q->accumulate = false;
        if (form == 12) q->want = false;
        if (form == 13) q->plain = true;
        for (int i = 0; form == 14 && i < q->count; i++)
            if (is_header(&q->at[i])) q->at[i].attr[q->at[i].nargs] = 1;
        for (int i = 0; form > 14 && form < 18 && i < q->count; i++) fewer_rounds(&q->at[i], form);
        if (form == 8) q->threads = 0;
        if (form == 9) q->arch = 0;
        if (form == 10) q->without = NULL;
        if (form == 7) q->sqrt_checkpoint = false;
        if (memcmp(q, s->p, sizeof *q)) done |= try(s, q);
    }
    free(q);
    return done;
}
static void remove_at(int *list, int *count, int k) {
    memmove(list + k, list + k + 1, sizeof *list * (size_t)(--*count - k));
}
// Result k of a scan becomes a leaf, and those after it move up.
static void drop_result(Prog *q, int end, int k) {
    int r = result_name(q, end, k);
    if (r >= 0) make_leaf(q, r);
    for (int i = end + 1; i < q->count; i++)
        if (is_scan_result(&q->at[i]) && q->at[i].arg[0] == end) q->at[i].attr[0] -= q->at[i].attr[0] > k;
}
static void drop_emission(Prog *q, int end, int k) {
    Value *v = &q->at[end];
    int first = v->nargs - emissions(q, end);
    drop_result(q, end, k);
    for (int i = end + 1; i < q->count; i++)
        if (is_sharing(&q->at[i]) && q->at[i].arg[0] == end) drop_result(q, i, k);
    remove_at(v->arg, &v->nargs, first + k);
}
// What reads operand k of a header in the body reads a leaf instead.
static void drop_operand(Prog *q, int header, int k) {
    Value *h = &q->at[header];
    int end = end_of(q, header), count = emissions(q, end), name = header_name(q, header, k), before = 1;
    for (int i = 0; i < k; i++) before += is_carry(h, i);
    if (!is_layer(h)) drop_result(q, end, count + k);
    if (is_carry(h, k)) remove_at(q->at[end].arg, &q->at[end].nargs, before);
    if (name >= 0) make_leaf(q, name);
    for (int i = header + 1; i < end; i++)
        if (is_scan_name(&q->at[i]) && q->at[i].arg[0] == header) q->at[i].attr[0] -= q->at[i].attr[0] > k;
    remove_at(h->arg, &h->nargs, k);
    remove_at(h->attr, &h->nattrs, k);
    for (int i = end + 1; i < q->count; i++)
        if (is_sharing(&q->at[i]) && q->at[i].arg[0] == end) remove_at(q->at[i].arg, &q->at[i].nargs, k + 1);
}
// How many things the text of a scan lists that it may do without.
static int listed(const Prog *p, int i) {
    bool live = is_header(&p->at[i]) && !p->at[i].dead && end_of(p, i) >= 0;
    return live ? p->at[i].nargs + emissions(p, end_of(p, i)) : 0;
}
static bool narrower(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    if (!q) abort();
    for (int i = 0; i < s->p->count; i++)
        for (int k = listed(s->p, i) - 1; k >= 0 && k < listed(s->p, i); k--) {
            *q = *s->p;
            if (k < q->at[i].nargs) drop_operand(q, i, k);
            else drop_emission(q, end_of(q, i), k - q->at[i].nargs);
            done |= (q->at[i].nargs || is_repeat(&q->at[i])) && try(s, q);
        }
    free(q);
    return done;
}
// All extents of leaves that are n become m.
static void resize(Prog *q, int n, int m) {
    for (int i = 0; i < q->count; i++)
        for (int d = 0; d < q->at[i].shape.rank; d++)
            if (!q->at[i].nargs && q->at[i].shape.n[d] == n && !(q->at[i].shape.bounded >> d & 1)) q->at[i].shape.n[d] = m;
}
static bool extents(Shrink *s) {
    Prog *q = malloc(sizeof *q);
    bool done = false;
    for (int n = 2; q && n <= 64; n++)
        for (int m = 1; m < n && m < 4; m++) {
            *q = *s->p;
            resize(q, n, m);
            if (memcmp(q, s->p, sizeof *q) && try(s, q)) done = true;
        }
    free(q);
    return done;
}

void shrink(Prog *p, const Command *c, Judgement *j) {
    Shrink s = {p, c, j, 0};
    static bool (*const ways[])(Shrink *) = {without_results, fewer_lines, loss_smaller, leaves, narrower, bypass, plainer, extents};
    bool smaller = true;
    while (smaller && s.trials < 250) {
        smaller = false;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) smaller = ways[i](&s) || smaller;
    }
}
