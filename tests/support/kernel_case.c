#include "tests/support/kernel_case.h"
#include "tests/support/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- kernels ------------------------------------------------------------------------------------------- */
const char kernel_casts[] =
    "kernel @casts(%x: f32[9], %n: i32[9], %c: bool[9], %y: f32[9] out, %m: i32[9] out, %d: bool[9] out)\n"
    "  grid i in 0..9 step 4\n"
    "  %0 = load %x[i] : f32[i:4]\n  %1 = load %n[i] : i32[i:4]\n  %2 = load %c[i] : bool[i:4]\n"
    "  %3 = cast %1 : f32[i:4]\n  %4 = select %2, %0, %3 : f32[i:4]\n  store %y[i], %4\n"
    "  %5 = cast %0 : i32[i:4]\n  %6 = select %2, %5, %1 : i32[i:4]\n  store %m[i], %6\n"
    "  %7 = cast %0 : bool[i:4]\n  store %d[i], %7\n";

const char kernel_dropout[] =
    "kernel @dropout(%x: f32[20], %seed: i32[], %step: i32[], %y: f32[20] out)\n"
    "  grid i in 0..20 step 8\n"
    "  %0 = load %seed[] : i32\n  %1 = load %step[] : i32\n  %2 = index i : i32[i:8]\n  %3 = const 7 : i32\n"
    "  %4 = philox %0, %1, %3, %2 : f32[i:8]\n  %5 = const 0.5 : f32\n  %6 = lt %4, %5 : bool[i:8]\n"
    "  %7 = load %x[i] : f32[i:8]\n  %8 = const 0 : f32\n  %9 = select %6, %7, %8 : f32[i:8]\n"
    "  store %y[i], %9\n";

const char kernel_fibonacci[] =
    "kernel @fibonacci(%x: f32[4], %y: f32[4] out, %z: f32[] out)\n"
    "  loop i in 0..7 step 1\n  span c in 0..4 step 4\n"
    "  %0 = load %x[c] : f32[c:4]\n  %1 = full 1 : f32[c:4]\n  %2 = const 0 : f32\n"
    "  %10, %11, %12 = for i carry %3 = %0, %4 = %1, %5 = %2 {\n"
    "    %6 = add %3, %4 : f32[c:4]\n    %7 = sum %3 over c : f32\n    %8 = add %5, %7 : f32\n"
    "    yield %4, %6, %8\n  }\n"
    "  %13 = mul %10, %11 : f32[c:4]\n  store %y[c], %13\n  store %z[], %12\n";

const char kernel_turns[] =
    "kernel @turns(%x: f32[10,7], %y: f32[7] out, %z: f32[10] out)\n"
    "  loop j in 0..10 step 4\n  loop s in 0..7 step 3\n"
    "  for s {\n    %0 = full 0 : f32[s:3]\n    store %y[s], %0\n    yield\n  }\n"
    "  for j {\n    %1 = full 0 : f32[j:4]\n"
    "    %8 = for s from 4*@j carry %2 = %1 {\n"
    "      %10 = index j : i32[j:4]\n      %11 = index s : i32[s:3]\n      %12 = le %10, %11 : bool[j:4,s:3]\n"
    "      %3 = load %x[j, s] where %12 else 0 : f32[j:4,s:3]\n      %4 = load %y[s] : f32[s:3]\n      %5 = sum %3 over j : f32[s:3]\n"
    "      %6 = add %4, %5 : f32[s:3]\n      store %y[s], %6\n"
    "      %7 = sum %3 over s : f32[j:4]\n      %9 = add %2, %7 : f32[j:4]\n      yield %9\n    }\n"
    "    store %z[j], %8\n    yield\n  }\n";

const char kernel_swap[] =
    "kernel @swap(%x: f32[8] out, %y: f32[8] out)\n  grid i in 0..8 step 4\n"
    "  %0 = load %x[i] : f32[i:4]\n  %1 = load %y[i] : f32[i:4]\n  store %x[i], %1\n  store %y[i], %0\n";

/* `text` with R, K, N, D, E replaced: rows and keys per tile, most keys, dims, and the lanes that hold dims. */
char *kernel_attention(Arena *a, int keys, int dims, int tile_rows, int tile_keys) {
    static const char text[] =
        "kernel @attention<S<=N>(%s: f32[6,S<=N], %v: f32[S<=N,D], %o: f32[6,D] out)\n"
        "  grid m in 0..6 step R\n  loop j in 0..S<=N step K\n  span d in 0..D step E\n"
        "  %0 = full -inf : f32[m:R]\n  %1 = full 0 : f32[m:R]\n  %2 = full 0 : f32[m:R,d:E]\n"
        "  %20, %21, %22 = for j carry %3 = %0, %4 = %1, %5 = %2 {\n"
        "    %6 = load %s[m, j] : f32[m:R,j:K]\n    %7 = rmax %6 over j : f32[m:R]\n    %8 = max %3, %7 : f32[m:R]\n"
        "    %9 = sub %3, %8 : f32[m:R]\n    %10 = exp %9 : f32[m:R]\n    %11 = sub %6, %8 : f32[m:R,j:K]\n"
        "    %12 = exp %11 : f32[m:R,j:K]\n    %13 = sum %12 over j : f32[m:R]\n    %14 = mul %4, %10 : f32[m:R]\n"
        "    %15 = add %14, %13 : f32[m:R]\n    %16 = mul %5, %10 : f32[m:R,d:E]\n"
        "    %17 = load %v[j, d] : f32[j:K,d:E]\n"
        "    %18 = dot %12, %17, %16 over j : f32[m:R,d:E]\n    yield %8, %15, %18\n  }\n"
        "  %23 = div %22, %21 : f32[m:R,d:E]\n  store %o[m, d], %23\n";
    const struct {
        char letter;
        int value;
    } sizes[] = {{'R', tile_rows}, {'K', tile_keys}, {'N', keys}, {'D', dims}, {'E', (dims + 3) / 4 * 4}};
    char *s = arena_alloc(a, 4 * sizeof text);
    size_t n = 0;
    for (const char *t = text; *t; t++) {
        const size_t before = n;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (*t == sizes[i].letter) n += (size_t)snprintf(s + n, 12, "%d", sizes[i].value);
        if (n == before) s[n++] = *t;
    }
    s[n] = 0;
    return s;
}

const char *const tile_goldens[TILE_GOLDENS] = {"buckets", "conv",    "gather",       "gemm",        "ragged",
                                                "scan",    "scatter", "softmax_loop", "softmax_span"};

char *tile_golden(Arena *a, int which) {
    char *text = read_text(a, arena_printf(a, "%s/tests/golden/tile/%s.tile", SOURCE_DIR, tile_goldens[which]));
    if (!text) fail_msg("no golden %s", tile_goldens[which]);
    return text;
}

Kernel *parse_kernel(Arena *a, const char *text) {
    const char *error = NULL;
    Kernel *k = kernel_parse(a, text, &error);
    if (!k) fail_msg("%s in:\n%s", error, text);
    const char *violation = kernel_verify(a, k);
    if (violation) fail_msg("%s in:\n%s", violation, text);
    assert_true(k->buffers.n <= MAX_BUFFERS);
    return k;
}

/* ---- data ------------------------------------------------------------------------------------------------- */
int64_t buffer_bytes(const Buffer *b) {
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++) {
        if (b->dim[d].bound == 0) return 0;
        last += (b->dim[d].bound - 1) * llabs(b->stride[d]);
    }
    return (last + 1) * dtype_bytes(b->dtype);
}

static uint32_t state;

void kernel_seed(uint32_t seed) { state = seed; }

uint32_t kernel_random(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

void random_element(DType t, void *data, int64_t i) {
    const uint32_t r = kernel_random();
    const double x = r % 16 == 0 ? (double)(r / 16 % 5) - 2 : (double)(r % 4001) / 1000 - 2;
    switch (t) {
    case DT_BOOL: ((uint8_t *)data)[i] = r & 1; break;
    case DT_I32: ((int32_t *)data)[i] = (int32_t)(r % 4); break;
    case DT_F32: ((float *)data)[i] = (float)x; break;
    case DT_BF16: ((uint16_t *)data)[i] = (uint16_t)(0x3f80 + r % 200); break;
    default: ((uint16_t *)data)[i] = (uint16_t)(0x3c00 + r % 1000); break; /* f16 in [1, 2) */
    }
}

void *random_buffer(Arena *a, const Buffer *b) {
    const int64_t bytes = buffer_bytes(b);
    void *data = arena_alloc(a, (size_t)(bytes ? bytes : 8));
    for (int64_t i = 0; i < bytes / dtype_bytes(b->dtype); i++) random_element(b->dtype, data, i);
    return data;
}

double buffer_element(const Buffer *b, const void *data, int64_t i) {
    switch (b->dtype) {
    case DT_BOOL: return ((const uint8_t *)data)[i];
    case DT_I32: return ((const int32_t *)data)[i];
    case DT_F32: return ((const float *)data)[i];
    default: return ((const uint16_t *)data)[i];
    }
}

void kernel_expected(Arena *a, Kernel *k, const int64_t *syms, void **start, TileMemory *want) {
    const char *error = NULL;
    assert_true(k->buffers.n <= MAX_BUFFERS);
    for (int i = 0; i < k->buffers.n; i++) {
        const Buffer *b = &k->buffers.at[i];
        const int64_t bytes = buffer_bytes(b);
        start[i] = random_buffer(a, b);
        want[i] = (TileMemory){.data = arena_dup(a, start[i], (size_t)bytes), .bytes = bytes};
    }
    if (!kernel_run(a, k, want, syms, &error)) fail_msg("@%s: %s", k->name, error);
}

void compare_elements(const Kernel *k, const Buffer *b, const void *got, const void *want, KernelTolerance *tolerance,
                      const char *how) {
    for (int64_t i = 0; i < buffer_bytes(b) / dtype_bytes(b->dtype); i++) {
        const double x = buffer_element(b, got, i), y = buffer_element(b, want, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= tolerance(b->dtype, y)))
            fail_msg("@%s %%%s[%d]: %.9g, not %.9g (%s)", k->name, b->name, (int)i, x, y, how);
    }
}

/* ---- ops ---------------------------------------------------------------------------------------------------- */
bool op_takes(Op op, DType t) {
    switch (op) {
    case OP_AND:
    case OP_OR:
    case OP_NOT: return t == DT_BOOL;
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
    case OP_POW:
    case OP_MAX:
    case OP_MIN:
    case OP_NEG:
    case OP_ABS:
    case OP_SIGN: return t != DT_BOOL;
    default: return t == DT_F32;
    }
}

bool op_wants_positive(Op op, DType t) {
    return op == OP_LOG || op == OP_LOG1P || op == OP_SQRT || op == OP_RSQRT || (op == OP_POW && t != DT_I32);
}
