/* The interpreter's memory: addresses, element formats, and the checks on every access. */
#include "ir/tile_run.h"
#include "ir/integer.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- element formats ----------------------------------------------------------------------------- */
static double decode16(uint16_t bits, int fraction, int bias) {
    const int top = (1 << (15 - fraction)) - 1, e = bits >> fraction & top, f = bits & ((1 << fraction) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (e == top) return f ? NAN : sign * INFINITY;
    return sign * (e ? ldexp((1 << fraction) + f, e - bias - fraction) : ldexp(f, 1 - bias - fraction));
}

/* v is a value of the format already (scalar_round). */
static uint16_t encode16(double v, int fraction, int bias) {
    const int top = (1 << (15 - fraction)) - 1;
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v)) return (uint16_t)(top << fraction | 1 << (fraction - 1));
    if (isinf(v)) return (uint16_t)(sign | top << fraction);
    if (v == 0) return sign;
    const int e = ilogb(v) + bias;
    if (e <= 0) return (uint16_t)(sign | (int)ldexp(fabs(v), bias - 1 + fraction));
    return (uint16_t)(sign | e << fraction | ((int)ldexp(fabs(v), fraction + bias - e) - (1 << fraction)));
}

static double element_get(DType t, const void *at) {
    union {
        int32_t i32;
        float f32;
        double f64;
        uint16_t u16;
        uint8_t u8;
    } v = {0};
    memcpy(&v, at, (size_t)dtype_bytes(t));
    switch (t) {
    case DT_BOOL: return v.u8 != 0;
    case DT_I32: return v.i32;
    case DT_TF32:
    case DT_F32: return (double)v.f32;
    case DT_F64: return v.f64;
    case DT_F16: return decode16(v.u16, 10, 15);
    case DT_BF16: return decode16(v.u16, 7, 127);
    case DT_COUNT: break;
    }
    return NAN;
}

static void element_put(DType t, void *at, double x) {
    union {
        int32_t i32;
        float f32;
        double f64;
        uint16_t u16;
        uint8_t u8;
    } v = {0};
    switch (t) {
    case DT_BOOL: v.u8 = x != 0; break;
    case DT_I32: v.i32 = (int32_t)x; break;
    case DT_TF32:
    case DT_F32: v.f32 = (float)x; break;
    case DT_F64: v.f64 = x; break;
    case DT_F16: v.u16 = encode16(x, 10, 15); break;
    case DT_BF16: v.u16 = encode16(x, 7, 127); break;
    case DT_COUNT: break;
    }
    memcpy(at, &v, (size_t)dtype_bytes(t));
}

/* ---- set-up --------------------------------------------------------------------------------------------- */
static bool check_buffer(Machine *m, int n) {
    const Buffer *b = &m->k->buffers.at[n];
    int64_t last = 0, bytes;
    bool empty = false;
    for (int d = 0; d < b->rank; d++) {
        const int64_t extent = m->limit[n][d] = dim_at(b->dim[d], m->syms);
        int64_t reach;
        if (extent <= 0)
            empty = true;
        else if (__builtin_mul_overflow(extent - 1, b->stride[d], &reach) || __builtin_add_overflow(last, reach, &last))
            return run_fail(m, "buffer %%%s is larger than memory", b->name);
    }
    if (empty) return true;
    if (__builtin_mul_overflow(last, dtype_bytes(b->dtype), &bytes) ||
        bytes > m->memory[n].bytes - dtype_bytes(b->dtype))
        return run_fail(m, "buffer %%%s needs more than the %" PRId64 " bytes given", b->name, m->memory[n].bytes);
    return true;
}

/* The first buffer at the same address: in-place arguments are one memory. */
static int same_memory(const Machine *m, int n) {
    for (int o = 0; o < n; o++)
        if (m->memory[o].data == m->memory[n].data &&
            dtype_bytes(m->k->buffers.at[o].dtype) == dtype_bytes(m->k->buffers.at[n].dtype))
            return o;
    return n;
}

/* The access map of buffers at one address: none if no one of them is written. */
static Touch *touch_map(Machine *m, int first) {
    bool written = false;
    int64_t elements = 0;
    for (int b = first; b < m->k->buffers.n; b++) {
        if (same_memory(m, b) != first) continue;
        const int64_t n = m->memory[b].bytes / dtype_bytes(m->k->buffers.at[b].dtype);
        written = written || m->k->buffers.at[b].written;
        elements = n > elements ? n : elements;
    }
    return written ? ARENA_ARRAY(m->scratch, Touch, elements + 1) : NULL;
}

bool memory_prepare(Machine *m) {
    const int n = m->k->buffers.n;
    m->limit = arena_alloc(m->scratch, sizeof *m->limit * (size_t)(n + 1));
    m->touch = ARENA_ARRAY(m->scratch, Touch *, n + 1);
    for (int b = 0; b < n; b++)
        if (!check_buffer(m, b)) return false;
    for (int b = 0; b < n; b++) {
        const int first = same_memory(m, b);
        m->touch[b] = first == b ? touch_map(m, b) : m->touch[first];
    }
    return true;
}

/* ---- addresses ---------------------------------------------------------------------------------------------- */

static int64_t atom_value(Machine *m, const Atom *a) {
    switch (a->kind) {
    case ATOM_AXIS: return m->base[a->id] + m->lane[a->id];
    case ATOM_EXTENT: return m->syms[a->id];
    case ATOM_TILE: return m->base[a->id] / m->k->axes.at[a->id].step;
    case ATOM_VALUE: {
        const TileType *t = &m->k->types.at[a->id];
        const Tile *v = &m->value[a->id];
        int64_t at = 0;
        for (int x = 0; x < t->n_axes; x++) at += v->stride[t->axis[x]] * m->lane[t->axis[x]];
        return (int64_t)v->data[at];
    }
    case ATOM_DIV:
    case ATOM_MOD: {
        const int64_t n = memory_index(m, a->num), d = memory_index(m, a->den);
        if (d <= 0) {
            m->bad_divisor = true;
            return 0;
        }
        const int64_t r = n % d < 0 ? n % d + d : n % d;
        return a->kind == ATOM_MOD ? r : n / d - (n % d < 0);
    }
    }
    return 0;
}

int64_t memory_index(Machine *m, const Index *x) {
    int64_t v = x->c;
    for (int i = 0; i < x->n; i++) v = wrap_add(v, wrap_mul(x->term[i].coef, atom_value(m, &x->term[i].atom)));
    return v;
}

/* The subscripts along one row: stepped when they are affine in the inner axis, evaluated otherwise. */
typedef struct Cursor {
    const Inst *inst;
    bool affine;
    int64_t at[MAX_RANK], step[MAX_RANK];
} Cursor;

static Cursor cursor_make(const Machine *m, const Inst *i, int inner) {
    Cursor c = {.inst = i, .affine = true};
    for (int d = 0; d < i->n_index && inner >= 0; d++)
        c.affine = c.affine && index_affine_in(m->k, i->index[d], inner, &c.step[d]);
    return c;
}

static void cursor_evaluate(Machine *m, Cursor *c) {
    m->bad_divisor = false;
    for (int d = 0; d < c->inst->n_index; d++) c->at[d] = memory_index(m, c->inst->index[d]);
}

/* Moves to lane l of the row; lanes are visited in order. */
static void cursor_move(Machine *m, Cursor *c, int inner, int l) {
    if (inner >= 0) m->lane[inner] = l;
    if (l == 0 || !c->affine)
        cursor_evaluate(m, c);
    else
        for (int d = 0; d < c->inst->n_index; d++) c->at[d] = wrap_add(c->at[d], c->step[d]);
}

/* Of the family's buffers that of the program's member. */
static int buffer_of(const Machine *m, const Inst *access) {
    if (!m->k->buffers.at[access->buffer].family) return access->buffer;
    return access->buffer + (int)m->base[kernel_family_axis(m->k)];
}

static bool cursor_offset(Machine *m, const Cursor *c, int64_t *offset) {
    const int buffer = buffer_of(m, c->inst);
    const Buffer *b = &m->k->buffers.at[buffer];
    const int64_t *limit = m->limit[buffer];
    if (m->bad_divisor) return run_fail(m, "%%%s: an index divides by zero or less", b->name);
    *offset = 0;
    for (int d = 0; d < b->rank; d++) {
        if (c->at[d] < 0 || c->at[d] >= limit[d])
            return run_fail(m, "%s %%%s: index %" PRId64 " of dimension %d is out of bounds, 0..%" PRId64,
                            c->inst->kind == TI_LOAD ? "load" : "store", b->name, c->at[d], d, limit[d]);
        *offset += c->at[d] * b->stride[d];
    }
    return true;
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */
static bool read_element(Machine *m, int buffer, int64_t offset, double *out) {
    const Buffer *b = &m->k->buffers.at[buffer];
    const TileMemory *memory = &m->memory[buffer];
    const int bytes = dtype_bytes(b->dtype);
    if (memory->defined)
        for (int i = 0; i < bytes; i++)
            if (!memory->defined[offset * bytes + i])
                return run_fail(m, "load %%%s: element %" PRId64 " is uninitialised", b->name, offset);
    if (m->touch[buffer]) {
        Touch *t = &m->touch[buffer][offset];
        if (t->writer && t->writer != m->program)
            return run_fail(m, "%%%s: element %" PRId64 " is written by program %d and read by another", b->name,
                            offset, t->writer - 1);
        t->reader = t->reader == 0 || t->reader == m->program ? m->program : -1;
    }
    *out = element_get(b->dtype, (const char *)memory->data + offset * bytes);
    return true;
}

static bool write_element(Machine *m, int buffer, int64_t offset, double v) {
    const Buffer *b = &m->k->buffers.at[buffer];
    const TileMemory *memory = &m->memory[buffer];
    const int bytes = dtype_bytes(b->dtype);
    Touch *t = &m->touch[buffer][offset];
    if (t->writer && t->writer != m->program)
        return run_fail(m, "store %%%s: element %" PRId64 " is written by program %d too", b->name, offset,
                        t->writer - 1);
    if (t->reader && t->reader != m->program)
        return run_fail(m, "store %%%s: element %" PRId64 " is read by another program", b->name, offset);
    if (t->stamp == m->stamp) return run_fail(m, "store %%%s: two lanes write element %" PRId64, b->name, offset);
    *t = (Touch){.writer = m->program, .reader = t->reader, .stamp = m->stamp};
    element_put(b->dtype, (char *)memory->data + offset * bytes, v);
    if (memory->defined) memset(memory->defined + offset * bytes, 1, (size_t)bytes);
    return true;
}

bool memory_load(Machine *m, const Inst *i) {
    const double other = scalar_round(i->type.dtype, i->value);
    for (Rows r = rows_begin(m, &i->type); r.more; rows_next(m, &r)) {
        int64_t out_step, mask_step = 0, offset;
        double *out = tile_row(m, &r, i->result, &out_step);
        const double *mask = i->n_in ? tile_row(m, &r, i->in[0], &mask_step) : NULL;
        Cursor c = cursor_make(m, i, r.inner);
        for (int l = 0; l < r.count; l++) {
            cursor_move(m, &c, r.inner, l);
            out[l * out_step] = other;
            if (mask && mask[l * mask_step] == 0) continue;
            if (!cursor_offset(m, &c, &offset) || !read_element(m, buffer_of(m, i), offset, &out[l * out_step])) return false;
        }
    }
    return true;
}

bool memory_store(Machine *m, const Inst *i) {
    TileType t = m->k->types.at[i->in[0]];
    for (int d = 0; d < i->n_index; d++) index_axes(m->k, i->index[d], &t);
    if (i->n_in > 1) t = tile_type_union(t, m->k->types.at[i->in[1]]);
    m->stamp++;
    for (Rows r = rows_begin(m, &t); r.more; rows_next(m, &r)) {
        int64_t step, mask_step = 0, offset;
        const double *v = tile_row(m, &r, i->in[0], &step);
        const double *mask = i->n_in > 1 ? tile_row(m, &r, i->in[1], &mask_step) : NULL;
        Cursor c = cursor_make(m, i, r.inner);
        for (int l = 0; l < r.count; l++) {
            cursor_move(m, &c, r.inner, l);
            if (mask && mask[l * mask_step] == 0) continue;
            if (!cursor_offset(m, &c, &offset) || !write_element(m, buffer_of(m, i), offset, v[l * step])) return false;
        }
    }
    return true;
}

/* ---- buckets ----------------------------------------------------------------------------------------------------- */
/* Id number i, in row-major order. */
static bool id_at(Machine *m, int buffer, int64_t i, double *id) {
    const Buffer *b = &m->k->buffers.at[buffer];
    int64_t offset = 0;
    for (int d = b->rank - 1; d >= 0; d--) {
        offset += i % b->dim[d].bound * b->stride[d];
        i /= b->dim[d].bound;
    }
    return read_element(m, buffer, offset, id);
}

bool memory_bucket(Machine *m, const Inst *i) {
    const Buffer *ids = &m->k->buffers.at[i->source];
    const int64_t rows = m->extent[i->axis], first = m->base[i->axis], end = first + m->active[i->axis];
    int64_t n = 1, at = 0;
    double id;
    for (int d = 0; d < ids->rank; d++) n *= ids->dim[d].bound;
    for (int64_t k = 0; k < n; k++) {
        if (!id_at(m, i->source, k, &id)) return false;
        at += id >= 0 && id < (double)first;
    }
    m->stamp++;
    for (int64_t r = first; r < end; r++) {
        if (!write_element(m, i->buffer, r, (double)at)) return false;
        for (int64_t k = 0; k < n; k++) {
            if (!id_at(m, i->source, k, &id)) return false;
            if (id == (double)r && !write_element(m, i->buffer, rows + 1 + at++, (double)k)) return false;
        }
    }
    return end < rows || write_element(m, i->buffer, rows, (double)at);
}
