/* Numbers, names, extents, subscripts and types of graph text. */
#include "ir/parse.h"
#include <math.h>
#include <string.h>

/* ---- sums of multiples of names -------------------------------------------------------------------- */

typedef enum { NAMES_SYMBOLS, NAMES_LOOPS } Names;
typedef struct Sum {
    int64_t c;
    int n;
    struct {
        int id;
        int64_t coef;
    } term[MAX_LOOPS];
} Sum;

static int find_name(Parse *p, Names names, const Token *t) {
    for (int i = 0; names == NAMES_LOOPS && i < p->n_loops; i++) {
        if (p->loop[i].length == t->length && memcmp(p->loop[i].text, t->text, (size_t)t->length) == 0) return i;
    }
    for (int i = 0; names == NAMES_SYMBOLS && i < p->model->syms.n; i++) {
        if (token_is(t, p->model->syms.at[i].name)) return i;
    }
    graph_lexer_fail(&p->lex, t, "unknown %s '%.*s'", names == NAMES_LOOPS ? "loop" : "dim", t->length, t->text);
    return 0;
}

static void sum_add(Parse *p, Sum *s, int id, int64_t coef, const Token *where) {
    int64_t *to = &s->c;
    if (id >= 0) {
        int i = 0;
        while (i < s->n && s->term[i].id != id) i++;
        if (i == MAX_LOOPS) {
            graph_lexer_fail(&p->lex, where, "too many names in one sum");
            return;
        }
        if (i == s->n) {
            s->term[i].id = id;
            s->term[i].coef = 0;
            s->n++;
        }
        to = &s->term[i].coef;
    }
    if (__builtin_add_overflow(*to, coef, to)) graph_lexer_fail(&p->lex, where, "number too large");
}

/* 3, i, 3*i */
static void parse_term(Parse *p, Names names, bool negative, Sum *s) {
    Token t = p->lex.token;
    int64_t coef = 1;
    int id = -1;
    bool named = t.kind != TOKEN_INTEGER;
    if (!named) {
        coef = t.integer;
        graph_lexer_next(&p->lex);
        named = graph_lexer_take(&p->lex, '*');
        if (named) t = p->lex.token;
    }
    if (named) graph_lexer_expect(&p->lex, TOKEN_NAME, "a number or a name");
    if (named && !p->lex.error) id = find_name(p, names, &t);
    if (!p->lex.error) sum_add(p, s, id, negative ? -coef : coef, &t);
}

static Sum parse_sum(Parse *p, Names names) {
    Sum s = {0};
    bool negative = graph_lexer_take(&p->lex, '-');
    for (;;) {
        parse_term(p, names, negative, &s);
        if (graph_lexer_take(&p->lex, '+')) {
            negative = false;
        } else if (graph_lexer_take(&p->lex, '-')) {
            negative = true;
        } else {
            return s;
        }
    }
}

Dim graph_parse_dim(Parse *p) {
    Token where = p->lex.token;
    Sum s = parse_sum(p, NAMES_SYMBOLS);
    Dim d = dim_fixed(0);
    for (int i = 0; i < s.n && !p->lex.error; i++) {
        const SymDecl *sym = &p->model->syms.at[s.term[i].id];
        Dim one = {.bound = sym->bound, .sym = s.term[i].id, .scale = 1, .name = sym->name};
        Dim times = dim_mul_const(one, s.term[i].coef);
        if (!dim_add(d, times, &d)) graph_lexer_fail(&p->lex, &where, "an extent follows one dim only");
    }
    return dim_add_const(d, s.c);
}

Affine graph_parse_affine(Parse *p) {
    Affine e = {.divisor = 1};
    bool divided = graph_lexer_take(&p->lex, '(');
    Sum s = parse_sum(p, NAMES_LOOPS);
    e.c = s.c;
    for (int i = 0; i < s.n; i++) e.coef[s.term[i].id] = s.term[i].coef;
    if (divided) {
        graph_lexer_expect(&p->lex, ')', "')'");
        graph_lexer_expect(&p->lex, '/', "'/'");
        e.divisor = p->lex.token.integer;
        graph_lexer_expect(&p->lex, TOKEN_INTEGER, "a divisor");
    }
    return e;
}

/* ---- small pieces -------------------------------------------------------------------------------------- */

int64_t graph_parse_integer(Parse *p, int64_t least, int64_t most) {
    Token t = p->lex.token;
    bool negative = graph_lexer_take(&p->lex, '-');
    int64_t x = negative ? -p->lex.token.integer : p->lex.token.integer;
    graph_lexer_expect(&p->lex, TOKEN_INTEGER, "an integer");
    if (!p->lex.error && (x < least || x > most)) graph_lexer_fail(&p->lex, &t, "number out of range");
    return p->lex.error ? least : x;
}

double graph_parse_number(Parse *p) {
    bool negative = graph_lexer_take(&p->lex, '-');
    double x = p->lex.token.number;
    if (graph_lexer_word(&p->lex, "inf")) {
        x = INFINITY;
    } else if (graph_lexer_word(&p->lex, "nan")) {
        x = NAN;
    } else if (!graph_lexer_take(&p->lex, TOKEN_FLOAT)) {
        graph_lexer_expect(&p->lex, TOKEN_INTEGER, "a number");
    }
    return negative ? -x : x;
}

const char *graph_parse_name(Parse *p) {
    Token t = p->lex.token;
    graph_lexer_expect(&p->lex, TOKEN_NAME, "a name");
    return p->lex.error ? "" : arena_strndup(p->arena, t.text, (size_t)t.length);
}

void graph_parse_type(Parse *p, DType *t, Shape *s) {
    Token where = p->lex.token;
    const char *name = graph_parse_name(p);
    if (!p->lex.error && !dtype_parse(name, t)) graph_lexer_fail(&p->lex, &where, "unknown element type '%s'", name);
    graph_lexer_expect(&p->lex, '[', "'['");
    *s = shape_scalar();
    while (!p->lex.error && !graph_lexer_is(&p->lex, ']')) {
        if (s->rank == MAX_RANK) graph_lexer_fail(&p->lex, &p->lex.token, "more than %d axes", MAX_RANK);
        if (s->rank > 0) graph_lexer_expect(&p->lex, ',', "',' or ']'");
        Token at = p->lex.token;
        Dim d = graph_parse_dim(p);
        if (d.bound < 0 || d.bound > MAX_ELEMENTS) graph_lexer_fail(&p->lex, &at, "bad extent");
        if (!p->lex.error) s->dim[s->rank++] = d;
    }
    graph_lexer_expect(&p->lex, ']', "']'");
}
