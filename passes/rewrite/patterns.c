/* The interpreter of rules.def: matches a pattern against a candidate and its operands, and builds the replacement from
 * what the letters stand for.  The texts are read once per walk. */
#include "passes/rewrite/rewrite.h"
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { WHERE_ANY, WHERE_FLOAT, WHERE_INTEGER, WHERE_POWER_OF_TWO, WHERE_MODERATE } Where;

typedef struct PatternRule {
    Op op;
    const char *pattern, *replacement;
    Where where;
} PatternRule;

static const PatternRule rules[PATTERN_COUNT] = {
#define RULE(op, pattern, replacement, where) {OP_##op, pattern, replacement, WHERE_##where},
#include "passes/rewrite/rules.def"
#undef RULE
};

/* ---- reading the texts -------------------------------------------------------------------------- */
typedef enum { TOKEN_NUMBER, TOKEN_LETTER, TOKEN_CONSTANT, TOKEN_CALL } TokenKind;

/* A pattern or a replacement is its tokens in the order of the text, each call before its operands. */
typedef struct Token {
    TokenKind kind;
    int which; /* LETTER a .. d, CONSTANT K or L: from 0; CALL: the op */
    double number;
} Token;
typedef VEC(Token) TokenList;

struct PatternTable {
    const Token *pattern[PATTERN_COUNT], *replacement[PATTERN_COUNT];
    int first[OP_COUNT], next[PATTERN_COUNT]; /* rules of an op, in order: 1 + number, 0 ends */
};

static Op op_named(const char *name) {
    Op op = OP_COUNT;
    bool known = op_parse(name, &op);
    assert(known && "rules.def names ops of the table");
    (void)known;
    return op;
}

static const char *read_name(const char *at, Token *out) {
    char name[16] = {0};
    size_t length = 0;
    for (; isalnum((unsigned char)*at) || *at == '_'; at++)
        if (length + 1 < sizeof name) name[length++] = *at;
    if (*at == '(')
        *out = (Token){.kind = TOKEN_CALL, .which = (int)op_named(name)};
    else if (name[0] == 'K' || name[0] == 'L')
        *out = (Token){.kind = TOKEN_CONSTANT, .which = name[0] - 'K'};
    else
        *out = (Token){.kind = TOKEN_LETTER, .which = name[0] - 'a'};
    return at;
}

static const Token *read_tokens(Arena *a, const char *at) {
    TokenList tokens = {0};
    while (*at) {
        Token t = {0};
        if (isalpha((unsigned char)*at)) {
            at = read_name(at, &t);
        } else {
            char *end;
            t.number = strtod(at, &end);
            at = end;
        }
        vec_push(a, tokens, t);
        at += strspn(at, " (,)"); /* arities say how tokens nest */
    }
    return tokens.at;
}

static const struct PatternTable *read_rules(Arena *a) {
    struct PatternTable *t = ARENA_NEW(a, struct PatternTable);
    for (int i = PATTERN_COUNT - 1; i >= 0; i--) {
        t->pattern[i] = read_tokens(a, rules[i].pattern);
        t->replacement[i] = read_tokens(a, rules[i].replacement);
        t->next[i] = t->first[rules[i].op];
        t->first[rules[i].op] = i + 1;
    }
    return t;
}

/* ---- matching --------------------------------------------------------------------------------------- */
typedef struct Match {
    Rewriter *r;
    const Node *root;
    Node *letter[4];   /* a b c d */
    Node *constant[2]; /* K L */
    const Token *at;   /* the next token */
} Match;

static bool match_node(Match *m, Node *n);

static bool match_operands(Match *m, const Node *n) {
    for (int k = 0; k < n->n_in; k++)
        if (!match_node(m, n->in[k])) return false;
    return true;
}

static bool match_constant(const Match *m, const Node *n, double value) {
    return rewrite_seen(m->r, n, OP_CONST) && n->attr->value == value;
}

static bool bind(Node **place, Node *n) {
    if (*place && *place != n) return false;
    *place = n;
    return true;
}

static bool match_node(Match *m, Node *n) {
    const Token *t = m->at++;
    switch (t->kind) {
    case TOKEN_NUMBER: return match_constant(m, n, t->number);
    case TOKEN_CALL: return rewrite_seen(m->r, n, (Op)t->which) && match_operands(m, n);
    case TOKEN_CONSTANT: return rewrite_seen(m->r, n, OP_CONST) && bind(&m->constant[t->which], n);
    case TOKEN_LETTER:
    default: return bind(&m->letter[t->which], n);
    }
}

static Node *build(Match *m) {
    const Token *t = m->at++;
    if (t->kind == TOKEN_NUMBER) return rewrite_const(m->r, m->root->dtype, *m->root->shape, t->number);
    if (t->kind == TOKEN_CONSTANT) return m->constant[t->which];
    if (t->kind == TOKEN_LETTER) return m->letter[t->which];
    const Op op = (Op)t->which;
    Node *in[3];
    for (int k = 0; k < op_info[op].arity; k++) in[k] = build(m);
    return rewrite_op(m->r, op, op_info[op].arity, in, NULL);
}

/* ---- conditions -------------------------------------------------------------------------------- */
static bool is_power_of_two(const Node *k) {
    int e;
    double fraction = frexp(k->attr->value, &e);
    int limit = k->dtype == DT_F16 ? 10 : 100;
    return fabs(fraction) == 0.5 && abs(e) < limit;
}

static bool where_holds(const Match *m, Where where) {
    DType t = m->root->in[m->root->n_in - 1]->dtype;
    switch (where) {
    case WHERE_FLOAT: return dtype_is_float(t);
    case WHERE_INTEGER: return !dtype_is_float(t);
    case WHERE_POWER_OF_TWO: return dtype_is_float(t) && is_power_of_two(m->constant[0]);
    case WHERE_MODERATE: {
        double k = m->constant[0]->attr->value, l = m->constant[1]->attr->value;
        return dtype_is_float(t) && t != DT_F16 && is_moderate(k) && is_moderate(l) && is_moderate(k * l);
    }
    case WHERE_ANY:
    default: return true;
    }
}

Node *rule_patterns(Rewriter *r, const Node *n) {
    if (!r->patterns) r->patterns = read_rules(r->scratch);
    const struct PatternTable *t = r->patterns;
    for (int i = t->first[n->op] - 1; i >= 0; i = t->next[i] - 1) {
        Match m = {.r = r, .root = n, .at = t->pattern[i] + 1};
        if (!match_operands(&m, n) || !where_holds(&m, rules[i].where)) continue;
        m.at = t->replacement[i];
        if (r->fired) r->fired[RULE_PATTERN + i]++;
        return build(&m);
    }
    return NULL;
}
