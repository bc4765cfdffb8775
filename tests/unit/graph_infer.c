/* Shape and dtype rules: what each op refuses, in its own words.  (What it accepts: graph_eval.c.) */
#include "ir/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char head[] =
    "graph @m entry=infer { dim S <= 8 dim T <= 4 hyper \"h\" = 0\n"
    "%0 = const 0 : f32[2,3] %1 = const 0 : i32[2,3] %2 = const 0 : bool[2,3] %3 = const 0 : f32[S,T] "
    "%4 = const 0 : i32[] %5 = const 0 : f32[] %6 = const 0 : f32[3] %7 = const 0 : f64[2,3]\n"
    "%8 = const 0 : i32[1,1,1,1,1,1,1,1,1,1] %9 = const 0 : f32[1099511627776,65536] %10 = const 0 : f32[S] "
    "%11 = const 0 : f32[1,1,1,1,1,1,1,1,1]\n";

static const struct {
    const char *node, *why;
} cases[] = {
    {"hyper \"h\" : i32[]", "hyper: must be floating"},
    {"step : f32[]", "step: must be i32, not f32"},
    {"step : i32[2]", "the result is i32[]"},
    {"extent S : bool[]", "extent: must be i32, not bool"},
    {"iota axis 0 : f32[3]", "iota: must be i32, not f32"},
    {"iota axis 1 : i32[3]", "iota: no axis 1"},
    {"random %4, %5 stream 0 : f32[3]", "random: seed and step must be i32 scalars"},
    {"random %4, %4 stream 0 : i32[3]", "random: must be floating, not i32"},
    {"const 0 : f32[1048576,1048576,65537]", "const: too many elements"},
    {"concat %9, %9 axis 0 : f32[1]", "concat: bad extent of axis 0"},
    {"neg %2 : bool[2,3]", "neg: operand must be a number, not bool"},
    {"exp %1 : i32[2,3]", "exp: operand must be floating, not i32"},
    {"pow %1, %1 : i32[2,3]", "pow: operand must be floating, not i32"},
    {"not %0 : bool[2,3]", "not: operand must be bool, not f32"},
    {"and %1, %1 : bool[2,3]", "and: operand must be bool, not i32"},
    {"lt %2, %2 : bool[2,3]", "lt: operand must be a number, not bool"},
    {"add %0, %7 : f32[2,3]", "add: operands are f32 and f64"},
    {"add %0, %6 : f32[2,3]", "add: operands are [2,3] and [3]"},
    {"eq %0, %0 : f32[2,3]", "the result is bool[2,3]"},
    {"select %0, %0, %0 : f32[2,3]", "select: condition must be bool, not f32"},
    {"select %2, %0, %1 : f32[2,3]", "select: operands are f32 and i32"},
    {"select %2, %6, %6 : f32[3]", "select: operands are [2,3] and [3]"},
    {"philox %1, %1, %1, %1 : f32[2,3]", "philox: belongs to Tile IR"},
    {"reshape %0 : f32[7]", "reshape: [2,3] and [7] differ in elements"},
    {"reshape %3 : f32[32]", "reshape: [S<=8, T<=4] and [32] differ in elements"},
    {"transpose %0 [0] : f32[2]", "transpose: 1 axes for rank 2"},
    {"transpose %0 [0, 2] : f32[2,3]", "transpose: axes are no permutation"},
    {"broadcast %6 [] : f32[3]", "broadcast: 0 axes for rank 1"},
    {"broadcast %0 [1, 0] : f32[3,2]", "broadcast: axes must increase and lie in the result"},
    {"broadcast %6 [2] : f32[2,3]", "broadcast: axes must increase and lie in the result"},
    {"broadcast %6 [0] : f32[2,3]", "broadcast: [3] does not fit [2,3]"},
    {"slice %6 [0:1:0] : f32[1]", "slice: step 0"},
    {"slice %6 [0:-1] : f32[1]", "slice: axis 0: bad start or length"},
    {"slice %6 [1:3] : f32[3]", "slice: axis 0 reads outside [3]"},
    {"slice %6 [-1:1] : f32[1]", "slice: axis 0 reads outside [3]"},
    {"slice %6 [1:3:-1] : f32[3]", "slice: axis 0 reads outside [3]"},
    {"slice %10 [2:3] : f32[3]", "slice: axis 0 reads outside [S<=8]"}, /* not for S < 5 */
    {"slice %10 [1:S] : f32[S]", "slice: axis 0 reads outside [S<=8]"},
    {"slice %10 [0:T] : f32[T]", "slice: axis 0: two symbols"},
    {"pad %6 [-1:0] value 0 : f32[2]", "pad: axis 0: bad width"},
    {"pad %6 [0:S] value 0 : f32[S + 3]", "pad: axis 0: bad width"},
    {"concat %0, %0 axis 2 : f32[2,3]", "concat: no axis 2"},
    {"concat %0, %6 axis 0 : f32[3,3]", "concat: operand 1 does not fit the first"},
    {"concat %0, %7 axis 0 : f32[4,3]", "concat: operand 1 does not fit the first"},
    {"concat axis 0 : f32[4,3]", "concat: takes 1 operands, not 0"},
    {"slice_at %5, %4 rows 1 : f32[]", "slice_at: needs an axis"},
    {"slice_at %6, %5 rows 1 : f32[1]", "slice_at: start must be an i32 scalar"},
    {"slice_at %6, %4 rows -1 : f32[0]", "slice_at: bad extent of axis 0"},
    {"update_at %0, %6, %4 : f32[2,3]", "update_at: ranks differ or are 0"},
    {"update_at %0, %1, %4 : f32[2,3]", "update_at: dtypes differ"},
    {"update_at %0, %0, %6 : f32[2,3]", "update_at: start must be an i32 scalar"},
    {"update_at %3, %0, %4 : f32[S,T]", "update_at: the part's rows differ from the tensor's"},
    {"sum %2 [0] : bool[3]", "sum: operand must be a number, not bool"},
    {"sum %0 [0, 0] : f32[3]", "sum: axes must increase and exist"},
    {"sum %6 [0, 1] : f32[]", "sum: too many axes"},
    {"argmax %0 [0] : f32[3]", "the result is i32[3]"},
    {"scan %0 sum axis 2 : f32[2,3]", "scan: no axis 2"},
    {"scan %0 recurrence axis 0 : f32[2,3]", "scan: takes 2 operands, not 1"},
    {"scan %0, %0 prod axis 0 : f32[2,3]", "scan: takes 1 operands, not 2"},
    {"scan %0, %6 recurrence axis 0 : f32[2,3]", "scan: has operands of different types"},
    {"scan %0, %0 recurrence axis 0 exclusive : f32[2,3]", "scan: is of floats and not exclusive, where it is linear"},
    {"contract %2[i, j] -> [i:2] sum [j:3] : bool[2]", "contract: operand must be a number, not bool"},
    {"contract %0[i, j], %1[i, j] -> [i:2] sum [j:3] : f32[2]", "contract: dtypes of operands differ"},
    {"contract %6[(i) / 0] -> [i:2] : f32[2]", "contract: divisor must be at least 1"},
    {"contract %6[i] -> [i:2, j:-1] : f32[2,0]", "contract: bad extent of loop 1"},
    {"contract %6[i] -> [i:1048576] sum [j:1048576, k:1048576, l:16] : f32[1048576]", "contract: too many terms"},
    {"contract %6[1152921504606846976*i + 1] -> [i:2] : f32[2]", "contract: an index can overflow"},
    {"contract %6[i] -> [i:2] where (i) / 2 == 0 : f32[2]", "contract: an equality has no divisor"},
    {"contract %6[i] -> [i:2] where -1099511627777 <= i < 2 : f32[2]", "contract: bad end of guard 0"},
    {"contract %5[] -> [i:1, j:1, k:1, l:1, m:1, n:1, o:1, p:1, q:1, r:1, s:1] : f32[]", "contract: 11 output loops"},
    {"gather %6, %6 : f32[3]", "gather: ids must be i32, not f32"},
    {"gather %5, %4 : f32[]", "gather: the table needs an axis"},
    {"gather %0, %8 : f32[]", "gather: more than 10 axes"},
    {"scatter %2, %4 rows 2 : bool[2,2,3]", "scatter: operand must be a number, not bool"},
    {"scatter %0, %6 rows 2 : f32[2]", "scatter: ids must be i32, not f32"},
    {"scatter %6, %1 rows 2 : f32[2]", "scatter: ids have more axes than updates"},
    {"scatter %8, %4 rows 2 : i32[2]", "scatter: more than 10 axes"},
    {"scatter %3, %1 rows 2 : f32[2]", "scatter: ids [2,3] do not lead updates [S<=8, T<=4]"},
    {"scatter %0 rows 2 : f32[2]", "scatter: takes updates, ids and perhaps their buckets"},
    {"scatter %0, %1, %1 rows 2 : f32[2]", "scatter: the third operand is not 9 buckets"},
    {"scatter_max %0, %6 rows 2 : f32[2]", "scatter_max: ids must be i32, not f32"},
    {"scatter_argmax %2, %4 rows 2 : i32[2,2,3]", "scatter_argmax: operand must be a number, not bool"},
    {"bucket %0 rows 2 : i32[9]", "bucket: ids must be i32, not f32"},
    {"bucket %1 rows S : i32[9]", "bucket: ids and rows need fixed extents"},
    {"gradient %0, %0 : f32[2,3]", "gradient: of a floating scalar only"},
    {"gradient %4, %0 : f32[2,3]", "gradient: of a floating scalar only"},
    {"gradient %5, %1 : i32[2,3]", "gradient: operand must be floating, not i32"},
    {"vjp %0, %0, %6 : f32[2,3]", "vjp: the third operand must be like the first"},
    {"vjp %4, %0, %4 : f32[2,3]", "vjp: of a floating value only"},
    {"jacobian %0, %1 : f32[2,3,2,3]", "jacobian: dtypes differ"},
    {"jacobian %1, %1 : i32[2,3,2,3]", "jacobian: operand must be floating, not i32"},
    {"jacobian %0, %0 batch 2 : f32[2,3,3]", "jacobian: no axis 2"},
    {"jacobian %0, %6 batch 0 : f32[2,3]", "jacobian: extents of the batch differ"},
    {"jacobian %11, %0 : f32[]", "jacobian: more than 10 axes"},
};

static void refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Arena *a = arena_new();
        const char *error = NULL, *want = arena_printf(a, "4:7: %s", cases[i].why);
        if (graph_parse(a, arena_printf(a, "%s%%12 = %s }", head, cases[i].node), &error))
            fail_msg("%s", cases[i].node);
        if (strcmp(error, want) != 0) fail_msg("%s\n%s", cases[i].node, error);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
