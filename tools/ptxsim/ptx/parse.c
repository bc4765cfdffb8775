/* Module level of PTX: directives, functions, module variables (PTX ISA, "Directives"). */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/parse.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- tokens ------------------------------------------------------------------------------------------- */
void parse_fail(Parser *p, Token at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(p->error->text, sizeof p->error->text, format, args);
    va_end(args);
    p->error->line = at.line;
    p->error->column = at.column;
    longjmp(p->escape, 1);
}

void parse_next(Parser *p) {
    p->tok = p->ahead;
    p->ahead = lex_next(&p->lex);
    if (p->tok.kind == TOK_BAD) parse_fail(p, p->tok, "%s", p->tok.problem);
}

bool parse_is(const Parser *p, char punct) { return p->tok.kind == TOK_PUNCT && p->tok.punct == punct; }

bool parse_accept(Parser *p, char punct) {
    if (!parse_is(p, punct)) return false;
    parse_next(p);
    return true;
}

void parse_expect(Parser *p, char punct) {
    if (parse_accept(p, punct)) return;
    if (p->tok.kind == TOK_END) parse_fail(p, p->tok, "expected '%c' before the end of the text", punct);
    parse_fail(p, p->tok, "expected '%c' before '%.*s'", punct, (int)p->tok.length, p->tok.text);
}

static bool at_dot(const Parser *p, const char *text) { return p->tok.kind == TOK_DOT && token_is(&p->tok, text); }

int64_t parse_integer(Parser *p) {
    const bool minus = parse_accept(p, '-');
    if (p->tok.kind != TOK_INT) parse_fail(p, p->tok, "expected an integer");
    const uint64_t v = p->tok.bits;
    parse_next(p);
    return (int64_t)(minus ? 0 - v : v);
}

/* ---- types -------------------------------------------------------------------------------------------- */
enum { UNSIGNED, SIGNED, BITS, FLOAT, PREDICATE, MATRIX, PACKED };
static const struct { const char *text; uint8_t bytes, class; } TYPES[T_COUNT] = {
    [T_NONE] = {"none", 0, BITS},
#define TYPE(name, text, bytes, class) [T_##name] = {text, bytes, class},
#include "tools/ptxsim/ptx/ptx_types.def"
#undef TYPE
};
int type_bytes(PtxType t) { return TYPES[t].bytes; }
const char *type_text(PtxType t) { return TYPES[t].text; }
bool type_is_float(PtxType t) { return TYPES[t].class == FLOAT; }
bool type_is_signed(PtxType t) { return TYPES[t].class == SIGNED; }

/* `classes`: a bit for each. */
static PtxType find_type(const Token *t, unsigned classes) {
    for (int i = T_NONE + 1; i < T_COUNT; i++)
        if ((classes >> TYPES[i].class & 1) && token_is(t, TYPES[i].text)) return (PtxType)i;
    return T_NONE;
}
PtxType type_of_token(const Token *t) { return find_type(t, ~(1u << MATRIX | 1u << PACKED)); }
PtxType matrix_type_of_token(const Token *t) { return find_type(t, 1u << MATRIX); }
PtxType packed_type_of_token(const Token *t) { return find_type(t, 1u << PACKED); }

/* ---- module directives -------------------------------------------------------------------------------- */
static void parse_version(Parser *p) {
    parse_next(p);
    if (p->tok.kind != TOK_F64) parse_fail(p, p->tok, "expected a version number after .version");
    int major = 0, minor = 0;
    if (sscanf(p->tok.text, "%2d.%2d", &major, &minor) != 2) parse_fail(p, p->tok, "malformed version number");
    p->module->version = major * 10 + minor;
    if (major < 3 || major > 9) parse_fail(p, p->tok, "PTX version %d.%d is not supported", major, minor);
    parse_next(p);
}

static void parse_target_word(Parser *p) {
    int sm = 0, used = 0;
    char word[32] = {0};
    if (p->tok.kind != TOK_WORD || p->tok.length >= sizeof word) parse_fail(p, p->tok, "expected a target");
    memcpy(word, p->tok.text, p->tok.length);
    if (sscanf(word, "sm_%3d%n", &sm, &used) == 1) {
        const bool specific = word[used] == 'a' && !word[used + 1];
        if (word[used] && !specific) parse_fail(p, p->tok, "unknown target '%s'", word);
        if (sm > p->device) parse_fail(p, p->tok, "target sm_%d is newer than the device, sm_%d", sm, p->device);
        if (specific && sm != p->device) parse_fail(p, p->tok, "target %s runs on sm_%d only", word, sm);
        p->module->target = sm;
        p->module->specific = specific;
    } else if (strcmp(word, "debug") != 0 && strcmp(word, "texmode_independent") != 0) {
        parse_fail(p, p->tok, "unknown target '%s'", word);
    }
    parse_next(p);
}

static void parse_target(Parser *p) {
    parse_next(p);
    do parse_target_word(p);
    while (parse_accept(p, ','));
}

static void parse_address_size(Parser *p) {
    parse_next(p);
    const Token at = p->tok;
    p->module->address_bits = (int)parse_integer(p);
    if (p->module->address_bits != 64) parse_fail(p, at, "only 64-bit addresses are supported");
}

/* .file N "name" (, time, size) */
static void skip_file(Parser *p) {
    parse_next(p);
    parse_integer(p);
    if (p->tok.kind != TOK_STRING) parse_fail(p, p->tok, "expected a file name");
    parse_next(p);
    while (parse_accept(p, ',')) parse_integer(p);
}

/* .section NAME { debug data } */
static void skip_section(Parser *p) {
    while (!parse_is(p, '{')) {
        if (p->tok.kind == TOK_END) parse_fail(p, p->tok, "unterminated .section");
        parse_next(p);
    }
    while (!parse_is(p, '}')) {
        if (p->tok.kind == TOK_END) parse_fail(p, p->tok, "unterminated .section");
        parse_next(p);
    }
    parse_next(p);
}

static void skip_pragma(Parser *p) {
    parse_next(p);
    do {
        if (p->tok.kind != TOK_STRING) parse_fail(p, p->tok, "expected a string after .pragma");
        parse_next(p);
    } while (parse_accept(p, ','));
    parse_expect(p, ';');
}

/* Linkage words before .entry, .func and variables; true when `.extern` was among them. */
static bool parse_linkage(Parser *p) {
    bool external = false;
    while (at_dot(p, "visible") || at_dot(p, "extern") || at_dot(p, "weak") || at_dot(p, "common")) {
        external |= at_dot(p, "extern");
        parse_next(p);
    }
    return external;
}

static void parse_module_item(Parser *p) {
    if (p->tok.kind != TOK_DOT) parse_fail(p, p->tok, "expected a directive before '%.*s'", (int)p->tok.length, p->tok.text);
    if (at_dot(p, "version")) { parse_version(p); return; }
    if (at_dot(p, "target")) { parse_target(p); return; }
    if (at_dot(p, "address_size")) { parse_address_size(p); return; }
    if (at_dot(p, "file")) { skip_file(p); return; }
    if (at_dot(p, "section")) { skip_section(p); return; }
    if (at_dot(p, "pragma")) { skip_pragma(p); return; }
    if (!p->module->version || !p->module->target)
        parse_fail(p, p->tok, ".version and .target must come before .%.*s", (int)p->tok.length, p->tok.text);
    const bool external = parse_linkage(p);
    const Token at = p->tok;
    static const struct { const char *word; Space space; } SPACES[] = {
        {"global", SPACE_GLOBAL}, {"const", SPACE_CONST}, {"shared", SPACE_SHARED}};
    for (size_t i = 0; i < sizeof SPACES / sizeof *SPACES; i++)
        if (at_dot(p, SPACES[i].word)) {
            parse_next(p);
            parse_variable(p, SPACES[i].space, external);
            return;
        }
    if (at_dot(p, "entry")) parse_function(p, true);
    else if (at_dot(p, "func")) parse_function(p, false);
    else parse_fail(p, at, "unknown directive '.%.*s'", (int)at.length, at.text);
}

/* A call can precede the body it names: what a function does through its callees is known at the end only. */
static void close_over_calls(Module *m) {
    for (bool changed = true; changed;) {
        changed = false;
        for (Function *f = m->functions; f; f = f->next)
            for (int32_t k = 0; k < f->count; k++) {
                const Function *g = f->code[k].call ? f->code[k].call->callee : NULL;
                if (!g) continue;
                changed |= (g->global_atomics && !f->global_atomics) || (g->barriers && !f->barriers) ||
                           (g->reserved_shared && !f->reserved_shared);
                f->reserved_shared |= g->reserved_shared;
                f->global_atomics |= g->global_atomics;
                f->barriers |= g->barriers;
            }
    }
}

static bool builtin_matches(const Builtin *b, const Function *f) {
    int count = 0;
    while (count < BUILTIN_ARGUMENTS && b->argument[count]) count++;
    if (f->param_count != count || f->result_count != (b->result != 0)) return false;
    for (int k = 0; k < count; k++)
        if (f->param[k]->bytes != b->argument[k]) return false;
    return !b->result || f->result[0]->bytes == b->result;
}

/* A function without a body that every device has.  What it says must not depend on the host's timing, so that blocks
 * run interleaved. */
static void bind_builtin(Parser *p, Function *f, Token at) {
    f->builtin = builtin_find(f->name);
    if (!f->builtin) parse_fail(p, at, "call of '%s', which has no body in this module", f->name);
    if (!builtin_matches(f->builtin, f)) parse_fail(p, at, "'%s' is declared with other parameters than it has", f->name);
    f->global_atomics = true;
}

static void check_callees(Parser *p) {
    for (const Function *f = p->module->functions; f; f = f->next)
        for (int32_t k = 0; k < f->count; k++) {
            Function *g = f->code[k].call ? f->code[k].call->callee : NULL;
            const Token at = {.line = f->code[k].line, .column = g ? f->code[k].call->column : 1};
            if (g && !g->defined && !g->builtin) bind_builtin(p, g, at);
        }
}

Module *module_parse(const char *text, size_t length, int device, const ModuleMemory *memory, ParseError *error) {
    SimArena arena = {0};
    Parser *p = sim_alloc(&arena, sizeof *p);
    p->module = sim_alloc(&arena, sizeof *p->module);
    p->memory = memory;
    p->error = error;
    p->device = device;
    p->module->arena = arena;
    p->module->address_bits = 64;
    if (setjmp(p->escape)) {
        SimArena all = p->module->arena; /* the struct itself lies in it */
        sim_arena_free(&all);
        return NULL;
    }
    /* names in symbols and functions point into this copy */
    lex_init(&p->lex, sim_strndup(&p->module->arena, text, length), length);
    p->ahead = lex_next(&p->lex);
    parse_next(p);
    while (p->tok.kind != TOK_END) parse_module_item(p);
    if (!p->module->version) parse_fail(p, p->tok, "no .version directive");
    check_callees(p);
    close_over_calls(p->module);
    return p->module;
}

void module_free(Module *m) {
    if (!m) return;
    SimArena arena = m->arena;
    sim_arena_free(&arena);
}

Function *module_function(const Module *m, const char *name) {
    for (Function *f = m->functions; f; f = f->next)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

Variable *module_variable(const Module *m, const char *name) {
    for (Variable *v = m->variables; v; v = v->next)
        if (strcmp(v->name, name) == 0) return v;
    return NULL;
}
