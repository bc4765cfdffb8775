#include "tools/fusec/manifest.h"
#include "codegen/artifact/artifact.h"
#include "codegen/nvptx/nvptx.h"
#include <string.h>

static const fusec_tensor *tensors(Arena *a, const ModuleTensor *from, int n) {
    fusec_tensor *t = ARENA_ARRAY(a, fusec_tensor, n + 1);
    for (int i = 0; i < n; i++) {
        const ModuleTensor *x = &from[i];
        t[i] = (fusec_tensor){.name = x->name,
                              .offset = (uint64_t)x->offset,
                              .bytes = (uint64_t)x->bytes,
                              .dtype = (uint8_t)artifact_dtype(x->dtype),
                              .rank = (uint8_t)x->shape.rank,
                              .trainable = x->trainable,
                              .outcome = x->outcome};
        if (x->has_range) t[i].lo = x->lo, t[i].hi = x->hi;
        for (int d = 0; d < x->shape.rank; d++) {
            const Dim dim = x->shape.dim[d];
            const bool fixed = dim_is_fixed(dim);
            t[i].dim[d] = (int32_t)dim.bound;
            t[i].sym[d] = (int8_t)dim.sym;
            t[i].scale[d] = fixed ? 0 : (int32_t)dim.scale;
            t[i].shift[d] = fixed ? (int32_t)dim.bound : (int32_t)dim.offset;
        }
    }
    return t;
}

static bool kernels(Arena *a, const Module *m, fusec_manifest *out) {
    VEC(fusec_tensor_map) all = {0};
    fusec_kernel *k = ARENA_ARRAY(a, fusec_kernel, m->kernels.n + 1);
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *x = m->kernels.at[i];
        const KernelCost cost = kernel_cost(x);
        int n;
        k[i] = (fusec_kernel){.name = x->name,
                              .n_args = (uint8_t)x->buffers.n,
                              .n_constants = (uint8_t)x->n_constants,
                              .flops = cost.flops,
                              .bytes = cost.bytes_read + cost.bytes_written};
        if (x->buffers.n > UINT8_MAX || !artifact_grid(x, k[i].grid, &n)) return false;
        k[i].n_grid = (uint8_t)n;
        fusec_tensor_map maps[FUSEC_MAX_MAPS];
        k[i].first_map = (uint32_t)all.n;
        nvptx_launch(a, x, &k[i], maps);
        for (int j = 0; j < k[i].n_maps; j++) vec_push(a, all, maps[j]);
    }
    out->kernels = k;
    out->maps = all.at;
    return true;
}

static void launches(Arena *a, const Module *m, fusec_manifest *out) {
    VEC(fusec_launch) rows = {0};
    VEC(fusec_arg) args = {0};
    VEC(uint32_t) after = {0};
    for (int e = 0; e < ENTRY_COUNT; e++) {
        const ModuleEntry *x = &m->entry[e];
        out->entry[e] = (fusec_entry){.arena_bytes = (uint64_t)x->arena_bytes,
                                      .first_launch = (uint32_t)rows.n,
                                      .n_launches = (uint32_t)x->launches.n,
                                      .present = x->present};
        for (int i = 0; i < x->launches.n; i++) {
            const Launch *l = &x->launches.at[i];
            fusec_launch row = {.kernel = (uint32_t)l->kernel,
                                .first_arg = (uint32_t)args.n,
                                .wanted_by = l->wanted_by,
                                .first_after = (uint32_t)after.n,
                                .n_after = (uint32_t)l->n_after};
            memcpy(row.constant, l->constant, sizeof row.constant);
            vec_push(a, rows, row);
            for (int k = 0; k < l->n_args; k++) {
                const fusec_arg arg = {(uint64_t)l->args[k].offset, (uint16_t)l->args[k].index,
                                       (uint8_t)l->args[k].region, (uint64_t)l->args[k].scratch};
                vec_push(a, args, arg);
            }
            for (int k = 0; k < l->n_after; k++) vec_push(a, after, (uint32_t)(i - l->after[k]));
        }
    }
    out->launches = rows.at;
    out->args = args.at;
    out->after = after.at;
}

const fusec_manifest *manifest_of(Arena *a, const Module *m) {
    fusec_manifest *x = ARENA_NEW(a, fusec_manifest);
    fusec_symbol *syms = ARENA_ARRAY(a, fusec_symbol, m->syms.n + 1);
    fusec_hyper *hypers = ARENA_ARRAY(a, fusec_hyper, m->hypers.n + 1);
    *x = (fusec_manifest){.abi_version = FUSEC_ABI_VERSION,
                          .align = (uint32_t)m->align,
                          .hash = m->hash,
                          .name = m->name,
                          .param_bytes = (uint64_t)m->param_bytes,
                          .state_bytes = (uint64_t)m->state_bytes,
                          .grad_bytes = (uint64_t)m->grad_bytes,
                          .n_params = (uint32_t)m->params.n,
                          .n_states = (uint32_t)m->states.n,
                          .n_grads = (uint32_t)m->grads.n,
                          .n_inputs = (uint32_t)m->inputs.n,
                          .n_outputs = (uint32_t)m->outputs.n,
                          .n_syms = (uint32_t)m->syms.n,
                          .n_hypers = (uint32_t)m->hypers.n,
                          .n_kernels = (uint32_t)m->kernels.n,
                          .n_lines = (uint32_t)m->lines.n,
                          .syms = syms,
                          .selftest = m->selftest,
                          .hypers = hypers,
                          .params = tensors(a, m->params.at, m->params.n),
                          .states = tensors(a, m->states.at, m->states.n),
                          .grads = tensors(a, m->grads.at, m->grads.n),
                          .inputs = tensors(a, m->inputs.at, m->inputs.n),
                          .outputs = tensors(a, m->outputs.at, m->outputs.n)};
    for (int i = 0; i < m->syms.n; i++) syms[i] = (fusec_symbol){m->syms.at[i].name, (int32_t)m->syms.at[i].bound};
    for (int i = 0; i < m->hypers.n; i++) hypers[i] = (fusec_hyper){m->hypers.at[i].name, (float)m->hypers.at[i].value};
    launches(a, m, x);
    return kernels(a, m, x) ? x : NULL;
}
