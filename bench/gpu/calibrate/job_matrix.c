/* mma.sync on fragments of drawn bits, which need no knowledge of where an element of a fragment belongs; ldmatrix and
 * stmatrix on rows in shared memory. */
#include "bench/gpu/calibrate/job.h"
#include <string.h>

typedef struct Form {
    int m, n, k;
    Element d, a, b;
} Form;
static const Form FORMS[] = {
#define MMA(m, n, k, d, a, b) {m, n, k, d, a, b},
#include "bench/gpu/calibrate/mma_forms.def"
#undef MMA
};

enum { SETS = 4, WARP = 32 }; /* warps with inputs of their own */

static int registers(int elements, Element e) { return elements * element_bits(e) / (WARP * (e == F64 ? 64 : 32)); }

/* form: row of FORMS, draw, saturating */
static const Form *form_of(const Job *j) { return &FORMS[j->form[0]]; }

static void list(Text *t, const char *name, int count, const char *end) {
    for (int r = 0; r < count; r++) text_add(t, "%s%%%s%d", r ? "," : "{", name, r);
    text_add(t, "}%s", end);
}

static void fragments(Text *t, const char *name, const char *type, int count, int wide) {
    for (int r = 0; r < count; r++)
        text_add(t, "ld.global.%s %%%s%d, [%%p0]; add.u64 %%p0, %%p0, %d;\n", type, name, r, SETS * WARP * wide);
}

/* Memory is [register][thread]. */
static void mma_body(const Job *j, Text *t, int label) {
    const Form *f = form_of(j);
    const int wide = f->a == F64 ? 8 : 4, na = registers(f->m * f->k, f->a), nb = registers(f->k * f->n, f->b),
              nd = registers(f->m * f->n, f->d);
    const char *type = wide == 8 ? "f64" : "b32", *sum = f->d == F32 ? "f32" : type;
    (void)label;
    text_add(t,
             ".reg .b64 %%p<3>; .reg .b32 %%x; .reg .%s %%a<8>, %%b<8>; .reg .%s %%c<8>, %%d<8>;\n"
             "ld.param.u64 %%p0, [in]; ld.param.u64 %%p1, [out]; mov.u32 %%x, %%tid.x; mad.wide.u32 %%p0, %%x, %d, "
             "%%p0; mad.wide.u32 %%p1, %%x, %d, %%p1;\n",
             type, sum, wide, wide);
    fragments(t, "a", type, na, wide);
    fragments(t, "b", type, nb, wide);
    fragments(t, "c", sum, nd, wide);
    text_add(t, "mma.sync.aligned.m%dn%dk%d.row.col%s.%s.%s.%s.%s ", f->m, f->n, f->k, j->form[2] ? ".satfinite" : "",
             element_name(f->d), element_name(f->a), element_name(f->b), element_name(f->d));
    list(t, "d", nd, ", ");
    list(t, "a", na, ", ");
    list(t, "b", nb, ", ");
    list(t, "c", nd, ";\n");
    for (int r = 0; r < nd; r++) text_add(t, "st.global.%s [%%p1+%d], %%d%d;\n", sum, r * SETS * WARP * wide, r);
}

static uint8_t *draw(uint8_t *to, Element e, Draw how, size_t bytes, uint64_t *state) {
    const int bits = element_bits(e);
    for (size_t n = 0; n < bytes; n += 4) {
        uint64_t w = 0;
        for (int at = 0; at < (bits == 64 ? 64 : 32); at += bits) w |= element_draw(e, how, state) << at;
        memcpy(to + n, &w, bits == 64 ? 8 : 4);
        n += bits == 64 ? 4 : 0;
    }
    return to + bytes;
}

static size_t fragment_bytes(int elements, Element e) { return (size_t)(elements * element_bits(e) / 8 * SETS); }

static void mma_fill(const Job *j, uint8_t *in, uint8_t *out) {
    const Form *f = form_of(j);
    const Draw how = (Draw)j->form[1];
    uint64_t state = (uint64_t)j->form[0] * 8 + (uint64_t)how;
    (void)out;
    in = draw(in, f->a, how, fragment_bytes(f->m * f->k, f->a), &state);
    in = draw(in, f->b, how, fragment_bytes(f->k * f->n, f->b), &state);
    draw(in, f->d, f->d == S32 && j->form[2] ? DRAW_SPECIAL : how, fragment_bytes(f->m * f->n, f->d), &state);
}

static void add_mma(Jobs *jobs, int row, Draw how, bool saturating) {
    const Form *f = &FORMS[row];
    Job *j = jobs_add(jobs, "mma.m%dn%dk%d%s.%s.%s.%s/%s", f->m, f->n, f->k, saturating ? ".satfinite" : "",
                      element_name(f->d), element_name(f->a), element_name(f->b), draw_names[how]);
    j->judgement = how == DRAW_WHOLE || f->d == S32 ? EXACT : SUM;
    j->element = f->d == S32 ? U32 : f->d;
    j->each = f->d == F16 ? 2 : 1;
    j->record = f->d == F64 ? 8 : 4;
    j->in_bytes = (uint32_t)(fragment_bytes(f->m * f->k, f->a) + fragment_bytes(f->k * f->n, f->b) +
                             fragment_bytes(f->m * f->n, f->d));
    j->out_bytes = (uint32_t)fragment_bytes(f->m * f->n, f->d);
    j->blocks = 1;
    j->threads = SETS * WARP;
    j->body = mma_body;
    j->fill = mma_fill;
    j->form[0] = row;
    j->form[1] = (int)how;
    j->form[2] = saturating;
}

/* ---- ldmatrix, stmatrix ----------------------------------------------------------------------------------- */
/* form: tiles, transposed, store.  Each lane's row is at (5 lane + 3) mod 32 of the 32 rows. */
static void move_body(const Job *j, Text *t, int label) {
    const int tiles = j->form[0];
    const char *trans = j->form[1] ? ".trans" : "";
    (void)label;
    text_add(t,
             ".reg .b64 %%p<4>; .reg .b32 %%x<6>, %%d<4>;\n"
             "ld.param.u64 %%p0, [in]; ld.param.u64 %%p1, [out]; mov.u32 %%x0, %%tid.x; mad.wide.u32 %%p0, %%x0, 16, "
             "%%p0; mad.wide.u32 %%p1, %%x0, 16, %%p1;\nmov.u32 %%x2, s; shl.b32 %%x1, %%x0, 4; add.u32 %%x1, %%x1, "
             "%%x2; mad.lo.u32 %%x3, %%x0, 5, 3; and.b32 %%x3, %%x3, 31; shl.b32 %%x3, %%x3, 4; add.u32 %%x2, %%x2, "
             "%%x3;\nld.global.v4.b32 {%%d0,%%d1,%%d2,%%d3}, [%%p0]; st.shared.v4.b32 [%%x1], {%%d0,%%d1,%%d2,%%d3}; "
             "bar.sync 0;\n");
    text_add(t,
             j->form[2] ? "stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%x2], "
                        : "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 ",
             tiles, trans);
    list(t, "d", tiles, j->form[2] ? ";\n" : ", [%x2];\n");
    text_add(t, "bar.sync 0;\n%sst.global.v4.b32 [%%p1], {%%d0,%%d1,%%d2,%%d3};\n",
             j->form[2] ? "ld.shared.v4.b32 {%d0,%d1,%d2,%d3}, [%x1]; " : "");
}

static void move_fill(const Job *j, uint8_t *in, uint8_t *out) {
    uint64_t state = 5;
    (void)out;
    draw(in, U32, DRAW_SPECIAL, j->in_bytes, &state);
}

static void add_move(Jobs *jobs, int tiles, bool transposed, bool store) {
    Job *j = jobs_add(jobs, "%smatrix.x%d%s", store ? "st" : "ld", tiles, transposed ? ".trans" : "");
    j->element = U32;
    j->record = 4;
    j->in_bytes = j->out_bytes = j->shared = WARP * 16;
    j->blocks = 1;
    j->threads = WARP;
    j->body = move_body;
    j->fill = move_fill;
    j->form[0] = tiles;
    j->form[1] = transposed;
    j->form[2] = store;
}

void jobs_of_matrices(Jobs *jobs) {
    for (int x = 0; x < 12; x++) add_move(jobs, 1 << x % 3, x / 3 % 2, x / 6);
    for (int k = 0; k < (int)(sizeof FORMS / sizeof *FORMS); k++) {
        const bool integer = FORMS[k].d == S32;
        for (Draw how = integer ? DRAW_SPECIAL : DRAW_WHOLE; how <= DRAW_SPECIAL; how++) add_mma(jobs, k, how, false);
        if (integer) add_mma(jobs, k, DRAW_SPECIAL, true);
    }
}
