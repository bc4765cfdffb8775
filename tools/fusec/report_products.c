#include "tools/fusec/report_products.h"
#include "ir/tile_schedule.h"
#include "ir/tile_stage.h"
#include "ir/tile_tensor_map.h"
#include <string.h>

enum { WIDEST = 16 /* bytes of an access */ };

/* The first product of a kernel, or NULL. */
static const Inst *product_of(const Block *b) {
    const Inst *found = NULL;
    for (int n = 0; n < b->n && !found; n++) found = b->at[n]->kind == TI_DOT ? b->at[n] : product_of(&b->at[n]->body);
    return found;
}

/* Elements along the axis over those of its tiles. */
static double used_along(const Kernel *k, int axis) {
    const Axis *x = &k->axes.at[axis];
    const int64_t tiles = (x->extent.bound + x->step - 1) / x->step;
    return tiles ? (double)x->extent.bound / (double)(tiles * x->step) : 1;
}

ProductReport product_report(const Kernel *k, const Target *t) {
    ProductReport r = {0};
    MatrixAxes x;
    for (int i = 0; i < k->bundle.n && !r.by; i++) r = product_report(k->bundle.at[i].kernel, t);
    const Inst *dot = t->device->is_gpu ? product_of(&k->body) : NULL;
    if (!dot) return r;
    r.by = dot->by == BY_WGMMA ? "wgmma" : dot->by == BY_MMA ? "mma" : "threads";
    r.low = dtype_is_low(k->types.at[dot->in[0]].dtype);
    r.used = 1;
    if (dot->by == BY_NONE || !matrix_axes(k, dot, &x) || x.row < 0 || x.col < 0) return r;
    r.rows = k->axes.at[x.row].step;
    r.columns = k->axes.at[x.col].step;
    r.by_turns = k->alternate > 1;
    r.measured = k->measured;
    r.used = used_along(k, x.row) * used_along(k, x.col) * used_along(k, x.sum);
    return r;
}

/* A factor that is fetched in pieces, because of how it lies in memory. */
static void note_narrow(const Kernel *k, const Inst *stage) {
    if (!stage || stage->kind != TI_STAGE || stage->bytes == 0 || stage->bytes >= WIDEST) return;
    const Inst *load = copied_load(k, stage->in[0]);
    const char *name = load && load->kind == TI_LOAD ? k->buffers.at[load->buffer].name : NULL;
    printf("    %s: %s is fetched %d bytes at a time, not %d: no more lies together at aligned places\n", k->name,
           name ? name : "a factor", stage->bytes, WIDEST);
}

static void note_stores(const Kernel *k) {
    for (int n = 0; n < k->body.n; n++) {
        const Inst *i = k->body.at[n];
        if (i->kind != TI_STORE || i->by != BY_THREADS || i->bytes >= WIDEST) continue;
        printf("    %s: %s is stored %d bytes at a time, not %d: no more lies together at aligned places\n", k->name,
               k->buffers.at[i->buffer].name, i->bytes, WIDEST);
    }
}

static void note_product(Arena *a, const Kernel *k, const Target *t) {
    const Inst *dot = product_of(&k->body);
    const char *best = t->has_wgmma ? "wgmma" : "mma";
    const ProductReport r = product_report(k, t);
    for (int i = 0; i < k->bundle.n; i++) note_product(a, k->bundle.at[i].kernel, t);
    if (!dot || !r.by || !r.low) return;
    if (strcmp(r.by, best))
        printf("    %s: by %s, not %s: %s\n", k->name, r.by, best,
               k->slow ? k->slow : "it is one of several products of its kernel");
    if (dot->by == BY_NONE) return;
    const Inst **def = kernel_defs(a, k);
    note_narrow(k, def[dot->in[0]]);
    note_narrow(k, def[dot->in[1]]);
    note_stores(k);
}

/* A factor of low precision, which only matrix units and processors that multiply pairs of bf16 take as it is. */
static bool is_low_factor(const Kernel *k, const Inst *const *def, int value) {
    const Inst *i = def[value];
    if (dtype_is_low(k->types.at[value].dtype)) return true;
    return i && i->kind == TI_ELEMENT && i->op == OP_CAST && is_low_factor(k, def, i->in[0]);
}

static int low_products(const Kernel *k, const Inst *const *def, const Block *b) {
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const Inst *x = b->at[i];
        n += x->kind == TI_DOT && (is_low_factor(k, def, x->in[0]) || is_low_factor(k, def, x->in[1]));
        n += low_products(k, def, &x->body);
    }
    return n;
}

/* Does a product of the kernel convert its factors to f32? */
static bool widens(Arena *a, const Kernel *k, const Target *t, int pairs) {
    const bool converts = !t->device->is_gpu && product_of(&k->body);
    return converts && low_products(k, kernel_defs(a, k), &k->body) > pairs;
}

/* The target for one GPU alone whose matrix instructions are faster than this one's: sm_90a of sm_90. */
static const Target *faster_target(Arena *a, const Target *t) {
    const Target *own = target_find(arena_printf(a, "%sa", t->name));
    return own && own->has_wgmma && !t->has_wgmma ? own : NULL;
}

void product_notes(Arena *a, const Module *m, Entry e, const Target *t, const char *profile, const HostProducts *host) {
    const ModuleEntry *entry = &m->entry[e];
    bool *seen = ARENA_ARRAY(a, bool, m->kernels.n + 1);
    int wide = 0, tiled = 0, measured = 0, widened = 0, paired = 0;
    for (int i = 0; i < entry->launches.n; i++) {
        const int kernel = entry->launches.at[i].kernel;
        const ProductReport r = product_report(m->kernels.at[kernel], t);
        wide += r.by && !r.low;
        tiled += r.rows > 0;
        widened += widens(a, m->kernels.at[kernel], t, host ? host[kernel].pairs : 0);
        paired += host && host[kernel].pairs > 0;
        measured += r.measured;
        if (!seen[kernel]) note_product(a, m->kernels.at[kernel], t);
        seen[kernel] = true;
    }
    if (profile)
        printf("    %d of %d launches have tiles from %s, the others by the cost model\n", measured, tiled, profile);
    const Target *faster = faster_target(a, t);
    if (tiled && faster)
        printf("    %d launches multiply by mma: on Hopper --target %s does by wgmma\n", tiled, faster->name);
    if (wide)
        printf("    %d launches multiply f32 by threads: with `precision tf32`, bf16 or f16 matrix units do\n", wide);
    if (paired) printf("    %d launches multiply bf16 in pairs, as the processor can, with sums of f32\n", paired);
    if (widened)
        printf(
            "    %d launches multiply f16, bf16 or tf32 as f32, after conversion: here low precision saves no time\n",
            widened);
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */
static bool same_form(const HostProduct *x, const HostProduct *y) {
    bool same = x->form == y->form && x->n_why == y->n_why;
    for (int i = 0; i < x->n_why && same; i++) same = strcmp(x->why[i], y->why[i]) == 0;
    return same;
}

typedef struct FormCount {
    HostProduct like;
    int n;
} FormCount;

void product_forms(Arena *a, const Module *m, Entry e, const HostProducts *host) {
    const ModuleEntry *entry = &m->entry[e];
    bool *seen = ARENA_ARRAY(a, bool, m->kernels.n + 1);
    VEC(FormCount) counts = {0};
    for (int i = 0; i < entry->launches.n; i++) {
        const int kernel = entry->launches.at[i].kernel;
        for (int p = 0; p < host[kernel].n && !seen[kernel]; p++) {
            const HostProduct *x = &host[kernel].of[p];
            int at = 0;
            while (at < counts.n && !same_form(&counts.at[at].like, x)) at++;
            if (at == counts.n) vec_push(a, counts, ((FormCount){.like = *x}));
            counts.at[at].n++;
        }
        seen[kernel] = true;
    }
    for (int i = 0; i < counts.n; i++) {
        const HostProduct *x = &counts.at[i].like;
        printf("    %d product%s %s", counts.at[i].n, counts.at[i].n > 1 ? "s" : "", x->form);
        for (int w = 0; w < x->n_why; w++) printf("%s not %s: %s", w ? ";" : ",", x->before[w], x->why[w]);
        putchar('\n');
    }
}
