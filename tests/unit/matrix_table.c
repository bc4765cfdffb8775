/* Every tile of matrix_tiles.def with its factors in every orientation, in every precision, by the instructions of
 * sm_80 and of sm_90a, with and without sums over the tile: right numbers, no findings, no bank conflicts, whole
 * sectors, as many matrix operations as the tile has; and NVIDIA's assembler spills nothing, serialises no wgmma (C7510,
 * C7514, C7515) and ignores no setmaxnreg (C7508).  Of 16 schedules the first and each fifth, of bf16, f16 and tf32 one by turns; to
 * the assembler bf16 by wgmma and tf32 by mma, and no f16, whose instructions are those of bf16 but for the type;
 * FUSEC_SCHEDULES_EVERY=1, as in ./dev fuzz: all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/support/gpu_kernel.h"
#include "codegen/nvptx/nvptx.h"
#include "tests/support/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEDULES = 16, SECTOR = 32, ROUNDS = 3, ORIENTATIONS = 4 };
static const char *const types[] = {"bf16", "f16", "tf32"};
enum { TF32 = 2, TYPES = sizeof types / sizeof *types };

static bool every(void) { return getenv("FUSEC_SCHEDULES_EVERY") != NULL; }

static const char *arch_of(const MatrixTile *t) { return t->by == BY_WGMMA ? "sm_90a" : "sm_80"; }

static const char *name_of(Arena *a, const MatrixTile *t, const char *type, int turned, char summed) {
    return arena_printf(a, "%s_%s_%dx%d%s_%c%c%s%.1s", arch_of(t), type, t->rows, t->columns, t->alternate > 1 ? "_by_turns" : "",
                        turned & 1 ? 't' : 'n', turned >> 1 ? 't' : 'n', summed ? "_sum_" : "", &summed);
}

/* In two orientations the tiles are summed too, along either side. */
static char summed_in(int turned) { return turned == 2 ? 'm' : turned == 3 ? 'n' : 0; }

/* Programs of one block: where they alternate, two turns of the first and one of the others. */
static int programs_of(const MatrixTile *t) { return t->alternate > 1 ? t->alternate + 1 : 1; }

/* Whole tiles, three trips through the ring, or one more, so that other programs' slots are no whole rounds. */
static void check_counts(const MatrixTile *t, const char *type, int turned, char summed) {
    Arena *a = arena_new();
    const bool wide = !strcmp(type, "tf32");
    const int sum = (wide ? 16 : 32) * (t->by == BY_WGMMA || t->rows + t->columns <= 128 ? 2 : 1);
    const ProductKernel p = {
        name_of(a, t, type, turned, summed), type, programs_of(t) * t->rows, t->columns, (ROUNDS + (t->alternate > 1)) * sum, sum,
        turned & 1, turned >> 1, summed};
    const char *why;
    GpuCase c;
    Kernel *k = product_kernel(a, &p, t, arch_of(t), &why);
    if (!k) fail_msg("%s: %s", p.name, why);
    gpu_open(&c, a, k, arch_of(t), NULL);
    c.multiprocessors = 1;
    const ptxsim_kernel f = gpu_count(&c);
    gpu_check_numbers(&c, wide ? 0.02 : strcmp(type, "f16") ? 0.01 : 0.002);
    const double flops = 2.0 * p.m * p.n * p.k;
    const double done = (double)(f.matrix_flops_half + f.matrix_flops_tf32);
    if (done != flops || f.shared_conflicts || f.load_sectors * SECTOR > f.load_bytes ||
        f.store_sectors * SECTOR != f.store_bytes)
        fail_msg("%s: %.0f of %.0f operations, %d bank conflicts; %d bytes loaded in %d sectors, %d stored in %d",
                 p.name, done, flops, (int)f.shared_conflicts, (int)f.load_bytes, (int)f.load_sectors,
                 (int)f.store_bytes, (int)f.store_sectors);
    const int step = every() ? 1 : 5;
    for (int seed = 1 + step; seed <= SCHEDULES; seed += step) assert_int_equal(gpu_run(&c, seed), 0);
    gpu_check_numbers(&c, wide ? 0.02 : strcmp(type, "f16") ? 0.01 : 0.002);
    free(c.ptx);
    arena_free(a);
}

static bool tested(const MatrixTile *t, const char *type, int turned) {
    return t->by == BY_MMA || strcmp(type, "tf32") || turned >= 2; /* wgmma takes columns in tf32 along the sum alone */
}

/* By turns, of those that there are. */
static bool has_turn(int i, int turned, int type) {
    int turn = (i + turned) % TYPES;
    while (!tested(&matrix_tile[i], types[turn], turned)) turn = (turn + 1) % TYPES;
    return turn == type;
}

static void counts(void **state) {
    (void)state;
    for (int i = 0; i < n_matrix_tiles; i++)
        for (int type = 0; type < TYPES; type++)
            for (int turned = 0; turned < ORIENTATIONS; turned++)
                if (tested(&matrix_tile[i], types[type], turned) && (every() || has_turn(i, turned, type))) {
                    check_counts(&matrix_tile[i], types[type], turned, 0);
                    if (summed_in(turned)) check_counts(&matrix_tile[i], types[type], turned, summed_in(turned));
                }
}

/* ---- NVIDIA's assembler ---------------------------------------------------------------------------------------- */
/* The kernels of one instruction and type, with edges along rows and columns, in one file; how many there are. */
static int emit(Arena *a, By by, const char *type) {
    Module m = {.arena = a, .name = "tiles"};
    char *ptx = NULL, *error = NULL;
    for (int i = 0; i < n_matrix_tiles; i++)
        for (int turned = 0; turned < ORIENTATIONS; turned++) {
            const MatrixTile *t = &matrix_tile[i];
            const char *why;
            if (t->by != by || !tested(t, type, turned)) continue;
            const int sum = (strcmp(type, "tf32") ? 32 : 16) * (by == BY_WGMMA || t->rows + t->columns <= 128 ? 2 : 1);
            /* columns are the result's innermost dim, which is not summed; in tf32 rows may be */
            const bool sums_columns = summed_in(turned) == 'n' && strcmp(type, "tf32");
            for (int sums = 0; sums < 1 + (summed_in(turned) && !sums_columns); sums++) {
                const char summed = sums ? summed_in(turned) : 0;
                const ProductKernel p = {name_of(a, t, type, turned, summed), type, 1000, 2000, 768, sum, turned & 1, turned >> 1, summed};
                Kernel *k = product_kernel(a, &p, t, arch_of(t), &why);
                if (!k) fail_msg("%s: %s", p.name, why);
                vec_push(a, m.kernels, k);
            }
        }
    if (!nvptx_emit_ptx(&m, &(NvptxOptions){.arch = by == BY_WGMMA ? "sm_90a" : "sm_80"}, &ptx, &error))
        fail_msg("%s", error);
    write_text(arena_printf(a, "%s/tiles.ptx", scratch_folder()), ptx);
    free(ptx);
    return m.kernels.n;
}

static void check_assembled(By by, const char *type) {
    Arena *a = arena_new();
    const int kernels = emit(a, by, type);
    scratch_shell(a, arena_printf(a, "ptxas -v -arch=%s tiles.ptx -o tiles.cubin >log 2>&1 || { cat log; exit 1; }",
                                  by == BY_WGMMA ? "sm_90a" : "sm_80"));
    scratch_shell(a, arena_printf(a, "awk -v what=tiles -v kernels=%d -f " SOURCE_DIR "/tests/support/ptxas.awk log", kernels));
    arena_free(a);
}

static void assembled(void **state) {
    (void)state;
    if (!have_compiler("ptxas")) skip();
    for (int type = 0; type < TYPES; type++) {
        if (every() || type == TF32) check_assembled(BY_MMA, types[type]);
        if (every() || !strcmp(types[type], "bf16")) check_assembled(BY_WGMMA, types[type]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(assembled)};
    return cmocka_run_group_tests(tests, gpu_setup, scratch_remove);
}
