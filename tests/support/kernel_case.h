/* Kernels as text and data for them: what back ends are held to, one kernel at a time. */
#ifndef FUSEC_TESTS_KERNEL_CASE_H
#define FUSEC_TESTS_KERNEL_CASE_H
#include "ir/tile.h"

enum { MAX_BUFFERS = 16 }; /* of a kernel under test */

/* Kernels that every back end runs, in Tile IR. */
extern const char kernel_casts[];     /* between f32, i32 and bool, and select */
extern const char kernel_dropout[];   /* philox, and scalars as buffers without dimensions */
extern const char kernel_fibonacci[]; /* rotating carries: all are computed before any changes */
extern const char kernel_turns[];     /* tiles of a loop add to memory in a loop within, whose bound counts them */
extern const char kernel_swap[];      /* the load comes before the store to the same memory, its use after */
/* Softmax over up to `keys` streamed keys, `tile_rows` rows and `tile_keys` keys at a time: carried maximum, sum and
 * accumulator [6, dims], rescaled. */
char *kernel_attention(Arena *a, int keys, int dims, int tile_rows, int tile_keys);

/* The kernels of tests/golden/tile that run by themselves. */
enum { TILE_GOLDENS = 9 };
extern const char *const tile_goldens[TILE_GOLDENS];
char *tile_golden(Arena *a, int which); /* the text */

/* A kernel that the verifier accepts; anything else fails the test. */
Kernel *parse_kernel(Arena *a, const char *text);

/* Bytes from the buffer's first element to the end of its last, at the bounds; 0 for one without elements. */
int64_t buffer_bytes(const Buffer *b);
/* Numbers for tests of kernels, always the same ones: 24 bits each. */
void kernel_seed(uint32_t seed); /* 0 at first */
uint32_t kernel_random(void);
/* Element i of `data`: floats in [-2, 2), some of them whole (f16 and bf16: positive), integers in 0..3. */
void random_element(DType t, void *data, int64_t i);
/* Memory for a buffer, of exactly its size (at least one element), with random elements. */
void *random_buffer(Arena *a, const Buffer *b);
double buffer_element(const Buffer *b, const void *data, int64_t i); /* f16 and bf16: the bits */

/* Fills buffers at random: as they start, and as the interpreter leaves them. */
void kernel_expected(Arena *a, Kernel *k, const int64_t *syms, void **start, TileMemory *want);
/* How far an element may be from y. */
typedef double KernelTolerance(DType t, double y);
/* Fails, with `how`, where elements of the buffer are not equal within it. */
void compare_elements(const Kernel *k, const Buffer *b, const void *got, const void *want, KernelTolerance *tolerance,
                      const char *how);

/* Whether an elementwise op has operands of dtype t. */
bool op_takes(Op op, DType t);
/* Whether its float operand must not be negative. */
bool op_wants_positive(Op op, DType t);

#endif
