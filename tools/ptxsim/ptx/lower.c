/* Services of the lowering: operands to slots, constants to the pool, instructions to the code. */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/parse.h"
#include <string.h>

static const OpRow ROWS[] = {
#define OP(name, id, family, shape, mods, least, most) {name, lower_##family, OP_##id, shape, mods, least, most},
#include "tools/ptxsim/ptx/ptx_ops.def"
#undef OP
};

enum { FTZ_ON = 1, SAT_ON = 1, RELU_ON = 1, SATFINITE_ON = 1, NAN_ON = 1, CARRY_ON = 1, TO_ON = 1, NONCOHERENT_ON = 1,
       HINT_ON = 1, MMIO_ON = 1, NOFTZ_ON = 1, WARP_ON = 1, ALIGNED_ON = 1, UNIFORM_ON = 1, INDEXED_ON = 1,
       SHIFTAMT_ON = 1, TRANS_ON = 1, XORSIGN_ON = 1, ABS_ON = 1 };
static const struct { const char *text; uint8_t category, value; } MODS[] = {
#define MOD(text, category, value) {text, CAT_##category, category##_##value},
#include "tools/ptxsim/ptx/ptx_mods.def"
#undef MOD
};

const OpRow *op_find(const Token *t) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (token_is(t, ROWS[i].name)) return &ROWS[i];
    return NULL;
}

bool mod_find(const Token *t, uint64_t allowed, ModCategory *category, int *value) {
    for (size_t i = 0; i < sizeof MODS / sizeof *MODS; i++) {
        if (!(allowed >> MODS[i].category & 1) || !token_is(t, MODS[i].text)) continue;
        *category = (ModCategory)MODS[i].category;
        *value = MODS[i].value;
        return true;
    }
    return false;
}

bool mod_known(const Token *t) {
    ModCategory c;
    int v;
    return mod_find(t, UINT64_MAX, &c, &v);
}

const Raw *scalar_of(const Raw *r) {
    return r->kind == RAW_VECTOR && r->count == 1 && r->item[0].kind != RAW_SINK ? &r->item[0] : r;
}

void need_types(Parser *p, const Stmt *s, int count) {
    if (s->types != count)
        parse_fail(p, s->at, "'%s' takes %d type%s, not %d", s->row->name, count, count == 1 ? "" : "s", s->types);
}

/* ---- code and constants ------------------------------------------------------------------------------- */
Inst *emit(Parser *p, const Stmt *s, ExecFn run) {
    Function *f = p->fn;
    f->code = sim_grow(&p->module->arena, f->code, (size_t)f->count, &p->code_capacity, sizeof *f->code);
    if (f->count >= 1 << 24) parse_fail(p, s->at, "a function of more than %d instructions", 1 << 24);
    Inst *i = &f->code[f->count++];
    *i = (Inst){.run = alu_direct(run), .guard = s->guard, .line = s->at.line, .op = (uint8_t)s->row->op};
    i->type = (uint8_t)(s->types ? s->type[0] : T_NONE);
    i->type2 = (uint8_t)(s->types > 1 ? s->type[1] : T_NONE);
    i->round = s->mod[CAT_ROUND];
    mix_find(s->row->name, &i->mix, &i->flops);
    return i;
}

Operand pool_constant_fresh(Parser *p, int bytes) {
    Function *f = p->fn;
    const size_t size = bytes ? (size_t)bytes * WARP : 4, at = (f->pool_bytes + 63) / 64 * 64;
    f->pool = sim_grow(&p->module->arena, f->pool, at + size, &p->pool_capacity, 1);
    f->pool_bytes = at + size;
    return (Operand){.offset = (uint32_t)at, .base = BASE_POOL, .bytes = (uint8_t)bytes};
}

Operand pool_constant(Parser *p, uint64_t bits, int bytes) {
    if (bytes && bytes < 8) bits &= (UINT64_C(1) << (8 * bytes)) - 1;
    if (!bytes) bits = bits & 1 ? UINT32_MAX : 0;
    const uint64_t h = (bits * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)bytes) >> 54;
    const uint32_t known = p->hash_slot[h];
    const int stored = bytes ? bytes : 4;
    if (known && p->hash_bytes[h] == bytes && !memcmp(p->fn->pool + known - 1, &bits, (size_t)stored))
        return (Operand){.offset = known - 1, .base = BASE_POOL, .bytes = (uint8_t)bytes};
    const Operand o = pool_constant_fresh(p, bytes);
    for (int l = 0; l < (bytes ? WARP : 1); l++) memcpy(p->fn->pool + o.offset + l * stored, &bits, (size_t)stored);
    p->hash_slot[h] = o.offset + 1;
    p->hash_bytes[h] = (uint8_t)bytes;
    return o;
}

Operand scratch(Parser *p, int bytes) {
    return (Operand){.offset = register_new(p, bytes), .base = BASE_REGS, .bytes = (uint8_t)bytes};
}

/* ---- special registers -------------------------------------------------------------------------------- */
static Operand special_slot(Parser *p, Special id, uint32_t offset, int bytes) {
    Function *f = p->fn;
    for (int k = 0; k < f->special_count; k++)
        if (f->special[k].id == id && f->special[k].offset == offset && f->special[k].bytes == bytes)
            return (Operand){.offset = f->special[k].slot, .base = BASE_REGS, .bytes = (uint8_t)bytes};
    const Operand o = scratch(p, bytes);
    f->special = sim_grow(&p->module->arena, f->special, (size_t)f->special_count, &p->special_capacity,
                          sizeof *f->special);
    f->special[f->special_count++] = (SpecialSlot){.id = id, .slot = o.offset, .bytes = (uint8_t)bytes,
                                                       .offset = offset};
    return o;
}

static bool changes_while_running(Special s) {
    return s == SR_CLOCK || s == SR_CLOCK_HI || s == SR_CLOCK64 || s == SR_GLOBALTIMER || s == SR_GLOBALTIMER_LO ||
           s == SR_GLOBALTIMER_HI;
}

static Operand special_source(Parser *p, const Stmt *s, const Raw *r) {
    const int bytes = type_bytes(r->type);
    if (!changes_while_running(r->special)) return special_slot(p, r->special, 0, bytes);
    Inst *i = emit(p, s, exec_special);
    i->d = scratch(p, bytes);
    i->op = (uint8_t)r->special;
    i->hidden = true;
    return i->d;
}

/* ---- operands ----------------------------------------------------------------------------------------- */
/* The address of a variable, as a value of `bytes`: constant, but for local memory, which moves with the frame. */
static Operand variable_address(Parser *p, const Raw *r, int bytes) {
    Variable *v = r->var;
    if (bytes != 4 && bytes != 8) parse_fail(p, r->at, "the address of '%s' needs 32 or 64 bits", v->name);
    if (v->space == SPACE_LOCAL)
        return special_slot(p, SR_LOCAL_ADDRESS, (uint32_t)(v->address + (uint64_t)r->offset), bytes);
    if (v->space == SPACE_SHARED) {
        bool dynamic;
        const uint64_t offset = shared_offset(p, v, &dynamic);
        if (dynamic) return shared_dynamic(p, v, r->offset, bytes);
        return pool_constant(p, offset + (uint64_t)r->offset, bytes);
    }
    return pool_constant(p, v->address + (uint64_t)r->offset, bytes);
}

static uint64_t float_bits(const Raw *r, PtxType t) {
    double d;
    float f;
    uint64_t bits = r->bits;
    if (r->kind == RAW_F64 && t == T_F32) {
        memcpy(&d, &r->bits, sizeof d);
        f = (float)d;
        bits = 0;
        memcpy(&bits, &f, sizeof f);
    } else if (r->kind == RAW_F32 && t == T_F64) {
        memcpy(&f, &r->bits, sizeof f);
        d = f;
        memcpy(&bits, &d, sizeof d);
    }
    return bits;
}

static Operand constant_source(Parser *p, const Raw *r, PtxType t) {
    const int bytes = type_bytes(t);
    const bool bits_type = !type_is_float(t);
    if (t == T_B128) parse_fail(p, r->at, "no constants of type .b128");
    if (r->kind == RAW_INT && type_is_float(t)) parse_fail(p, r->at, "an integer where .%s is expected", type_text(t));
    if (r->kind == RAW_F32 && bits_type && bytes != 4) parse_fail(p, r->at, "a .f32 where .%s is expected", type_text(t));
    if (r->kind == RAW_F64 && bits_type && bytes != 8) parse_fail(p, r->at, "a .f64 where .%s is expected", type_text(t));
    if (type_is_float(t) && t != T_F32 && t != T_F64) parse_fail(p, r->at, "no constants of type .%s", type_text(t));
    return pool_constant(p, r->kind == RAW_INT ? r->bits : float_bits(r, t), bytes);
}

static void check_width(Parser *p, const Raw *r, PtxType t, bool wider) {
    const int have = r->slot.bytes, want = type_bytes(t);
    const bool predicate = (r->type == T_PRED) != (t == T_PRED);
    if (predicate || (have != want && !(wider && have > want && have <= 8)))
        parse_fail(p, r->at, "'%.*s' is a .%s register where .%s is expected", (int)r->at.length, r->at.text,
                   type_text(r->type), type_text(t));
}

static Operand source_of(Parser *p, const Stmt *s, const Raw *r, PtxType t, bool wider) {
    if (r->second) parse_fail(p, r->at, "'|' joins results, not sources");
    if (r->negated && t != T_PRED) parse_fail(p, r->at, "'!' stands before predicates only");
    Operand o;
    switch (r->kind) {
    case RAW_REG:
        check_width(p, r, t, wider);
        o = r->slot;
        o.negated = r->negated;
        return o;
    case RAW_SPECIAL:
        if (type_bytes(r->type) == type_bytes(t)) return special_source(p, s, r);
        parse_fail(p, r->at, "'%.*s' is a .%s, .%s is expected", (int)r->at.length, r->at.text, type_text(r->type),
                   type_text(t));
    case RAW_INT:
        if (t == T_B128) return constant_source(p, r, t);
        o = pool_constant(p, r->bits, type_bytes(t));
        if (!type_is_float(t)) {
            o.negated = r->negated;
            return o;
        }
        return constant_source(p, r, t);
    case RAW_F32:
    case RAW_F64: return constant_source(p, r, t);
    case RAW_VAR: return variable_address(p, r, type_bytes(t));
    case RAW_NAME:
        if (function_named(p, &r->at)) parse_fail(p, r->at, "addresses of functions are not supported: call it by its name");
        parse_fail(p, r->at, "unknown name '%.*s'", (int)r->at.length, r->at.text);
    default: parse_fail(p, r->at, "expected a register or constant");
    }
}

Operand source(Parser *p, const Stmt *s, const Raw *r, PtxType t) { return source_of(p, s, r, t, false); }
Operand source_any_width(Parser *p, const Stmt *s, const Raw *r, PtxType t) { return source_of(p, s, r, t, true); }
Operand predicate_source(Parser *p, const Stmt *s, const Raw *r) { return source_of(p, s, r, T_PRED, false); }

static Operand destination_of(Parser *p, const Raw *r, PtxType t, bool wider) {
    if (r->kind == RAW_SINK) return scratch(p, type_bytes(t));
    if (r->kind != RAW_REG || r->negated) parse_fail(p, r->at, "expected a register for the result");
    check_width(p, r, t, wider);
    return r->slot;
}

Operand destination(Parser *p, const Stmt *s, const Raw *r, PtxType t) {
    (void)s;
    return destination_of(p, r, t, false);
}
Operand destination_any_width(Parser *p, const Raw *r, PtxType t) { return destination_of(p, r, t, true); }

/* [register + offset], [variable + offset], [constant] */
void address(Parser *p, const Stmt *s, const Raw *r, Inst *i) {
    if (r->kind != RAW_ADDRESS) parse_fail(p, r->at, "expected an address in brackets");
    const Raw *base = &r->item[0];
    if (r->second) parse_fail(p, r->second->at, "coordinates belong to tensor copies");
    if (base->kind == RAW_SPECIAL) parse_fail(p, base->at, "a special register is no address");
    if (base->kind == RAW_REG && (base->type == T_PRED || base->slot.bytes < 4))
        parse_fail(p, base->at, "an address register has 32 or 64 bits");
    const PtxType t = base->kind == RAW_REG ? base->type : T_U64;
    const Operand a = base->kind == RAW_REG ? base->slot : source(p, s, base, t == T_PRED ? T_U64 : t);
    i->a = a;
    i->offset = r->offset;
}

void pending_add(Parser *p, Token name, int32_t inst, int32_t *where) {
    Pending *w = sim_alloc(&p->module->arena, sizeof *w);
    *w = (Pending){.name = name, .inst = inst, .depth = p->depth, .where = where, .next = p->pending};
    p->pending = w;
}
