#include "bench/onednn.h"
#include "bench/onednn_require.h"
#include <stdlib.h>

typedef struct Side {
    dnnl_memory_desc_t plain;        /* as the caller has it */
    dnnl_memory_t array[MOST_SETS];  /* so */
    dnnl_memory_t memory[MOST_SETS]; /* as the implementation wants it */
    dnnl_primitive_t reordered;      /* from one to the other: the way that the pass needs; NULL: they are alike */
} Side;

enum { SIDE_IMAGE, SIDE_KERNEL, SIDE_RESULT, SIDES };

struct Peer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    const_dnnl_primitive_desc_t description;
    Side side[SIDES];
    int written;       /* the side that the pass computes */
    int number[SIDES]; /* the argument that a side is */
    int sets;
};

/* Dims as oneDNN orders them, with the strides of the layouts in onednn.h. */
static dnnl_memory_desc_t image(long n, long size, long channels) {
    dnnl_memory_desc_t d;
    require(dnnl_memory_desc_init_by_tag(&d, 4, (dnnl_dims_t){n, channels, size, size}, dnnl_f32, dnnl_nhwc), "image");
    return d;
}

static dnnl_memory_desc_t kernel(const ConvShape *s) {
    dnnl_memory_desc_t d;
    dnnl_dims_t dense = {s->out, s->in, s->span, s->span},
                strides = {1, s->out, s->span * s->in * s->out, s->in * s->out};
    dnnl_dims_t single = {s->in, 1, 1, s->span, s->span}, apart = {1, 1, 1, s->span * s->in, s->in};
    if (s->depthwise)
        require(dnnl_memory_desc_init_by_strides(&d, 5, single, dnnl_f32, apart), "kernel");
    else
        require(dnnl_memory_desc_init_by_strides(&d, 4, dense, dnnl_f32, strides), "kernel");
    return d;
}

static dnnl_memory_desc_t any_layout(const dnnl_memory_desc_t *plain) {
    dnnl_memory_desc_t d;
    require(dnnl_memory_desc_init_by_tag(&d, plain->ndims, plain->dims, dnnl_f32, dnnl_format_tag_any), "layout");
    return d;
}

static dnnl_primitive_t reorder_open(const Peer *p, dnnl_memory_t from, dnnl_memory_t to) {
    const dnnl_memory_desc_t *a, *b;
    dnnl_primitive_desc_t d;
    dnnl_primitive_t r;
    require(dnnl_memory_get_memory_desc(from, &a), "reorder");
    require(dnnl_memory_get_memory_desc(to, &b), "reorder");
    require(dnnl_reorder_primitive_desc_create(&d, a, p->engine, b, p->engine, NULL), "reorder");
    require(dnnl_primitive_create(&r, d), "reorder");
    dnnl_primitive_desc_destroy(d);
    return r;
}

static void reorder_run(const Peer *p, dnnl_primitive_t r, dnnl_memory_t from, dnnl_memory_t to) {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    require(dnnl_primitive_execute(r, p->stream, 2, args), "reorder");
    require(dnnl_stream_wait(p->stream), "reorder");
}

static void reorder(const Peer *p, dnnl_memory_t from, dnnl_memory_t to) {
    dnnl_primitive_t r = reorder_open(p, from, to);
    reorder_run(p, r, from, to);
    dnnl_primitive_destroy(r);
}

/* The pass's description; false: not supported. */
static bool describe(const Peer *p, const ConvShape *s, ConvPass pass, const dnnl_memory_desc_t *wanted,
                     dnnl_primitive_desc_t *out) {
    const dnnl_dims_t strides = {s->stride, s->stride}, before = {s->pad, s->pad};
    const long behind = (s->results - 1) * s->stride + s->span - s->size - s->pad;
    const dnnl_dims_t after = {behind, behind};
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    const dnnl_memory_desc_t *x = &wanted[SIDE_IMAGE], *w = &wanted[SIDE_KERNEL], *y = &wanted[SIDE_RESULT];
    dnnl_convolution_desc_t forward, d;
    dnnl_primitive_desc_t hint = NULL;
    require(
        dnnl_convolution_forward_desc_init(&forward, dnnl_forward_training, how, x, w, NULL, y, strides, before, after),
        "convolution");
    if (dnnl_primitive_desc_create(&hint, &forward, NULL, p->engine, NULL) != dnnl_success) return false;
    if (pass == PASS_FORWARD) {
        *out = hint;
        return true;
    }
    if (pass == PASS_INPUT)
        require(dnnl_convolution_backward_data_desc_init(&d, how, x, w, y, strides, before, after), "convolution");
    else
        require(dnnl_convolution_backward_weights_desc_init(&d, how, x, w, NULL, y, strides, before, after),
                "convolution");
    const bool ok = dnnl_primitive_desc_create(out, &d, NULL, p->engine, hint) == dnnl_success;
    dnnl_primitive_desc_destroy(hint);
    return ok;
}

/* Which argument of the primitive a side is. */
static int argument(ConvPass pass, int side, dnnl_query_t *query) {
    static const struct {
        int argument;
        dnnl_query_t query;
    } of[CONV_PASSES][SIDES] = {
        [PASS_FORWARD] = {{DNNL_ARG_SRC, dnnl_query_src_md},
                          {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                          {DNNL_ARG_DST, dnnl_query_dst_md}},
        [PASS_INPUT] = {{DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md},
                        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md}},
        [PASS_KERNEL] = {{DNNL_ARG_SRC, dnnl_query_src_md},
                         {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md},
                         {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md}},
    };
    *query = of[pass][side].query;
    return of[pass][side].argument;
}

static void give_side(Peer *p, ConvPass pass, int side, const ConvSet *set) {
    dnnl_query_t query;
    p->number[side] = argument(pass, side, &query);
    const dnnl_memory_desc_t *wants = dnnl_primitive_desc_query_md(p->description, query, 0);
    const bool written = side == p->written;
    Side *s = &p->side[side];
    for (int i = 0; i < p->sets; i++) {
        void *data = written ? DNNL_MEMORY_ALLOCATE : (void *)(uintptr_t)set[i].in[side];
        require(dnnl_memory_create(&s->memory[i], wants, p->engine, DNNL_MEMORY_ALLOCATE), "memory");
        require(dnnl_memory_create(&s->array[i], &s->plain, p->engine, data), "memory");
        if (!written) reorder(p, s->array[i], s->memory[i]);
    }
    if (dnnl_memory_desc_equal(wants, &s->plain)) return;
    s->reordered = written ? reorder_open(p, s->memory[0], s->array[0]) : reorder_open(p, s->array[0], s->memory[0]);
}

Peer *peer_open(const ConvShape *s, ConvPass pass, PeerLayout layout, int sets, const ConvSet *set) {
    static const int written[CONV_PASSES] = {SIDE_RESULT, SIDE_IMAGE, SIDE_KERNEL};
    Peer *p = calloc(1, sizeof *p);
    dnnl_memory_desc_t wanted[SIDES];
    dnnl_primitive_desc_t d;
    if (!p) exit(1);
    require(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "engine");
    require(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags), "stream");
    p->written = written[pass];
    p->sets = sets;
    p->side[SIDE_IMAGE].plain = image(s->batch, s->size, s->in);
    p->side[SIDE_KERNEL].plain = kernel(s);
    p->side[SIDE_RESULT].plain = image(s->batch, s->results, s->out);
    for (int i = 0; i < SIDES; i++) {
        const dnnl_memory_desc_t any = any_layout(&p->side[i].plain);
        wanted[i] = layout == LAYOUT_OWN || i == SIDE_KERNEL ? any : p->side[i].plain;
    }
    if (!describe(p, s, pass, wanted, &d)) {
        peer_close(p);
        return NULL;
    }
    require(dnnl_primitive_create(&p->primitive, d), "primitive");
    dnnl_primitive_desc_destroy(d);
    require(dnnl_primitive_get_primitive_desc(p->primitive, &p->description), "primitive");
    for (int i = 0; i < SIDES; i++) give_side(p, pass, i, set);
    return p;
}

void peer_run(Peer *p, int set) {
    dnnl_exec_arg_t args[SIDES];
    for (int i = 0; i < SIDES; i++) args[i] = (dnnl_exec_arg_t){p->number[i], p->side[i].memory[set]};
    require(dnnl_primitive_execute(p->primitive, p->stream, SIDES, args), "execute");
    require(dnnl_stream_wait(p->stream), "execute");
}

void peer_run_arrays(Peer *p, int set) {
    const Side *out = &p->side[p->written];
    for (int i = 0; i < SIDES; i++) {
        const Side *s = &p->side[i];
        if (i != p->written && s->reordered) reorder_run(p, s->reordered, s->array[set], s->memory[set]);
    }
    peer_run(p, set);
    if (out->reordered) reorder_run(p, out->reordered, out->memory[set], out->array[set]);
}

const char *peer_implementation(const Peer *p) {
    const char *text = "";
    dnnl_primitive_desc_query(p->description, dnnl_query_impl_info_str, 0, (void *)&text);
    return text;
}

void peer_result(Peer *p, int set, float *out) {
    dnnl_memory_t plain;
    require(dnnl_memory_create(&plain, &p->side[p->written].plain, p->engine, out), "memory");
    reorder(p, p->side[p->written].memory[set], plain);
    dnnl_memory_destroy(plain);
}

void peer_close(Peer *p) {
    if (!p) return;
    for (int i = 0; i < SIDES; i++) {
        for (int k = 0; k < p->sets; k++) {
            if (p->side[i].memory[k]) dnnl_memory_destroy(p->side[i].memory[k]);
            if (p->side[i].array[k]) dnnl_memory_destroy(p->side[i].array[k]);
        }
        if (p->side[i].reordered) dnnl_primitive_destroy(p->side[i].reordered);
    }
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}
