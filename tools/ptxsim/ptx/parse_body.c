/* Function headers, bodies, statements and their raw operands. */
#include "tools/ptxsim/ptx/parse.h"
#include <string.h>

static Raw parse_operand(Parser *p);

static const struct { const char *text; uint8_t id; PtxType type; } SPECIALS[] = {
#define SREG(text, name, type) {text, SR_##name, T_##type},
#include "tools/ptxsim/ptx/ptx_sregs.def"
#undef SREG
};

/* %tid.x arrives as a word and a dotted word */
static bool parse_special(Parser *p, Raw *r) {
    char name[48];
    size_t n = p->tok.length;
    if (n >= sizeof name - 8 || p->tok.text[0] != '%') return false;
    memcpy(name, p->tok.text, n);
    const bool component = p->ahead.kind == TOK_DOT && p->ahead.length == 1 && p->ahead.text == p->tok.text + n + 1;
    for (int with = component; with >= 0; with--) {
        if (with) {
            name[n] = '.';
            name[n + 1] = *p->ahead.text;
        }
        name[n + (with ? 2u : 0u)] = '\0';
        for (size_t i = 0; i < sizeof SPECIALS / sizeof *SPECIALS; i++) {
            if (strcmp(SPECIALS[i].text, name) != 0) continue;
            r->kind = RAW_SPECIAL;
            r->special = (Special)SPECIALS[i].id;
            r->type = SPECIALS[i].type;
            p->fn->reserved_shared |= r->special >= SR_RESERVED_SMEM_BEGIN && r->special <= SR_RESERVED_SMEM_1;
            if (with) parse_next(p);
            parse_next(p);
            return true;
        }
    }
    return false;
}

static void raw_from_symbol(Raw *r, const Symbol *s, uint32_t member) {
    if (s->kind == SYM_VAR) {
        r->kind = RAW_VAR;
        r->var = s->var;
    } else if (s->kind == SYM_REG || s->kind == SYM_REGS) {
        const int bytes = type_bytes(s->type);
        r->kind = RAW_REG;
        r->type = s->type;
        r->slot = (Operand){.offset = s->slot + member * (uint32_t)(bytes ? bytes * WARP : 4), .base = BASE_REGS,
                            .bytes = (uint8_t)bytes};
    } else {
        r->kind = RAW_NAME;
    }
}

static void parse_word_operand(Parser *p, Raw *r) {
    uint32_t member;
    if (token_is(&p->tok, "_")) {
        r->kind = RAW_SINK;
        parse_next(p);
        return;
    }
    const Symbol *s = symbol_find(p, &p->tok, &member);
    if (s) {
        raw_from_symbol(r, s, member);
    } else if (parse_special(p, r)) {
        return;
    } else if (token_is(&p->tok, "WARP_SZ")) {
        r->kind = RAW_INT;
        r->bits = WARP;
    } else if (p->tok.text[0] == '%') {
        parse_fail(p, p->tok, "unknown register '%.*s'", (int)p->tok.length, p->tok.text);
    } else {
        r->kind = RAW_NAME;
    }
    parse_next(p);
    if (r->kind == RAW_VAR && (parse_is(p, '+') || parse_is(p, '-'))) {
        parse_accept(p, '+');
        r->offset = parse_integer(p);
    }
}

static void parse_number_operand(Parser *p, Raw *r) {
    const bool minus = parse_accept(p, '-');
    const TokenKind k = p->tok.kind;
    if (k != TOK_INT && k != TOK_F32 && k != TOK_F64)
        parse_fail(p, p->tok, "expected an operand before '%.*s'", (int)p->tok.length, p->tok.text);
    r->kind = k == TOK_INT ? RAW_INT : k == TOK_F32 ? RAW_F32 : RAW_F64;
    r->bits = p->tok.bits;
    if (minus) r->bits = k == TOK_INT ? 0 - r->bits : r->bits ^ (UINT64_C(1) << (k == TOK_F32 ? 31 : 63));
    parse_next(p);
}

static void parse_items(Parser *p, Raw *r, char close) {
    size_t capacity = 0;
    parse_next(p);
    while (!parse_accept(p, close)) {
        r->item = sim_grow(&p->module->arena, r->item, (size_t)r->count, &capacity, sizeof *r->item);
        const Raw item = parse_operand(p);
        if (item.kind == RAW_VECTOR || item.kind == RAW_LIST || item.kind == RAW_ADDRESS)
            parse_fail(p, item.at, "operands do not nest here");
        r->item[r->count++] = item;
        if (r->count > 1024) parse_fail(p, item.at, "more than 1024 operands");
        if (!parse_is(p, close)) parse_expect(p, ',');
    }
}

static void parse_address_operand(Parser *p, Raw *r) {
    parse_next(p);
    r->item = sim_alloc(&p->module->arena, sizeof *r->item);
    r->item[0].at = p->tok;
    r->count = 1;
    if (p->tok.kind == TOK_WORD) parse_word_operand(p, &r->item[0]);
    else parse_number_operand(p, &r->item[0]);
    if (parse_is(p, '+') || parse_is(p, '-')) {
        parse_accept(p, '+');
        r->offset = parse_integer(p);
    }
    if (parse_accept(p, ',')) { /* [tensor map, {coordinates}] */
        if (!parse_is(p, '{')) parse_fail(p, p->tok, "expected coordinates in braces");
        r->second = sim_alloc(&p->module->arena, sizeof *r->second);
        *r->second = (Raw){.at = p->tok, .kind = RAW_VECTOR};
        parse_items(p, r->second, '}');
    }
    parse_expect(p, ']');
}

static Raw parse_operand(Parser *p) {
    Raw r = {.at = p->tok};
    if (parse_accept(p, '!')) r.negated = true;
    if (p->tok.kind == TOK_WORD) {
        parse_word_operand(p, &r);
    } else if (parse_is(p, '{') || parse_is(p, '(')) {
        if (r.negated || ++p->operand_depth > 2) parse_fail(p, p->tok, "operands do not nest here");
        r.kind = parse_is(p, '{') ? RAW_VECTOR : RAW_LIST;
        parse_items(p, &r, parse_is(p, '{') ? '}' : ')');
        p->operand_depth--;
    } else if (parse_is(p, '[')) {
        r.kind = RAW_ADDRESS;
        parse_address_operand(p, &r);
    } else {
        parse_number_operand(p, &r);
    }
    if (parse_accept(p, '|')) {
        r.second = sim_alloc(&p->module->arena, sizeof *r.second);
        r.second->at = p->tok;
        if (p->tok.kind != TOK_WORD) parse_fail(p, p->tok, "expected a predicate after '|'");
        parse_word_operand(p, r.second);
    }
    return r;
}

/* ---- statements --------------------------------------------------------------------------------------- */
static void parse_guard(Parser *p, Stmt *s) {
    if (!parse_accept(p, '@')) return;
    const bool negated = parse_accept(p, '!');
    uint32_t member;
    const Symbol *r = p->tok.kind == TOK_WORD ? symbol_find(p, &p->tok, &member) : NULL;
    if (!r || (r->kind != SYM_REG && r->kind != SYM_REGS) || r->type != T_PRED)
        parse_fail(p, p->tok, "'%.*s' is no predicate register", (int)p->tok.length, p->tok.text);
    s->guard = (Operand){.offset = r->slot + member * 4, .base = BASE_REGS, .negated = negated};
    parse_next(p);
}

static void parse_modifier(Parser *p, Stmt *s) {
    const Token t = p->tok;
    PtxType type = type_of_token(&t);
    if (s->row->mods >> CAT_PACKED & 1 && type == T_NONE) type = packed_type_of_token(&t);
    ModCategory category;
    int value;
    if (s->row->mods >> CAT_SHAPE & 1 && matrix_modifier(p, s, &t)) {
        parse_next(p);
        return;
    }
    if (s->row->mods >> CAT_WORDS & 1) {
        if (s->words == MAX_WORDS) parse_fail(p, t, "too many modifiers of '%s'", s->row->name);
        s->word[s->words++] = t;
    } else if (type != T_NONE) {
        if (s->types == MAX_TYPES) parse_fail(p, t, "too many types");
        s->type[s->types++] = type;
    } else if (mod_find(&t, s->row->mods, &category, &value)) {
        if (s->mod[category] && category != CAT_BOOL && s->mod[category] != value)
            parse_fail(p, t, "'.%.*s' contradicts an earlier modifier", (int)t.length, t.text);
        s->mod[category] = (uint8_t)value;
    } else {
        parse_fail(p, t, mod_known(&t) ? "'.%.*s' does not belong to '%s'" : "unknown modifier '.%.*s' of '%s'",
                   (int)t.length, t.text, s->row->name);
    }
    parse_next(p);
}

/* "cp.async" if the table has it, else "cp" */
static const OpRow *parse_name_of_instruction(Parser *p) {
    Token name = p->tok;
    if (p->ahead.kind == TOK_DOT && p->ahead.text == name.text + name.length + 1) {
        name.length += 1 + p->ahead.length;
        const OpRow *both = op_find(&name);
        if (both) {
            parse_next(p);
            parse_next(p);
            return both;
        }
    }
    const OpRow *row = op_find(&p->tok);
    if (!row) parse_fail(p, p->tok, "unknown instruction '%.*s'", (int)p->tok.length, p->tok.text);
    parse_next(p);
    return row;
}

static void parse_instruction(Parser *p) {
    Stmt s = {0};
    parse_guard(p, &s);
    s.at = p->tok;
    if (p->tok.kind != TOK_WORD) parse_fail(p, p->tok, "expected an instruction before '%.*s'", (int)p->tok.length, p->tok.text);
    s.row = parse_name_of_instruction(p);
    while (p->tok.kind == TOK_DOT) parse_modifier(p, &s);
    while (!parse_is(p, ';')) {
        if (s.count == MAX_OPERANDS) parse_fail(p, p->tok, "too many operands of '%s'", s.row->name);
        s.operand[s.count++] = parse_operand(p);
        if (!parse_is(p, ';')) parse_expect(p, ',');
    }
    if (s.count < s.row->least || s.count > s.row->most)
        parse_fail(p, s.at, "'%s' takes %d operands, not %d", s.row->name, s.row->least, s.count);
    s.row->lower(p, &s);
    parse_expect(p, ';');
}

/* label: .branchtargets a, b;   or   label: */
static void parse_label(Parser *p) {
    Symbol *s = symbol_add(p, p->tok, SYM_LABEL);
    parse_next(p);
    parse_expect(p, ':');
    s->index = p->fn->count;
    if (p->tok.kind != TOK_DOT || !token_is(&p->tok, "branchtargets")) return;
    LabelSet *set = sim_alloc(&p->module->arena, sizeof *set);
    size_t capacity = 0;
    parse_next(p);
    do {
        if (p->tok.kind != TOK_WORD) parse_fail(p, p->tok, "expected a label");
        set->name = sim_grow(&p->module->arena, set->name, (size_t)set->count, &capacity, sizeof *set->name);
        set->name[set->count++] = p->tok;
        parse_next(p);
    } while (parse_accept(p, ','));
    parse_expect(p, ';');
    s->is_label_set = true;
    s->set = set;
}

static void skip_loc(Parser *p) { /* .loc file line column (, function_name label (+ offset), inlined_at ...) */
    const int line = p->tok.line;
    while (p->tok.line == line && p->tok.kind != TOK_END) parse_next(p);
}

static void skip_strings(Parser *p) {
    parse_next(p);
    while (!parse_is(p, ';')) {
        if (p->tok.kind != TOK_STRING && !parse_is(p, ',')) parse_fail(p, p->tok, "expected a string after .pragma");
        parse_next(p);
    }
    parse_next(p);
}

static void parse_body_directive(Parser *p) {
    const Token at = p->tok;
    static const struct { const char *word; Space space; } SPACES[] = {
        {"local", SPACE_LOCAL}, {"shared", SPACE_SHARED}, {"param", SPACE_PARAM}, {"global", SPACE_GLOBAL},
        {"const", SPACE_CONST}};
    if (token_is(&at, "loc")) { skip_loc(p); return; }
    if (token_is(&at, "pragma")) { skip_strings(p); return; }
    const bool external = token_is(&at, "extern");
    parse_next(p);
    if (token_is(&at, "reg")) { parse_registers(p); return; }
    const Token word = external ? p->tok : at;
    if (external) parse_next(p);
    for (size_t i = 0; i < sizeof SPACES / sizeof *SPACES; i++)
        if (token_is(&word, SPACES[i].word)) {
            parse_variable(p, SPACES[i].space, external);
            return;
        }
    parse_fail(p, at, "unknown directive '.%.*s' in a function", (int)at.length, at.text);
}

static void parse_block(Parser *p) {
    parse_expect(p, '{');
    scope_enter(p);
    while (!parse_is(p, '}')) {
        if (p->tok.kind == TOK_END) parse_fail(p, p->tok, "expected '}' before the end of the text");
        if (parse_accept(p, ';')) continue;
        if (parse_is(p, '{')) parse_block(p);
        else if (p->tok.kind == TOK_DOT) parse_body_directive(p);
        else if (p->tok.kind == TOK_WORD && p->ahead.kind == TOK_PUNCT && p->ahead.punct == ':') parse_label(p);
        else parse_instruction(p);
    }
    scope_leave(p);
    parse_next(p);
}

void parse_body(Parser *p, Function *f) {
    p->pending = NULL;
    parse_block(p);
    if (p->pending)
        parse_fail(p, p->pending->name, "unknown label '%.*s'", (int)p->pending->name.length, p->pending->name.text);
    const OpRow *end = op_find(&(Token){.text = "ret", .length = 3});
    const Stmt leave = {.at = p->tok, .row = end};
    end->lower(p, &leave);
    variables_finish(p);
    matrix_watch(p, f);
    cfg_finish(p, f);
    f->defined = true;
}

/* ---- functions ---------------------------------------------------------------------------------------- */
static void parse_thread_limit(Parser *p, uint32_t limit[3]) {
    limit[0] = limit[1] = limit[2] = 1;
    for (int d = 0; d < 3; d++) {
        const Token at = p->tok;
        const int64_t v = parse_integer(p);
        if (v < 1 || v > 1 << 20) parse_fail(p, at, "a thread limit of %lld", (long long)v);
        limit[d] = (uint32_t)v;
        if (!parse_accept(p, ',')) break;
    }
}

/* The value of a limit that is one number. */
static uint32_t parse_positive(Parser *p) {
    const Token at = p->tok;
    const int64_t v = parse_integer(p);
    if (v < 1 || v > 1 << 20) parse_fail(p, at, "a limit of %lld", (long long)v);
    return (uint32_t)v;
}

static void parse_performance_directives(Parser *p, Function *f) {
    while (p->tok.kind == TOK_DOT) {
        const Token at = p->tok;
        parse_next(p);
        if (token_is(&at, "maxntid")) {
            parse_thread_limit(p, f->max_threads);
            f->has_max_threads = true;
        } else if (token_is(&at, "reqntid")) {
            parse_thread_limit(p, f->required_threads);
            f->has_required_threads = true;
        } else if (token_is(&at, "reqnctapercluster")) {
            parse_thread_limit(p, f->required_cluster);
        } else if (token_is(&at, "explicitcluster")) {
            f->explicit_cluster = true;
        } else if (token_is(&at, "maxclusterrank")) {
            f->max_cluster_rank = parse_positive(p);
        } else if (token_is(&at, "maxnreg")) {
            const uint32_t n = parse_positive(p);
            if (n > MOST_REGISTERS) f->max_registers_ignored = true;
            else f->max_registers = n;
        } else if (token_is(&at, "minnctapersm")) {
            f->min_blocks = parse_positive(p);
        } else if (token_is(&at, "maxnctapersm")) {
            parse_positive(p);
        } else if (token_is(&at, "pragma")) {
            while (!parse_accept(p, ';')) {
                if (p->tok.kind != TOK_STRING && !parse_is(p, ',')) parse_fail(p, p->tok, "expected a string");
                parse_next(p);
            }
        } else if (!token_is(&at, "noreturn")) {
            parse_fail(p, at, "unknown directive '.%.*s' of a function", (int)at.length, at.text);
        }
    }
}

static Variable **parse_parameters(Parser *p, int *count) {
    Variable **list = NULL;
    size_t capacity = 0;
    *count = 0;
    if (!parse_accept(p, '(')) return NULL;
    while (!parse_accept(p, ')')) {
        list = sim_grow(&p->module->arena, list, (size_t)*count, &capacity, sizeof *list);
        list[(*count)++] = parse_parameter(p);
        if (!parse_is(p, ')')) parse_expect(p, ',');
    }
    return list;
}

static Function *function_declare(Parser *p, Token name, bool entry) {
    char *copy = sim_strndup(&p->module->arena, name.text, name.length);
    Function *f = module_function(p->module, copy);
    if (f && (f->defined || f->entry != entry)) parse_fail(p, name, "'%s' is defined twice", copy);
    if (f) return f;
    f = sim_alloc(&p->module->arena, sizeof *f);
    f->name = copy;
    f->entry = entry;
    f->next = p->module->functions;
    p->module->functions = f;
    return f;
}

static bool same_sizes(Variable *const *a, int count_a, Variable *const *b, int count_b) {
    if (count_a != count_b) return false;
    for (int k = 0; k < count_a; k++)
        if (a[k]->bytes != b[k]->bytes) return false;
    return true;
}

/* Calls between a prototype and what follows it were lowered after the prototype. */
static void check_prototype(Parser *p, const Function *f, const Function *header, Token name) {
    if (!f->declared) return;
    if (!same_sizes(f->param, f->param_count, header->param, header->param_count) ||
        !same_sizes(f->result, f->result_count, header->result, header->result_count))
        parse_fail(p, name, "'%s' was declared with other parameters", f->name);
}

/* Parameters are parsed against a fresh frame; a prototype's frame is dropped when the body comes. */
void parse_function(Parser *p, bool entry) {
    Function header = {.entry = entry};
    parse_next(p);
    p->fn = &header;
    p->code_capacity = p->pool_capacity = p->special_capacity = 0;
    p->shared = NULL;
    p->dynamic = NULL;
    p->dynamic_align = 0;
    memset(p->hash_slot, 0, sizeof p->hash_slot);
    scope_enter(p);
    if (!entry && parse_is(p, '(')) header.result = parse_parameters(p, &header.result_count);
    if (p->tok.kind != TOK_WORD) parse_fail(p, p->tok, "expected a function name");
    const Token name = p->tok;
    header.line = name.line;
    header.column = name.column;
    parse_next(p);
    header.param = parse_parameters(p, &header.param_count);
    parse_performance_directives(p, &header);
    Function *f = function_declare(p, name, entry);
    check_prototype(p, f, &header, name);
    header.declared = true;
    header.name = f->name;
    header.next = f->next;
    *f = header;
    p->fn = f;
    if (entry) f->shared_bytes = p->module->common_shared;
    if (!parse_accept(p, ';')) parse_body(p, f);
    scope_leave(p);
    p->fn = NULL;
}
