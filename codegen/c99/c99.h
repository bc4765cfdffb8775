/* Tile IR -> readable C99.
 *
 * A unit collects kernels; printing it gives one C text: the helper functions the kernels call (arithmetic with the
 * semantics of ops.def, math functions of codegen/math) and one static function per kernel, which runs the whole
 * grid:
 *
 *     FUSEC_KERNEL linear_relu(const float *restrict x, const float *restrict w, float *restrict y, int32_t S)
 *
 * Pointers follow Kernel.buffers, run-time extents Kernel.sym_names.  The text is freestanding C99: <stdint.h>,
 * <stdbool.h>, no calls outside itself (a compiler may add memcpy and memset).  It gives the same bits on every
 * machine with IEEE single precision when compiled with -ffp-contract=off and FLT_EVAL_METHOD 0. */
#ifndef FUSEC_CODEGEN_C99_H
#define FUSEC_CODEGEN_C99_H
#include "ir/tile.h"

typedef struct C99Unit C99Unit;

C99Unit *c99_unit(Arena *a);

/* Adds kernel k as function `name` (a C identifier, unique in the unit; no keyword).  k must verify.
 * NULL, or why it cannot be written in C: a dtype that C99 lacks (f16, bf16), a transcendental in f64. */
const char *c99_kernel(C99Unit *u, Kernel *k, const char *name);

/* What a kernel keeps on the stack, the most of any: bytes of local arrays; variables, which a compiler holds in registers
 * or spills (those of a math function that it may inline, and room to align each array, included); arguments. */
typedef struct C99Stack {
    int64_t arrays, values, arguments;
} C99Stack;
C99Stack c99_stack(const C99Unit *u);

void c99_print(FILE *f, const C99Unit *u);

/* A C identifier from any text: letters, digits and _ stay, a leading digit gets a _, keywords a trailing _.
 * Distinct texts may give one identifier: the caller makes them unique (c99_unique). */
char *c99_identifier(Arena *a, const char *text);

/* Names in use; c99_unique() gives `wanted`, or with _2, _3, ... if that is taken, and takes it. */
typedef struct C99Names {
    const char **slot; /* a hash table; NULL: empty slot */
    int n_slots, n;    /* a power of two; names in it */
} C99Names;
const char *c99_unique(Arena *a, C99Names *names, const char *wanted);

/* `float` for DT_F32 and so on; in memory a bool is a uint8_t.  NULL if C99 has no such type. */
const char *c99_type(DType t, bool in_memory);

/* A literal that reads back as the nearest value of dtype t (infinities and NaN included). */
char *c99_literal(Arena *a, DType t, double v);

#endif
