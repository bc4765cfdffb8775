/* Bundles of kernels that share a launch: making them, and what is legal of them. */
#include "ir/tile.h"
#include <string.h>

static bool same_form(const Buffer *a, const Buffer *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->written == b->written && !a->in_place == !b->in_place;
    for (int d = 0; d < a->rank && same; d++) same = dim_equal(a->dim[d], b->dim[d]) && a->stride[d] == b->stride[d];
    return same;
}

/* What is in place in one kernel is not what is in another's place. */
static int most_in_place(const Kernel *k) {
    int most = 0;
    for (int b = 0; b < k->buffers.n; b++)
        if (k->buffers.at[b].in_place > most) most = k->buffers.at[b].in_place;
    return most;
}

/* The kernel's buffers that are written, or those that are not. */
static void add_buffers(Kernel *k, const Kernel *of, bool written, int in_place, int *number) {
    for (int i = 0; i < of->buffers.n; i++) {
        const Buffer *b = &of->buffers.at[i];
        Shape s = {.rank = b->rank};
        if (b->written != written) continue;
        for (int d = 0; d < b->rank; d++) s.dim[d] = b->dim[d];
        number[i] = kernel_buffer(k, b->name, b->dtype, s, b->stride, written);
        k->buffers.at[number[i]].in_place = b->in_place ? b->in_place + in_place : 0;
    }
}

Kernel *kernel_bundle(Arena *a, const char *name, int n, Kernel *const *of) {
    Kernel *k = kernel_new(a, name);
    int **number = ARENA_ARRAY(a, int *, n);
    k->n_syms = of[0]->n_syms;
    k->sym_names = of[0]->sym_names;
    k->sym_bounds = of[0]->sym_bounds;
    k->comment = of[0]->comment;
    for (int written = 0; written < 2; written++)
        for (int i = 0, in_place = 0; i < n; in_place += most_in_place(of[i++])) {
            if (!written) number[i] = ARENA_ARRAY(a, int, of[i]->buffers.n + 1);
            add_buffers(k, of[i], written, in_place, number[i]);
        }
    for (int i = 0; i < n; i++) {
        const Bundled p = {of[i], number[i]};
        vec_push(a, k->bundle, p);
        if (of[i]->threads > k->threads) k->threads = of[i]->threads;
        k->dependent |= of[i]->dependent;
        k->members += of[i]->members ? of[i]->members : 1;
        k->onto += of[i]->onto;
        k->loop_sums += of[i]->loop_sums;
        k->slices += of[i]->slices;
        k->turns += of[i]->turns;
    }
    return k;
}

static bool is_fetched(const Block *b) {
    bool found = false;
    for (int n = 0; n < b->n; n++) found |= b->at[n]->by == BY_TMA || b->at[n]->by == BY_WGMMA || is_fetched(&b->at[n]->body);
    return found;
}

bool kernel_may_be_bundled(const Kernel *k) {
    enum { WARP = 32 };
    bool fixed = true;
    for (int i = 0; i < k->axes.n; i++) {
        const Axis *x = &k->axes.at[i];
        fixed &= x->kind != AXIS_GRID || (dim_is_fixed(x->extent) && x->cluster <= 1);
    }
    return fixed && k->threads > 0 && k->threads % WARP == 0 && !k->bundle.n && !k->n_constants && !k->producer && !k->alternate &&
           !k->persistent && !k->registers[0] && !is_fetched(&k->body);
}

static const char *check_bundled(Arena *a, const Kernel *k, const Bundled *p, bool *taken) {
    const Kernel *x = p->kernel;
    if (!kernel_may_be_bundled(x) || x->n_syms != k->n_syms || x->threads > k->threads)
        return arena_printf(a, "%s cannot share a launch", x->name);
    for (int i = 0; i < x->buffers.n; i++) {
        const int b = p->buffer[i];
        if (b < 0 || b >= k->buffers.n || taken[b] || !same_form(&x->buffers.at[i], &k->buffers.at[b]))
            return arena_printf(a, "buffer %s of %s is none of its bundle's, or another kernel's too", x->buffers.at[i].name, x->name);
        taken[b] = true;
    }
    return NULL;
}

const char *kernel_check_bundle(Arena *a, const Kernel *k) {
    bool *taken = ARENA_ARRAY(a, bool, k->buffers.n + 1);
    const char *why = NULL;
    if (k->axes.n || k->body.n || k->types.n || k->n_constants || k->producer || k->alternate || k->persistent)
        return "a bundle has programs of its own";
    for (int i = 0; i < k->bundle.n && !why; i++) why = check_bundled(a, k, &k->bundle.at[i], taken);
    for (int b = 0; b < k->buffers.n && !why; b++)
        if (!taken[b]) why = arena_printf(a, "buffer %s is no bundled kernel's", k->buffers.at[b].name);
    if (!why && kernel_programs(k, NULL) > INT32_MAX) why = "it bundles more programs than a launch has";
    return why;
}
