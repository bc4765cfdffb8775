/* Every op's derivative against finite differences, driven from ops.def: an op without a case fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "tests/support/op_cases.h"

enum { SHAPES = 24 };

static void check_op(Op op, int trials, int moves) {
    for (int i = 0; i < trials; i++) {
        Rng rng = {.state = (uint64_t)op * 1000003 + (uint64_t)i};
        Trial t;
        Arena *a = arena_new();
        trial_init(&t, a, &rng);
        t.moves = moves;
        Node *y = op_case(&t, op);
        if (!y) fail_msg("op %s has a derivative but no case in op_cases.c", op_info[op].text);
        const char *why = gradcheck(&t, trial_loss(&t, y), NULL, 1e-6);
        if (why) fail_msg("%s, trial %d: %s", op_info[op].text, i, why);
        if (t.errors + t.warnings > 0) fail_msg("%s, trial %d: a report", op_info[op].text, i);
        arena_free(a);
    }
}

static int trials_of(Op op) { return op == OP_CONTRACT ? 400 : op == OP_SLICE ? 60 : SHAPES; }

static void every_op(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++)
        if (op_has_gradient((Op)op)) check_op((Op)op, trials_of((Op)op), 0);
}

static void every_op_behind_movement(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++)
        if (op_has_gradient((Op)op)) check_op((Op)op, trials_of((Op)op) / 2, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op),
        cmocka_unit_test(every_op_behind_movement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
