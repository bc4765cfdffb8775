#include "codegen/host/channel_micro.h"
#include "codegen/host/micro_block.h"
#include <stdio.h>

typedef struct Micro {
    MicroBlock *block; /* of one vector for each row of both sides */
    const ChannelShape *s;
    LLVMValueRef channel;
} Micro;

static LLVMValueRef param(const Micro *m, unsigned i) { return LLVMGetParam(m->block->fn, i); }

/* What changes from round to round. */
typedef struct Round {
    LLVMValueRef x, y, place[4];
    int n; /* element of each group */
    LLVMValueRef factor[CHANNEL_MOST_TAPS];
} Round;

static LLVMValueRef moved(const Emit *e, LLVMValueRef p, int64_t offset) {
    LLVMValueRef at = emit_i64(e, offset);
    return LLVMBuildGEP2(e->b, e->f32, p, &at, 1, "");
}

static LLVMValueRef load(const Micro *m, LLVMValueRef p) {
    return emit_load_f32(m->block->e, m->block->vector, p, NULL);
}

/* Element n of each of the groups at p, a lane for each result. */
static LLVMValueRef load_groups(const Micro *m, LLVMValueRef p, int n) {
    const Emit *e = m->block->e;
    const ChannelGroups *g = &m->s->groups;
    LLVMValueRef lane[CHANNEL_MOST_LANES];
    if (g->width == 1 && g->depth == 1) return load(m, p);
    LLVMTypeRef type = LLVMVectorType(e->f32, (unsigned)(m->s->lanes / g->width * g->depth));
    LLVMValueRef v = LLVMBuildLoad2(e->b, type, p, "");
    LLVMSetAlignment(v, 4);
    for (int i = 0; i < m->s->lanes; i++)
        lane[i] = LLVMConstInt(e->i32, (unsigned)(i / g->width * g->depth + n), false);
    return LLVMBuildShuffleVector(e->b, v, LLVMGetUndef(type), LLVMConstVector(lane, (unsigned)m->s->lanes), "");
}

/* The lines of an element `ahead` elements behind p, into the second cache. */
static void prefetch_ahead(const Micro *m, LLVMValueRef p, int64_t ahead) {
    const Emit *e = m->block->e;
    for (int line = 0; line < m->s->lanes; line += CHANNEL_LINE) {
        LLVMValueRef args[4] = {moved(e, p, ahead + line), LLVMConstInt(e->i32, 0, false),
                                LLVMConstInt(e->i32, 2, false), LLVMConstInt(e->i32, 1, false)};
        emit_intrinsic(e, "llvm.prefetch", 4, args);
    }
}

/* Ahead of place `at` of `places` side by side.  Where those are one stretch of memory, a round of all channels fetches
 * for it from its beginning to its end, a part for each vector: memory gives neighbouring lines faster than it gives
 * the same few of every place. */
static void prefetch(const Micro *m, LLVMValueRef p, int64_t ahead, int64_t run, int64_t at, int64_t places) {
    const Emit *e = m->block->e;
    if (ahead <= 0) return;
    if (run) {
        LLVMValueRef before = LLVMBuildMul(e->b, m->channel, emit_i64(e, places - 1), "");
        p = LLVMBuildGEP2(e->b, e->f32, p, &before, 1, "");
        ahead -= at * (run - m->s->lanes);
    }
    prefetch_ahead(m, p, ahead);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }

void channel_places(const ChannelSide *s, int64_t *first, int64_t *last) {
    const int64_t rows = (s->rows - 1) * s->row, taps = (s->taps - 1) * s->tap;
    *first = least(rows, 0) + least(taps, 0);
    *last = greatest(rows, 0) + greatest(taps, 0);
}

/* ---- one round --------------------------------------------------------------------------------------------------- */
/* What follows runs if the place exists; NULL: it does for certain. */
static LLVMBasicBlockRef guard_open(const Micro *m, int side, int64_t place, const Round *r) {
    const Emit *e = m->block->e;
    const ChannelSide *s = &m->s->side[side];
    if (place >= s->sure && place < s->sure_end) return NULL;
    LLVMValueRef at = emit_i64(e, place), above = LLVMBuildICmp(e->b, LLVMIntSGE, at, r->place[2 * side], ""),
                 below = LLVMBuildICmp(e->b, LLVMIntSLT, at, r->place[2 * side + 1], "");
    return micro_if_open(m->block, LLVMBuildAnd(e->b, above, below, ""));
}

static void guard_close(const Micro *m, LLVMBasicBlockRef guard) {
    if (guard) micro_if_close(m->block, guard);
}

/* Row i and tap j of a side read `place`: the next such pair after (*i, *j), which starts at (0, -1). */
static bool next_pair(const ChannelSide *s, int64_t place, int *i, int *j) {
    for (;;) {
        if (++*j == s->taps) *j = 0, ++*i;
        if (*i == s->rows) return false;
        if (*i * s->row + *j * s->tap == place) return true;
    }
}

/* What lies ahead of a place; of a run only what neither the block beside this one fetches nor the one before did. */
static void prefetch_image(const Micro *m, LLVMValueRef p, const int64_t *place) {
    int64_t first[2], last[2];
    for (int i = 0; i < 2; i++) channel_places(&m->s->side[i], &first[i], &last[i]);
    if (!m->s->x_run || (place[0] > last[0] - m->s->shift[0] && place[1] < first[1] + m->s->shift[1]))
        prefetch(m, p, m->s->x_ahead, m->s->x_run, place[1] - first[1], m->s->shift[1]);
}

/* The element at two places is loaded once for all rows and taps that read it. */
static void element(const Micro *m, const Round *r, const int64_t *place) {
    const Emit *e = m->block->e;
    const ChannelSide *a = &m->s->side[0], *b = &m->s->side[1];
    LLVMValueRef x = NULL;
    for (int i = 0, j = -1; next_pair(a, place[0], &i, &j);)
        for (int k = 0, l = -1; next_pair(b, place[1], &k, &l);) {
            if (!x) {
                LLVMValueRef p = moved(e, r->x, i * a->x_row + j * a->x_tap + k * b->x_row + l * b->x_tap);
                if (r->n == 0) prefetch_image(m, p, place);
                x = load_groups(m, p, r->n);
            }
            micro_add(m->block, i * b->rows + k, 0, false, x, r->factor[j * b->taps + l]);
        }
}

int64_t channel_reads(const ChannelSide *s) {
    int64_t first, last, n = 0;
    channel_places(s, &first, &last);
    for (int64_t place = first; place <= last; place++) {
        int i = 0, j = -1;
        n += next_pair(s, place, &i, &j);
    }
    return n;
}

static bool is_read(const ChannelSide *s, int64_t place) {
    int i = 0, j = -1;
    return place >= s->may && place < s->may_end && next_pair(s, place, &i, &j);
}

static void one_element(const Micro *m, Round *r) {
    const ChannelSide *a = &m->s->side[0], *b = &m->s->side[1];
    int64_t place[2], first[2], last[2];
    for (int j = 0; j < a->taps; j++)
        for (int l = 0; l < b->taps; l++) {
            LLVMValueRef p = moved(m->block->e, r->y, j * a->y_tap + l * b->y_tap + r->n * m->s->groups.y_step);
            prefetch(m, p, m->s->y_ahead, m->s->y_run, l, b->taps);
            r->factor[j * b->taps + l] = load(m, p);
        }
    for (int i = 0; i < 2; i++) channel_places(&m->s->side[i], &first[i], &last[i]);
    for (place[0] = first[0]; place[0] <= last[0]; place[0]++) {
        if (!is_read(a, place[0])) continue;
        LLVMBasicBlockRef outer = guard_open(m, 0, place[0], r);
        for (place[1] = first[1]; place[1] <= last[1]; place[1]++) {
            if (!is_read(b, place[1])) continue;
            LLVMBasicBlockRef inner = guard_open(m, 1, place[1], r);
            element(m, r, place);
            guard_close(m, inner);
        }
        guard_close(m, outer);
    }
}

/* Nothing read before is kept in registers for later: these are for the sums, and X is near. */
static void forget(const Micro *m) {
    LLVMBuildFence(m->block->e->b, LLVMAtomicOrderingSequentiallyConsistent, true, "");
}

static void one_round(const Micro *m, Round *r) {
    const ChannelGroups *g = &m->s->groups;
    for (r->n = g->first; r->n < g->first + g->count; r->n++) {
        if (r->n > g->first) forget(m);
        one_element(m, r);
    }
}

/* ---- the function ------------------------------------------------------------------------------------------------ */
static void all_rounds(const Micro *m) {
    const Emit *e = m->block->e;
    MicroVariable variable[4]; /* x, y, the places of the outer side */
    Round r = {.x = param(m, CHANNEL_X), .y = param(m, CHANNEL_Y)};
    for (unsigned i = 0; i < 4; i++) r.place[i] = param(m, CHANNEL_PLACES + i);
    if (!m->s->loops) {
        one_round(m, &r);
        return;
    }
    LLVMValueRef *const at[4] = {&r.x, &r.y, &r.place[0], &r.place[1]};
    for (int i = 0; i < 4; i++) variable[i] = micro_variable(m->block, *at[i]);
    const MicroLoop loop = micro_loop_open(m->block, param(m, CHANNEL_COUNT), false);
    for (int i = 0; i < 4; i++) *at[i] = micro_get(m->block, variable[i]);
    one_round(m, &r);
    micro_set(m->block, variable[0], moved(e, r.x, m->s->x_step));
    micro_set(m->block, variable[1], moved(e, r.y, m->s->y_step));
    for (int i = 0; i < 2; i++)
        micro_set(m->block, variable[2 + i], LLVMBuildSub(e->b, r.place[i], emit_i64(e, m->s->place_step), ""));
    micro_loop_close(m->block, &loop);
}

static LLVMValueRef c_vector(const void *user, int row, int vector) {
    const Micro *m = user;
    const ChannelSide *a = &m->s->side[0], *b = &m->s->side[1];
    (void)vector; /* there is one */
    return moved(m->block->e, param(m, CHANNEL_C), row / b->rows * a->c_row + row % b->rows * b->c_row);
}

/* What is beyond the places that a block reads makes no difference: equal code has one name. */
static void normalize(ChannelSide *s) {
    int64_t first, last;
    int64_t *const limit[] = {&s->sure, &s->sure_end, &s->may, &s->may_end};
    channel_places(s, &first, &last);
    for (int i = 0; i < 4; i++) *limit[i] = least(greatest(*limit[i], first), last + 1);
    if (s->sure >= s->sure_end) s->sure = s->sure_end = first;
}

static int name_side(char *to, size_t room, const ChannelSide *s) {
    return snprintf(to, room, "_%dx%d_%lld_%lld_%lld_%lld_%lld_%lld_%lld_%lld_%lld_%lld", s->rows, s->taps,
                    (long long)s->row, (long long)s->tap, (long long)s->x_row, (long long)s->x_tap, (long long)s->c_row,
                    (long long)s->y_tap, (long long)s->sure, (long long)s->sure_end, (long long)s->may,
                    (long long)s->may_end);
}

int channel_args(const ChannelShape *s) { return s->x_run || s->y_run ? CHANNEL_ARGS : CHANNEL_FIRST; }

LLVMValueRef channel_product(const Emit *e, ChannelShape s) {
    char name[640];
    for (int i = 0; i < 2; i++) normalize(&s.side[i]);
    const ChannelGroups *g = &s.groups;
    const char *kind = g->width * g->depth == 1 ? "channels" : "groups";
    int n = snprintf(name, sizeof name, "fusec.%s_%d%d%d_%lld_%lld_%lld_%lld_%lld_%lld_%lld_%lld_%lld", kind, s.lanes,
                     s.fresh, s.loops, (long long)s.x_step, (long long)s.y_step, (long long)s.place_step,
                     (long long)s.x_ahead, (long long)s.y_ahead, (long long)s.shift[0], (long long)s.shift[1],
                     (long long)s.x_run, (long long)s.y_run);
    if (g->width * g->depth > 1)
        n += snprintf(name + n, sizeof name - (size_t)n, "_%dx%d_%d.%d_%lld", g->width, g->depth, g->first, g->count,
                      (long long)g->y_step);
    for (int i = 0; i < 2; i++) n += name_side(name + n, sizeof name - (size_t)n, &s.side[i]);
    LLVMTypeRef params[CHANNEL_ARGS] = {e->ptr, e->ptr, e->ptr, e->i64, e->i64, e->i64, e->i64, e->i64, e->i64};
    MicroBlock block;
    Micro m = {.block = &block, .s = &s};
    if (!micro_begin(&block, e, name, channel_args(&s), params, s.side[0].rows * s.side[1].rows, 1, s.lanes))
        return block.fn;
    if (channel_args(&s) > CHANNEL_FIRST) m.channel = param(&m, CHANNEL_FIRST);
    all_rounds(&m);
    micro_put(&block, emit_i64(e, s.fresh), NULL, c_vector, &m);
    micro_end(&block);
    return block.fn;
}
