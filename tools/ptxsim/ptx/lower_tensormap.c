/* Tensor maps that a kernel changes.  Grammar: PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy". */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/words.h"

/* `ordinals`: of the dimensions; 0: the field has one value.  `values`: the value is an immediate below it; 0: any. */
static const struct {
    const char *word;
    uint8_t ordinals, values;
    PtxType type;
} FIELDS[MAP_FIELDS] = {
    [MAP_ADDRESS] = {"global_address", 0, 0, T_B64},  [MAP_RANK] = {"rank", 0, 0, T_B32},
    [MAP_BOX] = {"box_dim", 5, 0, T_B32},             [MAP_DIM] = {"global_dim", 5, 0, T_B32},
    [MAP_STRIDE] = {"global_stride", 4, 0, T_B64},    [MAP_ELEMENT_STRIDE] = {"element_stride", 5, 0, T_B32},
    [MAP_TYPE] = {"elemtype", 0, 13, T_B32},          [MAP_INTERLEAVE] = {"interleave_layout", 0, 3, T_B32},
    [MAP_SWIZZLE] = {"swizzle_mode", 0, 4, T_B32},    [MAP_FILL] = {"fill_mode", 0, 2, T_B32}};

static uint64_t immediate(Parser *p, const Stmt *s, int k, uint64_t below, const char *what) {
    const Raw *r = operand_at(p, s, k);
    if (r->kind != RAW_INT || r->bits >= below)
        parse_fail(p, r->at, "the %s is a constant from 0 to %d", what, (int)below - 1);
    return r->bits;
}

static int take_field(Parser *p, Words *w) {
    for (int f = 0; f < MAP_FIELDS; f++)
        if (word_take(w, FIELDS[f].word)) return f;
    word_need(p, w, "a field");
    return 0;
}

/* tensormap.replace.tile.field{.global, .shared::cta}.b1024.type [map], {dimension,} value */
void lower_map_replace(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    need_target(p, s, 90);
    need_version(p, s, 83);
    if (!p->module->specific) parse_fail(p, s->at, "'%s' needs .target sm_90a", s->row->name);
    word_need(p, &w, "tile");
    const int field = take_field(p, &w);
    const Space space = word_space(&w);
    word_need(p, &w, "b1024");
    word_need(p, &w, type_text(FIELDS[field].type));
    const int value = FIELDS[field].ordinals ? 2 : 1;
    words_end(p, &w, value + 1);
    const uint64_t dimension = value == 2 ? immediate(p, s, 1, FIELDS[field].ordinals, "dimension") : 0;
    if (FIELDS[field].values) immediate(p, s, value, FIELDS[field].values, FIELDS[field].word);
    Inst where = {0};
    address(p, s, &s->operand[0], &where);
    const Operand b = source(p, s, &s->operand[value], FIELDS[field].type);
    Inst *i = emit(p, s, exec_map_replace);
    i->a = where.a;
    i->offset = where.offset;
    i->b = b;
    i->op = (uint8_t)field;
    i->op2 = (uint8_t)dimension;
    i->space = (uint8_t)space;
    i->kind = CLASS_MEMORY;
}

/* tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [to], [from], 128 */
void lower_map_copy(Parser *p, const Stmt *s) {
    static const char *const SCOPES[] = {"cta", "cluster", "gpu", "sys"}, *const BEFORE[] = {"global", "shared::cta",
                                                                                     "tensormap::generic", "release"};
    Words w = {.stmt = s};
    need_target(p, s, 90);
    for (int k = 0; k < 4; k++) word_need(p, &w, BEFORE[k]);
    const int scope = word_choose(&w, SCOPES, 4);
    if (scope < 0) word_need(p, &w, "a scope");
    word_need(p, &w, "sync");
    word_need(p, &w, "aligned");
    words_end(p, &w, 3);
    const Raw *size = &s->operand[2];
    if (size->kind != RAW_INT || size->bits != 128) parse_fail(p, size->at, "the size is 128");
    const MapCopyForm f = {.to = pointer(p, s, &s->operand[0], SPACE_GLOBAL),
                           .from = pointer(p, s, &s->operand[1], SPACE_SHARED),
                           .scope = (uint8_t)(SCOPE_CTA + scope)};
    Inst *i = emit(p, s, exec_map_copy);
    i->more = keep_form(p, &f, sizeof f);
    i->kind = CLASS_MEMORY;
    p->fn->global_atomics = true; /* other blocks may take it from there */
}
