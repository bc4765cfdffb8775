/* Operands of wgmma in shared memory: matrix descriptors, canonical layouts, swizzles; and the product itself.
 * Source: PTX ISA, "Shared Memory Matrix Layout", "Strides", "Matrix Descriptor" of wgmma.mma_async. */
#include "tools/ptxsim/exec/wgmma.h"
#include <stdio.h>

typedef struct Layout {
    uint32_t start, leading, stride; /* bytes */
    uint32_t base;                   /* base offset: of the pattern's start, in 128 bytes */
    uint32_t swizzle;                /* bytes of a row of the pattern: 16 (none), 32, 64, 128 */
    bool major_mn;
    uint32_t rows; /* M or N */
} Layout;

static Layout layout_of(uint64_t d, bool major_mn, uint32_t rows) {
    static const uint32_t SWIZZLE[] = {16, 128, 64, 32};
    return (Layout){.start = (uint32_t)(d & 0x3fff) << 4,
                    .leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
                    .stride = (uint32_t)(d >> 32 & 0x3fff) << 4,
                    .base = (uint32_t)(d >> 49 & 7),
                    .swizzle = SWIZZLE[d >> 62],
                    .major_mn = major_mn,
                    .rows = rows};
}

/* Bits 4.. of the address are exchanged by the row of the pattern, bits 7..: one, two or three of them. */
static uint32_t swizzled(const Layout *y, uint32_t address) {
    const uint32_t mask = y->swizzle / CHUNK - 1;
    return address ^ (((address >> 7) - y->base) & mask) << 4;
}

/* Where chunk x of 16 bytes lies.  An operand has two per row of 32 bytes along K.  K-major: chunk x is half x % 2 of
 * row x / 2.  MN-major: 8 elements of 16 bits along M or N; the chunks of one k follow each other.  Canonical layouts
 * in units of T = 16 bytes of elements: K-major   none ((8,m),(T,2)):((T,SBO),(1,LBO))           swizzled over S bytes
 * ((8,m),(T,2)):((S,SBO),(1,T)) MN-major  none ((T,1,m),(8,k)):((1,T,SBO),(T,LBO))       swizzled
 * ((T,S/16,m),(8,k)):((1,T,LBO),(S,SBO)) */
static uint32_t chunk_at(const Layout *y, uint32_t x) {
    const uint32_t s = y->swizzle;
    if (!y->major_mn) {
        const uint32_t row = x / 2, half = x % 2, along = s == CHUNK ? y->leading : CHUNK;
        return swizzled(y, y->start + row % 8 * s + row / 8 * y->stride + half * along);
    }
    const uint32_t across = y->rows / 8, k = x / across, q = x % across, atom = s / CHUNK;
    if (s == CHUNK) return y->start + q * y->stride + k % 8 * CHUNK + k / 8 * y->leading;
    return swizzled(y, y->start + q % atom * CHUNK + q / atom * y->leading + k % 8 * s + k / 8 * y->stride);
}

/* ---- checks ------------------------------------------------------------------------------------------- */
static void descriptor_report(Warp *w, char which, uint64_t d, const char *what) {
    char note[160];
    snprintf(note, sizeof note, "descriptor of %c, 0x%016llx: %s", which, (unsigned long long)d, what);
    warp_report(w, REPORT_DESCRIPTOR, 0, (d & 0x3fff) << 4, 0, note);
}

void wgmma_check_descriptor(Warp *w, char which, uint64_t d, bool trans) {
    const uint64_t reserved = UINT64_C(3) << 14 | UINT64_C(3) << 30 | UINT64_C(7) << 46 | UINT64_C(0x3ff) << 52;
    const Layout y = layout_of(d, trans, 8);
    const uint32_t mask = y.swizzle / CHUNK - 1;
    if (d & reserved)
        descriptor_report(w, which, d, "reserved bits (14-15, 30-31, 46-48, 52-61) are not zero");
    else if (y.swizzle == CHUNK && y.base)
        descriptor_report(w, which, d, "a base offset without a swizzle");
    else if (((y.start >> 7) - y.base) & mask)
        descriptor_report(w, which, d,
                          "the start is not where the swizzle's pattern starts, nor does the base offset say so");
}

enum { SHARED_CHUNKS = 1 << 15 };

static void mark_chunks(uint64_t set[SHARED_CHUNKS / 64], const Layout *y) {
    for (uint32_t x = 0; x < 2 * y->rows; x++) {
        const uint32_t c = chunk_at(y, x) / CHUNK % SHARED_CHUNKS;
        set[c / 64] |= UINT64_C(1) << c % 64;
    }
}

/* The first chunk from `c` on that is (not) in the set; there is one. */
static uint32_t next_chunk(const uint64_t *set, uint32_t c, bool absent) {
    const uint64_t flip = absent ? UINT64_MAX : 0;
    uint64_t rest = (set[c / 64] ^ flip) >> c % 64 << c % 64;
    while (!rest) rest = set[(c = c / 64 * 64 + 64) / 64] ^ flip;
    return c / 64 * 64 + (uint32_t)__builtin_ctzll(rest);
}

/* From the first chunk to the last: shared memory has no holes, so that its bounds are those of every chunk between. */
static bool find_whole(Warp *w, const uint64_t set[SHARED_CHUNKS / 64], Range *whole) {
    uint32_t low = 0, high = SHARED_CHUNKS / 64 - 1;
    while (!set[low]) low++;
    while (!set[high]) high--;
    const uint32_t first = low * 64 + (uint32_t)__builtin_ctzll(set[low]),
                   last = high * 64 + 63 - (uint32_t)__builtin_clzll(set[high]);
    return range_find(w, 0, SPACE_SHARED, (uint64_t)first * CHUNK, (last + 1 - first) * CHUNK, CHUNK, false, whole);
}

static void read_run(Warp *w, const AsyncOp *op, const Range *whole, uint32_t first, uint32_t end) {
    const uint64_t skip = (uint64_t)first * CHUNK - whole->address;
    Range r = *whole;
    r.data += skip, r.offset += skip, r.address += skip;
    r.bytes = (end - first) * CHUNK;
    range_read(w, 0, op, &r);
}

/* Chunks that follow each other are one range, whatever the order in which the layout names them. */
bool wgmma_read_operands(Warp *w, const AsyncOp *op, const WgmmaOp *g) {
    const MatrixForm *f = g->inst->matrix;
    const Layout a = layout_of(g->desc_a, f->trans_a, GROUP_ROWS), b = layout_of(g->desc_b, f->trans_b, f->n);
    uint64_t set[SHARED_CHUNKS / 64 + 1] = {0}; /* the last stays empty: every run ends */
    Range whole;
    if (!f->a.count) mark_chunks(set, &a);
    mark_chunks(set, &b);
    if (!find_whole(w, set, &whole)) return false;
    const uint32_t stop = (uint32_t)(whole.address + whole.bytes) / CHUNK;
    for (uint32_t c = (uint32_t)whole.address / CHUNK, first = c; c < stop;) {
        first = next_chunk(set, c, false);
        c = next_chunk(set, first, true);
        read_run(w, op, &whole, first, c);
    }
    return true;
}

/* ---- the product -------------------------------------------------------------------------------------- */
/* The operand as numbers: [row][k], MN-major [k][row]. */
static void fetch(const Block *b, const MatrixForm *f, const Layout *y, PtxType t, uint32_t *dense) {
    uint8_t raw[256 * 32];
    for (uint32_t x = 0; x < 2 * y->rows; x++) memcpy(raw + x * CHUNK, b->shared + chunk_at(y, x), CHUNK);
    f->kernels->widen(t, dense, raw, (int)y->rows * f->k);
}

static void right_panel(const MatrixForm *f, uint32_t *right, const uint32_t *dense) {
    const int n = f->n, k = f->k;
    for (int j = 0; j < n / 8; j++) {
        uint32_t *block = right + j * 8 * k;
        if (!f->trans_b) {
            right_put(block, dense + j * 8 * k, k, k, 0, k);
            continue;
        }
        for (int e = 0; e < k; e++)
            for (int c = 0; c < 8; c++) block[(c % 2 * k + e) * 4 + c / 2] = dense[e * n + 8 * j + c];
    }
}

static void left_panel(const MatrixForm *f, uint32_t *left, const uint32_t *dense, int warp) {
    const int k = f->k;
    for (int r = 0; r < WARP_ROWS / 8; r++) {
        const int row = warp * WARP_ROWS + r * 8;
        uint32_t transposed[8 * 32];
        for (int e = 0; f->trans_a && e < k; e++)
            for (int g = 0; g < 8; g++) transposed[g * k + e] = dense[e * GROUP_ROWS + row + g];
        left_put(left + r * k * WARP, f->trans_a ? transposed : dense + row * k, k, 0, k);
    }
}

static void round_to_f16(const MatrixForm *f, uint32_t *sum, int n) {
    uint16_t half[256];
    for (int k = 0; k < n; k += 256) {
        f->kernels->narrow(half, sum + k, 256 < n - k ? 256 : n - k);
        f->kernels->widen(T_F16, sum + k, half, 256 < n - k ? 256 : n - k);
    }
}

static void multiply(const WgmmaOp *op, uint32_t *sum, uint32_t *left, const uint32_t *right) {
    const MatrixForm *f = op->inst->matrix;
    const int words = f->n / 8 * 4 * WARP;
    if (!op->accumulate) memset(sum, 0, (size_t)words * sizeof *sum);
    if (f->type_d == T_S32) {
        f->kernels->multiply_s32(sum, left, right, 2, f->n / 8, f->k, f->saturate);
        return;
    }
    if (f->negate_a != f->negate_b)
        for (int x = 0; x < 2 * f->k * WARP; x++) left[x] ^= UINT32_C(1) << 31;
    f->kernels->multiply_f32(sum, left, right, 2, f->n / 8, f->k);
    if (f->type_d == T_F16) round_to_f16(f, sum, words);
}

void wgmma_compute(Block *b, WgmmaOp *op) {
    const MatrixForm *f = op->inst->matrix;
    const Layout ya = layout_of(op->desc_a, f->trans_a, GROUP_ROWS), yb = layout_of(op->desc_b, f->trans_b, f->n);
    uint32_t *dense = op->group->scratch, *right = dense + 256 * 32, *left = right + 256 * 32;
    fetch(b, f, &yb, (PtxType)f->type_b, dense);
    right_panel(f, right, dense);
    if (!f->a.count) fetch(b, f, &ya, (PtxType)f->type_a, dense);
    for (int k = 0; k < GROUP_WARPS; k++) {
        if (f->a.count) {
            const void *lanes[4];
            for (int r = 0; r < 4; r++) lanes[r] = op->fragments[k] + r * WARP;
            left_from_registers(f->kernels, (PtxType)f->type_a, left, lanes, 4, 2, f->k);
        } else {
            left_panel(f, left, dense, k);
        }
        multiply(op, op->sum[k]->sum, left, right);
    }
}
