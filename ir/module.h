/* A compiled model: what back ends and artifacts see.  No graph here: kernels, launches, memory. */
#ifndef FUSEC_IR_MODULE_H
#define FUSEC_IR_MODULE_H
#include "ir/tile.h"
#include "runtime/common/fusec.h"

/* A kernel argument: `offset` bytes into a region, or into tensor `index`'s own memory. */
typedef enum {
    REGION_PARAM,  /* one block for all parameters; offset is the tensor's place in it */
    REGION_STATE,  /* likewise */
    REGION_GRAD,   /* likewise: gradients of entry grad, in order of production */
    REGION_ARENA,  /* scratch, planned by `place` */
    REGION_SCALAR, /* 4-byte slots: step, seed, accumulate (i32), then the hypers (f32) */
    REGION_INPUT,  /* inputs[index], the caller's pointer */
    REGION_OUTPUT  /* outputs[index] */
} Region;
enum { SCALAR_STEP, SCALAR_SEED, SCALAR_ACCUMULATE, SCALAR_HYPER0 };

typedef struct LaunchArg {
    Region region;
    int index;      /* INPUT, OUTPUT: which */
    int64_t offset; /* bytes */
    int64_t scratch; /* OUTPUT: 1 + where it lies in the arena if the caller leaves it out; 0: it has to be there */
} LaunchArg;

typedef struct Launch {
    int kernel;            /* index into Module.kernels */
    int n_args;
    LaunchArg *args;       /* one per kernel buffer */
    uint64_t wanted_by;    /* fusec_launch.wanted_by */
    Phase phase;
    int32_t constant[FUSEC_MAX_CONSTANTS]; /* values of the kernel's last n_constants symbols */
    int n_after;           /* DAG: launches that must have finished */
    int *after;
} Launch;

typedef struct ModuleTensor {
    const char *name;
    DType dtype;
    Shape shape;
    bool has_range;
    int64_t lo, hi;
    bool trainable, outcome;
    int64_t offset;  /* bytes into its region: params, states, grads */
    int64_t bytes;   /* dense at the bound */
    SrcLoc loc;
} ModuleTensor;

/* A buffer of the arena whose innermost dimension is laid out wider than it is. */
typedef struct ModulePadding {
    DType dtype;
    Shape shape;
    int64_t laid_out; /* elements of the innermost dimension */
    int64_t bytes;    /* of the buffer that hold nothing */
    SrcLoc loc;
} ModulePadding;

typedef struct ModuleEntry {
    bool present;
    int64_t arena_bytes;      /* peak of REGION_ARENA */
    VEC(Launch) launches;     /* in planned order */
    /* what the peak consists of, for the report */
    int64_t peak_saved, peak_gradients, peak_workspace;
    int recomputed;           /* values that --memory-budget has computed again */
    bool in_segments;         /* it has the forward pass in segments too */
    SrcLoc peak_loc;          /* the program line live at the peak with most bytes */
    VEC(ModulePadding) padded; /* most bytes first */
} ModuleEntry;

typedef struct Module {
    Arena *arena;
    const char *name;
    const char *source;       /* file name, no directory */
    uint64_t hash;            /* of parameters and states (names, dtypes, shapes); stored with weights */
    int align;                /* of regions and tensors, bytes */
    VEC(SymDecl) syms;
    VEC(HyperDecl) hypers;
    VEC(const char *) lines; /* Model.lines */
    VEC(ModuleTensor) params, states, grads, inputs, outputs;
    int64_t param_bytes, state_bytes, grad_bytes;
    VEC(Kernel *) kernels;
    ModuleEntry entry[ENTRY_COUNT];
    bool check_finite;         /* compiled with --check-finite */
    const fusec_sum *selftest; /* as fusec_manifest.selftest */
} Module;

#endif
