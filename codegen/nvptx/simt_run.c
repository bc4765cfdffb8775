/* Straight runs of instructions that work element by element on one large tile: a group of registers goes through all
 * of them before the next group begins, so that what lies between a product and its store is never there for the whole
 * tile at once.  A group holds neighbours along the tile's last axis and all that the others have: of a value along the
 * last axis alone, such as a bias, only a few elements are there at a time. */
#include "codegen/nvptx/simt.h"
#include <string.h>

enum {
    GROUP = 16,        /* registers: as many loads may be under way */
    LEAST_GROUP = 4,
    FOUR_MATRICES = 8, /* what one stmatrix stores */
    REGISTERS = 168    /* of a thread, addresses and what else a kernel needs not counted */
};

static bool same_axes(const TileType *x, const TileType *y) {
    return x->n_axes == y->n_axes && memcmp(x->axis, y->axis, sizeof *x->axis * (size_t)x->n_axes) == 0;
}

static bool is_part(const TileType *x, const TileType *of) {
    const TileType both = tile_type_union(*of, *x);
    return both.n_axes == of->n_axes;
}

/* What is loaded of a buffer that is, or may be, this one is what the store overwrites, in the same thread and group. */
static bool reads_in_groups(const Simt *s, const Inst *store, const Inst *const *member, int n) {
    for (int v = 0; v < s->k->types.n; v++) {
        const Inst *load = s->def[v];
        if (!load || !simt_loads_old(s, load, store->buffer)) continue;
        bool found = false;
        for (int m = 0; m < n; m++) found |= member[m] == load;
        if (!found || !simt_same_thread(s, load, store)) return false;
    }
    return true;
}

static bool leaves(const Inst *i) { return i->kind == TI_STAGE || i->kind == TI_STORE || i->kind == TI_REDUCE; }

/* Can be done group by group: fills a tile in shared memory from registers, sums it, or writes what no other group reads. */
static bool leaves_in_groups(const Simt *s, const Inst *i, const TileType *t, const Inst *const *member, int n) {
    if (i->kind == TI_REDUCE) return same_axes(&s->k->types.at[i->in[0]], t);
    if (i->kind == TI_STAGE) return s->dynamic && i->by == BY_NONE && !s->only[i->in[0]] && same_axes(&i->type, t);
    if (i->kind != TI_STORE || i->by != BY_NONE) return false;
    const TileType axes = simt_store_axes(s, i);
    return same_axes(&axes, t) && (!simt_reads_old(s, i->buffer) || reads_in_groups(s, i, member, n));
}

/* The instructions from `from` on that go together, all on tile t or a part of it. */
static int collect(Simt *s, const Block *b, int from, int to, const TileType *t, const Inst **member, int *n) {
    int at = from;
    for (; at < to; at++) {
        const Inst *i = b->at[at];
        if (!leaves(i) && s->only[i->result]) continue;
        if (leaves(i) ? !leaves_in_groups(s, i, t, member, *n) : !is_part(&i->type, t)) break;
        member[(*n)++] = i;
    }
    return at;
}

static void begin(Simt *s, const Inst *i) {
    if (i->kind == TI_STAGE)
        stage_begin(s, i);
    else if (i->kind == TI_REDUCE)
        simt_reduce_begin(s, i);
    else if (i->kind != TI_STORE)
        s->reg[i->result] = ARENA_ARRAY(s->arena, LLVMValueRef, simt_slots(s, &i->type));
}

/* Of the instruction's registers those that the group's are made from, if they are not there yet. */
static void evaluate(Simt *s, const Inst *i, const TileType *t, const int *slot, int n) {
    for (int g = 0; g < n; g++) {
        Coords c = {0};
        simt_coords(s, t, slot[g], &c);
        const int own = simt_slot(s, &i->type, &c);
        if (!s->reg[i->result][own]) simt_evaluate_slot(s, i, own);
    }
}

static void one_group(Simt *s, const TileType *t, const Inst *const *member, int n, const int *slot, int count) {
    for (int m = 0; m < n; m++) {
        if (member[m]->kind == TI_STAGE)
            stage_registers(s, member[m], slot, count);
        else if (member[m]->kind == TI_REDUCE)
            simt_reduce_slots(s, member[m], slot, count);
        else if (member[m]->kind == TI_STORE)
            simt_store_slots(s, member[m], slot, count);
        else
            evaluate(s, member[m], t, slot, count);
    }
}

/* Is the value needed by a member after number `at`? */
static bool needed_after(const Inst *const *member, int n, int at, int value) {
    for (int m = at + 1; m < n; m++)
        for (int k = 0; k < member[m]->n_in; k++)
            if (member[m]->in[k] == value) return true;
    return false;
}

/* The most values of the tile's type that are needed at one time while a group is taken through. */
static int most_alive(const TileType *t, const Inst *const *member, int n) {
    int most = 0;
    for (int at = 0; at < n; at++) {
        int alive = 0;
        for (int v = 0; v <= at; v++) {
            const Inst *i = member[v];
            const bool value = i->kind == TI_LOAD || i->kind == TI_ELEMENT || i->kind == TI_INDEX;
            alive += value && same_axes(&i->type, t) && (v == at || needed_after(member, n, at, i->result));
        }
        if (alive > most) most = alive;
    }
    return most;
}

/* Loads of a part of the tile, such as biases: all that a group needs are under way at once. */
static int loads_of_parts(const TileType *t, const Inst *const *member, int n) {
    int loads = 0;
    for (int m = 0; m < n; m++)
        loads += member[m]->kind == TI_LOAD && member[m]->type.n_axes && !same_axes(&member[m]->type, t);
    return loads;
}

/* Registers of sums that grow from group to group; those along the last axis take the place of what they are made from, but
 * the first group's. */
static int sums_alive(const Simt *s, const TileType *t, const Inst *const *member, int n) {
    const TileType last = {.n_axes = 1, .axis = {t->axis[t->n_axes - 1]}};
    int alive = 0;
    for (int m = 0; m < n; m++) alive |= member[m]->kind == TI_REDUCE ? GROUP : 0;
    for (int m = 0; m < n; m++)
        if (member[m]->kind == TI_REDUCE && !is_part(&last, &member[m]->type)) alive += simt_slots(s, &member[m]->type);
    return alive;
}

/* A group: `width` neighbours along the tile's last axis, and one of `parts` parts of what the others have. */
typedef struct Group {
    int width, parts;
} Group;

/* Of what a group is made from there has to be room beside the whole tile. */
static Group group_of(const Simt *s, const TileType *t, const Inst *const *member, int n, bool matrices) {
    const AxisSpread *last = &s->axis[t->axis[t->n_axes - 1]];
    const int slots = simt_slots(s, t), rows = slots / last->regs, room = REGISTERS - slots - sums_alive(s, t, member, n);
    const int least = matrices ? FOUR_MATRICES : last->vector < last->regs ? last->vector : last->regs;
    const int whole = most_alive(t, member, n), part = loads_of_parts(t, member, n);
    Group g = {least < last->regs ? least : last->regs, 1};
    while (g.width * rows < GROUP && last->regs % (2 * g.width) == 0) g.width *= 2;
    while (g.width * rows / g.parts > LEAST_GROUP && g.width * (rows / g.parts * whole + part) > room) {
        if (g.width % 2 == 0 && g.width / 2 >= least) g.width /= 2;
        else if (rows / g.parts % 2 == 0) g.parts *= 2;
        else break;
    }
    return g;
}

/* The group's slots: columns [from, from + width) of the last axis, of part `part` of the others. */
static int slots_of(int rows, int along, const Group *g, int from, int part, int *slot) {
    int count = 0;
    for (int row = part * rows / g->parts; row < (part + 1) * rows / g->parts; row++)
        for (int at = from; at < from + g->width; at++) slot[count++] = row * along + at;
    return count;
}

static bool computes_functions(const Inst *const *member, int n) {
    for (int m = 0; m < n; m++)
        if (member[m]->kind == TI_ELEMENT && op_is_expensive(member[m]->op)) return true;
    return false;
}

/* Where there is little room, and functions for loads to be moved in front of, ptxas runs out of registers: it moves nothing
 * across a barrier. */
static bool kept_apart(const Group *g, int rows, const Inst *const *member, int n) {
    return g->width * rows / g->parts < GROUP && computes_functions(member, n);
}

static void in_groups(Simt *s, const TileType *t, const Inst *const *member, int n) {
    const int slots = simt_slots(s, t), along = s->axis[t->axis[t->n_axes - 1]].regs;
    int *slot = ARENA_ARRAY(s->arena, int, slots);
    bool stages = false;
    for (int m = 0; m < n; m++) begin(s, member[m]), stages |= member[m]->kind == TI_STAGE;
    const Group g = group_of(s, t, member, n, stages && s->hopper);
    const SimtThread before = simt_thread_again(s);
    s->in_group = stages;
    const bool apart = kept_apart(&g, slots / along, member, n);
    for (int from = 0; from < along; from += g.width)
        for (int part = 0; part < g.parts; part++) {
            one_group(s, t, member, n, slot, slots_of(slots / along, along, &g, from, part, slot));
            if (apart) simt_asm(s->e, s->e->none, "bar.warp.sync -1;", "", 0, NULL);
        }
    if (stages) s->shared_read = s->shared_written = true;
    s->in_group = false;
    simt_thread_back(s, &before);
    for (int m = 0; m < n; m++)
        if (member[m]->kind == TI_REDUCE) simt_reduce_end(s, member[m]);
}

/* Tiles that are summed go in groups however small: with a sum before the first rounded value is stored, ptxas lets no wgmma
 * overlap (C7514). */
static bool sums(const Block *b, int from, int to) {
    bool found = false;
    for (int at = from; at < to; at++) found |= b->at[at]->kind == TI_REDUCE;
    return found;
}

void simt_run(Simt *s, const Block *b, int from, int to) {
    const Inst **member = ARENA_ARRAY(s->arena, const Inst *, to - from + 1);
    while (from < to) {
        const Inst *i = b->at[from];
        int n = 0, largest = from;
        for (int at = from; at < to; at++) {
            const Inst *j = b->at[at];
            if (leaves(j) || s->only[j->result] ||
                !is_part(&b->at[largest]->type, &j->type))
                continue;
            largest = at;
        }
        const TileType *t = &b->at[largest]->type;
        if (leaves(i) || (simt_slots(s, t) <= GROUP && !sums(b, from, to)) || !is_part(&i->type, t)) {
            simt_instruction(s, i);
            from++;
            continue;
        }
        from = collect(s, b, from, to, t, member, &n);
        if (n) in_groups(s, t, member, n);
    }
}
