/* Structs are built field by field in the order of fusec.h; LLVM lays them out as C does. */
#include "codegen/host/manifest.h"
#include "codegen/artifact/artifact.h"
#include <assert.h>
#include <llvm-c/Target.h>
#include <string.h>

typedef VEC(LLVMValueRef) Fields;

typedef struct Data {
    const Emit *e;
    Arena *a;
    const Module *m;
} Data;

static LLVMValueRef integer(LLVMTypeRef t, uint64_t v) { return LLVMConstInt(t, v, false); }

/* `size` is C's: a header that has moved on does not pass unnoticed. */
static LLVMValueRef sized(const Data *d, LLVMValueRef v, size_t size) {
    const bool same = LLVMABISizeOfType(LLVMGetModuleDataLayout(d->e->module), LLVMTypeOf(v)) == size;
    assert(same);
    (void)same;
    return v;
}

static LLVMValueRef record(const Data *d, const Fields *f, size_t size) {
    return sized(d, LLVMConstStructInContext(d->e->context, f->at, (unsigned)f->n, false), size);
}

static LLVMValueRef global(const Data *d, LLVMValueRef init, const char *name, LLVMLinkage linkage) {
    LLVMValueRef g = LLVMAddGlobal(d->e->module, LLVMTypeOf(init), name);
    LLVMSetInitializer(g, init);
    LLVMSetGlobalConstant(g, true);
    LLVMSetLinkage(g, linkage);
    return g;
}

static LLVMValueRef text(const Data *d, const char *s) {
    if (!s) s = "";
    LLVMValueRef v = LLVMConstStringInContext2(d->e->context, s, strlen(s), false);
    return global(d, v, "text", LLVMPrivateLinkage);
}

/* A table of records, NULL when empty. */
static LLVMValueRef table(const Data *d, const Fields *rows, const char *name) {
    if (!rows->n) return LLVMConstNull(d->e->ptr);
    return global(d, LLVMConstArray2(LLVMTypeOf(rows->at[0]), rows->at, (uint64_t)rows->n), name, LLVMPrivateLinkage);
}

static LLVMValueRef int_array(LLVMTypeRef t, const int64_t *v, int n) {
    LLVMValueRef item[FUSEC_MAX_RANK];
    for (int i = 0; i < n; i++) item[i] = LLVMConstInt(t, (uint64_t)v[i], true);
    return LLVMConstArray2(t, item, (uint64_t)n);
}

static LLVMValueRef tensor(const Data *d, const ModuleTensor *t) {
    const Emit *e = d->e;
    int64_t dim[FUSEC_MAX_RANK] = {0}, sym[FUSEC_MAX_RANK], scale[FUSEC_MAX_RANK] = {0}, shift[FUSEC_MAX_RANK] = {0};
    for (int i = 0; i < FUSEC_MAX_RANK; i++) {
        const bool real = i < t->shape.rank;
        const Dim x = real ? t->shape.dim[i] : dim_fixed(0);
        dim[i] = x.bound;
        sym[i] = x.sym;
        scale[i] = dim_is_fixed(x) ? 0 : x.scale;
        shift[i] = dim_is_fixed(x) ? x.bound : x.offset;
    }
    Fields f = {0};
    vec_push(d->a, f, text(d, t->name));
    vec_push(d->a, f, integer(e->i64, (uint64_t)t->offset));
    vec_push(d->a, f, integer(e->i64, (uint64_t)t->bytes));
    vec_push(d->a, f, integer(e->i64, t->has_range ? (uint64_t)t->lo : 0));
    vec_push(d->a, f, integer(e->i64, t->has_range ? (uint64_t)t->hi : 0));
    vec_push(d->a, f, int_array(e->i32, dim, FUSEC_MAX_RANK));
    vec_push(d->a, f, int_array(e->i8, sym, FUSEC_MAX_RANK));
    vec_push(d->a, f, int_array(e->i32, scale, FUSEC_MAX_RANK));
    vec_push(d->a, f, int_array(e->i32, shift, FUSEC_MAX_RANK));
    vec_push(d->a, f, integer(e->i8, artifact_dtype(t->dtype)));
    vec_push(d->a, f, integer(e->i8, (uint64_t)t->shape.rank));
    vec_push(d->a, f, integer(e->i8, t->trainable));
    vec_push(d->a, f, integer(e->i8, t->outcome));
    return record(d, &f, sizeof(fusec_tensor));
}

static LLVMValueRef tensors(const Data *d, const ModuleTensor *t, int n, const char *name) {
    Fields rows = {0};
    for (int i = 0; i < n; i++) vec_push(d->a, rows, tensor(d, &t[i]));
    return table(d, &rows, name);
}

enum { GRID_AXES = sizeof((fusec_kernel *)0)->grid / sizeof((fusec_kernel *)0)->grid[0] };

static LLVMValueRef grid(const Data *d, const Kernel *k, int *count) {
    LLVMValueRef rows[GRID_AXES];
    LLVMTypeRef i32 = d->e->i32;
    int n = 0;
    for (int a = 0; a < k->axes.n && n < GRID_AXES; a++) {
        const Axis *x = &k->axes.at[a];
        if (x->kind != AXIS_GRID) continue;
        const bool fixed = dim_is_fixed(x->extent);
        LLVMValueRef f[4] = {LLVMConstInt(i32, (uint64_t)(int64_t)x->extent.sym, true),
                             integer(i32, fixed ? 0 : (uint64_t)x->extent.scale),
                             LLVMConstInt(i32, (uint64_t)(fixed ? x->extent.bound : x->extent.offset), true),
                             integer(i32, (uint64_t)x->step)};
        rows[n++] = LLVMConstStructInContext(d->e->context, f, 4, false);
    }
    *count = n;
    LLVMTypeRef type = LLVMStructTypeInContext(d->e->context, (LLVMTypeRef[]){i32, i32, i32, i32}, 4, false);
    for (int i = n; i < GRID_AXES; i++) rows[i] = LLVMConstNull(type);
    return LLVMConstArray2(type, rows, GRID_AXES);
}

static LLVMValueRef kernel(const Data *d, const Kernel *k) {
    const Emit *e = d->e;
    const KernelCost cost = kernel_cost(k);
    int n_grid = 0;
    Fields f = {0};
    vec_push(d->a, f, text(d, k->name));
    vec_push(d->a, f, grid(d, k, &n_grid));
    vec_push(d->a, f, integer(e->i8, (uint64_t)n_grid));
    vec_push(d->a, f, integer(e->i8, (uint64_t)k->buffers.n));
    vec_push(d->a, f, integer(e->i8, (uint64_t)k->n_constants));
    vec_push(d->a, f, integer(e->i32, (uint64_t)k->threads));
    vec_push(d->a, f, integer(e->i32, 0));
    vec_push(d->a, f, LLVMConstReal(e->f64, cost.flops));
    vec_push(d->a, f, LLVMConstReal(e->f64, cost.bytes_read + cost.bytes_written));
    for (int i = 0; i < 4; i++) vec_push(d->a, f, integer(e->i8, 0)); /* clusters, persistence, maps: GPU */
    vec_push(d->a, f, integer(e->i32, 0));
    vec_push(d->a, f, integer(e->i8, 0)); /* dependent: GPU */
    return record(d, &f, sizeof(fusec_kernel));
}

/* Launches of all entries, their arguments and predecessors, one table each. */
static void launches(const Data *d, Fields *rows, Fields *args, Fields *after, LLVMValueRef *entries) {
    const Emit *e = d->e;
    for (int n = 0; n < ENTRY_COUNT; n++) {
        const ModuleEntry *entry = &d->m->entry[n];
        Fields f = {0};
        vec_push(d->a, f, integer(e->i64, (uint64_t)entry->arena_bytes));
        vec_push(d->a, f, integer(e->i32, (uint64_t)rows->n));
        vec_push(d->a, f, integer(e->i32, (uint64_t)entry->launches.n));
        vec_push(d->a, f, integer(e->i32, entry->present));
        entries[n] = record(d, &f, sizeof(fusec_entry));
        for (int i = 0; i < entry->launches.n; i++) {
            const Launch *l = &entry->launches.at[i];
            int64_t constant[FUSEC_MAX_CONSTANTS];
            for (int c = 0; c < FUSEC_MAX_CONSTANTS; c++) constant[c] = l->constant[c];
            LLVMValueRef row[6] = {
                integer(e->i32, (uint64_t)l->kernel),       integer(e->i32, (uint64_t)args->n),
                integer(e->i64, artifact_wanted_by(d->m, (Entry)n, l)), int_array(e->i32, constant, FUSEC_MAX_CONSTANTS),
                integer(e->i32, (uint64_t)after->n),        integer(e->i32, (uint64_t)l->n_after)};
            vec_push(d->a, *rows, sized(d, LLVMConstStructInContext(e->context, row, 6, false), sizeof(fusec_launch)));
            for (int x = 0; x < l->n_after; x++) vec_push(d->a, *after, integer(e->i32, (uint64_t)(i - l->after[x])));
            for (int x = 0; x < l->n_args; x++) {
                LLVMValueRef arg[4] = {integer(e->i64, (uint64_t)l->args[x].offset),
                                       integer(e->i16, (uint64_t)l->args[x].index),
                                       integer(e->i8, (uint64_t)l->args[x].region),
                                       integer(e->i64, (uint64_t)l->args[x].scratch)};
                vec_push(d->a, *args, sized(d, LLVMConstStructInContext(e->context, arg, 4, false), sizeof(fusec_arg)));
            }
        }
    }
}

static LLVMValueRef symbols(const Data *d) {
    Fields rows = {0};
    for (int i = 0; i < d->m->syms.n; i++) {
        LLVMValueRef f[2] = {text(d, d->m->syms.at[i].name), integer(d->e->i32, (uint64_t)d->m->syms.at[i].bound)};
        vec_push(d->a, rows, LLVMConstStructInContext(d->e->context, f, 2, false));
    }
    return table(d, &rows, "syms");
}

static LLVMValueRef hypers(const Data *d) {
    Fields rows = {0};
    for (int i = 0; i < d->m->hypers.n; i++) {
        LLVMValueRef f[2] = {text(d, d->m->hypers.at[i].name), LLVMConstReal(d->e->f32, d->m->hypers.at[i].value)};
        vec_push(d->a, rows, LLVMConstStructInContext(d->e->context, f, 2, false));
    }
    return table(d, &rows, "hypers");
}

static LLVMValueRef selftest(const Data *d) {
    const int n = d->m->outputs.n + (d->m->entry[ENTRY_GRAD].present ? d->m->grads.n : 0);
    LLVMTypeRef f32 = d->e->f32;
    Fields rows = {0};
    for (int i = 0; d->m->selftest && i < n; i++) {
        const fusec_sum *s = &d->m->selftest[i];
        LLVMValueRef f[3] = {LLVMConstReal(f32, s->sum), LLVMConstReal(f32, s->magnitude),
                             LLVMConstReal(f32, s->slack)};
        vec_push(d->a, rows, sized(d, LLVMConstStructInContext(d->e->context, f, 3, false), sizeof(fusec_sum)));
    }
    return table(d, &rows, "selftest");
}

static void counts(const Data *d, Fields *f) {
    const Module *m = d->m;
    const int n[] = {m->params.n,  m->states.n, m->grads.n,  m->inputs.n,
                     m->outputs.n, m->syms.n,   m->hypers.n, m->kernels.n,
                     m->lines.n};
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) vec_push(d->a, *f, integer(d->e->i32, (uint64_t)n[i]));
}

static void tables(const Data *d, Fields *f) {
    const Module *m = d->m;
    vec_push(d->a, *f, tensors(d, m->params.at, m->params.n, "params"));
    vec_push(d->a, *f, tensors(d, m->states.at, m->states.n, "states"));
    vec_push(d->a, *f, tensors(d, m->grads.at, m->grads.n, "grads"));
    vec_push(d->a, *f, tensors(d, m->inputs.at, m->inputs.n, "inputs"));
    vec_push(d->a, *f, tensors(d, m->outputs.at, m->outputs.n, "outputs"));
    vec_push(d->a, *f, symbols(d));
    vec_push(d->a, *f, hypers(d));
    Fields kernels = {0}, rows = {0}, args = {0}, after = {0};
    for (int i = 0; i < m->kernels.n; i++) vec_push(d->a, kernels, kernel(d, m->kernels.at[i]));
    LLVMValueRef entries[ENTRY_COUNT];
    launches(d, &rows, &args, &after, entries);
    vec_push(d->a, *f, table(d, &kernels, "kernels"));
    vec_push(d->a, *f, table(d, &rows, "launches"));
    vec_push(d->a, *f, table(d, &args, "args"));
    vec_push(d->a, *f, LLVMConstNull(d->e->ptr)); /* maps: GPU */
    vec_push(d->a, *f, table(d, &after, "after"));
    vec_push(d->a, *f, selftest(d));
    vec_push(d->a, *f, LLVMConstArray2(LLVMTypeOf(entries[0]), entries, ENTRY_COUNT));
}

void manifest_emit(const Emit *e, Arena *a, const Module *m) {
    const Data d = {e, a, m};
    Fields f = {0};
    vec_push(a, f, integer(e->i32, FUSEC_ABI_VERSION));
    vec_push(a, f, integer(e->i32, (uint64_t)m->align));
    vec_push(a, f, integer(e->i64, m->hash));
    vec_push(a, f, text(&d, m->name));
    vec_push(a, f, integer(e->i64, (uint64_t)m->param_bytes));
    vec_push(a, f, integer(e->i64, (uint64_t)m->state_bytes));
    vec_push(a, f, integer(e->i64, (uint64_t)m->grad_bytes));
    counts(&d, &f);
    tables(&d, &f);
    global(&d, record(&d, &f, sizeof(fusec_manifest)), arena_printf(a, "%s_manifest", artifact_prefix(a, m)),
           LLVMExternalLinkage);
}

void manifest_emit_kernels(const Emit *e, Arena *a, const Module *m, LLVMValueRef *fn) {
    const Data d = {e, a, m};
    LLVMValueRef none = LLVMConstNull(e->ptr), init = m->kernels.n ? LLVMConstArray2(e->ptr, fn, (uint64_t)m->kernels.n)
                                                                   : LLVMConstArray2(e->ptr, &none, 1);
    global(&d, init, arena_printf(a, "%s_kernels", artifact_prefix(a, m)), LLVMExternalLinkage);
}
