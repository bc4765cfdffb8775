/* What a core of a processor does for a product of tiles, and how long that takes: the cost model of tile sizes
 * (passes/kernel/tile_size.c) and of the forms of its code (codegen/schedule/forms.def).
 *
 * A core makes two multiply-adds and two loads of a vector each cycle.  The cycles of what lies beside them are measured by
 * `./dev bench gemm` and `./dev bench conv` on Zen 5; what they decide is which of two ways is faster, not by how much. */
#ifndef FUSEC_IR_HOST_WORK_H
#define FUSEC_IR_HOST_WORK_H

/* In vectors, but for the last two. */
typedef struct HostWork {
    double products, loads;   /* multiply-adds, and what is loaded for them from the innermost cache */
    double read;              /* of factors, from where they lie */
    double packed;            /* of these, copied in the order of memory */
    double evaluated;         /* packed through a loop nest: computed, or gathered from several axes */
    double transposed;        /* packed across the order of memory */
    double results;           /* of C, loaded and stored */
    double blocks, programs;  /* calls of a micro-kernel; programs that begin */
} HostWork;

static inline double host_cycles(HostWork w) {
    enum { READ = 1, PACK = 2, EVALUATE = 7, TRANSPOSE = 5, RESULT = 1, BLOCK = 12, ENTER = 2000 };
    const double busy = w.products > w.loads ? w.products : w.loads;
    return busy / 2 + READ * w.read + PACK * w.packed + EVALUATE * w.evaluated + TRANSPOSE * w.transposed +
           RESULT * w.results + BLOCK * w.blocks + ENTER * w.programs;
}

#endif
