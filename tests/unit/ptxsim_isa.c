/* Arithmetic of the software GPU at every instruction-set level that this machine has: the same bits at each, for whole
 * warps, under a predicate and inside a divergent branch; lanes that do not take part keep their values. */
#include "ptxsim_driver.h"
#include "bench/gpu/calibrate/instructions.h"

enum { N = INPUTS };

static char (*instructions)[INSTRUCTION_TEXT];
static int count;

static char *kernel(InstructionMode mode, int first, int last) {
    const size_t room = (size_t)(last - first) * 2000 + 8192;
    char *text = malloc(room);
    assert_non_null(text);
    size_t at = (size_t)snprintf(
        text, room, ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{\n");
    at += instructions_head(text + at, room - at);
    for (int k = first; k < last; k++) at += instruction_emit(text + at, room - at, instructions[k], mode, k);
    snprintf(text + at, room - at, "ret;\n}\n");
    return text;
}

/* ---- the comparison ----------------------------------------------------------------------------------- */
typedef InstructionResult Result;

/* results[instruction][thread] of a level and mode */
static Result *results(const char *level, InstructionMode mode, const InstructionInput *in, int first, int last) {
    setenv("PTXSIM_ISA", level, 1);
    const size_t bytes = (size_t)(last - first) * N * sizeof(Result);
    Result *r = calloc(1, bytes);
    assert_non_null(r);
    char *text = kernel(mode, first, last);
    CUfunction f = load_kernel(text, "k");
    free(text);
    CUdeviceptr pi = upload(in, N * sizeof *in), po = upload(r, bytes);
    assert_int_equal(launch1(f, INPUT_BLOCKS, INPUT_THREADS, (void *[]){&pi, &po}), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyDtoH_v2(r, po, bytes), CUDA_SUCCESS);
    cu.cuMemFree_v2(pi);
    cu.cuMemFree_v2(po);
    unsetenv("PTXSIM_ISA");
    return r;
}

static void must_equal(const Result x, const Result y, const char *what, int index, int thread, const InstructionInput *in) {
    for (int k = 0; k < RESULT_WORDS; k++)
        if (x[k] != y[k])
            fail_msg("%s: %s thread %d: %llx, not %llx (of %llx %llx %llx)", what, instructions[index], thread,
                     (unsigned long long)x[k], (unsigned long long)y[k], (unsigned long long)in->word[0],
                     (unsigned long long)in->word[1], (unsigned long long)in->word[2]);
}

static void make_instructions(void) {
    if (instructions) return;
    instructions = calloc(INSTRUCTION_MOST, sizeof *instructions);
    assert_non_null(instructions);
    count = instructions_list(instructions, INSTRUCTION_MOST, false);
    assert_true(count <= INSTRUCTION_MOST);
}

/* Appended last, and run for whole warps only. */
static int add_whole_only(void) {
    const int first = count;
    count += instructions_list(instructions + count, INSTRUCTION_MOST - count, true);
    assert_true(count <= INSTRUCTION_MOST);
    return first;
}

static bool machine_has(const char *level) {
    setenv("PTXSIM_ISA", level, 1);
    const char *chosen;
    assert_int_equal(cu.ptxsim_isa(&chosen), CUDA_SUCCESS);
    unsetenv("PTXSIM_ISA");
    return !strcmp(chosen, level);
}

static void levels_agree(void **unused) {
    (void)unused;
    static const char *const HIGHER[] = {"v3", "v4"};
    static InstructionInput in[N];
    make_instructions();
    assert_true(machine_has("baseline"));
    for (InstructionMode mode = 0; mode < INSTRUCTION_MODES; mode++) {
        instruction_inputs(in, mode == WHOLE);
        Result *want = results("baseline", mode, in, 0, count);
        for (int level = 0; level < 2; level++) {
            if (!machine_has(HIGHER[level])) continue;
            Result *have = results(HIGHER[level], mode, in, 0, count);
            for (int k = 0; k < count; k++)
                for (int i = 0; i < N; i++) must_equal(have[k * N + i], want[k * N + i], HIGHER[level], k, i, &in[i]);
            free(have);
        }
        free(want);
    }
}

/* A guard changes nothing in the lanes that it lets through, and everything else stays: at each level. */
static void masks(void **unused) {
    (void)unused;
    static const char *const LEVELS[] = {"baseline", "v3", "v4"};
    static InstructionInput in[N];
    make_instructions();
    for (int level = 0; level < 3; level++) {
        if (!machine_has(LEVELS[level])) continue;
        instruction_inputs(in, false);
        for (int i = 0; i < N; i++) in[i].predicates |= 1, in[i].members = UINT32_MAX;
        Result *whole = results(LEVELS[level], WHOLE, in, 0, count);
        instruction_inputs(in, false);
        Result *guarded = results(LEVELS[level], GUARDED, in, 0, count),
               *branched = results(LEVELS[level], BRANCHED, in, 0, count);
        for (int k = 0; k < count; k++)
            for (int i = 0; i < N; i++) {
                const bool takes_part = in[i].predicates & 1, predicate = in[i].predicates & 4;
                const uint64_t other = (uint64_t)(78 << 16 | 77) | (uint64_t)(predicate ? 3 : 0) << 32;
                const Result before = {79 | UINT64_C(80) << 32, other, 81, 0x3ff2000000000000, 0x3f900000};
                must_equal(guarded[k * N + i], branched[k * N + i], "branch", k, i, &in[i]);
                if (strstr(instructions[k], "shfl") && takes_part) continue; /* the mask is an operand */
                must_equal(guarded[k * N + i], takes_part ? whole[k * N + i] : before, LEVELS[level], k, i, &in[i]);
            }
        free(whole);
        free(guarded);
        free(branched);
    }
}

static void shuffles_agree(void **unused) {
    (void)unused;
    static InstructionInput in[N];
    make_instructions();
    const int first = add_whole_only();
    instruction_inputs(in, true);
    Result *want = results("baseline", WHOLE, in, first, count);
    static const char *const HIGHER[] = {"v3", "v4"};
    for (int level = 0; level < 2; level++) {
        if (!machine_has(HIGHER[level])) continue;
        Result *have = results(HIGHER[level], WHOLE, in, first, count);
        for (int k = 0; k < count - first; k++)
            for (int i = 0; i < N; i++)
                must_equal(have[k * N + i], want[k * N + i], HIGHER[level], first + k, i, &in[i]);
        free(have);
    }
    for (int i = 0; i < N; i++) { /* shfl.down by 1 in segments of 16, in place: by the manual */
        const int source = i % 16 == 15 ? i : i + 1;
        assert_int_equal((uint32_t)want[(count - 1 - first) * N + i][0], (uint32_t)in[source].word[0]);
    }
    free(want);
    count = first;
}

static void choice(void **unused) {
    (void)unused;
    const char *chosen;
    const bool v4 = machine_has("v4"), v3 = machine_has("v3");
    assert_int_equal(cu.ptxsim_isa(&chosen), CUDA_SUCCESS);
    assert_string_equal(chosen, v4 ? "v4" : v3 ? "v3" : "baseline");
    assert_true(v3 || !v4);
#if defined(__x86_64__)
    assert_int_equal(v3,
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(choice, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(levels_agree, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(masks, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(shuffles_agree, context_setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
