/* A module as MODEL.h and MODEL.c: compiled freestanding, run through the typed interface and through MODEL_run, and
 * compared with the module interpreter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/artifact/artifact.h"
#include "ir/module_run.h"
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/fusec-artifact-XXXXXX";
static const char flags[] = "-std=c99 -pedantic -Wall -Wextra -Werror -ffreestanding -ffp-contract=off -O1";

/* ---- a model: y = x w + b on at most S rows, loss = sum y^2, w <- w - lr dw ------------------------------ */
static const char *const kernel_text[] = {
    "kernel @fill(%seed: i32[], %w: f32[3,2] out)\n  grid r in 0..3 step 1\n  grid c in 0..2 step 1\n"
    "  %0 = load %seed[] : i32\n  %1 = const 0 : i32\n  %2 = index 2*r + c : i32[r:1,c:1]\n"
    "  %3 = philox %0, %1, %1, %2 : f32[r:1,c:1]\n  store %w[r, c], %3\n",
    "kernel @linear<S<=4>(%x: f32[S<=4,3], %w: f32[3,2], %y: f32[S<=4,2] out)\n  grid m in 0..S<=4 step 2\n"
    "  grid n in 0..2 step 2\n  span k in 0..3 step 4\n  %0 = full 0 : f32[m:2,n:2]\n  %1 = load %x[m, k] : "
    "f32[m:2,k:4]\n"
    "  %2 = load %w[k, n] : f32[n:2,k:4]\n  %3 = dot %1, %2, %0 over k : f32[m:2,n:2]\n  store %y[m, n], %3\n",
    "kernel @loss<S<=4>(%y: f32[S<=4,2], %loss: f32[] out)\n  span m in 0..S<=4 step 4\n  span n in 0..2 step 2\n"
    "  %0 = load %y[m, n] : f32[m:4,n:2]\n  %1 = mul %0, %0 : f32[m:4,n:2]\n  %2 = sum %1 over m, n : f32\n  store "
    "%loss[], %2\n",
    "kernel @gradient<S<=4>(%x: f32[S<=4,3], %y: f32[S<=4,2], %more: i32[], %dw: f32[3,2] out)\n  grid r in 0..3 step "
    "2\n"
    "  grid n in 0..2 step 2\n  span m in 0..S<=4 step 4\n  %0 = full 0 : f32[r:2,n:2]\n  %1 = load %x[m, r] : "
    "f32[r:2,m:4]\n"
    "  %2 = load %y[m, n] : f32[n:2,m:4]\n  %3 = dot %1, %2, %0 over m : f32[r:2,n:2]\n  %4 = const 2 : f32\n"
    "  %5 = mul %3, %4 : f32[r:2,n:2]\n  %6 = load %more[] : i32\n  %7 = const 0 : i32\n  %8 = ne %6, %7 : bool\n"
    "  %9 = load %dw[r, n] where %8 else 0 : f32[r:2,n:2]\n  %10 = add %9, %5 : f32[r:2,n:2]\n  store %dw[r, n], %10\n",
    "kernel @update(%dw: f32[3,2], %lr: f32[], %w: f32[3,2] out)\n  grid r in 0..3 step 1\n  grid c in 0..2 step 2\n"
    "  %0 = load %w[r, c] : f32[r:1,c:2]\n  %1 = load %dw[r, c] : f32[r:1,c:2]\n  %2 = load %lr[] : f32\n"
    "  %3 = mul %1, %2 : f32[r:1,c:2]\n  %4 = sub %0, %3 : f32[r:1,c:2]\n  store %w[r, c], %4\n",
    "kernel @no_more(%more: i32[] out)\n  grid z in 0..1 step 1\n  %0 = const 0 : i32\n  store %more[], %0\n"};
enum { FILL, LINEAR, LOSS, GRADIENT, UPDATE, NO_MORE, KERNELS };

static void launch(Module *m, Entry e, int kernel, uint64_t outputs, Phase phase, int n, const LaunchArg *args) {
    Launch l = {.kernel = kernel,
                .n_args = n,
                .args = arena_dup(m->arena, args, sizeof *args * (size_t)n),
                .wanted_by = outputs,
                .phase = phase};
    vec_push(m->arena, m->entry[e].launches, l);
    m->entry[e].present = true;
}

static ModuleTensor tensor(const char *name, DType t, Shape s) {
    return (ModuleTensor){.name = name, .dtype = t, .shape = s, .bytes = shape_elements(s) * dtype_bytes(t)};
}

static Module *make_module(Arena *a) {
    Module *m = ARENA_NEW(a, Module);
    const Dim rows = {.bound = 4, .sym = 0, .scale = 1}, three = dim_fixed(3), two = dim_fixed(2);
    *m = (Module){.arena = a,
                  .name = "tiny.model",
                  .source = "tiny.dsl",
                  .hash = 0x123456789abcdef0u,
                  .align = 16,
                  .param_bytes = 32,
                  .grad_bytes = 32};
    vec_push(a, m->syms, ((SymDecl){"S", 4}));
    vec_push(a, m->hypers, ((HyperDecl){"lr", 0.125}));
    vec_push(a, m->params, tensor("fc.w", DT_F32, shape_make(2, (Dim[]){three, two})));
    vec_push(a, m->grads, tensor("fc.w", DT_F32, shape_make(2, (Dim[]){three, two})));
    vec_push(a, m->inputs, tensor("x", DT_F32, shape_make(2, (Dim[]){rows, three})));
    vec_push(a, m->inputs, tensor("for", DT_I32, shape_make(1, &rows)));
    m->inputs.at[1].has_range = true;
    m->inputs.at[1].hi = 10;
    vec_push(a, m->outputs, tensor("loss", DT_F32, shape_scalar()));
    vec_push(a, m->outputs, tensor("y", DT_F32, shape_make(2, (Dim[]){rows, two})));
    for (int i = 0; i < KERNELS; i++) {
        const char *error = NULL;
        Kernel *k = kernel_parse(a, kernel_text[i], &error);
        if (!k) fail_msg("%s in %s", error, kernel_text[i]);
        const char *bad = kernel_verify(a, k);
        if (bad) fail_msg("%s in %s", bad, kernel_text[i]);
        static const char *const names[] = {"S"};
        k->n_syms = 1;
        k->sym_names = names;
        vec_push(a, m->kernels, k);
    }
    const LaunchArg x = {REGION_INPUT, 0, 0, 0}, w = {REGION_PARAM, 0, 0, 0}, y = {REGION_ARENA, 0, 16, 0},
                    out_y = {REGION_OUTPUT, 1, 0, 0}, loss = {REGION_OUTPUT, 0, 0, 0},
                    lr = {REGION_SCALAR, 0, 4 * SCALAR_HYPER0, 0}, seed = {REGION_SCALAR, 0, 4 * SCALAR_SEED, 0},
                    more = {REGION_SCALAR, 0, 4 * SCALAR_ACCUMULATE, 0}, dw = {REGION_GRAD, 0, 0, 0},
                    arena_dw = {REGION_ARENA, 0, 48, 0}, never = {REGION_ARENA, 0, 80, 0};
    launch(m, ENTRY_INIT, FILL, ~(uint64_t)0, PHASE_FORWARD, 2, (LaunchArg[]){seed, w});
    launch(m, ENTRY_INFER, LINEAR, ~(uint64_t)0, PHASE_FORWARD, 3, (LaunchArg[]){x, w, y});
    launch(m, ENTRY_INFER, LINEAR, 2, PHASE_FORWARD, 3, (LaunchArg[]){x, w, out_y});
    launch(m, ENTRY_INFER, LOSS, 1, PHASE_FORWARD, 2, (LaunchArg[]){y, loss});
    for (int e = ENTRY_GRAD; e <= ENTRY_STEP; e++) {
        launch(m, (Entry)e, LINEAR, ~(uint64_t)0, PHASE_FORWARD, 3, (LaunchArg[]){x, w, y});
        launch(m, (Entry)e, LOSS, ~(uint64_t)0, PHASE_FORWARD, 2, (LaunchArg[]){y, loss});
    }
    launch(m, ENTRY_GRAD, GRADIENT, ~(uint64_t)0, PHASE_BACKWARD, 4, (LaunchArg[]){x, y, more, dw});
    launch(m, ENTRY_STEP, NO_MORE, ~(uint64_t)0, PHASE_BACKWARD, 1, (LaunchArg[]){never});
    launch(m, ENTRY_STEP, GRADIENT, ~(uint64_t)0, PHASE_BACKWARD, 4, (LaunchArg[]){x, y, never, arena_dw});
    launch(m, ENTRY_STEP, UPDATE, ~(uint64_t)0, PHASE_UPDATE, 3, (LaunchArg[]){arena_dw, lr, w});
    m->entry[ENTRY_INFER].arena_bytes = m->entry[ENTRY_GRAD].arena_bytes = 48;
    m->entry[ENTRY_STEP].arena_bytes = 96;
    return m;
}

/* Uses the typed interface only; returns the loss after `steps` steps and the gradient before the last. */
static const char user[] =
    "#include \"tiny_model.h\"\n"
    "float user(const float *x, const int32_t *labels, int steps, float *dw, float *w, int *status);\n"
    "float user(const float *x, const int32_t *labels, int steps, float *dw, float *w, int *status) {\n"
    "    static uint64_t params[TINY_MODEL_PARAM_BYTES / 8 + 2], grads[TINY_MODEL_GRAD_BYTES / 8 + 2], "
    "arena[TINY_MODEL_ARENA_BYTES / 8 + 2];\n"
    "    const fusec_memory memory = {.params = (void *)(((uintptr_t)params + 15) & ~(uintptr_t)15), .param_bytes = "
    "TINY_MODEL_PARAM_BYTES,\n"
    "        .grads = (void *)(((uintptr_t)grads + 15) & ~(uintptr_t)15), .grad_bytes = TINY_MODEL_GRAD_BYTES,\n"
    "        .arena = (void *)(((uintptr_t)arena + 15) & ~(uintptr_t)15), .arena_bytes = TINY_MODEL_ARENA_BYTES};\n"
    "    const fusec_options options = {.seed = 7};\n"
    "    tiny_model model;\n    float loss = -1;\n"
    "    const tiny_model_inputs in = {.x = x, .for_ = labels, .S = 3};\n"
    "    const tiny_model_outputs out = {.loss = &loss};\n"
    "    const tiny_model_hyper hyper = {.lr = 0.0625f};\n"
    "    *status = tiny_model_init(&model, &memory, &options);\n"
    "    if (!*status) *status = tiny_model_grad(&model, &in, &out, false);\n"
    "    if (!*status) *status = tiny_model_grad(&model, &in, &out, true);\n"
    "    for (int i = 0; i < 6; i++) dw[i] = ((const float *)memory.grads)[TINY_MODEL_GRAD_FC_W / 4 + i];\n"
    "    for (int i = 0; i < steps && !*status; i++) *status = tiny_model_step(&model, &in, &out, &hyper);\n"
    "    if (!*status) *status = tiny_model_infer(&model, &in, &out);\n"
    "    for (int i = 0; i < 6; i++) w[i] = ((const float *)memory.params)[i];\n"
    "    return model.step == steps ? loss : -2;\n}\n";

static void *library; /* compiled once for all tests */
static const fusec_manifest *manifest;
static fusec_status (*run)(const fusec_memory *, int, const void *const *, void *const *, const float *, int32_t,
                           uint32_t, const int32_t *);

static void emit(Arena *a, const Module *m, const char *compiler, const char *so) {
    FILE *f = fopen(arena_printf(a, "%s/tiny_model.h", folder), "w");
    artifact_header(f, m, &artifact_c99_form);
    fclose(f);
    f = fopen(arena_printf(a, "%s/tiny_model.c", folder), "w");
    const char *why = artifact_c99(f, m, "tiny_model.h");
    fclose(f);
    if (why) fail_msg("%s", why);
    f = fopen(arena_printf(a, "%s/user.c", folder), "w");
    fputs(user, f);
    fclose(f);
    const char *command =
        arena_printf(a, "cd %s && %s %s -shared -fPIC -o %s tiny_model.c user.c", folder, compiler, flags, so);
    if (system(command) != 0) fail_msg("%s", command);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    Arena *a = arena_new();
    Module *m = make_module(a);
    emit(a, m, "gcc", "tiny.so");
    if (system("clang --version >/dev/null 2>&1") == 0) emit(a, m, "clang", "tiny_clang.so");
    library = dlopen(arena_printf(a, "%s/tiny.so", folder), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    manifest = dlsym(library, "tiny_model_manifest");
    void *symbol = dlsym(library, "tiny_model_run");
    memcpy(&run, &symbol, sizeof run);
    arena_free(a);
    return manifest && symbol ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    dlclose(library);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    return rmdir(folder);
}

static const float x[12] = {0.5f, -1, 2, 0.25f, 1.5f, -0.75f, 1, 1, -2, 9, 9, 9};

static void nothing_but_memory_functions_is_called(void **state) {
    (void)state;
    Arena *a = arena_new();
    const char *command = arena_printf(a,
                                       "cd %s && gcc %s -fno-pic -fno-pie -c tiny_model.c -o t.o && nm -u t.o | grep "
                                       "-v -E ' (mem(cpy|set|move|cmp)|_GLOBAL_OFFSET_TABLE_)$' | grep -q .",
                                       folder, flags);
    assert_int_not_equal(system(command), 0);
    command = arena_printf(a, "cd %s && nm t.o | grep -q -E ' [BbDdC] '", folder); /* mutable globals */
    assert_int_not_equal(system(command), 0);
    arena_free(a);
}

static void training_agrees_with_the_interpreter(void **state) {
    (void)state;
    Arena *a = arena_new();
    Module *m = make_module(a);
    float params[8] = {0}, grads[8] = {0}, arena[32], loss = 0, y[8];
    int32_t labels[4] = {0}, scalars[4] = {0, 7, 0, 0};
    const float lr = 0.0625f;
    void *in[] = {(void *)(uintptr_t)x, labels}, *out[] = {&loss, y};
    const ModuleMemory mem = {
        .params = params, .grads = grads, .arena = arena, .scalars = scalars, .inputs = in, .outputs = out};
    const int64_t syms[] = {3};
    const char *error = NULL;
    memcpy(&scalars[3], &lr, 4);
    if (!module_run(a, m, ENTRY_INIT, &mem, syms, &error)) fail_msg("%s", error);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        scalars[SCALAR_ACCUMULATE] = accumulate;
        if (!module_run(a, m, ENTRY_GRAD, &mem, syms, &error)) fail_msg("%s", error);
    }
    for (int i = 0; i < 5; i++)
        if (!module_run(a, m, ENTRY_STEP, &mem, syms, &error)) fail_msg("%s", error);
    if (!module_run(a, m, ENTRY_INFER, &mem, syms, &error)) fail_msg("%s", error);

    float (*call)(const float *, const int32_t *, int, float *, float *, int *), dw[6], w[6];
    void *symbol = dlsym(library, "user");
    memcpy(&call, &symbol, sizeof call);
    int status = -1;
    const float got = call(x, labels, 5, dw, w, &status);
    assert_int_equal(status, FUSEC_OK);
    for (int i = 0; i < 6; i++) assert_true(fabsf(dw[i] - grads[i]) <= 1e-5f * (1 + fabsf(grads[i])));
    for (int i = 0; i < 6; i++) assert_true(fabsf(w[i] - params[i]) <= 1e-5f);
    assert_true(fabsf(got - loss) <= 1e-5f * (1 + fabsf(loss)) && got > 0);
    arena_free(a);
}

static void the_manifest_is_the_module(void **state) {
    (void)state;
    assert_int_equal(manifest->abi_version, FUSEC_ABI_VERSION);
    assert_string_equal(manifest->name, "tiny.model");
    assert_true(manifest->hash == 0x123456789abcdef0u);
    assert_int_equal(manifest->n_kernels, 0); /* entries are plain calls: nothing that only a launcher reads */
    assert_string_equal(manifest->params[0].name, "fc.w");
    assert_int_equal(manifest->inputs[0].sym[0], 0);
    assert_int_equal(manifest->inputs[0].scale[0], 1);
    assert_int_equal(manifest->inputs[0].sym[1], -1);
    assert_int_equal(manifest->inputs[1].hi, 10);
    assert_int_equal(manifest->entry[FUSEC_STEP].arena_bytes, 96);
    assert_int_equal(manifest->entry[FUSEC_STEP].n_launches, 0);
    assert_true(manifest->entry[FUSEC_STEP].present && !manifest->launches && !manifest->args && !manifest->after);
    assert_true(manifest->hypers[0].value == 0.125f);
}

static _Alignas(16) char params[32], grads[32], arena[96];
static fusec_memory whole_memory(void) {
    return (fusec_memory){
        .params = params, .param_bytes = 32, .grads = grads, .grad_bytes = 32, .arena = arena, .arena_bytes = 96};
}

static void bad_calls_are_refused(void **state) {
    (void)state;
    float loss, y[8];
    int32_t labels[4] = {0, 9, 1, 77}, syms[] = {3};
    const void *in[] = {x, labels};
    void *out[] = {&loss, y}, *only_y[] = {NULL, y};
    fusec_memory m = whole_memory();
    assert_int_equal(run(&m, FUSEC_INFER, in, out, NULL, 1, 0, syms), FUSEC_OK);
    assert_int_equal(run(&m, FUSEC_INFER, in, only_y, NULL, 1, 0, syms), FUSEC_OK);
    assert_int_equal(run(&m, FUSEC_STEP, in, only_y, NULL, 1, 0, syms), FUSEC_OK); /* the loss is left out */
    assert_int_equal(run(&m, FUSEC_STEP, in, NULL, NULL, 1, 0, syms), FUSEC_OK);
    assert_int_equal(run(&m, FUSEC_ENTRIES, in, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
    assert_int_equal(run(&m, FUSEC_INFER | FUSEC_LINE(0), in, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT); /* lines are steps */
    assert_int_equal(run(&m, FUSEC_STEP | FUSEC_LINE(3), in, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);  /* it has no such line */
    assert_int_equal(run(NULL, FUSEC_INFER, in, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
    assert_int_equal(run(&m, FUSEC_INFER, (const void *[]){NULL, labels}, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
    syms[0] = 5;
    assert_int_equal(run(&m, FUSEC_INFER, in, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
    syms[0] = 4; /* now the fourth label counts */
    assert_int_equal(run(&m, FUSEC_INFER, in, out, NULL, 1, 0, syms), FUSEC_E_RANGE);
    syms[0] = 0;
    assert_int_equal(run(&m, FUSEC_INFER, in, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
    syms[0] = 1;
    assert_int_equal(run(&m, FUSEC_INFER, in, out, NULL, 1, 0, syms), FUSEC_OK);
    char *moved = (char *)x + 1;
    assert_int_equal(run(&m, FUSEC_INFER, (const void *[]){moved, labels}, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
    moved = (char *)y + 2;
    assert_int_equal(run(&m, FUSEC_INFER, in, (void *[]){&loss, moved}, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
    m.arena_bytes = 95;
    assert_int_equal(run(&m, FUSEC_STEP, in, out, NULL, 1, 0, syms), FUSEC_E_MEMORY);
    assert_int_equal(run(&m, FUSEC_GRAD, in, out, NULL, 1, 0, syms), FUSEC_OK);
    m.params = params + 4;
    assert_int_equal(run(&m, FUSEC_GRAD, in, out, NULL, 1, 0, syms), FUSEC_E_ARGUMENT);
}

/* ---- weights -------------------------------------------------------------------------------------------------- */
typedef struct Disk {
    uint8_t data[1024];
    uint32_t n;
    bool full;
} Disk;
static int disk_write(void *user_data, const void *from, uint32_t n) {
    Disk *d = user_data;
    if (d->full || d->n + n > sizeof d->data) return 1;
    memcpy(d->data + d->n, from, n);
    d->n += n;
    return 0;
}
static int disk_read(void *user_data, uint64_t offset, void *to, uint32_t n) {
    Disk *d = user_data;
    if (offset > d->n || n > d->n - offset) return 1;
    memcpy(to, d->data + offset, n);
    return 0;
}

static fusec_position position = {.step = 3, .seed = 4};

static void weights_come_back(void **state) {
    (void)state;
    Disk disk = {0};
    fusec_memory m = whole_memory();
    const fusec_io io = {.user = &disk, .write = disk_write, .read = disk_read};
    for (int i = 0; i < 24; i++) params[i] = (char)(i * 7 + 1);
    char kept[32];
    memcpy(kept, params, 32);
    assert_int_equal(fusec_save(manifest, &m, &position, &io), FUSEC_OK);
    assert_non_null(
        strstr((char *)disk.data + 8, "\"fc.w\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}"));
    assert_int_equal((disk.n - 24) % 8, 0);
    memset(params, 0, 32);
    position = (fusec_position){0};
    assert_int_equal(fusec_load(manifest, &m, &position, &io, NULL), FUSEC_OK);
    assert_memory_equal(params, kept, 24);
    assert_true(position.step == 3 && position.seed == 4);
    disk.full = true;
    disk.n = 0;
    assert_int_equal(fusec_save(manifest, &m, &position, &io), FUSEC_E_FILE);
}

/* Every byte of a good file changed in turn, and every length of it: refused, or the same weights. */
static void broken_files_change_nothing(void **state) {
    (void)state;
    Disk good = {0}, disk;
    fusec_memory m = whole_memory();
    fusec_io io = {.user = &good, .write = disk_write, .read = disk_read};
    for (int i = 0; i < 24; i++) params[i] = (char)(i + 1);
    assert_int_equal(fusec_save(manifest, &m, &position, &io), FUSEC_OK);
    io.user = &disk;
    int refused = 0;
    for (uint32_t at = 0; at < good.n; at++)
        for (int change = 1; change < 256; change += 36) {
            disk = good;
            disk.data[at] ^= (uint8_t)change;
            memset(params, 99, 24);
            const fusec_status s = fusec_load(manifest, &m, &position, &io, NULL);
            refused += s != FUSEC_OK;
            for (int i = 0; i < 24; i++) assert_int_equal(params[i], s == FUSEC_OK ? i + 1 : 99);
        }
    assert_true(refused > 500);
    for (uint32_t n = 0; n < good.n; n++) {
        disk = good;
        disk.n = n;
        assert_int_not_equal(fusec_load(manifest, &m, &position, &io, NULL), FUSEC_OK);
    }
}

static void crc_is_the_standard_one(void **state) {
    (void)state;
    assert_int_equal(fusec_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(fusec_crc32(fusec_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
}

static void statuses_have_texts(void **state) {
    (void)state;
    for (int s = FUSEC_OK; s <= FUSEC_E_DIVERGED; s++)
        assert_string_not_equal(fusec_status_text((fusec_status)s), "unknown status");
    assert_string_equal(fusec_status_text((fusec_status)99), "unknown status");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manifest_is_the_module), cmocka_unit_test(training_agrees_with_the_interpreter),
        cmocka_unit_test(bad_calls_are_refused),      cmocka_unit_test(nothing_but_memory_functions_is_called),
        cmocka_unit_test(weights_come_back),          cmocka_unit_test(broken_files_change_nothing),
        cmocka_unit_test(crc_is_the_standard_one),    cmocka_unit_test(statuses_have_texts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
