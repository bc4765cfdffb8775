/* The text of a pattern as nodes: what rules.def will match. */
#include "tests/support/directed.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *pattern, *where;
} rules[PATTERN_COUNT] = {
#define RULE(op, pattern, replacement, where) {pattern, #where},
#include "passes/rewrite/rules.def"
#undef RULE
};

typedef struct Text {
    Directed *x;
    const char *at, *where;
    DType t;         /* of data */
    Node *letter[4]; /* a b c d */
    Node *constant[2];
    bool delicate; /* divides, or takes a power: letters are positive */
} Text;

static Node *constant(Text *m, DType t, double v) {
    const Attr at = {.dtype = t, .value = v};
    return directed_emit(m->x, OP_CONST, 0, NULL, &at, m->x->base);
}

static Node *letter(Text *m, char c, DType t) {
    if (c == 'K' || c == 'L') {
        static const double values[] = {0.5, 2, 4, 0.25};
        Node **k = &m->constant[c - 'K'];
        const double v = t == DT_BOOL  ? pick_below(m->x, 2)
                         : t == DT_I32 ? 2 + pick_below(m->x, 2)
                                       : values[pick_below(m->x, 4)];
        if (!*k) *k = constant(m, t, v);
        return *k;
    }
    Node **n = &m->letter[c - 'a'];
    if (!*n) *n = directed_operand(m->x, t, m->x->base, m->delicate ? NEED_POSITIVE : NEED_SMALL);
    return *n;
}

/* The dtype of operand k where the op's result is asked for in t. */
static DType operand_dtype(const Text *m, Op op, int k, DType t) {
    if (op == OP_NOT || op == OP_AND || op == OP_OR) return DT_BOOL;
    if (op_info[op].type == TYPE_BOOL) return m->t;
    return op == OP_SELECT && k == 0 ? DT_BOOL : t;
}

static Node *build(Text *m, DType t) {
    while (*m->at == ' ') m->at++;
    if (!isalpha((unsigned char)*m->at)) {
        char *end;
        const double v = strtod(m->at, &end);
        m->at = end;
        return constant(m, t, v);
    }
    char name[16] = "";
    for (size_t n = 0; isalnum((unsigned char)*m->at) || *m->at == '_'; m->at++)
        if (n + 1 < sizeof name) name[n++] = *m->at;
    if (*m->at != '(') return letter(m, name[0], t);
    Op op = OP_COUNT;
    if (!op_parse(name, &op)) return NULL;
    Node *in[3] = {NULL};
    for (int k = 0; k < op_info[op].arity; k++) {
        m->at++; /* "(" or "," */
        in[k] = build(m, operand_dtype(m, op, k, t));
    }
    m->at++; /* ")" */
    return directed_emit(m->x, op, op_info[op].arity, in, NULL, m->x->base);
}

Node *directed_pattern(Directed *x, int i) {
    for (int tries = 0; tries < 10; tries++) {
        Text m = {.x = x, .at = rules[i].pattern, .where = rules[i].where};
        m.t = !strcmp(m.where, "INTEGER") ? DT_I32 : strcmp(m.where, "ANY") || pick_below(x, 2) ? DT_F32 : DT_I32;
        m.delicate = strstr(m.at, "div") || strstr(m.at, "pow") || strstr(m.at, "sqrt");
        const int before = x->pool.n;
        Node *n = build(&m, m.t);
        if (n) return n;
        x->pool.n = before;
    }
    return NULL;
}
