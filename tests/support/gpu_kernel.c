#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/support/gpu_kernel.h"
#include "codegen/nvptx/nvptx.h"
#include "tests/support/number.h"
#include "tests/support/scratch.h"
#include "tools/fusec/manifest.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOG = 4096, MOST_KERNELS = 4 };
static struct {
    void (*count)(int on);
    uint64_t (*kernels)(ptxsim_kernel *to, uint64_t room);
    uint64_t (*findings)(void);
} sim;

int gpu_setup(void **state) {
    void *library = dlopen(BUILD_DIR "/ptxsim/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library || scratch_make(state)) return -1;
    *(void **)&sim.count = load_symbol(library, "ptxsimCount");
    *(void **)&sim.kernels = load_symbol(library, "ptxsimKernels");
    *(void **)&sim.findings = load_symbol(library, "ptxsimFindings");
    return 0;
}

/* ---- a kernel as a model ------------------------------------------------------------------------------------- */
static ModuleTensor tensor_of(const Buffer *b) {
    ModuleTensor t = {.name = b->name, .dtype = b->dtype, .bytes = buffer_bytes(b), .shape = {.rank = b->rank}};
    for (int d = 0; d < b->rank; d++) t.shape.dim[d] = b->dim[d];
    return t;
}

Module *gpu_module(Arena *a, Kernel *k) {
    Module *m = ARENA_NEW(a, Module);
    *m = (Module){.arena = a, .name = "m", .source = "test", .align = 64};
    Launch l = {.n_args = k->buffers.n, .args = ARENA_ARRAY(a, LaunchArg, k->buffers.n), .wanted_by = FUSEC_ALWAYS};
    vec_push(a, m->kernels, k);
    for (int i = 0; i < k->buffers.n; i++) {
        const Buffer *b = &k->buffers.at[i];
        l.args[i] = (LaunchArg){.region = b->written ? REGION_OUTPUT : REGION_INPUT,
                                .index = b->written ? m->outputs.n : m->inputs.n};
        if (b->written)
            vec_push(a, m->outputs, tensor_of(b));
        else
            vec_push(a, m->inputs, tensor_of(b));
    }
    for (int i = 0; i < k->n_syms; i++)
        vec_push(a, m->syms, ((SymDecl){.name = k->sym_names[i], .bound = k->sym_bounds[i]}));
    m->entry[ENTRY_INFER].present = true;
    vec_push(a, m->entry[ENTRY_INFER].launches, l);
    return m;
}

void gpu_open(GpuCase *c, Arena *a, Kernel *k, const char *arch, const int32_t *syms) {
    char *error = NULL;
    const char *why = NULL;
    int64_t wide[4] = {0};
    int n_in = 0, n_out = 0;
    *c = (GpuCase){.a = a, .k = k};
    const Module *m = gpu_module(a, c->k);
    const NvptxOptions o = {.arch = arch};
    c->manifest = manifest_of(a, m);
    assert_non_null(c->manifest);
    if (!nvptx_emit_ptx(m, &o, &c->ptx, &error)) fail_msg("@%s: %s", c->k->name, error);
    for (int i = 0; i < c->k->n_syms; i++) wide[i] = c->syms[i] = syms[i];
    for (int i = 0; i < c->k->buffers.n; i++) {
        const Buffer *b = &c->k->buffers.at[i];
        const int64_t bytes = buffer_bytes(b);
        c->want[i] = (TileMemory){.data = random_buffer(a, b), .bytes = bytes};
        if (b->written)
            c->out[n_out++] = arena_alloc(a, (size_t)bytes);
        else
            c->in[n_in++] = c->want[i].data;
    }
    if (!kernel_run(a, c->k, c->want, wide, &why)) fail_msg("@%s: %s", c->k->name, why);
}

uint64_t gpu_run(GpuCase *c, int seed) {
    static char log_text[LOG];
    static fusec_cuda cuda;
    const uint64_t before = sim.findings();
    const fusec_cuda_image image = {.data = c->ptx};
    const fusec_cuda_options options = {.log = log_text, .log_bytes = LOG};
    const fusec_cuda_call call = {.inputs = c->in, .outputs = c->out, .syms = c->syms};
    setenv("PTXSIM_SEED", arena_printf(c->a, "%d", seed), 1);
    fusec_status s = fusec_cuda_init(&cuda, c->manifest, &image, &options);
    if (c->multiprocessors) cuda.multiprocessors = c->multiprocessors;
    if (s == FUSEC_OK) s = fusec_cuda_run(&cuda, FUSEC_INFER, &call);
    if (s != FUSEC_OK) fail_msg("@%s: %s\n%s", c->k->name, fusec_status_text(s), log_text);
    fusec_cuda_free(&cuda);
    return sim.findings() - before;
}

void gpu_check_numbers(const GpuCase *c, double slack) {
    for (int i = 0, out = 0; i < c->k->buffers.n; i++) {
        const Buffer *b = &c->k->buffers.at[i];
        if (!b->written) continue;
        const int64_t rows = dim_is_fixed(b->dim[0]) ? b->dim[0].bound : c->syms[b->dim[0].sym];
        for (int64_t n = 0; n < rows * b->stride[0]; n++) {
            const double got = number_get(b->dtype, c->out[out], n), want = number_get(b->dtype, c->want[i].data, n);
            if (got != want && !(fabs(got - want) <= slack * (fabs(want) + 1)))
                fail_msg("@%s %%%s[%d]: %.9g, not %.9g", c->k->name, b->name, (int)n, got, want);
        }
        out++;
    }
}

ptxsim_kernel gpu_count(GpuCase *c) {
    ptxsim_kernel k[MOST_KERNELS];
    sim.count(1);
    assert_int_equal(gpu_run(c, 1), 0);
    assert_int_equal(sim.kernels(k, MOST_KERNELS), 1);
    sim.count(0);
    return k[0];
}

/* ---- products ------------------------------------------------------------------------------------------------- */
/* Value n is loaded, n + 1 the staged tile of `side` rows; f32 is rounded to tf32 between. */
static const char *factor_text(Arena *a, int n, const char *at, const char *type, char axis, int side, int sum) {
    if (strcmp(type, "tf32"))
        return arena_printf(a, "    %%%d = load %s\n    %%%d = stage %%%d -> shared\n", n, at, n + 1, n);
    return arena_printf(
        a, "    %%%d = load %s\n    %%%d = cast %%%d : tf32[%c:%d,k:%d]\n    %%%d = stage %%%d -> shared\n", n, at,
        n + 20, n, axis, side, sum, n + 1, n + 20);
}

/* %12 is stored; s[tiles, ..] takes the sum of each tile. */
static const char *stores_text(Arena *a, const ProductKernel *p, const MatrixTile *t) {
    const char over = p->summed, kept = over == 'm' ? 'n' : 'm';
    if (!over) return "  store %y[m, n], %12\n";
    return arena_printf(a, "  %%13 = cast %%12 : f32[m:%d,n:%d]\n  %%14 = sum %%13 over %c : f32[%c:%d]\n"
                        "  store %%y[m, n], %%12\n  store %%s[@%c, %c], %%14\n",
                        t->rows, t->columns, over, kept, over == 'm' ? t->columns : t->rows, over, kept);
}

static const char *sums_text(Arena *a, const ProductKernel *p, const MatrixTile *t) {
    const int extent = p->summed == 'm' ? p->m : p->n, step = p->summed == 'm' ? t->rows : t->columns;
    return p->summed ? arena_printf(a, ", %%s: f32[%d,%d] out", (extent + step - 1) / step, p->summed == 'm' ? p->n : p->m) : "";
}

static const char *product_text(Arena *a, const ProductKernel *p, const MatrixTile *t) {
    const bool rounds = !strcmp(p->type, "tf32");
    const char *type = rounds ? "f32" : p->type;
    const char *head = arena_printf(a,
                                    "kernel @%s(%%x: %s[%d,%d], %%w: %s[%d,%d], %%b: f32[%d], %%y: %s[%d,%d] out%s)\n"
                                    "  grid m in 0..%d step %d\n  grid n in 0..%d step %d\n  loop k in 0..%d step %d\n",
                                    p->name, type, p->x_turned ? p->k : p->m, p->x_turned ? p->m : p->k, type,
                                    p->w_turned ? p->n : p->k, p->w_turned ? p->k : p->n, p->n, type, p->m, p->n, sums_text(a, p, t), p->m,
                                    t->rows, p->n, t->columns, p->k, p->sum);
    const char *factors =
        arena_printf(a, "%s%s", factor_text(a, 2, p->x_turned ? "%x[k, m]" : "%x[m, k]", p->type, 'm', t->rows, p->sum),
                     factor_text(a, 4, p->w_turned ? "%w[n, k]" : "%w[k, n]", p->type, 'n', t->columns, p->sum));
    const char *end = arena_printf(a, "  %%12 = cast %%11 : %s[m:%d,n:%d]\n%s", type, t->rows, t->columns, stores_text(a, p, t));
    return arena_printf(
        a,
        "%s  %%0 = full 0 : f32[m:%d,n:%d]\n  %%7 = for k carry %%1 = %%0 {\n%s"
        "    %%6 = dot %%3, %%5, %%1 over k\n    yield %%6\n  }\n  %%8 = load %%b[n]\n  %%9 = add %%7, %%8\n"
        "  %%10 = const 0 : f32\n  %%11 = max %%9, %%10\n%s",
        head, t->rows, t->columns, factors, end);
}

Kernel *product_kernel(Arena *a, const ProductKernel *p, const MatrixTile *t, const char *target, const char **why) {
    Kernel *k = parse_kernel(a, product_text(a, p, t));
    const int64_t fast = target_find(target)->fast_bytes;
    const bool one_warpgroup = t->by == BY_WGMMA && t->alternate == 1 && t->rows * t->columns == t->warp_rows * t->warp_columns;
    const MatrixTiles plan = {.tile = *t,
                              .sum = p->sum,
                              .ahead = 2,
                              .order = p->m > t->rows ? 2 : 0,
                              .row_axis = 0,
                              .column_axis = 1,
                              .n_terms = 1,
                              .term[0].sum_axis = 2,
                              .slice = p->summed == 'm' ? t->rows : p->summed ? t->columns : 0,
                              .room = one_warpgroup ? fast / 2 : fast};
    *why = matrix_schedule(k, &plan);
    return *why ? NULL : k;
}
