/* Tile IR as text.  Prints any kernel, also one that the verifier refuses: references that lead
 * nowhere print as `?`.  Index expressions print in the order of their terms, so that the parser
 * rebuilds the very same structure. */
#include "ir/tile.h"
#include "ir/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Printer {
    FILE *f;
    const Kernel *k;
    bool canonical;
    int *number; /* canonical: number of each value, 0: none yet */
    int used;
} Printer;

static void print_block(Printer *p, const Block *b, int depth);
static void print_index(Printer *p, const Index *x);

/* ---- names ---------------------------------------------------------------------------------------- */
static void print_value(Printer *p, int v) {
    if (v < 0 || v >= p->k->types.n) {
        fputs("%?", p->f);
    } else if (!p->canonical) {
        fprintf(p->f, "%%%d", v);
    } else {
        if (!p->number[v]) p->number[v] = ++p->used;
        fprintf(p->f, "%%%d", p->number[v] - 1);
    }
}

static void print_values(Printer *p, int n, const int *v) {
    for (int i = 0; i < n; i++) {
        if (i) fputs(", ", p->f);
        print_value(p, v ? v[i] : -1);
    }
}

static void print_axis(Printer *p, int axis) {
    if (axis < 0 || axis >= p->k->axes.n)
        fputc('?', p->f);
    else if (p->canonical)
        fprintf(p->f, "a%d", axis);
    else
        fputs(p->k->axes.at[axis].name, p->f);
}

static void print_buffer_name(Printer *p, int b) {
    if (b < 0 || b >= p->k->buffers.n)
        fputs("%?", p->f);
    else if (p->canonical)
        fprintf(p->f, "%%b%d", b);
    else
        fprintf(p->f, "%%%s", p->k->buffers.at[b].name);
}

static void print_sym(Printer *p, int sym) {
    if (p->canonical)
        fprintf(p->f, "s%d", sym);
    else if (sym < 0 || sym >= p->k->n_syms || !p->k->sym_names)
        fputc('?', p->f);
    else
        fputs(p->k->sym_names[sym], p->f);
}

static bool axis_named(const Kernel *k, const char *name) {
    for (int i = 0; i < k->axes.n; i++)
        if (strcmp(k->axes.at[i].name, name) == 0) return true;
    return false;
}

/* ---- numbers, dimensions, types ------------------------------------------------------------------------ */
/* The shortest text that reads back as the same double. */
static void print_number(Printer *p, double v) {
    char text[40];
    if (isnan(v)) {
        fputs("nan", p->f);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    fputs(text, p->f);
}

static void print_dim(Printer *p, Dim d) {
    if (dim_is_fixed(d)) {
        fprintf(p->f, "%" PRId64, d.bound);
        return;
    }
    if (d.scale != 1) fprintf(p->f, "%" PRId64 "*", d.scale);
    print_sym(p, d.sym);
    if (d.offset) fprintf(p->f, "%+" PRId64, d.offset);
    fprintf(p->f, "<=%" PRId64, d.bound);
}

static void print_type(Printer *p, const TileType *t) {
    fprintf(p->f, " : %s", dtype_name(t->dtype));
    if (!t->n_axes) return;
    for (int i = 0; i < t->n_axes; i++) {
        const int a = t->axis[i];
        fputc(i ? ',' : '[', p->f);
        print_axis(p, a);
        fprintf(p->f, ":%d", a >= 0 && a < p->k->axes.n ? p->k->axes.at[a].step : 0);
    }
    fputc(']', p->f);
}

/* ---- index expressions ------------------------------------------------------------------------------------ */
/* Needs no parentheses beside `/` and `mod`. */
static bool is_simple(const Index *x) {
    if (!x) return true;
    if (x->n == 0) return x->c >= 0;
    return x->n == 1 && x->c == 0 && x->term[0].coef == 1 && x->term[0].atom.kind < ATOM_DIV;
}

static void print_operand(Printer *p, const Index *x) {
    const bool simple = is_simple(x);
    if (!simple) fputc('(', p->f);
    print_index(p, x);
    if (!simple) fputc(')', p->f);
}

static void print_atom(Printer *p, const Atom *a) {
    switch (a->kind) {
    case ATOM_AXIS: print_axis(p, a->id); break;
    case ATOM_EXTENT:
        if (!p->canonical && p->k->sym_names && a->id >= 0 && a->id < p->k->n_syms &&
            axis_named(p->k, p->k->sym_names[a->id]))
            fputc('$', p->f);
        print_sym(p, a->id);
        break;
    case ATOM_VALUE:
        print_value(p, a->id);
        if (a->lo < a->hi) fprintf(p->f, "{%" PRId64 "..%" PRId64 "}", a->lo, a->hi);
        break;
    case ATOM_TILE:
        fputc('@', p->f);
        print_axis(p, a->id);
        break;
    case ATOM_DIV:
    case ATOM_MOD:
        print_operand(p, a->num);
        fputs(a->kind == ATOM_DIV ? " / " : " mod ", p->f);
        print_operand(p, a->den);
        break;
    }
}

static uint64_t magnitude(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

static void print_term(Printer *p, const Term *t) {
    const uint64_t coef = magnitude(t->coef);
    const bool wrap = coef != 1 && t->atom.kind >= ATOM_DIV;
    if (coef != 1) fprintf(p->f, "%" PRIu64 "*", coef);
    if (wrap) fputc('(', p->f);
    print_atom(p, &t->atom);
    if (wrap) fputc(')', p->f);
}

static void print_index(Printer *p, const Index *x) {
    if (!x) {
        fputc('?', p->f);
        return;
    }
    for (int i = 0; i < x->n; i++) {
        if (i)
            fputs(x->term[i].coef < 0 ? " - " : " + ", p->f);
        else if (x->term[i].coef < 0)
            fputc('-', p->f);
        print_term(p, &x->term[i]);
    }
    if (x->n == 0)
        fprintf(p->f, "%" PRId64, x->c);
    else if (x->c)
        fprintf(p->f, " %c %" PRIu64, x->c < 0 ? '-' : '+', magnitude(x->c));
}

/* ---- instructions --------------------------------------------------------------------------------------------- */
static void print_access(Printer *p, const Inst *i) {
    print_buffer_name(p, i->buffer);
    fputc('[', p->f);
    for (int d = 0; d < i->n_index; d++) {
        if (d) fputs(", ", p->f);
        print_index(p, i->index[d]);
    }
    fputc(']', p->f);
}

static void print_over(Printer *p, const Inst *i) {
    fputs(" over ", p->f);
    for (int o = 0; o < i->n_over; o++) {
        if (o) fputs(", ", p->f);
        print_axis(p, i->over[o]);
    }
}

static void print_load(Printer *p, const Inst *i) {
    fputs("load ", p->f);
    print_access(p, i);
    if (!i->n_in) return;
    fputs(" where ", p->f);
    print_value(p, i->in[0]);
    fputs(" else ", p->f);
    print_number(p, i->value);
}

static void print_count(FILE *f, const char *name, int n) {
    if (n) fprintf(f, " %s %d", name, n);
}

static void print_pair(FILE *f, const char *name, const int n[2]) {
    print_count(f, name, n[0]);
    if (n[0] && n[1]) fprintf(f, ":%d", n[1]);
}

void host_schedule_print(FILE *f, const HostSchedule *s) {
    print_pair(f, "rows", s->rows);
    print_count(f, "columns", s->columns);
    print_pair(f, "taps", s->taps);
    print_count(f, "axes", s->axes);
    print_count(f, "sums", s->sums);
    print_count(f, "strip", s->strip);
    if (s->x) fprintf(f, " x %s", way_name[s->x]);
    if (s->y) fprintf(f, " y %s", way_name[s->y]);
    if (s->prefetch) fprintf(f, " prefetch %s", prefetch_name[s->prefetch]);
    if (s->start) fprintf(f, " %s", start_name[s->start]);
}

static void print_by(Printer *p, const Inst *i) {
    if (i->by == BY_NONE) return;
    fprintf(p->f, " by %s", i->by > BY_NONE && i->by < N_BY ? by_name[i->by] : "?");
    if (i->by == BY_THREADS || i->by == BY_ASYNC) fprintf(p->f, " %d", i->bytes);
    if (i->multicast) fputs(" multicast", p->f);
    host_schedule_print(p->f, &i->host);
}

static void print_store(Printer *p, const Inst *i) {
    fputs("store ", p->f);
    print_access(p, i);
    fputs(", ", p->f);
    print_values(p, i->n_in > 0, i->in);
    if (i->n_in > 1) {
        fputs(" where ", p->f);
        print_value(p, i->in[1]);
    }
    print_by(p, i);
}

static void print_bucket(Printer *p, const Inst *i) {
    fprintf(p->f, "bucket %%%s, %%%s over ", p->k->buffers.at[i->buffer].name, p->k->buffers.at[i->source].name);
    print_axis(p, i->axis);
}

static void print_carries(Printer *p, const Inst *i) {
    for (int c = 0; c < i->n_carry; c++) {
        fputs(c ? ", " : i->kind == TI_FOR ? " carry " : " init ", p->f);
        if (i->kind == TI_FOR) {
            print_value(p, i->carry ? i->carry[c] : -1);
            fputs(" = ", p->f);
        }
        print_value(p, i->init ? i->init[c] : -1);
    }
}

static void print_bound(Printer *p, const char *word, const Index *x) {
    if (!x) return;
    fputs(word, p->f);
    print_index(p, x);
}

static void print_nested(Printer *p, const Inst *i, int depth) {
    if (i->kind == TI_FOR) {
        fputs("for ", p->f);
        print_axis(p, i->axis);
        print_bound(p, " from ", i->from);
        print_bound(p, " to ", i->to);
        if (i->ahead) fprintf(p->f, " ahead %d", i->ahead);
    } else {
        fputs("if ", p->f);
        print_values(p, i->n_in, i->in);
    }
    print_carries(p, i);
    fputs(" {\n", p->f);
    print_block(p, &i->body, depth + 1);
    fprintf(p->f, "%*s}", 2 * depth, "");
}

static const char *const space_name[] = {"register", "local", "shared"};

static void print_stage(Printer *p, const Inst *i) {
    fputs("stage ", p->f);
    print_values(p, i->n_in, i->in);
    fprintf(p->f, " -> %s", i->space >= SPACE_REGISTER && i->space <= SPACE_SHARED ? space_name[i->space] : "?");
    if (i->minor != NO_AXIS) {
        fputs(" minor ", p->f);
        print_axis(p, i->minor - 1);
    }
    if (i->swizzle) fprintf(p->f, " swizzle %d", i->swizzle);
    print_by(p, i);
}

static void print_operation(Printer *p, const Inst *i, int depth) {
    switch (i->kind) {
    case TI_CONST:
    case TI_FULL:
        fputs(i->kind == TI_CONST ? "const " : "full ", p->f);
        print_number(p, i->value);
        break;
    case TI_INDEX:
        fputs("index ", p->f);
        if (i->n_index) print_index(p, i->index[0]);
        break;
    case TI_LOAD: print_load(p, i); break;
    case TI_STORE: print_store(p, i); break;
    case TI_BUCKET: print_bucket(p, i); break;
    case TI_ELEMENT:
    case TI_REDUCE:
    case TI_DOT:
        fprintf(p->f, "%s ", i->kind == TI_DOT ? "dot" : op_info[i->op].text);
        print_values(p, i->n_in, i->in);
        if (i->kind != TI_ELEMENT) print_over(p, i);
        print_by(p, i);
        break;
    case TI_STAGE: print_stage(p, i); break;
    case TI_FOR:
    case TI_IF: print_nested(p, i, depth); break;
    case TI_YIELD:
        fputs(i->n_in ? "yield " : "yield", p->f);
        print_values(p, i->n_in, i->in);
        break;
    }
}

static bool has_result(const Inst *i) {
    return i->kind != TI_FOR && i->kind != TI_IF && i->kind != TI_STORE && i->kind != TI_BUCKET && i->kind != TI_YIELD;
}

static void print_block(Printer *p, const Block *b, int depth) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        const bool nested = i->kind == TI_FOR || i->kind == TI_IF;
        fprintf(p->f, "%*s", 2 * depth, "");
        if (nested && i->n_carry) {
            print_values(p, i->n_carry, i->results);
            fputs(" = ", p->f);
        } else if (has_result(i)) {
            print_value(p, i->result);
            fputs(" = ", p->f);
        }
        print_operation(p, i, depth);
        if (has_result(i)) print_type(p, &i->type);
        fputc('\n', p->f);
    }
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */
static int printed_rank(const Buffer *b) { return b->rank < MAX_RANK ? b->rank : MAX_RANK; }

static bool dense(const Buffer *b) {
    int64_t want = 1;
    for (int d = printed_rank(b) - 1; d >= 0; d--) {
        if (b->stride[d] != want) return false;
        if (b->dim[d].bound > 0 && __builtin_mul_overflow(want, b->dim[d].bound, &want)) want = MAX_ELEMENTS;
    }
    return true;
}

static void print_buffer(Printer *p, int n) {
    const Buffer *b = &p->k->buffers.at[n];
    print_buffer_name(p, n);
    fprintf(p->f, ": %s[", dtype_name(b->dtype));
    for (int d = 0; d < printed_rank(b); d++) {
        if (d) fputc(',', p->f);
        print_dim(p, b->dim[d]);
    }
    fputc(']', p->f);
    if (!dense(b)) {
        for (int d = 0; d < printed_rank(b); d++) fprintf(p->f, "%s%" PRId64, d ? "," : " strides [", b->stride[d]);
        fputc(']', p->f);
    }
    if (b->written) fputs(" out", p->f);
    if (b->family) fprintf(p->f, " family %d", b->family);
    if (p->canonical && b->in_place) fprintf(p->f, " in place %d", b->in_place); /* back ends assume less of such a kernel */
}

static void print_syms(Printer *p) {
    const Kernel *k = p->k;
    for (int s = 0; s < k->n_syms; s++) {
        fputs(s ? ", " : "<", p->f);
        print_sym(p, s);
        if (k->sym_bounds) fprintf(p->f, "<=%" PRId64, k->sym_bounds[s]);
    }
    if (k->n_syms) fputc('>', p->f);
}

static void print_axis_line(Printer *p, int n) {
    static const char *const kind[] = {"grid", "loop", "span"};
    const Axis *a = &p->k->axes.at[n];
    fprintf(p->f, "  %s ", kind[a->kind]);
    print_axis(p, n);
    fputs(" in 0..", p->f);
    print_dim(p, a->extent);
    fprintf(p->f, " step %d", a->step);
    for (int b = 0; b < a->spread.n && b < MAX_SPREAD; b++) {
        if (!b) fputs(" spread", p->f);
        if (a->spread.bit[b] == SPREAD_REGISTER) fputs(" r", p->f);
        else fprintf(p->f, " t%d", a->spread.bit[b]);
    }
    if (a->cluster) fprintf(p->f, " cluster %d", a->cluster);
    if (a->order) fprintf(p->f, " order %d", a->order);
    if (a->slowest) fprintf(p->f, " slowest %d%s", a->slowest, a->down ? " down" : "");
    if (a->family) fputs(" family", p->f);
    fputc('\n', p->f);
}

static void print_comment(FILE *f, const char *text) {
    fputs("# ", f);
    for (; *text; text++) fputc(*text == '\n' || *text == '\r' ? ' ' : *text, f);
    fputc('\n', f);
}

static void print_threads(FILE *f, const Kernel *k) {
    fprintf(f, "  threads %d", k->threads);
    if (k->alternate) fprintf(f, " alternate %d", k->alternate);
    if (k->producer) fprintf(f, " producer %d", k->producer);
    if (k->registers[0] || k->registers[1]) fprintf(f, " registers %d:%d", k->registers[0], k->registers[1]);
    fprintf(f, "%s%s\n", k->persistent ? " persistent" : "", k->dependent ? " dependent" : "");
}

static void print_kernel(Printer *p);

static char *text_of(const Kernel *k, bool canonical, size_t *n) {
    TextStream t;
    int *number = memory_zeroed((size_t)k->types.n + 1, sizeof *number);
    print_kernel(&(Printer){.f = text_open(&t), .k = k, .canonical = canonical, .number = number});
    char *text = text_close(&t);
    *n = t.n;
    free(number);
    return text;
}

/* Which of the bundle's buffers the kernel's are, then the kernel. */
static void print_bundled(Printer *p, const Bundled *one) {
    size_t n;
    char *text = text_of(one->kernel, p->canonical, &n);
    fputs("  bundled (", p->f);
    for (int b = 0; b < one->kernel->buffers.n; b++) {
        if (b) fputs(", ", p->f);
        print_buffer_name(p, one->buffer[b]);
    }
    fputs(") {\n", p->f);
    for (size_t i = 0; i < n; i++) {
        if (!i || text[i - 1] == '\n') fputs("    ", p->f);
        fputc(text[i], p->f);
    }
    fputs("  }\n", p->f);
    free(text);
}

static void print_kernel(Printer *p) {
    const Kernel *k = p->k;
    if (!p->canonical && k->comment) print_comment(p->f, k->comment);
    fprintf(p->f, "kernel @%s", p->canonical ? "k" : k->name);
    print_syms(p);
    fputc('(', p->f);
    for (int b = 0; b < k->buffers.n; b++) {
        if (b) fputs(", ", p->f);
        print_buffer(p, b);
    }
    fputs(")\n", p->f);
    if (k->threads) print_threads(p->f, k);
    for (int a = 0; a < k->axes.n; a++) print_axis_line(p, a);
    print_block(p, &k->body, 1);
    for (int i = 0; i < k->bundle.n; i++) print_bundled(p, &k->bundle.at[i]);
}

void kernel_print(FILE *f, const Kernel *k) { print_kernel(&(Printer){.f = f, .k = k}); }

char *kernel_canonical(Arena *a, const Kernel *k) {
    size_t n;
    char *text = text_of(k, true, &n), *kept = arena_strndup(a, text, n);
    free(text);
    return kept;
}
