/* Products channel by channel, one factor read through a window: depthwise convolutions and their gradients, and those
 * of groups narrower than a vector.
 *
 *     C[rows, v] += X[window of rows and k, v] * Y[k, v]
 *
 * The innermost axis, v, stands in both factors: there is no matrix product to be had, but every load is a vector of v.
 * Rows and taps along the window's two innermost subscripts make a block: rows stay in registers, and what several of
 * them read at different taps is loaded once (micro.h).  X is read in place; elements that its conditions
 * exclude are never touched: places known to lie inside or outside cost nothing, the others a branch per line.  Where
 * conditions are of anything else, or lanes of v do not fill vectors, X is packed as the box of its elements first
 * (window.h).
 *
 *     C[rows, (v, f)] += X[window of rows and k, (v, q)] * Y[k, (v, f)]      summed over q, or q a row of C
 *
 * Of groups v with a few results f each, a vector has the results of several, side by side in C and Y; of what X has
 * for them, several elements q a group, one is moved to all lanes of its group (load_groups): the same blocks once for
 * each q.  Its constants are from `./dev bench conv`. */
#include "codegen/schedule/channel.h"

/* ---- roles ------------------------------------------------------------------------------------------------------- */
static bool has_stride(const HostPlan *kp, const Window *w, int axis, int64_t stride) {
    int64_t coef;
    return access_affine(kp->k, w->load, axis, &coef) && coef == stride;
}

/* The axis along which a group's elements of X are contiguous, and the groups one after another. */
static bool find_within(ChannelPlan *d) {
    const Kernel *k = d->at->k;
    TileType *of[2] = {&d->rows, &d->over};
    d->q = -1;
    d->depth = 1;
    if (has_stride(d->at, &d->window, d->v, 1)) return true;
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < of[o]->n_axes; i++) {
            const int axis = of[o]->axis[i];
            const int64_t depth = k->axes.at[axis].step;
            if (!single_tile(d, axis) || depth > MOST_DEPTH * d->width) continue;
            if (!has_stride(d->at, &d->window, axis, 1) || !has_stride(d->at, &d->window, d->v, depth)) continue;
            d->q = axis;
            d->q_summed = o == 1;
            d->depth = (int)depth;
            for (int n = i + 1; n < of[o]->n_axes; n++) of[o]->axis[n - 1] = of[o]->axis[n];
            of[o]->n_axes--;
            return true;
        }
    return false;
}

/* X has every axis of C and the sum, but that of a group's results; Y all but the rows. */
static bool classify(ChannelPlan *d) {
    const HostPlan *kp = d->at;
    const Kernel *k = kp->k;
    const int lanes = d->c->joint ? 2 : 1; /* axes */
    if (d->c->n < 2 || d->c->n < lanes || d->c->dtype != DT_F32) return false;
    d->v = d->c->axis[d->c->n - lanes];
    d->f = d->c->joint ? d->c->axis[d->c->n - 1] : -1;
    d->width = (int)step_of(d, d->f);
    for (int i = 0; i < d->c->n - lanes; i++) d->rows.axis[d->rows.n_axes++] = d->c->axis[i];
    for (int i = 0; i < d->dot->n_over; i++)
        if (!axis_trivial(k, d->dot->over[i])) d->over.axis[d->over.n_axes++] = d->dot->over[i];
    for (int swap = 0; swap < 2; swap++) {
        d->x = d->dot->in[swap], d->y = d->dot->in[!swap];
        const TileType *x = &k->types.at[d->x], *y = &k->types.at[d->y];
        bool fits = x->dtype == DT_F32 && y->dtype == DT_F32 && d->over.n_axes > 0 && tile_type_has(x, d->v) &&
                    tile_type_has(y, d->v) && (d->f < 0 || (tile_type_has(y, d->f) && !tile_type_has(x, d->f)));
        for (int i = 0; i < d->rows.n_axes; i++)
            fits = fits && tile_type_has(x, d->rows.axis[i]) && !tile_type_has(y, d->rows.axis[i]);
        for (int i = 0; i < d->over.n_axes; i++)
            fits = fits && tile_type_has(x, d->over.axis[i]) && tile_type_has(y, d->over.axis[i]);
        if (fits && window_find(kp, d->x, true, &d->window) && window_slides(k, &d->window, &d->rows, &d->over))
            return find_within(d);
    }
    return false;
}

static bool alone_in(const ChannelPlan *d, int subscript, int axis) {
    for (int s = 0; s < d->window.rank; s++)
        if (s != subscript && d->window.coef[s][axis]) return false;
    return true;
}

/* The two subscripts of least pitch in which rows and taps meet, both in no other. */
static void find_sides(ChannelPlan *d) {
    int at = INNER;
    for (int i = 0; i < SIDES; i++) d->side[i] = (Side){-1, -1, -1, 1, 1};
    for (int s = d->window.rank - 1; s >= 0 && at >= 0; s--) {
        Side side = {s, -1, -1, 1, 1};
        for (int i = 0; i < d->rows.n_axes; i++)
            if (d->window.coef[s][d->rows.axis[i]]) side.row = d->rows.axis[i];
        for (int i = 0; i < d->over.n_axes; i++)
            if (d->window.coef[s][d->over.axis[i]]) side.tap = d->over.axis[i];
        if (side.row >= 0 && side.tap >= 0 && alone_in(d, s, side.row) && alone_in(d, s, side.tap))
            d->side[at--] = side;
    }
}

static bool whole_vectors(const ChannelPlan *d) {
    const Axis *v = &d->at->k->axes.at[d->v];
    return dim_is_fixed(v->extent) && v->extent.bound % v->step == 0 && channels_of(d) % d->at->machine->vector == 0;
}

/* Packed, a group's elements of X are as close as in memory: nothing else is in their subscripts. */
static bool packs_closely(const ChannelPlan *d) {
    const int last = d->window.rank - 1;
    for (int a = 0; a < d->at->k->axes.n; a++)
        if (d->window.coef[last][a] && a != d->q && a != d->v) return false;
    return d->window.coef[last][d->v] || (last > 0 && d->window.coef[last - 1][d->v] == 1);
}

/* One condition is asked for a whole vector: it must be the same for all groups and elements that lie in it. */
static bool same_for_vector(const ChannelPlan *d, int subscript) {
    return !d->window.coef[subscript][d->v] && (d->q < 0 || !d->window.coef[subscript][d->q]);
}

/* Conditions are of the sides' subscripts alone. */
static bool x_in_place(const ChannelPlan *d) {
    for (int i = 0; i < d->window.n_ranges; i++) {
        bool found = false;
        for (int s = 0; s < SIDES; s++)
            found = found || (d->side[s].subscript >= 0 && same_for_vector(d, d->side[s].subscript) &&
                              index_equal(d->window.subscript[d->side[s].subscript], d->window.range[i].x));
        if (!found) return false;
    }
    return whole_vectors(d);
}

static bool y_in_place(ChannelPlan *d) {
    return window_find(d->at, d->y, true, &d->y_window) && d->y_window.n_ranges == 0 &&
           has_stride(d->at, &d->y_window, d->v, d->width) && whole_vectors(d) &&
           (d->f < 0 || has_stride(d->at, &d->y_window, d->f, 1));
}

static bool of_a_side(const ChannelPlan *d, int axis) {
    for (int s = 0; s < SIDES; s++)
        if (d->side[s].row == axis || d->side[s].tap == axis) return true;
    return false;
}

static void find_loops(ChannelPlan *d) {
    for (int i = 0; i < d->rows.n_axes; i++)
        if (!of_a_side(d, d->rows.axis[i])) d->row[d->n_rows++] = d->rows.axis[i];
    for (int i = 0; i < d->over.n_axes; i++)
        if (!of_a_side(d, d->over.axis[i])) d->sum[d->n_sums++] = d->over.axis[i];
}

/* ---- the factors ------------------------------------------------------------------------------------------------- */
int64_t channel_y_elements(const ChannelPlan *d) {
    const int64_t vector = d->at->machine->vector;
    int64_t n = (channels_of(d) + vector - 1) / vector * vector * (d->q_summed ? d->depth : 1);
    for (int i = 0; i < d->over.n_axes; i++) n *= step_of(d, d->over.axis[i]);
    return n;
}

/* What is packed of the factors. */
static bool packs_fit(const ChannelPlan *d) {
    const int64_t x = d->x_stays ? 0 : window_elements(d->at, &d->window);
    return 4 * (x + (d->y_stays ? 0 : channel_y_elements(d))) <= d->at->machine->l2;
}

/* In strips where the image conflicts in cache sets, in place where it can be, else as the box of its elements. */
static bool choose_ways(ChannelPlan *d, HostSchedule *s) {
    const unsigned box = !in_groups(d) || packs_closely(d) ? 1u << WAY_BOX : 0;
    const unsigned stays = d->x_stays ? 1u << WAY_IN_PLACE | 1u << WAY_STRIPS : 0;
    const int64_t strip = d->x_stays && s->x == WAY_NONE ? channel_choose_strip(d) : 0;
    const bool x = form_way(&s->x, strip ? WAY_STRIPS : d->x_stays ? WAY_IN_PLACE : WAY_BOX, box | stays);
    const bool y = form_way(&s->y, d->y_stays ? WAY_IN_PLACE : WAY_PACKED,
                            1u << WAY_PACKED | (unsigned)d->y_stays << WAY_IN_PLACE);
    if (s->x == WAY_STRIPS && s->strip == 0) s->strip = (int)strip;
    d->strip = s->strip;
    d->x_stays = s->x != WAY_BOX;
    d->y_stays = s->y == WAY_IN_PLACE;
    return x && y && packs_fit(d) && (s->x == WAY_STRIPS ? channel_strip_fits(d, s->strip) : s->strip == 0);
}

/* ---- the product ------------------------------------------------------------------------------------------------- */
/* All its sums at once, in registers, of lanes that exist: then it can begin from zero. */
static bool is_whole(ChannelPlan d) {
    HostSchedule any = {.sums = 0};
    if (!whole_vectors(&d)) return false;
    find_loops(&d);
    for (int i = 0; i < d.over.n_axes; i++)
        if (!single_tile(&d, d.over.axis[i])) return false;
    d.fresh = true;
    return d.n_sums == 0 && channel_choose_block(&d, &any);
}

/* A row's element is loaded once for the taps of a block, a factor once for its rows. */
static HostWork channel_work(const ChannelPlan *d) {
    const double lanes = d->at->machine->vector;
    double rows = (double)channels_of(d) / lanes, taps = d->q >= 0 ? d->depth : 1;
    for (int i = 0; i < d->rows.n_axes; i++) rows *= (double)step_of(d, d->rows.axis[i]);
    for (int i = 0; i < d->over.n_axes; i++) taps *= (double)step_of(d, d->over.axis[i]);
    const double x = d->x_stays ? 0 : (double)window_elements(d->at, &d->window) / lanes;
    const double y = d->y_stays ? 0 : (double)channel_y_elements(d) / lanes;
    return (HostWork){
        .products = rows * taps, .loads = rows * taps, .read = x + y, .packed = x, .evaluated = y, .results = 2 * rows};
}

bool channelwise_plan(FormPlan *p) {
    ChannelPlan *d = p->of_form = ARENA_NEW(p->at->arena, ChannelPlan);
    *d = (ChannelPlan){.at = p->at, .dot = p->dot, .c = form_storage(p)};
    if (!classify(d)) return false;
    find_sides(d);
    d->x_stays = x_in_place(d);
    d->y_stays = y_in_place(d);
    if (in_groups(d) && !(whole_vectors(d) && (d->x_stays || packs_closely(d))))
        return form_refuse(p, "its groups fill no vectors");
    if (!packs_fit(d)) return form_refuse(p, "its window and factor are too large");
    p->work = channel_work(d);
    p->starts = p->whole = form_sums_at_once(p) && is_whole(*d);
    return true;
}

bool channelwise_choose(FormPlan *p) {
    ChannelPlan *d = p->of_form;
    d->fresh = p->loop != NULL;
    find_loops(d);
    return choose_ways(d, &p->s) && channel_choose_block(d, &p->s) && d->strip % p->s.columns == 0;
}
