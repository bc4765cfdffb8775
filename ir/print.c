/* Graph text.  parse.c reads it back to an identical graph, except for source places and dim names:
 *
 *   graph @digits entry=step {
 *     dim S <= 4096
 *     line "judge"
 *     param "c1.w" : f32[3,3,1,16] trainable step 1
 *     input "label" : i32[S] in 0..10
 *     output "loss" : f32[]
 *     hyper "lr" = 0.001
 *     %0 = param "c1.w" : f32[3,3,1,16]
 *     %3 = contract %1[i, k], %2[k, j] -> [i:64, j:256] sum [k:784] where 0 <= i - j < 64 : f32[64,256]
 *     %4 = sum %3 [0, 1] : f32[] !bwd
 *     output "loss" %4
 *     param "c1.w" <- %9
 *   }
 */
#include "ir/graph.h"
#include "ir/graph_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char *const phase_text[3] = {[PHASE_FORWARD] = "", [PHASE_BACKWARD] = "bwd", [PHASE_UPDATE] = "update"};
const char loop_letter[MAX_LOOPS + 1] = "ijklmnopqrstuvwx";

typedef struct Print {
    FILE *f;
    const Model *m;
} Print;

/* The shortest text that reads back as the same double. */
static void print_number(const Print *p, double x) {
    char text[40];
    if (isnan(x)) {
        fputs("nan", p->f);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    fputs(text, p->f);
}

static void print_string(const Print *p, const char *s) {
    fputc('"', p->f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            fprintf(p->f, "\\%c", c);
        } else if (c < 32 || c >= 127) {
            fprintf(p->f, "\\x%02x", c);
        } else {
            fputc(c, p->f);
        }
    }
    fputc('"', p->f);
}

/* One more term of a sum: " + 2*S", " - i", "-3". */
static void print_term(const Print *p, bool first, int64_t coef, const char *name, int name_length) {
    uint64_t size = coef < 0 ? -(uint64_t)coef : (uint64_t)coef;
    fputs(first ? (coef < 0 ? "-" : "") : (coef < 0 ? " - " : " + "), p->f);
    if (!name) {
        fprintf(p->f, "%" PRIu64, size);
    } else {
        if (size != 1) fprintf(p->f, "%" PRIu64 "*", size);
        fprintf(p->f, "%.*s", name_length, name);
    }
}

static void print_dim(const Print *p, Dim d) {
    if (dim_is_fixed(d)) {
        fprintf(p->f, "%" PRId64, d.bound);
        return;
    }
    bool known = d.sym >= 0 && d.sym < p->m->syms.n; /* a graph the verifier refuses prints too */
    print_term(p, true, d.scale, known ? p->m->syms.at[d.sym].name : "?", 1 << 20);
    if (d.offset) print_term(p, false, d.offset, NULL, 0);
}

static void print_type(const Print *p, DType t, Shape s) {
    fprintf(p->f, " : %s[", dtype_name(t));
    for (int d = 0; d < s.rank; d++) {
        if (d) fputc(',', p->f);
        print_dim(p, s.dim[d]);
    }
    fputc(']', p->f);
}

/* ---- contractions ------------------------------------------------------------------------------- */

static void print_affine(const Print *p, const Affine *e) {
    bool first = true;
    if (e->divisor != 1) fputc('(', p->f);
    for (int l = 0; l < MAX_LOOPS; l++) {
        if (e->coef[l] == 0) continue;
        print_term(p, first, e->coef[l], &loop_letter[l], 1);
        first = false;
    }
    if (first || e->c != 0) print_term(p, first, e->c, NULL, 0);
    if (e->divisor != 1) fprintf(p->f, ") / %" PRId64, e->divisor);
}

static void print_loops(const Print *p, const Contract *c, int from, int to) {
    fputc('[', p->f);
    for (int l = from; l < to; l++) {
        fprintf(p->f, "%s%c:", l == from ? "" : ", ", loop_letter[l]);
        print_dim(p, c->extent[l]);
    }
    fputc(']', p->f);
}

static void print_guard(const Print *p, const Guard *g) {
    if (g->kind == GUARD_RANGE) fprintf(p->f, "%" PRId64 " <= ", g->lo);
    print_affine(p, &g->e);
    if (g->kind == GUARD_RANGE) {
        fputs(" < ", p->f);
        print_dim(p, g->hi);
    } else {
        fputs(" == 0", p->f);
    }
}

static void print_contract(const Print *p, const Node *n) {
    const Contract *c = n->attr->contract;
    for (int i = 0; i < n->n_in; i++) {
        fprintf(p->f, "%s%%%d[", i ? ", " : " ", n->in[i]->id);
        for (int d = 0; d < n->in[i]->shape->rank; d++) {
            if (d) fputs(", ", p->f);
            print_affine(p, &c->map[i][d]);
        }
        fputc(']', p->f);
    }
    fputs(" -> ", p->f);
    print_loops(p, c, 0, c->n_out);
    if (c->n_loops > c->n_out) {
        fputs(" sum ", p->f);
        print_loops(p, c, c->n_out, c->n_loops);
    }
    for (int i = 0; i < c->n_guards; i++) {
        fputs(i ? ", " : " where ", p->f);
        print_guard(p, &c->guard[i]);
    }
}

/* ---- attributes ------------------------------------------------------------------------------------ */

static void print_axes(const Print *p, const Attr *a) {
    fputs(" [", p->f);
    for (int i = 0; i < a->n_axes; i++) fprintf(p->f, "%s%d", i ? ", " : "", a->axes[i]);
    fputc(']', p->f);
}

/* lo:count:step of a slice, lo:hi of a pad */
static void print_ranges(const Print *p, const Node *n) {
    const Attr *a = n->attr;
    fputs(" [", p->f);
    for (int d = 0; d < n->shape->rank; d++) {
        if (d) fputs(", ", p->f);
        print_dim(p, a->lo[d]);
        fputc(':', p->f);
        print_dim(p, a->hi[d]);
        if (n->op == OP_SLICE && a->step[d] != 1) fprintf(p->f, ":%" PRId64, a->step[d]);
    }
    fputc(']', p->f);
}

static void print_word_dim(const Print *p, const char *word, Dim d) {
    fputs(word, p->f);
    print_dim(p, d);
}

static const char *tensor_name(const TensorDecl *at, int n, int decl) {
    return decl >= 0 && decl < n && at[decl].name ? at[decl].name : "?";
}

static const char *decl_name(const Model *m, const Node *n) {
    int i = n->attr->decl;
    switch (n->op) {
    case OP_PARAM: return tensor_name(m->params.at, m->params.n, i);
    case OP_STATE: return tensor_name(m->states.at, m->states.n, i);
    case OP_INPUT: return tensor_name(m->inputs.at, m->inputs.n, i);
    default: return i >= 0 && i < m->hypers.n ? m->hypers.at[i].name : "?";
    }
}

static void print_attributes(const Print *p, const Node *n) {
    const Attr *a = n->attr;
    switch (n->op) {
    case OP_PARAM:
    case OP_STATE:
    case OP_INPUT:
    case OP_HYPER:
        fputc(' ', p->f);
        print_string(p, decl_name(p->m, n));
        break;
    case OP_EXTENT: print_word_dim(p, " ", a->extent); break;
    case OP_SLICE_AT:
    case OP_BUCKET:
    case OP_SCATTER_ADD:
    case OP_SCATTER_MAX:
    case OP_SCATTER_ARGMAX: print_word_dim(p, " rows ", a->extent); break;
    case OP_CONST:
        fputc(' ', p->f);
        print_number(p, a->value);
        break;
    case OP_IOTA:
    case OP_CONCAT: fprintf(p->f, " axis %d", a->axis); break;
    case OP_JACOBIAN:
        if (a->axis >= 0) fprintf(p->f, " batch %d", a->axis);
        break;
    case OP_RANDOM: fprintf(p->f, " stream %d", a->stream); break;
    case OP_SCAN:
        fprintf(p->f, " %s axis %d%s%s", (const char *const[]){"sum", "prod", "recurrence"}[a->scan], a->axis, a->reverse ? " reverse" : "",
                a->exclusive ? " exclusive" : "");
        break;
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_SUM:
    case OP_RMAX:
    case OP_RMIN:
    case OP_PROD:
    case OP_ARGMAX: print_axes(p, a); break;
    case OP_SLICE: print_ranges(p, n); break;
    case OP_PAD:
        print_ranges(p, n);
        fputs(" value ", p->f);
        print_number(p, a->value);
        break;
    default: break;
    }
}

/* ---- lines -------------------------------------------------------------------------------------------- */

static void print_node(const Print *p, const Node *n) {
    fprintf(p->f, "  %%%d = %s", n->id, op_info[n->op].text);
    if (n->op == OP_CONTRACT) {
        print_contract(p, n);
    } else {
        for (int i = 0; i < n->n_in; i++) fprintf(p->f, "%s%%%d", i ? ", " : " ", n->in[i]->id);
        print_attributes(p, n);
    }
    print_type(p, n->dtype, *n->shape);
    if (n->precision != PRECISION_F32) fprintf(p->f, " in %s", precision_name[n->precision]);
    if (n->phase != PHASE_FORWARD) fprintf(p->f, " !%s", phase_text[n->phase]);
    if (n->again) fputs(" again", p->f);
    if (n->remat) fprintf(p->f, " remat %d", n->remat);
    fputc('\n', p->f);
}

static void print_decl(const Print *p, const char *word, const TensorDecl *d) {
    fprintf(p->f, "  %s ", word);
    print_string(p, d->name);
    print_type(p, d->dtype, d->shape);
    if (d->has_range) fprintf(p->f, " in %" PRId64 "..%" PRId64, d->lo, d->hi);
    if (d->trainable) fputs(" trainable", p->f);
    if (d->outcome) fputs(" outcome", p->f);
    if (d->line) fprintf(p->f, " step %d", d->line);
    fputc('\n', p->f);
}

static void print_model(const Print *p) {
    const Model *m = p->m;
    for (int i = 0; i < m->syms.n; i++) {
        fprintf(p->f, "  dim %s <= %" PRId64 "\n", m->syms.at[i].name, m->syms.at[i].bound);
    }
    for (int i = 0; i < m->lines.n; i++) {
        fputs("  line ", p->f);
        print_string(p, m->lines.at[i]);
        fputc('\n', p->f);
    }
    for (int i = 0; i < m->params.n; i++) print_decl(p, "param", &m->params.at[i]);
    for (int i = 0; i < m->states.n; i++) print_decl(p, "state", &m->states.at[i]);
    for (int i = 0; i < m->inputs.n; i++) print_decl(p, "input", &m->inputs.at[i]);
    for (int i = 0; i < m->outputs.n; i++) print_decl(p, "output", &m->outputs.at[i]);
    for (int i = 0; i < m->hypers.n; i++) {
        fputs("  hyper ", p->f);
        print_string(p, m->hypers.at[i].name);
        fputs(" = ", p->f);
        print_number(p, m->hypers.at[i].value);
        fputc('\n', p->f);
    }
}

static void print_result(const Print *p, const Result *r) {
    static const char *const word[] = {"output", "grad", "param", "state"}, *const arrow[] = {" ", " = ", " <- ",
                                                                                              " <- "};
    const Model *m = p->m;
    const char *name = r->kind == RESULT_OUTPUT  ? tensor_name(m->outputs.at, m->outputs.n, r->decl)
                       : r->kind == RESULT_STATE ? tensor_name(m->states.at, m->states.n, r->decl)
                                                 : tensor_name(m->params.at, m->params.n, r->decl);
    fprintf(p->f, "  %s ", word[r->kind]);
    print_string(p, name);
    fprintf(p->f, "%s%%%d\n", arrow[r->kind], r->value ? r->value->id : -1);
}

void graph_print(FILE *f, const Graph *g) {
    Print p = {.f = f, .m = g->model};
    fprintf(f, "graph @%s entry=%s {\n", g->model->name, entry_name[g->entry]);
    print_model(&p);
    for (int i = 0; i < g->nodes.n; i++) print_node(&p, g->nodes.at[i]);
    for (int i = 0; i < g->results.n; i++) print_result(&p, &g->results.at[i]);
    fputs("}\n", f);
}
