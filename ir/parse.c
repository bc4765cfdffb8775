/* Reads graph text (print.c shows the form).  Every node goes through graph_infer, so that what comes
 * back is well shaped; decl and symbol references are resolved by name.  graph_verify says the rest. */
#include "ir/parse.h"
#include <string.h>

/* ---- declarations -------------------------------------------------------------------------------------------- */

static void parse_sym(Parse *p) {
    Token where = p->lex.token;
    const char *name = graph_parse_name(p);
    graph_lexer_expect(&p->lex, TOKEN_LE, "'<='");
    int64_t bound = graph_parse_integer(p, 0, MAX_ELEMENTS);
    for (int i = 0; i < p->model->syms.n; i++) {
        if (strcmp(p->model->syms.at[i].name, name) == 0) graph_lexer_fail(&p->lex, &where, "dim '%s' again", name);
    }
    vec_push(p->arena, p->model->syms, (SymDecl){.name = name, .bound = bound});
}

static TensorDecl parse_decl(Parse *p, const char *name) {
    TensorDecl d = {.name = name};
    graph_lexer_expect(&p->lex, ':', "':' and a type");
    graph_parse_type(p, &d.dtype, &d.shape);
    if (graph_lexer_word(&p->lex, "in")) {
        d.has_range = true;
        d.lo = graph_parse_integer(p, INT64_MIN, INT64_MAX);
        graph_lexer_expect(&p->lex, TOKEN_RANGE, "'..'");
        d.hi = graph_parse_integer(p, INT64_MIN, INT64_MAX);
    }
    d.trainable = graph_lexer_word(&p->lex, "trainable");
    d.outcome = graph_lexer_word(&p->lex, "outcome");
    if (graph_lexer_word(&p->lex, "step")) d.line = (int)graph_parse_integer(p, 1, p->model->lines.n);
    return d;
}

static int find_decl(const TensorDecl *at, int n, const char *name) {
    for (int i = 0; i < n; i++) {
        if (strcmp(at[i].name, name) == 0) return i;
    }
    return -1;
}

#define FIND(list, name) find_decl((list).at, (list).n, name)

static int find_hyper(const Model *m, const char *name) {
    for (int i = 0; i < m->hypers.n; i++) {
        if (strcmp(m->hypers.at[i].name, name) == 0) return i;
    }
    return -1;
}

static void parse_hyper(Parse *p, const char *name) {
    graph_lexer_expect(&p->lex, '=', "'='");
    double value = graph_parse_number(p);
    vec_push(p->arena, p->model->hypers, (HyperDecl){.name = name, .value = value});
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static Node *parse_value(Parse *p) {
    Token t = p->lex.token;
    graph_lexer_expect(&p->lex, TOKEN_VALUE, "a value");
    if (!p->lex.error && t.integer >= p->graph->nodes.n) {
        graph_lexer_fail(&p->lex, &t, "%%%d is not defined yet", (int)t.integer);
    }
    return p->lex.error ? NULL : p->graph->nodes.at[t.integer];
}

static void parse_operands(Parse *p, NodeList *in) {
    if (!graph_lexer_is(&p->lex, TOKEN_VALUE)) return;
    do {
        Node *n = parse_value(p);
        if (n) vec_push(p->arena, *in, n);
    } while (graph_lexer_take(&p->lex, ','));
}

/* [i:64, j:S]; appends to the loops of the contraction */
static void parse_loops(Parse *p, Contract *c) {
    graph_lexer_expect(&p->lex, '[', "'['");
    for (bool first = true; !p->lex.error && !graph_lexer_is(&p->lex, ']'); first = false) {
        if (!first) graph_lexer_expect(&p->lex, ',', "',' or ']'");
        Token name = p->lex.token;
        graph_lexer_expect(&p->lex, TOKEN_NAME, "a loop's name");
        for (int l = 0; l < c->n_loops && !p->lex.error; l++) {
            bool same = p->loop[l].length == name.length && !memcmp(p->loop[l].text, name.text, (size_t)name.length);
            if (same) graph_lexer_fail(&p->lex, &name, "loop '%.*s' again", name.length, name.text);
        }
        if (c->n_loops == MAX_LOOPS) graph_lexer_fail(&p->lex, &name, "more than %d loops", MAX_LOOPS);
        graph_lexer_expect(&p->lex, ':', "':'");
        Dim d = graph_parse_dim(p);
        if (p->lex.error) return;
        p->loop[c->n_loops] = name;
        c->extent[c->n_loops++] = d;
        p->n_loops = c->n_loops;
    }
    graph_lexer_expect(&p->lex, ']', "']'");
}

static void parse_contract_operand(Parse *p, NodeList *in, Contract *c) {
    Token where = p->lex.token;
    Node *n = parse_value(p);
    Affine *map = c->map[in->n];
    graph_lexer_expect(&p->lex, '[', "'['");
    int rank = 0;
    while (!p->lex.error && !graph_lexer_is(&p->lex, ']')) {
        if (rank > 0) graph_lexer_expect(&p->lex, ',', "',' or ']'");
        if (rank == n->shape->rank) graph_lexer_fail(&p->lex, &where, "%%%d has %d axes", n->id, rank);
        if (!p->lex.error) map[rank++] = graph_parse_affine(p);
    }
    graph_lexer_expect(&p->lex, ']', "']'");
    if (p->lex.error) return;
    if (rank != n->shape->rank) graph_lexer_fail(&p->lex, &where, "%%%d has %d axes", n->id, n->shape->rank);
    vec_push(p->arena, *in, n);
}

static Guard parse_guard(Parse *p) {
    Guard g = {.kind = GUARD_EQ};
    Lexer start = p->lex;
    bool negative = graph_lexer_take(&p->lex, '-');
    if (graph_lexer_is(&p->lex, TOKEN_INTEGER)) {
        g.lo = negative ? -p->lex.token.integer : p->lex.token.integer;
        graph_lexer_next(&p->lex);
        if (graph_lexer_take(&p->lex, TOKEN_LE)) g.kind = GUARD_RANGE;
    }
    if (g.kind == GUARD_RANGE) {
        g.e = graph_parse_affine(p);
        graph_lexer_expect(&p->lex, '<', "'<'");
        g.hi = graph_parse_dim(p);
        return g;
    }
    if (!p->lex.error) p->lex = start;
    g.lo = 0;
    g.e = graph_parse_affine(p);
    graph_lexer_expect(&p->lex, TOKEN_EQ, "'=='");
    graph_parse_integer(p, 0, 0);
    return g;
}

/* Subscripts use loops that are named after them: the loops are read first, from a saved place. */
static const Contract *parse_contract(Parse *p, NodeList *in) {
    Contract *c = ARENA_NEW(p->arena, Contract);
    Lexer operands = p->lex;
    int n = 0;
    for (; !graph_lexer_is(&p->lex, TOKEN_ARROW) && !graph_lexer_is(&p->lex, TOKEN_END); graph_lexer_next(&p->lex)) {
        n += graph_lexer_is(&p->lex, TOKEN_VALUE);
    }
    c->map = arena_alloc(p->arena, sizeof *c->map * (size_t)(n + 1));
    p->n_loops = 0;
    graph_lexer_expect(&p->lex, TOKEN_ARROW, "'->'");
    parse_loops(p, c);
    c->n_out = c->n_loops;
    if (graph_lexer_word(&p->lex, "sum")) parse_loops(p, c);
    if (p->lex.error) return c;
    Lexer after = p->lex;
    p->lex = operands;
    do {
        if (in->n == n) graph_lexer_fail(&p->lex, &p->lex.token, "expected '->'");
        if (!p->lex.error) parse_contract_operand(p, in, c);
    } while (graph_lexer_take(&p->lex, ','));
    graph_lexer_expect(&p->lex, TOKEN_ARROW, "',' or '->'");
    if (p->lex.error) return c;
    p->lex = after;
    c->n_operands = in->n;
    VEC(Guard) guards = {0};
    if (graph_lexer_word(&p->lex, "where")) {
        do {
            Guard g = parse_guard(p);
            vec_push(p->arena, guards, g);
        } while (graph_lexer_take(&p->lex, ','));
    }
    c->guard = guards.at;
    c->n_guards = guards.n;
    return c;
}

static void parse_axes(Parse *p, Attr *a) {
    graph_lexer_expect(&p->lex, '[', "'['");
    while (!p->lex.error && !graph_lexer_is(&p->lex, ']')) {
        if (a->n_axes == MAX_RANK) graph_lexer_fail(&p->lex, &p->lex.token, "more than %d axes", MAX_RANK);
        if (a->n_axes > 0) graph_lexer_expect(&p->lex, ',', "',' or ']'");
        int axis = (int)graph_parse_integer(p, 0, MAX_RANK - 1);
        if (!p->lex.error) a->axes[a->n_axes++] = (int8_t)axis;
    }
    graph_lexer_expect(&p->lex, ']', "']'");
}

static void parse_ranges(Parse *p, Attr *a, int rank) {
    graph_lexer_expect(&p->lex, '[', "'['");
    for (int d = 0; d < rank && !p->lex.error; d++) {
        if (d) graph_lexer_expect(&p->lex, ',', "','");
        a->lo[d] = graph_parse_dim(p);
        graph_lexer_expect(&p->lex, ':', "':'");
        a->hi[d] = graph_parse_dim(p);
        a->step[d] = graph_lexer_take(&p->lex, ':') ? graph_parse_integer(p, -MAX_ELEMENTS, MAX_ELEMENTS) : 1;
    }
    graph_lexer_expect(&p->lex, ']', "']'");
}

static int parse_axis(Parse *p) {
    if (!graph_lexer_word(&p->lex, "axis")) graph_lexer_fail(&p->lex, &p->lex.token, "expected 'axis'");
    return (int)graph_parse_integer(p, 0, MAX_RANK - 1);
}

static void parse_word(Parse *p, const char *word) {
    if (!graph_lexer_word(&p->lex, word)) graph_lexer_fail(&p->lex, &p->lex.token, "expected '%s'", word);
}

static int parse_decl_name(Parse *p, Op op) {
    Token where = p->lex.token;
    const char *name = graph_lexer_string(&p->lex);
    const Model *m = p->model;
    int i = op == OP_PARAM   ? FIND(m->params, name)
            : op == OP_STATE ? FIND(m->states, name)
            : op == OP_INPUT ? FIND(m->inputs, name)
                             : find_hyper(m, name);
    if (i < 0) graph_lexer_fail(&p->lex, &where, "unknown %s \"%s\"", op_info[op].text, name);
    return i;
}

static void parse_scan(Parse *p, Attr *a) {
    if (graph_lexer_word(&p->lex, "prod")) {
        a->scan = SCAN_PROD;
    } else if (graph_lexer_word(&p->lex, "recurrence")) {
        a->scan = SCAN_LINEAR;
    } else {
        parse_word(p, "sum");
    }
    a->axis = parse_axis(p);
    a->reverse = graph_lexer_word(&p->lex, "reverse");
    a->exclusive = graph_lexer_word(&p->lex, "exclusive");
}

static void parse_attributes(Parse *p, Op op, const NodeList *in, Attr *a) {
    int rank = in->n > 0 ? in->at[0]->shape->rank : 0;
    switch (op) {
    case OP_PARAM:
    case OP_STATE:
    case OP_INPUT:
    case OP_HYPER: a->decl = parse_decl_name(p, op); break;
    case OP_EXTENT: a->extent = graph_parse_dim(p); break;
    case OP_SLICE_AT:
    case OP_BUCKET:
    case OP_SCATTER_ADD:
    case OP_SCATTER_MAX:
    case OP_SCATTER_ARGMAX:
        parse_word(p, "rows");
        a->extent = graph_parse_dim(p);
        break;
    case OP_CONST: a->value = graph_parse_number(p); break;
    case OP_IOTA:
    case OP_CONCAT: a->axis = parse_axis(p); break;
    case OP_JACOBIAN: a->axis = graph_lexer_word(&p->lex, "batch") ? (int)graph_parse_integer(p, 0, MAX_RANK - 1) : -1; break;
    case OP_RANDOM:
        parse_word(p, "stream");
        a->stream = (int)graph_parse_integer(p, INT32_MIN, INT32_MAX);
        break;
    case OP_SCAN: parse_scan(p, a); break;
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_SUM:
    case OP_RMAX:
    case OP_RMIN:
    case OP_PROD:
    case OP_ARGMAX: parse_axes(p, a); break;
    case OP_SLICE: parse_ranges(p, a, rank); break;
    case OP_PAD:
        parse_ranges(p, a, rank);
        for (int d = 0; d < rank; d++) a->step[d] = 0; /* a pad has none */
        parse_word(p, "value");
        a->value = graph_parse_number(p);
        break;
    default: break;
    }
}

static Precision parse_precision(Parse *p) {
    Token where = p->lex.token;
    const char *name = graph_parse_name(p);
    for (int i = 0; i < PRECISION_COUNT; i++)
        if (!p->lex.error && strcmp(name, precision_name[i]) == 0) return (Precision)i;
    graph_lexer_fail(&p->lex, &where, "unknown precision '%s'", name);
    return PRECISION_F32;
}

static void parse_marks(Parse *p, Node *n) {
    if (op_has_precision(n->op) && graph_lexer_word(&p->lex, "in")) n->precision = parse_precision(p);
    if (graph_lexer_take(&p->lex, '!')) {
        Token where = p->lex.token;
        const char *name = graph_parse_name(p);
        for (int i = PHASE_BACKWARD; i <= PHASE_UPDATE; i++) {
            if (strcmp(name, phase_text[i]) == 0) n->phase = (Phase)i;
        }
        if (n->phase == PHASE_FORWARD) graph_lexer_fail(&p->lex, &where, "unknown phase '%s'", name);
    }
    n->again = graph_lexer_word(&p->lex, "again");
    if (graph_lexer_word(&p->lex, "remat")) n->remat = (int)graph_parse_integer(p, 1, INT32_MAX);
}

/* Adds the node if its operands fit its op and the stated type is what comes out. */
static void finish_node(Parse *p, const Token *where, Op op, const NodeList *in, Attr *a) {
    DType stated, dtype;
    Shape stated_shape, shape;
    const char *why = NULL;
    graph_lexer_expect(&p->lex, ':', "':' and a type");
    graph_parse_type(p, &stated, &stated_shape);
    if (p->lex.error) return;
    if (op_info[op].type == TYPE_ATTR) a->dtype = stated;
    if (op == OP_CONTRACT && stated == DT_F32 && in->at[0]->dtype != DT_F32 && dtype_is_float(in->at[0]->dtype)) {
        Contract *wide = arena_dup(p->arena, a->contract, sizeof *wide);
        wide->to_f32 = true;
        a->contract = wide;
    }
    shape = stated_shape;
    if (!graph_infer(p->arena, op, in->n, in->at, a, &dtype, &shape, &why)) {
        graph_lexer_fail(&p->lex, where, "%s", why);
    } else if (dtype != stated || !shape_equal(shape, stated_shape)) {
        graph_lexer_fail(&p->lex, where, "the result is %s%s", dtype_name(dtype), shape_text(p->arena, shape));
    } else {
        parse_marks(p, graph_node(p->graph, op, in->n, in->at, a, dtype, stated_shape));
    }
}

static void parse_node(Parse *p) {
    Token where = p->lex.token;
    if (where.integer != p->graph->nodes.n) graph_lexer_fail(&p->lex, &where, "expected %%%d", p->graph->nodes.n);
    graph_lexer_expect(&p->lex, TOKEN_VALUE, "a value");
    graph_lexer_expect(&p->lex, '=', "'='");
    Token name = p->lex.token;
    Op op = OP_COUNT;
    const char *text = graph_parse_name(p);
    if (!p->lex.error && !op_parse(text, &op)) graph_lexer_fail(&p->lex, &name, "unknown op '%s'", text);
    if (p->lex.error) return;
    NodeList in = {0};
    Attr attr = {0};
    if (op == OP_CONTRACT) {
        attr.contract = parse_contract(p, &in);
    } else {
        parse_operands(p, &in);
        if (!p->lex.error) parse_attributes(p, op, &in, &attr);
    }
    if (!p->lex.error) finish_node(p, &name, op, &in, &attr);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void parse_result(Parse *p, const Token *where, ResultKind kind, const char *name) {
    const Model *m = p->model;
    int decl = kind == RESULT_OUTPUT  ? FIND(m->outputs, name)
               : kind == RESULT_STATE ? FIND(m->states, name)
                                      : FIND(m->params, name);
    if (decl < 0) graph_lexer_fail(&p->lex, where, "result for unknown \"%s\"", name);
    Node *value = parse_value(p);
    if (!p->lex.error) graph_result(p->graph, kind, decl, value);
}

/* A declaration `WORD "name" : type` or a result `output "name" %1`, `WORD "name" <- %1`, `grad "name" = %1`. */
static void parse_statement(Parse *p) {
    Token word = p->lex.token;
    graph_lexer_expect(&p->lex, TOKEN_NAME, "a declaration, a node or a result");
    if (token_is(&word, "dim")) {
        parse_sym(p);
        return;
    }
    const char *name = graph_lexer_string(&p->lex);
    bool declares = graph_lexer_is(&p->lex, ':');
    if (token_is(&word, "hyper")) {
        parse_hyper(p, name);
    } else if (token_is(&word, "line")) {
        if (p->model->lines.n == MAX_LINES) graph_lexer_fail(&p->lex, &word, "more than %d lines", MAX_LINES);
        else vec_push(p->arena, p->model->lines, name);
    } else if (token_is(&word, "input")) {
        vec_push(p->arena, p->model->inputs, parse_decl(p, name));
    } else if (token_is(&word, "output")) {
        if (declares) {
            vec_push(p->arena, p->model->outputs, parse_decl(p, name));
        } else {
            parse_result(p, &word, RESULT_OUTPUT, name);
        }
    } else if (token_is(&word, "param") || token_is(&word, "state")) {
        bool is_param = token_is(&word, "param");
        if (declares && is_param) {
            vec_push(p->arena, p->model->params, parse_decl(p, name));
        } else if (declares) {
            vec_push(p->arena, p->model->states, parse_decl(p, name));
        } else {
            graph_lexer_expect(&p->lex, TOKEN_GETS, "':' or '<-'");
            parse_result(p, &word, is_param ? RESULT_PARAM : RESULT_STATE, name);
        }
    } else if (token_is(&word, "grad")) {
        graph_lexer_expect(&p->lex, '=', "'='");
        parse_result(p, &word, RESULT_GRAD, name);
    } else {
        graph_lexer_fail(&p->lex, &word, "expected a declaration, a node or a result");
    }
}

static void parse_header(Parse *p) {
    parse_word(p, "graph");
    graph_lexer_expect(&p->lex, '@', "'@'");
    p->model->name = graph_parse_name(p);
    parse_word(p, "entry");
    graph_lexer_expect(&p->lex, '=', "'='");
    Token where = p->lex.token;
    const char *entry = graph_parse_name(p);
    int e = 0;
    while (e < ENTRY_COUNT && strcmp(entry, entry_name[e]) != 0) e++;
    if (e == ENTRY_COUNT) graph_lexer_fail(&p->lex, &where, "unknown entry '%s'", entry);
    p->graph->entry = (Entry)(e % ENTRY_COUNT);
}

Graph *graph_parse(Arena *a, const char *text, const char **error) {
    Parse p = {.lex = graph_lexer_start(a, text), .arena = a, .model = ARENA_NEW(a, Model)};
    p.graph = graph_new(a, p.model, ENTRY_INIT);
    parse_header(&p);
    graph_lexer_expect(&p.lex, '{', "'{'");
    while (!p.lex.error && !graph_lexer_is(&p.lex, '}') && !graph_lexer_is(&p.lex, TOKEN_END)) {
        if (graph_lexer_is(&p.lex, TOKEN_VALUE)) {
            parse_node(&p);
        } else {
            parse_statement(&p);
        }
    }
    graph_lexer_expect(&p.lex, '}', "'}'");
    if (!p.lex.error && !graph_lexer_is(&p.lex, TOKEN_END)) graph_lexer_fail(&p.lex, &p.lex.token, "text after the graph");
    *error = p.lex.error;
    return p.lex.error ? NULL : p.graph;
}
