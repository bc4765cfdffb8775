/* wmma.load, wmma.store, wmma.mma.  The ISA leaves open which lane holds what; here the elements of a fragment follow
 * each other, row by row: lane after lane, and after lane 31 the next register. */
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/exec_matrix.h"
#include "tools/ptxsim/ptx/parse.h"
#include <math.h>
#include <stdio.h>

enum { MOST = 512 }; /* elements of a fragment */

static int rows_of(const MatrixForm *f, int fragment) { return fragment == FRAGMENT_B ? f->k : f->m; }
static int columns_of(const MatrixForm *f, int fragment) { return fragment == FRAGMENT_A ? f->k : f->n; }

/* ---- memory ------------------------------------------------------------------------------------------- */
static uint64_t uniform_address(Warp *w, const Inst *i, uint64_t *stride) {
    const int natural =
        i->matrix->column_c ? rows_of(i->matrix, i->matrix->fragment) : columns_of(i->matrix, i->matrix->fragment);
    const uint64_t at = lane_bits(w, &i->a, 0);
    *stride = i->b.base == BASE_NONE ? (uint64_t)natural : lane_bits(w, &i->b, 0);
    for (int l = 1; l < WARP; l++)
        if (lane_bits(w, &i->a, l) != at || (i->b.base != BASE_NONE && lane_bits(w, &i->b, l) != *stride)) {
            warp_report(w, REPORT_MEMBERS, l, at, 0, "lanes disagree on the address or the stride of a matrix");
            break;
        }
    return at + (uint64_t)i->offset;
}

/* "Matrix storage for WMMA": rows (columns) are aligned to the fragment's size; CUDA C++ asks for 32 bytes at the start
 * and 16 from row to row, and this is what is asked here. */
static void check_alignment(Warp *w, const Inst *i, uint64_t at, uint64_t stride) {
    const MatrixForm *f = i->matrix;
    const uint64_t bytes = (uint64_t)f->d.count * f->d.item[0].bytes,
                   step = stride * (uint64_t)type_bytes((PtxType)f->type_d);
    const uint64_t start = bytes < 32 ? bytes : 32, row = bytes < 16 ? bytes : 16;
    if (at % start == 0 && step % row == 0) return;
    char note[120];
    snprintf(note, sizeof note, "a fragment of %u bytes with rows %u bytes apart", (unsigned)bytes, (unsigned)step);
    warp_report(w, REPORT_MISALIGNED, 0, at, (int)start, note);
}

/* One element of each lane at a time: element `part` of register r. */
static void element_places(Warp *w, const Inst *i, AccessKind kind, uint64_t at, uint64_t stride, int r, int part,
                           uint8_t *place[WARP]) {
    const MatrixForm *f = i->matrix;
    const int bytes = type_bytes((PtxType)f->type_d), each = f->d.item[0].bytes / bytes;
    const int columns = columns_of(f, f->fragment), count = rows_of(f, f->fragment) * columns;
    uint64_t address[WARP];
    for (int l = 0; l < WARP; l++) {
        const int e = ((r * WARP + l) * each + part) % count; /* f16 multiplicands: the second half repeats the first */
        const uint64_t row = (uint64_t)(e / columns), column = (uint64_t)(e % columns);
        address[l] = at + (f->column_c ? column * stride + row : row * stride + column) * (uint64_t)bytes;
    }
    warp_access(w, (Space)i->space, kind, false, address, bytes, UINT32_MAX, place);
}

static void move(Warp *w, const Inst *i, uint32_t mask, bool store) {
    const MatrixForm *f = i->matrix;
    const size_t bytes = (size_t)type_bytes((PtxType)f->type_d);
    const int each = f->d.item[0].bytes / (int)bytes;
    uint64_t stride;
    matrix_check_warp(w, mask);
    const uint64_t at = uniform_address(w, i, &stride);
    check_alignment(w, i, at, stride);
    for (int r = 0; r < f->d.count; r++)
        for (int part = 0; part < each; part++) {
            uint8_t *place[WARP], *lanes = lane_out(w, &f->d.item[r]);
            element_places(w, i, store ? ACCESS_WRITE : ACCESS_READ, at, stride, r, part, place);
            for (size_t l = 0; l < WARP; l++) {
                uint8_t *element = lanes + (l * (size_t)each + (size_t)part) * bytes;
                if (!place[l]) continue;
                if (store)
                    memcpy(place[l], element, bytes);
                else
                    memcpy(element, place[l], bytes);
            }
        }
}

void exec_wmma_load(Warp *w, const Inst *i, uint32_t mask) { move(w, i, mask, false); }
void exec_wmma_store(Warp *w, const Inst *i, uint32_t mask) { move(w, i, mask, true); }

/* ---- product ------------------------------------------------------------------------------------------ */
/* A fragment as numbers of 32 bits, row-major. */
static void gather(const Warp *w, const MatrixForm *f, const OperandList *list, PtxType t, int count, uint32_t *dense) {
    const int each = WARP * 32 / element_bits(t);
    for (int r = 0; r * each < count; r++) f->kernels->widen(t, dense + r * each, lane_in(w, &list->item[r]), each);
}

/* Between a row-major matrix and the panel of sums. */
static int panel_index(const MatrixForm *f, int row, int column) {
    const int block = (column / 8 * (f->m / 8) + row / 8) * 2 + column % 2;
    return block * WARP + row % 8 * 4 + column % 8 / 2;
}

static void scatter(const Warp *w, const MatrixForm *f, const uint32_t *dense, uint32_t mask) {
    const PtxType t = (PtxType)f->type_d;
    for (int r = 0; r < f->d.count; r++) {
        uint16_t half[2 * WARP];
        if (t == T_F16) f->kernels->narrow(half, dense + r * 2 * WARP, 2 * WARP);
        lanes_put(lane_out(w, &f->d.item[r]), t == T_F16 ? (const void *)half : dense + r * WARP, 4, mask);
    }
}

static void product(const Warp *w, const MatrixForm *f, uint32_t mask) {
    const int m = f->m, n = f->n, k = f->k;
    _Alignas(64) uint32_t dense[MOST], transposed[MOST], left[MOST * 4], right[MOST], sum[MOST];
    gather(w, f, &f->a, (PtxType)f->type_a, m * k, dense);
    for (int r = 0; r < m / 8; r++) left_put(left + r * k * WARP, dense + r * 8 * k, k, 0, k);
    gather(w, f, &f->b, (PtxType)f->type_b, k * n, dense);
    for (int x = 0; x < k * n; x++) transposed[x % n * k + x / n] = dense[x];
    for (int j = 0; j < n / 8; j++) right_put(right + j * 8 * k, transposed + j * 8 * k, k, k, 0, k);
    gather(w, f, &f->c, (PtxType)f->type_c, m * n, dense);
    for (int x = 0; x < m * n; x++) sum[panel_index(f, x / n, x % n)] = dense[x];
    if (f->type_d == T_S32)
        f->kernels->multiply_s32(sum, left, right, m / 8, n / 8, k, f->saturate);
    else
        f->kernels->multiply_f32(sum, left, right, m / 8, n / 8, k);
    for (int x = 0; x < m * n; x++) dense[x] = sum[panel_index(f, x / n, x % n)];
    scatter(w, f, dense, mask);
}

static void product_f64(const Warp *w, const MatrixForm *f, uint32_t mask) {
    const double *a = lane_in(w, &f->a.item[0]), *b = lane_in(w, &f->b.item[0]);
    double d[2][WARP];
    for (int x = 0; x < f->m * f->n; x++) {
        const double *c = lane_in(w, &f->c.item[x / WARP]);
        double s = c[x % WARP];
        for (int k = 0; k < f->k; k++) s = fma(a[x / f->n * f->k + k], b[k * f->n + x % f->n], s);
        d[x / WARP][x % WARP] = s;
    }
    for (int r = 0; r < 2; r++) lanes_put(lane_out(w, &f->d.item[r]), d[r], sizeof(double), mask);
}

void exec_wmma(Warp *w, const Inst *i, uint32_t mask) {
    matrix_check_warp(w, mask);
    if (i->matrix->type_a == T_F64)
        product_f64(w, i->matrix, mask);
    else
        product(w, i->matrix, mask);
}
