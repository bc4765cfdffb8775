/* What is emitted beside the kernels: MODEL.h, the manifest, and for c99 the whole MODEL.c.
 *
 * MODEL.h makes a typed interface (static inline functions) of two things, which the C99 form defines as symbols:
 *
 *     extern const fusec_manifest MODEL_manifest;
 *     fusec_status MODEL_run(const fusec_memory *memory, int entry, const void *const *inputs, void *const *outputs,
 *                            const float *hyper, int32_t step, uint32_t seed, const int32_t *syms);
 *
 * MODEL_run(): `entry` FUSEC_INIT .. FUSEC_STEP, FUSEC_GRAD may carry FUSEC_ACCUMULATE, FUSEC_STEP FUSEC_LINE; inputs and outputs by manifest
 * index (NULL where not used; entry infer computes the outputs given); hyper NULL for the defaults; step counts from 1;
 * syms one per symbol.  Drivers that know a model by its manifest alone (dlopen) call it directly.
 *
 * The CUDA form defines MODEL_manifest and MODEL_image, the host form (codegen/host) MODEL_manifest and MODEL_kernels; there,
 * MODEL_run is a function of MODEL.h that takes the model (MODEL *) where the C99 form takes its memory. */
#ifndef FUSEC_CODEGEN_ARTIFACT_H
#define FUSEC_CODEGEN_ARTIFACT_H
#include "ir/module.h"
#include "ir/target.h"

/* Prefix of all names, from the module's name: "gpt2"; for macros "GPT2".  Both are C identifiers. */
char *artifact_prefix(Arena *a, const Module *m);
char *artifact_macro_prefix(Arena *a, const Module *m);

/* While MODEL.h is printed. */
typedef struct ArtifactHeader {
    FILE *f;
    Arena *a;
    const Module *m;
    const char *p, *macro; /* gpt2, GPT2 */
    const struct ArtifactForm *form;
    const char *const *out; /* field names of outputs */
} ArtifactHeader;

/* What MODEL.h is like for a back end.  Functions that are NULL have nothing to say. */
typedef struct ArtifactForm {
    const char *context; /* the first member of MODEL, a type and a name */
    const char *options; /* the type of what init takes */
    const char *runs_on; /* the first argument of MODEL_run, where `model` is a MODEL * */
    const char *memory;  /* the member of MODEL that is its fusec_memory; NULL: it is elsewhere, and functions say where */
    void (*example)(const ArtifactHeader *h); /* in the first comment */
    void (*declarations)(const ArtifactHeader *h);
    void (*sizes)(const ArtifactHeader *h);
    void (*functions)(const ArtifactHeader *h); /* MODEL_run and what keeps memory; never NULL */
    void (*grad_comment)(const ArtifactHeader *h);
} ArtifactForm;
extern const ArtifactForm artifact_cuda_form, artifact_host_form, artifact_c99_form;

/* MODEL.h, self-contained (it repeats runtime/common/fusec.h and the runtime of its form).  Kernels of the C form are printed
 * on the side to bound the stack. */
void artifact_header(FILE *f, const Module *m, const ArtifactForm *form);

/* `const fusec_manifest MODEL_manifest` and the static tables it points to, as C; kernels and launches only with
 * `launches`. */
void artifact_manifest(FILE *f, const Module *m, bool launches);

/* MODEL.c of the C99 back end, to be compiled beside `header` ("model.h").  NULL, or why a kernel has no C form (then
 * the text is incomplete). */
const char *artifact_c99(FILE *f, const Module *m, const char *header);

/* MODEL.c of the CUDA form, beside `header`: the runtime, the manifest and where the kernels are: in the
 * file named `ptx_file`, opened at run time, or in the text itself if `ptx` is not NULL.  It needs libc and -ldl.
 * NULL, or why the module does not fit. */
const char *artifact_cuda(FILE *f, const Module *m, const char *header, const char *ptx_file, const char *ptx);

/* MODEL_selftest() and MODEL_SELFTEST_BYTES of MODEL.h, if m->selftest. */
void artifact_selftest(const ArtifactHeader *h);

/* ---- for forms ------------------------------------------------------------------------------------------ */
int64_t artifact_device_bytes(const Module *m); /* what fusec_cuda_plan() says */
const char *artifact_bounds(const ArtifactHeader *h); /* initializer of the extents of calls that have no inputs */
extern const char artifact_load_comment[]; /* of MODEL_load */

/* ---- for other emitters of the same data -------------------------------------------------------------- */
/* Kernel k's grid as the manifest has it; false if it does not fit (more than 8 grid axes, or one past int32). */
bool artifact_grid(const Kernel *k, struct fusec_grid grid[FUSEC_MAX_GRID], int *n);
/* fusec_launch.wanted_by of a launch of entry e.  Beyond what the planner says, a launch that writes to outputs alone is skipped,
 * in every entry, when none of them is given. */
uint64_t artifact_wanted_by(const Module *m, Entry e, const Launch *l);
/* A runtime source file by base name ("check.c") with its quoted #includes removed; NULL if there is none. */
char *artifact_runtime(Arena *a, const char *file);
fusec_dtype artifact_dtype(DType t); /* as the runtime knows it: tf32 is f32 in memory */
/* Text as a C string literal, quotes included. */
char *artifact_string(Arena *a, const char *text);

#endif
