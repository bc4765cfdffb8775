/* The micro-kernels of products, one per module and shape; see micro.h.  Its constants are from `./dev bench gemm`. */
#include "codegen/host/micro.h"
#include "codegen/host/micro_block.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

typedef struct Micro {
    MicroBlock *block; /* a row for each row of both sides */
    const MicroShape *s;
    LLVMValueRef arg[MICRO_ARGS];         /* parameters; NULL: not given */
    MicroVariable x, y, packed, place[2]; /* of the step at hand; place: limits along the outer side */
    LLVMValueRef mask;                    /* of sums along the factors: the lanes that are there; NULL: all */
    bool half;                            /* the second of each pair is not there */
} Micro;

static const Emit *emit_of(const Micro *m) { return m->block->e; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }

static bool is_read(const MicroSide *s, int64_t place) {
    int64_t i = 0, j = -1;
    return place >= s->may && place < s->may_end && micro_next_pair(s, place, &i, &j);
}

/* What follows runs if the place exists; NULL: it does for certain. */
static LLVMBasicBlockRef guard_open(const Micro *m, int side, int64_t place) {
    const Emit *e = emit_of(m);
    const MicroSide *s = &m->s->side[side];
    if (place >= s->sure && place < s->sure_end) return NULL;
    LLVMValueRef limit[2];
    for (int i = 0; i < 2; i++) limit[i] = side == 0 ? micro_get(m->block, m->place[i]) : m->arg[MICRO_PLACES + 2 + i];
    LLVMValueRef at = emit_i64(e, place), above = LLVMBuildICmp(e->b, LLVMIntSGE, at, limit[0], ""),
                 below = LLVMBuildICmp(e->b, LLVMIntSLT, at, limit[1], "");
    return micro_if_open(m->block, LLVMBuildAnd(e->b, above, below, ""));
}

static void guard_close(const Micro *m, LLVMBasicBlockRef guard) {
    if (guard) micro_if_close(m->block, guard);
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */
/* n strides: those of an argument, or as the shape knows them. */
static LLVMValueRef strides(const Micro *m, int arg, int64_t known, int64_t n) {
    const Emit *e = emit_of(m);
    return m->arg[arg] ? LLVMBuildMul(e->b, m->arg[arg], emit_i64(e, n), "") : emit_i64(e, known * n);
}

/* Of memory as it is, or of floats and packed pairs. */
static LLVMValueRef source_at(const Micro *m, const MicroFactor *f, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(emit_of(m)->b, f->raw ? emit_of(m)->i16 : emit_of(m)->f32, p, &offset, 1, "");
}

static LLVMValueRef c_vector(const void *user, int row, int vector) {
    const Micro *m = user;
    const Emit *e = emit_of(m);
    const MicroSide *a = &m->s->side[0], *b = &m->s->side[1];
    const int64_t outer = row / b->rows * a->c_row + vector * m->s->lanes;
    LLVMValueRef inner = strides(m, MICRO_C_ROW, b->c_row, row % b->rows);
    return emit_f32_at(e, m->arg[MICRO_C], LLVMBuildAdd(e->b, inner, emit_i64(e, outer), ""));
}

/* Element n of each of the groups at p, a lane for each result. */
static LLVMValueRef load_groups(const Micro *m, LLVMValueRef p, int64_t n) {
    const Emit *e = emit_of(m);
    const MicroGroups *g = &m->s->groups;
    LLVMValueRef lane[MICRO_LANES];
    if (g->width == 1 && g->depth == 1) return emit_load_f32(e, m->block->vector, p, m->mask);
    LLVMTypeRef type = LLVMVectorType(e->f32, (unsigned)(m->s->lanes / g->width * g->depth));
    LLVMValueRef v = emit_load_f32(e, type, p, NULL);
    for (int64_t i = 0; i < m->s->lanes; i++)
        lane[i] = LLVMConstInt(e->i32, (unsigned)(i / g->width * g->depth + n), false);
    return LLVMBuildShuffleVector(e->b, v, LLVMGetUndef(type), LLVMConstVector(lane, (unsigned)m->s->lanes), "");
}

/* A vector, or an element or a pair of them in all lanes. */
static LLVMValueRef load_x(const Micro *m, LLVMValueRef p, int64_t n) {
    const Emit *e = emit_of(m);
    const bool raw = m->s->x.raw, half = raw && m->half;
    if (m->s->x.vector) return load_groups(m, p, n);
    LLVMValueRef v = LLVMBuildLoad2(e->b, half ? e->i16 : e->f32, p, "");
    LLVMSetAlignment(v, raw ? 2 : 4);
    if (half) v = LLVMBuildBitCast(e->b, LLVMBuildZExt(e->b, v, e->i32, ""), e->f32, "");
    return emit_splat(e, v, m->block->lanes);
}

/* A vector of bf16 in place, in the lower halves of 32 bits. */
static LLVMValueRef load_halves(const Micro *m, LLVMValueRef at) {
    const Emit *e = emit_of(m);
    LLVMValueRef v = LLVMBuildLoad2(e->b, LLVMVectorType(e->i16, (unsigned)m->s->lanes), at, "");
    LLVMSetAlignment(v, 2);
    return LLVMBuildZExt(e->b, v, LLVMVectorType(e->i32, (unsigned)m->s->lanes), "");
}

/* A vector: of floats, of pairs, or of pairs of which two rows are made. */
static LLVMValueRef load_y(const Micro *m, LLVMValueRef p) {
    const Emit *e = emit_of(m);
    if (!m->s->y.raw) return emit_load_f32(e, m->block->vector, p, m->mask);
    LLVMValueRef bits = load_halves(m, p);
    if (!m->half) {
        LLVMValueRef up = emit_splat(e, LLVMConstInt(e->i32, 16, false), m->block->lanes);
        LLVMValueRef next = source_at(m, &m->s->y, p, strides(m, MICRO_Y_STEP, m->s->y.step[0], 1));
        bits = LLVMBuildOr(e->b, bits, LLVMBuildShl(e->b, load_halves(m, next), up, ""), "");
    }
    return LLVMBuildBitCast(e->b, bits, m->block->vector, "");
}

/* ---- prefetches -------------------------------------------------------------------------------------------------- */
typedef enum { TO_READ, TO_WRITE } Intent;
enum { SECOND = 2, INNERMOST = 3 }; /* cache; into the innermost what comes next passes once */

static void prefetch(const Emit *e, LLVMValueRef at, Intent intent, int cache) {
    LLVMValueRef args[4] = {at, LLVMConstInt(e->i32, intent == TO_WRITE, false),
                            LLVMConstInt(e->i32, (unsigned)cache, false), LLVMConstInt(e->i32, 1, false)};
    emit_intrinsic(e, "llvm.prefetch", 4, args);
}

/* Rows of Y that are read some steps later.  Of what is only read so many lines are on their way that the innermost cache
 * has no places for them; rows that are packed too take longer. */
static void prefetch_steps(const Micro *m) {
    const Emit *e = emit_of(m);
    const int cache = m->arg[MICRO_PACKED] ? INNERMOST : SECOND;
    const MicroFactor *y = &m->s->y;
    const int64_t line = y->raw ? 2 * MICRO_LINE : MICRO_LINE;
    for (int row = 0; row < (y->raw ? 2 : 1); row++) {
        LLVMValueRef ahead =
            source_at(m, y, micro_get(m->block, m->y), strides(m, MICRO_Y_STEP, y->step[0], y->steps_ahead + row));
        for (int64_t n = 0; n < m->s->vectors * m->s->lanes; n += line)
            prefetch(e, source_at(m, y, ahead, emit_i64(e, n)), TO_READ, cache);
    }
}

/* The lines `ahead` of place `at` of `places` side by side.  Where those are one stretch of memory, a round of all
 * channels fetches for it from its beginning to its end, a part for each vector: memory gives neighbouring lines faster
 * than it gives the same few of every place. */
static void prefetch_ahead(const Micro *m, const MicroFactor *f, LLVMValueRef p, int64_t at, int64_t places) {
    const Emit *e = emit_of(m);
    int64_t ahead = f->ahead;
    if (ahead <= 0) return;
    if (f->run) {
        p = emit_f32_at(e, p, LLVMBuildMul(e->b, m->arg[MICRO_CHANNEL], emit_i64(e, places - 1), ""));
        ahead -= at * (f->run - m->s->lanes);
    }
    for (int64_t line = 0; line < m->s->lanes; line += MICRO_LINE)
        prefetch(e, emit_f32_at(e, p, emit_i64(e, ahead + line)), TO_READ, SECOND);
}

/* What lies ahead of a place; of a run only what neither the block beside this one fetches nor the one before did. */
static void prefetch_image(const Micro *m, LLVMValueRef p, const int64_t *place) {
    int64_t first[2], last[2];
    const int64_t *shift = m->s->shift;
    for (int i = 0; i < 2; i++) micro_places(&m->s->side[i], &first[i], &last[i]);
    if (!m->s->x.run || (place[0] > last[0] - shift[0] && place[1] < first[1] + shift[1]))
        prefetch_ahead(m, &m->s->x, p, place[1] - first[1], shift[1]);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */
/* Of Y: vectors of each tap, of elements n of the groups. */
static void load_factors(const Micro *m, int64_t n, LLVMValueRef *factor) {
    const Emit *e = emit_of(m);
    const MicroSide *a = &m->s->side[0], *b = &m->s->side[1];
    assert(a->taps * b->taps * m->s->vectors <= BLOCK_VECTORS);
    if (m->s->y.steps_ahead) prefetch_steps(m);
    for (int64_t j = 0; j < a->taps; j++)
        for (int64_t l = 0; l < b->taps; l++)
            for (int64_t v = 0; v < m->s->vectors; v++) {
                LLVMValueRef tap = emit_i64(e, j * a->y_tap + l * b->y_tap + n * m->s->groups.y_step);
                LLVMValueRef column = strides(m, MICRO_Y_COLUMN, m->s->lanes, v);
                LLVMValueRef p = source_at(m, &m->s->y, micro_get(m->block, m->y), LLVMBuildAdd(e->b, column, tap, ""));
                prefetch_ahead(m, &m->s->y, p, l, b->taps);
                *factor = load_y(m, p);
                if (m->arg[MICRO_PACKED])
                    emit_store_f32(e, *factor, emit_f32_at(e, micro_get(m->block, m->packed), column), NULL);
                factor++;
            }
}

/* The element at two places is loaded once for all rows and taps that read it. */
static void element(const Micro *m, const int64_t *place, int64_t n, const LLVMValueRef *factor) {
    const Emit *e = emit_of(m);
    const MicroSide *a = &m->s->side[0], *b = &m->s->side[1];
    LLVMValueRef x = NULL;
    for (int64_t i = 0, j = -1; micro_next_pair(a, place[0], &i, &j);)
        for (int64_t k = 0, l = -1; micro_next_pair(b, place[1], &k, &l);) {
            if (!x) {
                LLVMValueRef rest = emit_i64(e, i * a->x_row + j * a->x_tap + l * b->x_tap);
                LLVMValueRef offset = LLVMBuildAdd(e->b, strides(m, MICRO_X_ROW, b->x_row, k), rest, "");
                LLVMValueRef p = source_at(m, &m->s->x, micro_get(m->block, m->x), offset);
                if (n == 0) prefetch_image(m, p, place);
                x = load_x(m, p, n);
            }
            for (int64_t v = 0; v < m->s->vectors; v++)
                micro_add(m->block, (int)(i * b->rows + k), (int)v, m->s->pairs, x,
                          factor[(j * b->taps + l) * m->s->vectors + v]);
        }
}

static void elements(const Micro *m, int64_t n) {
    const MicroSide *a = &m->s->side[0], *b = &m->s->side[1];
    int64_t place[2], first[2], last[2];
    LLVMValueRef factor[BLOCK_VECTORS];
    load_factors(m, n, factor);
    for (int i = 0; i < 2; i++) micro_places(&m->s->side[i], &first[i], &last[i]);
    for (place[0] = first[0]; place[0] <= last[0]; place[0]++) {
        if (!is_read(a, place[0])) continue;
        LLVMBasicBlockRef outer = guard_open(m, 0, place[0]);
        for (place[1] = first[1]; place[1] <= last[1]; place[1]++) {
            if (!is_read(b, place[1])) continue;
            LLVMBasicBlockRef inner = guard_open(m, 1, place[1]);
            element(m, place, n, factor);
            guard_close(m, inner);
        }
        guard_close(m, outer);
    }
}

/* Nothing read before is kept in registers for later: these are for the sums, and X is near. */
static void forget(const Micro *m) {
    LLVMBuildFence(emit_of(m)->b, LLVMAtomicOrderingSequentiallyConsistent, true, "");
}

static void terms(const Micro *m) {
    const MicroGroups *g = &m->s->groups;
    for (int64_t n = g->first; n < g->first + g->count; n++) {
        if (n > g->first) forget(m);
        elements(m, n);
    }
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */
/* From x and y to the next step of a level. */
static void advance(const Micro *m, int level, LLVMValueRef x, LLVMValueRef y) {
    const Emit *e = emit_of(m);
    const int single = m->s->y.raw && level == 0 ? 2 : 1; /* of a pair */
    micro_set(m->block, m->x, emit_f32_at(e, x, strides(m, MICRO_X_STEP + level, m->s->x.step[level], 1)));
    micro_set(m->block, m->y, source_at(m, &m->s->y, y, strides(m, MICRO_Y_STEP + level, m->s->y.step[level], single)));
    for (int i = 0; i < 2 && m->s->place_step && level == 0; i++) {
        LLVMValueRef place = micro_get(m->block, m->place[i]);
        micro_set(m->block, m->place[i], LLVMBuildSub(e->b, place, emit_i64(e, m->s->place_step), ""));
    }
    if (level > 0 || !m->arg[MICRO_PACKED]) return;
    LLVMValueRef packed = micro_get(m->block, m->packed);
    micro_set(m->block, m->packed, emit_f32_at(e, packed, emit_i64(e, m->s->y.step[0])));
}

static void one_step(const Micro *m) {
    LLVMValueRef x = micro_get(m->block, m->x), y = micro_get(m->block, m->y);
    terms(m);
    advance(m, 0, x, y);
}

/* A walk beside the sums: every `interval` steps `lines` lines are prefetched, `stride` bytes on.  All at once they would
 * take the machine's few places for lines that are under way, and Y, a short way off, would have to wait for them. */
typedef struct Walk {
    LLVMValueRef at, stride;
    int64_t lines, interval;
    Intent intent;
    int cache;
} Walk;

/* Prefetches the place of a walk, which goes on to the next. */
static void walk_on(const Micro *m, MicroVariable place, const Walk *walk) {
    const Emit *e = emit_of(m);
    LLVMValueRef at = micro_get(m->block, place);
    for (int64_t i = 0; i < walk->lines; i++)
        prefetch(e, emit_f32_at(e, at, emit_i64(e, i * MICRO_LINE)), walk->intent, walk->cache);
    micro_set(m->block, place, LLVMBuildGEP2(e->b, e->i8, at, (LLVMValueRef[]){walk->stride}, 1, ""));
}

/* `trips` rounds of `steps` steps each. */
static void loop(const Micro *m, LLVMValueRef trips, int64_t steps) {
    const MicroLoop l = micro_loop_open(m->block, trips, m->s->levels > 1);
    for (int64_t i = 0; i < steps; i++) one_step(m);
    micro_loop_close(m->block, &l);
}

/* Steps in rounds of `unroll`; how many remain. */
static LLVMValueRef rounds(const Micro *m, LLVMValueRef steps) {
    const Emit *e = emit_of(m);
    LLVMValueRef unroll = emit_i64(e, m->s->unroll);
    loop(m, m->s->unroll > 1 ? LLVMBuildUDiv(e->b, steps, unroll, "") : steps, m->s->unroll);
    return m->s->unroll > 1 ? LLVMBuildURem(e->b, steps, unroll, "") : emit_i64(e, 0);
}

/* Of n places of a walk as many as there are steps beside; how many. */
static LLVMValueRef walk_along(const Micro *m, LLVMValueRef *left, LLVMValueRef n, const Walk *walk) {
    const Emit *e = emit_of(m);
    const MicroVariable place = micro_variable(m->block, walk->at);
    assert(walk->interval == 1 || walk->interval % m->s->unroll == 0);
    LLVMValueRef interval = emit_i64(e, walk->interval),
                 trips = emit_intrinsic(e, "llvm.smin", 2, (LLVMValueRef[]){n, LLVMBuildUDiv(e->b, *left, interval, "")});
    const MicroLoop l = micro_loop_open(m->block, trips, m->s->levels > 1);
    walk_on(m, place, walk);
    if (walk->interval > 1)
        rounds(m, interval);
    else
        one_step(m);
    micro_loop_close(m->block, &l);
    *left = LLVMBuildSub(e->b, *left, LLVMBuildMul(e->b, trips, interval, ""), "");
    return trips;
}

/* Walk i, of whose places there may be more than steps; short sums come after all of it. */
static LLVMValueRef walk_ahead(const Micro *m, LLVMValueRef left, int i) {
    const Emit *e = emit_of(m);
    const LLVMValueRef *arg = &m->arg[MICRO_WALK + 3 * i];
    Walk walk = {arg[0], arg[1], m->s->lines[i], m->s->interval, TO_READ, SECOND};
    LLVMValueRef done = m->s->brief ? emit_i64(e, 0) : walk_along(m, &left, arg[2], &walk);
    walk.at = LLVMBuildGEP2(e->b, e->i8, walk.at, (LLVMValueRef[]){LLVMBuildMul(e->b, done, walk.stride, "")}, 1, "");
    const MicroVariable place = micro_variable(m->block, walk.at);
    const MicroLoop l = micro_loop_open(m->block, LLVMBuildSub(e->b, arg[2], done, ""), m->s->levels > 1);
    walk_on(m, place, &walk);
    micro_loop_close(m->block, &l);
    return left;
}

/* The block of C, which sums are added to or written over, is prefetched when they are nearly made. */
static LLVMValueRef walk_c(const Micro *m, LLVMValueRef left) {
    enum { LATE = 40 }; /* steps before the end at which it has been */
    const Emit *e = emit_of(m);
    const int64_t rows = m->block->rows, columns = m->s->vectors * m->s->lanes;
    LLVMValueRef stride = strides(m, MICRO_C_ROW, m->s->side[1].c_row, 1);
    const Walk c = {m->arg[MICRO_C], LLVMBuildShl(e->b, stride, emit_i64(e, 2), ""),
                    (columns + MICRO_LINE - 1) / MICRO_LINE, 1, TO_WRITE, INNERMOST};
    LLVMValueRef before = LLVMBuildSub(e->b, left, emit_i64(e, rows + LATE), "");
    before = emit_intrinsic(e, "llvm.smax", 2, (LLVMValueRef[]){before, emit_i64(e, 0)});
    left = LLVMBuildAdd(e->b, LLVMBuildSub(e->b, left, before, ""), rounds(m, before), "");
    walk_along(m, &left, emit_i64(e, rows), &c);
    return left;
}

static void prefetch_c(const Micro *m) {
    for (int i = 0; i < m->block->rows; i++)
        for (int v = 0; v < m->block->vectors; v++)
            if (v * m->s->lanes % MICRO_LINE == 0) prefetch(emit_of(m), c_vector(m, i, v), TO_WRITE, INNERMOST);
}

/* Whole vectors of the sums, then one that is partly there. */
static void steps_along(Micro *m) {
    const Emit *e = emit_of(m);
    LLVMValueRef count = m->arg[MICRO_COUNT], lanes = emit_i64(e, m->s->lanes);
    LLVMValueRef rest = LLVMBuildURem(e->b, count, lanes, "");
    loop(m, LLVMBuildUDiv(e->b, count, lanes, ""), 1);
    LLVMBasicBlockRef join = micro_if_open(m->block, LLVMBuildICmp(e->b, LLVMIntSGT, rest, emit_i64(e, 0), ""));
    m->mask = emit_lanes_below(e, rest, m->block->lanes);
    terms(m);
    micro_if_close(m->block, join);
}

/* All of the innermost level. */
static void steps(Micro *m) {
    const Emit *e = emit_of(m);
    LLVMValueRef lanes = m->arg[MICRO_COUNT], left = m->s->odd ? LLVMBuildLShr(e->b, lanes, emit_i64(e, 1), "") : lanes;
    for (int i = 0; i < MICRO_WALKS; i++)
        if (m->s->lines[i]) left = walk_ahead(m, left, i);
    if (m->s->c_prefetched && m->s->brief) prefetch_c(m);
    if (m->s->c_prefetched && !m->s->brief) left = walk_c(m, left);
    left = rounds(m, left);
    if (m->s->unroll > 1) loop(m, left, 1);
    if (!m->s->odd) return;
    m->half = true;
    loop(m, LLVMBuildAnd(e->b, lanes, emit_i64(e, 1), ""), 1);
}

static void level(Micro *m, int n);

static void one_of_level(Micro *m, int n) {
    LLVMValueRef x = micro_get(m->block, m->x), y = micro_get(m->block, m->y);
    level(m, n - 1);
    advance(m, n, x, y);
}

/* Steps of level 1, each for its rows; rows read one place each. */
static void rows_of_taps(const Micro *m) {
    for (int64_t t = 0; t < m->s->taps.n; t++) {
        MicroShape of = *m->s;
        Micro tap = *m;
        tap.s = &of;
        of.side[1].may = m->s->taps.first[t];
        of.side[1].may_end = m->s->taps.end[t];
        LLVMValueRef x = micro_get(m->block, m->x), y = micro_get(m->block, m->y);
        if (of.side[1].may < of.side[1].may_end) level(&tap, 0);
        advance(m, 1, x, y);
    }
}

static void level(Micro *m, int n) {
    if (n < 0) {
        terms(m);
    } else if (n == 0 && m->s->along) {
        steps_along(m);
    } else if (n == 0) {
        steps(m);
    } else if (n == 1 && m->s->taps.n) {
        rows_of_taps(m);
    } else {
        const MicroLoop l = micro_loop_open(m->block, m->arg[MICRO_COUNT + n], n < m->s->levels - 1);
        one_of_level(m, n);
        micro_loop_close(m->block, &l);
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
static LLVMValueRef fresh(const Micro *m) {
    return m->arg[MICRO_FRESH] ? m->arg[MICRO_FRESH] : emit_i64(emit_of(m), m->s->fresh);
}

/* Neighbours added: those of x, then those of y. */
static LLVMValueRef add_neighbours(const Micro *m, LLVMValueRef x, LLVMValueRef y) {
    const Emit *e = emit_of(m);
    LLVMValueRef half[2], order[64];
    for (int odd = 0; odd < 2; odd++) {
        for (int i = 0; i < m->block->lanes; i++) order[i] = LLVMConstInt(e->i32, (unsigned)(2 * i + odd), false);
        half[odd] = LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(order, (unsigned)m->block->lanes), "");
    }
    return LLVMBuildFAdd(e->b, half[0], half[1], "");
}

/* The sum of each of `columns` vectors, in the first lanes of one. */
static LLVMValueRef sums(const Micro *m, LLVMValueRef *v) {
    const int columns = m->block->vectors;
    for (int n = columns; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) v[i] = add_neighbours(m, v[2 * i], v[2 * i + 1]);
    for (int n = m->block->lanes; n > columns; n /= 2) v[0] = add_neighbours(m, v[0], v[0]);
    LLVMValueRef order[64];
    for (int i = 0; i < columns; i++) order[i] = LLVMConstInt(emit_of(m)->i32, (unsigned)i, false);
    return LLVMBuildShuffleVector(emit_of(m)->b, v[0], v[0], LLVMConstVector(order, (unsigned)columns), "");
}

/* The lanes of each sum are added. */
static void put_along(const Micro *m) {
    const Emit *e = emit_of(m);
    LLVMValueRef keep = emit_splat(e, LLVMBuildIsNull(e->b, fresh(m), ""), m->block->vectors), v[BLOCK_VECTORS];
    LLVMTypeRef type = LLVMVectorType(e->f32, (unsigned)m->block->vectors);
    for (int i = 0; i < m->block->rows; i++) {
        LLVMValueRef p = c_vector(m, i, 0), old = emit_load_f32(e, type, p, keep);
        for (int n = 0; n < m->block->vectors; n++) v[n] = micro_get(m->block, m->block->sum[i][n]);
        emit_store_f32(e, LLVMBuildFAdd(e->b, sums(m, v), old, ""), p, NULL);
    }
}

/* Lanes of C that are there. */
static void put(const Micro *m) {
    const Emit *e = emit_of(m);
    LLVMValueRef mask[BLOCK_VECTORS], columns = m->arg[MICRO_COLUMNS];
    for (int v = 0; v < m->block->vectors && columns; v++)
        mask[v] = emit_lanes_below(e, LLVMBuildSub(e->b, columns, emit_i64(e, v * m->s->lanes), ""), m->block->lanes);
    micro_put(m->block, fresh(m), columns ? mask : NULL, c_vector, m);
}

/* ---- the function ------------------------------------------------------------------------------------------------ */
/* What is beyond the places that a block reads makes no difference: equal code is one function. */
static void normalize(MicroSide *s) {
    int64_t first, last;
    int64_t *const limit[] = {&s->sure, &s->sure_end, &s->may, &s->may_end};
    micro_places(s, &first, &last);
    for (int i = 0; i < 4; i++) *limit[i] = least(greatest(*limit[i], first), last + 1);
    if (s->sure >= s->sure_end) s->sure = s->sure_end = first;
}

/* All that the code depends on. */
static void describe(const MicroShape *s, const LLVMValueRef *arg, char *text, size_t room) {
    int64_t number[sizeof *s / sizeof(int64_t)];
    unsigned given = 0;
    for (int i = 0; i < MICRO_ARGS; i++) given |= (unsigned)(arg[i] != NULL) << i;
    memcpy(number, s, sizeof *s);
    int n = snprintf(text, room, "%x", given);
    for (size_t i = 0; i < sizeof *s / sizeof(int64_t); i++)
        if (number[i]) n += snprintf(text + n, room - (size_t)n, " %zu:%lld", i, (long long)number[i]);
    assert((size_t)n < room);
}

/* The function of that description; NULL: there is none yet, and that is a name for it. */
static LLVMValueRef find(const Emit *e, const char *kind, const MicroShape *s, const char *text, const char *key,
                         char *name, size_t room) {
    const long long rows = s->side[0].rows * s->side[1].rows, columns = s->vectors * (s->along ? 1 : s->lanes);
    for (int i = 0;; i++) {
        const int n = snprintf(name, room, "fusec.%s_%lldx%lld", kind, rows, columns);
        if (i) snprintf(name + n, room - (size_t)n, ".%d", i);
        LLVMValueRef fn = LLVMGetNamedFunction(e->module, name);
        if (!fn) return NULL;
        unsigned length;
        LLVMAttributeRef of = LLVMGetStringAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, key,
                                                            (unsigned)strlen(key));
        const char *is = of ? LLVMGetStringAttributeValue(of, &length) : NULL;
        if (is && length == strlen(text) && memcmp(is, text, length) == 0) return fn;
    }
}

static void body(Micro *m) {
    m->x = micro_variable(m->block, m->arg[MICRO_X]);
    m->y = micro_variable(m->block, m->arg[MICRO_Y]);
    if (m->arg[MICRO_PACKED]) m->packed = micro_variable(m->block, m->arg[MICRO_PACKED]);
    for (int i = 0; i < 2 && m->arg[MICRO_PLACES]; i++)
        m->place[i] = micro_variable(m->block, m->arg[MICRO_PLACES + i]);
    level(m, (int)m->s->levels - 1);
    if (m->s->along)
        put_along(m);
    else
        put(m);
}

static LLVMValueRef function(const Emit *e, const char *name, const MicroShape *s, LLVMValueRef *arg) {
    LLVMTypeRef params[MICRO_ARGS];
    MicroBlock block;
    Micro m = {.block = &block, .s = s};
    int n = 0;
    for (int i = 0; i < MICRO_ARGS; i++)
        if (arg[i]) params[n++] = LLVMTypeOf(arg[i]);
    const bool is_new = micro_begin(&block, e, name, n, params, (int)(s->side[0].rows * s->side[1].rows), (int)s->vectors, (int)s->lanes);
    assert(is_new);
    (void)is_new;
    n = 0;
    for (int i = 0; i < MICRO_ARGS; i++) m.arg[i] = arg[i] ? LLVMGetParam(block.fn, (unsigned)n++) : NULL;
    body(&m);
    micro_end(&block);
    return block.fn;
}

LLVMValueRef micro_product(const Emit *e, const char *kind, MicroShape s, LLVMValueRef *arg) {
    static const char key[] = "fusec-shape";
    char text[2048], name[96];
    LLVMValueRef given[MICRO_ARGS];
    int n = 0;
    for (int i = 0; i < MICRO_SIDES; i++) normalize(&s.side[i]);
    describe(&s, arg, text, sizeof text);
    LLVMValueRef fn = find(e, kind, &s, text, key, name, sizeof name);
    if (!fn) {
        fn = function(e, name, &s, arg);
        emit_fn_text_attribute(e, fn, key, text);
    }
    for (int i = 0; i < MICRO_ARGS; i++)
        if (arg[i]) given[n++] = arg[i];
    emit_call(e, fn, n, given);
    return fn;
}
