#include "ir/module_run.h"
#include <string.h>

typedef struct Runner {
    const Module *m;
    const ModuleMemory *mem;
    uint8_t *defined; /* of the arena */
    int64_t arena_bytes;
} Runner;

static int64_t buffer_bytes(const Buffer *b) {
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++) {
        if (b->dim[d].bound == 0) return 0;
        last += (b->dim[d].bound - 1) * b->stride[d];
    }
    return (last + 1) * dtype_bytes(b->dtype);
}

/* Where an argument lies; data NULL if the caller does not want the output. */
static TileMemory locate(const Runner *r, const LaunchArg *arg, const Buffer *b) {
    const ModuleMemory *m = r->mem;
    char *base = NULL;
    uint8_t *defined = NULL;
    switch (arg->region) {
    case REGION_PARAM: base = m->params; break;
    case REGION_STATE: base = m->states; break;
    case REGION_GRAD: base = m->grads; break;
    case REGION_ARENA: base = m->arena, defined = r->defined + arg->offset; break;
    case REGION_SCALAR: base = (char *)m->scalars; break;
    case REGION_INPUT: base = m->inputs[arg->index]; break;
    case REGION_OUTPUT: base = m->outputs[arg->index]; break;
    }
    if (!base && arg->scratch) { /* left out, but others read it */
        base = (char *)m->arena + arg->scratch - 1;
        defined = r->defined + arg->scratch - 1 + arg->offset;
    }
    return (TileMemory){base ? base + arg->offset : NULL, buffer_bytes(b), defined};
}

bool module_wants(const Module *m, Entry e, void *const *outputs, uint32_t lines, const Launch *l) {
    if (l->wanted_by == FUSEC_ALWAYS) return true;
    for (int o = 0; o < m->outputs.n && o < FUSEC_OUTPUT_BITS(e, m->lines.n); o++)
        if ((l->wanted_by >> o & 1) && outputs[o]) return true;
    for (int i = 0; i < m->lines.n && e == ENTRY_STEP; i++)
        if ((l->wanted_by & FUSEC_WANTED_LINE(i)) && (!lines || (lines >> i & 1))) return true;
    return false;
}

static bool run_launch(Arena *scratch, const Runner *r, const Launch *l, const int64_t *syms, const char **error) {
    const Kernel *k = r->m->kernels.at[l->kernel];
    TileMemory *mem = ARENA_ARRAY(scratch, TileMemory, l->n_args + 1);
    for (int i = 0; i < k->buffers.n; i++) {
        mem[i] = locate(r, &l->args[i], &k->buffers.at[i]);
        if (!mem[i].data && mem[i].bytes > 0) return true; /* an output nobody asked for */
    }
    int64_t *integers = ARENA_ARRAY(scratch, int64_t, k->n_syms + 1);
    const int extents = k->n_syms - k->n_constants;
    for (int i = 0; i < k->n_syms; i++) integers[i] = i < extents ? syms[i] : l->constant[i - extents];
    return kernel_run(scratch, k, mem, integers, error);
}

bool module_run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    const ModuleEntry *entry = &m->entry[e];
    Arena *scratch = arena_new();
    Runner r = {.m = m, .mem = mem, .arena_bytes = entry->arena_bytes};
    r.defined = ARENA_ARRAY(scratch, uint8_t, entry->arena_bytes + 1);
    if (mem->arena) memset(mem->arena, 0xA5, (size_t)entry->arena_bytes);
    bool ok = true;
    for (int i = 0; i < entry->launches.n && ok; i++) {
        const Launch *l = &entry->launches.at[i];
        if (!module_wants(m, e, mem->outputs, mem->lines, l)) continue;
        Arena *one = arena_new();
        ok = run_launch(one, &r, l, syms, error);
        if (!ok) *error = arena_printf(a, "launch %d, kernel %s: %s", i, m->kernels.at[l->kernel]->name, *error);
        arena_free(one);
    }
    arena_free(scratch);
    return ok;
}
