#include "bench/gpu/runner.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const entry_names[FUSEC_ENTRIES] = {"init", "infer", "grad", "step"};

int entry_of(const char *name) {
    for (int e = 0; e < FUSEC_ENTRIES; e++)
        if (!strcmp(name, entry_names[e])) return e;
    return -1;
}

static bool complain(const GpuModel *m, const char *what, const char *why) {
    fprintf(stderr, "%s %s: %s: %s\n", m->name, m->arch, what, why ? why : "?");
    return false;
}

static bool failed(GpuModel *m, const char *what, fusec_status s) {
    complain(m, what, fusec_status_text(s));
    fputs(m->log, stderr);
    return false;
}

/* The manifest's symbol begins with the model's name, which the file beside it has. */
static bool open_manifest(GpuModel *m) {
    char path[MODEL_PATH], prefix[200], symbol[220];
    snprintf(path, sizeof path, "%s/%s/%s/prefix", m->pack, m->arch, m->name);
    FILE *f = fopen(path, "r");
    const bool ok = f && fscanf(f, "%199s", prefix) == 1;
    if (f) fclose(f);
    if (!ok) return complain(m, path, "cannot be read");
    snprintf(path, sizeof path, "%s/%s/%s/model.so", m->pack, m->arch, m->name);
    m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) return complain(m, path, dlerror());
    snprintf(symbol, sizeof symbol, "%s_manifest", prefix);
    m->manifest = dlsym(m->library, symbol);
    return m->manifest || complain(m, symbol, "is not in model.so");
}

static void **blocks(const fusec_tensor *t, uint32_t n) {
    void **at = calloc(n + 1, sizeof *at);
    for (uint32_t i = 0; at && i < n; i++)
        if (!(at[i] = calloc(1, (size_t)t[i].bytes + 1))) return NULL;
    return at;
}

static bool allocate(GpuModel *m) {
    m->inputs = blocks(m->manifest->inputs, m->manifest->n_inputs);
    m->outputs = blocks(m->manifest->outputs, m->manifest->n_outputs);
    if (!m->inputs || !m->outputs) return complain(m, "host memory", "there is too little");
    for (uint32_t i = 0; i < m->manifest->n_inputs; i++)
        numbers_draw(&m->manifest->inputs[i], m->inputs[i], numbers_count(&m->manifest->inputs[i]));
    return true;
}

static fusec_status open_image(GpuModel *m, const char *file) {
    char image[MODEL_PATH];
    snprintf(image, sizeof image, "%s/%s/%s/%s", m->pack, m->arch, m->name, file);
    if (access(image, R_OK) != 0) return FUSEC_E_ARGUMENT;
    const fusec_cuda_options options = {.image_path = image, .log = m->log, .log_bytes = sizeof m->log};
    const fusec_status s = fusec_cuda_init(&m->cuda, m->manifest, NULL, &options);
    if (s != FUSEC_OK) failed(m, image, s);
    return s;
}

bool model_open(GpuModel *m, const char *pack, const char *arch, const char *name, bool cubin) {
    memset(m, 0, sizeof *m);
    m->pack = pack;
    m->arch = arch;
    m->name = name;
    if (!open_manifest(m) || !allocate(m)) return false;
    /* a driver older than the assembler that made the cubin takes the PTX */
    m->open = (cubin && open_image(m, "model.cubin") == FUSEC_OK) || open_image(m, "model.ptx") == FUSEC_OK;
    if (!m->open) return complain(m, "model.ptx", "there are no kernels that run here");
    return !m->manifest->entry[FUSEC_INIT].present || model_run(m, FUSEC_INIT);
}

void model_close(GpuModel *m) {
    if (m->open) fusec_cuda_free(&m->cuda);
    for (uint32_t i = 0; m->inputs && i < m->manifest->n_inputs; i++) free(m->inputs[i]);
    for (uint32_t i = 0; m->outputs && i < m->manifest->n_outputs; i++) free(m->outputs[i]);
    free(m->inputs);
    free(m->outputs);
    if (m->library) dlclose(m->library);
    memset(m, 0, sizeof *m);
}

static fusec_cuda_call call_of(const GpuModel *m, int entry) {
    return (fusec_cuda_call){
        .inputs = (const void *const *)m->inputs, .outputs = entry == FUSEC_INIT ? NULL : m->outputs, .step = 1};
}

bool model_run(GpuModel *m, int entry) {
    const fusec_cuda_call call = call_of(m, entry);
    fusec_status s = fusec_cuda_run(&m->cuda, entry, &call);
    if (s == FUSEC_OK) s = fusec_cuda_wait(&m->cuda);
    return s == FUSEC_OK || failed(m, entry_names[entry], s);
}

void model_kernels(const GpuModel *m, int entry, fusec_region region, uint64_t offset, uint64_t n, uint32_t index,
                   char *to, size_t room) {
    const fusec_manifest *f = m->manifest;
    size_t used = 0;
    to[0] = 0;
    for (uint32_t i = 0; i < f->entry[entry].n_launches && used + 1 < room; i++) {
        const fusec_launch *l = &f->launches[f->entry[entry].first_launch + i];
        bool touches = false;
        for (uint32_t a = 0; a < f->kernels[l->kernel].n_args && !touches; a++) {
            const fusec_arg *x = &f->args[l->first_arg + a];
            touches = x->region == region &&
                      (region == FUSEC_R_OUTPUT ? x->index == index : x->offset >= offset && x->offset < offset + n);
        }
        if (!touches) continue;
        const int k = snprintf(to + used, room - used, "%s%s", used ? ", " : "", f->kernels[l->kernel].name);
        used += k > 0 ? (size_t)k : 0;
    }
}

/* A manifest whose entry is one launch stands in for the whole, so that a failure has a name. */
bool model_locate(GpuModel *m, int entry) {
    const fusec_manifest *whole = m->manifest;
    const fusec_cuda_call call = call_of(m, entry);
    for (uint32_t i = 0; i < whole->entry[entry].n_launches; i++) {
        fusec_manifest one = *whole;
        float ms = 0;
        one.entry[entry].first_launch += i;
        one.entry[entry].n_launches = 1;
        m->cuda.manifest = &one;
        const fusec_status s = fusec_cuda_profile(&m->cuda, entry, &call, &ms);
        m->cuda.manifest = whole;
        if (s == FUSEC_OK) continue;
        const fusec_launch *l = &whole->launches[whole->entry[entry].first_launch + i];
        fprintf(stderr, "%s %s %s: launch %u, kernel %s\n", m->name, m->arch, entry_names[entry], i,
                whole->kernels[l->kernel].name);
        return failed(m, "it fails", s);
    }
    return true;
}
