/* The Tile IR interpreter: the meaning of a kernel, one program after the other.
 *
 * Values are doubles, rounded to their dtype after every instruction.  A reduction or a dot adds in
 * double, in index order, and rounds its result once; i32 sums and products wrap.  Back ends may add
 * in f32 and in another order: results agree up to that. */
#include "ir/tile_run.h"
#include "ir/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LANES = 1 << 26 }; /* of all values of a kernel together */

bool run_fail(Machine *m, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *what = arena_vprintf(m->errors, fmt, ap);
    va_end(ap);
    if (m->error) return false;
    m->error = m->program ? arena_printf(m->errors, "kernel %s, program %d: %s", m->k->name, m->program - 1, what)
                          : arena_printf(m->errors, "kernel %s: %s", m->k->name, what);
    return false;
}

/* ---- rows -------------------------------------------------------------------------------------------- */
Rows rows_begin(Machine *m, const TileType *t) {
    Rows r = {.n = t->n_axes ? t->n_axes - 1 : 0, .inner = -1, .count = 1, .more = true};
    for (int i = 0; i < t->n_axes; i++) {
        r.axis[i] = t->axis[i];
        m->lane[t->axis[i]] = 0;
        if (m->active[t->axis[i]] <= 0) r.more = false;
    }
    if (t->n_axes) {
        r.inner = t->axis[r.n];
        r.count = m->active[r.inner];
    }
    return r;
}

void rows_next(Machine *m, Rows *r) {
    if (r->inner >= 0) m->lane[r->inner] = 0;
    for (int i = r->n - 1; i >= 0; i--) {
        if (++m->lane[r->axis[i]] < m->active[r->axis[i]]) return;
        m->lane[r->axis[i]] = 0;
    }
    r->more = false;
}

double *tile_row(const Machine *m, const Rows *r, int value, int64_t *step) {
    const Tile *t = &m->value[value];
    double *at = t->data;
    for (int i = 0; i < r->n; i++) at += t->stride[r->axis[i]] * m->lane[r->axis[i]];
    *step = r->inner >= 0 ? t->stride[r->inner] : 0;
    return at;
}

/* ---- arithmetic ------------------------------------------------------------------------------------------ */
static void fill(Machine *m, int value, double v) {
    const TileType *t = &m->k->types.at[value];
    v = scalar_round(t->dtype, v);
    for (Rows r = rows_begin(m, t); r.more; rows_next(m, &r)) {
        int64_t step;
        double *out = tile_row(m, &r, value, &step);
        for (int l = 0; l < r.count; l++) out[l * step] = v;
    }
}

static void run_index(Machine *m, const Inst *i) {
    for (Rows r = rows_begin(m, &i->type); r.more; rows_next(m, &r)) {
        int64_t step;
        double *out = tile_row(m, &r, i->result, &step);
        for (int l = 0; l < r.count; l++) {
            if (r.inner >= 0) m->lane[r.inner] = l;
            m->bad_divisor = false;
            const int64_t at = memory_index(m, i->index[0]);
            out[l * step] = at < INT32_MIN ? INT32_MIN : at > INT32_MAX ? INT32_MAX : (double)at;
            if (m->bad_divisor) run_fail(m, "%%%d: an index divides by zero or less", i->result);
        }
    }
}

static void run_element(Machine *m, const Inst *i) {
    enum { MAX_ARITY = 4 };
    const TileType *first = &m->k->types.at[i->in[0]];
    const bool computes_in_result = op_info[i->op].type != TYPE_BOOL; /* a comparison computes in its operands' dtype */
    const DType in = computes_in_result ? i->type.dtype : first->dtype, out_type = i->type.dtype;
    for (Rows r = rows_begin(m, &i->type); r.more; rows_next(m, &r)) {
        int64_t step, in_step[MAX_ARITY];
        const double *at[MAX_ARITY];
        double *out = tile_row(m, &r, i->result, &step), x[MAX_ARITY];
        for (int n = 0; n < i->n_in; n++) at[n] = tile_row(m, &r, i->in[n], &in_step[n]);
        for (int l = 0; l < r.count; l++) {
            for (int n = 0; n < i->n_in; n++) x[n] = at[n][l * in_step[n]];
            out[l * step] = scalar_round(out_type, scalar_op(i->op, in, x));
        }
    }
}

static void round_all(Machine *m, int value) {
    const TileType *t = &m->k->types.at[value];
    for (Rows r = rows_begin(m, t); r.more; rows_next(m, &r)) {
        int64_t step;
        double *out = tile_row(m, &r, value, &step);
        for (int l = 0; l < r.count; l++) out[l * step] = scalar_round(t->dtype, out[l * step]);
    }
}

static void set_all(Machine *m, int value, double v) {
    const TileType *t = &m->k->types.at[value];
    for (Rows r = rows_begin(m, t); r.more; rows_next(m, &r)) {
        int64_t step;
        double *out = tile_row(m, &r, value, &step);
        for (int l = 0; l < r.count; l++) out[l * step] = v;
    }
}

static void run_reduce(Machine *m, const Inst *i) {
    const Op step_op = scalar_step(i->op);
    const DType t = i->type.dtype, compute = t == DT_I32 ? DT_I32 : DT_F64;
    set_all(m, i->result, scalar_identity(i->op, t));
    for (Rows r = rows_begin(m, &m->k->types.at[i->in[0]]); r.more; rows_next(m, &r)) {
        int64_t step, in_step;
        double *out = tile_row(m, &r, i->result, &step);
        const double *in = tile_row(m, &r, i->in[0], &in_step);
        for (int l = 0; l < r.count; l++)
            out[l * step] = scalar_op(step_op, compute, (double[]){out[l * step], in[l * in_step]});
    }
    round_all(m, i->result);
}

static TileType add_over(TileType t, const Inst *i) {
    for (int o = 0; o < i->n_over; o++) t = tile_type_union(t, (TileType){.n_axes = 1, .axis = {i->over[o]}});
    return t;
}

static void run_dot(Machine *m, const Inst *i) {
    const TileType all = add_over(i->type, i);
    set_all(m, i->result, 0);
    for (Rows r = rows_begin(m, &all); r.more; rows_next(m, &r)) {
        int64_t step, xs, ys;
        double *out = tile_row(m, &r, i->result, &step);
        const double *x = tile_row(m, &r, i->in[0], &xs), *y = tile_row(m, &r, i->in[1], &ys);
        for (int l = 0; l < r.count; l++) out[l * step] += x[l * xs] * y[l * ys];
    }
    for (Rows r = rows_begin(m, &i->type); r.more; rows_next(m, &r)) {
        int64_t step, as;
        double *out = tile_row(m, &r, i->result, &step);
        const double *acc = tile_row(m, &r, i->in[2], &as);
        for (int l = 0; l < r.count; l++) {
            const double sum = out[l * step] + acc[l * as];
            out[l * step] = i->type.dtype == DT_I32 && fabs(sum) < 0x1p53
                                ? (double)(int32_t)(uint32_t)(uint64_t)(int64_t)sum
                                : scalar_round(i->type.dtype, sum);
        }
    }
}

/* ---- control ------------------------------------------------------------------------------------------------- */
static bool run_block(Machine *m, const Block *b);

static int64_t lanes_of(const Kernel *k, const TileType *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_axes; i++)
        if (__builtin_mul_overflow(n, k->axes.at[t->axis[i]].step, &n)) return INT64_MAX;
    return n;
}

static void copy(Machine *m, int to, int from) {
    if (to == from) return;
    memcpy(m->value[to].data, m->value[from].data, sizeof(double) * (size_t)lanes_of(m->k, &m->k->types.at[to]));
}

static void copy_all(Machine *m, int n, const int *to, const int *from) {
    for (int c = 0; c < n; c++) copy(m, to[c], from[c]);
}

static const Inst *yield_of(const Inst *i) { return vec_last(i->body); }

static void set_tile(Machine *m, int axis, int64_t base) {
    const int64_t rest = m->extent[axis] - base;
    const int step = m->k->axes.at[axis].step;
    m->base[axis] = base;
    m->active[axis] = rest < 0 ? 0 : rest < step ? (int)rest : step;
}

/* The yields pass through results[], which the body cannot see, so that carries may be exchanged. */
static bool run_for(Machine *m, const Inst *i) {
    copy_all(m, i->n_carry, i->results, i->init);
    for (int64_t base = 0; base < m->extent[i->axis]; base += m->k->axes.at[i->axis].step) {
        copy_all(m, i->n_carry, i->carry, i->results);
        set_tile(m, i->axis, base);
        if (!run_block(m, &i->body)) return false;
        copy_all(m, i->n_carry, i->results, yield_of(i)->in);
    }
    m->active[i->axis] = 0;
    return true;
}

static bool run_if(Machine *m, const Inst *i) {
    if (m->value[i->in[0]].data[0] == 0) {
        copy_all(m, i->n_carry, i->results, i->init);
        return true;
    }
    if (!run_block(m, &i->body)) return false;
    copy_all(m, i->n_carry, i->results, yield_of(i)->in);
    return true;
}

static bool run_inst(Machine *m, const Inst *i) {
    switch (i->kind) {
    case TI_CONST:
    case TI_FULL: fill(m, i->result, i->value); break;
    case TI_INDEX: run_index(m, i); break;
    case TI_LOAD: return memory_load(m, i);
    case TI_STORE: return memory_store(m, i);
    case TI_BUCKET: return memory_bucket(m, i);
    case TI_ELEMENT: run_element(m, i); break;
    case TI_REDUCE: run_reduce(m, i); break;
    case TI_DOT: run_dot(m, i); break;
    case TI_STAGE: copy(m, i->result, i->in[0]); break;
    case TI_FOR: return run_for(m, i);
    case TI_IF: return run_if(m, i);
    case TI_YIELD: break;
    }
    return m->error == NULL;
}

static bool run_block(Machine *m, const Block *b) {
    for (int n = 0; n < b->n; n++)
        if (!run_inst(m, b->at[n])) return false;
    return true;
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */
static bool allocate(Machine *m) {
    const Kernel *k = m->k;
    int64_t total = 0;
    m->value = ARENA_ARRAY(m->scratch, Tile, k->types.n + 1);
    for (int v = 0; v < k->types.n; v++) {
        const TileType *t = &k->types.at[v];
        int64_t lanes = 1;
        for (int i = t->n_axes - 1; i >= 0; i--) {
            m->value[v].stride[t->axis[i]] = lanes;
            lanes *= k->axes.at[t->axis[i]].step;
            if (lanes > MAX_LANES) break;
        }
        total += lanes;
        if (total > MAX_LANES) return run_fail(m, "its tiles are too large to interpret");
        m->value[v].data = ARENA_ARRAY(m->scratch, double, lanes);
    }
    return true;
}

static void set_program(Machine *m, int64_t program) {
    for (int a = m->k->axes.n - 1; a >= 0; a--) {
        const Axis *x = &m->k->axes.at[a];
        if (x->kind != AXIS_GRID) continue;
        const int64_t tiles = (m->extent[a] + x->step - 1) / x->step;
        set_tile(m, a, program % tiles * x->step);
        program /= tiles;
    }
}

static bool set_extents(Machine *m) {
    const Kernel *k = m->k;
    if (k->n_syms && !m->syms) return run_fail(m, "the run-time extents are missing");
    for (int a = 0; a < k->axes.n; a++) {
        m->extent[a] = dim_at(k->axes.at[a].extent, m->syms);
        if (m->extent[a] > k->axes.at[a].extent.bound)
            return run_fail(m, "axis %s is longer than its bound", k->axes.at[a].name);
    }
    return true;
}

static bool run_grid(Machine *m) {
    const int64_t programs = kernel_programs(m->k, m->syms);
    if (programs >= INT32_MAX) return run_fail(m, "too many programs to interpret");
    if (!allocate(m) || !memory_prepare(m)) return false;
    for (int a = 0; a < m->k->axes.n; a++)
        if (m->k->axes.at[a].kind == AXIS_SPAN) set_tile(m, a, 0);
    for (int64_t p = 0; p < programs; p++) {
        m->program = (int32_t)p + 1;
        set_program(m, p);
        if (!run_block(m, &m->k->body)) return false;
    }
    return true;
}

/* Does the bundle's kernel write where another one reads or writes? */
static bool bundled_meet(const Kernel *k, const TileMemory *buffers, int n) {
    bool *own = memory_zeroed((size_t)k->buffers.n + 1, sizeof *own), meet = false;
    const Bundled *p = &k->bundle.at[n];
    for (int i = 0; i < p->kernel->buffers.n; i++) own[p->buffer[i]] = true;
    for (int i = 0; i < k->buffers.n; i++)
        for (int j = 0; j < k->buffers.n && own[i] && k->buffers.at[i].written; j++) {
            const char *x = buffers[i].data, *y = buffers[j].data;
            meet |= !own[j] && x < y + buffers[j].bytes && y < x + buffers[i].bytes;
        }
    free(own);
    return meet;
}

static bool run_bundle(Arena *a, const Kernel *k, const TileMemory *buffers, const int64_t *syms, const char **error) {
    for (int n = 0; n < k->bundle.n; n++) {
        const Bundled *p = &k->bundle.at[n];
        TileMemory *memory = ARENA_ARRAY(a, TileMemory, p->kernel->buffers.n + 1);
        for (int i = 0; i < p->kernel->buffers.n; i++) memory[i] = buffers[p->buffer[i]];
        if (bundled_meet(k, buffers, n)) {
            *error = arena_printf(a, "kernel %s: %s, which it bundles, writes memory of another one", k->name, p->kernel->name);
            return false;
        }
        if (!kernel_run(a, p->kernel, memory, syms, error)) return false;
    }
    return true;
}

bool kernel_run(Arena *a, const Kernel *k, const TileMemory *buffers, const int64_t *syms, const char **error) {
    *error = kernel_verify(a, k);
    if (*error) return false;
    if (k->bundle.n) return run_bundle(a, k, buffers, syms, error);
    Machine m = {.errors = a, .scratch = arena_new(), .k = k, .memory = buffers, .syms = syms};
    const bool ok = set_extents(&m) && run_grid(&m);
    arena_free(m.scratch);
    *error = m.error;
    return ok;
}
