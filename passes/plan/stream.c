/* fuse: which values are streamed.
 *
 * A product whose result is much larger than its factors (the scores of attention, [rows, columns] of [rows, k] times
 * [k, columns]), with all that is elementwise after it, need not be in memory if nothing but reductions over one of its dims
 * reads it: a kernel that walks that dim recomputes it, tile by tile, and adds to all of them.  Reductions that depend on one
 * another over the same dim are of one kernel where the online rule holds (stream_term), so that a softmax and the product
 * after it read the scores once; where it does not, or the dim is another, they are of several, and the scores are
 * recomputed in each.  That takes arithmetic instead of memory: what it takes is weighed, but where there is no memory for it.
 * Its constants are from `./dev bench fusion`. */
#include "passes/plan/stream.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/kernel/tile_size.h"
#include <string.h>

enum {
    LARGE_BYTES = 1 << 20, /* of the values: what is less stays in a cache until it is read */
    MOST_SUMS = 256,       /* of the product that makes a value */
    MOST_COLUMNS = 256,    /* of a product that sums over values: its rows stay where they are added up */
    MOST_BY_MATRIX = 128,  /* sums, and columns, of 16-bit products on a GPU: whole rows of factors are in shared memory */
    MOST_VALUES = 64       /* nodes of one region */
};

/* A region: values of one shape that depend on each other. */
typedef struct Finder {
    const PassContext *context;
    Fuse *f;
    const Graph *g;
    Streams found;
    bool *value; /* by node id: a product that may be recomputed, or elementwise after one; no product of such */
    bool *kept;  /* by node id: of a region that failed */
    int *region; /* by node id, of values: the first of its region (union of them) */
    bool *fails; /* by node id, of such first ones */
    int *state;  /* by node id: see mark_dependent */
    bool *depends;     /* by node id: for stream_term */
    bool several_dims; /* of sums: stream_sums takes them apart later */
    int sums;          /* of the region at hand: loops that the products that make its values sum over */
    bool across[MAX_RANK][MAX_RANK]; /* by dims of its values: of each product one factor has the one, the other the other */
    bool low;                        /* matrix instructions multiply */
} Finder;

static int first_of(Finder *s, int id) {
    while (s->region[id] != id) id = s->region[id] = s->region[s->region[id]];
    return id;
}

static void join(Finder *s, int a, int b) {
    a = first_of(s, a), b = first_of(s, b);
    s->region[a > b ? a : b] = a < b ? a : b;
    s->fails[a < b ? a : b] |= s->fails[a] | s->fails[b];
}

static int64_t sums_of(const Node *n) {
    const Contract *c = n->attr->contract;
    int64_t sums = 1;
    for (int l = c->n_out; l < c->n_loops; l++) sums *= c->extent[l].bound;
    return sums;
}

static bool by_matrix(const Target *t, const Node *product) {
    return t && target_has_mma(t) && dtype_is_low(product->in[0]->dtype);
}

/* Matrix instructions of a stream take factors of 16 bits, and whole rows of them (stream_schedule.c). */
static bool is_in_kernel_of_its_own(const Target *t, const Node *product) {
    const Contract *c = product->attr->contract;
    return by_matrix(t, product) &&
           (dtype_bytes(product->in[0]->dtype) != 2 || c->n_loops != c->n_out + 1 || sums_of(product) > MOST_BY_MATRIX);
}

/* What is larger than the fast memory cannot be anywhere. */
static bool has_no_room(const PassContext *c) { return c->target && c->target->device->all_fast && !c->stream_weighed; }

bool stream_makes(const PassContext *c, const Node *n) {
    if (n->op != OP_CONTRACT || n->n_in != 2 || !dtype_is_float(n->dtype) || !contract_is_product(n)) return false;
    if (n->shape->rank < 2 || !shape_is_fixed(*n->shape) || is_in_kernel_of_its_own(c->target, n) || sums_of(n) > MOST_SUMS) return false;
    if (c->stream_all) return shape_elements(*n->shape) > 0 && (c->stream_low || !by_matrix(c->target, n));
    const int64_t factors = shape_elements(*n->in[0]->shape) + shape_elements(*n->in[1]->shape);
    const int64_t large = has_no_room(c) ? c->target->fast_bytes : LARGE_BYTES;
    return (double)node_bytes(n) >= (double)large && shape_elements(*n->shape) >= 2 * factors;
}

/* The columns of a product that sums over the value, beyond its rows. */
static int64_t columns_of(const Node *n, int k) {
    const Contract *c = n->attr->contract;
    int64_t columns = 1;
    for (int l = 0; l < c->n_out; l++)
        if (!contract_mentions(c, n->in, k, l)) columns *= c->extent[l].bound;
    return columns;
}

/* Reads a dim along one loop, or at one place: a batch of one has no loop. */
static bool is_loop_or_place(const Contract *c, const Affine *e, Dim dim) {
    int64_t least, most;
    return affine_single_loop(c, e) >= 0 || (affine_interval(c, e, &least, &most) && least == most && affine_always_in(c, e, 0, dim));
}

/* Reads the value only to sum over one of its dims. */
static bool may_be_member(const Finder *s, const Node *user, const Node *x) {
    int dim;
    const Op op = user->op;
    if (!dtype_is_float(x->dtype)) return false;
    if (op == OP_SUM && s->several_dims && x->dtype == DT_F32) return user->attr->n_axes >= 1;
    if (op == OP_SUM || op == OP_RMAX || op == OP_RMIN || op == OP_ARGMAX) return user->attr->n_axes == 1;
    if (op != OP_CONTRACT || user->n_in != 2 || user->in[0] == user->in[1]) return false;
    const Contract *c = user->attr->contract;
    if (c->n_loops != c->n_out + 1 || c->n_guards || !contract_is_product(user)) return false;
    const int k = user->in[1] == x;
    if (s->value[user->in[1 - k]->id] || !stream_sums_over(user, k, &dim)) return false;
    if (columns_of(user, k) > (by_matrix(s->context->target, user) ? MOST_BY_MATRIX : MOST_COLUMNS)) return false;
    for (int d = 0; d < user->in[1 - k]->shape->rank; d++)
        if (!is_loop_or_place(c, &c->map[1 - k][d], user->in[1 - k]->shape->dim[d])) return false;
    return true;
}

/* Values, regions of them, and which of these something else reads.  What is multiplied again for each element of another product
 * would take many times its arithmetic: a product of a value is a member of its stream or the value is kept. */
static void find_regions(Finder *s) {
    const Fuse *f = s->f;
    for (int i = 0; i < f->n; i++) {
        const Node *n = s->g->nodes.at[i];
        s->region[i] = i;
        bool of_value = false;
        for (int k = 0; k < n->n_in; k++) of_value |= s->value[n->in[k]->id];
        s->value[i] = of_value ? op_info[n->op].cls == CLASS_ELEMENT : !s->kept[i] && stream_makes(s->context, n);
        s->fails[i] = s->value[i] && (f->result[i] || f->copied[i] || f->within[i]);
        for (int k = 0; k < n->n_in && s->value[i]; k++)
            if (s->value[n->in[k]->id]) join(s, i, n->in[k]->id);
    }
    for (int i = 0; i < f->n; i++) {
        const Node *n = s->g->nodes.at[i];
        for (int k = 0; k < n->n_in; k++)
            if (s->value[n->in[k]->id] && !s->value[i] && !may_be_member(s, n, n->in[k])) s->fails[first_of(s, n->in[k]->id)] = true;
    }
}

/* Products of what is kept may be values themselves. */
static void find_values(Finder *s) {
    enum { MOST_ROUNDS = 8 };
    bool more = true;
    for (int round = 0; round < MOST_ROUNDS && more; round++) {
        more = false;
        find_regions(s);
        for (int i = 0; i < s->f->n; i++) {
            if (!s->value[i] || !s->fails[first_of(s, i)]) continue;
            more |= !s->kept[i];
            s->kept[i] = true;
        }
    }
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */
enum { APART, INSIDE, OUTSIDE };

static bool is_in(const Stream *of, const Node *n) {
    for (int i = 0; i < of->members.n; i++)
        if (of->members.at[i].node == n) return true;
    return false;
}

/* By node id, up to `last`: INSIDE depends on members of the stream alone by what is computed where it is read, OUTSIDE by
 * what other kernels compute from them. */
static void mark_dependent(Finder *s, const Stream *of, int last) {
    const int first = of->members.at[0].node->id;
    for (int i = first; i <= last; i++) {
        const Node *n = s->g->nodes.at[i];
        int state = is_in(of, n) ? INSIDE : APART;
        for (int k = 0; k < n->n_in; k++) {
            const int in = n->in[k]->id < first ? APART : s->state[n->in[k]->id];
            if (in > state) state = in;
        }
        const bool elsewhere = s->f->candidate[i] && !s->value[i] && !is_in(of, n) && i != last;
        s->state[i] = state && elsewhere ? OUTSIDE : state;
    }
}

/* What is not in the stream reads a member before `last`: the stream's kernel has to come before. */
static bool read_before(const Finder *s, const Stream *of, int last) {
    for (int i = of->members.at[0].node->id; i < last; i++)
        if (s->state[i] == OUTSIDE) return true;
    return false;
}

/* Axes of a kernel: rows, the streamed dim, columns of products, and for each member that makes the values the sums of their
 * products. */
static bool has_room(const Finder *s, const Stream *of, const Node *n) {
    const int rank = of->shape->rank, members = of->members.n + 1;
    int columns = n->shape->rank - (rank - 1);
    for (int i = 0; i < of->members.n; i++) columns += of->members.at[i].node->shape->rank - (rank - 1);
    return members <= MAX_STREAM && 1 + columns <= MAX_RANK && rank + columns + s->sums * members <= MAX_AXES;
}

/* One kernel serves calls that ask for different outputs: all are asked for more often than one, and each is then given room in the
 * arena besides (may_write), for which there has to be memory. */
static bool serves_both(const Finder *s, const Node *a, const Node *b) {
    return !s->f->wanted || s->f->wanted[a->id] == s->f->wanted[b->id] || !has_no_room(s->context);
}

/* Sets m->term. */
static bool may_join(Finder *s, const Stream *of, StreamMember *m, int dim) {
    const Node *first = of->members.at[0].node, *n = m->node, *x = n->in[m->operand];
    if (!shape_same(of->shape, x->shape) || of->dim != dim || first->remat != n->remat || first->phase != n->phase) return false;
    if (!serves_both(s, first, n) || !has_room(s, of, n)) return false;
    mark_dependent(s, of, n->id);
    if (s->state[n->id] == OUTSIDE || read_before(s, of, n->id)) return false;
    if (s->state[n->id] == APART) return true;
    for (int i = 0; i < n->id; i++) s->depends[i] = i >= first->id && s->state[i] != APART;
    if (n->op == OP_CONTRACT && s->depends[n->in[1 - m->operand]->id]) return false;
    return (n->op == OP_SUM || n->op == OP_CONTRACT) && stream_term(s->depends, x, dim, &m->term);
}

typedef VEC(Stream) StreamList;

/* Rows of all products, whose columns are the streamed dim or, at worst, another. */
static bool has_columns(const Finder *s, const Stream *of, int d, bool any) {
    bool found = s->across[d][of->dim];
    for (int b = 0; b < of->shape->rank && any; b++) found |= s->across[d][b];
    return found && d != of->dim;
}

/* The last dim that is rows of products by the streamed one, which a tile makes as a matrix; of those by another one; of all. */
static int rows_of(const Finder *s, const Stream *of, bool *found) {
    const int rank = of->shape->rank;
    *found = false;
    for (int any = 0; any < 2; any++)
        for (int d = rank - 1; d >= 0; d--) {
            if (!has_columns(s, of, d, any)) continue;
            *found = true;
            return d < of->dim ? d : d - 1;
        }
    return rank - 2;
}

/* false: no kernel has axes for it, or matrix instructions find no rows. */
static bool add_member(Finder *s, StreamList *list, Node *n) {
    StreamMember m = {.node = n};
    int dim;
    while (!s->value[n->in[m.operand]->id]) m.operand++;
    stream_sums_over(n, m.operand, &dim);
    Stream *to = NULL;
    for (int i = 0; i < list->n && !to; i++)
        if (may_join(s, &list->at[i], &m, dim)) to = &list->at[i];
    if (!to) {
        m.term = (StreamTerm){0};
        vec_push(s->f->arena, *list, ((Stream){.shape = n->in[m.operand]->shape, .dim = dim}));
        to = &list->at[list->n - 1];
        bool has_rows;
        to->rows = rows_of(s, to, &has_rows);
        if (!has_room(s, to, n) || (s->low && !has_rows)) return false;
    }
    vec_push(s->f->arena, to->members, m);
    return true;
}

/* Do the members read the value? */
static bool reads_value(Finder *s, const Stream *of, const Node *value) {
    for (int i = value->id; i <= vec_last(of->members).node->id; i++) {
        const Node *n = s->g->nodes.at[i];
        const bool member = is_in(of, n);
        s->depends[i] = i == value->id;
        for (int k = 0; k < n->n_in && (s->value[i] || member); k++)
            s->depends[i] |= n->in[k]->id >= value->id && s->value[n->in[k]->id] && s->depends[n->in[k]->id];
        if (s->depends[i] && member) return true;
    }
    return false;
}

/* ---- turns --------------------------------------------------------------------------------------------------------
 * Products that sum over the rows of a stream's values need them once more, row by row.  A program that walks all rows has each
 * tile of values for both: it adds to these products in memory, tile after tile (of attention's backward, dQ to dK and dV: five
 * products instead of seven).  There are as many fewer programs. */
static int dim_of_rows(const Stream *of) { return of->rows < of->dim ? of->rows : of->rows + 1; }

/* Multiply-adds of the kernel's products. */
static double work_of(Finder *s, int region, const Stream *of) {
    const double values = (double)shape_elements(*of->shape);
    double work = 0;
    for (int i = region; i < s->f->n; i++) {
        const Node *n = s->g->nodes.at[i];
        if (s->value[i] && first_of(s, i) == region && n->op == OP_CONTRACT && reads_value(s, of, n)) work += values * (double)sums_of(n);
    }
    for (int i = 0; i < of->members.n; i++) {
        const StreamMember *m = &of->members.at[i];
        if (m->node->op == OP_CONTRACT) work += values * (double)columns_of(m->node, m->operand);
    }
    return work;
}

/* How much longer programs take than work that is spread evenly, on the average of machines with few cores and with many. */
static double programs_waste(const Target *t, const Stream *of) {
    enum { MANY = 8 };
    const int64_t programs = shape_elements(*of->shape) / (of->shape->dim[of->dim].bound * of->shape->dim[dim_of_rows(of)].bound);
    double waste = 0;
    int machines = 0;
    for (int64_t cores = 1; cores <= MANY && cores <= t->cores; cores *= 2, machines++)
        waste += (double)((programs + cores - 1) / cores * cores) / (double)programs;
    return waste / machines;
}

/* Does some member depend on the other stream's, or something before it that a kernel of both would come after? */
static bool depends_on(Finder *s, const Stream *members, const Stream *of) {
    const int first = of->members.at[0].node->id, last = vec_last(members->members).node->id;
    if (last < first) return false;
    mark_dependent(s, of, last);
    for (int i = 0; i < members->members.n; i++) {
        const int id = members->members.at[i].node->id;
        if (id > first && s->state[id] != APART) return true;
    }
    return read_before(s, of, last);
}

/* Products alone, whose terms are what they are at once: nothing is corrected later. */
static bool may_add(const Stream *rows) {
    for (int i = 0; i < rows->members.n; i++) {
        const Node *n = rows->members.at[i].node;
        if (n->op != OP_CONTRACT || n->dtype != DT_F32 || rows->members.at[i].term.shift || rows->members.at[i].term.n_factors) return false;
    }
    return true;
}

/* Both, in the order of the graph. */
static Stream with_turns(const Finder *s, const Stream *of, const Stream *rows) {
    Stream both = *of;
    both.turns = true;
    both.members.n = both.members.cap = 0, both.members.at = NULL;
    for (int i = 0, j = 0; i < of->members.n || j < rows->members.n;) {
        const bool turns = i == of->members.n || (j < rows->members.n && rows->members.at[j].node->id < of->members.at[i].node->id);
        StreamMember m = turns ? rows->members.at[j++] : of->members.at[i++];
        m.turns = turns;
        vec_push(s->f->arena, both.members, m);
    }
    return both;
}

static bool may_take_turns(Finder *s, const Stream *of, const Stream *rows) {
    const Target *t = s->f->target;
    const Node *a = of->members.at[0].node, *b = rows->members.at[0].node;
    if (!t->device->takes_turns || of->turns || rows->turns || !shape_same(of->shape, rows->shape) || dim_of_rows(of) != rows->dim) return false;
    if (a->remat != b->remat || a->phase != b->phase || !serves_both(s, a, b)) return false;
    return tile_may_take_turns(t, of->shape->dim[rows->dim]) && may_add(rows) && !depends_on(s, rows, of) && !depends_on(s, of, rows);
}

/* A kernel has axes for all members. */
static bool all_have_room(const Finder *s, const Stream *both) {
    Stream others = *both;
    others.members.n--;
    return has_room(s, &others, vec_last(both->members).node);
}

static void take_turns(Finder *s, int region, StreamList *list) {
    for (int i = 0; i < list->n; i++)
        for (int j = 0; j < list->n; j++) {
            if (i == j || !may_take_turns(s, &list->at[i], &list->at[j])) continue;
            const Stream both = with_turns(s, &list->at[i], &list->at[j]);
            const double apart = work_of(s, region, &list->at[i]) + work_of(s, region, &list->at[j]);
            if (!all_have_room(s, &both) || work_of(s, region, &both) * programs_waste(s->f->target, &both) >= apart) continue;
            list->at[i] = both;
            for (int k = j + 1; k < list->n; k++) list->at[k - 1] = list->at[k];
            list->n--;
            return;
        }
}

/* Seconds for the products that are made more than once, against those for writing and reading what would be in memory, which
 * also has to be there.  Counts the products of each stream. */
static bool pays(Finder *s, int region, StreamList *list) {
    enum { WEIGHT = 6 };
    const Target *t = s->f->target;
    double seconds = 0, bytes = 0;
    bool in_chunk = false, fits = true;
    if (!t) return false;
    for (int i = region; i < s->f->n; i++) {
        const Node *n = s->g->nodes.at[i];
        if (!s->value[i] || first_of(s, i) != region) continue;
        if (s->f->candidate[i] && !fuse_sum_with(s->f, n)) bytes += 2 * (double)node_bytes(n);
        in_chunk |= n->remat > 0 && n->remat <= s->g->chunks;
        fits &= pass_fits_memory(s->context, n);
        if (n->op != OP_CONTRACT) continue;
        int kernels = 0;
        for (int k = 0; k < list->n; k++) {
            const bool reads = reads_value(s, &list->at[k], n);
            kernels += reads, list->at[k].makes += reads;
        }
        const double flops = 2.0 * (double)(kernels - 1) * (double)shape_elements(*n->shape) * (double)sums_of(n);
        seconds += flops / (by_matrix(t, n) ? t->gflops_matrix : t->gflops_f32);
    }
    if (!fits || s->context->stream_all || (has_no_room(s->context) && !in_chunk && bytes > 2 * (double)t->fast_bytes)) return true;
    return seconds < WEIGHT * bytes / t->gbytes_per_s;
}

/* Of a stream that writes an output, does anything else need a member that is none? */
static bool others_are_read(Finder *s, const Stream *of) {
    const int first = of->members.at[0].node->id;
    for (int i = first; i < s->f->n; i++) {
        const Node *n = s->g->nodes.at[i];
        const bool member = is_in(of, n), elsewhere = s->f->candidate[i] && !s->value[i];
        bool reads = false;
        for (int k = 0; k < n->n_in; k++) reads |= n->in[k]->id >= first && s->depends[n->in[k]->id];
        if (!member && reads && (elsewhere || s->f->result[i])) return true;
        s->depends[i] = member ? !s->f->output[i] : reads && !elsewhere;
    }
    return false;
}

/* The caller may leave an output out, so the kernel that writes it writes nothing else, or it has room in the arena too. */
static bool may_write(Finder *s, const Stream *of) {
    int outputs = 0, results = 0;
    for (int i = 0; i < of->members.n; i++) {
        outputs += s->f->output[of->members.at[i].node->id];
        results += s->f->result[of->members.at[i].node->id];
    }
    if (outputs == 0 || (results == 1 && !others_are_read(s, of))) return true;
    bool ok = true;
    for (int i = 0; i < of->members.n && ok; i++) ok = !s->f->output[of->members.at[i].node->id] || fuse_share(s->context, s->f, of->members.at[i].node);
    return ok;
}

/* Distinct tensors of more than one element that n is computed of where it is read; at most two are counted. */
static void count_reads(const Finder *s, const Node *n, int depth, const Node *read[2], int *count) {
    if (n->shape->rank == 0 || *count == 2) return;
    if (!op_is_memory(n->op) && !s->f->candidate[n->id]) {
        for (int k = 0; k < n->n_in && depth; k++) count_reads(s, n->in[k], depth - 1, read, count);
    } else if (*count == 0 || read[0] != n) {
        read[(*count)++] = n;
    }
}

/* What the backward reads once for many elements, and computes of several tensors: each program would load them all in each step of
 * its loop, and all would be kept.  Up to what it does with that alone.  Not what depends on streams of the backward, of which one may
 * wait for another one's rows. */
static void keep_row(const Finder *s, const Node *n) {
    enum { DEPTH = 8 };
    const Node *read[2], *only = NULL;
    int count = 0, operands = 0;
    count_reads(s, n, DEPTH, read, &count);
    if (count < 2 || op_info[n->op].cls != CLASS_ELEMENT || !dtype_is_float(n->dtype)) return;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->op != OP_CONST) only = n->in[k], operands++;
    if (operands == 1) keep_row(s, only);
    else s->f->candidate[n->id] = true;
}

static void keep_rows(Finder *s, int region, const StreamList *list) {
    for (int i = region; i < s->f->n; i++) {
        const Node *n = s->g->nodes.at[i];
        s->depends[i] = false;
        for (int k = 0; k < list->n && n->phase != PHASE_FORWARD; k++) s->depends[i] |= is_in(&list->at[k], n);
        for (int k = 0; k < n->n_in; k++) s->depends[i] |= n->in[k]->id >= region && s->depends[n->in[k]->id];
        for (int k = 0; k < n->n_in && s->value[i] && first_of(s, i) == region; k++) {
            const Node *x = n->in[k];
            if (x->op == OP_BROADCAST && x->phase != PHASE_FORWARD && !(x->id >= region && s->depends[x->id])) keep_row(s, x->in[0]);
        }
    }
}

static void take(Finder *s, int region, const StreamList *list) {
    for (int i = region; i < s->f->n; i++)
        if (s->value[i] && first_of(s, i) == region) s->f->candidate[i] = s->f->adds[i] = false;
    keep_rows(s, region, list);
    for (int i = 0; i < list->n; i++) {
        vec_push(s->f->arena, s->found.at, list->at[i]);
        for (int k = 0; k < list->at[i].members.n; k++) s->found.of[list->at[i].members.at[k].node->id] = s->found.at.n;
    }
}

static void note_product(Finder *s, const Node *n) {
    const Contract *c = n->attr->contract;
    s->sums += c->n_loops - c->n_out;
    s->low |= by_matrix(s->context->target, n);
    for (int a = 0; a < c->n_out; a++)
        for (int b = 0; b < c->n_out; b++) {
            const bool left = contract_mentions(c, n->in, 0, a), right = contract_mentions(c, n->in, 1, a);
            s->across[a][b] &= left != right && contract_mentions(c, n->in, 0, b) == right && contract_mentions(c, n->in, 1, b) == left;
        }
}

static void try_region(Finder *s, int region) {
    StreamList list = {0};
    int values = 0;
    bool fits = true;
    s->sums = 0;
    s->low = false;
    memset(s->across, true, sizeof s->across);
    for (int i = region; i < s->f->n; i++) {
        const Node *n = s->g->nodes.at[i];
        if (!s->value[i] || first_of(s, i) != region) continue;
        values++;
        if (n->op == OP_CONTRACT) note_product(s, n);
    }
    for (int i = region; i < s->f->n && fits && values <= MOST_VALUES; i++) {
        Node *n = s->g->nodes.at[i];
        bool reads = false;
        for (int k = 0; k < n->n_in && !s->value[i]; k++)
            reads |= s->value[n->in[k]->id] && first_of(s, n->in[k]->id) == region;
        fits = !reads || add_member(s, &list, n);
    }
    if (fits && s->f->target) take_turns(s, region, &list);
    fits = fits && list.n && pays(s, region, &list);
    for (int i = 0; i < list.n && fits; i++) fits = may_write(s, &list.at[i]);
    if (fits) take(s, region, &list);
}

Streams fuse_find_streams(const PassContext *c, Fuse *f, const Graph *g, bool several_dims) {
    Finder s = {.context = c, .f = f, .g = g, .several_dims = several_dims, .found = {.of = ARENA_ARRAY(f->arena, int, f->n + 1)}};
    s.value = ARENA_ARRAY(f->arena, bool, f->n + 1);
    s.fails = ARENA_ARRAY(f->arena, bool, f->n + 1);
    s.kept = ARENA_ARRAY(f->arena, bool, f->n + 1);
    s.region = ARENA_ARRAY(f->arena, int, f->n + 1);
    s.state = ARENA_ARRAY(f->arena, int, f->n + 1);
    s.depends = ARENA_ARRAY(f->arena, bool, f->n + 1);
    if (!f->merge || f->data) return s.found;
    find_values(&s);
    for (int i = 0; i < f->n; i++)
        if (s.value[i] && s.region[i] == i && !s.fails[i]) try_region(&s, i);
    return s.found;
}
