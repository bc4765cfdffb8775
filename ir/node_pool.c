/* Attributes and shapes: hashed, compared, and kept once. */
#include "ir/node_pool.h"
#include "ir/integer.h"
#include <string.h>

typedef struct PoolSlot {
    uint64_t hash;
    const void *value; /* NULL: empty */
} PoolSlot;

/* Open addressing; size is a power of two. */
typedef struct PoolTable {
    PoolSlot *slot;
    int size, used;
} PoolTable;

struct NodePool {
    Arena *arena;
    PoolTable attrs, shapes;
};

NodePool *node_pool_new(Arena *a) {
    NodePool *p = ARENA_NEW(a, NodePool);
    p->arena = a;
    return p;
}

/* ---- hashes -------------------------------------------------------------------------------------------------- */
static uint64_t hash_affine(uint64_t h, const Affine *e, int n_loops) {
    h = hash_mix(hash_mix(h, (uint64_t)e->c), (uint64_t)e->divisor);
    for (int l = 0; l < n_loops; l++) h = hash_mix(h, (uint64_t)e->coef[l]);
    return h;
}

uint64_t attr_hash(const Node *n) {
    const Attr *a = n->attr;
    const Contract *c = a->contract;
    uint64_t value, h;
    memcpy(&value, &a->value, sizeof value);
    h = hash_mix(hash_mix(0, value), (uint64_t)a->axis);
    for (int d = 0; d < a->n_axes; d++) h = hash_mix(h, (uint64_t)a->axes[d]);
    if (n->op == OP_SLICE || n->op == OP_PAD)
        for (int d = 0; d < n->shape->rank; d++)
            h = hash_mix(hash_mix(h, (uint64_t)a->lo[d].bound), (uint64_t)a->hi[d].bound);
    for (int l = 0; c && l < c->n_loops; l++) h = hash_mix(h, (uint64_t)c->extent[l].bound);
    for (int k = 0; c && k < c->n_operands; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++) h = hash_affine(h, &c->map[k][d], c->n_loops);
    return h;
}

uint64_t attr_hash_source(const Node *n) {
    return hash_mix(hash_mix(attr_hash(n), (uint64_t)n->attr->decl), (uint64_t)n->attr->stream);
}

/* ---- equality -------------------------------------------------------------------------------------------------- */
typedef bool SameDim(const Dim *a, const Dim *b);

static bool same_number(const Dim *a, const Dim *b) { return dim_equal(*a, *b); }
static bool same_with_name(const Dim *a, const Dim *b) { return a->name == b->name && dim_equal(*a, *b); }

/* To the byte is what nearly all are. */
static bool dims_equal(const Dim *a, const Dim *b, SameDim *same) {
    if (memcmp(a, b, sizeof *a * MAX_RANK) == 0) return true;
    for (int d = 0; d < MAX_RANK; d++)
        if (!same(&a[d], &b[d])) return false;
    return true;
}

static bool affine_equal(const Affine *a, const Affine *b) {
    return a->c == b->c && a->divisor == b->divisor && memcmp(a->coef, b->coef, sizeof a->coef) == 0;
}

static bool guard_equal(const Guard *a, const Guard *b, SameDim *same) {
    return a->kind == b->kind && a->lo == b->lo && same(&a->hi, &b->hi) && affine_equal(&a->e, &b->e);
}

static bool contract_equal(const Contract *a, const Contract *b, Node *const *in, SameDim *same) {
    if (!a || !b || a == b) return a == b;
    if (a->n_loops != b->n_loops || a->n_out != b->n_out || a->n_operands != b->n_operands ||
        a->n_guards != b->n_guards)
        return false;
    for (int l = 0; l < a->n_loops; l++)
        if (!same(&a->extent[l], &b->extent[l])) return false;
    for (int k = 0; k < a->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++)
            if (!affine_equal(&a->map[k][d], &b->map[k][d])) return false;
    for (int i = 0; i < a->n_guards; i++)
        if (!guard_equal(&a->guard[i], &b->guard[i], same)) return false;
    return true;
}

/* Values to the bit, so that 0 and -0 stay apart. */
static bool equal_but_for_source(const Attr *x, const Attr *y, Node *const *in, SameDim *same) {
    return memcmp(&x->value, &y->value, sizeof x->value) == 0 && x->axis == y->axis && same(&x->extent, &y->extent) &&
           x->n_axes == y->n_axes && memcmp(x->axes, y->axes, (size_t)x->n_axes) == 0 && x->scan == y->scan &&
           x->reverse == y->reverse && x->exclusive == y->exclusive && dims_equal(x->lo, y->lo, same) &&
           dims_equal(x->hi, y->hi, same) && memcmp(x->step, y->step, sizeof x->step) == 0 &&
           contract_equal(x->contract, y->contract, in, same);
}

bool attr_similar(const Node *a, const Node *b) {
    return a->attr == b->attr || equal_but_for_source(a->attr, b->attr, a->in, same_number);
}

/* ---- the pool -------------------------------------------------------------------------------------------------- */
static bool same_attr(const void *a, const void *b, Node *const *in) {
    const Attr *x = a, *y = b;
    if (x->decl != y->decl || x->stream != y->stream || x->dtype != y->dtype) return false;
    if (x->contract && y->contract && x->contract->to_f32 != y->contract->to_f32) return false;
    return equal_but_for_source(x, y, in, same_with_name);
}

static void grow(Arena *a, PoolTable *t) {
    const PoolSlot *old = t->slot;
    const int old_size = t->size;
    t->size = old_size ? 2 * old_size : 64;
    t->slot = ARENA_ARRAY(a, PoolSlot, t->size);
    for (int i = 0; i < old_size; i++) {
        if (!old[i].value) continue;
        int at = (int)(old[i].hash & (uint64_t)(t->size - 1));
        while (t->slot[at].value) at = (at + 1) & (t->size - 1);
        t->slot[at] = old[i];
    }
}

typedef bool SameValue(const void *a, const void *b, Node *const *in);

/* The slot of a value: one that holds an equal one, or the empty one where it belongs. */
static PoolSlot *find(Arena *a, PoolTable *t, uint64_t hash, const void *value, Node *const *in, SameValue *same) {
    if (2 * t->used >= t->size) grow(a, t);
    int at = (int)(hash & (uint64_t)(t->size - 1));
    while (t->slot[at].value && (t->slot[at].hash != hash || !same(t->slot[at].value, value, in)))
        at = (at + 1) & (t->size - 1);
    return &t->slot[at];
}

static const void *keep(PoolTable *t, PoolSlot *slot, uint64_t hash, const void *value) {
    *slot = (PoolSlot){hash, value};
    t->used++;
    return value;
}

static const Contract *contract_copy(Arena *a, const Contract *c) {
    Contract *copy = arena_dup(a, c, sizeof *c);
    copy->map = arena_dup(a, c->map, sizeof *c->map * (size_t)c->n_operands);
    copy->guard = arena_dup(a, c->guard, sizeof *c->guard * (size_t)c->n_guards);
    return copy;
}

const Attr *node_pool_attr(NodePool *p, const Node *n) {
    const uint64_t hash = attr_hash_source(n);
    PoolSlot *slot = find(p->arena, &p->attrs, hash, n->attr, n->in, same_attr);
    if (slot->value) return slot->value;
    Attr *own = arena_dup(p->arena, n->attr, sizeof *own);
    if (own->contract) own->contract = contract_copy(p->arena, own->contract);
    return keep(&p->attrs, slot, hash, own);
}

static bool same_shape(const void *a, const void *b, Node *const *in) {
    const Shape *x = a, *y = b;
    (void)in;
    if (x->rank != y->rank) return false;
    for (int d = 0; d < x->rank; d++)
        if (!same_with_name(&x->dim[d], &y->dim[d])) return false;
    return true;
}

const Shape *node_pool_shape(NodePool *p, const Shape *s) {
    uint64_t hash = hash_mix(0, (uint64_t)s->rank);
    for (int d = 0; d < s->rank; d++) hash = hash_mix(hash_mix(hash, (uint64_t)s->dim[d].bound), (uint64_t)s->dim[d].sym);
    PoolSlot *slot = find(p->arena, &p->shapes, hash, s, NULL, same_shape);
    if (slot->value) return slot->value;
    Shape *own = ARENA_NEW(p->arena, Shape);
    own->rank = s->rank;
    memcpy(own->dim, s->dim, sizeof *s->dim * (size_t)s->rank);
    return keep(&p->shapes, slot, hash, own);
}
