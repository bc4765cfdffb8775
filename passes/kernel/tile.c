/* tile: the Tile IR of each kernel, with tile sizes from the target's limits.
 *
 * Needs: kernels, homes and strides (fuse, layout).  Keeps: the plan.  Gives: PlanKernel.tile, its buffers
 * in the order of reads, then outputs.  All of a program's loads of an element come before its stores. */
#include "ir/tile_stage.h"
#include "passes/kernel/emitter.h"
#include "passes/kernel/profile.h"
#include "passes/kernel/same_kernel.h"
#include <assert.h>
#include <string.h>

static Kernel *open_kernel(Emitter *e, int number) {
    static const char *const kinds[] = {"map", "row", "contract", "scan", "scatter", "bucket", "stream"};
    const Model *m = e->plan->graph->model;
    Kernel *k = kernel_new(e->arena, arena_printf(e->arena, "%s_%s_%d", entry_name[e->plan->graph->entry],
                                                  kinds[e->pk->kind], number));
    const int room = m->syms.n + FUSEC_MAX_CONSTANTS;
    const char **names = ARENA_ARRAY(e->arena, const char *, room);
    int64_t *bounds = ARENA_ARRAY(e->arena, int64_t, room);
    for (int i = 0; i < m->syms.n; i++) names[i] = m->syms.at[i].name, bounds[i] = m->syms.at[i].bound;
    for (int i = m->syms.n; i < room; i++) {
        names[i] = arena_printf(e->arena, "constant%d", i - m->syms.n);
        bounds[i] = INT32_MAX;
    }
    k->n_syms = m->syms.n;
    k->sym_names = names;
    k->sym_bounds = bounds;
    const SrcLoc loc = vec_last(e->pk->nodes).node->loc;
    if (loc.line) {
        const char *file = loc.file < m->files.n ? m->files.at[loc.file] : "";
        const char *base = strrchr(file, '/');
        k->comment = arena_printf(e->arena, "%s:%d", base ? base + 1 : file, loc.line);
    }
    return k;
}

static const char *buffer_name(Emitter *e, const Node *n) {
    const Model *m = e->plan->graph->model;
    const char *name = NULL;
    switch (n->op) {
    case OP_PARAM: name = m->params.at[n->attr->decl].name; break;
    case OP_STATE: name = m->states.at[n->attr->decl].name; break;
    case OP_INPUT: name = m->inputs.at[n->attr->decl].name; break;
    case OP_HYPER: name = m->hypers.at[n->attr->decl].name; break;
    case OP_STEP: case OP_SEED: case OP_ACCUMULATE: return op_info[n->op].text;
    default: return arena_printf(e->arena, "t%d", n->id);
    }
    char *clean = arena_strdup(e->arena, name);
    for (char *c = clean; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9'))) *c = '_';
    return clean;
}

/* Counts from 1 the results that are written over something that the kernel reads: the number of that which n is, or has. */
static int in_place(const Emitter *e, const Node *n, bool is_out) {
    for (int o = 0; o < e->pk->outputs.n; o++) {
        const Node *out = e->pk->outputs.at[o];
        for (int i = 0; i < e->pk->reads.n; i++) {
            const Node *r = e->pk->reads.at[i];
            if (n == (is_out ? out : r) && plan_goes_over(e->plan, out, r)) return o + 1;
        }
    }
    return 0;
}

static void add_buffers(Emitter *e) {
    const PlanKernel *pk = e->pk;
    int first = 0;
    for (int i = 0; i < pk->reads.n + pk->outputs.n; i++) {
        const bool out = i >= pk->reads.n;
        const Node *n = out ? pk->outputs.at[i - pk->reads.n] : pk->reads.at[i];
        const int b = kernel_buffer(e->k, buffer_name(e, n), n->dtype, *n->shape, e->plan->buffer[n->id].stride, out);
        e->k->buffers.at[b].in_place = i < first ? e->k->buffers.at[b - 1].in_place : in_place(e, n, out);
        e->k->buffers.at[b].family = pk->members ? pk->family[i] : 0;
        if (i >= first) e->buffer_of[n->id] = b;
        if (e->k->buffers.at[b].family) first = i + pk->family[i]; /* until then other members', whose nodes are not emitted */
    }
}

static void add_axes(Emitter *e) {
    const PlanKernel *pk = e->pk;
    if (e->matrix.n_terms) {
        matrix_grid(e);
        return;
    }
    static const char *const names[MAX_RANK] = {"i", "j", "l", "m", "n", "o", "p", "q", "u", "v"};
    const int scan = pk->kind == KERNEL_SCAN ? pk->nodes.at[0].node->attr->axis : -1;
    for (int d = 0; d < pk->p->rank; d++) {
        const Dim extent = pk->p->dim[d];
        const bool single = dim_is_fixed(extent) && extent.bound == 1 && pk->kind != KERNEL_BUCKET;
        if (d == pk->sliced - 1) {
            emit_slices_axis(e, names[d]);
            continue;
        }
        const AxisKind kind = pk->turns && d == pk->rows ? AXIS_LOOP : AXIS_GRID;
        e->p_axis[d] = single || d == scan ? -1 : kernel_axis(e->k, names[d], kind, extent, e->size.p[d]);
        e->p_index[d] = e->p_axis[d] < 0 ? index_const(e->arena, 0) : index_axis(e->k, e->p_axis[d]);
    }
    if (pk->sliced) emit_slice_axis(e);
    if (pk->kind == KERNEL_STREAM) {
        for (int d = 0; d < pk->r->rank; d++) {
            e->r_axis[d] = kernel_axis(e->k, d ? "c" : "s", d ? AXIS_SPAN : AXIS_LOOP, pk->r->dim[d], e->size.r[d]);
            e->r_index[d] = index_axis(e->k, e->r_axis[d]);
        }
        return;
    }
    if (pk->kind != KERNEL_ROW || !e->size.row_span) return;
    for (int d = 0; d < pk->r->rank; d++) {
        e->r_axis[d] = kernel_axis(e->k, "r", AXIS_SPAN, pk->r->dim[d], e->size.r[d]);
        e->r_index[d] = index_axis(e->k, e->r_axis[d]);
    }
}

void emit_place_of(const Emitter *e, const PlanNode *pn, const Index **idx) {
    for (int d = 0; d < pn->node->shape->rank; d++)
        idx[d] = pn->axis[d] < e->pk->p->rank ? e->p_index[pn->axis[d]] : e->r_index[pn->axis[d] - e->pk->p->rank];
}

static void value_at_home(Emitter *e, const PlanNode *pn, int *value) {
    const Index *idx[MAX_RANK];
    emit_place_of(e, pn, idx);
    *value = emit_value(e, pn->node, idx, -1);
}

static void store_at_home(Emitter *e, const PlanNode *pn, int value) {
    const Index *idx[MAX_RANK];
    emit_place_of(e, pn, idx);
    emit_store(e, pn->node, idx, value);
}

/* What is stored along the row: all values, then all stores, inside one nest of loops (or one span). */
static void emit_rows(Emitter *e, int *value) {
    const PlanKernel *pk = e->pk;
    bool any = false;
    for (int i = 0; i < pk->nodes.n; i++) any |= pk->nodes.at[i].stored && pk->nodes.at[i].in_row;
    if (!any) return;
    if (!e->size.row_span)
        for (int d = 0; d < pk->r->rank; d++) {
            e->r_axis[d] = kernel_axis(e->k, "c", AXIS_LOOP, pk->r->dim[d], e->size.r[d]);
            e->r_index[d] = index_axis(e->k, e->r_axis[d]);
        }
    Nest nest;
    nest_begin(e, &nest, pk->r->rank, e->r_axis, 0, NULL, NULL);
    for (int i = 0; i < pk->nodes.n; i++)
        if (pk->nodes.at[i].stored && pk->nodes.at[i].in_row) value_at_home(e, &pk->nodes.at[i], &value[i]);
    for (int i = 0; i < pk->nodes.n; i++)
        if (pk->nodes.at[i].stored && pk->nodes.at[i].in_row) store_at_home(e, &pk->nodes.at[i], value[i]);
    nest_end(e, &nest, NULL, NULL);
}

/* All programs have it, at the element that they are at. */
static bool is_at_home(const PlanNode *pn) { return pn->part == PART_VALUE || pn->part == PART_STREAM; }

/* Reductions and stored values once per program, before any row loop could repeat them. */
static void emit_values(Emitter *e, int *value) {
    for (int i = 0; i < e->pk->nodes.n; i++) {
        const PlanNode *pn = &e->pk->nodes.at[i];
        const OpClass cls = op_info[pn->node->op].cls;
        if (!is_at_home(pn)) continue;
        if (!pn->in_row && (pn->stored || cls == CLASS_REDUCE || cls == CLASS_CONTRACT)) value_at_home(e, pn, &value[i]);
    }
}

static void emit_stores(Emitter *e, const int *value) {
    for (int i = 0; i < e->pk->nodes.n; i++) {
        const PlanNode *pn = &e->pk->nodes.at[i];
        if (pn->stored && !pn->in_row && is_at_home(pn)) store_at_home(e, pn, value[i]);
    }
}

/* Rows that are walked in slices: what is the same for all rows, then each row as in any other kernel, its part of the sums
 * taken before it is stored, for a store may be in place. */
static void emit_row_slices(Emitter *e, int *value) {
    SliceSums s;
    emit_slices_begin(e, &s);
    emit_values(e, value);
    emit_slices_add(e, &s);
    emit_rows(e, value);
    emit_stores(e, value);
    emit_slices_end(e, &s);
}

/* All rows, a tile of them after the other. */
static void emit_turns(Emitter *e, int *value) {
    Nest nest;
    emit_turns_begin(e);
    nest_begin(e, &nest, 1, &e->p_axis[e->pk->rows], 0, NULL, NULL);
    emit_stream(e);
    emit_values(e, value);
    emit_stores(e, value);
    nest_end(e, &nest, NULL, NULL);
}

static void emit_body(Emitter *e) {
    const PlanKernel *pk = e->pk;
    int *value = ARENA_ARRAY(e->arena, int, pk->nodes.n);
    if (pk->updates) {
        emit_update(e, pk->nodes.at[0].node);
        return;
    }
    if (pk->kind == KERNEL_SCAN) {
        emit_scan(e, pk->nodes.at[0].node);
        return;
    }
    if (pk->sample && pk->sample - 1 >= pk->nodes.at[0].node->attr->contract->n_out) {
        emit_samples(e, pk->nodes.at[0].node);
        return;
    }
    if (pk->kind == KERNEL_SCATTER) {
        Node *n = pk->nodes.at[0].node;
        emit_remember(e, n, e->p_index, -1, emit_scatter(e, n));
    }
    if (pk->kind == KERNEL_BUCKET) {
        const Node *n = pk->nodes.at[0].node;
        tile_bucket(&e->b, e->buffer_of[n->id], e->buffer_of[n->in[0]->id], e->p_axis[0]);
        return;
    }
    if (pk->turns) {
        emit_turns(e, value);
        return;
    }
    if (pk->kind == KERNEL_STREAM) emit_stream(e);
    bool together = false;
    for (int i = 0; i < pk->nodes.n; i++) together |= !is_at_home(&pk->nodes.at[i]) && pk->nodes.at[i].part != PART_SLICES;
    if (together) emit_together(e);
    if (pk->sliced) {
        emit_row_slices(e, value);
        return;
    }
    emit_values(e, value);
    emit_rows(e, value);
    for (int i = 0; i < pk->nodes.n; i++)
        if (pk->nodes.at[i].part == PART_SLICES) value[i] = emit_slices(e, pk->nodes.at[i].node);
    emit_stores(e, value);
    for (int i = 0; i < pk->nodes.n; i++)
        if (pk->nodes.at[i].part == PART_SLICES) emit_store_slices(e, pk->nodes.at[i].node, value[i]);
    if (together) emit_sides(e);
}

static void close_kernel(Emitter *e) {
    while (e->memo.n) e->memo_of[e->memo.at[--e->memo.n].node->id] = -1;
    for (int i = 0; i < e->pk->reads.n; i++) e->buffer_of[e->pk->reads.at[i]->id] = -1;
    for (int i = 0; i < e->pk->outputs.n; i++) e->buffer_of[e->pk->outputs.at[i]->id] = -1;
}

/* Programs that follow each other are tiles of one member on the host, where they find the other factor's part in the
 * core's cache; of products on a GPU, where they run at the same time, the same tile of each member, which read one operand. */
static void add_members(Emitter *e, bool before_tiles) {
    const bool product_on_gpu = e->pk->kind == KERNEL_CONTRACT && target_shares_tiles(e->context->target);
    if (!e->pk->members || before_tiles == product_on_gpu) return;
    const int axis = kernel_axis(e->k, "member", AXIS_GRID, dim_fixed(e->pk->members), 1);
    e->k->axes.at[axis].family = true;
}

/* With e->size. */
static void write_kernel(Emitter *e, PlanKernel *pk, int number) {
    e->pk = pk;
    e->k = open_kernel(e, number);
    memset(e->constant, 0, sizeof e->constant);
    e->b = (Builder){.k = e->k, .block = &e->k->body};
    add_buffers(e);
    add_members(e, true);
    add_axes(e);
    add_members(e, false);
    emit_body(e);
    memcpy(pk->constant, e->constant, sizeof e->constant);
    e->k->members = pk->members;
    for (int i = 0; i < pk->nodes.n; i++) {
        e->k->onto += pk->nodes.at[i].part == PART_ONTO;
        e->k->loop_sums += pk->nodes.at[i].part == PART_SUM;
        e->k->slices += pk->nodes.at[i].part == PART_SLICES;
        e->k->turns += pk->nodes.at[i].part == PART_TURNS;
    }
    kernel_drop_unused(e->k);
    close_kernel(e);
}

/* With the tile; NULL where its schedule does not come out, *why says why. */
static Kernel *build_with(Emitter *e, PlanKernel *pk, int number, const MatrixTile *tile, const char **why) {
    matrix_orient(&e->matrix, tile->by);
    if (!matrix_slice_fits(&e->matrix, tile)) {
        *why = "it sums tiles of another size";
        return NULL;
    }
    matrix_take(e->context->target, &e->matrix, tile);
    tile_sizes(e->context->target, e->plan, pk, &e->size);
    write_kernel(e, pk, number);
    *why = matrix_schedule(e->k, &e->matrix);
    return *why ? NULL : e->k;
}

/* With the tile that was measured to be fastest, if this product was. */
static Kernel *build_measured(Emitter *e, PlanKernel *pk, int number, const char **why) {
    const Profile *profile = e->context->profile;
    if (!profile || !e->matrix.n_terms) return NULL;
    const ProfileProduct *x = profile_find(profile, matrix_key(e->arena, pk, &e->matrix));
    if (!x || x->tile.by == BY_NONE || !matrix_tile_fits(e->context->target, &x->tile)) return NULL;
    Kernel *k = build_with(e, pk, number, &x->tile, why);
    if (!k) return NULL;
    k->measured = true;
    *why = x->tile.by == BY_MMA && e->context->target->has_wgmma ? "it was measured to be faster" : NULL;
    return k;
}

/* With the cheapest tile of the instruction whose schedule comes out; NULL: none, and *why the cheapest's does not. */
static Kernel *build_cheapest(Emitter *e, PlanKernel *pk, int number, By by, const char **why) {
    const Target *t = e->context->target;
    matrix_orient(&e->matrix, by);
    const MatrixTile *first = matrix_cheapest(t, &e->matrix, by, NULL);
    const char *cheapest = *why;
    for (const MatrixTile *tile = first; tile; tile = matrix_cheapest(t, &e->matrix, by, tile)) {
        const char *refused;
        if (tile != first && by == BY_WGMMA && matrix_better_by_warps(t, &e->matrix, tile)) break;
        Kernel *k = build_with(e, pk, number, tile, &refused);
        if (k) return k;
        if (tile == first) cheapest = refused;
    }
    *why = cheapest;
    return NULL;
}

/* By the fastest instruction that takes it; NULL: by none.  *slow: what the last that did not take it says. */
static Kernel *build_modelled(Emitter *e, PlanKernel *pk, int number, const char **slow) {
    static const By instructions[] = {BY_WGMMA, BY_MMA};
    Kernel *k = NULL;
    for (int i = 0; i < 2 && e->matrix.n_terms && !k; i++) k = build_cheapest(e, pk, number, instructions[i], slow);
    return k;
}

/* Is it, of the tiles of its instruction and schedule, among the first `most` by the cost model? */
static bool among_cheapest(const Emitter *e, const MatrixTile *tile, int most) {
    const Target *t = e->context->target;
    const MatrixTile *x = NULL;
    for (int i = 0; i < most;) {
        x = matrix_cheapest(t, &e->matrix, tile->by, x);
        if (!x || x == tile) return x == tile;
        i += x->alternate == tile->alternate;
    }
    return most == 0;
}

/* A kernel for every tile that is wanted and whose schedule comes out. */
static void collect_tiles(Emitter *e, PlanKernel *pk, int number, Tuning *tuning, const MatrixTile *modelled) {
    TunedProduct x = {.key = matrix_key(e->arena, pk, &e->matrix), .modelled = *modelled};
    for (int i = 0; i < tuning->products.n; i++)
        if (!strcmp(tuning->products.at[i].key, x.key)) return;
    for (int i = 0; i < n_matrix_tiles; i++) {
        const char *why;
        if (!matrix_tile_fits(e->context->target, &matrix_tile[i])) continue;
        if (!among_cheapest(e, &matrix_tile[i], tuning->most)) continue;
        if (!build_with(e, pk, number, &matrix_tile[i], &why)) continue;
        const TileCandidate c = {matrix_tile[i], e->k};
        vec_push(e->arena, x.candidates, c);
    }
    memcpy(x.constant, pk->constant, sizeof x.constant);
    vec_push(e->arena, tuning->products, x);
}

static Kernel *build_matrix(Emitter *e, PlanKernel *pk, int number, const char **slow) {
    *slow = matrix_product(e->context->target, pk, &e->matrix);
    Kernel *k = build_measured(e, pk, number, slow);
    if (!k) k = build_modelled(e, pk, number, slow);
    if (k && e->context->tuning) {
        const MatrixTile chosen = e->matrix.tile;
        collect_tiles(e, pk, number, e->context->tuning, &chosen);
    }
    return k;
}

/* A stream by matrix instructions; NULL: it is none, or *slow says why not. */
static Kernel *build_stream(Emitter *e, PlanKernel *pk, int number, const char **slow) {
    const Target *t = e->context->target;
    if (pk->kind != KERNEL_STREAM || !target_has_mma(t)) return NULL;
    e->by_mma = true;
    tile_sizes(t, e->plan, pk, &e->size);
    stream_mma_sizes(t, pk, &e->size);
    write_kernel(e, pk, number);
    e->by_mma = false;
    const char *why = stream_schedule(e->k, e->p_axis[pk->rows], e->r_axis[0], t->fast_bytes);
    if (why) *slow = why;
    return why ? NULL : e->k;
}

/* By threads; of a stream as large a tile as the arrays of a kernel have room for. */
static Kernel *build_plain(Emitter *e, PlanKernel *pk, int number) {
    enum { ARRAYS = 48 << 10 }; /* more has to be asked for at the launch */
    const Target *t = e->context->target;
    e->matrix.n_terms = 0;
    tile_sizes(t, e->plan, pk, &e->size);
    write_kernel(e, pk, number);
    if (map_square(t, e->k, pk, e->p_axis, &e->size)) write_kernel(e, pk, number);
    if (!target_shares_tiles(t)) return e->k;
    kernel_distribute(e->k, t);
    while (pk->kind == KERNEL_STREAM && kernel_array_bytes(e->k) > ARRAYS && stream_halve(pk, &e->size)) {
        write_kernel(e, pk, number);
        kernel_distribute(e->k, t);
    }
    return e->k;
}

static Kernel *build_kernel(Emitter *e, PlanKernel *pk, int number) {
    const char *slow;
    Kernel *k = build_matrix(e, pk, number, &slow);
    if (!k) k = build_stream(e, pk, number, &slow);
    if (!k) k = build_plain(e, pk, number);
    kernel_bound_loops(k);
    if (target_shares_tiles(e->context->target)) kernel_longest_first(k);
    k->dependent = e->context->target->has_dependent;
    k->slow = slow && *slow ? arena_strdup(k->arena, slow) : NULL;
    return k;
}

void pass_tile(PassContext *c, Plan *p) {
    Emitter e = {.arena = c->kept ? c->kept : c->arena, .context = c, .plan = p};
    e.buffer_of = ARENA_ARRAY(c->arena, int, p->graph->nodes.n);
    e.memo_of = ARENA_ARRAY(c->arena, int, p->graph->nodes.n);
    memset(e.buffer_of, -1, sizeof(int) * (size_t)p->graph->nodes.n);
    memset(e.memo_of, -1, sizeof(int) * (size_t)p->graph->nodes.n);
    KernelFinder *finder = kernel_finder(c->arena, p);
    for (int i = 0; i < p->kernels.n; i++) {
        PlanKernel *pk = &p->kernels.at[i];
        pk->same_as = kernel_find_same(finder, i) + 1;
        const PlanKernel *first = pk->same_as ? &p->kernels.at[pk->same_as - 1] : NULL;
        pk->tile = first ? first->tile : build_kernel(&e, pk, i);
        pk->origin = first ? first->origin : kernel_origins(c->arena, pk->tile, c->target);
    }
}
