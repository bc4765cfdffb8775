/* BUCKET: a counting sort of ids into the rows of one program.  Each warp has a part of the ids, of which it takes 32 at a time, and
 * counters of its own.  Lanes with the same id find each other (match.any.sync), the lowest of them counts for all, and nothing
 * depends on who is first: no atomics.  Counters hold counts first, then where a warp's ids of the row end, and where they begin once
 * their positions are written, from the last to the first.  They are in shared memory, or for one warp with many rows in the rows'
 * places, which are then right. */
#include "codegen/nvptx/simt.h"
#include <string.h>

enum { LANES = 32 };

typedef struct Buckets {
    Simt *s;
    const Inst *i;
    LLVMValueRef warp, lane, first, rows; /* i32: of the program, of the warp; the program's first row, and how many it has */
    LLVMValueRef counts, own, before;     /* counters of all warps, of this one; in shared memory: ids of rows before, of each warp */
    int64_t n, all, part;                 /* ids; rows of all programs; ids of a warp, whole lanes */
    int warps, step;                      /* step: rows of a tile */
    bool shared;
} Buckets;

static LLVMValueRef i32(const Buckets *b, int64_t v) { return LLVMConstInt(b->s->e->i32, (unsigned long long)v, true); }

static LLVMValueRef call(const Buckets *b, const char *name, int n, LLVMValueRef *args) {
    const Emit *e = b->s->e;
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, (unsigned)n, "");
}

static LLVMValueRef everyone(const Buckets *b) { return LLVMConstInt(b->s->e->i32, 0xFFFFFFFFu, false); }

/* What lanes wrote is there for the others, and what warps wrote. */
static void meet(const Buckets *b) { call(b, "llvm.nvvm.bar.warp.sync", 1, (LLVMValueRef[]){everyone(b)}); }
static void meet_all(const Buckets *b) {
    if (b->warps > 1) simt_barrier(b->s);
    else meet(b);
}

static LLVMValueRef ballot(const Buckets *b, LLVMValueRef where) {
    return call(b, "llvm.nvvm.vote.ballot.sync", 2, (LLVMValueRef[]){everyone(b), where});
}

static LLVMValueRef bits(const Buckets *b, LLVMValueRef mask) {
    return emit_intrinsic(b->s->e, "llvm.ctpop", 1, (LLVMValueRef[]){mask});
}

static LLVMValueRef i32_at(const Buckets *b, LLVMValueRef base, LLVMValueRef at) {
    LLVMValueRef wide = LLVMBuildSExt(b->s->e->b, at, b->s->e->i64, "");
    return LLVMBuildGEP2(b->s->e->b, b->s->e->i32, base, &wide, 1, "");
}

/* ---- structure ------------------------------------------------------------------------------------------------------ */
/* for (at = from; at != to; at += step), which has an iteration. */
typedef struct Loop {
    LLVMBasicBlockRef head, done;
    LLVMValueRef at, to, carried; /* i32; carried: or NULL */
    int step;
} Loop;

static Loop begin(const Buckets *b, LLVMValueRef from, LLVMValueRef to, int step, LLVMValueRef carried) {
    const Emit *e = b->s->e;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    Loop l = {.head = emit_block(e, b->s->fn, "bucket"), .done = emit_block(e, b->s->fn, "bucketed"), .to = to, .step = step};
    LLVMBuildBr(e->b, l.head);
    LLVMPositionBuilderAtEnd(e->b, l.head);
    l.at = LLVMBuildPhi(e->b, e->i32, "");
    LLVMAddIncoming(l.at, &from, &before, 1);
    if (!carried) return l;
    l.carried = LLVMBuildPhi(e->b, e->i32, "");
    LLVMAddIncoming(l.carried, &carried, &before, 1);
    return l;
}

static void end(const Buckets *b, Loop *l, LLVMValueRef carried) {
    const Emit *e = b->s->e;
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->b);
    LLVMValueRef next = LLVMBuildAdd(e->b, l->at, i32(b, l->step), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, next, l->to, ""), l->head, l->done);
    LLVMAddIncoming(l->at, &next, &last, 1);
    if (carried) LLVMAddIncoming(l->carried, &carried, &last, 1);
    LLVMPositionBuilderAtEnd(e->b, l->done);
}

static LLVMBasicBlockRef open_if(const Buckets *b, LLVMValueRef where) {
    const Emit *e = b->s->e;
    LLVMBasicBlockRef then = emit_block(e, b->s->fn, "then"), after = emit_block(e, b->s->fn, "after");
    LLVMBuildCondBr(e->b, where, then, after);
    LLVMPositionBuilderAtEnd(e->b, then);
    return after;
}

static void close_if(const Buckets *b, LLVMBasicBlockRef after) {
    LLVMBuildBr(b->s->e->b, after);
    LLVMPositionBuilderAtEnd(b->s->e->b, after);
}

/* A load that only some lanes make; 0 in the others. */
static LLVMValueRef load_where(const Buckets *b, LLVMValueRef where, LLVMValueRef base, LLVMValueRef at) {
    const Emit *e = b->s->e;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), after = open_if(b, where), then = LLVMGetInsertBlock(e->b);
    LLVMValueRef v = LLVMBuildLoad2(e->b, e->i32, i32_at(b, base, at), ""), zero = i32(b, 0);
    close_if(b, after);
    LLVMValueRef phi = LLVMBuildPhi(e->b, e->i32, "");
    LLVMAddIncoming(phi, &v, &then, 1);
    LLVMAddIncoming(phi, &zero, &before, 1);
    return phi;
}

static void store_where(const Buckets *b, LLVMValueRef where, LLVMValueRef base, LLVMValueRef at, LLVMValueRef v) {
    LLVMBasicBlockRef after = open_if(b, where);
    LLVMBuildStore(b->s->e->b, v, i32_at(b, base, at));
    close_if(b, after);
}

/* ---- ids ------------------------------------------------------------------------------------------------------------- */
static LLVMValueRef place_of_id(const Buckets *b, LLVMValueRef at) {
    const Emit *e = b->s->e;
    const Buffer *ids = &b->s->k->buffers.at[b->i->source];
    LLVMValueRef offset = i32(b, 0), rest = at;
    int64_t dense = 1;
    bool is_dense = true;
    for (int d = ids->rank - 1; d >= 0; d--) is_dense &= ids->stride[d] == dense || ids->dim[d].bound == 1, dense *= ids->dim[d].bound;
    for (int d = ids->rank - 1; d >= 0 && !is_dense; d--) {
        LLVMValueRef extent = i32(b, ids->dim[d].bound), digit = LLVMBuildURem(e->b, rest, extent, "");
        offset = LLVMBuildAdd(e->b, offset, LLVMBuildMul(e->b, digit, i32(b, ids->stride[d]), ""), "");
        rest = LLVMBuildUDiv(e->b, rest, extent, "");
    }
    return is_dense ? at : offset;
}

/* The 32 ids from `at` on, one in each lane, and the lanes that have the same one of the program's rows. */
typedef struct Ids {
    LLVMValueRef at, id, row, own, like; /* i32: the lane's id's number, it, its row here; i1: it is one of the program's; i32 */
} Ids;

static Ids read_ids(const Buckets *b, LLVMValueRef at) {
    const Emit *e = b->s->e;
    Ids x = {.at = LLVMBuildAdd(e->b, at, b->lane, "")};
    LLVMValueRef exists = LLVMBuildICmp(e->b, LLVMIntULT, x.at, i32(b, b->n), "");
    LLVMValueRef v = load_where(b, exists, b->s->buffer[b->i->source], place_of_id(b, x.at));
    x.id = LLVMBuildSelect(e->b, exists, v, i32(b, -1), "");
    x.row = LLVMBuildSub(e->b, x.id, b->first, "");
    x.own = LLVMBuildICmp(e->b, LLVMIntULT, x.row, b->rows, "");
    x.own = LLVMBuildAnd(e->b, x.own, LLVMBuildICmp(e->b, LLVMIntSGE, x.id, i32(b, 0), ""), "");
    return x;
}

static LLVMValueRef same_ids(const Buckets *b, const Ids *x) {
    LLVMValueRef key = LLVMBuildSelect(b->s->e->b, x->own, x->row, i32(b, -1), "");
    return call(b, "llvm.nvvm.match.any.sync.i32", 2, (LLVMValueRef[]){everyone(b), key});
}

/* The lowest lane of those with the same id. */
static LLVMValueRef leads(const Buckets *b, LLVMValueRef like) {
    const Emit *e = b->s->e;
    LLVMValueRef below = LLVMBuildSub(e->b, LLVMBuildShl(e->b, i32(b, 1), b->lane, ""), i32(b, 1), "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, LLVMBuildAnd(e->b, like, below, ""), i32(b, 0), "");
}

/* ---- steps ------------------------------------------------------------------------------------------------------------- */
static LLVMValueRef equals(const Buckets *b, LLVMValueRef x, int64_t y) {
    return LLVMBuildICmp(b->s->e->b, LLVMIntEQ, x, i32(b, y), "");
}

static LLVMValueRef rounded(const Buckets *b, LLVMValueRef n) {
    LLVMValueRef up = LLVMBuildAdd(b->s->e->b, n, i32(b, LANES - 1), "");
    return LLVMBuildAnd(b->s->e->b, up, i32(b, -LANES), "");
}

/* Counters of warp w. */
static LLVMValueRef of_warp(const Buckets *b, LLVMValueRef w) {
    return i32_at(b, b->counts, LLVMBuildMul(b->s->e->b, w, i32(b, b->step), ""));
}

static void clear(const Buckets *b) {
    Loop l = begin(b, i32(b, 0), rounded(b, b->rows), LANES, NULL);
    LLVMValueRef row = LLVMBuildAdd(b->s->e->b, l.at, b->lane, "");
    store_where(b, LLVMBuildICmp(b->s->e->b, LLVMIntULT, row, b->rows, ""), b->own, row, i32(b, 0));
    end(b, &l, NULL);
    meet(b);
}

/* Counts the warp's ids; how many are of rows before. */
static LLVMValueRef count(const Buckets *b) {
    const Emit *e = b->s->e;
    if (!b->n) return i32(b, 0);
    LLVMValueRef from = LLVMBuildMul(e->b, b->warp, i32(b, b->part), ""), to = LLVMBuildAdd(e->b, from, i32(b, b->part), "");
    Loop l = begin(b, from, to, LANES, i32(b, 0));
    Ids x = read_ids(b, l.at);
    LLVMValueRef less = LLVMBuildICmp(e->b, LLVMIntULT, x.id, b->first, ""); /* no negative one is */
    LLVMValueRef before = LLVMBuildAdd(e->b, l.carried, bits(b, ballot(b, less)), "");
    LLVMBasicBlockRef after = open_if(b, LLVMBuildICmp(e->b, LLVMIntNE, ballot(b, x.own), i32(b, 0), ""));
    LLVMValueRef like = same_ids(b, &x), counts = LLVMBuildAnd(e->b, x.own, leads(b, like), "");
    LLVMValueRef sum = LLVMBuildAdd(e->b, load_where(b, counts, b->own, x.row), bits(b, like), "");
    store_where(b, counts, b->own, x.row, sum);
    meet(b);
    close_if(b, after);
    end(b, &l, before);
    return before;
}

/* Of all warps, in one of them. */
static LLVMValueRef all_before(const Buckets *b, LLVMValueRef own) {
    if (!b->shared) return own;
    LLVMValueRef there = LLVMBuildICmp(b->s->e->b, LLVMIntULT, b->lane, i32(b, b->warps), "");
    LLVMValueRef sum = load_where(b, there, b->before, b->lane);
    for (int by = 1; by < LANES; by *= 2) {
        LLVMValueRef args[] = {everyone(b), sum, i32(b, by), i32(b, LANES - 1)};
        sum = LLVMBuildAdd(b->s->e->b, sum, call(b, "llvm.nvvm.shfl.sync.bfly.i32", 4, args), "");
    }
    return sum;
}

/* The lane's row: its warps' counts become their sums, each with those of the warps before, to all of which `more` is added;
 * the row's sum. */
static LLVMValueRef add_warps(const Buckets *b, LLVMValueRef exists, LLVMValueRef row, LLVMValueRef more) {
    const Emit *e = b->s->e;
    Loop l = begin(b, i32(b, 0), i32(b, b->warps), 1, i32(b, 0));
    LLVMValueRef counts = of_warp(b, l.at), own = load_where(b, exists, counts, row);
    LLVMValueRef sum = LLVMBuildAdd(e->b, own, more ? more : l.carried, "");
    store_where(b, exists, counts, row, sum);
    end(b, &l, more ? l.carried : sum);
    return sum;
}

/* One warp: counts become the ends of each warp's ids in the rows.  Where all of them end is written behind the last program's. */
static void find_ends(const Buckets *b, LLVMValueRef before) {
    const Emit *e = b->s->e;
    LLVMValueRef out = b->s->buffer[b->i->buffer];
    Loop l = begin(b, i32(b, 0), rounded(b, b->rows), LANES, before);
    LLVMValueRef row = LLVMBuildAdd(e->b, l.at, b->lane, ""), exists = LLVMBuildICmp(e->b, LLVMIntULT, row, b->rows, "");
    LLVMValueRef own = add_warps(b, exists, row, NULL), sum = own;
    for (int by = 1; by < LANES; by *= 2) {
        LLVMValueRef args[] = {everyone(b), sum, i32(b, by), i32(b, 0)}, lower = call(b, "llvm.nvvm.shfl.sync.up.i32", 4, args);
        LLVMValueRef has = LLVMBuildICmp(e->b, LLVMIntUGE, b->lane, i32(b, by), "");
        sum = LLVMBuildAdd(e->b, sum, LLVMBuildSelect(e->b, has, lower, i32(b, 0), ""), "");
    }
    sum = LLVMBuildAdd(e->b, sum, l.carried, "");
    LLVMValueRef begins = LLVMBuildSub(e->b, sum, own, "");
    add_warps(b, exists, row, begins);
    if (b->shared) store_where(b, exists, out, LLVMBuildAdd(e->b, row, b->first, ""), begins);
    LLVMValueRef args[] = {everyone(b), sum, i32(b, LANES - 1), i32(b, LANES - 1)}, last = call(b, "llvm.nvvm.shfl.sync.idx.i32", 4, args);
    end(b, &l, last);
    LLVMValueRef is_last = equals(b, LLVMBuildAdd(e->b, b->first, b->rows, ""), b->all);
    store_where(b, LLVMBuildAnd(e->b, is_last, equals(b, b->lane, 0), ""), out, i32(b, b->all), last);
}

/* From the warp's last ids to the first, and so in each row. */
static void place(const Buckets *b) {
    const Emit *e = b->s->e;
    if (!b->n) return;
    LLVMValueRef from = LLVMBuildMul(e->b, b->warp, i32(b, b->part), ""), to = LLVMBuildSub(e->b, from, i32(b, LANES), "");
    Loop l = begin(b, LLVMBuildAdd(e->b, to, i32(b, b->part), ""), to, -LANES, NULL);
    Ids x = read_ids(b, l.at);
    LLVMBasicBlockRef after = open_if(b, LLVMBuildICmp(e->b, LLVMIntNE, ballot(b, x.own), i32(b, 0), ""));
    LLVMValueRef like = same_ids(b, &x), ends = load_where(b, x.own, b->own, x.row);
    meet(b);
    LLVMValueRef begins = LLVMBuildSub(e->b, ends, bits(b, like), "");
    store_where(b, LLVMBuildAnd(e->b, x.own, leads(b, like), ""), b->own, x.row, begins);
    LLVMValueRef below = LLVMBuildSub(e->b, LLVMBuildShl(e->b, i32(b, 1), b->lane, ""), i32(b, 1), "");
    LLVMValueRef at = LLVMBuildAdd(e->b, begins, bits(b, LLVMBuildAnd(e->b, like, below, "")), "");
    store_where(b, x.own, b->s->buffer[b->i->buffer], LLVMBuildAdd(e->b, at, i32(b, b->all + 1), ""), x.at);
    meet(b);
    close_if(b, after);
    end(b, &l, NULL);
}

static void open_counters(Buckets *b) {
    const Emit *e = b->s->e;
    b->counts = b->own = i32_at(b, b->s->buffer[b->i->buffer], b->first);
    if (!b->shared) return;
    b->counts = simt_shared_array(b->s, e->i32, (int64_t)b->warps * b->step);
    b->before = simt_shared_array(b->s, e->i32, b->warps);
    b->own = of_warp(b, b->warp);
}

void simt_bucket(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    const Axis *rows = &s->k->axes.at[i->axis];
    Buckets b = {.s = s, .i = i, .n = 1, .all = rows->extent.bound, .warps = s->k->threads / LANES, .step = rows->step};
    for (int d = 0; d < s->k->buffers.at[i->source].rank; d++) b.n *= s->k->buffers.at[i->source].dim[d].bound;
    b.part = ((b.n + b.warps - 1) / b.warps + LANES - 1) / LANES * LANES;
    b.shared = (int64_t)b.warps * b.step <= BUCKET_COUNTERS;
    b.warp = LLVMBuildLShr(e->b, s->thread, i32(&b, 5), "");
    b.lane = LLVMBuildAnd(e->b, s->thread, i32(&b, LANES - 1), "");
    b.first = LLVMBuildTrunc(e->b, s->base[i->axis], e->i32, "");
    LLVMValueRef left[] = {LLVMBuildSub(e->b, i32(&b, b.all), b.first, ""), i32(&b, rows->step)};
    b.rows = emit_intrinsic(e, "llvm.smin", 2, left);
    open_counters(&b);
    clear(&b);
    LLVMValueRef before = count(&b);
    if (b.shared) store_where(&b, equals(&b, b.lane, 0), b.before, b.warp, before);
    meet_all(&b);
    LLVMBasicBlockRef after = open_if(&b, equals(&b, b.warp, 0));
    find_ends(&b, all_before(&b, before));
    close_if(&b, after);
    meet_all(&b);
    place(&b);
}
