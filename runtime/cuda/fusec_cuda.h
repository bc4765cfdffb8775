/* Runs a model on an NVIDIA GPU: the launch table as CUDA graphs over the Driver API, which is opened at run time.
 *
 * The caller owns fusec_cuda.  Device and pinned host memory are allocated once, in fusec_cuda_init, one block of each;
 * nothing else is allocated except what the driver needs when a graph is built (the first call of an entry, or of entry
 * infer with another set of outputs) and what fusec_cuda_save, fusec_cuda_load and fusec_cuda_profile take and give
 * back.
 *
 * A call copies its scalars and inputs through pinned memory, in two halves used by turns, and launches one graph on
 * the model's own stream.  It waits only if outputs are to be copied back, so that steps that leave the loss on the
 * device follow each other without a pause (fusec_cuda_fetch gets the loss when it is wanted).  A graph completes as one:
 * there is no gradient_ready as on the host; all gradients of entry grad are there when the call is over.
 *
 * One fusec_cuda may be used by one thread at a time; several may be used at once.  The current CUDA context of the
 * caller's thread is left as it was. */
#ifndef FUSEC_CUDA_H
#define FUSEC_CUDA_H
#include "runtime/common/fusec.h"
#include "runtime/cuda/cuda_driver.h"

enum {
    FUSEC_CUDA_MAX_SYMS = 64,
    FUSEC_CUDA_STAGES = 2, /* halves of the staging memory */
    FUSEC_CUDA_GRAPHS = 8, /* graphs kept; the least recently used makes room */
    FUSEC_CUDA_ALIGN = 256 /* of everything on the device */
};

/* The compiled kernels: exactly one of the three is given, or none and options->image_path.  Only needed during
 * fusec_cuda_init. */
typedef struct fusec_cuda_image {
    const void *data;         /* PTX, NUL-terminated, or a cubin */
    const char *path;         /* a file with either */
    const char *const *lines; /* PTX in pieces, ended by NULL */
} fusec_cuda_image;

typedef struct fusec_cuda_options {
    uint32_t seed;
    int device;                    /* ordinal, as the driver counts */
    const char *image_path;        /* the kernels' file, where fusec_cuda_init is given no image */
    const char *library;           /* NULL: "libcuda.so.1" */
    const fusec_cu_driver *driver; /* NULL: from the library; else functions to be called instead, copied */
    char *log;          /* NULL, or room for messages, NUL-terminated: why a call failed, what the JIT compiler */
    uint32_t log_bytes; /* said; it stays the caller's and must outlive the model */
    /* as fusec_options.check_finite; inputs are looked at as the call gives them, in the caller's memory, results where
     * they are brought back.  Gradients stay on the device and are not looked at. */
    int check_finite;
} fusec_cuda_options;

/* Offsets in the one block of device memory; inputs and outputs follow each other, each aligned. */
typedef struct fusec_cuda_layout {
    uint64_t params, states, grads, arena, scalars, inputs, outputs, bytes;
    uint64_t input_bytes, output_bytes, scalar_bytes;
} fusec_cuda_layout;

typedef struct fusec_cuda_graph {
    void *graph, *exec; /* NULL: a free place */
    void **nodes;       /* per launch of the entry; NULL: not in the graph */
    uint32_t early;     /* nodes that may begin while the one before them ends */
    uint64_t wanted, used;
    int entry;
    int32_t syms[FUSEC_CUDA_MAX_SYMS];
} fusec_cuda_graph;

typedef struct fusec_cuda_stage {
    char *memory; /* scalars, then the inputs as on the device */
    void *event;  /* its copies have been made */
    int busy;
} fusec_cuda_stage;

typedef struct fusec_cuda {
    const fusec_manifest *manifest;
    uint32_t seed; /* of the following calls */
    int check_finite;
    fusec_cu_driver driver;
    char *log;
    uint32_t log_bytes, log_used;
    int device, has_context;
    int multiprocessors; /* of the device: blocks of a persistent kernel */
    void *context, *module, *stream;
    uint64_t memory; /* on the device */
    char *pinned;
    uint64_t pinned_bytes;
    fusec_cuda_layout layout;
    /* in pinned: */
    void **functions;    /* per kernel */
    const void **staged; /* per input: where the value on the device was staged; NULL: none is there */
    const void **inputs; /* of the call being checked */
    void **outputs;
    uint64_t *input_at, *output_at; /* bytes into layout.inputs, layout.outputs */
    void **before;                  /* building a graph: predecessors of one node */
    uint32_t *reached;              /* building a graph: per launch, the last one that follows it */
    char *fetched;                  /* outputs on their way back */
    fusec_cuda_stage stage[FUSEC_CUDA_STAGES];
    uint32_t next_stage;
    fusec_cuda_graph graphs[FUSEC_CUDA_GRAPHS];
    int full_edges;    /* the driver takes no others between kernels */
    uint64_t clock;    /* of graph use */
    uint64_t computed; /* bit o: output o (below 64) has been computed */
    int32_t skips;     /* the state that tells of skipped steps (fusec_outcome), as last read */
    int skips_known;   /* 0: it may have changed otherwise since */
} fusec_cuda;

/* What one call works on, as fusec_host_call.  inputs[i] NULL: what an earlier call gave.  outputs (may be NULL) [o]
 * NULL: not copied back.  Entry infer and steps with FUSEC_LINE compute the outputs that have a pointer and those with their
 * bit in `wanted`, to be fetched later; the other entries compute all. */
typedef struct fusec_cuda_call {
    const void *const *inputs;
    void *const *outputs;
    const int32_t *syms; /* NULL: the bounds */
    const float *hypers; /* NULL: the defaults */
    int32_t step;        /* from 1 */
    uint64_t wanted;
} fusec_cuda_call;

/* The memory a model takes on the device. */
void fusec_cuda_plan(const fusec_manifest *m, fusec_cuda_layout *layout);

/* options may be NULL.  Parameters and states are undefined until entry init has run or they were written.
 * FUSEC_E_DRIVER: no libcuda, or a driver call failed, PTX refused among them; FUSEC_E_DEVICE: no such device, or one
 * of an older architecture than the PTX is for; FUSEC_E_MEMORY: the device or the host has too little; FUSEC_E_FILE:
 * the image cannot be read; FUSEC_E_VERSION, FUSEC_E_ARGUMENT, FUSEC_E_UNSUPPORTED: the manifest, as for the host.
 * After a failure nothing is held, and *c is all zero. */
fusec_status fusec_cuda_init(fusec_cuda *c, const fusec_manifest *m, const fusec_cuda_image *image,
                             const fusec_cuda_options *options);
/* entry as for the host.  FUSEC_E_ARGUMENT, FUSEC_E_RANGE, FUSEC_E_UNSUPPORTED: nothing has run.  FUSEC_E_DRIVER: a
 * kernel may have failed now or in an earlier call that did not wait. */
fusec_status fusec_cuda_run(fusec_cuda *c, int entry, const fusec_cuda_call *call);
/* A step does not wait, so that whether it was skipped is known to the next call that does: fusec_cuda_run with outputs
 * to bring, fusec_cuda_fetch, fusec_cuda_wait.  They return FUSEC_SKIPPED or FUSEC_E_LOSS_SCALE, everything else being
 * done, if a step since the last such call was skipped. */
/* Waits, and copies output `output` of the last call that computed it. */
fusec_status fusec_cuda_fetch(fusec_cuda *c, uint32_t output, void *to);
fusec_status fusec_cuda_wait(fusec_cuda *c);
/* Runs the entry kernel by kernel; ms[i] is the time of launch i of the entry, 0 where it is not needed.  Waits. */
fusec_status fusec_cuda_profile(fusec_cuda *c, int entry, const fusec_cuda_call *call, float *ms);

/* Bytes [offset, offset + n) of FUSEC_R_PARAM, FUSEC_R_STATE or FUSEC_R_GRAD.  Waits. */
fusec_status fusec_cuda_read(fusec_cuda *c, fusec_region region, uint64_t offset, void *to, uint64_t n);
fusec_status fusec_cuda_write(fusec_cuda *c, fusec_region region, uint64_t offset, const void *from, uint64_t n);
/* fusec_save and fusec_load, through pinned memory as large as parameters and states while the call lasts.  Entries init
 * and derive are run as fusec_load says, with c->seed. */
fusec_status fusec_cuda_save(fusec_cuda *c, const fusec_position *at, const fusec_io *io);
fusec_status fusec_cuda_load(fusec_cuda *c, fusec_position *at, const fusec_io *io);

void fusec_cuda_free(fusec_cuda *c); /* c may be NULL or all zero */

#endif
