/* Warp-level matrix instructions: ldmatrix, stmatrix, movmatrix, mma.sync. */
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/exec_matrix.h"
#include "tools/ptxsim/ptx/parse.h"
#include <math.h>
#include <stdio.h>

enum { TILE = 8, ROW_BYTES = 16, MOST_K = 64 };

/* "The behavior is undefined if all threads in the same warp do not use the same qualifiers, or if any thread in the
 * warp has exited." */
void matrix_check_warp(Warp *w, uint32_t mask) {
    if (mask == UINT32_MAX) return;
    char note[120];
    snprintf(note, sizeof note, "a matrix instruction needs all 32 lanes, 0x%08x execute it", mask);
    warp_report(w, REPORT_MEMBERS, __builtin_ctz(mask), 0, 0, note);
}

/* ---- ldmatrix, stmatrix ------------------------------------------------------------------------------- */
/* Row addresses come from lanes 0-7 for the first matrix, 8-15 for the second, ...  A row that is refused has no place.
 */
static void rows_find(Warp *w, const Inst *i, uint32_t mask, AccessKind kind, uint8_t *place[WARP]) {
    uint64_t address[WARP];
    const int tiles = i->matrix->d.count;
    uint32_t rows = tiles == 4 ? UINT32_MAX : (UINT32_C(1) << (TILE * tiles)) - 1;
    rows &= mask;
    for (int l = 0; l < WARP; l++) {
        address[l] = address_bits(w, &i->a, i->offset, l);
        if (i->space == SPACE_SHARED || !(rows >> l & 1) || address[l] - SHARED_WINDOW < WINDOW_BYTES) continue;
        warp_report(w, REPORT_BOUNDS, l, address[l], ROW_BYTES, "a row of a matrix that is not in shared memory");
        rows &= ~(UINT32_C(1) << l);
    }
    warp_access(w, (Space)i->space, kind, false, address, ROW_BYTES, rows, place);
}

static void transpose(uint16_t to[TILE][TILE], const uint16_t from[TILE][TILE]) {
    for (int r = 0; r < TILE; r++)
        for (int c = 0; c < TILE; c++) to[r][c] = from[c][r];
}

void exec_ldmatrix(Warp *w, const Inst *i, uint32_t mask) {
    uint8_t *place[WARP];
    matrix_check_warp(w, mask);
    rows_find(w, i, mask, ACCESS_READ, place);
    for (int m = 0; m < i->matrix->d.count; m++) {
        uint16_t tile[TILE][TILE] = {{0}}, transposed[TILE][TILE];
        for (int r = 0; r < TILE; r++)
            if (place[m * TILE + r]) memcpy(tile[r], place[m * TILE + r], ROW_BYTES);
        if (i->matrix->trans_a) transpose(transposed, (const uint16_t(*)[TILE])tile);
        lanes_put(lane_out(w, &i->matrix->d.item[m]), i->matrix->trans_a ? transposed : tile, 4, mask);
    }
}

/* Rows that lanes put at the same place must be the same. */
static void rows_agree(Warp *w, const Inst *i, uint8_t *const place[WARP], const uint16_t row[WARP][TILE]) {
    for (int l = 0; l < WARP; l++) {
        if (!place[l] || memcmp(place[l], row[l], ROW_BYTES) == 0) continue;
        warp_report(w, REPORT_RACE, l, address_bits(w, &i->a, i->offset, l), ROW_BYTES,
                    "lanes of one store write different values to the same bytes");
        return;
    }
}

void exec_stmatrix(Warp *w, const Inst *i, uint32_t mask) {
    uint8_t *place[WARP];
    uint16_t row[WARP][TILE] = {{0}};
    matrix_check_warp(w, mask);
    for (int m = 0; m < i->matrix->d.count; m++) {
        uint16_t tile[TILE][TILE];
        memcpy(tile, lane_in(w, &i->matrix->d.item[m]), sizeof tile);
        if (i->matrix->trans_a) transpose(row + m * TILE, (const uint16_t(*)[TILE])tile);
        else memcpy(row + m * TILE, tile, sizeof tile);
    }
    w->storing = (const uint8_t *)row;
    rows_find(w, i, mask, ACCESS_WRITE, place);
    w->storing = NULL;
    for (int l = 0; l < WARP; l++)
        if (place[l]) memcpy(place[l], row[l], ROW_BYTES);
    rows_agree(w, i, place, (const uint16_t(*)[TILE])row);
}

void exec_movmatrix(Warp *w, const Inst *i, uint32_t mask) {
    uint16_t tile[TILE][TILE], transposed[TILE][TILE];
    matrix_check_warp(w, mask);
    memcpy(tile, lane_in(w, &i->a), sizeof tile);
    transpose(transposed, (const uint16_t(*)[TILE])tile);
    lanes_put(lane_out(w, &i->d), transposed, 4, mask);
}

/* ---- panels (matrix.h) -------------------------------------------------------------------------------- */
const MatrixKernels *matrix_kernels(void) { return alu_level()->matrix; }

void left_put(uint32_t *block, const uint32_t *tile, int stride, int k0, int width) {
    for (int g = 0; g < TILE; g++)
        for (int e = 0; e < width; e++) {
            uint32_t *to = block + (k0 + e) * WARP + 4 * g;
            to[0] = to[1] = to[2] = to[3] = tile[g * stride + e];
        }
}

void right_put(uint32_t *block, const uint32_t *tile, int stride, int k, int k0, int width) {
    for (int odd = 0; odd < 2; odd++)
        for (int e = 0; e < width; e++) {
            uint32_t *to = block + (odd * k + k0 + e) * 4;
            for (int t = 0; t < 4; t++) to[t] = tile[(2 * t + odd) * stride + e];
        }
}

void left_from_registers(const MatrixKernels *x, PtxType t, uint32_t *left, const void *const *lanes, int count,
                         int row_blocks, int k) {
    const int width = 4 * 32 / element_bits(t);
    for (int r = 0; r < count; r++) {
        _Alignas(64) uint32_t tile[TILE * 4 * 8];
        x->widen(t, tile, lanes[r], TILE * width);
        left_put(left + r % row_blocks * k * WARP, tile, width, r / row_blocks * width, width);
    }
}

void sum_widen(const MatrixKernels *x, PtxType t, uint32_t *sum, const void *lanes, int at) {
    if (t != T_F16) {
        memcpy(sum + at * WARP, lanes, WARP * sizeof *sum);
        return;
    }
    uint32_t pair[2 * WARP];
    x->widen(T_F16, pair, lanes, 2 * WARP);
    for (int l = 0; l < WARP; l++) {
        sum[2 * at * WARP + l] = pair[2 * l];
        sum[(2 * at + 1) * WARP + l] = pair[2 * l + 1];
    }
}

void sum_narrow(const MatrixKernels *x, PtxType t, uint32_t lanes[WARP], const uint32_t *sum, int at) {
    if (t != T_F16) {
        memcpy(lanes, sum + at * WARP, WARP * sizeof *lanes);
        return;
    }
    uint16_t pair[2 * WARP];
    x->narrow(pair, sum + 2 * at * WARP, 2 * WARP);
    for (int l = 0; l < WARP; l++) lanes[l] = pair[l] | (uint32_t)pair[WARP + l] << 16;
}

/* ---- mma.sync ----------------------------------------------------------------------------------------- */
static void right_from_registers(const Warp *w, const MatrixForm *f, uint32_t *right) {
    const PtxType t = (PtxType)f->type_b;
    const int width = 4 * 32 / element_bits(t);
    for (int r = 0; r < f->b.count; r++) {
        _Alignas(64) uint32_t tile[TILE * 4 * 8];
        f->kernels->widen(t, tile, lane_in(w, &f->b.item[r]), TILE * width);
        right_put(right, tile, width, f->k, r * width, width);
    }
}

void exec_mma(Warp *w, const Inst *i, uint32_t mask) {
    const MatrixForm *f = i->matrix;
    const int row_blocks = f->m / TILE;
    _Alignas(64) uint32_t left[2 * MOST_K * WARP], right[2 * MOST_K * 4], sum[4 * WARP];
    const void *a[4];
    matrix_check_warp(w, mask);
    for (int r = 0; r < f->a.count; r++) a[r] = lane_in(w, &f->a.item[r]);
    left_from_registers(f->kernels, (PtxType)f->type_a, left, a, f->a.count, row_blocks, f->k);
    right_from_registers(w, f, right);
    for (int r = 0; r < f->c.count; r++) sum_widen(f->kernels, (PtxType)f->type_c, sum, lane_in(w, &f->c.item[r]), r);
    if (f->type_d == T_S32)
        f->kernels->multiply_s32(sum, left, right, row_blocks, 1, f->k, f->saturate);
    else
        f->kernels->multiply_f32(sum, left, right, row_blocks, 1, f->k);
    for (int r = 0; r < f->d.count; r++) {
        uint32_t lanes[WARP];
        sum_narrow(f->kernels, (PtxType)f->type_d, lanes, sum, r);
        lanes_put(lane_out(w, &f->d.item[r]), lanes, sizeof *lanes, mask);
    }
}

/* f64: each product is fused into the sum, k ascending. */
void exec_mma_f64(Warp *w, const Inst *i, uint32_t mask) {
    const MatrixForm *f = i->matrix;
    const int row_blocks = f->m / TILE;
    double sum[4][WARP];
    matrix_check_warp(w, mask);
    for (int r = 0; r < f->c.count; r++) {
        const double *c = lane_in(w, &f->c.item[r]);
        for (int l = 0; l < WARP; l++) {
            double s = c[l];
            for (int k = 0; k < f->k; k++) {
                const double *a = lane_in(w, &f->a.item[k / 4 * row_blocks + r / 2]),
                             *b = lane_in(w, &f->b.item[k / 4]);
                s = fma(a[l / 4 * 4 + k % 4], b[(l % 4 * 2 + r % 2) * 4 + k % 4], s);
            }
            sum[r][l] = s;
        }
    }
    for (int r = 0; r < f->d.count; r++) lanes_put(lane_out(w, &f->d.item[r]), sum[r], sizeof(double), mask);
}
