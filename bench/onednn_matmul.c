#include "bench/onednn_matmul.h"
#include "bench/onednn_require.h"
#include <stdlib.h>

struct MatmulPeer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
};

static dnnl_memory_desc_t matrix(int rows, int columns, dnnl_data_type_t type) {
    dnnl_memory_desc_t d;
    const dnnl_dims_t dims = {rows, columns};
    require(dnnl_memory_desc_init_by_tag(&d, 2, dims, type, dnnl_ab), "matrix");
    return d;
}

static dnnl_exec_arg_t argument(const MatmulPeer *p, int number, const dnnl_memory_desc_t *d, const void *data) {
    dnnl_exec_arg_t a = {.arg = number};
    require(dnnl_memory_create(&a.memory, d, p->engine, (void *)(uintptr_t)data), "memory");
    return a;
}

MatmulPeer *matmul_open(int m, int n, int k, const uint16_t *a, const uint16_t *b, float *c) {
    MatmulPeer *p = calloc(1, sizeof *p);
    dnnl_matmul_desc_t product;
    dnnl_primitive_desc_t d;
    const dnnl_memory_desc_t x = matrix(m, k, dnnl_bf16), y = matrix(k, n, dnnl_bf16), z = matrix(m, n, dnnl_f32);
    if (!p) exit(1);
    require(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "engine");
    require(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags), "stream");
    require(dnnl_matmul_desc_init(&product, &x, &y, NULL, &z), "matmul");
    if (dnnl_primitive_desc_create(&d, &product, NULL, p->engine, NULL) != dnnl_success) {
        matmul_close(p);
        return NULL;
    }
    const char *how = "";
    dnnl_primitive_desc_query(d, dnnl_query_impl_info_str, 0, &how);
    fprintf(stderr, "onednn: %s\n", how);
    require(dnnl_primitive_create(&p->primitive, d), "primitive");
    dnnl_primitive_desc_destroy(d);
    p->args[0] = argument(p, DNNL_ARG_SRC, &x, a);
    p->args[1] = argument(p, DNNL_ARG_WEIGHTS, &y, b);
    p->args[2] = argument(p, DNNL_ARG_DST, &z, c);
    return p;
}

void matmul_run(MatmulPeer *p) {
    require(dnnl_primitive_execute(p->primitive, p->stream, 3, p->args), "execute");
    require(dnnl_stream_wait(p->stream), "execute");
}

void matmul_close(MatmulPeer *p) {
    if (!p) return;
    for (int i = 0; i < 3; i++)
        if (p->args[i].memory) dnnl_memory_destroy(p->args[i].memory);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}
