#include "passes/algebra/contract_class.h"
#include "passes/algebra/affine.h"

bool contract_mentions(const Contract *c, Node *const *in, int operand, int loop) {
    for (int d = 0; d < in[operand]->shape->rank; d++)
        if (c->map[operand][d].coef[loop] != 0) return true;
    return false;
}

int contract_guard_operand(const Contract *c, Node *const *in, const Guard *g) {
    for (int k = 0; k < c->n_operands; k++) {
        bool all = true;
        for (int l = 0; l < c->n_loops; l++) all &= g->e.coef[l] == 0 || contract_mentions(c, in, k, l);
        if (all) return k;
    }
    return 0;
}

static LoopClass class_of(const Contract *c, Node *const *in, int loop) {
    if (c->n_operands != 2) return LOOP_OTHER;
    bool a = contract_mentions(c, in, 0, loop), b = contract_mentions(c, in, 1, loop);
    bool out = loop < c->n_out;
    if (a && b) return out ? LOOP_BATCH : LOOP_K;
    if (!out || (!a && !b)) return LOOP_OTHER;
    return a ? LOOP_M : LOOP_N;
}

static bool is_only_place(const Contract *c, const Affine *e, Dim dim) {
    bool constant = e->c == 0 && dim_is_fixed(dim) && dim.bound == 1;
    for (int l = 0; l < c->n_loops; l++) constant = constant && e->coef[l] == 0;
    return constant;
}

/* units: dims of one element may be read at 0. */
static bool is_plain(const Contract *c, Node *const *in, bool units) {
    for (int k = 0; k < c->n_operands; k++) {
        unsigned seen = 0;
        for (int d = 0; d < in[k]->shape->rank; d++) {
            int loop = affine_single_loop(c, &c->map[k][d]);
            if (units && is_only_place(c, &c->map[k][d], in[k]->shape->dim[d])) continue;
            if (loop < 0 || seen >> loop & 1 || !dim_equal(c->extent[loop], in[k]->shape->dim[d])) return false;
            seen |= 1u << loop;
        }
    }
    return c->n_guards == 0;
}

ContractClass contract_classify(const Contract *c, Node *const *in) {
    ContractClass r = {.batch = 1, .m = 1, .n = 1, .k = 1, .other = 1, .is_plain = is_plain(c, in, false), .is_whole = is_plain(c, in, true)};
    int64_t *const product[] = {
        [LOOP_BATCH] = &r.batch, [LOOP_M] = &r.m, [LOOP_N] = &r.n, [LOOP_K] = &r.k, [LOOP_OTHER] = &r.other};
    for (int l = 0; l < c->n_loops; l++) {
        r.loop[l] = class_of(c, in, l);
        int64_t *p = product[r.loop[l]];
        if (__builtin_mul_overflow(*p, c->extent[l].bound, p)) *p = INT64_MAX;
    }
    return r;
}

bool contract_is_product(const Node *n) {
    return n->op == OP_CONTRACT && n->n_in == 2 && n->attr->contract->n_loops > n->attr->contract->n_out;
}

int contract_contiguous(const Node *n, int loop) {
    const Contract *c = n->attr->contract;
    int found = 0;
    for (int o = 0; o < n->n_in; o++) {
        const int last = n->in[o]->shape->rank - 1;
        found += last >= 0 && c->map[o][last].divisor == 1 && c->map[o][last].coef[loop] == 1;
    }
    return found;
}
