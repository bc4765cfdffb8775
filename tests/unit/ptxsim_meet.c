/* Operations among the lanes of a warp that stand at different places of the code: the results that the PTX ISA gives,
 * and findings where lanes never come or execute another operation. */
#include "ptxsim_pairs.h"

/* %r2 the lane; %p1 lanes 0 to 8, %p2 the odd ones.  A wrong value ends in a trap. */
#define KERNEL(body)                                                                                                   \
    ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{\n"                    \
    ".reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .pred %p<9>;\n"                                                          \
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %laneid; setp.lt.u32 %p1, %r2, 9; and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 1;\n" \
    "mov.b32 %r4, 0; mov.b32 %r5, 0;\n" body "\nret;\n}\n"
#define ARMS(then, other) "@%p1 bra THEN;\n" other "\nbra DONE;\nTHEN: " then "\nDONE:\n"
/* Four groups, in two branches of a branch. */
#define NESTED(a, b, c, d)                                                                                             \
    "@%p1 bra THEN;\n@%p2 bra ODD;\n" a "\nbra MORE;\nODD: " b "\nMORE: add.u32 %r5, %r5, 100;\nbra DONE;\n"           \
    "THEN: @%p2 bra BOTH;\n" c "\nbra LESS;\nBOTH: " d "\nLESS: add.u32 %r5, %r5, 200;\nDONE:\n"
#define WANT(register, value) "setp.ne.u32 %p5, " register ", " value "; @%p5 trap;\n"
#define REVERSED "sub.u32 %r6, 31, %r2;\n"

static const Pair PAIRS[] = {
    {"shfl of both arms", NULL, /* each arm with registers of its own */
     KERNEL(REVERSED "add.u32 %r7, %r2, 50; mov.b32 %r8, %r2;\n"
            ARMS("shfl.sync.idx.b32 %r4, %r7, %r6, 31, -1; sub.u32 %r4, %r4, 50; add.u32 %r4, %r4, 50;",
                 "shfl.sync.idx.b32 %r9|%p6, %r8, %r6, 31, -1; sub.u32 %r4, %r9, 50; @!%p6 trap;")
            /* lanes 0 to 8 brought lane + 50, the others the lane: who reads from which arm */
            "setp.gt.u32 %p3, %r2, 22; selp.b32 %r10, 0, -50, %p3; selp.b32 %r10, %r10, 0, !%p1;\n"
            "add.u32 %r10, %r10, %r6;" WANT("%r4", "%r10"))},
    {"shfl of both arms, other modes", "missing-lanes",
     KERNEL(ARMS("shfl.sync.up.b32 %r4, %r2, 1, 0, -1;", "shfl.sync.down.b32 %r4, %r2, 1, 31, -1;"))},
    {"shfl of both arms, other sets", "missing-lanes",
     KERNEL(ARMS("shfl.sync.idx.b32 %r4, %r2, 0, 31, -1;", "shfl.sync.idx.b32 %r4, %r2, 9, 31, 0xfffffe01;"))},
    {"vote of both arms", NULL,
     KERNEL(ARMS("vote.sync.ballot.b32 %r4, %p1, -1;", "vote.sync.ballot.b32 %r4, %p2, -1;") WANT("%r4", "0xaaaaabff"))},
    {"vote of one arm, any of the other", "missing-lanes",
     KERNEL(ARMS("vote.sync.all.pred %p6, %p1, -1;", "vote.sync.any.pred %p6, %p2, -1;"))},
    {"redux of four places", NULL,
     KERNEL(NESTED("redux.sync.add.u32 %r4, %r2, -1;", "redux.sync.add.u32 %r4, 1, -1;",
                   "redux.sync.add.u32 %r4, %r2, -1;", "redux.sync.add.u32 %r4, %r3, -1;")
            WANT("%r4", "256") /* 220 of even lanes from 10 on, 12 odd ones, 20 of even ones below, 4 odd ones */)},
    {"redux of three places of four", "missing-lanes",
     KERNEL(NESTED("redux.sync.add.u32 %r4, %r2, -1;", "redux.sync.add.u32 %r4, 1, -1;",
                   "redux.sync.add.u32 %r4, %r2, -1;", "add.u32 %r4, %r2, %r3;"))},
    {"redux, sums and maxima", "missing-lanes",
     KERNEL(ARMS("redux.sync.add.u32 %r4, %r2, -1;", "redux.sync.max.u32 %r4, %r2, -1;"))},
    {"match of both arms", NULL,
     KERNEL(ARMS("match.any.sync.b32 %r4, %r3, -1;", "match.any.sync.b32 %r4, 1, -1;")
            "selp.b32 %r6, 0xfffffeaa, 0x155, %p2; selp.b32 %r6, %r6, 0xfffffeaa, %p1;" WANT("%r4", "%r6"))},
    {"match of both arms, of other widths", "missing-lanes",
     KERNEL("mov.b64 %rd1, 1;" ARMS("match.any.sync.b32 %r4, %r3, -1;", "match.any.sync.b64 %r4, %rd1, -1;"))},
    {"elect of both arms", NULL,
     KERNEL(ARMS("elect.sync %r4|%p6, -1;", "elect.sync %r4|%p6, -1;")
            "setp.eq.u32 %p7, %r2, %r4; selp.b32 %r6, 1, 0, %p7; selp.b32 %r7, 1, 0, %p6;" WANT("%r6", "%r7"))},
    {"bar.warp.sync of four places", NULL,
     KERNEL(NESTED("bar.warp.sync -1;", "bar.warp.sync -1;", "bar.warp.sync -1;", "bar.warp.sync -1;"))},
    {"tiles of both arms", NULL, /* two sets, each with lanes on both sides */
     KERNEL("setp.lt.u32 %p3, %r2, 4; selp.b32 %r6, 0xf, 0xfffffff0, %p3; selp.b32 %r7, 6, 490, %p3;\n@%p2 bra THEN;\n"
            "redux.sync.add.u32 %r4, %r2, %r6; bra DONE;\nTHEN: redux.sync.add.u32 %r4, %r2, %r6;\nDONE:" WANT("%r4", "%r7"))},
    {"two guards", NULL,
     KERNEL("@%p1 vote.sync.ballot.b32 %r4, %p1, -1; @!%p1 vote.sync.ballot.b32 %r4, %p1, -1;" WANT("%r4", "0x1ff"))},
    {"two guards, and all in step again", NULL,
     KERNEL("@%p1 vote.sync.ballot.b32 %r4, %p1, -1; @!%p1 vote.sync.ballot.b32 %r4, %p1, -1;\n"
            "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r2;")},
    {"one guard", "missing-lanes", KERNEL("@%p1 vote.sync.ballot.b32 %r4, %p1, -1;")},
    {"a guard, and the others by an exit", NULL,
     KERNEL("@!%p1 exit; @%p1 vote.sync.ballot.b32 %r4, %p1, -1;" WANT("%r4", "0x1ff"))},
    {"lanes that leave a loop early", "missing-lanes", /* they take the next shuffle for that of the loop */
     KERNEL("LOOP: shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; add.u32 %r5, %r5, 8; setp.lt.u32 %p3, %r5, %r2; @%p3 bra LOOP;\n"
            "shfl.sync.bfly.b32 %r4, %r2, 2, 31, -1;")},
    {"a loop in step", NULL,
     KERNEL("LOOP: shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; add.u32 %r5, %r5, 8; setp.lt.u32 %p3, %r5, 31; @%p3 bra LOOP;\n"
            "shfl.sync.bfly.b32 %r4, %r2, 2, 31, -1; xor.b32 %r6, %r2, 2;" WANT("%r4", "%r6"))},
    {"a barrier of the block on the other side", "deadlock",
     KERNEL(ARMS("vote.sync.ballot.b32 %r4, %p1, -1;", "barrier.sync 0;"))},
};

static void lanes_meet(void **state) {
    (void)state;
    static const uint32_t in[1];
    run_pairs(PAIRS, sizeof PAIRS / sizeof *PAIRS, &(Setting){1, 64, in, sizeof in, 4});
}

int main(void) {
    driver_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_meet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
