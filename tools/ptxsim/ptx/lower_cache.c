/* Caches.  Nothing here moves data, but for discard, which makes it undefined; the rest is read, and wrong combinations
 * are refused.  Grammar: PTX ISA, "Cache Eviction Priority Hints", "ld", "st", "prefetch", "createpolicy",
 * "applypriority", "discard". */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/words.h"
#include <string.h>

/* ---- qualifiers of accesses --------------------------------------------------------------------------------- */
static void check_operator(Parser *p, const Stmt *s) {
    const int cop = s->mod[CAT_CACHE];
    const bool load = s->row->op == OP_LD, of_loads = cop == CACHE_CA || cop == CACHE_LU || cop == CACHE_CV;
    const bool wrong = load ? cop >= CACHE_WB : of_loads;
    if (wrong) parse_fail(p, s->at, "a cache operator of %s, not of '%s'", load ? "stores" : "loads", s->row->name);
    if (!cop) return;
    if (s->mod[CAT_EVICT]) parse_fail(p, s->at, "a cache operator and an eviction priority exclude each other");
    if (s->mod[CAT_ORDER] > ORDER_WEAK) parse_fail(p, s->at, "cache operators belong to weak accesses");
}

/* .mmio.relaxed.sys: neither vectors nor hints, in global memory. */
static void check_mmio(Parser *p, const Stmt *s, Space space) {
    if (!s->mod[CAT_MMIO]) return;
    need_version(p, s, 82);
    if (s->mod[CAT_ORDER] != ORDER_RELAXED || s->mod[CAT_SCOPE] != SCOPE_SYS)
        parse_fail(p, s->at, ".mmio needs .relaxed and .sys");
    if (space != SPACE_GLOBAL && space != SPACE_GENERIC) parse_fail(p, s->at, ".mmio is for global memory");
    if (s->mod[CAT_VECTOR] || s->mod[CAT_EVICT] || s->mod[CAT_PREFETCH] || s->mod[CAT_HINT] || s->mod[CAT_NONCOHERENT])
        parse_fail(p, s->at, ".mmio takes no vector, and no hints");
}

static void check_hint(Parser *p, const Stmt *s, int policy) {
    const bool given = s->count > policy, wanted = s->mod[CAT_HINT];
    if (s->count > policy + 1) parse_fail(p, s->operand[policy + 1].at, "'%s' takes no more operands", s->row->name);
    if (s->count < policy) parse_fail(p, s->at, "'%s' takes %d operands here, not %d", s->row->name, policy, s->count);
    if (given && !wanted) parse_fail(p, s->operand[policy].at, "a cache policy needs .L2::cache_hint");
    if (!given && wanted) parse_fail(p, s->at, ".L2::cache_hint needs a cache policy");
    if (wanted) source(p, s, &s->operand[policy], T_B64);
}

void check_cache(Parser *p, const Stmt *s, Space space, int policy) {
    const bool global = space == SPACE_GLOBAL || space == SPACE_GENERIC;
    check_operator(p, s);
    check_mmio(p, s, space);
    check_hint(p, s, policy);
    if (!global && (s->mod[CAT_EVICT] || s->mod[CAT_PREFETCH] || s->mod[CAT_HINT]))
        parse_fail(p, s->at, "eviction priorities, prefetch sizes and cache hints are for global memory");
    if (s->mod[CAT_PREFETCH] && s->row->op == OP_ST) parse_fail(p, s->at, "stores prefetch nothing");
    if (s->mod[CAT_ORDER] == ORDER_VOLATILE && (s->mod[CAT_EVICT] || s->mod[CAT_HINT]))
        parse_fail(p, s->at, "volatile accesses have no eviction priority and no cache hint");
    if (s->mod[CAT_NONCOHERENT] && (space != SPACE_GLOBAL || s->mod[CAT_ORDER] > ORDER_WEAK))
        parse_fail(p, s->at, ".nc is for weak loads of .global");
}

/* ---- instructions ------------------------------------------------------------------------------------------- */
/* prefetch{.space}.level [a];  prefetch{.global}.L2::priority [a];  prefetch{.const, .param}.tensormap [a];
 * prefetchu.L1 [a] */
void lower_prefetch(Parser *p, const Stmt *s) {
    static const char *const LEVELS[] = {"L1", "L2", "L2::evict_last", "L2::evict_normal"};
    Words w = {.stmt = s};
    Inst where = {0};
    if (s->row->op == OP_PREFETCHU) {
        word_need(p, &w, "L1");
    } else {
        const bool global = word_take(&w, "global"), local = !global && word_take(&w, "local");
        const bool constant = !global && !local && (word_take(&w, "const") || word_take(&w, "param"));
        if (constant || (!local && !global && word_take(&w, "tensormap"))) {
            need_target(p, s, 90);
            if (constant) word_need(p, &w, "tensormap");
        } else if (word_choose(&w, LEVELS, local ? 2 : 4) < 0) {
            word_need(p, &w, "L1, .L2 or a priority");
        }
    }
    words_end(p, &w, 1);
    address(p, s, &s->operand[0], &where);
    emit(p, s, exec_nothing)->kind = CLASS_MEMORY;
}

static void check_fraction(Parser *p, const Stmt *s) {
    const Raw *r = operand_at(p, s, 1);
    double d = 1;
    float f;
    if (r->kind == RAW_F64) memcpy(&d, &r->bits, sizeof d);
    if (r->kind == RAW_F32) memcpy(&f, &r->bits, sizeof f), d = f;
    if (!(d > 0 && d <= 1)) parse_fail(p, r->at, "a fraction is above 0 and at most 1");
    source(p, s, r, T_F32);
}

/* createpolicy.range{.global}.primary{.secondary}.b64 d, [a], primary bytes, total bytes */
static void check_range(Parser *p, const Stmt *s) {
    Inst where = {0};
    const Raw *primary = operand_at(p, s, 2), *total = operand_at(p, s, 3);
    address(p, s, operand_at(p, s, 1), &where);
    source(p, s, primary, T_U32);
    source(p, s, total, T_U32);
    if (primary->kind == RAW_INT && total->kind == RAW_INT && primary->bits > total->bits)
        parse_fail(p, primary->at, "the primary size is at most the total size");
}

/* createpolicy.fractional.primary{.secondary}.b64 d{, fraction};  .range, above;  createpolicy.cvt.L2.b64 d, property.
 * The value is opaque; nothing depends on it. */
void lower_policy(Parser *p, const Stmt *s) {
    static const char *const FORMS[] = {"fractional", "range", "cvt"};
    static const char *const PRIORITIES[] = {"L2::evict_first", "L2::evict_unchanged", "L2::evict_last",
                                             "L2::evict_normal"};
    Words w = {.stmt = s};
    const int form = word_choose(&w, FORMS, 3);
    int primary = 0, secondary = -1;
    if (form < 0) word_need(p, &w, "fractional, .range or .cvt");
    if (form == 1) word_take(&w, "global");
    if (form == 2) {
        word_need(p, &w, "L2");
    } else {
        primary = word_choose(&w, PRIORITIES, 4);
        if (primary < 0) word_need(p, &w, "L2::evict_first, _last, _normal or _unchanged");
        secondary = word_choose(&w, PRIORITIES, 2);
    }
    word_need(p, &w, "b64");
    words_end(p, &w, form == 1 ? 4 : form == 2 ? 2 : s->count > 1 ? 2 : 1);
    if (form == 0 && s->count > 1) check_fraction(p, s);
    if (form == 1) check_range(p, s);
    const Operand d = destination(p, s, &s->operand[0], T_B64);
    const uint64_t bits = (uint64_t)(form + 1) << 60 | (uint64_t)primary << 4 | (uint64_t)(secondary + 1);
    const Operand a = form == 2 ? source(p, s, &s->operand[1], T_B64) : pool_constant(p, bits, 8);
    Inst *i = emit(p, s, move_handler(8));
    i->d = d;
    i->a = a;
}

/* applypriority{.global}.L2::evict_normal [a], 128;  discard{.global}.L2 [a], 128 */
void lower_line(Parser *p, const Stmt *s) {
    const bool discard = s->row->op == OP_DISCARD;
    Words w = {.stmt = s};
    Inst where = {0};
    const bool global = word_take(&w, "global");
    word_need(p, &w, discard ? "L2" : "L2::evict_normal");
    words_end(p, &w, 2);
    const Raw *size = &s->operand[1];
    if (size->kind != RAW_INT || size->bits != 128) parse_fail(p, size->at, "the size is 128");
    address(p, s, &s->operand[0], &where);
    Inst *i = emit(p, s, discard ? exec_discard : exec_apply_priority);
    i->a = where.a;
    i->offset = where.offset;
    i->space = global ? SPACE_GLOBAL : SPACE_GENERIC;
    i->kind = CLASS_MEMORY;
    p->fn->global_atomics |= discard; /* blocks one after another: what was written before the launch changes */
}
