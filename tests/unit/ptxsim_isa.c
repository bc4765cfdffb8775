/* Arithmetic of the software GPU at every instruction-set level that this machine has: the same bits at each, for whole
 * warps, under a predicate and inside a divergent branch; lanes that do not take part keep their values. */
#include "ptxsim_driver.h"
#include "ptxsim_isa_cases.h"
#include <stdbool.h>

enum { THREADS = 128, BLOCKS = 4, N = THREADS * BLOCKS, RESULTS = 5, MOST = 800 };
enum { WHOLE, GUARDED, BRANCHED, MODES };

static const char *register_of(const char *type) {
    const char *digits = strpbrk(type, "0123456789");
    if (!strcmp(type, "f32")) return "%f";
    if (!strcmp(type, "f64")) return "%d";
    if (strstr(type, "x2")) return "%r";
    return digits[0] == '1' ? "%h" : digits[0] == '3' ? "%r" : "%rd";
}

static void operand(char *to, size_t room, char form, const char *type) {
    static const char *const WIDER[] = {"%r", "%rd"};
    const char *own = register_of(type), *wide = WIDER[own[1] == 'r'];
    switch (form) {
    case 'd': snprintf(to, room, "%s8", own); break;
    case 'D': snprintf(to, room, "%s8", wide); break;
    case 'C': snprintf(to, room, "%s7", wide); break;
    case 'w': snprintf(to, room, "%%r8"); break;
    case 'p': snprintf(to, room, "%%p8"); break;
    case 'q': snprintf(to, room, "%%p3"); break;
    case 'u': snprintf(to, room, "%%r13"); break;
    case 'v': snprintf(to, room, "%%r14"); break;
    default: snprintf(to, room, "%s%d", own, 5 + form - 'a'); break;
    }
}

static char (*instructions)[160];
static int count;

static void expand(const Pattern *p) {
    char types[128], *rest = types;
    snprintf(types, sizeof types, "%s", p->types);
    for (char *type; (type = strtok_r(rest, " ", &rest)) != NULL;) {
        char *text = instructions[count++];
        int at = snprintf(text, 160, "@%s.%s ", p->op, type);
        for (const char *f = p->form; *f; f++) {
            char one[16];
            operand(one, sizeof one, *f, type);
            at += snprintf(text + at, 160 - (size_t)at, "%s%s", one, f[1] ? ", " : ";");
        }
    }
}

/* One instruction in its mode, then its result registers. */
static size_t emit(char *to, size_t room, int index, int mode) {
    const char *text = instructions[index], *set = "";
    size_t at = 0;
    at += (size_t)snprintf(
        to, room,
        "mov.b16 %%h8, 77; mov.b16 %%h9, 78; mov.b32 %%r8, 79; mov.b32 %%r9, 80; mov.b64 %%rd8, 81;\n"
        "mov.f32 %%f8, 0f3F900000; mov.f64 %%d8, 0d3FF2000000000000; mov.pred %%p8, %%p4; mov.pred %%p9, %%p4;\n");
    if (mode == BRANCHED) at += (size_t)snprintf(to + at, room - at, "@!%%p1 bra AFTER%d;\n", index);
    if (mode == GUARDED) set = "@%p1 ";
    for (const char *c = text + (*text == '!'); *c; c++) {
        if (*c == '@')
            at += (size_t)snprintf(to + at, room - at, "%s", set);
        else
            to[at++] = *c;
    }
    if (mode == BRANCHED) at += (size_t)snprintf(to + at, room - at, "\nAFTER%d:", index);
    at += (size_t)snprintf(
        to + at, room - at,
        "\nmov.b32 %%r10, {%%h8, %%h9}; selp.b32 %%r15, 1, 0, %%p8; selp.b32 %%r16, 2, 0, %%p9; or.b32 %%r15, %%r15, "
        "%%r16;\n"
        "st.global.v2.b32 [%%rd4], {%%r8, %%r9}; st.global.v2.b32 [%%rd4+8], {%%r10, %%r15}; mov.b32 %%r16, %%f8;\n"
        "st.global.b64 [%%rd4+16], %%rd8; st.global.b64 [%%rd4+24], %%d8; st.global.b32 [%%rd4+32], %%r16;\n"
        "add.u64 %%rd4, %%rd4, %d;\n",
        N * RESULTS * 8);
    return at;
}

/* Inputs of a thread: three words, a source lane, the mask of its warp, predicates (bit 0: takes part). */
typedef struct Input {
    uint64_t word[3];
    uint32_t lane, members, predicates, shift, width, spare;
} Input;

static char *kernel(int mode, int first, int last) {
    const size_t room = (size_t)(last - first) * 2000 + 8192;
    char *text = malloc(room);
    assert_non_null(text);
    size_t at = (size_t)snprintf(
        text, room,
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .b64 %%rd<12>; .reg .b32 %%r<20>; .reg .b16 %%h<10>; .reg .f32 %%f<10>; .reg .f64 %%d<10>; .reg .pred "
        "%%p<10>;\n"
        "ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x;\n"
        "mad.lo.u32 %%r1, %%r2, %d, %%r1; mad.wide.u32 %%rd3, %%r1, %d, %%rd1; mad.wide.u32 %%rd4, %%r1, %d, %%rd2;\n",
        THREADS, (int)sizeof(Input), RESULTS * 8);
    for (int k = 5; k < 8; k++)
        at += (size_t)snprintf(text + at, room - at,
                               "ld.global.b64 %%rd%d, [%%rd3+%d]; mov.b64 {%%r%d, %%r0}, %%rd%d; mov.b32 {%%h%d, "
                               "%%h0}, %%r%d; mov.b32 %%f%d, %%r%d; mov.b64 %%d%d, %%rd%d;\n",
                               k, (k - 5) * 8, k, k, k, k, k, k, k, k);
    at += (size_t)snprintf(
        text + at, room - at,
        "ld.global.b32 %%r11, [%%rd3+24]; ld.global.b32 %%r12, [%%rd3+28]; ld.global.b32 %%r0, [%%rd3+32];\n"
        "ld.global.b32 %%r13, [%%rd3+36]; ld.global.b32 %%r14, [%%rd3+40];\n"
        "and.b32 %%r2, %%r0, 1; setp.ne.u32 %%p1, %%r2, 0; and.b32 %%r2, %%r0, 2; setp.ne.u32 %%p3, %%r2, 0;\n"
        "and.b32 %%r2, %%r0, 4; setp.ne.u32 %%p4, %%r2, 0;\n");
    for (int k = first; k < last; k++) at += emit(text + at, room - at, k, mode);
    snprintf(text + at, room - at, "ret;\n}\n");
    return text;
}

/* ---- inputs ------------------------------------------------------------------------------------------- */
static uint64_t state = 88172645463325252u;
static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static uint64_t draw_word(int kind) {
    static const uint32_t SINGLE[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                      0x7fc00001, 0xffa00000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                      0x7f7fffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x477ff000, 0x33000001,
                                      0x38800000, 0x3effffff, 0x40200000, 0xc0600000, 0x7fff,     0x7c01};
    static const uint64_t DOUBLE[] = {0,
                                      UINT64_C(1) << 63,
                                      0x3ff0000000000000,
                                      0x7ff0000000000000,
                                      0xfff0000000000000,
                                      0x7ff8000000000001,
                                      0xfff4000000000000,
                                      1,
                                      0x000fffffffffffff,
                                      0x47efffffefffffff,
                                      0x36a0000000000000,
                                      0x41dfffffffc00000,
                                      0x43e0000000000000,
                                      0x3ff0000010000000,
                                      0x7fffffffffffffff,
                                      0x8000000000000000,
                                      0xffffffffffffffff,
                                      0xffffffff00000000};
    static const uint32_t HALF[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e01, 0xfd00, 1,      0x83ff,
                                    0x0400, 0x7bff, 0x3555, 0x7f80, 0xff80, 0x7fc1, 0x3f80, 0x0080, 0x7f7f, 0x4248};
    const uint64_t r = draw();
    switch (kind % 6) {
    case 0: return SINGLE[r % 24] | (uint64_t)SINGLE[(r >> 20) % 24] << 32;
    case 1: return DOUBLE[r % 18];
    case 2:
        return HALF[r % 20] | HALF[(r >> 9) % 20] << 16 |
               (uint64_t)(HALF[(r >> 18) % 20] | HALF[(r >> 27) % 20] << 16) << 32;
    case 3: return (r & 0x0fff0fff0fff0fff) + 0x3800380038003800; /* ordinary numbers in every format */
    case 4: return r % 200 | (r >> 32 & 31) << 32;                /* small integers */
    default: return r;
    }
}

static void draw_inputs(Input in[N], bool whole) {
    state = 88172645463325252u;
    for (int i = 0; i < N; i++) {
        const int kind = (int)(draw() >> 20);
        for (int k = 0; k < 3; k++) in[i].word[k] = draw_word(i % 3 ? kind : kind + k * (int)(draw() % 6));
        in[i].predicates = (uint32_t)draw() & 7;
        in[i].shift = (uint32_t)(draw() % (i % 5 ? 40 : 300));
        in[i].width = (uint32_t)(draw() % (i % 7 ? 40 : 300));
        if (whole) in[i].predicates |= 1;
    }
    for (int w = 0; w < N; w += 32) {
        uint32_t members = 0;
        in[w + (int)(draw() % 32)].predicates |= 1;
        for (int l = 0; l < 32; l++) members |= (in[w + l].predicates & 1) << l;
        for (int l = 0; l < 32; l++) {
            uint32_t lane = (uint32_t)draw() % 32;
            while (!(members >> lane & 1)) lane = (lane + 1) % 32;
            in[w + l].lane = lane;
            in[w + l].members = members;
        }
    }
}

/* ---- the comparison ----------------------------------------------------------------------------------- */
typedef uint64_t Result[RESULTS];

/* results[instruction][thread] of a level and mode */
static Result *results(const char *level, int mode, const Input *in, int first, int last) {
    setenv("PTXSIM_ISA", level, 1);
    const size_t bytes = (size_t)(last - first) * N * sizeof(Result);
    Result *r = calloc(1, bytes);
    assert_non_null(r);
    char *text = kernel(mode, first, last);
    CUfunction f = load_kernel(text, "k");
    free(text);
    CUdeviceptr pi = upload(in, N * sizeof *in), po = upload(r, bytes);
    assert_int_equal(launch1(f, BLOCKS, THREADS, (void *[]){&pi, &po}), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyDtoH_v2(r, po, bytes), CUDA_SUCCESS);
    cu.cuMemFree_v2(pi);
    cu.cuMemFree_v2(po);
    unsetenv("PTXSIM_ISA");
    return r;
}

static void must_equal(const Result x, const Result y, const char *what, int index, int thread, const Input *in) {
    for (int k = 0; k < RESULTS; k++)
        if (x[k] != y[k])
            fail_msg("%s: %s thread %d: %llx, not %llx (of %llx %llx %llx)", what, instructions[index], thread,
                     (unsigned long long)x[k], (unsigned long long)y[k], (unsigned long long)in->word[0],
                     (unsigned long long)in->word[1], (unsigned long long)in->word[2]);
}

static void make_instructions(void) {
    if (instructions) return;
    instructions = calloc(MOST, sizeof *instructions);
    assert_non_null(instructions);
    for (size_t k = 0; k < sizeof PATTERNS / sizeof *PATTERNS; k++) expand(&PATTERNS[k]);
    for (size_t k = 0; k < sizeof PLAIN / sizeof *PLAIN; k++)
        if (PLAIN[k][0] == '@') snprintf(instructions[count++], sizeof *instructions, "%s", PLAIN[k]);
    assert_true(count < MOST - 20);
}

/* Appended last, and run for whole warps only. */
static int add_whole_only(void) {
    const int first = count;
    for (size_t k = 0; k < sizeof PLAIN / sizeof *PLAIN; k++)
        if (PLAIN[k][0] == '!') snprintf(instructions[count++], sizeof *instructions, "%s", PLAIN[k]);
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
    static Input in[N];
    make_instructions();
    assert_true(machine_has("baseline"));
    for (int mode = 0; mode < MODES; mode++) {
        draw_inputs(in, mode == WHOLE);
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
    static Input in[N];
    make_instructions();
    for (int level = 0; level < 3; level++) {
        if (!machine_has(LEVELS[level])) continue;
        draw_inputs(in, false);
        for (int i = 0; i < N; i++) in[i].predicates |= 1, in[i].members = UINT32_MAX;
        Result *whole = results(LEVELS[level], WHOLE, in, 0, count);
        draw_inputs(in, false);
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
    static Input in[N];
    make_instructions();
    const int first = add_whole_only();
    draw_inputs(in, true);
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
