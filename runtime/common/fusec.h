/* fusec runtime: what ships with every emitted model.  C99, no globals, no allocation here.
 *
 * MODEL.h includes or repeats this header.  Every call returns a fusec_status; nothing aborts. */
#ifndef FUSEC_H
#define FUSEC_H
#include <stddef.h>
#include <stdint.h>

#define FUSEC_ABI_VERSION 7
#define FUSEC_MAX_RANK 10

/* What MODEL_STACK_BYTES of the C form is made of, in bytes: a pointer; a spilled variable, for which two of the widest
 * registers are counted, as loops are vectorised; the runtime's own functions.  It holds for the target that the macros
 * of the compiler tell, so it is to be read under the flags that MODEL.c is compiled with. */
#if UINTPTR_MAX > 0xffffffffu
#define FUSEC_STACK_WORD 8
#define FUSEC_STACK_RUNTIME 1536
#else
#define FUSEC_STACK_WORD 4
#define FUSEC_STACK_RUNTIME 1280
#endif
#if defined(__ARM_FEATURE_SVE) || defined(__riscv_vector)
#define FUSEC_STACK_VALUE 512 /* registers of up to 2048 bits */
#elif defined(__AVX512F__)
#define FUSEC_STACK_VALUE 128
#elif defined(__AVX__)
#define FUSEC_STACK_VALUE 64
#elif defined(__SSE__) || defined(__ARM_NEON) || defined(__ARM_FEATURE_MVE) || defined(__ALTIVEC__) || \
    defined(__wasm_simd128__) || defined(__mips_msa) || defined(__loongarch_sx)
#define FUSEC_STACK_VALUE 32
#else
#define FUSEC_STACK_VALUE (2 * FUSEC_STACK_WORD)
#endif

typedef enum {
    FUSEC_OK = 0,
    FUSEC_E_ARGUMENT,   /* a NULL or misaligned pointer, an extent past its bound */
    FUSEC_E_MEMORY,     /* a region is smaller than the model needs */
    FUSEC_E_RANGE,      /* an integer input outside its declared range */
    FUSEC_E_VERSION,    /* ABI version or model hash differs */
    FUSEC_E_FILE,       /* a file cannot be opened, read or written */
    FUSEC_E_FORMAT,     /* a weight file is truncated, corrupt, or misses a tensor */
    FUSEC_E_DRIVER,     /* libcuda is absent, or a driver call failed */
    FUSEC_E_DEVICE,     /* no device of a suitable architecture */
    FUSEC_E_UNSUPPORTED, /* an entry that was not compiled in */
    FUSEC_E_SELFTEST,   /* the self-test gave other numbers than the compiler */
    FUSEC_SKIPPED,      /* precision f16: a gradient was not finite, so that nothing was updated but the loss scale,
                           which was halved.  No failure: the next step may well go through */
    FUSEC_E_LOSS_SCALE, /* precision f16: as FUSEC_SKIPPED, at the least loss scale: further steps may fail as well */
    FUSEC_E_NOT_FINITE, /* check_finite: an input or a hyperparameter is NaN or infinite; nothing has run */
    FUSEC_E_DIVERGED    /* check_finite: an output, the loss or a gradient is NaN or infinite */
} fusec_status;
const char *fusec_status_text(fusec_status s);

typedef enum { FUSEC_BOOL, FUSEC_I32, FUSEC_F32, FUSEC_F16, FUSEC_BF16 } fusec_dtype;

/* One tensor of the model; `dim` at the bounds. */
typedef struct fusec_tensor {
    const char *name;
    uint64_t offset; /* bytes into its region (params, states, grads); 0 for inputs, outputs */
    uint64_t bytes;
    int64_t lo, hi;  /* declared range [lo, hi) of an integer input; lo == hi: none */
    int32_t dim[FUSEC_MAX_RANK];
    int8_t sym[FUSEC_MAX_RANK];       /* extent d = scale[d] * syms[sym[d]] + shift[d]; -1: fixed */
    int32_t scale[FUSEC_MAX_RANK], shift[FUSEC_MAX_RANK];
    uint8_t dtype, rank, trainable;
    uint8_t outcome; /* the state that tells of skipped steps: fusec_outcome */
} fusec_tensor;

/* FUSEC_DERIVE: states whose initial values are computed from parameters, from the parameters as they are; present where
 * there are such states. */
enum { FUSEC_INIT, FUSEC_INFER, FUSEC_GRAD, FUSEC_STEP, FUSEC_DERIVE, FUSEC_ENTRIES };
#define FUSEC_ACCUMULATE 0x100 /* MODEL_run: FUSEC_GRAD | FUSEC_ACCUMULATE adds to the gradients already there */
/* MODEL_run: FUSEC_STEP | FUSEC_LINE(0) is a step of the first `train` line alone, of a model whose lines are named; of several,
 * where they are or'ed.  Without: of all. */
#define FUSEC_LINE(l) (0x10000 << (l))
#define FUSEC_ENTRY(e) ((e) & 0xff) /* without these */

/* Which calls need a launch: bit o those that output o is given to, in entry step bit FUSEC_FIRST_LINE + l those that are
 * of line l. */
enum { FUSEC_MAX_LINES = 15, FUSEC_FIRST_LINE = 48 };
#define FUSEC_WANTED_LINE(l) ((uint64_t)1 << (FUSEC_FIRST_LINE + (l)))
/* Outputs that have a bit in calls of `entry` of a model of that many lines; what others need, every call needs. */
#define FUSEC_OUTPUT_BITS(entry, n_lines) ((int)(entry) == (int)FUSEC_STEP && (n_lines) ? FUSEC_FIRST_LINE : 64)
#define FUSEC_ALWAYS (~(uint64_t)0)

/* One argument of a launch; regions as in the planner. */
typedef enum { FUSEC_R_PARAM, FUSEC_R_STATE, FUSEC_R_GRAD, FUSEC_R_ARENA, FUSEC_R_SCALAR, FUSEC_R_INPUT, FUSEC_R_OUTPUT } fusec_region;
typedef struct fusec_arg {
    uint64_t offset;
    uint16_t index;
    uint8_t region;
    uint64_t scratch; /* FUSEC_R_OUTPUT: 1 + where it lies in the arena if it is left out; 0: nothing else reads it */
} fusec_arg;

/* GPU: a view of one of a kernel's buffers, fetched and written by tiles (a CUtensorMap).  Dimension 0 is contiguous;
 * what lies outside the extents reads as 0 and is not written.  Source: CUDA Driver API, cuTensorMapEncodeTiled. */
enum { FUSEC_MAP_RANK = 5, FUSEC_MAX_MAPS = 16 };
typedef enum { FUSEC_MAP_F16 = 6, FUSEC_MAP_F32 = 7, FUSEC_MAP_BF16 = 9, FUSEC_MAP_TF32 = 11 } fusec_map_type;
typedef struct fusec_tensor_map {
    uint64_t offset;                     /* bytes past the buffer's address; both multiples of 16 */
    uint64_t stride[FUSEC_MAP_RANK - 1]; /* bytes from one index to the next of dimension d + 1, multiples of 16 */
    struct fusec_map_dim { int32_t sym, scale, shift; } extent[FUSEC_MAP_RANK]; /* scale*syms[sym]+shift; sym -1: shift */
    uint16_t box[FUSEC_MAP_RANK];        /* elements of a tile, at most 256 */
    uint16_t swizzle;                    /* 0, or the rows' bytes within which 16-byte units are exchanged: 32, 64, 128 */
    uint8_t buffer, rank, type;          /* fusec_map_type; TF32: f32, rounded to tf32 on the way */
    uint8_t windows;                     /* 0, or rank - 2: box[0] channels of box[1] pixels, in a window's row-major order */
    struct fusec_map_window { int16_t lower, upper; uint8_t step; } window[FUSEC_MAP_RANK - 2]; /* of dimension 1 and so on:
                                            places lower, lower + step, .. to extent - 1 + upper (cuTensorMapEncodeIm2col) */
} fusec_tensor_map;

enum { FUSEC_MAX_GRID = 12 }; /* a tensor's ten axes, members of a family, and one to spare */
typedef struct fusec_kernel {
    const char *name;
    /* programs = product over grid axes of ceil((scale*syms[sym]+shift) / step); sym -1: shift alone */
    struct fusec_grid { int32_t sym, scale, shift, step; } grid[FUSEC_MAX_GRID];
    uint8_t n_grid, n_args, n_constants;
    uint32_t threads;        /* GPU */
    uint32_t shared_bytes;   /* GPU, dynamic */
    double flops, bytes;     /* at the bounds */
    /* GPU */
    uint8_t cluster, cluster_axis; /* blocks of a cluster, neighbours along grid[cluster_axis]; 0, 1: no clusters */
    uint8_t persistent;      /* as many blocks as are resident at once walk the programs */
    uint8_t n_maps;          /* its last parameters, manifest.maps from first_map on */
    uint32_t first_map;
    uint8_t dependent;       /* it waits itself for the kernel that it follows, and may begin before that one ends */
} fusec_kernel;

enum { FUSEC_MAX_CONSTANTS = 4 };
/* A kernel takes its buffers, the model's extents, then `constant`: integers in which equal kernels differ. */
typedef struct fusec_launch {
    uint32_t kernel;         /* into manifest.kernels */
    uint32_t first_arg;      /* into manifest.args; fusec_kernel.n_args of them */
    uint64_t wanted_by;      /* the calls that need it; FUSEC_ALWAYS: all */
    int32_t constant[FUSEC_MAX_CONSTANTS]; /* fusec_kernel.n_constants of them */
    uint32_t first_after, n_after; /* into manifest.after: launches that must have finished */
} fusec_launch;

typedef struct fusec_entry {
    uint64_t arena_bytes;
    uint32_t first_launch, n_launches; /* n_launches == 0 and !present: not compiled */
    uint32_t present;
} fusec_entry;

typedef struct fusec_symbol { const char *name; int32_t bound; } fusec_symbol;
typedef struct fusec_hyper { const char *name; float value; } fusec_hyper;

/* The self-test's result for one tensor: sum and sum of magnitudes of the elements, both weighted, and how far each may
 * be off; slack < 0: not compared (integers, and what is not finite). */
typedef struct fusec_sum { float sum, magnitude, slack; } fusec_sum;

/* Everything about a model, constant data.  In the C99 form, whose entries are plain calls, there are no kernels,
 * launches, args and after. */
typedef struct fusec_manifest {
    uint32_t abi_version, align;
    uint64_t hash;
    const char *name;
    uint64_t param_bytes, state_bytes, grad_bytes;
    uint32_t n_params, n_states, n_grads, n_inputs, n_outputs, n_syms, n_hypers, n_kernels;
    uint32_t n_lines; /* `train` lines that may be steps by themselves */
    const fusec_tensor *params, *states, *grads, *inputs, *outputs;
    const fusec_symbol *syms;
    const fusec_hyper *hypers;
    const fusec_kernel *kernels;
    const fusec_launch *launches;
    const fusec_arg *args;
    const fusec_tensor_map *maps;
    const uint32_t *after; /* counted back from the launch: 1 is the one before it */
    const fusec_sum *selftest; /* of outputs, then, with entry grad, of gradients; NULL: compiled without --selftest */
    fusec_entry entry[FUSEC_ENTRIES];
} fusec_manifest;

/* Memory a model works in; each block aligned to manifest.align.  On CUDA these are host-side
 * requests and may be NULL: the launcher allocates device memory once, in init. */
typedef struct fusec_memory {
    void *params;  uint64_t param_bytes;
    void *states;  uint64_t state_bytes;
    void *grads;   uint64_t grad_bytes;  /* entry grad only */
    void *arena;   uint64_t arena_bytes; /* the largest entry used */
} fusec_memory;

typedef struct fusec_options {
    uint32_t seed;
    int threads;   /* host: 0 = all cores */
    /* host: replaces the thread pool; must call run(ctx, i) for all 0 <= i < n before returning */
    void (*parallel_for)(void *user, int n, void (*run)(void *ctx, int i), void *ctx);
    void *user;
    /* host runtime, entry grad: bytes [offset, offset + bytes) of memory.grads have their final value.  Once per gradient,
     * in the order of the manifest, while later kernels are still to run: a peer's sum can begin.  NULL: not called.
     * The C99 form has MODEL_GRADIENT_READY instead (MODEL.h says how); a CUDA graph completes as one. */
    void (*gradient_ready)(void *user, uint64_t offset, uint64_t bytes);
    /* Not 0: inputs and hyperparameters that are NaN or infinite are refused before anything runs (FUSEC_E_NOT_FINITE),
     * and outputs given and gradients of entry grad are looked at afterwards (FUSEC_E_DIVERGED).  A step has updated
     * parameters and states by then, unless the model was compiled with --check-finite: then all stay as they were.
     * 0: what is not finite goes through, and a step leaves NaN in the parameters.
     * The C99 form has the macro MODEL_CHECK_FINITE instead. */
    int check_finite;
} fusec_options;

/* Outputs given may not overlap each other, inputs or memory: kernels read them again where others need them.
 *
 * A call is sound: memory large and aligned enough, symbols within their bounds, every input and output that a
 * launch touches given, integer inputs in their declared ranges.  `wanted`: the call's own bits of fusec_launch.wanted_by.  `entry` may carry
 * FUSEC_LINE. */
fusec_status fusec_check(const fusec_manifest *m, int entry, const fusec_memory *memory, const void *const *inputs,
                         void *const *outputs, const int32_t *syms, uint64_t *wanted);

/* Whether `row` says so of all rows (elements first .. first + n - 1 of the data) of the extents that syms give. */
int fusec_all(const fusec_tensor *t, const void *data, const int32_t *syms,
              int (*row)(const fusec_tensor *t, const void *data, int64_t first, int64_t n));
/* check_finite: FUSEC_E_NOT_FINITE, FUSEC_E_DIVERGED or FUSEC_OK.  What is NULL is passed over. */
fusec_status fusec_check_inputs(const fusec_manifest *m, const void *const *inputs, const float *hypers,
                                const int32_t *syms);
fusec_status fusec_check_results(const fusec_manifest *m, int entry, const void *grads, void *const *outputs,
                                 const int32_t *syms);

/* With precision f16 a step whose gradients are not all finite is skipped.  The state with `outcome` counts: it is i32,
 * twice the number of skipped steps, plus 1 if the last of them was at the least loss scale.  A model compiled with
 * --check-finite skips such a step in any precision; without loss scaling it counts down from 0.  fusec_outcome_state: its
 * offset into the states, or -1.  fusec_outcome: the status of what happened while it went from before to after. */
int64_t fusec_outcome_state(const fusec_manifest *m);
fusec_status fusec_outcome(int32_t before, int32_t after);
/* Has a step of this status run, whether it updated or was skipped?  MODEL.step counts those.  On CUDA a status may be that of an
 * earlier step, which was counted then; this one has run all the same. */
int fusec_step_ran(fusec_status s);

/* Weights as a safetensors file, through the caller's own storage.  Each callback returns 0 when all n bytes moved. */
typedef struct fusec_io {
    void *user;
    int (*write)(void *user, const void *from, uint32_t n);               /* appends; save only */
    int (*read)(void *user, uint64_t offset, void *to, uint32_t n);       /* load only; fails past the end */
} fusec_io;
/* Where training is: what optimizers, schedules and random numbers go by beside parameters and states. */
typedef struct fusec_position {
    int32_t step; /* steps taken */
    uint32_t seed;
} fusec_position;
/* Parameters under their paths, states as `state/PATH`; in the metadata, unless `at` is NULL, its step and seed in
 * decimal, as `fusec run --save` has them, and a CRC-32 of the data and the position.  The file's size depends on the
 * manifest alone. */
fusec_status fusec_save(const fusec_manifest *m, const fusec_memory *memory, const fusec_position *at, const fusec_io *io);
/* The file has all parameters, and all states or none.  With the states (or where the model has none) training goes on:
 * *at becomes the file's step and seed; a file without them gives step 0 and leaves the seed.  Without the states it
 * begins anew: step 0, and states as entry init makes them, those that are computed from parameters from the file's; for
 * that begin->run is called with FUSEC_INIT before the parameters are written and, where there is such an entry,
 * FUSEC_DERIVE after.  at may be NULL.
 * Nothing is written to memory unless names, dtypes, shapes, the CRC (where the file has one) and the position are right.
 * FUSEC_E_FORMAT: corrupt, a tensor missing, unknown, twice, or of another shape; no states, and begin is NULL.
 * FUSEC_E_FILE: read failed. */
typedef struct fusec_begin {
    void *user;
    fusec_status (*run)(void *user, int entry);
} fusec_begin;
fusec_status fusec_load(const fusec_manifest *m, const fusec_memory *memory, fusec_position *at, const fusec_io *io,
                        const fusec_begin *begin);
/* CRC-32 (IEEE 802.3) continued from `crc`, 0 at the start. */
uint32_t fusec_crc32(uint32_t crc, const void *data, uint64_t n);
/* Continued by step and seed, each as four bytes, the lowest first. */
uint32_t fusec_crc32_position(uint32_t crc, const fusec_position *at);

/* How the self-test runs a model: an entry at the extents' bounds, with hyperparameters at their defaults, and n bytes of
 * the gradients after it. */
typedef struct fusec_selftest_calls {
    void *user;
    fusec_status (*run)(void *user, int entry, const void *const *inputs, void *const *outputs, uint32_t seed,
                        const int32_t *syms);
    fusec_status (*read)(void *user, uint64_t offset, void *to, uint64_t n);
} fusec_selftest_calls;
enum { FUSEC_SELFTEST_SEED = 0x5e1f7e57, FUSEC_SELFTEST_PART = 4096 };
/* Entry init, then entry grad (infer where there is none) on inputs made from Philox of seed, input and element: floats
 * in [-1, 1), integers in their declared range or 0 .. 1.  FUSEC_E_SELFTEST: the results are not what
 * the compiler stored.  At the end parameters and states are as entry init makes them from `seed`.  scratch:
 * fusec_selftest_bytes(), aligned as the model's memory.  found, NULL but in the compiler: gets the sums instead. */
fusec_status fusec_selftest(const fusec_manifest *m, const fusec_selftest_calls *c, uint32_t seed, void *scratch,
                            fusec_sum *found);
uint64_t fusec_selftest_bytes(const fusec_manifest *m);

/* Emitted models define the functions above weakly: several models in one program share them. */
#ifndef FUSEC_WEAK
#define FUSEC_WEAK
#endif

#endif
