/* Which products begin from zero, and where those write.
 *
 * A dot whose accumulator is zero before the loops over its sums need not read it in their first iteration, and the
 * zeros need not be written.  If all that becomes of the result is one store, the dot may write there itself. */
#include "codegen/schedule/forms.h"

typedef struct Starts {
    const HostPlan *at;
    const FormPlans *plans;
} Starts;

static const Inst *yield_of(const Inst *i) { return i->body.at[i->body.n - 1]; }

static bool used_once(const Starts *s, int value) {
    const Values *v = s->at->v;
    int n = 0;
    for (int p = 0; p < v->at.n; p++) n += bit_get(v->value[value].uses, p);
    return n == 1;
}

static FormPlan *plan_of(const Starts *s, const Inst *dot) {
    for (int i = 0; i < s->plans->of.n; i++)
        if (s->plans->of.at[i]->dot == dot) return s->plans->of.at[i];
    return NULL;
}

static bool dot_sums(const Inst *dot, int axis) {
    for (int o = 0; o < dot->n_over; o++)
        if (dot->over[o] == axis) return true;
    return false;
}

/* The dot that alone reads carry c of the loop, and whose result the loop yields; through loops inside, too. */
static FormPlan *only_dot(const Starts *s, const Inst *loop, int c) {
    const Dim extent = s->at->k->axes.at[loop->axis].extent;
    const int carry = loop->carry[c], result = yield_of(loop)->in[c];
    FormPlan *plan = NULL;
    if (loop->from || loop->to) return NULL; /* no iteration is the first one */
    if (!dim_is_fixed(extent) || extent.bound < 1 || !used_once(s, carry) || !same_storage(s->at->v, carry, result))
        return NULL;
    for (int n = 0; n < loop->body.n && !plan; n++) {
        const Inst *i = loop->body.at[n];
        if (i->kind == TI_DOT && i->in[2] == carry && i->result == result) plan = plan_of(s, i);
        if (plan && !plan->starts) plan = NULL;
        for (int k = 0; i->kind == TI_FOR && k < i->n_carry; k++)
            if (i->init[k] == carry && i->results[k] == result) plan = only_dot(s, i, k);
    }
    return plan && dot_sums(plan->dot, loop->axis) ? plan : NULL;
}

static bool is_zero(const Starts *s, int value) {
    const ValueInfo *info = &s->at->v->value[value];
    return !info->kept && info->def->kind == TI_FULL && info->def->value == 0;
}

/* The dot's result lies in the store's buffer, contiguous along its columns, with no lane too many. */
static bool fits_store(const FormPlan *p, const Inst *store) {
    const Kernel *k = p->at->k;
    const Storage *c = form_storage(p);
    const TileType axes = sink_axes(k, store);
    int64_t coef;
    if (!p->whole && (!p->exact || axes.n_axes != 1 + (p->rows >= 0))) return false;
    const int group = c->joint ? c->axis[c->n - 2] : -1, columns = p->whole ? c->axis[c->n - 1] : p->columns;
    if (group >= 0 && !(access_affine(k, store, group, &coef) && coef == c->stride[c->n - 2])) return false;
    return axes.n_axes == c->n && access_affine(k, store, columns, &coef) && coef == 1;
}

/* The store that alone reads result c of the loop, if the dot can write there instead: nothing else in its place. */
static const Inst *store_of(const Starts *s, const Inst *loop, int c, const FormPlan *p) {
    const Values *v = s->at->v;
    const int result = loop->results[c];
    int64_t step;
    const Inst *store = NULL;
    if (!used_once(s, result)) return NULL;
    for (int u = 0; u < v->at.n; u++)
        if (bit_get(v->value[result].uses, u)) store = v->at.at[u].inst;
    if (!store || store->kind != TI_STORE || store->n_in != 1 || store->in[0] != result) return NULL;
    const Buffer *b = &s->at->k->buffers.at[store->buffer];
    if (b->in_place || b->dtype != DT_F32) return NULL;
    for (int u = 0; u < v->at.n; u++) {
        const Inst *i = v->at.at[u].inst;
        if (i != store && (i->kind == TI_LOAD || i->kind == TI_STORE) && i->buffer == store->buffer) return NULL;
    }
    if (!fits_store(p, store)) return NULL;
    for (int i = 0; i < s->at->k->axes.n; i++)
        if (!access_affine(s->at->k, store, i, &step)) return NULL;
    return store;
}

static void find(const Starts *s, const Block *b) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        for (int c = 0; i->kind == TI_FOR && c < i->n_carry; c++) {
            FormPlan *p = is_zero(s, i->init[c]) ? only_dot(s, i, c) : NULL;
            if (!p || p->dot->host.start == START_ADDS) continue;
            p->loop = i, p->carry = c;
            if (p->dot->host.start != START_FRESH) p->store = store_of(s, i, c, p);
            p->s.start = p->store ? START_STORES : START_FRESH;
        }
        find(s, &i->body);
    }
}

void form_find_starts(FormPlans *plans, const HostPlan *at) {
    const Starts s = {at, plans};
    for (int i = 0; i < plans->of.n; i++) plans->of.at[i]->s.start = START_ADDS;
    find(&s, &at->k->body);
    for (int i = 0; i < plans->of.n; i++) {
        const FormPlan *p = plans->of.at[i];
        if (p->dot->host.start && p->dot->host.start != p->s.start) plans->no = p->dot;
    }
}
