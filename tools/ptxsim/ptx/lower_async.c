/* cp.async, bulk and tensor copies, mbarrier, proxy fences.  Grammar: PTX ISA, one section per instruction. */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/words.h"
#include <string.h>

static Inst *emit_form(Parser *p, const Stmt *s, ExecFn run, const void *form, size_t bytes, int class) {
    const void *kept = keep_form(p, form, bytes);
    Inst *i = emit(p, s, run);
    i->more = kept;
    i->kind = (uint8_t)class;
    return i;
}

/* ---- cp.async --------------------------------------------------------------------------------------------- */
static void emit_group(Parser *p, const Stmt *s, ExecFn run, GroupKind k, int64_t left, bool reads) {
    Inst *i = emit(p, s, run);
    i->op = (uint8_t)k;
    i->op2 = reads;
    i->offset = left;
    i->kind = CLASS_SYNC;
}

static int64_t constant(Parser *p, const Stmt *s, int k) {
    const Raw *r = operand_at(p, s, k);
    if (r->kind != RAW_INT || (int64_t)r->bits < 0) parse_fail(p, r->at, "expected an integer constant");
    return (int64_t)r->bits;
}

static void wait_group(Parser *p, Words *w, GroupKind k) {
    const bool reads = k == GROUP_BULK && word_take(w, "read");
    words_end(p, w, 1);
    emit_group(p, w->stmt, exec_wait_group, k, constant(p, w->stmt, 0), reads);
}

/* cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64 [addr] */
static void lower_copy_arrive(Parser *p, Words *w) {
    word_need(p, w, "arrive");
    const bool noinc = word_take(w, "noinc");
    const Space space = word_space(w);
    word_need(p, w, "b64");
    words_end(p, w, 1);
    const MbarrierForm f = {.at = pointer(p, w->stmt, operand_at(p, w->stmt, 0), space)};
    emit_form(p, w->stmt, exec_cp_async_arrive, &f, sizeof f, CLASS_SYNC)->op2 = noinc;
}

/* cp.async.ca.shared{::cta}.global{.L2::cache_hint}{.L2::64B} [dst], [src], cp-size{, src-size or ignore-src}{, policy}
 */
static void lower_copy(Parser *p, Words *w) {
    static const char *const PREFETCH[] = {"L2::64B", "L2::128B", "L2::256B"};
    const Stmt *s = w->stmt;
    const bool bypass = word_take(w, "cg");
    if (!bypass) word_need(p, w, "ca");
    if (word_space(w) != SPACE_SHARED || word_space(w) != SPACE_GLOBAL)
        parse_fail(p, s->at, "cp.async copies from .global to .shared");
    const bool hint = word_take(w, "L2::cache_hint");
    word_choose(w, PREFETCH, 3);
    CopyForm f = {.bytes = (uint32_t)constant(p, s, 2)};
    if (f.bytes != 16 && (bypass || (f.bytes != 4 && f.bytes != 8)))
        parse_fail(p, s->operand[2].at, "cp.async copies %s bytes", bypass ? "16" : "4, 8 or 16");
    int k = 3;
    if (s->count > k + hint) {
        const Raw *r = &s->operand[k++];
        if (r->type == T_PRED && r->kind == RAW_REG) f.ignore = predicate_source(p, s, r);
        else f.size = source(p, s, r, T_U32);
    }
    if (hint) source(p, s, operand_at(p, s, k++), T_B64);
    words_end(p, w, k);
    f.to = pointer(p, s, &s->operand[0], SPACE_SHARED);
    f.from = pointer(p, s, &s->operand[1], SPACE_GLOBAL);
    emit_form(p, s, exec_cp_async, &f, sizeof f, CLASS_MEMORY);
}

/* ---- bulk copies ------------------------------------------------------------------------------------------ */
static int take_dimension(Words *w) {
    static const char *const DIMENSION[] = {"1d", "2d", "3d", "4d", "5d"};
    return word_choose(w, DIMENSION, 5) + 1;
}

static int take_reduction(Parser *p, Words *w) {
    static const char *const OPS[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    static const int CODES[] = {ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_INC,
                                ATOMIC_DEC, ATOMIC_AND, ATOMIC_OR,  ATOMIC_XOR};
    const int k = word_choose(w, OPS, 8);
    if (k < 0)
        parse_fail(p, w->next < w->stmt->words ? w->stmt->word[w->next] : w->stmt->at,
                   "expected a reduction operation");
    return CODES[k];
}

/* Spaces and completion: shared destinations signal an mbarrier, global ones belong to a bulk async-group. */
static void take_direction(Parser *p, Words *w, CopyForm *f, bool tensor) {
    f->to.space = word_space(w);
    f->from.space = word_space(w);
    f->store = f->to.space == SPACE_GLOBAL;
    const bool into_shared = f->to.space == SPACE_SHARED || f->to.space == SPACE_CLUSTER;
    const bool from_block = f->from.space == SPACE_SHARED;
    const bool ok = f->store ? from_block
                    : !into_shared ? false
                    : f->from.space == SPACE_GLOBAL || (from_block && !tensor && f->to.space == SPACE_CLUSTER);
    if (!ok) parse_fail(p, w->stmt->at, "'%s' does not copy between these state spaces", w->stmt->row->name);
}

static void take_completion(Parser *p, Words *w, const CopyForm *f) {
    word_need(p, w, f->store ? "bulk_group" : "mbarrier::complete_tx::bytes");
}

/* .multicast::cluster with its mask among the operands */
static void take_multicast(Parser *p, Words *w, CopyForm *f, int *k) {
    if (f->store || f->to.space != SPACE_CLUSTER || f->from.space != SPACE_GLOBAL ||
        !word_take(w, "multicast::cluster"))
        return;
    f->block_mask = source(p, w->stmt, operand_at(p, w->stmt, (*k)++), T_U16);
}

/* PTX ISA, "cp.reduce.async.bulk": which operations exist for which types. */
static bool reduction_exists(const CopyForm *f, bool noftz) {
    const PtxType t = f->type;
    const bool word = t == T_U32 || t == T_S32, half = t == T_F16 || t == T_BF16;
    if (noftz != (half && f->reduce == ATOMIC_ADD)) return false;
    switch (f->reduce) {
    case ATOMIC_ADD: return word || t == T_U64 || (f->store && (half || t == T_F32 || t == T_F64));
    case ATOMIC_MIN:
    case ATOMIC_MAX: return word || (f->store && (half || t == T_U64 || t == T_S64));
    case ATOMIC_INC:
    case ATOMIC_DEC: return t == T_U32;
    default: return t == T_B32 || (f->store && t == T_B64);
    }
}

static void take_reduction_type(Parser *p, Words *w, CopyForm *f) {
    f->reduce = (uint8_t)take_reduction(p, w);
    const bool noftz = word_take(w, "noftz");
    f->type = word_type(p, w);
    if (!reduction_exists(f, noftz))
        parse_fail(p, w->stmt->at, "this reduction does not exist for .%s", type_text(f->type));
    if (f->store) p->fn->global_atomics = true;
}

/* cp{.reduce}.async.bulk.dst.src.completion... [dst], [src], size{, [mbar]}{, mask}{, policy}{, byte mask} */
static void lower_bulk(Parser *p, Words *w, bool reduce) {
    const Stmt *s = w->stmt;
    CopyForm f = {0};
    int k = 3;
    take_direction(p, w, &f, false);
    take_completion(p, w, &f);
    if (!f.store) f.mbarrier = pointer(p, s, operand_at(p, s, k++), f.to.space);
    if (!reduce) take_multicast(p, w, &f, &k);
    word_cache_hint(p, w, &k);
    if (!reduce && f.store && word_take(w, "cp_mask")) f.byte_mask = source(p, s, operand_at(p, s, k++), T_U16);
    if (reduce) take_reduction_type(p, w, &f);
    if (reduce && !f.store && f.from.space != SPACE_SHARED) parse_fail(p, s->at, "a reduction starts in .shared::cta");
    words_end(p, w, k);
    f.to = pointer(p, s, &s->operand[0], f.to.space);
    f.from = pointer(p, s, &s->operand[1], f.from.space);
    f.size = source(p, s, &s->operand[2], T_U32);
    emit_form(p, s, exec_bulk_copy, &f, sizeof f, CLASS_MEMORY);
}

/* cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [src], size{, policy} */
static void lower_bulk_prefetch(Parser *p, Words *w) {
    const Stmt *s = w->stmt;
    int k = 2;
    word_need(p, w, "global");
    word_cache_hint(p, w, &k);
    words_end(p, w, k);
    const CopyForm f = {.from = pointer(p, s, &s->operand[0], SPACE_GLOBAL),
                        .size = source(p, s, &s->operand[1], T_U32)};
    emit_form(p, s, exec_bulk_prefetch, &f, sizeof f, CLASS_MEMORY);
}

/* ---- tensor copies ---------------------------------------------------------------------------------------- */
/* [tensor map, {coordinates}] */
static void take_map(Parser *p, const Stmt *s, const Raw *r, CopyForm *f) {
    if (r->kind != RAW_ADDRESS || !r->second) parse_fail(p, r->at, "expected [tensor map, {coordinates}]");
    if (r->second->count != f->rank)
        parse_fail(p, r->second->at, "a tensor of %d dimensions takes that many coordinates", f->rank);
    for (int d = 0; d < f->rank; d++) f->coordinate[d] = source(p, s, &r->second->item[d], T_S32);
    Raw plain = *r;
    plain.second = NULL;
    const Raw *base = &plain.item[0];
    const bool param = base->kind == RAW_VAR && base->var->space == SPACE_PARAM;
    f->map = pointer(p, s, &plain, param ? SPACE_PARAM : SPACE_GENERIC);
}

static void take_mode(Parser *p, Words *w, CopyForm *f) {
    if (word_take(w, "tile")) return;
    f->no_offsets = f->store && word_take(w, "im2col_no_offs");
    f->im2col = f->no_offsets || (!f->store && word_take(w, "im2col"));
    if (f->im2col && f->rank < 3) parse_fail(p, w->stmt->at, "im2col mode needs 3 dimensions at least");
}

static void take_offsets(Parser *p, const Stmt *s, CopyForm *f, int *k) {
    if (!f->im2col || f->no_offsets) return;
    const Raw *r = operand_at(p, s, (*k)++);
    if (r->kind != RAW_VECTOR || r->count != f->rank - 2)
        parse_fail(p, r->at, "expected %d im2col offsets in braces", f->rank - 2);
    for (int d = 0; d < r->count; d++) f->im2col_offset[d] = source(p, s, &r->item[d], T_U16);
}

static void emit_tensor(Parser *p, const Stmt *s, const CopyForm *f) {
    emit_form(p, s, exec_tensor_copy, f, sizeof *f, CLASS_MEMORY);
    if (f->reduce) p->fn->global_atomics = true;
}

/* cp{.reduce}.async.bulk.tensor.dim.dst.src{.redOp}{.mode}.completion... */
static void lower_tensor(Parser *p, Words *w, bool reduce) {
    const Stmt *s = w->stmt;
    CopyForm f = {0};
    f.rank = take_dimension(w);
    if (!f.rank) parse_fail(p, s->at, "a tensor copy needs .1d to .5d");
    take_direction(p, w, &f, true);
    if (reduce && !f.store) parse_fail(p, s->at, "a tensor reduction goes to .global");
    if (reduce) f.reduce = (uint8_t)take_reduction(p, w);
    take_mode(p, w, &f);
    take_completion(p, w, &f);
    int k = 2;
    if (!f.store) {
        f.mbarrier = pointer(p, s, operand_at(p, s, k++), f.to.space);
        take_offsets(p, s, &f, &k);
        take_multicast(p, w, &f, &k);
    }
    word_cache_hint(p, w, &k);
    words_end(p, w, k);
    const Space shared = f.store ? f.from.space : f.to.space;
    take_map(p, s, &s->operand[f.store ? 0 : 1], &f);
    f.to = f.from = (Pointer){.space = shared};
    *(f.store ? &f.from : &f.to) = pointer(p, s, &s->operand[f.store ? 1 : 0], shared);
    emit_tensor(p, s, &f);
}

/* cp.async.bulk.prefetch.tensor.dim.L2.global{.tile, .im2col}{.L2::cache_hint} [map, {..}]{, offsets}{, policy} */
static void lower_tensor_prefetch(Parser *p, Words *w) {
    CopyForm f = {0};
    int k = 1;
    f.rank = take_dimension(w);
    if (!f.rank) parse_fail(p, w->stmt->at, "a tensor copy needs .1d to .5d");
    word_need(p, w, "L2");
    word_need(p, w, "global");
    take_mode(p, w, &f);
    take_offsets(p, w->stmt, &f, &k);
    word_cache_hint(p, w, &k);
    words_end(p, w, k);
    take_map(p, w->stmt, &w->stmt->operand[0], &f);
    emit_tensor(p, w->stmt, &f);
}

static void lower_bulk_family(Parser *p, Words *w) {
    need_target(p, w->stmt, 90);
    if (word_take(w, "commit_group")) {
        words_end(p, w, 0);
        emit_group(p, w->stmt, exec_commit_group, GROUP_BULK, 0, false);
    } else if (word_take(w, "wait_group")) {
        wait_group(p, w, GROUP_BULK);
    } else if (word_take(w, "prefetch")) {
        if (word_take(w, "tensor")) {
            lower_tensor_prefetch(p, w);
            return;
        }
        word_need(p, w, "L2");
        lower_bulk_prefetch(p, w);
    } else if (word_take(w, "tensor")) {
        lower_tensor(p, w, false);
    } else {
        lower_bulk(p, w, false);
    }
}

void lower_cp_async(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    need_target(p, s, 80);
    if (word_take(&w, "bulk")) {
        lower_bulk_family(p, &w);
    } else if (word_take(&w, "commit_group")) {
        words_end(p, &w, 0);
        emit_group(p, s, exec_commit_group, GROUP_COPY, 0, false);
    } else if (word_take(&w, "wait_group")) {
        wait_group(p, &w, GROUP_COPY);
    } else if (word_take(&w, "wait_all")) {
        words_end(p, &w, 0);
        emit_group(p, s, exec_wait_group, GROUP_COPY, -1, false);
    } else if (word_take(&w, "mbarrier")) {
        lower_copy_arrive(p, &w);
    } else {
        lower_copy(p, &w);
    }
}

void lower_cp_reduce(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    need_target(p, s, 90);
    word_need(p, &w, "async");
    word_need(p, &w, "bulk");
    if (word_take(&w, "tensor")) lower_tensor(p, &w, true);
    else lower_bulk(p, &w, true);
}

/* ---- st.async, red.async ---------------------------------------------------------------------------------- */
/* st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.v2, .v4}.type [a], b, [mbar]
 * red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type [a], b, [mbar] */
void lower_store_async(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    CopyForm f = {.values = 1};
    const bool reduce = s->row->op == OP_RED_ASYNC;
    need_target(p, s, 90);
    if (reduce) word_need(p, &w, "relaxed"), word_need(p, &w, "cluster");
    else if (!word_take(&w, "weak")) word_take(&w, "cluster");
    const Space space = word_space(&w);
    if (space != SPACE_CLUSTER && space != SPACE_GENERIC)
        parse_fail(p, s->at, "'%s' goes to .shared::cluster", s->row->name);
    word_need(p, &w, "mbarrier::complete_tx::bytes");
    if (reduce) {
        take_reduction_type(p, &w, &f);
    } else {
        f.values = word_take(&w, "v2") ? 2 : word_take(&w, "v4") ? 4 : 1;
        f.type = word_type(p, &w);
        if (type_bytes(f.type) < 4 || f.values * type_bytes(f.type) > 16) parse_fail(p, s->at, "no such st.async");
    }
    words_end(p, &w, 3);
    const Raw *b = &s->operand[1];
    if ((b->kind == RAW_VECTOR) != (f.values > 1) || (f.values > 1 && b->count != f.values))
        parse_fail(p, b->at, "expected %d values", f.values);
    for (int k = 0; k < f.values; k++) f.value[k] = source(p, s, f.values > 1 ? &b->item[k] : b, f.type);
    f.to = pointer(p, s, &s->operand[0], space);
    f.mbarrier = pointer(p, s, &s->operand[2], space);
    emit_form(p, s, exec_store_async, &f, sizeof f, CLASS_MEMORY);
}
