/* The schedule of a matrix kernel as it was emitted: spreads, the ring, and an epilogue through shared memory for what
 * does not lie in whole sectors as the accumulators hold it.
 *
 * Needs: one product over the axes of MatrixTiles.  Keeps: the program.  Gives: everything that kernel_check_schedule
 * wants; or refuses, then the kernel is emitted again as others are. */
#include "ir/tile_schedule.h"
#include "ir/tile_spread.h"
#include "ir/tile_stage.h"
#include "ir/tile_tensor_map.h"
#include "passes/kernel/matrix.h"
#include "passes/kernel/matrix_factor.h"

typedef struct Schedule {
    Kernel *k;
    const MatrixTiles *m;
    const Inst **def;
    int sum_axis; /* of the term that is being scheduled */
    Inst *loop, *dot;
    Inst *loops[MATRIX_TERMS];
    int maps;        /* of the copy engine, one for each member of a family */
    int64_t staged;  /* bytes of tiles that the epilogue has in shared memory, of all programs of the block */
    const char *why; /* it cannot be scheduled so */
} Schedule;

static bool refuse(Schedule *s, const char *why) {
    if (!s->why) s->why = why;
    return false;
}

/* ---- spreads ----------------------------------------------------------------------------------------------- */
static void push(Spread *s, int bit) { s->bit[s->n++] = (int8_t)bit; }

/* The instruction's bits, registers for the warp's further blocks, thread bits from *warp on for warps. */
static Spread spread_of(int n, const int8_t *form, int warp_step, int step, int *warp) {
    Spread s = {0};
    for (int b = 0; b < n; b++) push(&s, form[b]);
    if (warp_step == step) return s;
    for (int at = 1 << n; at < warp_step; at *= 2) push(&s, SPREAD_REGISTER);
    for (int at = warp_step; at < step; at *= 2) push(&s, (*warp)++);
    return s;
}

static bool spread_tiles(Schedule *s) {
    const MatrixTile *t = &s->m->tile;
    const MatrixForm *f = matrix_form(t->by);
    int warp = t->by == BY_WGMMA ? 7 : 5;
    for (int x = 0; x < s->k->axes.n; x++) {
        bool ours = x == s->m->row_axis || x == s->m->column_axis;
        for (int i = 0; i < s->m->n_terms; i++) ours |= x == s->m->term[i].sum_axis;
        if (!ours && s->k->axes.at[x].step > 1) return refuse(s, "registers would hold another tile whole");
    }
    s->k->axes.at[s->m->row_axis].spread = spread_of(f->n_row, f->row, t->warp_rows, t->rows, &warp);
    s->k->axes.at[s->m->column_axis].spread = spread_of(f->n_col, f->col, t->warp_columns, t->columns, &warp);
    s->k->axes.at[s->m->row_axis].order = s->m->order;
    s->k->threads = 1 << warp;
    return true;
}

/* ---- the product ------------------------------------------------------------------------------------------------ */
static void find_dot(Schedule *s, const Block *b, Inst *loop) {
    for (int n = 0; n < b->n; n++) {
        Inst *i = b->at[n];
        if (i->kind == TI_DOT && loop && loop->axis == s->sum_axis && !s->dot) s->dot = i, s->loop = loop;
        find_dot(s, &i->body, i->kind == TI_FOR ? i : loop);
    }
}

/* There is room for the map among the kernel's parameters. */
static bool has_map(Schedule *s, const TensorMap *map) {
    const int family = s->k->buffers.at[map->buffer].family, more = family ? family : 1;
    if (s->maps + more > FUSEC_MAX_MAPS) return false;
    s->maps += more;
    return true;
}

/* In panels as wide as the swizzle; in narrower ones where a panel would hold two elements of a window, or two parts of
 * an axis that are apart. */
static const char *fetched_panels(const Schedule *s, Inst *stage, TensorMap *map) {
    enum { NARROWEST = 32 };
    const int widest = stage->swizzle;
    const char *why = kernel_tensor_map(s->k, stage, map);
    while (kernel_tensor_map(s->k, stage, map)) {
        if (stage->swizzle > NARROWEST) {
            stage->swizzle /= 2;
            continue;
        }
        stage->swizzle = widest;
        return why;
    }
    return NULL;
}

/* Fetched by the copy engine, for all of the cluster where its programs want the same. */
static bool place_fetched(Schedule *s, Inst *stage) {
    const int cluster = kernel_cluster_axis(s->k);
    TensorMap map;
    stage->by = BY_TMA;
    stage->bytes = 0;
    stage->multicast = cluster >= 0 && !tile_type_has(&stage->type, cluster);
    if (stage->multicast && kernel_tensor_map(s->k, stage, &map)) stage->multicast = false;
    if (!stage->swizzle)
        return refuse(s, stage->type.dtype == DT_TF32 ? "a tf32 factor is not contiguous along the sum"
                                                      : "rows of its tiles are under 32 bytes");
    const char *why = fetched_panels(s, stage, &map);
    if (why) return refuse(s, arena_printf(s->k->arena, "the copy engine cannot fetch a factor: %s", why));
    return has_map(s, &map) || refuse(s, "there are too many factors for the copy engine's maps");
}

/* What a thread gathers element by element is on its way in registers, and needs an address each; where no two elements
 * stand side by side, a condition each as well. */
static bool gathers_beside(const Schedule *s, const Inst *stage, int across) {
    enum { MANY = 32, FEW_ACCUMULATORS = 64, WORD = 4 };
    const Axis *axes = s->k->axes.at;
    const int elements = stage->bytes / dtype_bytes(stage->type.dtype);
    const int64_t tile = (int64_t)axes[across].step * axes[s->sum_axis].step,
                  gathered = tile / elements / s->k->threads;
    if (stage->by != BY_THREADS) return false;
    if (stage->bytes < WORD && gathered >= MANY) return true;
    return matrix_accumulators(&s->m->tile) > FEW_ACCUMULATORS && gathered > MANY;
}

static bool place_factor(Schedule *s, int value, int across) {
    Inst *stage = factor_stage(&s->loop->body, value);
    if (!stage || !tile_type_has(&stage->type, across) || !tile_type_has(&stage->type, s->sum_axis))
        return refuse(s, "a factor has not both a row and a sum");
    const bool along = factor_along_sum(s->k, s->def, stage->in[0], across, s->sum_axis);
    const int minor = along ? s->sum_axis : across, bytes = dtype_bytes(stage->type.dtype);
    const bool by_registers = s->m->tile.by == BY_WGMMA && across == s->m->row_axis;
    factor_place(s->k, s->def, stage, minor, bytes == 4 && !along && !by_registers ? 0 : factor_swizzle(s->k, minor, bytes));
    if (s->m->tile.by == BY_MMA && gathers_beside(s, stage, across))
        return refuse(s, "a factor is gathered element by element, which leaves no registers for so many sums");
    return s->m->tile.by != BY_WGMMA || place_fetched(s, stage);
}

static bool schedule_term(Schedule *s, int term) {
    s->sum_axis = s->m->term[term].sum_axis;
    s->dot = NULL;
    find_dot(s, &s->k->body, NULL);
    if (!s->dot) return refuse(s, "no product is left along its axes");
    if (!place_factor(s, s->dot->in[0], s->m->row_axis) || !place_factor(s, s->dot->in[1], s->m->column_axis))
        return false;
    s->dot->by = s->m->tile.by;
    s->loop->ahead = s->m->ahead;
    s->loops[term] = s->loop;
    return true;
}

/* ---- before and after it ----------------------------------------------------------------------------------------- */
static bool is_tile(const Schedule *s, int value) {
    const TileType *t = &s->k->types.at[value];
    return tile_type_has(t, s->m->row_axis) && tile_type_has(t, s->m->column_axis);
}

static int64_t tile_bytes(const Schedule *s, const Inst *access) {
    const Axis *axes = s->k->axes.at;
    return (int64_t)kernel_groups(s->k) * axes[s->m->row_axis].step * axes[s->m->column_axis].step *
           dtype_bytes(s->k->buffers.at[access->buffer].dtype);
}

static void schedule_store(Schedule *s, Block *b, int at) {
    Inst *store = b->at[at];
    if (!is_tile(s, store->in[0]) || s->staged + tile_bytes(s, store) > s->m->room) return;
    if (!store_staged(s->k, s->def, b, at, s->m->row_axis, s->m->column_axis)) return;
    s->staged += tile_bytes(s, store);
    s->def = kernel_defs(s->k->arena, s->k);
    const By by = store->by;
    store->by = BY_TMA;
    TensorMap map;
    if (!s->k->producer || kernel_tensor_map(s->k, store, &map) || !has_map(s, &map)) store->by = by;
}

/* A tile that the epilogue reads in parts of sectors goes through shared memory too, if there is room: it is fetched at
 * instruction `to`. */
static bool schedule_load(Schedule *s, Block *b, int at, int to) {
    Inst *load = b->at[at];
    if (!is_tile(s, load->result) || dtype_bytes(load->type.dtype) != 2 || load->n_in || subscripts_gather(load) ||
        whole_sectors(s->k, s->def, load, s->m->row_axis, s->m->column_axis))
        return false;
    const int minor = access_axis(s->k, s->def, load, s->m->row_axis, s->m->column_axis);
    const int64_t bytes = tile_bytes(s, load);
    if (!load_run_bytes(s->k, s->def, load, minor) || s->staged + bytes > s->m->room) return false;
    for (int n = at; n > to; n--) b->at[n] = b->at[n - 1];
    b->at[to] = load;
    Inst *stage = load_staged(s->k, b, to);
    s->def = kernel_defs(s->k->arena, s->k);
    factor_place(s->k, s->def, stage, minor, factor_swizzle(s->k, minor, dtype_bytes(stage->type.dtype)));
    s->staged += bytes;
    return true;
}

/* Does a TI_LOAD, or a TI_STORE, below b touch the buffer? */
static bool touches(const Block *b, TileOp kind, int buffer) {
    bool found = false;
    for (int n = 0; n < b->n && !found; n++)
        found = (b->at[n]->kind == kind && b->at[n]->buffer == buffer) || touches(&b->at[n]->body, kind, buffer);
    return found;
}

/* A number that the epilogue reads, such as a learning rate, is on its way while products are summed. */
static bool loads_number(const Schedule *s, const Inst *i) {
    bool fixed = i->kind == TI_LOAD && !i->type.n_axes && !i->n_in && !touches(&s->k->body, TI_STORE, i->buffer);
    for (int d = 0; d < i->n_index && fixed; d++) fixed = !i->index[d]->n;
    return fixed;
}

static void schedule_numbers(Schedule *s, Block *b) {
    int before = 0;
    while (before < b->n && b->at[before]->kind != TI_FOR) before++;
    for (int n = before + 1; n < b->n; n++) {
        Inst *load = b->at[n];
        if (!loads_number(s, load)) continue;
        for (int to = n; to > before; to--) b->at[to] = b->at[to - 1];
        b->at[before++] = load;
    }
}

/* May the store at n go to `to`?  Not if it writes what is loaded: of values that are one memory it is all that has been
 * loaded so far. */
static bool stored_early(const Schedule *s, const Block *b, int to, int n) {
    const Inst *store = b->at[n];
    bool loads = touches(&s->k->body, TI_LOAD, store->buffer);
    for (int at = to; at < n && s->k->buffers.at[store->buffer].in_place; at++) loads |= b->at[at]->kind == TI_LOAD;
    return !loads;
}

/* A stage and its store, at n, go where the value has been computed, which is after instruction `after`; how far. */
static int store_early(Schedule *s, Block *b, int after, int n) {
    Inst *stage = b->at[n], *store = b->at[n + 1];
    int to = n;
    while (to > after && b->at[to - 1]->result != stage->in[0]) to--;
    if (to == after || !stored_early(s, b, to, n + 1)) return 0;
    for (int at = n + 1; at > to + 1; at--) b->at[at] = b->at[at - 2];
    b->at[to] = stage;
    b->at[to + 1] = store;
    return n - to;
}

/* Of several results that leave by the copy engine each does before the next is computed: else all would be held in
 * registers till the first leaves. */
static void schedule_results(Schedule *s, Block *b, int after) {
    bool several = false;
    for (int n = b->n - 1; n > after; n--) {
        const Inst *store = b->at[n], *stage = b->at[n - 1];
        if (store->kind != TI_STORE || store->by != BY_TMA || stage->kind != TI_STAGE || stage->result != store->in[0])
            continue;
        if (several && store_early(s, b, after, n - 1)) n++; /* others are there now */
        several = true;
    }
}

static void schedule_accesses(Schedule *s) {
    Block *b = &s->k->body;
    int before = b->n, after = b->n; /* the product; the first instruction after it */
    schedule_numbers(s, b);
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->kind == TI_FOR && n < before) before = n;
        if (i->kind == TI_FOR) after = n + 1;
        if (i->kind != TI_STORE) continue;
        schedule_store(s, b, n);
        n += b->at[n] != i;
    }
    int to = kernel_groups(s->k) > 1 ? before : after; /* a group fetches while it waits for its turn */
    for (int n = after; n < b->n; n++)
        if (b->at[n]->kind == TI_LOAD && schedule_load(s, b, n, to)) n++, to += 2;
    if (s->k->producer) schedule_results(s, b, to > after ? to : after);
}

/* ---- what is particular to warpgroups ---------------------------------------------------------------------------- */
/* Pairs of programs share the larger of two tiles: neighbours along the rows that of the columns, and the reverse. */
static void pair_programs(Kernel *k, const MatrixTiles *m) {
    const int first = m->tile.columns >= m->tile.rows ? m->row_axis : m->column_axis;
    for (int n = 0; n < 2; n++) {
        Axis *x = &k->axes.at[n ? m->row_axis + m->column_axis - first : first];
        const int64_t tiles = (x->extent.bound + x->step - 1) / x->step;
        if (!dim_is_fixed(x->extent) || tiles % 2) continue;
        x->cluster = 2;
        return;
    }
}

/* Blocks of two computing warpgroups, with one program or one each, have a multiprocessor for themselves and stay
 * there. */
static void fetch_apart(Kernel *k, const MatrixTiles *m) {
    k->producer = 32;
    if (m->tile.alternate > 1) k->alternate = m->tile.alternate;
    if (k->threads * kernel_groups(k) != 256) return;
    k->producer = 128; /* setmaxnreg is of whole warpgroups */
    k->registers[0] = 232;
    k->registers[1] = 40;
    k->persistent = true;
    pair_programs(k, m);
}

/* As many slots as there is room for beside what leaves, or meets, in shared memory; barriers take 16 bytes a slot. */
static void fit_ring(Schedule *s) {
    enum { BARRIERS = 1024 };
    while (s->loop->ahead > 1 && kernel_shared_bytes(s->k) + BARRIERS > s->m->room)
        for (int i = 0; i < s->m->n_terms; i++) s->loops[i]->ahead--;
    if (kernel_shared_bytes(s->k) + BARRIERS > s->m->room) refuse(s, "its tiles take more shared memory than there is");
}

const char *matrix_schedule(Kernel *k, const MatrixTiles *m) {
    Schedule s = {.k = k, .m = m, .def = kernel_defs(k->arena, k)};
    bool matrices = m->row_axis >= 0 && m->column_axis >= 0;
    for (int i = 0; i < m->n_terms; i++) matrices &= m->term[i].sum_axis >= 0;
    if (!matrices) return "its rows, columns or sum are one element";
    if (!spread_tiles(&s)) return s.why;
    if (m->tile.by == BY_WGMMA) fetch_apart(k, m);
    for (int i = 0; i < m->n_terms; i++)
        if (!schedule_term(&s, i)) return s.why;
    schedule_accesses(&s);
    if (m->tile.by == BY_WGMMA || m->slice) fit_ring(&s);
    return s.why ? s.why : kernel_check_schedule(k->arena, k);
}
