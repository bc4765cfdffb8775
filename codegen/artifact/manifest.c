/* The manifest as C tables. */
#include "codegen/artifact/artifact.h"
#include "codegen/c99/c99.h"
#include "codegen/nvptx/nvptx.h"
#include <float.h>
#include <inttypes.h>

static const char *const region_name[] = {"PARAM", "STATE", "GRAD", "ARENA", "SCALAR", "INPUT", "OUTPUT"};

fusec_dtype artifact_dtype(DType t) {
    switch (t) {
    case DT_BOOL: return FUSEC_BOOL;
    case DT_I32: return FUSEC_I32;
    case DT_F16: return FUSEC_F16;
    case DT_BF16: return FUSEC_BF16;
    default: return FUSEC_F32;
    }
}

static void list(FILE *f, const char *field, const Shape *s, int64_t (*get)(const Dim *)) {
    fprintf(f, ", .%s = {", field);
    for (int d = 0; d < s->rank; d++) fprintf(f, "%s%" PRId64, d ? ", " : "", get(&s->dim[d]));
    fputs("}", f);
}

static int64_t dim_bound(const Dim *d) { return d->bound; }
static int64_t dim_sym(const Dim *d) { return d->sym; }
static int64_t dim_scale(const Dim *d) { return dim_is_fixed(*d) ? 0 : d->scale; }
static int64_t dim_shift(const Dim *d) { return dim_is_fixed(*d) ? d->bound : d->offset; }

static void tensor(FILE *f, Arena *a, const ModuleTensor *t) {
    fprintf(f,
            "    {.name = %s, .offset = %" PRId64 "u, .bytes = %" PRId64 "u, .dtype = %d, .rank = %d, .trainable = %d",
            artifact_string(a, t->name), t->offset, t->bytes, (int)artifact_dtype(t->dtype), t->shape.rank, t->trainable);
    if (t->outcome) fputs(", .outcome = 1", f);
    if (t->has_range) fprintf(f, ", .lo = %" PRId64 ", .hi = %" PRId64, t->lo, t->hi);
    if (t->shape.rank) {
        list(f, "dim", &t->shape, dim_bound);
        list(f, "sym", &t->shape, dim_sym);
        if (!shape_is_fixed(t->shape)) {
            list(f, "scale", &t->shape, dim_scale);
            list(f, "shift", &t->shape, dim_shift);
        }
    }
    fputs("},\n", f);
}

static void tensors(FILE *f, Arena *a, const char *prefix, const char *what, const ModuleTensor *at, int n) {
    if (!n) return;
    fprintf(f, "static const fusec_tensor %s_table_%s[] = {\n", prefix, what);
    for (int i = 0; i < n; i++) tensor(f, a, &at[i]);
    fputs("};\n", f);
}

bool artifact_grid(const Kernel *k, struct fusec_grid grid[FUSEC_MAX_GRID], int *n) {
    *n = 0;
    if (k->bundle.n) {
        const int64_t programs = kernel_programs(k, NULL);
        grid[(*n)++] = (struct fusec_grid){NO_SYM, 0, (int32_t)programs, 1};
        return programs <= INT32_MAX;
    }
    for (int i = 0; i < k->axes.n; i++) {
        const Axis *x = &k->axes.at[i];
        const Dim d = x->extent;
        if (x->kind != AXIS_GRID) continue;
        if (*n == FUSEC_MAX_GRID || d.bound > INT32_MAX || d.scale > INT32_MAX || d.scale < INT32_MIN ||
            d.offset > INT32_MAX || d.offset < INT32_MIN)
            return false;
        grid[(*n)++] = dim_is_fixed(d) ? (struct fusec_grid){NO_SYM, 0, (int32_t)d.bound, x->step}
                                       : (struct fusec_grid){d.sym, (int32_t)d.scale, (int32_t)d.offset, x->step};
    }
    return true;
}

uint64_t artifact_wanted_by(const Module *m, Entry e, const Launch *l) {
    const Kernel *k = m->kernels.at[l->kernel];
    uint64_t mask = 0;
    if (l->wanted_by != FUSEC_ALWAYS) return l->wanted_by;
    for (int i = 0; i < l->n_args; i++) {
        if (!k->buffers.at[i].written) continue;
        const LaunchArg *to = &l->args[i];
        if (to->region != REGION_OUTPUT || to->index >= FUSEC_OUTPUT_BITS(e, m->lines.n) || to->scratch) return FUSEC_ALWAYS;
        mask |= (uint64_t)1 << to->index;
    }
    return mask ? mask : FUSEC_ALWAYS;
}

static void map(FILE *f, const fusec_tensor_map *x) {
    fprintf(f, "    {%" PRIu64 "u, {", x->offset);
    for (int d = 0; d + 1 < FUSEC_MAP_RANK; d++) fprintf(f, "%s%" PRIu64 "u", d ? ", " : "", x->stride[d]);
    fputs("}, {", f);
    for (int d = 0; d < FUSEC_MAP_RANK; d++)
        fprintf(f, "%s{%" PRId32 ", %" PRId32 ", %" PRId32 "}", d ? ", " : "", x->extent[d].sym, x->extent[d].scale,
                x->extent[d].shift);
    fputs("}, {", f);
    for (int d = 0; d < FUSEC_MAP_RANK; d++) fprintf(f, "%s%d", d ? ", " : "", x->box[d]);
    fprintf(f, "}, %d, %d, %d, %d, %d, {", x->swizzle, x->buffer, x->rank, x->type, x->windows);
    for (int w = 0; w < FUSEC_MAP_RANK - 2; w++)
        fprintf(f, "%s{%d, %d, %d}", w ? ", " : "", x->window[w].lower, x->window[w].upper, x->window[w].step);
    fputs("}},\n", f);
}

static bool any_maps(Arena *a, const Module *m) {
    fusec_tensor_map maps[FUSEC_MAX_MAPS];
    bool any = false;
    for (int i = 0; i < m->kernels.n && !any; i++) {
        fusec_kernel gpu = {0};
        nvptx_launch(a, m->kernels.at[i], &gpu, maps);
        any = gpu.n_maps > 0;
    }
    return any;
}

static void tensor_maps(FILE *f, Arena *a, const char *prefix, const Module *m) {
    if (!any_maps(a, m)) return;
    fprintf(f, "static const fusec_tensor_map %s_table_maps[] = {\n", prefix);
    for (int i = 0; i < m->kernels.n; i++) {
        fusec_tensor_map maps[FUSEC_MAX_MAPS];
        fusec_kernel gpu = {0};
        nvptx_launch(a, m->kernels.at[i], &gpu, maps);
        for (int n = 0; n < gpu.n_maps; n++) map(f, &maps[n]);
    }
    fputs("};\n", f);
}

/* What only GPUs have, where it is not 0. */
static void gpu_fields(FILE *f, const fusec_kernel *k) {
    if (k->cluster) fprintf(f, ", .cluster = %d, .cluster_axis = %d", k->cluster, k->cluster_axis);
    if (k->persistent) fputs(", .persistent = 1", f);
    if (k->dependent) fputs(", .dependent = 1", f);
    if (k->n_maps) fprintf(f, ", .n_maps = %d, .first_map = %" PRIu32, k->n_maps, k->first_map);
}

static void kernels(FILE *f, Arena *a, const char *prefix, const Module *m) {
    uint32_t first_map = 0;
    if (!m->kernels.n) return;
    fprintf(f, "static const fusec_kernel %s_table_kernels[] = {\n", prefix);
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        const KernelCost c = kernel_cost(k);
        struct fusec_grid grid[FUSEC_MAX_GRID];
        fusec_tensor_map maps[FUSEC_MAX_MAPS];
        fusec_kernel gpu = {.first_map = first_map};
        int n;
        if (!artifact_grid(k, grid, &n)) n = 0;
        nvptx_launch(a, k, &gpu, maps);
        first_map += gpu.n_maps;
        fprintf(f,
                "    {.name = %s, .n_grid = %d, .n_args = %d, .n_constants = %d, .threads = %d, .shared_bytes = %d, "
                ".flops = %.17g, .bytes "
                "= %.17g",
                artifact_string(a, k->name), n, k->buffers.n, k->n_constants, (int)gpu.threads, (int)gpu.shared_bytes,
                c.flops, c.bytes_read + c.bytes_written);
        for (int g = 0; g < n; g++)
            fprintf(f, "%s{%" PRId32 ", %" PRId32 ", %" PRId32 ", %" PRId32 "}%s", g ? ", " : ", .grid = {",
                    grid[g].sym, grid[g].scale, grid[g].shift, grid[g].step, g == n - 1 ? "}" : "");
        gpu_fields(f, &gpu);
        fputs("},\n", f);
    }
    fputs("};\n", f);
}

static int count_launches(const Module *m) {
    int n = 0;
    for (int e = 0; e < ENTRY_COUNT; e++) n += m->entry[e].present ? m->entry[e].launches.n : 0;
    return n;
}

static int count_args(const Module *m) {
    int n = 0;
    for (int e = 0; e < ENTRY_COUNT; e++)
        for (int l = 0; m->entry[e].present && l < m->entry[e].launches.n; l++) n += m->entry[e].launches.at[l].n_args;
    return n;
}

static int count_after(const Module *m) {
    int n = 0;
    for (int e = 0; e < ENTRY_COUNT; e++)
        for (int l = 0; m->entry[e].present && l < m->entry[e].launches.n; l++) n += m->entry[e].launches.at[l].n_after;
    return n;
}

/* What each launch follows, counted back from it. */
static void predecessors(FILE *f, const char *prefix, const Module *m) {
    if (!count_after(m)) return;
    fprintf(f, "static const uint32_t %s_table_after[] = {\n", prefix);
    for (int e = 0; e < ENTRY_COUNT; e++)
        for (int l = 0; m->entry[e].present && l < m->entry[e].launches.n; l++) {
            const Launch *x = &m->entry[e].launches.at[l];
            for (int i = 0; i < x->n_after; i++)
                fprintf(f, "%s%d,%s", i ? " " : "    ", l - x->after[i], i == x->n_after - 1 ? "\n" : "");
        }
    fputs("};\n", f);
}

static void launches(FILE *f, const char *prefix, const Module *m) {
    if (!count_launches(m)) return;
    int first = 0, first_after = 0;
    fprintf(f, "static const fusec_launch %s_table_launches[] = {\n", prefix);
    for (int e = 0; e < ENTRY_COUNT; e++)
        for (int l = 0; m->entry[e].present && l < m->entry[e].launches.n; l++) {
            const Launch *x = &m->entry[e].launches.at[l];
            fprintf(f, "    {%d, %d, 0x%" PRIx64 "u, {", x->kernel, first, artifact_wanted_by(m, (Entry)e, x));
            for (int c = 0; c < FUSEC_MAX_CONSTANTS; c++) fprintf(f, "%s%" PRId32, c ? ", " : "", x->constant[c]);
            fprintf(f, "}, %d, %d}, /* %s */\n", first_after, x->n_after, entry_name[e]);
            first += x->n_args;
            first_after += x->n_after;
        }
    fputs("};\n", f);
    predecessors(f, prefix, m);
    if (!count_args(m)) return;
    fprintf(f, "static const fusec_arg %s_table_args[] = {\n", prefix);
    for (int e = 0; e < ENTRY_COUNT; e++)
        for (int l = 0; m->entry[e].present && l < m->entry[e].launches.n; l++) {
            const Launch *x = &m->entry[e].launches.at[l];
            for (int i = 0; i < x->n_args; i++)
                fprintf(f, "%s{%" PRId64 "u, %d, FUSEC_R_%s, %" PRId64 "u},%s", i ? " " : "    ", x->args[i].offset,
                        x->args[i].index, region_name[x->args[i].region], x->args[i].scratch,
                        i == x->n_args - 1 ? "\n" : "");
        }
    fputs("};\n", f);
}

/* A constant expression: what is not finite becomes the largest float, or 0 for NaN. */
static char *constant(Arena *a, double v) {
    if (v != v) v = 0;
    return c99_literal(a, DT_F32, v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v);
}

static void symbols(FILE *f, Arena *a, const char *prefix, const Module *m) {
    if (m->syms.n) {
        fprintf(f, "static const fusec_symbol %s_table_syms[] = {\n", prefix);
        for (int i = 0; i < m->syms.n; i++)
            fprintf(f, "    {%s, %" PRId64 "},\n", artifact_string(a, m->syms.at[i].name), m->syms.at[i].bound);
        fputs("};\n", f);
    }
    if (m->hypers.n) {
        fprintf(f, "static const fusec_hyper %s_table_hypers[] = {\n", prefix);
        for (int i = 0; i < m->hypers.n; i++)
            fprintf(f, "    {%s, %s},\n", artifact_string(a, m->hypers.at[i].name), constant(a, m->hypers.at[i].value));
        fputs("};\n", f);
    }
}

static void selftest(FILE *f, Arena *a, const char *prefix, const Module *m) {
    const int n = m->outputs.n + (m->entry[ENTRY_GRAD].present ? m->grads.n : 0);
    if (!m->selftest) return;
    fprintf(f, "static const fusec_sum %s_table_selftest[] = {\n", prefix);
    for (int i = 0; i < n; i++)
        fprintf(f, "    {%s, %s, %s},\n", constant(a, m->selftest[i].sum), constant(a, m->selftest[i].magnitude),
                constant(a, m->selftest[i].slack));
    fputs("};\n", f);
}

/* `.n_params = 3, .params = digits_params,`, or zeros. */
static void table(FILE *f, const char *prefix, const char *what, int n) {
    if (n) fprintf(f, "    .n_%s = %d, .%s = %s_table_%s,\n", what, n, what, prefix, what);
}

void artifact_manifest(FILE *f, const Module *m, bool with_launches) {
    Arena *a = arena_new();
    const char *p = artifact_prefix(a, m);
    tensors(f, a, p, "params", m->params.at, m->params.n);
    tensors(f, a, p, "states", m->states.at, m->states.n);
    tensors(f, a, p, "grads", m->grads.at, m->grads.n);
    tensors(f, a, p, "inputs", m->inputs.at, m->inputs.n);
    tensors(f, a, p, "outputs", m->outputs.at, m->outputs.n);
    symbols(f, a, p, m);
    selftest(f, a, p, m);
    if (with_launches) {
        tensor_maps(f, a, p, m);
        kernels(f, a, p, m);
        launches(f, p, m);
    }
    fprintf(
        f,
        "\nconst fusec_manifest %s_manifest = {\n    .abi_version = FUSEC_ABI_VERSION, .align = %d, .hash = 0x%" PRIx64
        "u,\n",
        p, m->align, m->hash);
    fprintf(f,
            "    .name = %s,\n    .param_bytes = %" PRId64 "u, .state_bytes = %" PRId64 "u, .grad_bytes = %" PRId64
            "u,\n",
            artifact_string(a, m->name), m->param_bytes, m->state_bytes, m->grad_bytes);
    table(f, p, "params", m->params.n);
    table(f, p, "states", m->states.n);
    table(f, p, "grads", m->grads.n);
    table(f, p, "inputs", m->inputs.n);
    table(f, p, "outputs", m->outputs.n);
    table(f, p, "syms", m->syms.n);
    table(f, p, "hypers", m->hypers.n);
    table(f, p, "kernels", with_launches ? m->kernels.n : 0);
    if (m->lines.n) fprintf(f, "    .n_lines = %d,\n", m->lines.n);
    if (with_launches && count_launches(m)) fprintf(f, "    .launches = %s_table_launches,\n", p);
    if (with_launches && count_args(m)) fprintf(f, "    .args = %s_table_args,\n", p);
    if (with_launches && any_maps(a, m)) fprintf(f, "    .maps = %s_table_maps,\n", p);
    if (with_launches && count_after(m)) fprintf(f, "    .after = %s_table_after,\n", p);
    if (m->selftest) fprintf(f, "    .selftest = %s_table_selftest,\n", p);
    fputs("    .entry = {", f);
    int first = 0;
    for (int e = 0; e < ENTRY_COUNT; e++) {
        const ModuleEntry *x = &m->entry[e];
        const int n = with_launches && x->present ? x->launches.n : 0;
        fprintf(f, "%s{%" PRId64 "u, %d, %d, %d}", e ? ",\n              " : "", x->present ? x->arena_bytes : 0,
                n ? first : 0, n, x->present);
        first += n;
    }
    fputs("}};\n", f);
    arena_free(a);
}
