/* Atomics, fences, and what is said of addresses.  Loads and stores: exec_access.c. */
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/ptx/parse.h"

/* ---- atomics ------------------------------------------------------------------------------------------ */
static uint64_t add_one(PtxType t, uint64_t a, uint64_t b) {
    if (!type_is_float(t)) return a + b;
    const double x = float_decode(t, a), y = float_decode(t, b);
    if (t == T_F32) return float_encode(t, (float)x + (float)y, ROUND_RN);
    return float_encode(t, t == T_F64 ? x + y : add_to_odd(x, y), ROUND_RN);
}

static uint64_t add_values(PtxType t, uint64_t a, uint64_t b) {
    const PtxType one = t == T_F16X2 ? T_F16 : t == T_BF16X2 ? T_BF16 : t;
    if (one == t) return add_one(t, a, b);
    return add_one(one, a & 0xffff, b & 0xffff) | add_one(one, a >> 16, b >> 16) << 16;
}

static bool less(PtxType t, uint64_t a, uint64_t b) {
    switch (t) {
    case T_S32: return (int32_t)a < (int32_t)b;
    case T_S64: return (int64_t)a < (int64_t)b;
    default: return a < b;
    }
}

static uint64_t atomic_result(const Inst *i, uint64_t old, uint64_t b, uint64_t c) {
    const PtxType t = (PtxType)i->type;
    switch (i->op) {
    case ATOMIC_ADD: return add_values(t, old, b);
    case ATOMIC_MIN: return less(t, b, old) ? b : old;
    case ATOMIC_MAX: return less(t, old, b) ? b : old;
    case ATOMIC_INC: return old >= b ? 0 : old + 1;
    case ATOMIC_DEC: return old == 0 || old > b ? b : old - 1;
    case ATOMIC_AND: return old & b;
    case ATOMIC_OR: return old | b;
    case ATOMIC_XOR: return old ^ b;
    case ATOMIC_EXCH: return b;
    default: return old == b ? c : old; /* ATOMIC_CAS */
    }
}

/* Where the lanes' atomics lie, checked; NULL where refused. */
static void atomic_places(Warp *w, const Inst *i, uint32_t mask, uint8_t *place[WARP]) {
    uint64_t address[WARP];
    Places p;
    const int bytes = access_bytes(i);
    access_addresses(w, i, address);
    warp_places(w, (Space)i->space, ACCESS_ATOMIC, i->scope, address, bytes, mask, &p);
    places_spread(&p, bytes, mask, place);
    sync_after_read(w, (Space)i->space, i->order, i->scope, address, mask);
    sync_before_write(w, (Space)i->space, i->order, i->scope, address, mask, true);
}

/* Lanes one after another.  A kernel with atomics on global memory runs on one host thread (launch.c). */
void exec_atomic(Warp *w, const Inst *i, uint32_t mask) {
    uint8_t *place[WARP];
    const int bytes = access_bytes(i);
    atomic_places(w, i, mask, place);
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1) || !place[l]) continue;
        uint64_t old = 0;
        memcpy(&old, place[l], (size_t)bytes);
        const uint64_t value = atomic_result(i, old, lane_bits(w, &i->b, l), lane_bits(w, &i->c, l));
        memcpy(place[l], &value, (size_t)bytes);
        lane_set(w, &i->d, l, old);
    }
}

void exec_vector_atomic(Warp *w, const Inst *i, uint32_t mask) {
    uint8_t *place[WARP];
    const Operand *d = i->more;
    const int each = type_bytes((PtxType)i->type);
    atomic_places(w, i, mask, place);
    for (int l = 0; l < WARP; l++) {
        uint64_t old[MAX_VECTOR] = {0};
        if (!(mask >> l & 1) || !place[l]) continue;
        for (int k = 0; k < i->count; k++) {
            memcpy(&old[k], place[l] + k * each, (size_t)each);
            const uint64_t value = atomic_result(i, old[k], lane_bits(w, &i->vec[k], l), 0);
            memcpy(place[l] + k * each, &value, (size_t)each);
        }
        for (int k = 0; k < i->count; k++) lane_set(w, &d[k], l, old[k]);
    }
}

/* exch, and cas with c. */
void exec_wide_atomic(Warp *w, const Inst *i, uint32_t mask) {
    uint8_t *place[WARP];
    enum { BYTES = 16 };
    const uint8_t *b = lane_in(w, &i->b), *c = lane_in(w, &i->c);
    atomic_places(w, i, mask, place);
    for (int l = 0; l < WARP; l++) {
        uint8_t old[BYTES], value[BYTES];
        if (!(mask >> l & 1) || !place[l]) continue;
        memcpy(old, place[l], BYTES);
        memcpy(value, (i->op == ATOMIC_CAS ? c : b) + l * BYTES, BYTES);
        if (i->op == ATOMIC_EXCH || !memcmp(old, b + l * BYTES, BYTES)) memcpy(place[l], value, BYTES);
        memcpy((uint8_t *)lane_out(w, &i->d) + l * BYTES, old, BYTES);
    }
}

/* ---- lines of the cache --------------------------------------------------------------------------------- */
enum { LINE_BYTES = 128 };
/* False, with a finding made, where no line of global memory lies. */
static bool line_find(Warp *w, const Inst *i, int lane, bool write, Range *r) {
    const uint64_t address = address_bits(w, &i->a, i->offset, lane);
    if (!range_find(w, lane, (Space)i->space, address, LINE_BYTES, LINE_BYTES, write, r)) return false;
    if (r->space == SPACE_GLOBAL) return true;
    warp_report(w, REPORT_BOUNDS, lane, r->address, LINE_BYTES, "not in global memory");
    return false;
}

void exec_apply_priority(Warp *w, const Inst *i, uint32_t mask) {
    Range r;
    for (; mask; mask &= mask - 1) line_find(w, i, __builtin_ctz(mask), false, &r);
}

/* A weak write of values that nobody may rely on (PTX ISA, "discard"): bytes nobody has written from here on. */
void exec_discard(Warp *w, const Inst *i, uint32_t mask) {
    Range r;
    for (; mask; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        if (!line_find(w, i, lane, true, &r)) continue;
        range_write(w, lane, NULL, &r);
        range_poison(&r);
        range_forget(w, &r);
    }
}

void exec_fence(Warp *w, const Inst *i, uint32_t mask) {
    (void)mask;
    sync_fence(w, i->scope);
}

void exec_isspace(Warp *w, const Inst *i, uint32_t mask) {
    uint32_t v = 0;
    for (int l = 0; l < WARP; l++) {
        const uint64_t a = lane_bits(w, &i->a, l);
        const Space s = a - SHARED_WINDOW < WINDOW_BYTES  ? SPACE_SHARED
                        : a - LOCAL_WINDOW < WINDOW_BYTES ? SPACE_LOCAL
                        : a - PARAM_WINDOW < WINDOW_BYTES ? SPACE_PARAM
                                                          : SPACE_GLOBAL;
        v |= (uint32_t)(s == (Space)i->space) << l;
    }
    predicate_out(w, &i->d, v, mask);
}

void exec_grid_wait(Warp *w, const Inst *i, uint32_t mask) {
    (void)i;
    w->waited |= mask;
}

void exec_nothing(Warp *w, const Inst *i, uint32_t mask) {
    (void)w;
    (void)i;
    (void)mask;
}
