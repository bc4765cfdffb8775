/* Registers, variables of every space with their initialisers, and formal parameters. */
#include "tools/ptxsim/ptx/parse.h"
#include <string.h>

enum { MAX_REGISTERS = 1 << 20 };
#define MAX_VARIABLE_BYTES (UINT64_C(1) << 40)

/* Offsets of the shared variables that one function uses. */
struct SharedUse {
    Variable *var;
    uint64_t offset;
    struct SharedUse *next;
};
struct DynamicUse {
    size_t pool_offset;
    int bytes;
    int64_t addend;
    struct DynamicUse *next;
};

static Token parse_name(Parser *p) {
    if (p->tok.kind != TOK_WORD) parse_fail(p, p->tok, "expected a name");
    const Token name = p->tok;
    parse_next(p);
    return name;
}

static PtxType parse_type(Parser *p) {
    const PtxType t = p->tok.kind == TOK_DOT ? type_of_token(&p->tok) : T_NONE;
    if (t == T_NONE) parse_fail(p, p->tok, "expected a type before '%.*s'", (int)p->tok.length, p->tok.text);
    parse_next(p);
    return t;
}

static uint64_t align_up(uint64_t v, uint64_t a) { return (v + a - 1) / a * a; }

uint32_t register_new(Parser *p, int bytes) {
    Function *f = p->fn;
    const uint32_t size = bytes ? (uint32_t)bytes * WARP : (uint32_t)sizeof(uint32_t);
    f->register_bytes = (uint32_t)align_up(f->register_bytes, bytes ? 64 : 4);
    const uint32_t at = f->register_bytes;
    f->register_bytes += size;
    if (++f->register_count > MAX_REGISTERS) parse_fail(p, p->tok, "more than %d registers", MAX_REGISTERS);
    return at;
}

static void parse_register(Parser *p, PtxType type) {
    const Token name = parse_name(p);
    Symbol *s = symbol_add(p, name, SYM_REG);
    s->type = type;
    if (!parse_accept(p, '<')) {
        s->slot = register_new(p, type_bytes(type));
        return;
    }
    const Token at = p->tok;
    const int64_t many = parse_integer(p);
    parse_expect(p, '>');
    if (many < 1 || many > MAX_REGISTERS) parse_fail(p, at, "a register set of %lld", (long long)many);
    s->kind = SYM_REGS;
    s->many = (uint32_t)many;
    s->slot = register_new(p, type_bytes(type));
    for (int64_t i = 1; i < many; i++) register_new(p, type_bytes(type));
}

void parse_registers(Parser *p) {
    const PtxType type = parse_type(p);
    do parse_register(p, type);
    while (parse_accept(p, ','));
    parse_expect(p, ';');
}

/* ---- variables ---------------------------------------------------------------------------------------- */
typedef struct Declaration {
    uint32_t align;
    int vector;
    PtxType type;
    Token name;
    uint64_t elements;
    bool unsized, array;
} Declaration;

static uint32_t parse_align(Parser *p) {
    const Token at = p->tok;
    const int64_t a = parse_integer(p);
    if (a < 1 || a > 1 << 16 || (a & (a - 1))) parse_fail(p, at, "an alignment is a power of two");
    return (uint32_t)a;
}

/* .align N .attribute(...) .v2 .ptr .space and the type, in any order that compilers write */
static void parse_prefix(Parser *p, Declaration *d) {
    while (p->tok.kind == TOK_DOT && type_of_token(&p->tok) == T_NONE) {
        const Token at = p->tok;
        parse_next(p);
        if (token_is(&at, "align")) {
            d->align = parse_align(p);
        } else if (token_is(&at, "v2") || token_is(&at, "v4")) {
            d->vector = at.text[1] - '0';
        } else if (token_is(&at, "attribute")) {
            parse_expect(p, '(');
            if (p->tok.kind != TOK_DOT || !token_is(&p->tok, "managed"))
                parse_fail(p, p->tok, "unknown attribute '%.*s'", (int)p->tok.length, p->tok.text);
            parse_next(p);
            parse_expect(p, ')');
        } else {
            parse_fail(p, at, "unknown word '.%.*s' in a declaration", (int)at.length, at.text);
        }
    }
    d->type = parse_type(p);
    if (d->type == T_PRED) parse_fail(p, p->tok, "predicates exist in registers only");
}

/* .ptr .global .align 16, after the type of an entry parameter */
static void parse_pointer_attributes(Parser *p) {
    if (p->tok.kind != TOK_DOT || !token_is(&p->tok, "ptr")) return;
    parse_next(p);
    while (p->tok.kind == TOK_DOT) {
        const Token at = p->tok;
        parse_next(p);
        if (token_is(&at, "align")) parse_align(p);
        else if (!token_is(&at, "global") && !token_is(&at, "shared") && !token_is(&at, "local") &&
                 !token_is(&at, "const"))
            parse_fail(p, at, "unknown pointer attribute '.%.*s'", (int)at.length, at.text);
    }
}

static void parse_extents(Parser *p, Declaration *d) {
    d->elements = (uint64_t)d->vector;
    while (parse_accept(p, '[')) {
        d->array = true;
        if (parse_is(p, ']') && !d->unsized) {
            d->unsized = true;
        } else {
            const Token at = p->tok;
            const int64_t n = parse_integer(p);
            if (n < 0 || (uint64_t)n > MAX_VARIABLE_BYTES || d->elements * (uint64_t)n > MAX_VARIABLE_BYTES)
                parse_fail(p, at, "an array of %lld elements is too large", (long long)n);
            d->elements *= (uint64_t)n;
        }
        parse_expect(p, ']');
    }
}

static Declaration parse_declaration(Parser *p, bool parameter) {
    Declaration d = {.vector = 1};
    parse_prefix(p, &d);
    if (parameter) parse_pointer_attributes(p);
    d.name = parse_name(p);
    parse_extents(p, &d);
    const uint32_t natural = (uint32_t)(type_bytes(d.type) * d.vector);
    if (d.align < natural && d.align) parse_fail(p, d.name, "alignment %u is below the type's %u", d.align, natural);
    if (!d.align) d.align = natural;
    return d;
}

static Variable *variable_new(Parser *p, const Declaration *d, Space space) {
    Variable *v = sim_alloc(&p->module->arena, sizeof *v);
    v->name = sim_strndup(&p->module->arena, d->name.text, d->name.length);
    v->space = space;
    v->align = d->align;
    v->bytes = d->unsized ? 0 : d->elements * (uint64_t)type_bytes(d->type);
    v->dynamic = d->unsized;
    v->common = -1;
    if (v->bytes > MAX_VARIABLE_BYTES) parse_fail(p, d->name, "variable too large");
    return v;
}

/* One element of an initialiser in the variable's type; addresses may be `name`, `name+4`, `generic(name)`. */
static uint64_t initial_value(Parser *p, PtxType type) {
    const bool minus = parse_accept(p, '-');
    const Token t = p->tok;
    if (t.kind == TOK_WORD && token_is(&t, "generic")) {
        parse_next(p);
        parse_expect(p, '(');
        if (minus || ++p->operand_depth > MAX_NESTING) parse_fail(p, t, "generic() takes the name of a variable");
        const uint64_t v = initial_value(p, type);
        p->operand_depth--;
        parse_expect(p, ')');
        return v;
    }
    parse_next(p);
    if (t.kind == TOK_INT) return minus ? 0 - t.bits : t.bits;
    if (t.kind == TOK_F32 && type_bytes(type) == 4) return t.bits ^ (minus ? UINT64_C(1) << 31 : 0);
    if (t.kind == TOK_F64 && type == T_F32) {
        double d;
        memcpy(&d, &t.bits, sizeof d);
        const float f = (float)(minus ? -d : d);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        return bits;
    }
    if (t.kind == TOK_F64 && type_bytes(type) == 8) return t.bits ^ (minus ? UINT64_C(1) << 63 : 0);
    uint32_t member;
    const Symbol *s = t.kind == TOK_WORD && !minus ? symbol_find(p, &t, &member) : NULL;
    if (!s || s->kind != SYM_VAR || (s->var->space != SPACE_GLOBAL && s->var->space != SPACE_CONST) ||
        type_bytes(type) != 8)
        parse_fail(p, t, "'%.*s' cannot initialise a .%s%s", (int)t.length, t.text, type_text(type),
                   t.kind == TOK_WORD && function_named(p, &t) ? ": addresses of functions are not supported" : "");
    return s->var->address + (parse_accept(p, '+') ? (uint64_t)parse_integer(p) : 0);
}

static void parse_initial(Parser *p, const Declaration *d, uint8_t **data, uint64_t *bytes, size_t *capacity) {
    const Token at = p->tok;
    if (parse_accept(p, '{')) {
        if (++p->operand_depth > MAX_NESTING) parse_fail(p, at, "braces nested deeper than %d", MAX_NESTING);
        while (!parse_accept(p, '}')) {
            parse_initial(p, d, data, bytes, capacity);
            if (!parse_is(p, '}')) parse_expect(p, ',');
        }
        p->operand_depth--;
        return;
    }
    if (d->type == T_B128) parse_fail(p, at, "no initial values of type .b128");
    const uint64_t v = initial_value(p, d->type);
    const size_t n = (size_t)type_bytes(d->type);
    *data = sim_grow(&p->module->arena, *data, *bytes + 8, capacity, 1);
    memcpy(*data + *bytes, &v, n);
    *bytes += n;
}

static void place_module_variable(Parser *p, const Declaration *d, Variable *v) {
    uint8_t *data = NULL;
    uint64_t bytes = 0;
    size_t capacity = 0;
    const Token at = p->tok;
    if (parse_accept(p, '=')) {
        if (d->array && !parse_is(p, '{')) parse_fail(p, p->tok, "an array is initialised by a list in braces");
        parse_initial(p, d, &data, &bytes, &capacity);
        if (v->dynamic) v->bytes = bytes;
        if (bytes > v->bytes) parse_fail(p, at, "more initial values than '%s' holds", v->name);
    } else if (v->dynamic) {
        parse_fail(p, d->name, "'%s' has no size", v->name);
    }
    v->dynamic = false;
    v->address = p->memory->allocate(p->memory->self, v->name, v->bytes, v->align, v->space == SPACE_CONST);
    if (!v->address) parse_fail(p, d->name, "no device memory for '%s' (%llu bytes)", v->name, (unsigned long long)v->bytes);
    if (bytes) p->memory->initialise(p->memory->self, v->address, 0, data, bytes);
}

void parse_variable(Parser *p, Space space, bool external) {
    do {
        const Declaration d = parse_declaration(p, false);
        if (external && !(space == SPACE_SHARED && d.unsized))
            parse_fail(p, d.name, "external variables other than dynamic shared memory are not supported");
        Variable *v = variable_new(p, &d, space);
        if (space == SPACE_GLOBAL || space == SPACE_CONST) place_module_variable(p, &d, v);
        else if (v->dynamic && space != SPACE_SHARED) parse_fail(p, d.name, "'%s' has no size", v->name);
        else if (v->dynamic && !external) parse_fail(p, d.name, "shared memory without a size must be .extern");
        symbol_add(p, d.name, SYM_VAR)->var = v;
        if (space == SPACE_LOCAL || space == SPACE_PARAM) { /* a place in the frame, per thread */
            v->space = SPACE_LOCAL;
            p->fn->local_bytes = (uint32_t)align_up(p->fn->local_bytes, v->align);
            v->address = p->fn->local_bytes;
            if (v->bytes > 512 << 10 || p->fn->local_bytes + v->bytes > 512 << 10)
                parse_fail(p, d.name, "more than 512 KiB of local memory");
            p->fn->local_bytes += (uint32_t)v->bytes;
        }
        v->next = p->module->variables;
        if (!p->fn) p->module->variables = v;
    } while (parse_accept(p, ','));
    parse_expect(p, ';');
}

/* `.param .u64 name` of an entry, in parameter memory; of a device function, in its frame. */
Variable *parse_parameter(Parser *p) {
    if (p->tok.kind != TOK_DOT || !token_is(&p->tok, "param")) parse_fail(p, p->tok, "expected .param");
    parse_next(p);
    const Declaration d = parse_declaration(p, true);
    Variable *v = variable_new(p, &d, p->fn->entry ? SPACE_PARAM : SPACE_LOCAL);
    if (v->dynamic) parse_fail(p, d.name, "a parameter needs a size");
    uint32_t *end = p->fn->entry ? &p->fn->param_bytes : &p->fn->local_bytes;
    *end = (uint32_t)align_up(*end, v->align);
    v->address = *end;
    if (v->bytes > 32764 || *end + v->bytes > 32764) parse_fail(p, d.name, "parameters exceed 32764 bytes");
    *end += (uint32_t)v->bytes;
    symbol_add(p, d.name, SYM_VAR)->var = v;
    return v;
}

/* ---- shared memory of one function -------------------------------------------------------------------- */
uint64_t shared_offset(Parser *p, Variable *v, bool *dynamic) {
    *dynamic = v->dynamic;
    if (v->dynamic) return 0;
    for (const struct SharedUse *u = p->shared; u; u = u->next)
        if (u->var == v) return u->offset;
    struct SharedUse *u = sim_alloc(&p->module->arena, sizeof *u);
    uint32_t *end = p->fn->entry ? &p->fn->shared_bytes : &p->module->common_shared;
    if (v->common >= 0) {
        u->offset = (uint64_t)v->common;
    } else {
        u->offset = align_up(*end, v->align);
        if (v->bytes > 1 << 20 || u->offset + v->bytes > 1 << 20) parse_fail(p, p->tok, "more than 1 MiB of shared memory");
        *end = (uint32_t)(u->offset + v->bytes);
        if (!p->fn->entry) v->common = (int64_t)u->offset;
    }
    u->var = v;
    u->next = p->shared;
    p->shared = u;
    return u->offset;
}

/* A constant that becomes the start of dynamic shared memory, plus `addend`, once the static size is known. */
Operand shared_dynamic(Parser *p, const Variable *v, int64_t addend, int bytes) {
    if (!p->fn->entry) parse_fail(p, p->tok, "dynamic shared memory is for entry functions");
    struct DynamicUse *u = sim_alloc(&p->module->arena, sizeof *u);
    const Operand o = pool_constant_fresh(p, bytes);
    u->pool_offset = o.offset;
    u->bytes = bytes;
    u->addend = addend;
    u->next = p->dynamic;
    p->dynamic = u;
    if (v->align > p->dynamic_align) p->dynamic_align = v->align;
    return o;
}

void variables_finish(Parser *p) {
    if (!p->dynamic) return;
    p->fn->shared_bytes = (uint32_t)align_up(p->fn->shared_bytes, p->dynamic_align < 16 ? 16 : p->dynamic_align);
    for (const struct DynamicUse *u = p->dynamic; u; u = u->next) {
        const uint64_t v = (uint64_t)p->fn->shared_bytes + (uint64_t)u->addend;
        for (int lane = 0; lane < WARP; lane++) memcpy(p->fn->pool + u->pool_offset + lane * u->bytes, &v, (size_t)u->bytes);
    }
}
