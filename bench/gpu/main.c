/* fusec_gpu_run COMMAND PACK ARCH CASE ...
 *   check            against the expected numbers; exit 1 if anything differs
 *   locate ENTRY     which kernel fails
 *   time [kernels]   calls and kernels, or kernels alone, in milliseconds
 *   dump DIR         all tensors after infer and grad, as raw files
 *   once ENTRY       one call, kernel by kernel, for a profiler */
#include "bench/gpu/runner.h"
#include <stdlib.h>
#include <string.h>

static bool write_raw(const GpuModel *m, const char *dir, const char *kind, const fusec_tensor *t, const void *data) {
    char path[MODEL_PATH];
    const int at = snprintf(path, sizeof path, "%s/", dir);
    snprintf(path + at, sizeof path - (size_t)at, "%s%s.%s", kind, t->name, t->dtype == FUSEC_I32 ? "i32" : "f32");
    for (char *c = path + at; *c; c++)
        if (*c == '/') *c = '_';
    FILE *f = fopen(path, "wb");
    const bool ok = f && fwrite(data, 1, (size_t)t->bytes, f) == t->bytes;
    if ((f && fclose(f) != 0) || !ok) {
        fprintf(stderr, "%s: %s cannot be written\n", m->name, path);
        return false;
    }
    return true;
}

static bool dump_region(GpuModel *m, const char *dir, const char *kind, fusec_region region, const fusec_tensor *t,
                        uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        void *data = malloc((size_t)t[i].bytes + 1);
        const bool ok = data && fusec_cuda_read(&m->cuda, region, t[i].offset, data, t[i].bytes) == FUSEC_OK &&
                        write_raw(m, dir, kind, &t[i], data);
        free(data);
        if (!ok) return false;
    }
    return true;
}

bool model_dump(GpuModel *m, const char *dir) {
    const fusec_manifest *f = m->manifest;
    bool ok = dump_region(m, dir, "param.", FUSEC_R_PARAM, f->params, f->n_params) && model_run(m, FUSEC_GRAD) &&
              dump_region(m, dir, "grad.", FUSEC_R_GRAD, f->grads, f->n_grads);
    for (uint32_t i = 0; i < f->n_inputs && ok; i++) ok = write_raw(m, dir, "input.", &f->inputs[i], m->inputs[i]);
    for (uint32_t i = 0; i < f->n_outputs && ok; i++)
        ok = write_raw(m, dir, "grad_output.", &f->outputs[i], m->outputs[i]);
    if (ok && f->entry[FUSEC_INFER].present) ok = model_run(m, FUSEC_INFER);
    for (uint32_t i = 0; i < f->n_outputs && ok; i++) ok = write_raw(m, dir, "output.", &f->outputs[i], m->outputs[i]);
    return ok;
}

/* Exit statuses: 0 done, 1 numbers differ, 2 usage, 3 it could not be run. */
static int on_model(GpuModel *m, const char *command, const char *argument) {
    if (!strcmp(command, "check")) {
        const int bad = model_check(m);
        return bad < 0 ? 3 : bad > 0;
    }
    if (!strcmp(command, "dump")) return argument && model_dump(m, argument) ? 0 : 3;
    const int entry = argument ? entry_of(argument) : -1;
    if (entry < 0 || !m->manifest->entry[entry].present) return 2;
    return model_locate(m, entry) ? 0 : 3;
}

int main(int argc, char **argv) {
    static const char *const commands[] = {"check", "locate", "time", "dump", "once"};
    bool known = false;
    for (size_t i = 0; i < sizeof commands / sizeof *commands && argc > 1; i++)
        known = known || !strcmp(argv[1], commands[i]);
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts("fusec_gpu_run 1");
        return 0;
    }
    if (argc < 5 || !known) {
        fputs("usage: fusec_gpu_run check|locate|time|dump|once PACK ARCH CASE [ENTRY|DIR|kernels]\n", stderr);
        return 2;
    }
    const char *command = argv[1];
    const bool cubin = getenv("FUSEC_CUBIN") != NULL; /* else the driver compiles the PTX */
    const bool calls = argc < 6 || strcmp(argv[5], "kernels") != 0;
    if (!strcmp(command, "time")) return model_time(argv[2], argv[3], argv[4], cubin, calls) ? 0 : 3;
    static GpuModel m;
    const int status =
        model_open(&m, argv[2], argv[3], argv[4], cubin) ? on_model(&m, command, argc > 5 ? argv[5] : NULL) : 3;
    model_close(&m);
    return status;
}
