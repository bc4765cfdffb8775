/* Loads, stores and atomics: registers on one side, what access.h resolved and checked on the other. */
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/ptx/parse.h"

/* ---- instructions ------------------------------------------------------------------------------------- */
static void addresses(const Warp *w, const Inst *i, uint64_t address[WARP]) {
    if (i->a.bytes == 8) {
        const uint64_t *a = lane_in(w, &i->a);
        for (int l = 0; l < WARP; l++) address[l] = a[l] + (uint64_t)i->offset;
    } else {
        const uint32_t *a = lane_in(w, &i->a);
        for (int l = 0; l < WARP; l++) address[l] = (uint64_t)((int64_t)a[l] + i->offset);
    }
}

static int access_bytes(const Inst *i) { return type_bytes((PtxType)i->type) * (i->count ? i->count : 1); }

/* Values of 32 lanes from memory into a register, extended to its width. */
static void load_element(const Warp *w, const Inst *i, int k, const Places *p, int lane_bytes, uint32_t mask) {
    static const uint8_t NOTHING[16] = {0}; /* what a refused load returns */
    const int bytes = type_bytes((PtxType)i->type), to_bytes = i->vec[k].bytes;
    const bool extend = type_is_signed((PtxType)i->type);
    uint8_t *to = lane_out(w, &i->vec[k]);
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        const uint8_t *from = p->shape == PLACE_SCATTER ? p->lane[l] : p->first + (p->shape == PLACE_ROW ? l * lane_bytes : 0);
        uint64_t v = 0;
        memcpy(&v, from ? from + k * bytes : NOTHING, (size_t)bytes);
        if (extend) v = (uint64_t)((int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        memcpy(to + l * to_bytes, &v, (size_t)to_bytes);
    }
}

void exec_load(Warp *w, const Inst *i, uint32_t mask) {
    uint64_t address[WARP];
    Places p;
    const int bytes = access_bytes(i);
    addresses(w, i, address);
    warp_places(w, (Space)i->space, ACCESS_READ, i->scope, address, bytes, mask, &p);
    for (int k = 0; k < i->count; k++) load_element(w, i, k, &p, bytes, mask);
    if (i->order) sync_after_read(w, (Space)i->space, i->order, i->scope, address, mask);
}

/* Lanes that write the same bytes in one instruction must write the same values there. */
static void check_overlap(Warp *w, const Inst *i, const uint64_t address[WARP], uint8_t *const place[WARP], int bytes) {
    const int each = type_bytes((PtxType)i->type);
    for (int l = 0; l < WARP; l++) {
        uint8_t value[16];
        for (int k = 0; place[l] && k < i->count; k++)
            memcpy(value + k * each, (const uint8_t *)lane_in(w, &i->vec[k]) + l * i->vec[k].bytes, (size_t)each);
        if (!place[l] || memcmp(place[l], value, (size_t)bytes) == 0) continue;
        warp_report(w, REPORT_RACE, l, address[l], bytes, "lanes of one store write different values to the same bytes");
        return;
    }
}

void exec_store(Warp *w, const Inst *i, uint32_t mask) {
    uint64_t address[WARP];
    uint8_t *place[WARP];
    Places p;
    const int each = type_bytes((PtxType)i->type), bytes = access_bytes(i);
    addresses(w, i, address);
    warp_places(w, (Space)i->space, ACCESS_WRITE, i->scope, address, bytes, mask, &p);
    places_spread(&p, bytes, mask, place);
    if (i->order) sync_before_write(w, (Space)i->space, i->order, i->scope, address, mask, false);
    for (int k = 0; k < i->count; k++) {
        const uint8_t *from = lane_in(w, &i->vec[k]);
        for (int l = 0; l < WARP; l++)
            if (place[l]) memcpy(place[l] + k * each, from + l * i->vec[k].bytes, (size_t)each);
    }
    if (p.overlap) check_overlap(w, i, address, place, bytes);
}

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

/* Lanes one after another.  A kernel with atomics on global memory runs on one host thread (launch.c). */
void exec_atomic(Warp *w, const Inst *i, uint32_t mask) {
    uint64_t address[WARP];
    uint8_t *place[WARP];
    Places p;
    const int bytes = access_bytes(i);
    addresses(w, i, address);
    warp_places(w, (Space)i->space, ACCESS_ATOMIC, i->scope, address, bytes, mask, &p);
    places_spread(&p, bytes, mask, place);
    sync_after_read(w, (Space)i->space, i->order, i->scope, address, mask);
    sync_before_write(w, (Space)i->space, i->order, i->scope, address, mask, true);
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1) || !place[l]) continue;
        uint64_t old = 0;
        memcpy(&old, place[l], (size_t)bytes);
        const uint64_t value = atomic_result(i, old, lane_bits(w, &i->b, l), lane_bits(w, &i->c, l));
        memcpy(place[l], &value, (size_t)bytes);
        lane_set(w, &i->d, l, old);
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

void exec_nothing(Warp *w, const Inst *i, uint32_t mask) {
    (void)w;
    (void)i;
    (void)mask;
}
