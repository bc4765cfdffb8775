#include "tools/ptxsim/exec/profile.h"
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/matrix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gathering ------------------------------------------------------------------------------------------ */
bool profile_begin(Profile *p, const Module *m, const DeviceMemory *memory) {
    *p = (Profile){.functions = m->functions};
    for (const Function *f = m->functions; f; f = f->next)
        if ((size_t)f->number + (size_t)f->count + 1 > p->count) p->count = (size_t)f->number + (size_t)f->count + 1;
    p->tally = profile_tally(p);
    p->footprint = footprint_new(memory);
    if (p->tally && p->footprint) return true;
    profile_end(p);
    return false;
}

void profile_end(Profile *p) {
    free(p->tally);
    footprint_free(p->footprint);
    *p = (Profile){0};
}

Tally *profile_tally(const Profile *p) { return calloc(p->count + 1, sizeof(Tally)); }

void profile_merge(Profile *p, Tally *t) {
    for (size_t k = 0; t && k < p->count; k++) {
        if (t[k].warps) __atomic_fetch_add(&p->tally[k].warps, t[k].warps, __ATOMIC_RELAXED);
        if (t[k].lanes) __atomic_fetch_add(&p->tally[k].lanes, t[k].lanes, __ATOMIC_RELAXED);
    }
    free(t);
}

/* ---- kinds of instructions ------------------------------------------------------------------------------ */
void mix_find(const char *name, uint8_t *mix, uint8_t *flops) {
    static const struct { const char *prefix; uint8_t mix, flops; } ROWS[] = {
#define MIX_OP(prefix, id, flops) {prefix, MIX_##id, flops},
#include "tools/ptxsim/ptx/mix.def"
    };
    *mix = MIX_TYPED;
    *flops = 0;
    for (size_t k = 0; k < sizeof ROWS / sizeof *ROWS; k++) {
        const size_t n = strlen(ROWS[k].prefix);
        if (strncmp(name, ROWS[k].prefix, n) != 0 || (name[n] && name[n] != '.')) continue;
        *mix = ROWS[k].mix;
        *flops = ROWS[k].flops;
        return;
    }
}

static bool is_half(PtxType t) { return t == T_F16 || t == T_F16X2 || t == T_BF16 || t == T_BF16X2; }

static Mix mix_of(const Inst *i) {
    static const Mix OF_SPACE[] = {
        [SPACE_GENERIC] = MIX_GENERIC, [SPACE_GLOBAL] = MIX_GLOBAL, [SPACE_SHARED] = MIX_SHARED, [SPACE_LOCAL] = MIX_LOCAL,
        [SPACE_CONST] = MIX_CONSTANT, [SPACE_PARAM] = MIX_CONSTANT, [SPACE_CLUSTER] = MIX_SHARED};
    const PtxType t = (PtxType)i->type;
    if (i->mix == MIX_SPACED) return OF_SPACE[i->space];
    if (i->mix != MIX_TYPED) return (Mix)i->mix;
    return t == T_F32 ? MIX_F32 : t == T_F64 ? MIX_F64 : is_half(t) ? MIX_HALF : MIX_INTEGER;
}

static void add_flops(const Inst *i, uint64_t threads, Counters *to) {
    const PtxType t = (PtxType)i->type;
    if (t == T_F32) to->flops_f32 += i->flops * threads;
    if (t == T_F64) to->flops_f64 += i->flops * threads;
    if (is_half(t)) to->flops_half += i->flops * threads * (t == T_F16X2 || t == T_BF16X2 ? 2 : 1);
}

/* ---- matrix instructions -------------------------------------------------------------------------------- */
static uint64_t *flops_of(Counters *c, PtxType t) {
    if (t == T_TF32 || t == T_F32) return &c->matrix_flops_tf32;
    if (t == T_F64) return &c->matrix_flops_f64;
    return is_half(t) ? &c->matrix_flops_half : &c->matrix_flops_byte;
}

static void add_shape(Figures *to, const MatrixShape *s) {
    int k = 0;
    while (k < to->shapes && strcmp(to->matrix[k].name, s->name) != 0) k++;
    if (k == MATRIX_SHAPES) k--; /* the last one stands for the rest */
    if (k == to->shapes) to->matrix[to->shapes++] = (MatrixShape){0};
    MatrixShape *m = &to->matrix[k];
    memcpy(m->name, s->name, sizeof m->name);
    m->instructions += s->instructions;
    m->flops += s->flops;
}

/* wgmma's shape is that of four warps; its B always comes by descriptor. */
static void add_matrix(const Inst *i, uint64_t warps, Figures *to) {
    const MatrixForm *f = i->matrix;
    if (!f || !f->m || !f->n || !f->k || !warps) return;
    const bool group = f->desc_b.base != BASE_NONE;
    MatrixShape s = {.instructions = warps, .flops = 2 * warps * f->m * f->n * f->k / (group ? 4 : 1)};
    snprintf(s.name, sizeof s.name, "%sm%un%uk%u.%s", group ? "wgmma." : "", f->m, f->n, f->k,
             type_text((PtxType)f->type_a));
    to->count.matrix_instructions += warps;
    *flops_of(&to->count, (PtxType)f->type_a) += s.flops;
    add_shape(to, &s);
}

/* ---- the sum -------------------------------------------------------------------------------------------- */
static void add_function(const Profile *p, const Function *f, Figures *to) {
    Tally now = {0};
    for (int32_t k = 0; k < f->count; k++) {
        const Inst *i = &f->code[k];
        now.warps += p->tally[f->number + k].warps;
        now.lanes += p->tally[f->number + k].lanes;
        if (i->hidden) continue;
        const uint64_t warps = (uint64_t)now.warps, lanes = (uint64_t)now.lanes;
        const Mix mix = mix_of(i);
        to->warps[mix] += warps;
        to->threads[mix] += lanes;
        add_flops(i, lanes, &to->count);
        if (mix == MIX_MATRIX) add_matrix(i, warps, to);
        if (mix == MIX_ATOMIC) to->count.atomics += lanes;
    }
}

bool profile_figures(const Profile *p, const Counters *count, Figures *to) {
    *to = (Figures){.count = *count};
    for (const Function *f = p->functions; f; f = f->next)
        if (f->defined) add_function(p, f, to);
    return footprint_sum(p->footprint, &to->count);
}

void figures_add(Figures *to, const Figures *f) {
    counters_add(&to->count, &f->count);
    for (int k = 0; k < MIX_COUNT; k++) {
        to->warps[k] += f->warps[k];
        to->threads[k] += f->threads[k];
    }
    for (int k = 0; k < f->shapes; k++) add_shape(to, &f->matrix[k]);
}
