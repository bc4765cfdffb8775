/* Straight runs of instructions that work element by element on one large tile: a group of registers goes through all
 * of them before the next group begins, so that what lies between a product and its store is never there for the whole
 * tile at once. */
#include "codegen/nvptx/simt.h"
#include <string.h>

enum { GROUP = 16 }; /* registers: as many loads may be under way */

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

/* The instructions from `from` on that go together: those on tile t are kept in `member`; smaller ones are done here. */
static int collect(Simt *s, const Block *b, int from, int to, const TileType *t, const Inst **member, int *n) {
    int at = from;
    for (; at < to; at++) {
        const Inst *i = b->at[at];
        if (i->kind == TI_STAGE || i->kind == TI_STORE) break;
        if (s->only[i->result]) continue;
        if (same_axes(&i->type, t)) member[(*n)++] = i;
        else if (is_part(&i->type, t) && simt_slots(s, &i->type) <= GROUP) simt_eager(s, i);
        else break;
    }
    if (at < to && ends_in_groups(s, b->at[at], t)) member[(*n)++] = b->at[at++];
    return at;
}

static void begin(Simt *s, const Inst *i) {
    if (i->kind == TI_STAGE) stage_begin(s, i);
    else if (i->kind != TI_STORE) s->reg[i->result] = ARENA_ARRAY(s->arena, LLVMValueRef, simt_slots(s, &i->type));
}

static void in_groups(Simt *s, const TileType *t, const Inst *const *member, int n) {
    const int slots = simt_slots(s, t);
    for (int m = 0; m < n; m++) begin(s, member[m]);
    s->in_group = member[n - 1]->kind == TI_STAGE;
    for (int from = 0; from < slots; from += GROUP) {
        const int to = from + GROUP < slots ? from + GROUP : slots;
        for (int m = 0; m < n; m++) {
            if (member[m]->kind == TI_STAGE) stage_registers(s, member[m], from, to);
            else if (member[m]->kind == TI_STORE) simt_store_slots(s, member[m], from, to);
            else simt_evaluate_slots(s, member[m], from, to);
        }
    }
    if (s->in_group) s->shared_read = s->shared_written = true;
    s->in_group = false;
}

void simt_run(Simt *s, const Block *b, int from, int to) {
    const Inst **member = ARENA_ARRAY(s->arena, const Inst *, to - from + 1);
    while (from < to) {
        const Inst *i = b->at[from];
        int n = 0;
        if (i->kind == TI_STAGE || i->kind == TI_STORE || s->only[i->result] || simt_slots(s, &i->type) <= GROUP) {
            simt_instruction(s, i);
            from++;
            continue;
        }
        from = collect(s, b, from, to, &i->type, member, &n);
        in_groups(s, &i->type, member, n);
    }
}
