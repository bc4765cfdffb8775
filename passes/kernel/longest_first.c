/* Programs whose loops are longest begin first.
 *
 * Where a loop ends with the program's rows (a causal mask) programs take from one step to all of them, and a multiprocessor
 * that gets one of the longest when the others have none left goes on alone.  In order of decreasing length (LPT list scheduling:
 * Graham, SIAM J. Appl. Math. 17(2), 1969) little is left at the end: docs/gpu.md says what an H200 gained.  So programs are numbered by the axis along which the loops grow before all others, of as many places along
 * those at a time as have what they read in the L2 cache.
 *
 * Needs: the loops' bounds.  Keeps: every program; they write no element in common. */
#include "passes/kernel/emitter.h"

/* Half of the smallest L2 cache of a datacenter GPU since the A100, which has 40 MB. */
static const double CACHE_BYTES = 20e6;

/* How the loop grows with the tile of a grid axis: 0: not, as where its bounds leave out nothing unless an extent is small. */
static int64_t growth(const Kernel *k, const Inst *loop, int axis) {
    int64_t by = 0;
    if (kernel_loop_share(k, loop) >= 1) return 0;
    for (int end = 0; end < 2; end++) {
        const Index *x = end ? loop->to : loop->from;
        for (int t = 0; x && t < x->n; t++)
            if (x->term[t].atom.kind == ATOM_TILE && x->term[t].atom.id == axis) by += end ? x->term[t].coef : -x->term[t].coef;
    }
    return by;
}

/* The axis that all of the kernel's loops which grow do so along; -1: none, or they do not agree. */
static int growing_axis(const Kernel *k, bool *down) {
    int found = -1;
    for (int n = 0; n < k->body.n; n++)
        for (int x = 0; x < k->axes.n && k->body.at[n]->kind == TI_FOR; x++) {
            const int64_t by = k->axes.at[x].kind == AXIS_GRID ? growth(k, k->body.at[n], x) : 0;
            if (!by) continue;
            if (found >= 0 && (found != x || *down != (by > 0))) return -1;
            found = x, *down = by > 0;
        }
    return found;
}

static double read_bytes(const Kernel *k) {
    double all = 0;
    for (int b = 0; b < k->buffers.n; b++) {
        double n = k->buffers.at[b].written ? 0 : dtype_bytes(k->buffers.at[b].dtype);
        for (int d = 0; d < k->buffers.at[b].rank; d++) n *= (double)k->buffers.at[b].dim[d].bound;
        all += n;
    }
    return all;
}

void kernel_longest_first(Kernel *k) {
    bool down = false;
    double places = 1;
    const int axis = growing_axis(k, &down);
    if (axis < 0 || k->persistent || k->producer) return;
    for (int x = 0; x < k->axes.n; x++) {
        const Axis *a = &k->axes.at[x];
        if (a->cluster > 1 || a->order || a->family) return;
        if (a->kind == AXIS_GRID && x != axis) places *= (double)((a->extent.bound + a->step - 1) / a->step);
    }
    double near = places * CACHE_BYTES / (read_bytes(k) + 1);
    if (near > places) near = places;
    k->axes.at[axis].slowest = near < 1 ? 1 : near > 1 << 20 ? 1 << 20 : (int)near;
    k->axes.at[axis].down = down;
}
