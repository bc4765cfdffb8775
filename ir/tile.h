/* Tile IR: one kernel language under all back ends.
 *
 * A kernel is a grid of independent programs.  Its index space is a set of named AXES.  A grid axis
 * is divided among programs, a loop axis is walked in order, a span axis lies whole inside one tile.
 * A tile value has a dtype and a set of axes; its element is identified by one index per axis, so
 * that transposition and broadcasting need no instruction: operands of an elementwise instruction
 * may have different axes, the result has their union.  Lanes past an axis's extent hold no value:
 * loads skip them, stores skip them, reductions leave them out.
 *
 *   kernel @linear_relu(%x: f32[64,784], %w: f32[784,256], %b: f32[256], %y: f32[64,256] out)
 *     grid m in 0..64 step 64
 *     grid n in 0..256 step 64
 *     loop k in 0..784 step 16
 *     %0 = full 0 : f32[m:64,n:64]
 *     %5 = for k carry %1 = %0 {
 *       %2 = load %x[m, k] : f32[m:64,k:16]
 *       %3 = load %w[k, n] : f32[k:16,n:64]
 *       %4 = dot %2, %3, %1 over k : f32[m:64,n:64]
 *       yield %4
 *     }
 *     %6 = load %b[n] : f32[n:64]
 *     %7 = add %5, %6 : f32[m:64,n:64]
 *     %8 = const 0 : f32
 *     %9 = max %7, %8 : f32[m:64,n:64]
 *     store %y[m, n], %9
 *
 * Accesses may be masked (`load %x[m] where %3 else 0`, `store %y[m], %4 where %3`), subscripts are
 * index expressions (`2*m + r - 1`, `(i + 3) / 4`, `i mod 8`, `%7{0..50}` for the element of an i32
 * value known to lie in 0..50, `@m` for the number of the tile at hand along grid or loop axis m, `S` or, where an axis has
 * the name, `$S` for a run-time extent); `%5 = if %4 init %0 { ... yield %3 }`; `bucket %t5, %ids over r`.  Run-time extents stand after the
 * name: `kernel @f<S<=64>(..)`, dimensions that follow them with their bound: `f32[2*S+1<=129,8]`; other strides than
 * dense ones as `strides [96,1]`.  A `#` line above is the comment.
 *
 * A kernel may be a FAMILY: equal kernels in one grid, whose axis marked `family` says which member a program belongs to.
 * A buffer that differs from member to member says `family 3`: it and the two after it are that buffer of the three;
 * instructions name the first.
 *
 * The scheduled level is the same text with decisions added.  They never change what a kernel computes; the
 * interpreter passes over them, the verifier checks that they can be met, a back end maps each to a fixed sequence:
 *   threads 256 [alternate 2] [producer 128] [registers 232:40] [persistent] [dependent]
 *                      threads that compute; so many groups of them in a block, each with a program of its own: they take
 *                      programs by turns, and so they go through the loops that fetch; behind them, threads that only
 *                      fetch; registers of a thread of either kind; programs are walked by a grid as large as the machine;
 *                      they wait themselves for the kernels that this one follows (programmatic dependent launch)
 *   grid m .. spread r r t0 t1
 *                      where each bit of the index within a tile lives, lowest first: register or thread bit
 *   grid m .. cluster 2
 *                      that many neighbouring programs along the axis share what is `multicast`
 *   grid m .. order 8  programs are numbered 8 tiles of the axis by 8, all of the axes inside it for each
 *   grid m .. slowest 64 [down]
 *                      of 64 places along the other axes at a time programs are numbered by this axis first, from its last
 *                      tile down: those whose loops are longest begin first
 *   for k from 64*@m to 64*@m + 64 ..
 *                      iterations whose tile lies before or after are left out: a mask makes that they change nothing; `%5` for
 *                      a scalar of the program
 *   for k ahead 3 ..   the stages in this body that say `by` run 3 iterations ahead, in a ring of 4 slots
 *   stage %x -> shared [minor k] [swizzle 128] [by threads 16 | by async 16 | by tma [multicast]]
 *                      `minor`: the axis that is contiguous in memory; its rows, in panels of `swizzle` bytes, have
 *                      their 16-byte chunks exchanged as the PTX ISA's swizzle modes do (ir/tile_stage.h);
 *                      `by`: what moves how many bytes at a time
 *   store %y[m, n], %x by threads 16 | by tma
 *                      of a staged value: from shared memory, in the memory's order
 *   dot %a, %b, %c over k by mma | by wgmma
 *                      by matrix instructions, from staged factors, into the accumulator's spread; by mma the first
 *                      factor may be in registers, spread along the sum as an accumulator's columns
 *   dot %a, %b, %c over k by window | by channels | by inner | by blocks | by loops [rows 12 columns 32 sums 256 ..]
 *                      by a form of processors' code (codegen/schedule/forms.def), in blocks of that size: HostSchedule */
#ifndef FUSEC_IR_TILE_H
#define FUSEC_IR_TILE_H
#include "ir/arena.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "ir/vec.h"
#include <stdio.h>

enum { MAX_AXES = 24, MAX_TILE_AXES = MAX_LOOPS, MAX_FAMILY = 64 };

/* ---- index expressions -------------------------------------------------------------------------
 * value = c + sum coef_i * atom_i, kept sorted and merged; div and mod are floored (mod >= 0). */
typedef enum {
    ATOM_AXIS,   /* the index along axis `id`: program or loop base + lane */
    ATOM_EXTENT, /* run-time value of symbol `id` */
    ATOM_VALUE,  /* element of the i32 tile value `id` (a gather) */
    ATOM_TILE,   /* number of the program's tile along grid axis `id`, or of that of a loop around: the same in all lanes */
    ATOM_DIV,    /* floor(num / den) */
    ATOM_MOD     /* num mod den */
} AtomKind;
typedef struct Index Index;
typedef struct Atom {
    AtomKind kind;
    int id;
    const Index *num, *den;
    int64_t lo, hi; /* VALUE: known to lie in [lo, hi); lo == hi: unknown */
} Atom;
typedef struct Term {
    int64_t coef;
    Atom atom;
} Term;
struct Index {
    int64_t c;
    int n;
    const Term *term;
};

/* ---- axes ---------------------------------------------------------------------------------------- */
typedef enum { AXIS_GRID, AXIS_LOOP, AXIS_SPAN } AxisKind;
/* Where the bits of the index within a tile live, lowest first: thread bit t, or SPREAD_REGISTER.  The step is a
 * multiple of 1 << n; the digits above the n bits are registers too. */
enum { MAX_SPREAD = 16, SPREAD_REGISTER = -1 };
typedef struct Spread {
    int8_t n, bit[MAX_SPREAD];
} Spread;
typedef struct Axis {
    const char *name;
    AxisKind kind;
    Dim extent;    /* 0 .. extent */
    int step;      /* lanes of a tile along this axis, >= 1; a span has step >= extent.bound */
    Spread spread; /* scheduled, GPU */
    int cluster;   /* scheduled, grid: programs along the axis that form a cluster; 0, 1: none */
    int order;     /* scheduled, grid: tiles of the axis in one group of programs; 0: programs in row-major order */
    int slowest;   /* scheduled, grid: of so many places along the other axes, programs are numbered by this one first; 0: not */
    bool down;     /* from its last tile on */
    bool family;   /* grid, step 1: its index is the member's number */
} Axis;

/* ---- buffers: kernel parameters --------------------------------------------------------------------- */
typedef struct Buffer {
    const char *name;
    DType dtype;
    int rank;
    Dim dim[MAX_RANK];        /* logical */
    int64_t stride[MAX_RANK]; /* elements */
    bool written;             /* out: stored to */
    int in_place;             /* the same memory as the other buffers of this number: a program reads an element before it
                                 or no one writes it; 0: memory of its own */
    int family;               /* this and the next family - 1 are one buffer of as many members; 0: all have this one */
} Buffer;

/* ---- instructions -------------------------------------------------------------------------------------- */
typedef enum {
    TI_CONST,   /* value; no axes */
    TI_FULL,    /* value over type.axes (loop-carried starts) */
    TI_INDEX,   /* i32 from `index[0]`, at the end of i32 where that is beyond; axes are those the expression mentions */
    TI_LOAD,    /* buffer[index...]; in[0]: optional bool mask; `value` where the mask is false */
    TI_STORE,   /* buffer[index...] <- in[0]; in[1]: optional bool mask */
    TI_ELEMENT, /* `op` on in[] */
    TI_REDUCE,  /* `op` (SUM RMAX RMIN PROD) of in[0] over `over` */
    TI_DOT,     /* in[2] + sum over `over` of in[0] * in[1] */
    TI_STAGE,   /* in[0], kept in `space` to be reused */
    TI_FOR,     /* over loop axis `axis`: results = last yields; `body` */
    TI_BUCKET,  /* buffer <- the buckets of the ids that `source` has, of the rows that the program's tile of grid axis `axis` has
                   (OP_BUCKET): where each begins, behind the last of all where they end, and the positions */
    TI_IF,      /* scalar bool in[0]; results = yields of `body`, or the inits when false */
    TI_YIELD    /* ends a body */
} TileOp;
typedef enum { SPACE_REGISTER, SPACE_LOCAL, SPACE_SHARED } Space;
/* Who does it: on a GPU threads, the copy engine, matrix instructions; on a processor a form of codegen/schedule/forms.def. */
typedef enum {
    BY_NONE, /* the back end decides */
    BY_THREADS,
    BY_ASYNC,
    BY_TMA,
    BY_MMA,
    BY_WGMMA,
    BY_WINDOW,
    BY_CHANNELS,
    BY_INNER,
    BY_BLOCKS,
    BY_LOOPS,
    N_BY
} By;
extern const char *const by_name[N_BY]; /* in text */
static inline bool by_is_host_form(By b) { return b >= BY_WINDOW && b <= BY_LOOPS; }
enum { NO_AXIS = 0, MAX_AHEAD = 16 }; /* of Inst.minor; of Inst.ahead */

typedef struct TileType {
    DType dtype;
    int n_axes;
    int8_t axis[MAX_TILE_AXES]; /* indices into Kernel.axes, increasing */
} TileType;

/* How a factor of a product comes to a processor's registers: X, of rows, and Y, of columns. */
typedef enum {
    WAY_NONE,       /* the back end decides */
    WAY_IN_PLACE,   /* where the loads find it */
    WAY_STREAMED,   /* Y: there too, some steps of the sum prefetched ahead */
    WAY_SWEPT,      /* Y: there too, few sums at a time, the next of which are prefetched meanwhile */
    WAY_COPIED,     /* Y: there too for the first rows, and packed meanwhile */
    WAY_PACKED,     /* evaluated into an array, in the order in which it is multiplied */
    WAY_TRANSPOSED, /* Y: packed by squares, its loads run along the sum */
    WAY_BOX,        /* X: the elements under a tile's windows, once, in an array */
    WAY_STRIPS,     /* X: the same, some channels at a time */
    N_WAYS
} FactorWay;

/* What a dot's accumulator is. */
typedef enum {
    START_NONE,   /* the back end decides */
    START_ADDS,   /* read, and added to */
    START_FRESH,  /* zero in the first iteration of the loops over its sums, and not read there */
    START_STORES, /* the same, and the result is written where the store after those loops would write it */
    N_STARTS
} DotStart;

/* Of which factors the next part, or what the next program begins with, is prefetched while the last one is multiplied. */
typedef enum {
    PREFETCH_OPEN, /* the back end decides */
    PREFETCH_NONE,
    PREFETCH_X,
    PREFETCH_Y,
    PREFETCH_BOTH,
    N_PREFETCH
} DotPrefetch;

/* A dot by a form of processors: what is 0 or NONE the back end decides.  Text: the fields' names, in their order. */
typedef struct HostSchedule {
    int rows[2];  /* of a block of C in registers; by channels: along the outer and the inner side of the window */
    int columns;  /* of it: lanes */
    int taps[2];  /* by channels: of the window's sides, unrolled */
    int axes;     /* by window: innermost axes of rows along which blocks run */
    int sums;     /* by blocks: of the longest axis of the sum, at a time */
    int strip;    /* of WAY_STRIPS: channels */
    FactorWay x, y;
    DotPrefetch prefetch; /* by blocks */
    DotStart start;
} HostSchedule;

typedef struct Inst Inst;
typedef VEC(Inst *) Block;

/* Values are numbered per kernel; Kernel.types[value] is a value's type. */
struct Inst {
    TileOp kind;
    int result;            /* value, or -1 (FOR, IF: see results) */
    TileType type;         /* of result */
    Op op;                 /* ELEMENT, REDUCE */
    int n_in;
    int *in;               /* values */
    double value;          /* CONST, FULL, LOAD's other */
    int buffer, source;    /* LOAD, STORE, BUCKET: index into Kernel.buffers; BUCKET: another */
    int n_index;
    const Index **index;   /* LOAD, STORE: one per buffer dim; INDEX: one */
    int n_over;
    int8_t over[MAX_TILE_AXES]; /* REDUCE, DOT */
    Space space;           /* STAGE */
    By by;                 /* STAGE, STORE, DOT */
    HostSchedule host;     /* DOT by a form of processors */
    int bytes;             /* STAGE, STORE by threads, STAGE by async: of one access */
    int minor;             /* STAGE: 1 + the axis that is contiguous in shared memory, or NO_AXIS: the back end's choice */
    int swizzle;           /* STAGE: 32, 64, 128 bytes; 0: rows are padded instead */
    bool multicast;        /* STAGE by tma */
    int axis;              /* FOR, BUCKET */
    int ahead;             /* FOR: iterations by which its stages run ahead */
    const Index *from, *to; /* FOR, the same for all of a program: tiles of the axis that lie before `from` or not before
                              `to` whole are left out: they change nothing; NULL: none are */
    int n_carry;           /* FOR, IF: init[i] enters as carry[i] (FOR only), leaves as results[i] */
    int *init, *carry, *results;
    Block body;            /* FOR, IF: ends with YIELD whose in[] are n_carry values */
};

/* A kernel of a bundle. */
typedef struct Bundled {
    struct Kernel *kernel;
    const int *buffer;     /* by its buffers: the bundle's */
} Bundled;

typedef struct Kernel {
    Arena *arena;
    const char *name;      /* C identifier, unique in the module */
    VEC(Axis) axes;
    VEC(Buffer) buffers;
    VEC(TileType) types;   /* by value */
    Block body;
    VEC(Bundled) bundle;   /* horizontal fusion: kernels that do not wait for each other, each a range of the programs, in their order;
                              then there are no axes, no values and no body, and each buffer is that of one kernel */
    int n_syms;            /* integers passed: run-time extents by symbol index of the model, then the launch's constants */
    int n_constants;       /* how many of them stand at the end: integers in which otherwise equal kernels differ */
    const char *const *sym_names;
    const int64_t *sym_bounds; /* [n_syms] largest values, for range analysis; NULL: unknown */
    int threads;           /* scheduled, GPU: threads per program that compute; 0: not decided */
    int alternate;         /* groups of them in a block, which take programs by turns; 0, 1: one */
    int producer;          /* threads behind them that only fetch */
    int registers[2];      /* per computing thread, per fetching thread; 0: as the assembler finds */
    bool persistent;       /* programs are walked by as many blocks as the machine holds at once */
    bool dependent;        /* blocks may begin while the kernels that it follows run: they wait for them before they touch memory */
    const char *comment;   /* where it comes from: "digits.dsl:12 relu(conv2d(..))" */
    /* For the report alone; in no text: */
    int members;           /* of a family; 0: it is none */
    int onto, loop_sums;   /* products that are added up onto the first; sums over a factor that its loops take */
    int slices;            /* sums over its tiles */
    int turns;             /* products over its rows, to which their tiles add in memory */
    /* of products on a GPU: */
    bool measured;         /* its tile is the fastest of those measured, not the cost model's choice */
    const char *slow;      /* why a faster matrix instruction does not multiply; NULL: the fastest does */
} Kernel;

/* ---- building (tile_build.c) ------------------------------------------------------------------------------ */
Kernel *kernel_new(Arena *a, const char *name);
int kernel_axis(Kernel *k, const char *name, AxisKind kind, Dim extent, int step); /* unique-ifies the name */
bool buffers_overlap(const Kernel *k, int a, int b); /* one buffer, or one memory */
int kernel_family_axis(const Kernel *k);   /* -1: the kernel is no family */
/* Programs that are as many in every call, and threads that all do the same, in whole warps: where another kernel has more, the others
 * leave. */
bool kernel_may_be_bundled(const Kernel *k);
/* The bundle of n kernels, whose Tile IR it keeps: buffers that are read, kernel by kernel, then those that are written. */
Kernel *kernel_bundle(Arena *a, const char *name, int n, Kernel *const *of);
/* NULL, or what a bundle of kernels, each of which is legal, may not have. */
const char *kernel_check_bundle(Arena *a, const Kernel *k);
int kernel_groups(const Kernel *k);        /* of threads that compute, in a block: one or more */
int kernel_block_threads(const Kernel *k); /* of all kinds */
int kernel_buffer(Kernel *k, const char *name, DType t, Shape s, const int64_t *stride /* NULL: dense at the bound */, bool written);

/* A builder appends to one block; bodies nest. */
typedef struct Builder {
    Kernel *k;
    Block *block;
} Builder;
int tile_const(Builder *b, DType t, double v);
int tile_full(Builder *b, TileType t, double v);
int tile_index(Builder *b, const Index *e);
int tile_load(Builder *b, int buffer, const Index **index, int mask /* -1: none */, double other);
void tile_store(Builder *b, int buffer, const Index **index, int value, int mask /* -1: none */);
int tile_element(Builder *b, Op op, DType t, int n, const int *in);
int tile_reduce(Builder *b, Op op, int v, int n_over, const int8_t *over);
int tile_dot(Builder *b, int x, int y, int acc, int n_over, const int8_t *over);
int tile_stage(Builder *b, int v, Space space);
void tile_bucket(Builder *b, int buffer, int source, int axis);
/* Opens a body: *b then appends inside.  init[] enter; carry[] are the values inside the body. */
Inst *tile_for_begin(Builder *b, int axis, int n, const int *init, int *carry, Builder *inside);
void tile_for_end(Builder *inside, Inst *loop, const int *yield, int *results);
Inst *tile_if_begin(Builder *b, int cond, int n, const int *init, Builder *inside);
void tile_if_end(Builder *inside, Inst *iff, const int *yield, int *results);
static inline bool tile_type_has(const TileType *t, int axis) {
    for (int i = 0; i < t->n_axes; i++)
        if (t->axis[i] == axis) return true;
    return false;
}
TileType tile_type_union(TileType a, TileType b); /* a's dtype, the axes of both (a bug past MAX_TILE_AXES) */
/* The type rule of every instruction: its result's type (of FOR, IF, STORE, YIELD: no result, type unset)
 * from its operands' types; false with a message in words when they do not fit. */
bool tile_infer(const Kernel *k, const Inst *i, TileType *out, const char **why);

/* ---- index expressions (index.c): simplifying constructors ---------------------------------------------------
 * They know axis extents, so that (a*E + b) / E becomes a when 0 <= b < E always holds. */
const Index *index_const(Arena *a, int64_t c);
const Index *index_make(Arena *a, int64_t c, int n, const Term *term); /* sorts and merges; no other simplification */
const Index *index_axis(Kernel *k, int axis);
const Index *index_tile(Kernel *k, int axis); /* the number of the program's tile along a grid axis */
const Index *index_extent(Kernel *k, Dim d); /* its run-time value */
const Index *index_value(Kernel *k, int value, int64_t lo, int64_t hi); /* a gathered index, known in [lo, hi) */
const Index *index_add(Kernel *k, const Index *x, const Index *y);
const Index *index_scale(Kernel *k, const Index *x, int64_t c);
const Index *index_div(Kernel *k, const Index *x, const Index *d); /* d > 0 */
const Index *index_mod(Kernel *k, const Index *x, const Index *d);
bool index_range(const Kernel *k, const Index *x, int64_t *lo, int64_t *hi); /* inclusive bounds; false: unknown */
bool index_fits_i32(const Kernel *k, const Index *x); /* for certain */
bool index_equal(const Index *x, const Index *y);
/* x = coef * axis + rest and rest does not mention the axis; false if the axis stands inside div, mod or a value's axes. */
bool index_affine_in(const Kernel *k, const Index *x, int axis, int64_t *coef);
/* Elements of memory from one lane of the axis to the next, in a load or store; false: they are not all as far apart. */
bool access_step(const Kernel *k, const Inst *access, int axis, int64_t *step);
void index_axes(const Kernel *k, const Index *x, TileType *t); /* adds the axes it mentions, gathers included */
bool index_is_const(const Index *x, int64_t *c);
bool index_gathers(const Index *x);    /* does a value from memory stand in it, inside quotients too? */
bool subscripts_gather(const Inst *i); /* in any subscript of the load or store? */

extern const char *const way_name[N_WAYS], *const prefetch_name[N_PREFETCH], *const start_name[N_STARTS]; /* in text */
void host_schedule_print(FILE *f, const HostSchedule *s); /* " rows 12 columns 32", without what is not decided */
bool host_schedule_is_of(By form, const HostSchedule *s); /* says nothing that the form does not have */

/* ---- text, verification, interpretation, cost -------------------------------------------------------------------- */
void kernel_print(FILE *f, const Kernel *k);
/* The same with value, axis, buffer and symbol names replaced by their order; no kernel name, no comment: what two
 * kernels that do the same have in common. */
char *kernel_canonical(Arena *a, const Kernel *k);
Kernel *kernel_parse(Arena *a, const char *text, const char **error); /* NULL and "line:col: message" */
const char *kernel_verify(Arena *a, const Kernel *k);                 /* NULL, or the first violation */

/* Verifies the kernel, then runs every program in order.  Values are rounded to their dtype after every
 * instruction; sums and dots add in double, in index order, and round once.  Reported, as *error (in a):
 * an index outside the buffer's run-time extents, a read of uninitialised bytes when `defined` maps are
 * given, two lanes of one store or two programs writing one element, a program reading what another
 * writes (buffers at one address are one memory).  The memory keeps what was stored until then. */
typedef struct TileMemory {
    void *data;
    int64_t bytes;
    uint8_t *defined; /* one per byte, may be NULL */
} TileMemory;
bool kernel_run(Arena *a, const Kernel *k, const TileMemory *buffers, const int64_t *syms, const char **error);

int64_t kernel_programs(const Kernel *k, const int64_t *syms); /* size of the grid */
typedef struct KernelCost {
    double flops;               /* at the bounds: multiply-add counts 2, every other elementwise or reduce step 1 */
    double bytes_read, bytes_written; /* each buffer element touched once per kernel */
    double bytes_loaded;        /* by all programs, with repeats */
} KernelCost;
KernelCost kernel_cost(const Kernel *k);
/* Of a loop's iterations, the share that runs, on average over the tiles that its bounds go by. */
double kernel_loop_share(const Kernel *k, const Inst *loop);

#endif
