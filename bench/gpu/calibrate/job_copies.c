/* Tensor copies (tiled) with their swizzles, fill values and reductions; bulk reductions; atomics. */
#include "bench/gpu/calibrate/job.h"
#include <stdio.h>
#include <string.h>

enum { BOX = 4096, ATOMIC_THREADS = 256 };

/* CUtensorMapDataType */
static const struct {
    const char *name, *text;
    int bytes;
    bool floating;
    Element element;
} TYPE[] = {{"u8", NULL, 1, false, U8},         {"u16", NULL, 2, false, U16},
            {"u32", "u32", 4, false, U32},      {"s32", "s32", 4, false, S32},
            {"u64", "u64", 8, false, U64},      {"s64", "s64", 8, false, U64},
            {"f16", "noftz.f16", 2, true, F16}, {"f32", "f32", 4, true, F32},
            {"f64", "f64", 8, true, F64},       {"bf16", "noftz.bf16", 2, true, BF16},
            {"f32_ftz", NULL, 4, true, F32},    {"tf32", NULL, 4, true, F32},
            {"tf32_ftz", NULL, 4, true, F32}};
enum { TYPES = sizeof TYPE / sizeof *TYPE };

static uint32_t box_bytes(const Tensor *t) {
    uint32_t n = (uint32_t)TYPE[t->type].bytes;
    for (int d = 0; d < t->rank; d++) n *= (t->box[d] + t->step[d] - 1) / t->step[d];
    return n;
}

static uint32_t row_bytes(const Tensor *t) { return (uint32_t)TYPE[t->type].bytes * t->box[0]; }

/* Rows narrower than the span of a swizzle are a span apart in shared memory, with nothing defined between them. */
static bool narrow(const Tensor *t) { return t->swizzle && row_bytes(t) < 16u << t->swizzle; }

/* One thread.  text: NULL loads the box and copies it to out as it lies in shared memory, narrow rows without swizzle;
 * "" stores it, ".add" reduces into the tensor, which is `out`; the box comes from `in`. */
static void tensor_body(const Job *j, Text *t, int label) {
    const Tensor *m = &j->tensor;
    const bool store = j->text;
    char at[96] = "";
    for (int d = 0, n = 0; d < m->rank; d++)
        n += snprintf(at + n, sizeof at - (size_t)n, "%s%d", d ? ", " : "", m->at[d]);
    text_add(t, ".reg .b32 %%r<9>; .reg .b64 %%rd<9>; .reg .pred %%p<4>; .shared .align 8 .b64 bar;\n"
                "mov.b64 %%rd1, map; cvta.param.u64 %%rd1, %%rd1; ld.param.u64 %%rd2, [in]; ld.param.u64 %%rd3, [out]; "
                "mov.u32 %%r1, s; mov.u32 %%r2, 0; mbarrier.init.shared.b64 [bar], 1;\n");
    if (store)
        text_add(t,
                 "FILL%d: ld.global.u32 %%r3, [%%rd2]; st.shared.u32 [%%r1], %%r3; add.u32 %%r1, %%r1, 4; add.u64 "
                 "%%rd2, %%rd2, 4; add.u32 %%r2, %%r2, 4; setp.lt.u32 %%p2, %%r2, %d; @%%p2 bra FILL%d;\n"
                 "fence.proxy.async; %s.async.bulk.tensor.%dd.global.shared::cta%s.tile.bulk_group [%%rd1, {%s}], "
                 "[s]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n",
                 label, BOX, label, *j->text ? "cp.reduce" : "cp", m->rank, j->text, at);
    else
        text_add(t,
                 "fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 _, [bar], %u;\n"
                 "cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%%rd1, {%s}], "
                 "[bar];\nWAIT%d: mbarrier.try_wait.parity.shared.b64 %%p1, [bar], 0; @!%%p1 bra WAIT%d;\n"
                 "COPY%d: and.b32 %%r4, %%r2, %d; mad.lo.u32 %%r4, %%r4, %u, %%r2; shr.u32 %%r5, %%r4, 7; "
                 "and.b32 %%r5, %%r5, %d; shl.b32 %%r5, %%r5, 4; xor.b32 %%r4, %%r4, %%r5; add.u32 %%r4, %%r4, %%r1;\n"
                 "ld.shared.u32 %%r3, [%%r4]; st.global.u32 [%%rd3], %%r3; add.u64 %%rd3, %%rd3, 4; "
                 "add.u32 %%r2, %%r2, 4; setp.lt.u32 %%p2, %%r2, %u; @%%p2 bra COPY%d;\n",
                 box_bytes(m), m->rank, at, label, label, label, -(int)row_bytes(m),
                 narrow(m) ? (16u << m->swizzle) / row_bytes(m) - 1 : 0, narrow(m) ? (1 << m->swizzle) - 1 : 0,
                 box_bytes(m), label);
}

static void draw(uint8_t *to, Element e, Draw how, size_t bytes, uint64_t seed) {
    const size_t one = (size_t)element_bits(e) / 8;
    for (size_t n = 0; n < bytes; n += one) {
        const uint64_t w = element_draw(e, how, &seed);
        memcpy(to + n, &w, one);
    }
}

static void tensor_fill(const Job *j, uint8_t *in, uint8_t *out) {
    const Element e = TYPE[j->tensor.type].element;
    const Draw how = element_is_float(e) && j->text ? DRAW_UNIT : DRAW_SPECIAL;
    draw(in, e, how, j->in_bytes, 3);
    if (j->text) draw(out, e, how, j->out_bytes, 4);
}

static void add_tensor(Jobs *jobs, const char *what, const char *operation, Tensor m) {
    static const char *const SWIZZLE[] = {"", ".swizzle32", ".swizzle64", ".swizzle128"};
    uint64_t whole = (uint64_t)TYPE[m.type].bytes * m.size[0];
    for (int d = 0; d < m.rank; d++) m.step[d] = m.step[d] ? m.step[d] : 1;
    for (int d = 1; d < m.rank; d++) {
        m.stride[d] = d == 1 ? (whole + 15) / 16 * 16 : m.stride[d - 1] * m.size[d - 1];
        whole = m.stride[d] * m.size[d];
    }
    Job *j =
        jobs_add(jobs, "tensor.%s%s.%dd.%s%s%s%s", operation ? *operation ? "reduce" : "store" : "load",
                 operation ? operation : "", m.rank, TYPE[m.type].name, SWIZZLE[m.swizzle], m.fill ? ".nan" : "", what);
    const uint32_t bytes = (uint32_t)(whole + 15) / 16 * 16, box = box_bytes(&m);
    j->element = operation ? TYPE[m.type].element : U32;
    if (j->element == U8 || j->element == S32) j->element = U32;
    j->record = j->element == U32 ? 4 : (uint32_t)element_bits(j->element) / 8;
    j->in_bytes = operation ? BOX : bytes;
    j->out_bytes = operation ? bytes : (box + 15) / 16 * 16;
    j->blocks = j->threads = 1;
    j->shared = BOX;
    j->has_tensor = true;
    j->tensor = m;
    j->body = tensor_body;
    j->fill = tensor_fill;
    j->text = operation;
}

static void add_types_and_fills(Jobs *jobs) {
    for (int type = 0; type < TYPES; type++)
        for (int nan = 0; nan <= TYPE[type].floating; nan++) {
            const uint32_t wide = 64 / (uint32_t)TYPE[type].bytes;
            const Tensor m = {.type = type,
                              .rank = 2,
                              .fill = nan,
                              .size = {wide * 2 - 1, 9},
                              .box = {wide, 8},
                              .at = {(int)wide, 5}};
            add_tensor(jobs, ".edge", NULL, m);
        }
}

/* `inner`: a multiple of 16 bytes (add_illegal). */
static void add_ranks(Jobs *jobs) {
    static const struct {
        const char *name;
        int32_t inner, at;
    } PLACE[] = {{".inside", 0, 0}, {".before", -4, -1}, {".beyond", 12, 3}};
    for (int rank = 1; rank <= 5; rank++)
        for (int p = 0; p < 3; p++) {
            Tensor m = {.type = 2, .rank = rank, .size = {16, 5, 4, 4, 4}, .box = {8, 3, 2, 2, 2}};
            for (int d = 0; d < rank; d++) m.at[d] = d ? PLACE[p].at : PLACE[p].inner;
            add_tensor(jobs, PLACE[p].name, NULL, m);
            if (PLACE[p].at >= 0) add_tensor(jobs, PLACE[p].name, "", m); /* of others: add_illegal */
        }
    for (int step = 2; step <= 4; step++) {
        static const char *const NAME[] = {".step2", ".step3", ".step4"};
        const Tensor m = {
            .type = 6, .rank = 2, .size = {64, 20}, .box = {16, 7}, .step = {1, (uint32_t)step}, .at = {8, 4}};
        add_tensor(jobs, NAME[step - 2], NULL, m);
    }
}

static void add_swizzles(Jobs *jobs) {
    static const int TRIED[] = {0, 6, 7};
    for (int swizzle = 1; swizzle <= 3; swizzle++)
        for (int k = 0; k < 3; k++) {
            const int type = TRIED[k];
            const uint32_t wide = 16u << swizzle, inner = wide / (uint32_t)TYPE[type].bytes;
            Tensor m = {.type = type,
                        .rank = 2,
                        .swizzle = swizzle,
                        .size = {inner * 2, 20},
                        .box = {inner, 16},
                        .at = {(int)inner / 2, 2}};
            add_tensor(jobs, ".edge", NULL, m);
            add_tensor(jobs, ".edge", "", m);
            m.at[0] = 0;
            m.box[0] = inner / 2;
            add_tensor(jobs, ".narrow", NULL, m);
            add_tensor(jobs, ".narrow", "", m);
        }
}

static void add_reductions(Jobs *jobs) {
    static const char *const OP[] = {".add", ".min", ".max", ".inc", ".dec", ".and", ".or", ".xor"};
    for (int op = 0; op < 8; op++)
        for (int type = 2; type < 10; type++) {
            if ((type == 7 || type == 8) && op) continue; /* of f32 and f64 there is the sum only */
            if (op >= 3 && TYPE[type].floating) continue;
            if ((op == 3 || op == 4) && type != 2) continue;
            if (op >= 5 && type != 2 && type != 4) continue;
            add_tensor(jobs, ".edge", OP[op],
                       (Tensor){.type = type, .rank = 2, .size = {20, 9}, .box = {8, 8}, .at = {16, 4}});
        }
}

/* ---- bulk reductions: 256 bytes from `in` into `out` ------------------------------------------------------- */
static void bulk_body(const Job *j, Text *t, int label) {
    text_add(t,
             ".reg .b32 %%r<9>; .reg .b64 %%rd<9>; .reg .pred %%p<4>;\n"
             "ld.param.u64 %%rd2, [in]; ld.param.u64 %%rd3, [out]; mov.u32 %%r1, s; mov.u32 %%r2, 0;\n"
             "FILL%d: ld.global.u32 %%r3, [%%rd2]; st.shared.u32 [%%r1], %%r3; add.u32 %%r1, %%r1, 4; add.u64 %%rd2, "
             "%%rd2, 4; add.u32 %%r2, %%r2, 4; setp.lt.u32 %%p2, %%r2, %u; @%%p2 bra FILL%d;\n"
             "fence.proxy.async; cp.reduce.async.bulk.global.shared::cta.bulk_group%s [%%rd3], [s], %u; "
             "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n",
             label, j->in_bytes, label, j->text, j->in_bytes);
}

static void drawn(const Job *j, uint8_t *in, uint8_t *out) {
    draw(in, j->element, (Draw)j->form[0], j->in_bytes, 7);
    draw(out, j->element, (Draw)j->form[0], j->out_bytes, 8);
}

static void add_bulk(Jobs *jobs) {
    static const struct {
        const char *text;
        Element element;
    } OP[] = {{".add.u32", U32}, {".min.s32", U32},         {".max.u32", U32},       {".inc.u32", U32},
              {".dec.u32", U32}, {".and.b32", U32},         {".or.b64", U64},        {".xor.b32", U32},
              {".add.u64", U64}, {".min.s64", U64},         {".add.noftz.f16", F16}, {".min.f16", F16},
              {".max.f16", F16}, {".add.noftz.bf16", BF16}, {".min.bf16", BF16},     {".max.bf16", BF16},
              {".add.f32", F32}, {".add.f64", F64}};
    for (size_t k = 0; k < sizeof OP / sizeof *OP; k++) {
        Job *j = jobs_add(jobs, "bulk.reduce%s", OP[k].text);
        j->element = OP[k].element;
        j->record = (uint32_t)element_bits(j->element) / 8;
        j->in_bytes = j->out_bytes = j->shared = 256;
        j->blocks = j->threads = 1;
        j->body = bulk_body;
        j->fill = drawn;
        j->text = OP[k].text;
        j->form[0] = DRAW_SPECIAL;
    }
}

/* ---- atomics: each thread at a place of its own; the result is what then lies there ----------- */
static void atomic_body(const Job *j, Text *t, int label) {
    const Element e = j->element;
    const int bytes = (int)j->record;
    const char *type = e == F32 || e == F64 ? element_name(e) : bytes == 2 ? "b16" : bytes == 4 ? "b32" : "b64";
    (void)label;
    text_add(t,
             ".reg .b32 %%r; .reg .b64 %%rd<4>; .reg .%s %%v;\n"
             "ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; mov.u32 %%r, %%tid.x; mad.wide.u32 %%rd1, %%r, %d, "
             "%%rd1; mad.wide.u32 %%rd2, %%r, %d, %%rd2;\nld.global.%s %%v, [%%rd1]; red.global%s [%%rd2], %%v;\n",
             type, bytes, bytes, type, j->text);
}

static void add_atomics(Jobs *jobs) {
    static const struct {
        const char *text;
        Element element;
        uint32_t each;
    } OP[] = {{".add.u32", U32, 1},         {".add.u64", U64, 1},          {".min.s32", U32, 1},
              {".max.s32", U32, 1},         {".min.u64", U64, 1},          {".max.s64", U64, 1},
              {".inc.u32", U32, 1},         {".dec.u32", U32, 1},          {".and.b32", U32, 1},
              {".or.b64", U64, 1},          {".xor.b32", U32, 1},          {".add.f32", F32, 1},
              {".add.f64", F64, 1},         {".add.noftz.f16", F16, 1},    {".add.noftz.f16x2", F16, 2},
              {".add.noftz.bf16", BF16, 1}, {".add.noftz.bf16x2", BF16, 2}};
    for (size_t k = 0; k < sizeof OP / sizeof *OP; k++) {
        Job *j = jobs_add(jobs, "red.global%s", OP[k].text);
        j->element = OP[k].element;
        j->each = OP[k].each;
        j->record = (uint32_t)element_bits(j->element) / 8 * j->each;
        j->in_bytes = j->out_bytes = ATOMIC_THREADS * j->record;
        j->blocks = 1;
        j->threads = ATOMIC_THREADS;
        j->body = atomic_body;
        j->fill = drawn;
        j->text = OP[k].text;
        j->form[0] = DRAW_SPECIAL;
    }
}

/* What the device calls an illegal instruction.  Comes last: what fails costs a process. */
static void add_illegal(Jobs *jobs) {
    Tensor m = {.type = 2, .rank = 1, .size = {16}, .box = {8}, .at = {2}};
    add_tensor(jobs, ".unaligned", NULL, m);
    add_tensor(jobs, ".unaligned", "", m);
    m.at[0] = -4;
    add_tensor(jobs, ".before", "", m);
    add_tensor(jobs, ".before", ".add", m);
}

void jobs_of_copies(Jobs *jobs) {
    add_types_and_fills(jobs);
    add_ranks(jobs);
    add_swizzles(jobs);
    add_reductions(jobs);
    add_bulk(jobs);
    add_atomics(jobs);
    add_illegal(jobs);
}
