#include "tests/support/coverage.h"
#include "frontend/frontend.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- which dtypes a program may have ----------------------------------------------------------------------------- */
static bool frontend_accepts(const char *path) {
    const FrontendOptions o = {0};
    Graph *graphs[ENTRY_COUNT] = {0};
    Arena *a = arena_new();
    Diag *d = diag_new(a);
    Program *p = program_load(a, d, path, &o);
    const bool ok = p && program_lower(a, d, p, NULL, graphs);
    arena_free(a);
    return ok;
}

/* A file of its own: the front end reads nothing else. */
static bool probe_dtype(DType t) {
    char path[] = "/tmp/fusec_dtype_XXXXXX";
    const int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) abort();
    fprintf(f, "model m {\n    input x : %s[2]\n    output y = reshape(x, [2, 1])\n}\n", dtype_name(t));
    fclose(f);
    const bool ok = frontend_accepts(path);
    remove(path);
    return ok;
}

bool dtype_in_programs(DType t) {
    static bool ready, accepted[DT_COUNT];
    for (DType i = 0; i < DT_COUNT && !ready; i++) accepted[i] = probe_dtype(i);
    ready = true;
    return accepted[t];
}

/* Numbers of 16 bits come in, go out, and are cast; what else computes in them pass_precision decides. */
static bool dtype_of_operands(Op op, DType t) { return dtype_in_programs(t) && (!dtype_is_low(t) || op == OP_CAST); }

/* ---- which pairs are legal -------------------------------------------------------------------------------------- */
enum { RANKS = 3, KINDS = DT_COUNT * RANKS, MAX_PROBED = COVERAGE_OPERANDS }; /* a kind is a dtype and a rank */

typedef struct Legality {
    bool ready;
    bool takes[OP_COUNT][KINDS], gives[OP_COUNT][KINDS];
    bool operand[OP_COUNT][MAX_PROBED][DT_COUNT];
} Legality;

static int kind_of(DType t, int rank) { return rank < RANKS && dtype_in_programs(t) ? (int)t * RANKS + rank : -1; }

static Shape square(int rank) {
    const int64_t two[RANKS] = {2, 2, 2};
    return shape_fixed(rank, two);
}

/* Attributes that suit any op on operands of extents 2: all that an op does not look at is harmless. */
static void probe_attr(Attr *at, Contract *c, Affine (*map)[MAX_RANK], Op op, Node *const *in, int n, DType t) {
    const int rank = n ? in[0]->shape->rank : 2;
    *at = (Attr){.dtype = t, .extent = dim_fixed(2), .contract = c};
    at->n_axes = op_info[op].cls == CLASS_REDUCE ? 0 : rank;
    for (int d = 0; d < MAX_RANK; d++) {
        at->axes[d] = (int8_t)d;
        at->lo[d] = dim_fixed(0);
        at->hi[d] = dim_fixed(op == OP_PAD ? 0 : 2);
        at->step[d] = 1;
    }
    *c = (Contract){.n_loops = 2, .n_out = 1, .extent = {dim_fixed(2), dim_fixed(2)}, .n_operands = n, .map = map};
    for (int k = 0; k < n; k++)
        for (int d = 0; d < in[k]->shape->rank; d++) {
            map[k][d] = (Affine){.divisor = 1};
            map[k][d].coef[d] = 1;
        }
}

static void probe(Legality *l, Arena *a, Op op, int n, const int *kind, DType t, int rank) {
    Node node[MAX_PROBED], *in[MAX_PROBED];
    Shape shapes[MAX_PROBED];
    Affine map[MAX_PROBED][MAX_RANK];
    Attr at;
    Contract c;
    for (int k = 0; k < n; k++) {
        shapes[k] = square(kind[k] % RANKS);
        node[k] = (Node){.op = OP_INPUT, .dtype = (DType)(kind[k] / RANKS), .shape = &shapes[k]};
        in[k] = &node[k];
    }
    probe_attr(&at, &c, map, op, in, n, t);
    DType got;
    Shape shape = op_info[op].cls == CLASS_SOURCE ? square(rank) : n ? *in[0]->shape : square(rank);
    const char *why;
    if (!graph_infer(a, op, n, in, &at, &got, &shape, &why)) return;
    const int result = kind_of(got, shape.rank);
    if (result < 0) return;
    l->gives[op][result] = true;
    for (int k = 0; k < n; k++) l->takes[op][kind[k]] = l->operand[op][k][kind[k] / RANKS] = true;
}

static void probe_op(Legality *l, Arena *a, Op op) {
    const int n = op_info[op].arity < 0 ? 2 : op_info[op].arity;
    int combinations = 1;
    if (n > MAX_PROBED) return; /* philox, of Tile IR */
    for (int k = 0; k < n; k++) combinations *= KINDS;
    for (int i = 0; i < combinations; i++) {
        int kind[MAX_PROBED];
        bool asked = true;
        for (int k = 0, left = i; k < n; k++, left /= KINDS) {
            kind[k] = left % KINDS;
            asked &= dtype_of_operands(op, (DType)(kind[k] / RANKS));
        }
        for (DType t = 0; asked && t < DT_COUNT; t++)
            for (int rank = 0; dtype_in_programs(t) && rank < (n ? 1 : RANKS); rank++) probe(l, a, op, n, kind, t, rank);
    }
}

static const Legality *legality(void) {
    static Legality l;
    if (l.ready) return &l;
    Arena *a = arena_new();
    for (Op op = 0; op < OP_COUNT; op++) probe_op(&l, a, op);
    arena_free(a);
    l.ready = true;
    return &l;
}

bool pair_is_legal(Op from, Op to) {
    const Legality *l = legality();
    for (int k = 0; k < KINDS; k++)
        if (l->gives[from][k] && l->takes[to][k]) return true;
    return false;
}

/* OP_COUNT stands for every op. */
static const struct {
    Op from, to;
    const char *why;
} excluded[] = {
    {OP_ACCUMULATE, OP_COUNT, "made by fuse, after the last rewrite: no program contains it"},
    {OP_COUNT, OP_BUCKET, "made by split, and by counting_sort: sorts.sh has it"},
    {OP_BUCKET, OP_COUNT, "as above"},
    {OP_COUNT, OP_BITS, "whatever is rounded otherwise has other ones, and no digit of them is near: sorts.sh and the tests of kernels have it"},
    {OP_BITS, OP_COUNT, "as above"},
    {OP_RANDOM, OP_LOG, "uniform in [0, 1): a value may be 0, whose logarithm or root's reciprocal is infinite"},
    {OP_RANDOM, OP_RSQRT, "as above"},
    {OP_RANDOM, OP_SQRT, "as above, of the derivative"},
    {OP_COUNT, OP_VJP, "derivatives as values: tests/unit/derivatives.c draws programs of its own"},
    {OP_VJP, OP_COUNT, "as above"},
    {OP_COUNT, OP_JACOBIAN, "as above"},
    {OP_JACOBIAN, OP_COUNT, "as above"},
};

unsigned coverage_least(void) {
    static unsigned least;
    const char *given = getenv("FUSEC_COVERAGE_LEAST");
    if (!least) least = given && atoi(given) > 0 ? (unsigned)atoi(given) : 20;
    return least;
}

const char *pair_excluded(Op from, Op to) {
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if ((excluded[i].from == OP_COUNT || excluded[i].from == from) && (excluded[i].to == OP_COUNT || excluded[i].to == to))
            return excluded[i].why;
    return NULL;
}

const char *rule_excluded(int rule) {
    if (rule == REWRITE_indicator || rule == REWRITE_extremum_by_ids) return "ids that are compared with 64 rows or more: indicators.sh has them";
    if (rule == REWRITE_split_scan) return "scans of 128 elements and more on a GPU: recurrences.sh has them";
    return rule == REWRITE_concat_of_many ? "a concat of more than 128 tensors: corners.sh has one" : NULL;
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */
/* Along a path: nothing yet, a contraction, a reduction of one. */
typedef enum { PATH_NONE, PATH_CONTRACT, PATH_REDUCE } Path;

void coverage_count(Coverage *c, const Graph *g) {
    Arena *a = arena_new();
    Path *path = ARENA_ARRAY(a, Path, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        c->dtype[n->dtype]++;
        for (int k = 0; k < n->n_in; k++) {
            c->pair[n->in[k]->op][n->op]++;
            if (k < COVERAGE_OPERANDS) c->operand[n->op][k][n->in[k]->dtype]++;
            if (path[n->in[k]->id] > path[i]) path[i] = path[n->in[k]->id];
        }
        if (n->op == OP_CONTRACT) {
            c->precision[n->precision]++;
            c->sandwich += path[i] == PATH_REDUCE;
            path[i] = PATH_CONTRACT;
        } else if (op_info[n->op].cls == CLASS_REDUCE && path[i] == PATH_CONTRACT)
            path[i] = PATH_REDUCE;
    }
    arena_free(a);
}

/* ---- the report ----------------------------------------------------------------------------------------------------- */
static int report_pairs(FILE *f, const Coverage *c) {
    int legal = 0, short_of = 0, left_out = 0;
    for (Op from = 0; from < OP_COUNT; from++)
        for (Op to = 0; to < OP_COUNT; to++) {
            if (!pair_is_legal(from, to)) continue;
            if (pair_excluded(from, to)) {
                left_out++;
                continue;
            }
            legal++;
            if (c->pair[from][to] >= coverage_least()) continue;
            short_of++;
            fprintf(f, "  %s -> %s only %u times\n", op_info[from].text, op_info[to].text, c->pair[from][to]);
        }
    fprintf(f, "op pairs: %d of %d legal ones at least %u times (%d excluded)\n", legal - short_of, legal, coverage_least(),
            left_out);
    return short_of;
}

/* Rules that this target does without. */
static bool is_for_others(const Coverage *c, int rule) {
    const bool rides = rule == RULE_FUSION + FUSION_contract_sum || rule == RULE_FUSION + FUSION_contract_sum_epilogue;
    if (rule == RULE_FUSION + FUSION_family) return c->one_core;
    if (rule == RULE_FUSION + FUSION_contract_slices) return c->no_tiles;
    if (rule == RULE_FUSION + FUSION_stream_turns) return c->no_turns;
    if (rule == RULE_FUSION + FUSION_horizontal) return c->no_bundles;
    return (rides && c->sums_apart) || (c->one_core && (rule == REWRITE_split_sum || rule == REWRITE_split_product || rule == RULE_FUSION + FUSION_row_slices));
}

static int report_rules(FILE *f, const Coverage *c, const char *what, int first, int last) {
    int asked = 0, short_of = 0;
    for (int i = first; i < last; i++) {
        if (rule_excluded(i) || is_for_others(c, i)) continue;
        asked++;
        if (c->fired[i] >= coverage_least()) continue;
        short_of++;
        fprintf(f, "  %s: only %u times\n", rule_text[i], c->fired[i]);
    }
    fprintf(f, "%s: %d of %d at least %u times (%d excluded)\n", what, asked - short_of, asked, coverage_least(),
            last - first - asked);
    return short_of;
}

/* Every dtype of programs as every operand that may have it. */
static int report_operands(FILE *f, const Coverage *c) {
    int legal = 0, short_of = 0;
    for (int i = 0; i < OP_COUNT * COVERAGE_OPERANDS * DT_COUNT; i++) {
        const Op op = (Op)(i / (COVERAGE_OPERANDS * DT_COUNT));
        const int k = i / DT_COUNT % COVERAGE_OPERANDS;
        const DType t = (DType)(i % DT_COUNT);
        if (!legality()->operand[op][k][t] || pair_excluded(OP_COUNT, op)) continue;
        legal++;
        if (c->operand[op][k][t] >= coverage_least()) continue;
        short_of++;
        fprintf(f, "  %s as operand %d of %s only %u times\n", dtype_name(t), k, op_info[op].text, c->operand[op][k][t]);
    }
    fprintf(f, "dtypes of operands: %d of %d legal ones at least %u times\n", legal - short_of, legal, coverage_least());
    return short_of;
}

static int report_one(FILE *f, const char *what, uint32_t n) {
    fprintf(f, "%s: %u\n", what, n);
    return n < coverage_least();
}

int coverage_report(FILE *f, const Coverage *c) {
    int short_of = report_pairs(f, c);
    short_of += report_rules(f, c, "rewrites", 0, RULE_PATTERN);
    short_of += report_rules(f, c, "patterns", RULE_PATTERN, RULE_FUSION);
    short_of += report_rules(f, c, "fusions", RULE_FUSION, RULE_COUNT);
    short_of += report_one(f, "contract -> reduce -> contract", c->sandwich);
    short_of += report_operands(f, c);
    for (DType t = 0; t < DT_COUNT; t++)
        if (dtype_in_programs(t)) short_of += report_one(f, dtype_name(t), c->dtype[t]);
    for (int p = 0; p < PASS_COUNT; p++)
        if (pass_info[p].can_disable) short_of += report_one(f, pass_info[p].name, c->disabled[p]);
    for (int p = 0; p < PRECISION_COUNT; p++)
        short_of += report_one(f, p ? precision_name[p] : "contractions in f32", c->precision[p]);
    short_of += report_one(f, "low precision", c->low);
    short_of += report_one(f, "recomputing", c->checkpointed);
    short_of += report_one(f, "tiny tiles", c->tiny);
    short_of += report_one(f, "bounded dims", c->bounded);
    return short_of + report_one(f, "empty extents", c->empty);
}
