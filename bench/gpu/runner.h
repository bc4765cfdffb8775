/* The program that runs the packed models on a GPU; it needs libc, libm, libdl and a driver.
 *
 * main.c commands    model.c opens a packed model    check.c against expected numbers    speed.c times */
#ifndef FUSEC_BENCH_RUNNER_H
#define FUSEC_BENCH_RUNNER_H
#include "bench/gpu/numbers.h"
#include "runtime/cuda/fusec_cuda.h"

enum { MODEL_LOG = 16384, MODEL_PATH = 4096 };

/* ARCH/CASE in the pack: model.so has the manifest; the kernels are model.cubin, if asked for and there, or model.ptx.
 */
typedef struct GpuModel {
    const char *pack, *arch, *name;
    void *library;
    const fusec_manifest *manifest;
    fusec_cuda cuda;
    bool open;
    void **inputs, **outputs; /* host memory, by manifest index */
    char log[MODEL_LOG];
} GpuModel;

/* Draws the inputs and runs entry init.  False after a message; model_close either way. */
bool model_open(GpuModel *m, const char *pack, const char *arch, const char *name, bool cubin);
void model_close(GpuModel *m);
/* One call, outputs into m->outputs; false after a message. */
bool model_run(GpuModel *m, int entry);
/* "KERNEL, KERNEL": the launches of an entry that have bytes [offset, offset + n) of a region (outputs: index) among
 * their arguments.  Into `to`. */
void model_kernels(const GpuModel *m, int entry, fusec_region region, uint64_t offset, uint64_t n, uint32_t index,
                   char *to, size_t room);
/* Runs an entry launch by launch, waiting after each; prints the first that fails. */
bool model_locate(GpuModel *m, int entry);
int entry_of(const char *name); /* -1: none */
extern const char *const entry_names[FUSEC_ENTRIES];

/* Compares every entry that has expected numbers; one line per entry on stdout,
 *     check.CASE.ARCH.ENTRY <TAB> largest error <TAB> relative_error or relative_error_FAIL
 * (where a tensor is allowed more than the entry's tolerance, its error counts in proportion)
 * and what differs on stderr.  Returns how many tensors differ, -1 if something could not be run. */
int model_check(GpuModel *m);

/* Times on stdout, name<TAB>value<TAB>unit: each entry's calls by events, if they are wanted, and its kernels one by one. */
bool model_time(const char *pack, const char *arch, const char *name, bool cubin, bool calls);

/* All tensors as raw files for another program to check: DIR/NAME.f32 or .i32, with "/" as "_", after infer and grad.
 */
bool model_dump(GpuModel *m, const char *dir);

#endif
