/* A module compiled in this process and run by the host runtime: regions, run-time extents, scalars, skipped
 * launches, threads, and every error that a call can give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/host/host.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, COLUMNS = 48 };

/* y = x * w + hyper */
static const char forward[] =
    "kernel @forward<B<=300>(%x: f32[B<=300,48], %w: f32[48], %h: f32[], %y: f32[B<=300,48] out)\n"
    "  grid i in 0..B<=300 step 2\n  span j in 0..48 step 48\n"
    "  %0 = load %x[i, j] : f32[i:2,j:48]\n  %1 = load %w[j] : f32[j:48]\n  %2 = mul %0, %1 : f32[i:2,j:48]\n"
    "  %3 = load %h[] : f32\n  %4 = add %2, %3 : f32[i:2,j:48]\n  store %y[i, j], %4\n";
/* w[j] = sum over i of y[i, j] * step, through the arena */
static const char update[] =
    "kernel @update<B<=300>(%y: f32[B<=300,48], %step: i32[], %w: f32[48] out)\n"
    "  grid j in 0..48 step 16\n  loop i in 0..B<=300 step 8\n  %0 = full 0 : f32[j:16]\n"
    "  %5 = for i carry %1 = %0 {\n    %2 = load %y[i, j] : f32[i:8,j:16]\n    %3 = sum %2 over i : f32[j:16]\n"
    "    %4 = add %1, %3 : f32[j:16]\n    yield %4\n  }\n"
    "  %6 = load %step[] : i32\n  %7 = cast %6 : f32\n  %8 = mul %5, %7 : f32[j:16]\n  store %w[j], %8\n";
/* n = ids, of declared range 0..10 */
static const char copy[] = "kernel @copy(%ids: i32[5], %n: i32[5] out)\n  span i in 0..5 step 5\n"
                           "  %0 = load %ids[i] : i32[i:5]\n  store %n[i], %0\n";

static void add_kernel(Module *m, const char *text) {
    const char *error = NULL;
    Kernel *k = kernel_parse(m->arena, text, &error);
    if (!k) fail_msg("%s", error);
    vec_push(m->arena, m->kernels, k);
}

static ModuleTensor tensor(Arena *a, const char *name, DType t, Shape s) {
    return (ModuleTensor){
        .name = arena_strdup(a, name), .dtype = t, .shape = s, .bytes = shape_elements(s) * dtype_bytes(t)};
}

static void add_launch(Module *m, int entry, int kernel, uint64_t outputs, int n, const LaunchArg *args) {
    const Launch l = {
        .kernel = kernel, .n_args = n, .args = arena_dup(m->arena, args, sizeof *args * (size_t)n), .wanted_by = outputs};
    m->entry[entry].present = true;
    vec_push(m->arena, m->entry[entry].launches, l);
}

static Module make_module(Arena *a) {
    Module m = {.arena = a,
                .name = "toy",
                .source = "toy.dsl",
                .hash = 0x1234567890abcdef,
                .align = 64,
                .param_bytes = 4 * COLUMNS};
    const Dim batch = {.bound = ROWS, .sym = 0, .scale = 1};
    const Shape xy = shape_make(2, (Dim[]){batch, dim_fixed(COLUMNS)});
    vec_push(a, m.syms, (SymDecl){"B", ROWS});
    vec_push(a, m.hypers, (HyperDecl){"bias", 0.5});
    vec_push(a, m.params, tensor(a, "w", DT_F32, shape_fixed(1, (int64_t[]){COLUMNS})));
    vec_push(a, m.inputs, tensor(a, "x", DT_F32, xy));
    vec_push(a, m.inputs, tensor(a, "ids", DT_I32, shape_fixed(1, (int64_t[]){5})));
    m.inputs.at[1].has_range = true;
    m.inputs.at[1].hi = 10;
    vec_push(a, m.outputs, tensor(a, "y", DT_F32, xy));
    vec_push(a, m.outputs, tensor(a, "n", DT_I32, shape_fixed(1, (int64_t[]){5})));
    add_kernel(&m, forward);
    add_kernel(&m, update);
    add_kernel(&m, copy);
    const LaunchArg x = {REGION_INPUT, 0, 0, 0}, w = {REGION_PARAM, 0, 0, 0}, h = {REGION_SCALAR, 0, 4 * SCALAR_HYPER0, 0};
    const LaunchArg y = {REGION_OUTPUT, 0, 0, 0}, scratch = {REGION_ARENA, 0, 64, 0},
                    step = {REGION_SCALAR, 0, 4 * SCALAR_STEP, 0};
    add_launch(&m, ENTRY_INFER, 0, 1, 4, (LaunchArg[]){x, w, h, y});
    add_launch(&m, ENTRY_INFER, 2, 2, 2, (LaunchArg[]){{REGION_INPUT, 1, 0, 0}, {REGION_OUTPUT, 1, 0, 0}});
    m.entry[ENTRY_STEP].arena_bytes = 64 + 4 * ROWS * COLUMNS;
    add_launch(&m, ENTRY_STEP, 0, ~UINT64_C(0), 4, (LaunchArg[]){x, w, h, scratch});
    add_launch(&m, ENTRY_STEP, 1, ~UINT64_C(0), 3, (LaunchArg[]){scratch, step, w});
    return m;
}

/* ---- everything a call needs ------------------------------------------------------------------------------ */
typedef struct Toy {
    Arena *a;
    HostJit *jit;
    float *w, *x, *y;
    int32_t ids[5], n[5];
    void *arena;
    const void *inputs[2];
    void *outputs[2];
    fusec_memory memory;
} Toy;

static int set_up(void **state) {
    Toy *t = calloc(1, sizeof *t);
    t->a = arena_new();
    const Module m = make_module(t->a);
    char *error = NULL;
    t->jit = host_jit(&m, NULL, &error);
    if (!t->jit) fail_msg("%s", error);
    const size_t bytes = 4 * ROWS * COLUMNS;
    t->w = aligned_alloc(64, 4 * COLUMNS);
    t->x = aligned_alloc(64, bytes);
    t->y = aligned_alloc(64, bytes);
    t->arena = aligned_alloc(64, bytes + 64);
    for (int i = 0; i < COLUMNS; i++) t->w[i] = (float)(i % 5);
    for (int i = 0; i < ROWS * COLUMNS; i++) t->x[i] = (float)(i % 7);
    for (int i = 0; i < 5; i++) t->ids[i] = 2 * i;
    t->inputs[0] = t->x;
    t->inputs[1] = t->ids;
    t->outputs[0] = t->y;
    t->outputs[1] = t->n;
    t->memory =
        (fusec_memory){.params = t->w, .param_bytes = 4 * COLUMNS, .arena = t->arena, .arena_bytes = bytes + 64};
    *state = t;
    return 0;
}

static int tear_down(void **state) {
    Toy *t = *state;
    host_jit_free(t->jit);
    arena_free(t->a);
    free(t->w);
    free(t->x);
    free(t->y);
    free(t->arena);
    free(t);
    return 0;
}

static fusec_status start(fusec_host *h, Toy *t, const fusec_options *o) {
    return fusec_host_init(h, host_jit_manifest(t->jit), host_jit_kernels(t->jit), &t->memory, o);
}

/* ---- tests --------------------------------------------------------------------------------------------------- */
static void manifest_says_what_the_module_is(void **state) {
    Toy *t = *state;
    const fusec_manifest *m = host_jit_manifest(t->jit);
    assert_int_equal(m->abi_version, FUSEC_ABI_VERSION);
    assert_true(m->hash == 0x1234567890abcdef);
    assert_string_equal(m->name, "toy");
    assert_int_equal(m->n_kernels, 3);
    assert_string_equal(m->kernels[1].name, "update");
    assert_int_equal(m->kernels[0].n_grid, 1);
    assert_int_equal(m->kernels[0].grid[0].sym, 0);
    assert_int_equal(m->kernels[0].grid[0].step, 2);
    assert_int_equal(m->kernels[1].grid[0].shift, COLUMNS);
    assert_true(m->kernels[0].flops == 2.0 * ROWS * COLUMNS);
    assert_int_equal(m->inputs[0].dim[0], ROWS);
    assert_int_equal(m->inputs[0].sym[0], 0);
    assert_int_equal(m->inputs[0].sym[1], -1);
    assert_true(m->inputs[1].hi == 10 && m->inputs[1].dtype == FUSEC_I32);
    assert_true(m->hypers[0].value == 0.5f);
    assert_int_equal(m->syms[0].bound, ROWS);
    assert_int_equal(m->entry[FUSEC_STEP].n_launches, 2);
    assert_int_equal(m->entry[FUSEC_STEP].first_launch, 2);
    assert_true(m->entry[FUSEC_STEP].arena_bytes == 64 + 4 * ROWS * COLUMNS);
    assert_int_equal(m->entry[FUSEC_GRAD].present, 0);
}

static void forward_at_several_extents(void **state) {
    Toy *t = *state;
    fusec_host h;
    assert_int_equal(start(&h, t, NULL), FUSEC_OK);
    const int32_t extents[] = {ROWS, 7, 1};
    const float bias = 2;
    for (int e = 0; e < 3; e++) {
        for (int i = 0; i < ROWS * COLUMNS; i++) t->y[i] = -1;
        const fusec_host_call call = {
            .inputs = t->inputs, .outputs = t->outputs, .syms = &extents[e], .hypers = e ? &bias : NULL};
        assert_int_equal(fusec_host_run(&h, FUSEC_INFER, &call), FUSEC_OK);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            const float want =
                i / COLUMNS < extents[e] ? (float)(i % 7) * (float)(i % COLUMNS % 5) + (e ? 2 : 0.5f) : -1;
            if (t->y[i] != want) fail_msg("y[%d] = %g, not %g", i, t->y[i], want);
        }
        assert_int_equal(t->n[4], 8);
    }
    fusec_host_free(&h);
}

static void unwanted_outputs_are_skipped(void **state) {
    Toy *t = *state;
    fusec_host h;
    assert_int_equal(start(&h, t, NULL), FUSEC_OK);
    void *only_ids[2] = {NULL, t->n};
    const fusec_host_call call = {.inputs = t->inputs, .outputs = only_ids};
    assert_int_equal(fusec_host_run(&h, FUSEC_INFER, &call), FUSEC_OK);
    assert_int_equal(t->n[3], 6);
    fusec_host_free(&h);
}

static int calls;
static void backwards(void *user, int n, void (*run)(void *ctx, int i), void *ctx) {
    assert_ptr_equal(user, &calls);
    calls++;
    for (int i = n - 1; i >= 0; i--) run(ctx, i);
}

/* The same bits with 1, 2, 5 threads and with another parallel_for, over several steps. */
static void threads_do_not_show(void **state) {
    Toy *t = *state;
    float first[COLUMNS];
    calls = 0;
    for (int way = 0; way < 4; way++) {
        fusec_options o = {.threads = way == 0 ? 1 : way == 1 ? 2 : 5};
        if (way == 3) o.parallel_for = backwards, o.user = &calls;
        fusec_host h;
        assert_int_equal(start(&h, t, &o), FUSEC_OK);
        assert_true((h.pool != NULL) == (way == 1 || way == 2));
        for (int i = 0; i < COLUMNS; i++) t->w[i] = (float)(i % 5) * 0.37f;
        for (int step = 1; step <= 4; step++) {
            const fusec_host_call call = {.inputs = t->inputs, .outputs = t->outputs, .step = step};
            assert_int_equal(fusec_host_run(&h, FUSEC_STEP, &call), FUSEC_OK);
        }
        if (way == 0) memcpy(first, t->w, sizeof first);
        assert_memory_equal(first, t->w, sizeof first);
        fusec_host_free(&h);
    }
    assert_int_equal(calls, 8);
    double sum = 0; /* step 1 of column 1, by hand */
    for (int i = 0; i < ROWS; i++) sum += (i * COLUMNS + 1) % 7 * 0.37 + 0.5;
    fusec_host h;
    assert_int_equal(start(&h, t, NULL), FUSEC_OK);
    t->w[1] = 0.37f;
    const fusec_host_call call = {.inputs = t->inputs, .outputs = t->outputs, .step = 3};
    assert_int_equal(fusec_host_run(&h, FUSEC_STEP, &call), FUSEC_OK);
    assert_true(t->w[1] > 3 * sum * (1 - 1e-5) && t->w[1] < 3 * sum * (1 + 1e-5));
    fusec_host_free(&h);
}

static void unsound_calls_are_refused(void **state) {
    Toy *t = *state;
    fusec_host h;
    const fusec_manifest *m = host_jit_manifest(t->jit);
    fusec_manifest old = *m;
    old.abi_version++;
    assert_int_equal(fusec_host_init(&h, &old, host_jit_kernels(t->jit), &t->memory, NULL), FUSEC_E_VERSION);
    assert_int_equal(fusec_host_init(&h, NULL, host_jit_kernels(t->jit), &t->memory, NULL), FUSEC_E_ARGUMENT);
    assert_int_equal(start(&h, t, NULL), FUSEC_OK);
    fusec_host_call call = {.inputs = t->inputs, .outputs = t->outputs};
    assert_int_equal(fusec_host_run(&h, FUSEC_GRAD, &call), FUSEC_E_UNSUPPORTED);
    assert_int_equal(fusec_host_run(&h, FUSEC_STEP | FUSEC_ACCUMULATE, &call), FUSEC_E_ARGUMENT);
    assert_int_equal(fusec_host_run(&h, FUSEC_INFER | FUSEC_LINE(0), &call), FUSEC_E_ARGUMENT); /* lines are steps */
    assert_int_equal(fusec_host_run(&h, FUSEC_STEP | FUSEC_LINE(3), &call), FUSEC_E_ARGUMENT);  /* it has no such line */
    assert_int_equal(fusec_host_run(&h, -1 & ~FUSEC_ACCUMULATE, &call), FUSEC_E_ARGUMENT);
    assert_int_equal(fusec_host_run(&h, FUSEC_INFER, NULL), FUSEC_E_ARGUMENT);
    t->ids[2] = 10;
    assert_int_equal(fusec_host_run(&h, FUSEC_INFER, &call), FUSEC_E_RANGE);
    t->ids[2] = 4;
    const int32_t too_many = ROWS + 1;
    call.syms = &too_many;
    assert_int_equal(fusec_host_run(&h, FUSEC_INFER, &call), FUSEC_E_ARGUMENT);
    call.syms = NULL;
    t->inputs[0] = NULL;
    assert_int_equal(fusec_host_run(&h, FUSEC_INFER, &call), FUSEC_E_ARGUMENT);
    h.memory.arena_bytes--;
    assert_int_equal(fusec_host_run(&h, FUSEC_STEP, &call), FUSEC_E_MEMORY);
    h.memory.params = (char *)t->w + 4;
    assert_int_equal(fusec_host_run(&h, FUSEC_STEP, &call), FUSEC_E_ARGUMENT);
    fusec_host_free(&h);
}

/* ---- the other outputs of the back end ------------------------------------------------------------------------- */
static void output_is_the_same_every_time(void **state) {
    Toy *t = *state;
    const Module m = make_module(t->a);
    char *error = NULL;
    void *first, *second;
    size_t n, again;
    assert_true(host_emit_object(&m, NULL, &first, &n, &error));
    assert_true(host_emit_object(&m, NULL, &second, &again, &error));
    assert_int_equal(n, again);
    assert_memory_equal(first, second, n);
    assert_memory_equal(first, "\177ELF", 4);
    free(first);
    free(second);
}

static void other_machines(void **state) {
    Toy *t = *state;
    const Module m = make_module(t->a);
    const HostOptions arm = {.triple = "aarch64-linux-gnu"}, none = {.triple = "pdp11-unknown-unix"};
    char *error = NULL, *text = NULL;
    void *bytes = NULL;
    size_t n = 0;
    assert_true(host_emit_object(&m, &arm, &bytes, &n, &error));
    assert_int_equal(((uint8_t *)bytes)[18], 183); /* EM_AARCH64 */
    free(bytes);
    assert_true(host_emit_ir_text(&m, &arm, &text, &error));
    assert_non_null(strstr(text, "@toy_kernels"));
    assert_non_null(strstr(text, "define internal void @toy.forward"));
    free(text);
    assert_false(host_emit_object(&m, &none, &bytes, &n, &error));
    assert_non_null(error);
    free(error);
}

/* NaN and infinities at each place of each dtype are found; the largest finite numbers and integers pass. */
static void not_finite_in_every_dtype(void **state) {
    static const struct {
        uint8_t dtype;
        int bytes;
        uint64_t largest, infinity, nan;
    } all[] = {{FUSEC_F32, 4, 0x7f7fffff, 0xff800000, 0x7f800001},
               {FUSEC_F16, 2, 0x7bff, 0xfc00, 0x7c01},
               {FUSEC_BF16, 2, 0x7f7f, 0xff80, 0x7f81}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int at = 0; at < 3; at++) {
            char data[3 * 8] = {0};
            const void *in[] = {data};
            const fusec_tensor t = {
                .dtype = all[i].dtype, .rank = 1, .dim = {3}, .sym = {-1}, .bytes = 3 * (uint64_t)all[i].bytes};
            const fusec_manifest m = {.n_inputs = 1, .inputs = &t};
            memcpy(data + at * all[i].bytes, &all[i].largest, (size_t)all[i].bytes); /* little-endian */
            assert_int_equal(fusec_check_inputs(&m, in, NULL, NULL), FUSEC_OK);
            memcpy(data + at * all[i].bytes, &all[i].infinity, (size_t)all[i].bytes);
            assert_int_equal(fusec_check_inputs(&m, in, NULL, NULL), FUSEC_E_NOT_FINITE);
            memcpy(data + at * all[i].bytes, &all[i].nan, (size_t)all[i].bytes);
            assert_int_equal(fusec_check_inputs(&m, in, NULL, NULL), FUSEC_E_NOT_FINITE);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(manifest_says_what_the_module_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forward_at_several_extents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unwanted_outputs_are_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_do_not_show, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unsound_calls_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(output_is_the_same_every_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_machines, set_up, tear_down),
        cmocka_unit_test(not_finite_in_every_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
