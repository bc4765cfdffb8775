/* Names and their scopes: one hash table, newest first; leaving a scope takes its names out again. */
#include "tools/ptxsim/ptx/parse.h"
#include <string.h>

static uint32_t hash(const char *text, uint32_t n) {
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++) h = (h ^ (uint8_t)text[i]) * 16777619u;
    return h % BUCKETS;
}

void scope_enter(Parser *p) {
    if (p->depth + 1 >= MAX_NESTING) parse_fail(p, p->tok, "scopes nested deeper than %d", MAX_NESTING);
    p->scope[++p->depth] = NULL;
}

/* Binds branches of this scope to its labels; what stays open may be a label of the scope around it. */
static void resolve_pending(Parser *p) {
    Pending **link = &p->pending;
    while (*link) {
        Pending *w = *link;
        const Symbol *s = NULL;
        for (s = p->scope[p->depth]; s; s = s->in_scope)
            if (s->kind == SYM_LABEL && s->length == w->name.length && !memcmp(s->name, w->name.text, s->length)) break;
        if (w->depth >= p->depth && s && !s->is_label_set) {
            if (w->where) *w->where = s->index;
            else p->fn->code[w->inst].target = s->index;
            *link = w->next;
            continue;
        }
        if (w->depth >= p->depth) w->depth = p->depth - 1;
        link = &w->next;
    }
}

void scope_leave(Parser *p) {
    resolve_pending(p);
    for (Symbol *s = p->scope[p->depth]; s; s = s->in_scope) {
        Symbol **link = &p->bucket[s->bucket];
        while (*link != s) link = &(*link)->next;
        *link = s->next;
    }
    p->depth--;
}

Symbol *symbol_add(Parser *p, Token name, SymbolKind kind) {
    if (symbol_in_scope(p, &name))
        parse_fail(p, name, "'%.*s' is defined twice in this scope", (int)name.length, name.text);
    Symbol *s = sim_alloc(&p->module->arena, sizeof *s);
    s->name = name.text;
    s->length = name.length;
    s->kind = kind;
    s->bucket = hash(name.text, name.length);
    s->next = p->bucket[s->bucket];
    p->bucket[s->bucket] = s;
    s->in_scope = p->scope[p->depth];
    p->scope[p->depth] = s;
    return s;
}

bool symbol_in_scope(const Parser *p, const Token *name) {
    for (const Symbol *s = p->bucket[hash(name->text, name->length)]; s; s = s->next)
        if (s->length == name->length && !memcmp(s->name, name->text, s->length)) {
            for (const Symbol *q = p->scope[p->depth]; q; q = q->in_scope)
                if (q == s) return true;
            return false;
        }
    return false;
}

static const Symbol *find_exact(const Parser *p, const char *text, uint32_t length, bool set) {
    for (const Symbol *s = p->bucket[hash(text, length)]; s; s = s->next)
        if (s->length == length && (s->kind == SYM_REGS) == set && !memcmp(s->name, text, length)) return s;
    return NULL;
}

const Symbol *symbol_find(const Parser *p, const Token *name, uint32_t *member) {
    *member = 0;
    const Symbol *s = find_exact(p, name->text, name->length, false);
    if (s) return s;
    uint64_t number = 0, scale = 1; /* %r12 of `.reg .b32 %r<20>`: every split into prefix and number is tried */
    for (uint32_t n = name->length; n > 1 && name->text[n - 1] >= '0' && name->text[n - 1] <= '9'; n--) {
        number += scale * (uint64_t)(name->text[n - 1] - '0');
        scale *= 10;
        if (scale > 10000000000u) break;
        if (name->text[n - 1] == '0' && n < name->length) continue; /* no leading zeros */
        s = find_exact(p, name->text, n - 1, true);
        if (s && number < s->many) {
            *member = (uint32_t)number;
            return s;
        }
    }
    return NULL;
}
