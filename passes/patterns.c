/* The interpreter of rules.def: matches a pattern's text against a candidate and its operands, and builds
 * the replacement from what the letters stand for. */
#include "passes/rewrite.h"
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
#include "passes/rules.def"
#undef RULE
};

typedef struct Match {
    Rewriter *r;
    const Node *root;
    Node *letter[4];   /* a b c d */
    Node *constant[2]; /* K L */
    const char *at;    /* in the text */
} Match;

typedef struct Token {
    char name[16]; /* empty for a number */
    double number;
    bool call; /* "(" follows; it is consumed */
} Token;

static Token next_token(Match *m) {
    Token t = {0};
    while (*m->at == ' ') m->at++;
    if (!isalpha((unsigned char)*m->at)) {
        char *end;
        t.number = strtod(m->at, &end);
        m->at = end;
        return t;
    }
    size_t length = 0;
    for (; isalnum((unsigned char)*m->at) || *m->at == '_'; m->at++)
        if (length + 1 < sizeof t.name) t.name[length++] = *m->at;
    t.call = *m->at == '(';
    m->at += t.call;
    return t;
}

static Op op_named(const char *name) {
    Op op = OP_COUNT;
    bool known = op_parse(name, &op);
    assert(known && "rules.def names ops of the table");
    (void)known;
    return op;
}

static bool match_node(Match *m, Node *n);

/* After "name(": the operands up to ")". */
static bool match_operands(Match *m, const Node *n) {
    for (int k = 0; k < n->n_in; k++) {
        if (!match_node(m, n->in[k])) return false;
        m->at++; /* "," or ")" */
    }
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
    Token t = next_token(m);
    if (!t.name[0]) return match_constant(m, n, t.number);
    if (t.call) return strcmp(t.name, op_info[n->op].text) == 0 && rewrite_seen(m->r, n, n->op) && match_operands(m, n);
    if (t.name[0] == 'K' || t.name[0] == 'L')
        return rewrite_seen(m->r, n, OP_CONST) && bind(&m->constant[t.name[0] - 'K'], n);
    return bind(&m->letter[t.name[0] - 'a'], n);
}

static Node *build(Match *m) {
    Token t = next_token(m);
    if (!t.name[0]) return rewrite_const(m->r, m->root->dtype, m->root->shape, t.number);
    if (!t.call && (t.name[0] == 'K' || t.name[0] == 'L')) return m->constant[t.name[0] - 'K'];
    if (!t.call) return m->letter[t.name[0] - 'a'];
    Op op = op_named(t.name);
    Node *in[3];
    for (int k = 0; k < op_info[op].arity; k++) {
        in[k] = build(m);
        m->at++; /* "," or ")" */
    }
    return rewrite_op(m->r, op, op_info[op].arity, in, NULL);
}

/* ---- conditions -------------------------------------------------------------------------------- */
static bool is_power_of_two(const Node *k) {
    int e;
    double fraction = frexp(k->attr->value, &e);
    int limit = k->dtype == DT_F16 ? 10 : 100;
    return fabs(fraction) == 0.5 && abs(e) < limit;
}

static bool is_moderate(double x) { return fabs(x) > 0x1p-40 && fabs(x) < 0x1p40; }

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
    for (int i = 0; i < PATTERN_COUNT; i++) {
        const PatternRule *rule = &rules[i];
        if (rule->op != n->op) continue;
        Match m = {.r = r, .root = n, .at = strchr(rule->pattern, '(') + 1};
        if (!match_operands(&m, n) || !where_holds(&m, rule->where)) continue;
        m.at = rule->replacement;
        if (r->fired) r->fired[RULE_PATTERN + i]++;
        return build(&m);
    }
    return NULL;
}
