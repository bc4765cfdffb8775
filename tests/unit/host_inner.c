/* The inner functions of the host's products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/host/channel_micro.h"
#include "codegen/host/direct_micro.h"
#include "codegen/host/micro.h"

/* Inner functions are made once per module and shape, and found again by name: shapes that differ in anything have two. */
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

/* The shape as it is, and with each of its fields set to something else. */
#define FIELD(f, make, shape, field, value) \
    do { \
        __typeof__(shape) other = shape; \
        other.field = value; \
        (f).fn[(f).n++] = make(&(f).e, other); \
    } while (0)

static void one_function_per_shape(void **state) {
    (void)state;
    Functions f = functions_open();
    MicroShape m = {.rows = 8, .vectors = 1, .lanes = 16, .x = X_ROWS, .x_row = 32, .y = Y_PACKED, .y_row = 48, .lines = {1, 1}};
    FIELD(f, micro_product, m, rows, 8);
    FIELD(f, micro_product, m, rows, 4);
    FIELD(f, micro_product, m, vectors, 2);
    FIELD(f, micro_product, m, lanes, 8);
    FIELD(f, micro_product, m, x, X_COLUMNS);
    FIELD(f, micro_product, m, x, X_AWAY);
    FIELD(f, micro_product, m, x_row, 48);
    FIELD(f, micro_product, m, y, Y_NEAR);
    FIELD(f, micro_product, m, y, Y_AWAY);
    FIELD(f, micro_product, m, y, Y_COPIED);
    FIELD(f, micro_product, m, y_row, 16);
    FIELD(f, micro_product, m, y_row, 32);
    FIELD(f, micro_product, m, y_row, 64);
    FIELD(f, micro_product, m, pairs, true);
    FIELD(f, micro_product, m, brief, true);
    FIELD(f, micro_product, m, masked, true);
    FIELD(f, micro_product, m, lines[0], 2);
    FIELD(f, micro_product, m, lines[1], 2);
    functions_close(&f);

    f = functions_open();
    DirectShape d = {.rows = 4, .vectors = 1, .lanes = 16, .x_row = 8, .x_step = 1, .c_row = 32};
    FIELD(f, direct_product, d, rows, 4);
    FIELD(f, direct_product, d, rows, 3);
    FIELD(f, direct_product, d, vectors, 2);
    FIELD(f, direct_product, d, lanes, 8);
    FIELD(f, direct_product, d, x_row, 16);
    FIELD(f, direct_product, d, x_step, 2);
    FIELD(f, direct_product, d, c_row, 48);
    FIELD(f, direct_product, d, taps, ((TapRows){.n = 2, .first = {0, 0}, .end = {4, 3}}));
    FIELD(f, direct_product, d, taps, ((TapRows){.n = 2, .first = {0, 1}, .end = {4, 4}}));
    FIELD(f, direct_product, d, pairs, true);
    functions_close(&f);

    f = functions_open();
    ChannelSide side = {.rows = 2, .taps = 3, .row = 1, .tap = 1, .x_row = 64, .x_tap = 64, .c_row = 64, .y_tap = 64, .sure_end = 4, .may_end = 4};
    ChannelShape c = {.side = {side, side}, .groups = {1, 1, 0, 1, 0}, .lanes = 16, .x_step = 64, .y_step = 64, .place_step = 1};
    FIELD(f, channel_product, c, lanes, 16);
    FIELD(f, channel_product, c, lanes, 8);
    FIELD(f, channel_product, c, fresh, true);
    FIELD(f, channel_product, c, loops, true);
    FIELD(f, channel_product, c, x_step, 128);
    FIELD(f, channel_product, c, y_step, 128);
    FIELD(f, channel_product, c, place_step, 2);
    FIELD(f, channel_product, c, x_ahead, 32);
    FIELD(f, channel_product, c, y_ahead, 32);
    for (int i = 0; i < 2; i++) {
        FIELD(f, channel_product, c, side[i].rows, 1);
        FIELD(f, channel_product, c, side[i].taps, 2);
        FIELD(f, channel_product, c, side[i].x_row, 128);
        FIELD(f, channel_product, c, side[i].x_tap, 128);
        FIELD(f, channel_product, c, side[i].c_row, 128);
        FIELD(f, channel_product, c, side[i].y_tap, 128);
    }
    functions_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_function_per_shape)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
