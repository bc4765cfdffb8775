/* Within the pass fuse: its state, which values are candidates for memory, which kernel a candidate joins. */
#ifndef FUSEC_PASSES_FUSE_H
#define FUSEC_PASSES_FUSE_H
#include "passes/algebra/access.h"
#include "passes/pass.h"

typedef struct Fuse {
    Arena *arena;
    Plan *plan;
    Graph *graph;
    bool merge;          /* false: -fno-fuse, a kernel per candidate */
    bool *candidate;     /* by node id */
    bool *output;        /* is an OUTPUT result */
    bool *result;
    bool *grad;          /* is a gradient */
    Node **shared;       /* by result: the value, of an output that others read too; else NULL */
    Node **landing;      /* by result: the node that is computed into its home */
    const bool *inlined; /* too large for memory: computed by whoever reads it, though that costs more; NULL: none is known */
    bool *copied;        /* has memory: a result is nothing but its copy, or it is an image that products read */
    AccessList *access;  /* by node id, of candidates */
    int *readers;        /* how many candidates read it */
    int *last_reader;    /* newest kernel that reads it, or -1 */
    uint32_t *fired;     /* NULL, or a counter per rule */
    uint64_t *wanted;    /* plan_wanted_by_node, or NULL: every call needs all */
    const bool *data;    /* -fno-jacobian-gemm, by node id: it depends on an input; else NULL */
    int threads;         /* of a program */
    const Target *target;
    Uses uses;
    bool *joined;        /* by node id: a concatenation in memory that the kernels of its parts write */
    Node **within;       /* by node id: the joined one whose part it is, or NULL */
    int *after;          /* by node id, of joined ones: the newest kernel that writes a part */
    bool *adds;          /* by node id: the sum of products that fuse puts into one kernel */
    int n;               /* nodes */
    const Node *in_front; /* while kernels are made: the last node that is no clone */
} Fuse;

/* ---- fuse_candidates.c -------------------------------------------------------------------------------------------- */
void fuse_candidates(Fuse *f, const Graph *g); /* fills f->candidate, and what it is chosen by */
bool fuse_is_heavy(const Node *n);             /* a reduction, or a sum of products */
bool fuse_is_copy(const Fuse *f, const Node *n);
int fuse_users(const Uses *u, const Node *n);
bool fuse_is_bucketed(const Uses *u, const Node *n); /* a bucket's kernel reads it where it lies */
bool fuse_may_be_joined(const Uses *u, const Node *n);

/* What products and scatters read again and again, themselves or through movement, by node id. */
bool *fuse_rereads(Arena *a, const Graph *g, const Uses *uses);

enum { FUSE_MANY_PARTS = 24 }; /* of a concatenation: each is computed before, and all in a kernel that does nothing else */

/* ---- fuse_parts.c ------------------------------------------------------------------------------------------------- */
/* Gives each part of a concatenation that will be joined a value that nothing else needs elsewhere: copies, where it must. */
void fuse_separate_parts(PassContext *c, Graph *g);
/* Room in the arena for an output that only the caller reads, so that a kernel may write more than it; false: there can be none. */
bool fuse_share(const PassContext *c, Fuse *f, const Node *n);
void fuse_join_parts(Fuse *f); /* fills f->joined and f->within */

/* ---- fuse_join.c -------------------------------------------------------------------------------------------------- */
/* How node n joins the kernel, as pn; FUSION_COUNT where it does not fit. */
FusionId fuse_try_join(const Fuse *f, PlanKernel *k, Node *n, PlanNode *pn);
PlanNode fuse_plain(Node *n); /* over the kernel's parallel dims, in order */
const PlanNode *fuse_find_in(const PlanKernel *k, const Node *n);
/* The sum of products that is all that reads n, and is put into one kernel; NULL: there is none. */
Node *fuse_sum_with(const Fuse *f, const Node *n);

#endif
