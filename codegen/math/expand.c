/* A function is recorded as a graph and then played to the caller from its result back, operands first to last.  The
 * formulas nest calls in calls, and C leaves open which argument is evaluated first; the graph is the same either way,
 * so what is emitted does not depend on the compiler that built this one. */
#include "codegen/math/build.h"
#include <assert.h>
#include <stddef.h>

enum { MAX_STEPS = 1024 }; /* the longest function, pow, takes some 250 */

typedef enum { STEP_OP, STEP_F32, STEP_I32, STEP_PLAYED } StepKind;

typedef struct Step {
    StepKind kind;
    MathOp op;
    struct Step *in[3];
    float f;
    int32_t i;
    MathValue value; /* the caller's, once played */
} Step;

typedef struct Recorder {
    int n;
    Step step[MAX_STEPS];
} Recorder;

static Step *record(Recorder *r, Step s) {
    assert(r->n < MAX_STEPS);
    r->step[r->n] = s;
    return &r->step[r->n++];
}

static MathValue record_f32(void *user, float v) { return record(user, (Step){.kind = STEP_F32, .f = v}); }
static MathValue record_i32(void *user, int32_t v) { return record(user, (Step){.kind = STEP_I32, .i = v}); }

static MathValue record_op(void *user, MathOp op, const MathValue *in) {
    Step s = {.kind = STEP_OP, .op = op};
    for (int k = 0; math_op_info[op].operands[k]; k++) s.in[k] = in[k];
    return record(user, s);
}

static MathValue play(B b, Step *s) {
    MathValue in[3] = {NULL};
    switch (s->kind) {
    case STEP_PLAYED: return s->value;
    case STEP_F32: s->value = b->f32(b->user, s->f); break;
    case STEP_I32: s->value = b->i32(b->user, s->i); break;
    case STEP_OP:
        for (int k = 0; math_op_info[s->op].operands[k]; k++) in[k] = play(b, s->in[k]);
        s->value = b->op(b->user, s->op, in);
        break;
    }
    s->kind = STEP_PLAYED;
    return s->value;
}

static Step *recorded(Recorder *r, Op op, const MathValue *operands, bool has_exp2) {
    const MathBuilder recorder = {.user = r, .f32 = record_f32, .i32 = record_i32, .op = record_op, .has_exp2 = has_exp2};
    MathValue in[4];
    r->n = 0;
    for (int k = 0; k < op_info[op].arity; k++)
        in[k] = record(r, (Step){.kind = STEP_PLAYED, .value = operands ? operands[k] : NULL});
    return math_formula(&recorder, op, in);
}

MathValue math_expand(const MathBuilder *b, Op op, const MathValue *operands) {
    Recorder r;
    return math_expands(op) ? play(b, recorded(&r, op, operands, b->has_exp2)) : NULL;
}

int math_steps(Op op) {
    Recorder r;
    if (!math_expands(op)) return 0;
    recorded(&r, op, NULL, false);
    int n = 0;
    for (int i = 0; i < r.n; i++) n += r.step[i].kind == STEP_OP;
    return n;
}
