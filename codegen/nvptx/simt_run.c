/* Straight runs of instructions that work element by element on one large tile: a group of registers goes through all
 * of them before the next group begins, so that what lies between a product and its store is never there for the whole
 * tile at once.  A group holds neighbours along the tile's last axis and all that the others have: of a value along the
 * last axis alone, such as a bias, only a few elements are there at a time. */
#include "codegen/nvptx/simt.h"
#include <string.h>

enum { GROUP = 16, FOUR_MATRICES = 8 }; /* registers: as many loads may be under way; what one stmatrix stores */

static bool same_axes(const TileType *x, const TileType *y) {
    return x->n_axes == y->n_axes && memcmp(x->axis, y->axis, sizeof *x->axis * (size_t)x->n_axes) == 0;
}

static bool is_part(const TileType *x, const TileType *of) {
    const TileType both = tile_type_union(*of, *x);
    return both.n_axes == of->n_axes;
}

/* Can be done group by group: fills a tile in shared memory from registers, or writes what the kernel does not read. */
static bool ends_in_groups(const Simt *s, const Inst *i, const TileType *t) {
    if (i->kind == TI_STAGE) return s->dynamic && i->by == BY_NONE && !s->only[i->in[0]] && same_axes(&i->type, t);
    if (i->kind != TI_STORE || i->by != BY_NONE) return false;
    const TileType axes = simt_store_axes(s, i);
    return same_axes(&axes, t) && !simt_reads_old(s, i->buffer);
}

/* The instructions from `from` on that go together, all on tile t or a part of it. */
static int collect(Simt *s, const Block *b, int from, int to, const TileType *t, const Inst **member, int *n) {
    int at = from;
    for (; at < to; at++) {
        const Inst *i = b->at[at];
        if (i->kind == TI_STAGE || i->kind == TI_STORE) break;
        if (s->only[i->result]) continue;
        if (!is_part(&i->type, t)) break;
        member[(*n)++] = i;
    }
    if (at < to && ends_in_groups(s, b->at[at], t)) member[(*n)++] = b->at[at++];
    return at;
}

static void begin(Simt *s, const Inst *i) {
    if (i->kind == TI_STAGE)
        stage_begin(s, i);
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
        else if (member[m]->kind == TI_STORE)
            simt_store_slots(s, member[m], slot, count);
        else
            evaluate(s, member[m], t, slot, count);
    }
}

static void in_groups(Simt *s, const TileType *t, const Inst *const *member, int n) {
    const int slots = simt_slots(s, t), along = s->axis[t->axis[t->n_axes - 1]].regs,
              vector = s->axis[t->axis[t->n_axes - 1]].vector;
    int width = vector < along ? vector : along, *slot = ARENA_ARRAY(s->arena, int, slots);
    while ((width * (slots / along) < GROUP || (s->hopper && width < FOUR_MATRICES)) && along % (2 * width) == 0)
        width *= 2;
    for (int m = 0; m < n; m++) begin(s, member[m]);
    s->in_group = member[n - 1]->kind == TI_STAGE;
    for (int from = 0; from < along; from += width) {
        int count = 0;
        for (int at = 0; at < slots; at++)
            if (at % along >= from && at % along < from + width) slot[count++] = at;
        one_group(s, t, member, n, slot, count);
    }
    if (s->in_group) s->shared_read = s->shared_written = true;
    s->in_group = false;
}

void simt_run(Simt *s, const Block *b, int from, int to) {
    const Inst **member = ARENA_ARRAY(s->arena, const Inst *, to - from + 1);
    while (from < to) {
        const Inst *i = b->at[from];
        int n = 0, largest = from;
        for (int at = from; at < to; at++) {
            const Inst *j = b->at[at];
            if (j->kind == TI_STAGE || j->kind == TI_STORE || s->only[j->result] ||
                !is_part(&b->at[largest]->type, &j->type))
                continue;
            largest = at;
        }
        const TileType *t = &b->at[largest]->type;
        if (i->kind == TI_STAGE || i->kind == TI_STORE || simt_slots(s, t) <= GROUP || !is_part(&i->type, t)) {
            simt_instruction(s, i);
            from++;
            continue;
        }
        from = collect(s, b, from, to, t, member, &n);
        if (n) in_groups(s, t, member, n);
    }
}
