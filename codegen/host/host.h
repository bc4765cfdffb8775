/* The host back end: a module as an object file, as LLVM IR, or as code in this process.
 *
 * The object defines, NAME being the module's name as a C identifier (artifact_prefix()),
 *     const fusec_manifest NAME_manifest;
 *     void (*const NAME_kernels[])(void *const *buffers, const int64_t *syms, int64_t first, int64_t last);
 * in the order of Module.kernels (runtime/host/host.h runs them); everything else in it is local
 * (kernels are called NAME.KERNEL, which no C name can be).  It calls memcpy and memset, and libm for f64. */
#ifndef FUSEC_CODEGEN_HOST_H
#define FUSEC_CODEGEN_HOST_H
#include "ir/module.h"
#include "runtime/common/fusec.h"
#include "runtime/host/host.h"

/* Adds instructions to the module before it is optimised: tests have its accesses checked so.  false: *error is a message to be freed. */
struct Emit;
typedef struct HostInstrument {
    bool (*run)(const struct Emit *e, const void *user, char **error);
    const void *user;
} HostInstrument;

typedef struct HostOptions {
    const char *triple;     /* NULL: this machine's; "aarch64-linux-gnu" */
    const char *cpu;        /* NULL: this machine's, or the triple's baseline */
    const char *features;   /* LLVM's syntax, "+avx2,+fma"; NULL likewise */
    bool unoptimised;       /* IR as first emitted */
    const HostInstrument *instrument; /* NULL: nothing is added */
} HostOptions;

/* false: *error is a message to be freed.  *bytes is malloc'd. */
bool host_emit_object(const Module *m, const HostOptions *o, void **bytes, size_t *n, char **error);
bool host_emit_ir_text(const Module *m, const HostOptions *o, char **text, char **error);

/* How the processor's code makes a product of tiles (codegen/schedule/forms.def). */
typedef struct HostProduct {
    const char *form; /* "in blocks" */
    bool pairs;       /* factors of bf16 are multiplied in pairs, not converted */
    unsigned fits;    /* bit By (ir/tile.h): all forms that fit */
    int n_why;        /* why forms before it in the table do not fit a product of their kind */
    const char *before[8], *why[8];
} HostProduct;

typedef struct HostProducts {
    int n, pairs; /* pairs: how many of them multiply pairs */
    HostProduct *of;
} HostProducts;

/* The products of each kernel, in the order of its text, in a: an array over m->kernels.  NULL: no such processor, or a
 * dot says a form that does not fit it; *error is a message to be freed. */
HostProducts *host_products(Arena *a, const Module *m, const HostOptions *o, char **error);

/* Writes into the Tile IR what the back end decides for this processor: of each dot, by which form it is made.  false: no such
 * processor, *error is a message to be freed. */
bool host_schedule(Module *m, const HostOptions *o, char **error);

/* "19.1.7": the LLVM that makes the code; its version decides the exact text of PTX and objects. */
void host_llvm_version(char *text, size_t n);

/* Code in this process; valid until host_jit_free.  NULL too where this machine lacks what the named processor has. */
typedef struct HostJit HostJit;
HostJit *host_jit(const Module *m, const HostOptions *o, char **error);
const fusec_manifest *host_jit_manifest(const HostJit *j);
const fusec_host_kernel *host_jit_kernels(const HostJit *j);
void host_jit_free(HostJit *j); /* NULL is allowed */

#endif
