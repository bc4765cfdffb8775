/* Scheduled kernels for sm_90a on the software GPU: tiles fetched by the copy engine into rings, wgmma, clusters,
 * persistent grids.  Sums agree with the interpreter as far as their order allows; there are no findings under any
 * schedule, no bank conflicts, and as many matrix operations as the padded tiles have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/nvptx/nvptx.h"
#include "ir/tile_tensor_map.h"
#include "passes/kernel/matrix.h"
#include "tests/support/gpu_kernel.h"
#include "tests/support/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEDULES = 16, FEW_MULTIPROCESSORS = 4 /* so that blocks of a persistent grid have several programs */ };

static void check_kernel(const char *text, const int32_t *syms, double slack, double padded_flops) {
    Arena *a = arena_new();
    GpuCase c;
    gpu_open(&c, a, parse_kernel(a, text), "sm_90a", syms);
    c.multiprocessors = FEW_MULTIPROCESSORS;
    const ptxsim_kernel k = gpu_count(&c);
    gpu_check_numbers(&c, slack);
    assert_true((double)(k.matrix_flops_half + k.matrix_flops_tf32) == padded_flops);
    assert_int_equal(k.shared_conflicts, 0);
    for (int seed = 2; seed <= SCHEDULES; seed++) assert_int_equal(gpu_run(&c, seed), 0);
    gpu_check_numbers(&c, slack);
    free(c.ptx);
    arena_free(a);
}

/* ---- products of every form -------------------------------------------------------------------------------------- */
typedef struct Form {
    const char *name, *type, *head; /* of x, w and y; what the schedule says of the kernel */
    int m, n, k;                    /* extents */
    int tile_m, tile_n, tile_k, ahead;
    const char *rows, *columns;      /* the spread of the axes, and what else the schedule says of them */
    bool x_by_k, w_by_k;             /* which way factors lie in memory: x[m, k] or x[k, m], w[n, k] or w[k, n] */
    const char *x_shared, *w_shared; /* "multicast", or "" */
    int batch;                       /* 0: none */
    bool dynamic;                    /* m is S, at most Form.m */
    double slack;
    const char *out; /* the result goes through shared memory, by "tma", "threads 16"; or NULL */
} Form;

/* Values n and n + 1: the tile, and where it is staged; f32 is rounded to tf32 between. */
static char *factor_text(Arena *a, char *text, int n, const char *place, const char *type, const char *tile,
                         const char *how) {
    const bool rounded = !strcmp(type, "f32");
    text = arena_printf(a, "%s    %%%d = load %s : %s%s\n", text, rounded ? n + 20 : n, place, type, tile);
    if (rounded) text = arena_printf(a, "%s    %%%d = cast %%%d : tf32%s\n", text, n, n + 20, tile);
    return arena_printf(a, "%s    %%%d = stage %%%d -> shared %s : %s%s\n", text, n + 1, n, how,
                        rounded ? "tf32" : type, tile);
}

static const char *product_text(Arena *a, const Form *f) {
    const bool narrow = strcmp(f->type, "f32") != 0;
    const int bytes = narrow ? 2 : 4, x_row = (f->x_by_k ? f->tile_k : f->tile_m) * bytes,
              w_row = (f->w_by_k ? f->tile_k : f->tile_n) * bytes;
    const int x_swizzle = x_row % 128 == 0  ? 128
                          : x_row % 64 == 0 ? 64
                                            : 32,
              w_swizzle = w_row % 128 == 0  ? 128
                          : w_row % 64 == 0 ? 64
                                            : 32;
    const char *m = f->dynamic ? arena_printf(a, "S<=%d", f->m) : arena_printf(a, "%d", f->m), *t = f->type;
    const char *b_dim = f->batch ? arena_printf(a, "%d,", f->batch) : "", *b_index = f->batch ? "b, " : "",
               *b_tile = f->batch ? "b:1," : "";
    char *text = arena_printf(a, "kernel @%s%s(%%x: %s[%s%s,%s], %%w: %s[%s%d,%d], %%y: %s[%s%s,%d] out)\n  %s\n",
                              f->name, f->dynamic ? arena_printf(a, "<S<=%d>", f->m) : "", t, b_dim,
                              f->x_by_k ? m : arena_printf(a, "%d", f->k), f->x_by_k ? arena_printf(a, "%d", f->k) : m,
                              t, b_dim, f->w_by_k ? f->n : f->k, f->w_by_k ? f->k : f->n, t, b_dim, m, f->n, f->head);
    if (f->batch) text = arena_printf(a, "%s  grid b in 0..%d step 1\n", text, f->batch);
    text = arena_printf(
        a, "%s  grid m in 0..%s step %d spread %s\n  grid n in 0..%d step %d spread %s\n  loop k in 0..%d step %d\n",
        text, m, f->tile_m, f->rows, f->n, f->tile_n, f->columns, f->k, f->tile_k);
    text = arena_printf(a, "%s  %%0 = full 0 : f32[%sm:%d,n:%d]\n  %%7 = for k%s carry %%1 = %%0 {\n", text, b_tile,
                        f->tile_m, f->tile_n, f->ahead ? arena_printf(a, " ahead %d", f->ahead) : "");
    const char *x_tile = arena_printf(a, "[%sm:%d,k:%d]", b_tile, f->tile_m, f->tile_k),
               *y_tile = arena_printf(a, "[%sm:%d,n:%d]", b_tile, f->tile_m, f->tile_n);
    const char *w_tile = arena_printf(a, "[%sn:%d,k:%d]", b_tile, f->tile_n, f->tile_k);
    text = factor_text(a, text, 2, arena_printf(a, "%%x[%s%s]", b_index, f->x_by_k ? "m, k" : "k, m"), t, x_tile,
                       arena_printf(a, "minor %s swizzle %d by tma %s", f->x_by_k ? "k" : "m", x_swizzle, f->x_shared));
    text = factor_text(a, text, 4, arena_printf(a, "%%w[%s%s]", b_index, f->w_by_k ? "n, k" : "k, n"), t, w_tile,
                       arena_printf(a, "minor %s swizzle %d by tma %s", f->w_by_k ? "k" : "n", w_swizzle, f->w_shared));
    text = arena_printf(a, "%s    %%6 = dot %%3, %%5, %%1 over k by wgmma : f32%s\n    yield %%6\n  }\n", text, y_tile);
    if (!narrow) return arena_printf(a, "%s  store %%y[%sm, n], %%7\n", text, b_index);
    text = arena_printf(a, "%s  %%8 = cast %%7 : %s%s\n", text, t, y_tile);
    if (!f->out) return arena_printf(a, "%s  store %%y[%sm, n], %%8\n", text, b_index);
    return arena_printf(a, "%s  %%9 = stage %%8 -> shared minor n swizzle %d : %s%s\n  store %%y[%sm, n], %%9 by %s\n",
                        text,
                        f->tile_n % 64 == 0   ? 128
                        : f->tile_n % 32 == 0 ? 64
                                              : 32,
                        t, y_tile, b_index, f->out);
}

static int padded(int n, int step) { return (n + step - 1) / step * step; }

static void check_form(const Form *f) {
    Arena *a = arena_new();
    const int32_t rows = f->dynamic ? f->m - 70 : 0;
    const double tiles =
        (double)padded(f->dynamic ? rows : f->m, f->tile_m) * padded(f->n, f->tile_n) * padded(f->k, f->tile_k);
    check_kernel(product_text(a, f), &rows, f->slack, 2 * tiles * (f->batch ? f->batch : 1));
    arena_free(a);
}

#define ONE "t2 t3 t4 r t5 t6"    /* one warpgroup, 64 rows each time */
#define TWO "t2 t3 t4 r t5 t6 t7" /* two warpgroups side by side along the rows */
#define COLUMNS "r t0 t1"
#define FOUR_WARPS "threads 128 producer 128"
#define BY_TURNS "threads 128 alternate 2 producer 128 registers 232:40 persistent"
#define EIGHT_WARPS "threads 256 producer 128 registers 232:40"
/* clang-format off */
static const Form forms[] = {
    {"nn", "bf16", FOUR_WARPS, 128, 128, 192, 64, 64, 64, 2, ONE, COLUMNS, true, false, "", "", 0, false, 0.01, NULL},
    {"nt", "bf16", FOUR_WARPS, 128, 128, 192, 64, 64, 64, 1, ONE, COLUMNS, true, true, "", "", 0, false, 0.01, NULL},
    {"tn", "bf16", FOUR_WARPS, 128, 128, 192, 64, 64, 64, 3, ONE, COLUMNS, false, false, "", "", 0, false, 0.01, NULL},
    {"tt", "f16", FOUR_WARPS, 128, 128, 192, 64, 64, 64, 0, ONE, COLUMNS, false, true, "", "", 0, false, 0.002, NULL},
    {"tf32", "f32", FOUR_WARPS, 128, 64, 96, 64, 64, 32, 2, ONE, COLUMNS, true, true, "", "", 0, false, 0.02, NULL},
    {"edges", "bf16", FOUR_WARPS, 100, 72, 88, 64, 64, 64, 2, ONE, COLUMNS, true, false, "", "", 0, false, 0.01, NULL},
    {"rows", "bf16", FOUR_WARPS, 200, 64, 64, 64, 64, 64, 2, ONE, COLUMNS, true, true, "", "", 0, true, 0.01, NULL},
    {"wide", "bf16", EIGHT_WARPS, 128, 256, 128, 128, 256, 64, 2,
     TWO, COLUMNS, true, false, "", "", 0, false, 0.01, NULL},
    {"halves", "f16", EIGHT_WARPS, 64, 128, 128, 64, 128, 64, 2,
     ONE, "r t0 t1 r r r t7", false, false, "", "", 0, false, 0.002, NULL},
    {"tall", "bf16", EIGHT_WARPS, 256, 64, 128, 256, 64, 64, 2,
     TWO " r", COLUMNS, false, true, "", "", 0, false, 0.01, NULL},
    {"odd_width", "bf16", EIGHT_WARPS, 128, 192, 64, 128, 96, 32, 2,
     TWO, COLUMNS, true, false, "", "", 0, false, 0.01, NULL},
    {"batch", "bf16", FOUR_WARPS, 64, 64, 128, 64, 64, 64, 1, ONE, COLUMNS, true, false, "", "", 3, false, 0.01, NULL},
    {"walk", "bf16", FOUR_WARPS " persistent dependent", 320, 640, 128, 64, 64, 64, 2,
     ONE, COLUMNS, true, true, "", "", 4, false, 0.01, NULL},
    {"order", "bf16", FOUR_WARPS " persistent", 320, 192, 64, 64, 64, 64, 2,
     ONE " order 2", COLUMNS, true, true, "", "", 2, false, 0.01, NULL},
    {"pair", "bf16", FOUR_WARPS, 256, 128, 192, 64, 64, 64, 2,
     ONE " cluster 2", COLUMNS, true, false, "", "multicast", 0, false, 0.01, NULL},
    {"pairs", "bf16", EIGHT_WARPS " persistent", 512, 256, 192, 128, 128, 64, 2,
     TWO " order 4", COLUMNS " cluster 2", true, true, "multicast", "", 0, false, 0.01, NULL},
    {"out", "bf16", FOUR_WARPS " persistent", 320, 640, 128, 64, 64, 64, 2,
     ONE, COLUMNS, true, true, "", "", 4, false, 0.01, "tma"},
    {"out_edges", "f16", EIGHT_WARPS, 200, 168, 64, 128, 128, 64, 1,
     TWO, COLUMNS, false, false, "", "", 2, false, 0.002, "tma"},
    {"out_rows", "bf16", EIGHT_WARPS, 300, 192, 64, 128, 96, 64, 1,
     TWO, COLUMNS, true, true, "", "", 0, true, 0.01, "tma"},
    {"out_halves", "bf16", EIGHT_WARPS, 128, 256, 64, 64, 128, 64, 1,
     ONE, "r t0 t1 r r r t7", true, true, "", "", 0, false, 0.01, "tma"},
    {"out_tall", "bf16", EIGHT_WARPS, 256, 32, 64, 256, 32, 64, 1,
     TWO " r", COLUMNS, true, true, "", "", 0, false, 0.01, "threads 16"},
    {"turns", "bf16", BY_TURNS, 320, 192, 320, 64, 64, 64, 2, ONE, COLUMNS, true, true, "", "", 2, false, 0.01, NULL},
    {"turns_out", "f16", BY_TURNS, 192, 320, 192, 64, 64, 64, 3,
     ONE, COLUMNS, true, false, "", "", 2, false, 0.002, "tma"},
    {"turns_threads", "bf16", BY_TURNS, 256, 160, 64, 128, 32, 64, 1,
     ONE " r", COLUMNS, false, true, "", "", 2, false, 0.01, "threads 16"},
    {"turns_tf32", "f32", BY_TURNS, 128, 320, 96, 64, 64, 32, 4,
     ONE, COLUMNS, false, true, "", "", 2, false, 0.02, NULL},
    {"turns_rows", "bf16", BY_TURNS, 900, 192, 128, 64, 96, 64, 2,
     ONE, COLUMNS, true, true, "", "", 0, true, 0.01, "tma"},
    {"turns_three", "bf16", "threads 128 alternate 3 producer 32 persistent", 320, 192, 192, 64, 64, 64, 4,
     ONE " order 2", COLUMNS, true, true, "", "", 2, false, 0.01, "tma"},
    {"turns_pairs", "bf16", BY_TURNS, 320, 512, 192, 64, 128, 64, 3,
     ONE " order 4", COLUMNS " cluster 2", true, true, "multicast", "", 2, false, 0.01, "tma"},
};
/* clang-format on */

static void products(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (getenv("HOPPER_FORM") && strcmp(getenv("HOPPER_FORM"), forms[i].name)) continue;
        check_form(&forms[i]);
    }
}

/* Heads between batch and time: an axis of the tile is two of the memory, on the way in and out. */
static void divided_axes(void **state) {
    (void)state;
    check_kernel("kernel @heads(%x: bf16[2,3,128,64], %w: bf16[192,128], %y: bf16[2,2,128,64] out)\n"
                 "  threads 128 producer 128 persistent\n"
                 "  grid m in 0..256 step 64 spread t2 t3 t4 r t5 t6\n"
                 "  grid n in 0..128 step 128 spread r t0 t1\n"
                 "  loop k in 0..192 step 64\n"
                 "  %0 = full 0 : f32[m:64,n:128]\n"
                 "  %7 = for k ahead 2 carry %1 = %0 {\n"
                 "    %2 = load %x[m / 128, k / 64, m mod 128, k mod 64] : bf16[m:64,k:64]\n"
                 "    %3 = stage %2 -> shared minor k swizzle 128 by tma : bf16[m:64,k:64]\n"
                 "    %4 = load %w[k, n] : bf16[n:128,k:64]\n"
                 "    %5 = stage %4 -> shared minor n swizzle 128 by tma : bf16[n:128,k:64]\n"
                 "    %6 = dot %3, %5, %1 over k by wgmma : f32[m:64,n:128]\n"
                 "    yield %6\n  }\n"
                 "  %8 = cast %7 : bf16[m:64,n:128]\n"
                 "  %9 = stage %8 -> shared minor n swizzle 128 : bf16[m:64,n:128]\n"
                 "  store %y[m / 128, n / 64, m mod 128, n mod 64], %9 by tma\n",
                 NULL, 0.01, 2.0 * 256 * 128 * 192);
}

/* Groups that alternate have scratch and a barrier of their own: the sums of both are under way at once. */
static void sums_by_turns(void **state) {
    (void)state;
    check_kernel("kernel @sums(%x: bf16[20,64,64], %w: bf16[64,64], %y: f32[20,64] out, %z: bf16[20,64,64] out)\n"
                 "  " BY_TURNS "\n"
                 "  grid b in 0..20 step 1\n"
                 "  grid m in 0..64 step 64 spread " ONE "\n"
                 "  grid n in 0..64 step 64 spread " COLUMNS "\n"
                 "  loop k in 0..64 step 64\n"
                 "  %0 = full 0 : f32[b:1,m:64,n:64]\n"
                 "  %7 = for k ahead 1 carry %1 = %0 {\n"
                 "    %2 = load %x[b, m, k] : bf16[b:1,m:64,k:64]\n"
                 "    %3 = stage %2 -> shared minor k swizzle 128 by tma : bf16[b:1,m:64,k:64]\n"
                 "    %4 = load %w[n, k] : bf16[n:64,k:64]\n"
                 "    %5 = stage %4 -> shared minor k swizzle 128 by tma : bf16[n:64,k:64]\n"
                 "    %6 = dot %3, %5, %1 over k by wgmma : f32[b:1,m:64,n:64]\n"
                 "    yield %6\n  }\n"
                 "  %8 = sum %7 over m : f32[b:1,n:64]\n"
                 "  store %y[b, n], %8\n"
                 "  %9 = mul %7, %8 : f32[b:1,m:64,n:64]\n"
                 "  %10 = cast %9 : bf16[b:1,m:64,n:64]\n"
                 "  %11 = stage %10 -> shared minor n swizzle 128 : bf16[b:1,m:64,n:64]\n"
                 "  store %z[b, m, n], %11 by tma\n",
                 NULL, 0.02, 2.0 * 20 * 64 * 64 * 64);
}

/* A turn without products ends too. */
static void sums_of_any_length(void **state) {
    (void)state;
    for (int32_t s = 1; s <= 193; s += 96)
        check_kernel("kernel @any<S<=193>(%x: bf16[640,S-1<=192], %w: bf16[64,S-1<=192], %y: f32[640,64] out)\n"
                     "  " BY_TURNS "\n"
                     "  grid m in 0..640 step 64 spread " ONE "\n"
                     "  grid n in 0..64 step 64 spread " COLUMNS "\n"
                     "  loop k in 0..S-1<=192 step 64\n"
                     "  %0 = full 0 : f32[m:64,n:64]\n"
                     "  %7 = for k ahead 2 carry %1 = %0 {\n"
                     "    %2 = load %x[m, k] : bf16[m:64,k:64]\n"
                     "    %3 = stage %2 -> shared minor k swizzle 128 by tma : bf16[m:64,k:64]\n"
                     "    %4 = load %w[n, k] : bf16[n:64,k:64]\n"
                     "    %5 = stage %4 -> shared minor k swizzle 128 by tma : bf16[n:64,k:64]\n"
                     "    %6 = dot %3, %5, %1 over k by wgmma : f32[m:64,n:64]\n"
                     "    yield %6\n  }\n"
                     "  store %y[m, n], %7\n",
                     &s, 0.01, 2.0 * 640 * 64 * padded(s - 1, 64));
}

static int occurrences(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

/* What no schedule of a right kernel can show: nobody goes through the loop before its turn.  Beside the ring's two
 * waits there is one, and beside what gives its slots back one arrival. */
static void waits_for_turns(void **state) {
    (void)state;
    for (int n = 0; n < (int)(sizeof forms / sizeof *forms); n++) {
        Arena *a = arena_new();
        GpuCase c;
        if (strcmp(forms[n].name, "walk") && strcmp(forms[n].name, "turns")) continue;
        const int turns = forms[n].name[0] == 't';
        gpu_open(&c, a, parse_kernel(a, product_text(a, &forms[n])), "sm_90a", NULL);
        assert_int_equal(occurrences(c.ptx, "mbarrier.try_wait"), 2 + turns);
        assert_int_equal(occurrences(c.ptx, "mbarrier.arrive.shared"), 2 + turns);
        free(c.ptx);
        arena_free(a);
    }
}

/* ---- convolutions -------------------------------------------------------------------------------------------------- */
/* Two images of 5 x 6 pixels with 64 channels under a window of 3 x 3, padded by one. */
#define WINDOW(rows, bound, step, channels)                                                                              \
    "kernel @window(%x: bf16[2,5,6,64], %w: bf16[576,64], %y: f32[60,64] out)\n"                                        \
    "  threads 128 producer 128\n"                                                                                      \
    "  grid m in 0..60 step 64 spread t2 t3 t4 r t5 t6\n"                                                               \
    "  grid n in 0..64 step 64 spread r t0 t1\n"                                                                        \
    "  loop k in 0..576 step 64\n"                                                                                      \
    "  %0 = full 0 : f32[m:64,n:64]\n"                                                                                  \
    "  %19 = for k ahead 2 carry %1 = %0 {\n"                                                                           \
    "    %2 = index " bound " : i32\n    %3 = const 0 : i32\n    %4 = index 6 : i32\n"                                 \
    "    %5 = index " rows " : i32[m:64,k:64]\n"                                                                        \
    "    %6 = lt %5, %2 : bool[m:64,k:64]\n    %7 = ge %5, %3 : bool[m:64,k:64]\n"                                      \
    "    %8 = index " step "*(m mod 6) + (k / 64) mod 3 - 1 : i32[m:64,k:64]\n"                                         \
    "    %9 = lt %8, %4 : bool[m:64,k:64]\n    %10 = ge %8, %3 : bool[m:64,k:64]\n"                                     \
    "    %11 = and %6, %7 : bool[m:64,k:64]\n    %12 = and %9, %10 : bool[m:64,k:64]\n"                                 \
    "    %13 = and %11, %12 : bool[m:64,k:64]\n"                                                                        \
    "    %14 = load %x[m / 30, " rows ", " step "*(m mod 6) + (k / 64) mod 3 - 1, " channels "] where %13 else 0"         \
    " : bf16[m:64,k:64]\n"                                                                                              \
    "    %15 = stage %14 -> shared minor k swizzle 128 by tma : bf16[m:64,k:64]\n"                                      \
    "    %16 = load %w[k, n] : bf16[n:64,k:64]\n"                                                                       \
    "    %17 = stage %16 -> shared minor n swizzle 128 by tma : bf16[n:64,k:64]\n"                                      \
    "    %18 = dot %15, %17, %1 over k by wgmma : f32[m:64,n:64]\n"                                                     \
    "    yield %18\n  }\n"                                                                                             \
    "  store %y[m, n], %19\n"
#define ROWS "(m / 6) mod 5 + k / 192 - 1"

/* Pixels beyond the edge read as 0, images follow one another. */
static void windows(void **state) {
    (void)state;
    check_kernel(WINDOW(ROWS, "5", "1", "k mod 64"), NULL, 0.01, 2.0 * 64 * 64 * 576);
}

static const char *replaced(Arena *a, const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    if (!at) return text;
    return arena_printf(a, "%.*s%s%s", (int)(at - text), text, to, replaced(a, at + strlen(from), from, to));
}

/* Of 32 channels: two elements of the window beside one another in a tile.  Past the last one zeros are summed, not what lies
 * there, which may be infinite. */
static void window_panels(void **state) {
    enum { PLACE = ((4 * 6) + 3) * 32 + 7, INFINITE = 0x7f80 };
    (void)state;
    Arena *a = arena_new();
    const char *text = WINDOW("(m / 6) mod 5 + k / 96 - 1", "5", "1", "k mod 32"), *why;
    text = replaced(a, replaced(a, text, "576", "288"), "(k / 64)", "(k / 32)");
    text = replaced(a, replaced(a, text, "[2,5,6,64]", "[2,5,6,32]"), "minor k swizzle 128", "minor k swizzle 64");
    GpuCase c;
    gpu_open(&c, a, parse_kernel(a, text), "sm_90a", NULL);
    ((uint16_t *)c.want[0].data)[PLACE] = INFINITE; /* x, as both sides read it */
    if (!kernel_run(a, c.k, c.want, NULL, &why)) fail_msg("%s", why);
    assert_int_equal(gpu_count(&c).shared_conflicts, 0);
    gpu_check_numbers(&c, 0.01);
    for (int seed = 2; seed <= SCHEDULES; seed++) assert_int_equal(gpu_run(&c, seed), 0);
    free(c.ptx);
    arena_free(a);
}

/* What is no window of whole panels is not fetched as one. */
static void no_windows(void **state) {
    (void)state;
    static const char *const texts[] = {
        WINDOW(ROWS, "5", "1", "k mod 64"),
        WINDOW(ROWS, "4", "1", "k mod 64"),                        /* the mask leaves out a row that there is */
        WINDOW(ROWS, "5", "9", "k mod 64"),                        /* longer steps than there are */
        WINDOW(ROWS, "5", "1", "k mod 32"),                        /* a panel holds 32 channels twice */
        WINDOW("(m / 6) mod 5 + k / 32 - 1", "5", "1", "k mod 64"), /* and here two elements of the window */
        WINDOW("(m / 12) mod 5 + k / 192 - 1", "5", "1", "k mod 64"), /* pixels are left out */
        WINDOW("(m / 6) mod 5 + 199*(k / 192) - 199", "5", "1", "k mod 64"), /* too far away */
    };
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        Arena *a = arena_new();
        const char *error = NULL;
        TensorMap map;
        const Kernel *k = kernel_parse(a, texts[n], &error);
        if (!k) fail_msg("%d: %s", (int)n, error);
        const Inst *stage = block_definition(&k->body, 15);
        if (n ? !kernel_tensor_map(k, stage, &map) : kernel_tensor_map(k, stage, &map) != NULL) fail_msg("text %d", (int)n);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),           cmocka_unit_test(divided_axes),    cmocka_unit_test(sums_by_turns),
        cmocka_unit_test(sums_of_any_length), cmocka_unit_test(waits_for_turns), cmocka_unit_test(windows),
        cmocka_unit_test(window_panels),      cmocka_unit_test(no_windows)};
    return cmocka_run_group_tests(tests, gpu_setup, scratch_remove);
}
