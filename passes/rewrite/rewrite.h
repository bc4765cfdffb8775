/* Rebuilding a graph through smart constructors: what canonicalize and jacobian_gemm share.
 *
 * rewrite_graph() walks the old graph in order and makes every node again with rewrite_node(), which
 * tries the rules of its op and otherwise returns an equal node that exists, or a new one.  Rules look
 * only down at operands, which are in their final form already, so that one walk reaches the fixed
 * point and a second one changes nothing. */
#ifndef FUSEC_PASSES_REWRITE_H
#define FUSEC_PASSES_REWRITE_H
#include "passes/pass.h"
#include <math.h>

typedef struct Rewriter Rewriter;

/* The replacement of candidate n, or NULL where the rule does not apply.  n is not in the graph yet; its
 * operands are.  A rule never makes a program cost more, and what it emits lies closer to final form. */
typedef Node *RewriteRule(Rewriter *r, const Node *n);

/* Rules of an op in order of trial, up to REWRITE_END. */
typedef const RewriteId *RewriteRules(Op op);

/* What a pass has found out, for its own rules: by old id, each may be NULL. */
typedef struct RewriteFacts {
    const bool *streamed;        /* stream_sums: fuse_streamed */
    const struct Slices *slices; /* split: of sums and products */
    bool rules_alone;            /* where none applies the graph stays as it is, with equal and dead nodes */
} RewriteFacts;

struct Rewriter {
    Graph *g; /* the new graph */
    Arena *scratch;
    RewriteRules *rules;
    const Node *at;    /* the old node being made again: it gives phase, remat and place */
    VEC(bool) opaque;  /* by new id: a gradient is taken by it, so it is neither looked through nor merged */
    VEC(int) readers;  /* by new id: how many operands and results of the old graph it stands for */
    bool at_parted;    /* find_parted(), of the old node */
    VEC(bool) parted;  /* by new id: those all are which it stands for or was made for */
    VEC(int) products; /* by new id, of what is no rounding of another: 1 + the newest in `uses`, 0: none */
    VEC(struct ProductUse {
        Node *product; /* a contraction of two operands, not opaque */
        int next;      /* the one before it that reads the same, rounded or not, as in `products` */
    })
    uses;
    struct NodeTable { /* open addressing, by structure; size is a power of two */
        struct NodeSlot *slot;
        int size, used;
    } nodes, parts;                      /* g->nodes; part_keys */
    VEC(Node *) part_keys, made_parts;   /* what was asked for, and what it became: NULL, not yet (rewrite_part) */
    const struct PatternTable *patterns; /* rules.def as read (patterns.c); NULL before the first use */
    const Target *target;                /* NULL before one is chosen */
    const PassContext *context;
    RewriteFacts facts;
    bool applied;                /* some rule was */
    uint32_t *fired;             /* NULL, or a counter per rule */
    const char *violation;       /* NULL, or what a rule built that is illegal, in scratch: PassContext.violation */
    int depth; /* of rules within rules; past a limit nodes are made as they are, so that no input exhausts the stack */
};

/* The whole walk, in c->arena; results follow, dead nodes go. */
Graph *rewrite_graph(PassContext *c, Graph *g, RewriteRules *rules);
Graph *rewrite_graph_with(PassContext *c, Graph *g, RewriteRules *rules, const RewriteFacts *facts);

/* A node by its parts, simplified.  Shape and dtype must be what graph_infer says. */
Node *rewrite_node(Rewriter *r, Op op, int n_in, Node *const *in, const Attr *attr, DType dtype, Shape shape);

/* As graph_op and its kin, simplified; shape and dtype are inferred. */
Node *rewrite_op(Rewriter *r, Op op, int n_in, Node *const *in, const Attr *attr);
/* NULL where the contraction would pass a limit. */
Node *rewrite_contract(Rewriter *r, const Contract *c, Node *const *in);
Node *rewrite_const(Rewriter *r, DType t, Shape s, double value);
Node *rewrite_reshape(Rewriter *r, Node *a, Shape s);
Node *rewrite_broadcast(Rewriter *r, Node *a, Shape s, const int8_t *axes);
Node *rewrite_transpose(Rewriter *r, Node *a, const int8_t *perm); /* perm as in graph_transpose */
Node *rewrite_reduce(Rewriter *r, Op op, Node *a, int n_axes, const int8_t *axes);

/* n if it was made by op and may be looked through, else NULL. */
const Node *rewrite_seen(const Rewriter *r, const Node *n, Op op);
bool rewrite_in_stream(const Rewriter *r); /* in pass_stream_sums: is the node at hand a sum of a stream? */
/* What n is a rounding of, through casts between dtypes of floats; n: of nothing else. */
const Node *rewrite_unrounded(const Rewriter *r, const Node *n);

/* Whether nothing but the one who asks reads n, as far as the old graph tells: if not, more is computed than need be.
 */
bool rewrite_only_reader(const Rewriter *r, const Node *n);

/* A factor that can be moved past others: with it they can neither overflow nor vanish. */
static inline bool is_moderate(double x) { return fabs(x) > 0x1p-40 && fabs(x) < 0x1p40; }

/* What became of part n of a value, to be set by who finds NULL: values that read one value several times would ask for
 * its part as often as there are paths to it. */
Node **rewrite_part(Rewriter *r, const Node *n);

/* canonical_part.c.  By id, in a: is all that is read of it small parts, in front of which it can be computed? */
bool *find_parted(Arena *a, const Graph *g, const bool *opaque);
/* Is there a part of such a value? */
bool find_parts(const Graph *g, const bool *opaque, const bool *parted);

/* Tries one rule. */
Node *rewrite_apply(Rewriter *r, RewriteId id, const Node *n);

/* Rules of canonicalize, by op; other passes may put their own before them. */
RewriteRules canonical_rules;

#define REWRITE(name, summary) RewriteRule rule_##name;
#include "passes/rewrite/rewrites.def"
#undef REWRITE

#endif
