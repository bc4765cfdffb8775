/* Extents and shapes.
 *
 * A dimension is fixed, or follows a bounded symbol S (`dim S <= 4096`): its run-time extent is
 * scale * S + offset, and `bound` is that value at the bound of S.  Memory is laid out at the
 * bound (strides are constants); masks and loop bounds follow the run-time extent. */
#ifndef FUSEC_IR_SHAPE_H
#define FUSEC_IR_SHAPE_H
#include "ir/arena.h"
#include <stdbool.h>
#include <stdint.h>

enum { MAX_RANK = 10, NO_SYM = -1 };
/* Past these a tensor is refused with a diagnostic.  Most values are computed where they are read, and reduced at once: they have no
 * memory, and may be larger than what has.  Bytes of a few of them fit an int64, those of a whole graph may not. */
#define MAX_ELEMENTS ((int64_t)1 << 40) /* of an extent, of what is declared, and of what lies in memory */
#define MAX_COMPUTED ((int64_t)1 << 50) /* of any value of a program */
#define MAX_ROUNDED (64 * MAX_COMPUTED) /* of any node of a graph: passes round extents up, to whole steps and slices */

typedef struct Dim {
    int64_t bound;         /* the extent, or its largest value */
    int64_t sym;           /* NO_SYM, or index into Model.syms */
    int64_t scale, offset; /* extent = scale * S + offset when sym != NO_SYM */
    const char *name;      /* for messages only: "B"; may be NULL; ignored by dim_equal */
} Dim;

typedef struct Shape {
    int rank;
    Dim dim[MAX_RANK];
} Shape;

static inline Dim dim_fixed(int64_t n) { return (Dim){.bound = n, .sym = NO_SYM}; }
static inline bool dim_equal(Dim a, Dim b) {
    if (a.bound != b.bound || a.sym != b.sym) return false;
    return a.sym == NO_SYM || (a.scale == b.scale && a.offset == b.offset);
}
static inline bool dim_is_fixed(Dim d) { return d.sym == NO_SYM; }
static inline bool dim_is_unit(Dim d) { return dim_is_fixed(d) && d.bound == 1; }
/* Is it 0 for some value of its symbol, which is 1 at least? */
static inline bool dim_may_be_empty(Dim d) { return d.bound < 1 || (!dim_is_fixed(d) && d.scale + d.offset < 1); }
/* scale and offset of an extent times / plus constants; of a product when one side is fixed. */
Dim dim_mul_const(Dim d, int64_t k);
Dim dim_add_const(Dim d, int64_t k);
bool dim_mul(Dim a, Dim b, Dim *out);    /* false when both are bounded */
bool dim_add(Dim a, Dim b, Dim *out);    /* false when they follow different symbols */
int64_t dim_at(Dim d, const int64_t *syms); /* the extent under the symbols' run-time values */
/* Do `n` elements from `lo` on, `step` (not 0) apart, lie inside an extent of x, whatever the value of the one symbol that all
 * three may follow (1 at least)?  No elements do. */
bool dim_part_inside(Dim x, Dim lo, Dim n, int64_t step);

Shape shape_make(int rank, const Dim *dims);
Shape shape_fixed(int rank, const int64_t *extents);
extern const Shape scalar_shape; /* rank 0, where one is pointed to */
static inline Shape shape_scalar(void) { return (Shape){.rank = 0}; }
/* Shapes are large: where many are compared, they are compared in place. */
static inline bool shape_same(const Shape *a, const Shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!dim_equal(a->dim[i], b->dim[i])) return false;
    return true;
}
static inline bool shape_equal(Shape a, Shape b) { return shape_same(&a, &b); }
bool shape_is_fixed(Shape s);
int64_t shape_elements(Shape s);              /* at the bound; 1 for a scalar */
bool shape_elements_checked(Shape s, int64_t *out); /* false past MAX_ROUNDED, or with an extent past MAX_ELEMENTS */
/* "[B=32, 8, S<=4096]" with names where known; "[32,8,4096]" without. */
char *shape_text(Arena *a, Shape s);

/* A reshape, group by group: dims [i0, i1) of `from` become [o0, o1) of `to`, the shortest runs that have equal products of bounds;
 * a dim of one element may have no partner.  Begin with zeros; false: there is no more. */
typedef struct ReshapeGroup {
    int i0, i1, o0, o1;
} ReshapeGroup;
bool reshape_next(const Shape *from, const Shape *to, ReshapeGroup *g);
/* No bounded dim is merged or split but as the outermost of its group, or there are no elements: only then it is a mapping of
 * indices.  What is said of others, and how to help it: */
bool reshape_fits(const Shape *from, const Shape *to);
extern const char reshape_refused[], reshape_remedy[];

#endif
