#include "tools/ptxsim/ptx/words.h"
#include <string.h>

bool word_take(Words *w, const char *text) {
    if (w->next >= w->stmt->words || !token_is(&w->stmt->word[w->next], text)) return false;
    w->next++;
    return true;
}

int word_choose(Words *w, const char *const *texts, int count) {
    for (int k = 0; k < count; k++)
        if (word_take(w, texts[k])) return k;
    return -1;
}

static _Noreturn void unexpected(Parser *p, const Words *w, const char *wanted) {
    const Token at = w->next < w->stmt->words ? w->stmt->word[w->next] : w->stmt->at;
    parse_fail(p, at, "'%s' needs %s here", w->stmt->row->name, wanted);
}

void word_need(Parser *p, Words *w, const char *text) {
    char wanted[64] = ".";
    strncat(wanted, text, sizeof wanted - 2);
    if (!word_take(w, text)) unexpected(p, w, wanted);
}

PtxType word_type(Parser *p, Words *w) {
    const PtxType t = w->next < w->stmt->words ? type_of_token(&w->stmt->word[w->next]) : T_NONE;
    if (t == T_NONE) unexpected(p, w, "a type");
    w->next++;
    return t;
}

Space word_space(Words *w) {
    if (word_take(w, "shared") || word_take(w, "shared::cta")) return SPACE_SHARED;
    if (word_take(w, "shared::cluster")) return SPACE_CLUSTER;
    if (word_take(w, "global")) return SPACE_GLOBAL;
    return SPACE_GENERIC;
}

void word_cache_hint(Parser *p, Words *w, int *operand) {
    if (!word_take(w, "L2::cache_hint")) return;
    source(p, w->stmt, operand_at(p, w->stmt, *operand), T_B64);
    ++*operand;
}

void words_end(Parser *p, const Words *w, int operands) {
    if (w->next < w->stmt->words) {
        const Token at = w->stmt->word[w->next];
        parse_fail(p, at, "unknown or misplaced modifier '.%.*s' of '%s'", (int)at.length, at.text, w->stmt->row->name);
    }
    if (w->stmt->count != operands)
        parse_fail(p, w->stmt->at, "this form of '%s' takes %d operands, not %d", w->stmt->row->name, operands,
                   w->stmt->count);
}

const Raw *operand_at(Parser *p, const Stmt *s, int k) {
    if (k >= s->count) parse_fail(p, s->at, "'%s' needs another operand", s->row->name);
    return &s->operand[k];
}

Pointer pointer(Parser *p, const Stmt *s, const Raw *r, Space space) {
    Inst where = {0};
    address(p, s, r, &where);
    return (Pointer){.base = where.a, .offset = where.offset, .space = space};
}

const void *keep_form(Parser *p, const void *form, size_t bytes) {
    void *copy = sim_alloc(&p->module->arena, bytes);
    memcpy(copy, form, bytes);
    return copy;
}

void need_target(Parser *p, const Stmt *s, int target) {
    if (p->module->target < target) parse_fail(p, s->at, "'%s' needs .target sm_%d", s->row->name, target);
}

void need_version(Parser *p, const Stmt *s, int version) {
    if (p->module->version < version)
        parse_fail(p, s->at, "'%s' needs .version %d.%d here", s->row->name, version / 10, version % 10);
}
