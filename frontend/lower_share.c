/* Equal cheap nodes are made once: optimizers alone would write the same constants and the same
 * functions of `step` thousands of times.  Only ops without identity are shared. */
#include "frontend/lower.h"
#include <string.h>

static bool is_shared(Op op) {
    OpClass c = op_info[op].cls;
    return c == CLASS_ELEMENT || op == OP_CONST || op == OP_IOTA || op == OP_BROADCAST || op == OP_RESHAPE ||
           op == OP_EXTENT || op == OP_STEP || op == OP_SEED;
}

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * 0x9e3779b97f4a7c15u ^ (h >> 29); }

static uint64_t key_of(Op op, int n, Node *const *in, const Attr *attr, DType t, const Shape *s) {
    uint64_t h = mix(mix((uint64_t)op, (uint64_t)t), (uint64_t)s->rank), bits = 0;
    for (int d = 0; d < s->rank; d++) h = mix(h, (uint64_t)s->dim[d].bound);
    for (int i = 0; i < n; i++) h = mix(h, (uint64_t)in[i]->id);
    if (!attr) return h;
    memcpy(&bits, &attr->value, sizeof bits);
    h = mix(mix(h, bits), (uint64_t)attr->axis);
    for (int i = 0; i < attr->n_axes; i++) h = mix(h, (uint64_t)attr->axes[i]);
    return h;
}

/* Bitwise, so that 0 and -0 stay apart. */
static bool same_attr(const Attr *a, const Attr *b) {
    return memcmp(&a->value, &b->value, sizeof a->value) == 0 && a->axis == b->axis && a->n_axes == b->n_axes &&
           memcmp(a->axes, b->axes, (size_t)a->n_axes) == 0 && dim_equal(a->extent, b->extent);
}

static bool same_node(const Lower *L, const Node *x, Op op, int n, Node *const *in, const Attr *attr, DType t,
                      Shape s) {
    if (x->op != op || x->n_in != n || x->dtype != t || !shape_same(x->shape, &s)) return false;
    const Precision precision = L->phase == PHASE_FORWARD ? L->precision : PRECISION_F32;
    if (op_has_precision(op) && x->precision != precision) return false;
    for (int i = 0; i < n; i++)
        if (x->in[i] != in[i]) return false;
    return !attr || same_attr(x->attr, attr);
}

static void grow(Lower *L) {
    int old = L->shared_cap;
    const SharedNode *at = L->shared;
    L->shared_cap = old ? old * 2 : 1024;
    L->shared = ARENA_ARRAY(L->scratch, SharedNode, L->shared_cap);
    for (int i = 0; i < old; i++) {
        if (!at[i].node) continue;
        int k = (int)(at[i].key >> 20) & (L->shared_cap - 1);
        while (L->shared[k].node) k = (k + 1) & (L->shared_cap - 1);
        L->shared[k] = at[i];
    }
}

/* Where such a node stands in the table, or would. */
static int find(const Lower *L, uint64_t key, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape s) {
    const int mask = L->shared_cap - 1;
    int k = (int)(key >> 20) & mask;
    while (L->shared[k].node && !(L->shared[k].key == key && same_node(L, L->shared[k].node, op, n, in, attr, t, s)))
        k = (k + 1) & mask;
    return k;
}

Node *shared_node(Lower *L, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape s) {
    if (!is_shared(op)) return t_new_node(L, op, n, in, attr, t, s);
    if (L->shared_n * 2 >= L->shared_cap) grow(L);
    const uint64_t key = key_of(op, n, in, attr, t, &s);
    const int k = find(L, key, op, n, in, attr, t, s);
    if (L->shared[k].node) return L->shared[k].node;
    L->shared_n++;
    L->shared[k] = (SharedNode){key, t_new_node(L, op, n, in, attr, t, s)};
    return L->shared[k].node;
}

bool is_number(const Lower *L, const Node *a) {
    if (a->op != OP_CONST || L->shared_cap == 0) return false;
    const uint64_t key = key_of(OP_CONST, 0, NULL, a->attr, a->dtype, a->shape);
    return L->shared[find(L, key, OP_CONST, 0, NULL, a->attr, a->dtype, *a->shape)].node == a;
}
