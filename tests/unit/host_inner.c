/* The micro-kernels of the host's products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/host/micro.h"

/* Micro-kernels are made once per module and shape, and found again: shapes that differ in anything have two. */
typedef struct Functions {
    Emit e;
    LLVMValueRef fn[64];
    int n;
} Functions;

static Functions functions_open(void) {
    Functions f = {0};
    emit_init(&f.e, "m");
    LLVMValueRef fn = LLVMAddFunction(f.e.module, "caller", LLVMFunctionType(f.e.none, NULL, 0, false));
    LLVMPositionBuilderAtEnd(f.e.b, LLVMAppendBasicBlockInContext(f.e.context, fn, "entry"));
    return f;
}

static void functions_close(Functions *f) {
    assert_true(f->n > 4);
    for (int i = 0; i < f->n; i++)
        for (int j = 0; j < i; j++)
            if (f->fn[i] == f->fn[j]) fail_msg("shapes %d and %d have one function", i, j);
    emit_free(&f->e);
}

/* A call with every argument of a matrix product; extra: one more, or MICRO_ARGS. */
static LLVMValueRef make(const Emit *e, MicroShape s, MicroArg extra) {
    LLVMValueRef arg[MICRO_ARGS] = {0}, p = LLVMConstNull(e->ptr), n = emit_i64(e, 1);
    arg[MICRO_X] = arg[MICRO_Y] = arg[MICRO_C] = p;
    for (int i = 0; i < s.levels; i++) arg[MICRO_COUNT + i] = n;
    for (int i = 0; i < 2 * MICRO_SIDES; i++) arg[MICRO_PLACES + i] = n;
    for (int i = 0; i < MICRO_WALKS; i++)
        if (s.lines[i]) arg[MICRO_WALK + 3 * i] = p, arg[MICRO_WALK + 3 * i + 1] = arg[MICRO_WALK + 3 * i + 2] = n;
    if (s.x.run || s.y.run) arg[MICRO_CHANNEL] = n;
    if (extra == MICRO_PACKED)
        arg[extra] = p;
    else if (extra < MICRO_ARGS)
        arg[extra] = n;
    return micro_product(e, "test", s, arg);
}

/* The shape with one of its fields set to something else. */
#define FIELD(f, shape, field, value)                                         \
    do {                                                                      \
        MicroShape other = shape;                                             \
        other.field = value;                                                  \
        (f).fn[(f).n++] = make(&(f).e, other, MICRO_ARGS);                    \
        assert_ptr_equal(make(&(f).e, other, MICRO_ARGS), (f).fn[(f).n - 1]); \
    } while (0)

static void matrix_products(void **state) {
    (void)state;
    Functions f = functions_open();
    const MicroShape m = {.side = {micro_rows(1, 0, 0), micro_rows(8, 32, 48)},
                          .vectors = 1,
                          .lanes = 16,
                          .x = {.step = {1, 8, 64}},
                          .y = {.step = {48, 96, 480}},
                          .groups = MICRO_NO_GROUPS,
                          .levels = 3,
                          .unroll = 1,
                          .lines = {1, 1}};
    FIELD(f, m, unroll, 1);
    FIELD(f, m, side[1], micro_rows(4, 32, 48));
    FIELD(f, m, side[1].x_row, 48);
    FIELD(f, m, side[1].c_row, 64);
    FIELD(f, m, vectors, 2);
    FIELD(f, m, lanes, 8);
    for (int i = 0; i < MICRO_LEVELS; i++) {
        FIELD(f, m, x.step[i], 2);
        FIELD(f, m, y.step[i], 16);
    }
    FIELD(f, m, x.raw, 1);
    FIELD(f, m, y.raw, 1);
    FIELD(f, m, y.steps_ahead, 20);
    FIELD(f, m, pairs, 1);
    FIELD(f, m, odd, 1);
    FIELD(f, m, levels, 1);
    FIELD(f, m, levels, 2);
    FIELD(f, m, unroll, 4);
    FIELD(f, m, fresh, 1);
    FIELD(f, m, brief, 1);
    FIELD(f, m, c_prefetched, 1);
    FIELD(f, m, lines[0], 2);
    FIELD(f, m, lines[1], 2);
    FIELD(f, m, taps, ((MicroTapRows){.n = 2, .first = {0, 0}, .end = {8, 3}}));
    FIELD(f, m, taps, ((MicroTapRows){.n = 2, .first = {0, 1}, .end = {8, 8}}));
    for (int i = 0; i < MICRO_LEVELS; i++)
        f.fn[f.n++] = make(&f.e, m, MICRO_X_STEP + i), f.fn[f.n++] = make(&f.e, m, MICRO_Y_STEP + i);
    f.fn[f.n++] = make(&f.e, m, MICRO_X_ROW);
    f.fn[f.n++] = make(&f.e, m, MICRO_C_ROW);
    f.fn[f.n++] = make(&f.e, m, MICRO_FRESH);
    f.fn[f.n++] = make(&f.e, m, MICRO_PACKED);
    f.fn[f.n++] = make(&f.e, m, MICRO_COLUMNS);
    functions_close(&f);
}

static void products_along_their_sums(void **state) {
    (void)state;
    Functions f = functions_open();
    const MicroShape m = {.side = {micro_rows(1, 0, 0), micro_rows(4, 32, 48)},
                          .vectors = 2,
                          .lanes = 16,
                          .x = {.vector = 1, .step = {16}},
                          .y = {.vector = 1, .step = {16}},
                          .groups = MICRO_NO_GROUPS,
                          .along = 1,
                          .levels = 1,
                          .unroll = 1};
    FIELD(f, m, along, 1);
    FIELD(f, m, side[1], micro_rows(3, 32, 48));
    FIELD(f, m, vectors, 4);
    FIELD(f, m, lanes, 8);
    f.fn[f.n++] = make(&f.e, m, MICRO_X_ROW);
    f.fn[f.n++] = make(&f.e, m, MICRO_Y_COLUMN);
    functions_close(&f);
}

static void products_channel_by_channel(void **state) {
    (void)state;
    Functions f = functions_open();
    const MicroSide side = {.rows = 2,
                            .taps = 3,
                            .row = 1,
                            .tap = 1,
                            .x_row = 64,
                            .x_tap = 64,
                            .c_row = 64,
                            .y_tap = 64,
                            .sure_end = 4,
                            .may_end = 4};
    const MicroShape c = {.side = {side, side},
                          .vectors = 1,
                          .lanes = 16,
                          .x = {.vector = 1, .step = {64}, .ahead = 64},
                          .y = {.step = {64}, .ahead = 64},
                          .groups = MICRO_NO_GROUPS,
                          .unroll = 1,
                          .levels = 1,
                          .place_step = 1};
    FIELD(f, c, lanes, 16);
    FIELD(f, c, lanes, 8);
    FIELD(f, c, fresh, 1);
    FIELD(f, c, levels, 0);
    FIELD(f, c, x.step[0], 128);
    FIELD(f, c, y.step[0], 128);
    FIELD(f, c, place_step, 2);
    FIELD(f, c, x.ahead, 32);
    FIELD(f, c, y.ahead, 32);
    FIELD(f, c, x.run, 64);
    FIELD(f, c, y.run, 64);
    FIELD(f, c, shift[0], 1);
    FIELD(f, c, shift[1], 1);
    FIELD(f, c, groups, ((MicroGroups){2, 2, 0, 2, 0}));
    FIELD(f, c, groups, ((MicroGroups){2, 2, 0, 1, 0}));
    FIELD(f, c, groups, ((MicroGroups){2, 2, 1, 1, 0}));
    FIELD(f, c, groups, ((MicroGroups){2, 2, 0, 2, 16}));
    FIELD(f, c, groups, ((MicroGroups){4, 2, 0, 2, 0}));
    for (int i = 0; i < 2; i++) {
        FIELD(f, c, side[i].rows, 1);
        FIELD(f, c, side[i].taps, 2);
        FIELD(f, c, side[i].row, 2);
        FIELD(f, c, side[i].tap, 2);
        FIELD(f, c, side[i].x_row, 128);
        FIELD(f, c, side[i].x_tap, 128);
        FIELD(f, c, side[i].c_row, 128);
        FIELD(f, c, side[i].y_tap, 128);
        FIELD(f, c, side[i].sure, 1);
        FIELD(f, c, side[i].sure_end, 3);
        FIELD(f, c, side[i].may_end, 3);
    }
    functions_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrix_products), cmocka_unit_test(products_along_their_sums),
                                       cmocka_unit_test(products_channel_by_channel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
