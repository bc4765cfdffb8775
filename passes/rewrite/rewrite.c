/* The walk, the set of existing nodes, and the smart constructors. */
#include "passes/rewrite/rewrite.h"
#include "ir/node_pool.h"
#include "ir/integer.h"
#include <string.h>

/* ---- structural equality ------------------------------------------------------------------- */
static uint32_t hash_node(const Node *n) {
    const uint64_t which = (uint64_t)n->remat ^ (uint64_t)n->precision << 32;
    uint64_t h = hash_mix(hash_mix(hash_mix(0, (uint64_t)n->op), (uint64_t)n->dtype), which);
    for (int k = 0; k < n->n_in; k++) h = hash_mix(h, (uint64_t)n->in[k]->id);
    for (int d = 0; d < n->shape->rank; d++) h = hash_mix(h, (uint64_t)n->shape->dim[d].bound);
    return (uint32_t)hash_mix(h, attr_hash_source(n));
}

static bool attr_equal(const Node *a, const Node *b) {
    return a->attr->decl == b->attr->decl && a->attr->stream == b->attr->stream && attr_similar(a, b);
}

static bool node_equal(const Node *a, const Node *b) {
    return a->op == b->op && a->dtype == b->dtype && a->remat == b->remat && a->precision == b->precision &&
           a->n_in == b->n_in && memcmp(a->in, b->in, sizeof *a->in * (size_t)a->n_in) == 0 &&
           shape_same(a->shape, b->shape) && attr_equal(a, b);
}

/* ---- the set of nodes -------------------------------------------------------------------------- */
struct NodeSlot {
    uint32_t hash;
    int key; /* 1 + place in the list of keys; 0: empty */
};

/* Nodes are made in the order of their operands: a node is looked for near its youngest operand's place, so that the slots in
 * use stay in the cache (NEAR slots, a line of it), and by its hash where those are taken. */
enum { NEAR = 8, PLACES = 64 };
static int place_of(const Node *n, uint32_t hash) {
    int youngest = 0;
    for (int k = 0; k < n->n_in; k++) youngest = n->in[k]->id > youngest ? n->in[k]->id : youngest;
    return n->n_in ? 2 * youngest + (int)(hash % PLACES) : (int)(hash & INT32_MAX);
}

static struct NodeSlot *slot_of(const struct NodeTable *t, Node *const *keys, const Node *n, uint32_t hash) {
    const uint32_t mask = (uint32_t)t->size - 1;
    uint32_t i = (uint32_t)place_of(n, hash) & mask;
    for (int tried = 1; t->slot[i].key && (t->slot[i].hash != hash || !node_equal(keys[t->slot[i].key - 1], n)); tried++)
        i = (tried == NEAR ? hash : i + 1) & mask;
    return &t->slot[i];
}

static void grow_table(Rewriter *r, struct NodeTable *t, Node *const *keys, int least) {
    const struct NodeSlot *old = t->slot;
    const int old_size = t->size;
    while (t->size <= least) t->size = t->size ? t->size * 2 : 256;
    t->slot = ARENA_ARRAY(r->scratch, struct NodeSlot, t->size);
    for (int i = 0; i < old_size; i++) {
        if (old[i].key) *slot_of(t, keys, keys[old[i].key - 1], old[i].hash) = old[i];
    }
}

/* The slot of what is equal to n, perhaps empty: its user sets the key, and counts. */
static struct NodeSlot *find_slot(Rewriter *r, struct NodeTable *t, Node *const *keys, const Node *n) {
    if (t->used * 2 >= t->size) grow_table(r, t, keys, t->size);
    const uint32_t hash = hash_node(n);
    struct NodeSlot *slot = slot_of(t, keys, n, hash);
    slot->hash = hash;
    return slot;
}

Node **rewrite_part(Rewriter *r, const Node *n) {
    struct NodeSlot *slot = find_slot(r, &r->parts, r->part_keys.at, n);
    if (!slot->key) {
        Node *key = arena_dup(r->scratch, n, sizeof *n);
        key->in = arena_dup(r->scratch, n->in, sizeof *n->in * (size_t)n->n_in);
        key->attr = arena_dup(r->scratch, n->attr, sizeof *n->attr);
        key->shape = node_pool_shape(r->g->pool, n->shape);
        vec_push(r->scratch, r->part_keys, key);
        vec_push(r->scratch, r->made_parts, NULL);
        slot->key = ++r->parts.used;
    }
    return &r->made_parts.at[slot->key - 1];
}

/* ---- constructors -------------------------------------------------------------------------------- */
/* Attributes of the old graph live as long as this one and are shared; a rule's own are copied. */
static Node *new_node(Rewriter *r, const Node *c) {
    if (c->attr != r->at->attr) {
        if (c->op == OP_CONTRACT) return graph_contract(r->g, c->n_in, c->in, c->attr->contract);
        return graph_node(r->g, c->op, c->n_in, c->in, c->attr, c->dtype, *c->shape);
    }
    Node *n = graph_node(r->g, c->op, c->n_in, c->in, NULL, c->dtype, *c->shape);
    n->attr = c->attr;
    return n;
}

static void list_reader(Rewriter *r, Node *product, const Node *in) {
    int *newest = &r->products.at[in->id];
    vec_push(r->scratch, r->uses, (struct ProductUse){product, *newest});
    *newest = r->uses.n;
}

bool rewrite_in_stream(const Rewriter *r) { return r->facts.streamed && r->facts.streamed[r->at->id]; }

const Node *rewrite_unrounded(const Rewriter *r, const Node *n) {
    while (rewrite_seen(r, n, OP_CAST) && dtype_is_float(n->dtype) && dtype_is_float(n->in[0]->dtype)) n = n->in[0];
    return n;
}

static void list_product(Rewriter *r, Node *n) {
    vec_push(r->scratch, r->products, 0);
    if (n->op != OP_CONTRACT || n->n_in != 2 || r->opaque.at[n->id]) return;
    for (int k = 0; k < (n->in[0] == n->in[1] ? 1 : 2); k++) list_reader(r, n, rewrite_unrounded(r, n->in[k]));
}

static Node *append(Rewriter *r, const Node *candidate, bool opaque) {
    Node *n = new_node(r, candidate);
    n->phase = r->at->phase;
    n->remat = candidate->remat;
    n->precision = candidate->precision;
    n->loc = r->at->loc;
    vec_push(r->scratch, r->opaque, opaque);
    vec_push(r->scratch, r->readers, 0);
    vec_push(r->scratch, r->parted, r->at_parted);
    list_product(r, n);
    return n;
}

/* A replacement stands where n stood: readers count on its shape and dtype. */
static void check_replacement(Rewriter *r, RewriteId id, const Node *n, const Node *made) {
    if (r->violation || (made->dtype == n->dtype && shape_same(made->shape, n->shape))) return;
    r->violation = arena_printf(
        r->scratch, "rule '%s' makes %s of dtype %s and shape %s from %s of dtype %s and shape %s", rule_text[id],
        op_info[made->op].text, dtype_name(made->dtype), shape_text(r->scratch, *made->shape), op_info[n->op].text,
        dtype_name(n->dtype), shape_text(r->scratch, *n->shape));
}

Node *rewrite_apply(Rewriter *r, RewriteId id, const Node *n) {
    static RewriteRule *const rule[REWRITE_COUNT] = {
#define REWRITE(name, summary) [REWRITE_##name] = rule_##name,
#include "passes/rewrite/rewrites.def"
#undef REWRITE
    };
    if (r->violation) return NULL;
    Node *simpler = rule[id](r, n);
    r->applied |= simpler != NULL;
    if (simpler && r->fired) r->fired[id]++;
    if (simpler) check_replacement(r, id, n, simpler);
    return r->violation ? NULL : simpler;
}

enum { DEEPEST_RULE = 300 };

static Node *simplified(Rewriter *r, const Node *candidate) {
    Node *n = NULL;
    if (r->depth == DEEPEST_RULE) return NULL;
    r->depth++;
    for (const RewriteId *id = r->rules(candidate->op); *id != REWRITE_END && !n; id++)
        n = rewrite_apply(r, *id, candidate);
    r->depth--;
    return n;
}

/* pass_precision rounds a value that a product reads, for all its readers: until then two equal ones may come to differ. */
static bool may_differ(const Node *n) { return n->precision == PRECISION_BF16 || n->precision == PRECISION_F16; }

static Node *make(Rewriter *r, const Node *candidate) {
    Node *simpler = simplified(r, candidate);
    if (simpler) return simpler;
    if (may_differ(candidate)) return append(r, candidate, false);
    struct NodeSlot *slot = find_slot(r, &r->nodes, r->g->nodes.at, candidate);
    if (!slot->key) {
        slot->key = append(r, candidate, false)->id + 1;
        r->nodes.used++;
    }
    Node *n = r->g->nodes.at[slot->key - 1];
    if (!r->at_parted) r->parted.at[n->id] = false;
    return n;
}

Node *rewrite_node(Rewriter *r, Op op, int n_in, Node *const *in, const Attr *attr, DType dtype, Shape shape) {
    static const Attr none = {0};
    Node *operands[8];
    Node candidate = {.op = op, .dtype = dtype, .shape = &shape, .n_in = n_in, .remat = r->at->remat};
    if (op_has_precision(op)) candidate.precision = r->at->precision;
    candidate.in = n_in <= 8 ? operands : ARENA_ARRAY(r->scratch, Node *, n_in);
    candidate.attr = attr ? attr : &none;
    if (n_in) memcpy(candidate.in, in, sizeof *in * (size_t)n_in);
    return make(r, &candidate);
}

static Node *inferred(Rewriter *r, Op op, int n_in, Node *const *in, const Attr *attr, Shape shape) {
    DType dtype;
    const char *why;
    if (graph_infer(r->scratch, op, n_in, in, attr, &dtype, &shape, &why))
        return rewrite_node(r, op, n_in, in, attr, dtype, shape);
    if (!r->violation)
        r->violation = arena_printf(r->scratch, "a rule for %s built an illegal %s: %s", op_info[r->at->op].text,
                                    op_info[op].text, why);
    return rewrite_const(r, r->at->dtype, *r->at->shape, 0); /* any legal node: the graph goes no further */
}

Node *rewrite_op(Rewriter *r, Op op, int n_in, Node *const *in, const Attr *attr) {
    return inferred(r, op, n_in, in, attr, shape_scalar());
}

Node *rewrite_contract(Rewriter *r, const Contract *c, Node *const *in) {
    const Attr attr = {.contract = c};
    DType dtype;
    Shape shape = {0};
    const char *why;
    if (!graph_infer(r->scratch, OP_CONTRACT, c->n_operands, in, &attr, &dtype, &shape, &why)) return NULL;
    return rewrite_node(r, OP_CONTRACT, c->n_operands, in, &attr, dtype, shape);
}

Node *rewrite_const(Rewriter *r, DType t, Shape s, double value) {
    return rewrite_node(r, OP_CONST, 0, NULL, &(Attr){.dtype = t, .value = value}, t, s);
}

Node *rewrite_reshape(Rewriter *r, Node *a, Shape s) { return inferred(r, OP_RESHAPE, 1, &a, NULL, s); }

Node *rewrite_broadcast(Rewriter *r, Node *a, Shape s, const int8_t *axes) {
    Attr attr = {.n_axes = a->shape->rank};
    for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = axes[d];
    return inferred(r, OP_BROADCAST, 1, &a, &attr, s);
}

Node *rewrite_transpose(Rewriter *r, Node *a, const int8_t *perm) {
    Attr attr = {.n_axes = a->shape->rank};
    for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = perm[d];
    return inferred(r, OP_TRANSPOSE, 1, &a, &attr, shape_scalar());
}

Node *rewrite_reduce(Rewriter *r, Op op, Node *a, int n_axes, const int8_t *axes) {
    Attr attr = {.n_axes = n_axes};
    for (int d = 0; d < n_axes; d++) attr.axes[d] = axes[d];
    return inferred(r, op, 1, &a, &attr, shape_scalar());
}

const Node *rewrite_seen(const Rewriter *r, const Node *n, Op op) {
    return n->op == op && !r->opaque.at[n->id] ? n : NULL;
}

bool rewrite_only_reader(const Rewriter *r, const Node *n) { return r->readers.at[n->id] <= 1; }

/* ---- the walk --------------------------------------------------------------------------------------- */
static bool always_stays(Op op) { return op == OP_PARAM || op == OP_STATE || op == OP_INPUT || op == OP_HYPER; }

/* What the old graph says of its nodes, by id. */
typedef struct Ahead {
    bool *opaque; /* a gradient is taken by it: other values must not come to bypass it */
    int *readers;
} Ahead;

static Ahead look_ahead(Arena *a, const Graph *g) {
    const Ahead x = {ARENA_ARRAY(a, bool, g->nodes.n), ARENA_ARRAY(a, int, g->nodes.n)};
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const bool derivative = n->op == OP_GRADIENT || n->op == OP_VJP || n->op == OP_JACOBIAN;
        if (derivative && !always_stays(n->in[1]->op)) x.opaque[n->in[1]->id] = true;
        for (int k = 0; k < n->n_in; k++) x.readers[n->in[k]->id]++;
    }
    for (int i = 0; i < g->results.n; i++) x.readers[g->results.at[i].value->id]++;
    return x;
}

/* What simplifies away may have been all that kept a value from being read in parts only. */
static bool parts_left(Graph *g) {
    Arena *a = arena_new();
    const bool *opaque = look_ahead(a, g).opaque, left = find_parts(g, opaque, find_parted(a, g, opaque));
    arena_free(a);
    return left;
}

Graph *rewrite_graph(PassContext *c, Graph *g, RewriteRules *rules) {
    enum { MOST_RUNS = 4 };
    const RewriteFacts none = {0};
    g = rewrite_graph_with(c, g, rules, &none);
    for (int run = 1; run < MOST_RUNS && parts_left(g); run++) g = rewrite_graph_with(c, g, rules, &none);
    return g;
}

Graph *rewrite_graph_with(PassContext *c, Graph *g, RewriteRules *rules, const RewriteFacts *facts) {
    Rewriter r = {.g = graph_new_from(c->arena, g), .scratch = arena_new(), .rules = rules};
    r.fired = c->fired;
    r.target = c->target;
    r.context = c;
    r.facts = *facts;
    grow_table(&r, &r.nodes, r.g->nodes.at, 2 * g->nodes.n);
    Node **copy = ARENA_ARRAY(r.scratch, Node *, g->nodes.n);
    const Ahead ahead = look_ahead(r.scratch, g);
    const bool *parted = find_parted(r.scratch, g, ahead.opaque);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        Node *operands[8];
        Node candidate = *n;
        candidate.in = n->n_in <= 8 ? operands : ARENA_ARRAY(r.scratch, Node *, n->n_in);
        for (int k = 0; k < n->n_in; k++) candidate.in[k] = copy[n->in[k]->id];
        r.at = n;
        r.at_parted = parted[i];
        copy[i] = ahead.opaque[i] ? append(&r, &candidate, true) : make(&r, &candidate);
        if (!parted[i]) r.parted.at[copy[i]->id] = false;
        r.readers.at[copy[i]->id] += ahead.readers[i];
    }
    for (int i = 0; i < g->results.n; i++) {
        const Result *result = &g->results.at[i];
        graph_result(r.g, result->kind, result->decl, copy[result->value->id]);
    }
    graph_prune(r.g);
    if (r.violation && !c->violation) c->violation = arena_strdup(c->kept ? c->kept : c->arena, r.violation);
    arena_free(r.scratch);
    return facts->rules_alone && !r.applied ? g : r.g;
}
