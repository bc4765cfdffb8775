#include "ir/tile_schedule.h"
#include "ir/tile_spread.h"
#include "ir/tile_stage.h"
#include "ir/tile_tensor_map.h"

typedef struct Check {
    Arena *a;
    const Kernel *k;
    const Inst **def;
    bool *only;
    const char *why; /* the first */
} Check;

static bool refuse(Check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(Check *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (!c->why) c->why = arena_vprintf(c->a, fmt, ap);
    va_end(ap);
    return false;
}

static bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

/* ---- the head ------------------------------------------------------------------------------------------------- */
static bool check_axis(Check *c, const Axis *x) {
    enum { MAX_CLUSTER = 8 }; /* that every GPU with clusters can hold */
    if ((x->cluster || x->order || x->slowest) && x->kind != AXIS_GRID)
        return refuse(c, "axis %s is divided but not among programs", x->name);
    if (x->order < 0 || x->cluster < 0 || x->slowest < 0) return refuse(c, "axis %s has a negative cluster or order", x->name);
    if (x->cluster > MAX_CLUSTER)
        return refuse(c, "axis %s has clusters of more than %d programs", x->name, MAX_CLUSTER);
    const int64_t tiles = (x->extent.bound + x->step - 1) / x->step;
    if (x->cluster > 1 && (!dim_is_fixed(x->extent) || tiles % x->cluster))
        return refuse(c, "the tiles of axis %s do not divide into clusters of %d", x->name, x->cluster);
    return true;
}

/* Groups that alternate: barriers of their own for each, and the tiles that one thread fetches for all of them in their
 * order. */
static bool check_groups(Check *c) {
    enum { MOST_GROUPS = 4, WARPGROUP = 128, BLOCK = 1024 };
    const Kernel *k = c->k;
    if (k->alternate < 0 || k->alternate > MOST_GROUPS)
        return refuse(c, "%d groups of threads alternate: not 1 to %d", k->alternate, MOST_GROUPS);
    if (kernel_groups(k) == 1) return true;
    if (!k->persistent || !k->producer)
        return refuse(c, "groups of threads alternate but do not walk programs whose tiles are fetched for them");
    if (k->threads % WARPGROUP || !is_power_of_two(k->threads))
        return refuse(c, "%d threads alternate: not a power of two of whole warpgroups", k->threads);
    return kernel_block_threads(k) <= BLOCK || refuse(c, "a block of %d threads", kernel_block_threads(k));
}

static bool check_head(Check *c) {
    const Kernel *k = c->k;
    int clusters = 0, orders = 0, slowest = 0;
    for (int x = 0; x < k->axes.n; x++) {
        if (!check_axis(c, &k->axes.at[x])) return false;
        clusters += k->axes.at[x].cluster > 1;
        orders += k->axes.at[x].order > 0;
        slowest += k->axes.at[x].slowest > 0;
    }
    if (slowest > 1 || (slowest && (clusters || orders || k->producer || k->persistent)))
        return refuse(c, "programs are numbered by one axis first, where nothing else orders them");
    if (clusters > 1 || orders > 1) return refuse(c, "clusters and order go along one axis each");
    if (!k->threads && (k->producer || k->persistent || k->dependent || clusters)) return refuse(c, "it has no threads that compute");
    if (k->producer < 0 || k->producer % 32) return refuse(c, "its fetching threads are not whole warps");
    for (int n = 0; n < 2; n++) {
        const int r = k->registers[n];
        if (r && (r < 24 || r > 256 || r % 8))
            return refuse(c, "%d registers per thread: not a multiple of 8 in 24..256", r);
    }
    return check_groups(c);
}

/* ---- staged tiles ---------------------------------------------------------------------------------------------- */
static bool check_place(Check *c, const Inst *i) {
    const int minor = i->minor - 1, bytes = dtype_bytes(i->type.dtype);
    if (i->minor == NO_AXIS)
        return (!i->swizzle && i->by == BY_NONE) || refuse(c, "%%%d is staged without an innermost axis", i->result);
    if (i->space != SPACE_SHARED) return refuse(c, "%%%d is placed but not in shared memory", i->result);
    if (minor < 0 || minor >= c->k->axes.n || !tile_type_has(&i->type, minor))
        return refuse(c, "%%%d is staged along an axis that it has not", i->result);
    if (!i->swizzle) return true;
    if (i->swizzle != 32 && i->swizzle != 64 && i->swizzle != 128)
        return refuse(c, "%%%d has an unknown swizzle", i->result);
    return (int64_t)c->k->axes.at[minor].step * bytes % i->swizzle == 0 ||
           refuse(c, "rows of %%%d are no multiple of its swizzle", i->result);
}

static bool check_access_width(Check *c, const Inst *i, const TileType *t, int minor) {
    const int least = i->by == BY_ASYNC ? 4 : dtype_bytes(t->dtype);
    if (!is_power_of_two(i->bytes) || i->bytes < least || i->bytes > 16)
        return refuse(c, "accesses of %d bytes", i->bytes);
    return (int64_t)c->k->axes.at[minor].step * dtype_bytes(t->dtype) % i->bytes == 0 ||
           refuse(c, "a row of %%%d is no multiple of accesses of %d bytes", i->kind == TI_STAGE ? i->result : i->in[0],
                  i->bytes);
}

/* Copies go from memory to memory: the value is a load, and lanes that it masks are 0. */
static bool check_copied(Check *c, const Inst *i) {
    const Inst *load = copied_load(c->k, i->in[0]);
    if (!load || load->kind != TI_LOAD || (load->n_in && load->value != 0))
        return refuse(c, "%%%d is copied but is no load that gives 0 where it is masked", i->result);
    if (!c->only[i->in[0]]) return refuse(c, "%%%d is copied but what it loads is needed in registers", i->result);
    const int run = load_run_bytes(c->k, c->def, load, i->minor - 1);
    if (i->by == BY_ASYNC && run < i->bytes)
        return refuse(c, "%%%d is copied by %d bytes, of which %d lie together", i->result, i->bytes, run);
    return i->by != BY_TMA || run == 16 || refuse(c, "rows of %%%d do not begin at multiples of 16 bytes", i->result);
}

static bool check_stage(Check *c, const Inst *i) {
    if (i->by == BY_MMA || i->by == BY_WGMMA) return refuse(c, "%%%d is staged by a matrix instruction", i->result);
    if (!check_place(c, i)) return false;
    if (i->multicast) {
        bool clusters = false;
        for (int x = 0; x < c->k->axes.n; x++) clusters |= c->k->axes.at[x].cluster > 1;
        if (!clusters || i->by != BY_TMA) return refuse(c, "%%%d goes to a cluster that there is not", i->result);
    }
    if (i->by == BY_NONE) return true;
    if (i->by != BY_TMA && !check_access_width(c, i, &i->type, i->minor - 1)) return false;
    return i->by == BY_THREADS || check_copied(c, i);
}

static bool check_store(Check *c, const Inst *i) {
    if (i->by == BY_NONE) return true;
    const Inst *stage = c->def[i->in[0]];
    if ((i->by != BY_THREADS && i->by != BY_TMA) || !stage || stage->kind != TI_STAGE || stage->minor == NO_AXIS)
        return refuse(c, "a store from shared memory of what is not there");
    if (i->n_in > 1 && c->k->types.at[i->in[1]].n_axes && !c->only[i->in[1]])
        return refuse(c, "a store from shared memory is masked by registers");
    if (i->by == BY_TMA) return true;
    if (!check_access_width(c, i, &stage->type, stage->minor - 1)) return false;
    const int run = load_run_bytes(c->k, c->def, i, stage->minor - 1);
    return run >= i->bytes || refuse(c, "a store by %d bytes, of which %d lie together", i->bytes, run);
}

/* ---- loops whose stages run ahead -------------------------------------------------------------------------------- */
/* Can be computed for a later iteration: not from what this one carries or computes in registers. */
static bool is_ahead(Check *c, const Inst *loop, int value);

static bool index_is_ahead(Check *c, const Inst *loop, const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_VALUE && !is_ahead(c, loop, a->id)) return false;
        if ((a->kind == ATOM_DIV || a->kind == ATOM_MOD) &&
            !(index_is_ahead(c, loop, a->num) && index_is_ahead(c, loop, a->den)))
            return false;
    }
    return true;
}

static bool is_ahead(Check *c, const Inst *loop, int value) {
    const Inst *i = c->def[value];
    for (int n = 0; n < loop->n_carry; n++)
        if (loop->carry[n] == value) return false;
    if (!i) return true; /* carried by a loop around, or the result of a body */
    if (i->kind == TI_REDUCE || i->kind == TI_DOT || i->kind == TI_STAGE) {
        for (int n = 0; n < loop->body.n; n++)
            if (loop->body.at[n] == i) return false;
        return true;
    }
    for (int n = 0; n < i->n_in; n++)
        if (!is_ahead(c, loop, i->in[n])) return false;
    for (int n = 0; n < i->n_index; n++)
        if (!index_is_ahead(c, loop, i->index[n])) return false;
    return true;
}

static bool check_loop(Check *c, const Inst *loop) {
    bool any = false;
    if (loop->ahead < 0 || loop->ahead > MAX_AHEAD) return refuse(c, "a loop runs %d iterations ahead", loop->ahead);
    if (!loop->ahead) return true;
    for (int n = 0; n < loop->body.n; n++) {
        const Inst *i = loop->body.at[n];
        if (i->kind != TI_STAGE || i->by == BY_NONE) continue;
        any = true;
        if (!c->only[i->in[0]] || !is_ahead(c, loop, i->in[0]))
            return refuse(c, "%%%d is fetched ahead of what it depends on", i->result);
    }
    return any || refuse(c, "a loop runs ahead with nothing to fetch");
}

/* ---- matrix instructions ----------------------------------------------------------------------------------------- */
enum { R = SPREAD_REGISTER };
static const MatrixForm forms[] = {
    [BY_MMA] = {.n_row = 4, .row = {2, 3, 4, R}, .n_col = 3, .col = {R, 0, 1}, .k_bytes = 32},
    [BY_WGMMA] = {.n_row = 6, .row = {2, 3, 4, R, 5, 6}, .n_col = 3, .col = {R, 0, 1}, .k_bytes = 32},
};
const MatrixForm *matrix_form(By by) { return by == BY_MMA || by == BY_WGMMA ? &forms[by] : NULL; }

static bool claim(int *axis, int a) {
    if (*axis >= 0) return false;
    *axis = a;
    return true;
}

bool matrix_axes(const Kernel *k, const Inst *dot, MatrixAxes *out) {
    const TileType *x = &k->types.at[dot->in[0]], *y = &k->types.at[dot->in[1]];
    *out = (MatrixAxes){-1, -1, -1};
    for (int a = 0; a < k->axes.n; a++) {
        const bool first = tile_type_has(x, a), second = tile_type_has(y, a);
        bool summed = false;
        for (int o = 0; o < dot->n_over; o++) summed |= dot->over[o] == a;
        if (k->axes.at[a].step == 1 || (!first && !second && !tile_type_has(&dot->type, a))) continue;
        if (summed != (first && second)) return false;
        if (!claim(summed ? &out->sum : first ? &out->row : &out->col, a) || (!first && !second)) return false;
    }
    return out->sum >= 0;
}

/* The axis's spread begins with the form's bits; what else it has of threads are warps, from bit `warp` on. */
static bool fits_form(const Axis *x, int n, const int8_t *bit, int warp) {
    if (x->spread.n < n) return false;
    for (int b = 0; b < x->spread.n; b++) {
        if (b < n ? x->spread.bit[b] != bit[b] : x->spread.bit[b] != R && x->spread.bit[b] < warp) return false;
    }
    return true;
}

/* Values that stand in registers as an accumulator's columns do are the first factor's fragments. */
static bool check_register_factor(Check *c, int value, int sum) {
    const MatrixForm *f = matrix_form(BY_MMA);
    const Axis *x = &c->k->axes.at[sum];
    if (dtype_bytes(c->k->types.at[value].dtype) != 2 || !dtype_is_low(c->k->types.at[value].dtype))
        return refuse(c, "%%%d is in registers but not of 16 bits", value);
    return fits_form(x, f->n_col, f->col, MAX_SPREAD) || refuse(c, "axis %s of %%%d is not spread as an accumulator's columns", x->name, value);
}

static bool is_staged(const Check *c, int value) { return c->def[value] && c->def[value]->kind == TI_STAGE; }

static bool check_factor(Check *c, int value, int other, int sum) {
    const Inst *s = c->def[value];
    if (!s || s->kind != TI_STAGE || s->space != SPACE_SHARED || s->minor == NO_AXIS)
        return refuse(c, "%%%d is no staged tile with an innermost axis: a matrix instruction cannot read it", value);
    const bool wide = dtype_bytes(s->type.dtype) == 2;
    if (!dtype_is_low(s->type.dtype)) return refuse(c, "%%%d has a dtype that no matrix instruction takes", value);
    if (s->minor - 1 != other && s->minor - 1 != sum) return refuse(c, "%%%d is staged along the wrong axis", value);
    return !wide || s->swizzle || refuse(c, "%%%d is not swizzled", value);
}

bool host_schedule_is_of(By form, const HostSchedule *s) {
    const bool block = s->rows[0] || s->columns || s->x || s->y, sides = s->rows[1] || s->taps[0] || s->taps[1] || s->strip;
    if (!by_is_host_form(form)) return !block && !sides && !s->axes && !s->sums && !s->prefetch && !s->start;
    return (form != BY_LOOPS || !block) && (form == BY_CHANNELS || !sides) && (form == BY_WINDOW || !s->axes) &&
           (form == BY_BLOCKS || (!s->sums && !s->prefetch));
}

/* Each thread reads a factor at all that is summed: from shared memory, or it computes it there; not from registers of others. */
static bool check_read_whole(Check *c, const Inst *dot, int value) {
    if (is_staged(c, value) || c->only[value]) return true;
    for (int n = 0; n < dot->n_over; n++) {
        const Axis *x = &c->k->axes.at[dot->over[n]];
        if (tile_type_has(&c->k->types.at[value], dot->over[n]) && spread_threads(x))
            return refuse(c, "%%%d is in the registers of several threads along %s, which %%%d sums", value, x->name, dot->result);
    }
    return true;
}

static bool check_dot(Check *c, const Inst *i) {
    const MatrixForm *f = matrix_form(i->by);
    MatrixAxes x;
    if (!host_schedule_is_of(i->by, &i->host)) return refuse(c, "%%%d says what its form does not have", i->result);
    if (i->by == BY_NONE) return check_read_whole(c, i, i->in[0]) && check_read_whole(c, i, i->in[1]);
    if (by_is_host_form(i->by)) return !c->k->threads || refuse(c, "%%%d has a form of processors, and threads", i->result);
    if (!f) return refuse(c, "%%%d is summed by what does not sum", i->result);
    if (!matrix_axes(c->k, i, &x) || x.row < 0 || x.col < 0)
        return refuse(c, "%%%d is no product of two matrices", i->result);
    const Axis *axes = c->k->axes.at;
    const int warp = i->by == BY_WGMMA ? 7 : 5, bytes = dtype_bytes(c->k->types.at[i->in[0]].dtype);
    if (i->type.dtype != DT_F32) return refuse(c, "%%%d is not summed in f32", i->result);
    if (axes[x.sum].step * bytes % f->k_bytes)
        return refuse(c, "%%%d sums no multiple of what a matrix instruction sums", i->result);
    if (!fits_form(&axes[x.row], f->n_row, f->row, warp))
        return refuse(c, "axis %s is not spread as rows of %%%d", axes[x.row].name, i->result);
    if (!fits_form(&axes[x.col], f->n_col, f->col, warp))
        return refuse(c, "axis %s is not spread as columns of %%%d", axes[x.col].name, i->result);
    const bool in_registers = i->by == BY_MMA && !is_staged(c, i->in[0]);
    return (in_registers ? check_register_factor(c, i->in[0], x.sum) : check_factor(c, i->in[0], x.row, x.sum)) &&
           check_factor(c, i->in[1], x.col, x.sum);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */
static bool check_block(Check *c, const Block *b) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        const bool ok = i->kind == TI_STAGE   ? check_stage(c, i)
                        : i->kind == TI_STORE ? check_store(c, i)
                        : i->kind == TI_DOT   ? check_dot(c, i)
                        : i->kind == TI_FOR   ? check_loop(c, i)
                                              : true;
        if (!ok || !check_block(c, &i->body)) return false;
    }
    return true;
}

const char *kernel_check_schedule(Arena *a, const Kernel *k) {
    Check c = {.a = a, .k = k, .def = kernel_defs(a, k), .only = ARENA_ARRAY(a, bool, k->types.n + 1)};
    kernel_staged_only(k, c.only);
    if (check_head(&c) && check_block(&c, &k->body)) c.why = kernel_check_spreads(a, k);
    return c.why;
}
