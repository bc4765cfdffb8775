/* MODEL.h and MODEL.c of the CUDA form: compiled as users compile them, run over a driver whose kernels are the
 * module's, interpreted, and held to the module interpreter bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/artifact/artifact.h"
#include "codegen/nvptx/nvptx.h"
#include "frontend/frontend.h"
#include "ir/module_run.h"
#include "passes/pass.h"
#include "tests/support/fake_kernels.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 5, USED = 4, STEPS = 3 };

/* What user() below brings back. */
typedef struct Results {
    float loss_of_infer, loss_of_step, probability[ROWS * 3];
    float params[1024], states[4096], grads[1024];
    uint64_t device_bytes;
    char log[2048];
} Results;

/* A user's program over the typed interface. */
static const char user[] =
    "#include \"tiny.h\"\n"
    "typedef struct Results {\n    float loss_of_infer, loss_of_step, probability[15];\n    float params[1024], "
    "states[4096], grads[1024];\n"
    "    uint64_t device_bytes;\n    char log[2048];\n} Results;\n"
    "int user(const fusec_cu_driver *driver, const float *image, const int32_t *label, Results *r);\n"
    "int user(const fusec_cu_driver *driver, const float *image, const int32_t *label, Results *r) {\n"
    "    tiny model;\n"
    "    const tiny_options options = {.seed = 7, .driver = driver, .log = r->log, .log_bytes = sizeof r->log};\n"
    "    const tiny_inputs in = {.image = image, .label = label, .B = 4}, same = {.B = 4};\n"
    "    const tiny_outputs none = {0}, out = {.loss = &r->loss_of_infer, .probability = r->probability};\n"
    "    const tiny_hyper hyper = {.lr = 0.125f};\n"
    "    fusec_status s = tiny_init(&model, NULL, &options);\n"
    "    r->device_bytes = TINY_DEVICE_BYTES;\n"
    "    if (!s) s = tiny_grad(&model, &in, &none, false);\n"
    "    if (!s) s = tiny_grad(&model, &same, &none, true);\n"
    "    for (int i = 0; i < 3 && !s; i++) s = tiny_step(&model, &in, &none, &hyper);\n"
    "    if (!s) s = tiny_fetch_loss(&model, &r->loss_of_step);\n"
    "    if (!s) s = tiny_infer(&model, &in, &out);\n"
    "    if (!s) s = fusec_cuda_read(&model.cuda, FUSEC_R_PARAM, 0, r->params, TINY_PARAM_BYTES);\n"
    "    if (!s) s = fusec_cuda_read(&model.cuda, FUSEC_R_STATE, 0, r->states, TINY_STATE_BYTES);\n"
    "    if (!s) s = fusec_cuda_read(&model.cuda, FUSEC_R_GRAD, 0, r->grads, TINY_GRAD_BYTES);\n"
    "    if (!s && model.step != 3) s = FUSEC_E_UNSUPPORTED;\n"
    "    tiny_free(&model);\n    return s;\n}\n";

static const char flags[] = "-std=c99 -pedantic -Wall -Wextra -Wshadow -Werror -O1";
static Arena *arena;
static Module *module;
static char *ptx;

/* ---- the model ------------------------------------------------------------------------------------------------ */
static const char *path(const char *name) { return arena_printf(arena, "%s/%s", scratch_folder(), name); }

static Module *compile(void) {
    Graph *graphs[ENTRY_COUNT] = {0};
    Diag *d = diag_new(arena);
    write_text(path("tiny.dsl"), tiny_model);
    Program *p = program_load(arena, d, path("tiny.dsl"), &(FrontendOptions){0});
    if (!p || !program_lower(arena, d, p, NULL, graphs)) {
        diag_print(d, stderr);
        return NULL;
    }
    PassContext c = {.arena = arena, .target = target_find("sm_80"), .verify = true};
    return compile_module(&c, graphs);
}

/* NAME.h and NAME.c */
static const char *emit_as(const char *name, const char *embedded) {
    const char *kept = module->name, *header = arena_printf(arena, "%s.h", name);
    module->name = name;
    FILE *f = fopen(path(header), "w");
    artifact_header(f, module, &artifact_cuda_form);
    fclose(f);
    f = fopen(path(arena_printf(arena, "%s.c", name)), "w");
    const char *why = artifact_cuda(f, module, header, "tiny.ptx", embedded);
    fclose(f);
    module->name = kept;
    return why;
}
static const char *emit(const char *embedded) { return emit_as("tiny", embedded); }

static int set_up(void **state) {
    (void)state;
    char *error = NULL;
    if (scratch_make(state)) return -1;
    arena = arena_new();
    module = compile();
    if (!module || !nvptx_emit_ptx(module, &(NvptxOptions){.arch = "sm_80"}, &ptx, &error))
        fail_msg("%s", error ? error : "does not compile");
    write_text(path("user.c"), user);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(ptx);
    arena_free(arena);
    return scratch_remove(state);
}

/* ---- the same through the module interpreter --------------------------------------------------------------------- */
static float image[ROWS * 6];
static int32_t label[ROWS] = {2, 0, 1, 2, 77}; /* the last is past the extent */

static void *block(int64_t bytes) { return arena_alloc(arena, (size_t)bytes + 8); }

static void interpret_all(Results *r) {
    int32_t scalars[SCALAR_HYPER0 + 1] = {0, 7, 0};
    const float lr = 0.125f;
    memcpy(&scalars[SCALAR_HYPER0], &lr, sizeof lr);
    int64_t most = 0;
    for (int e = 0; e < ENTRY_COUNT; e++)
        most = module->entry[e].arena_bytes > most ? module->entry[e].arena_bytes : most;
    void *in[] = {image, label}, *out[] = {&r->loss_of_infer, r->probability};
    const ModuleMemory mem = {.params = block(module->param_bytes),
                              .states = block(module->state_bytes),
                              .grads = block(module->grad_bytes),
                              .arena = block(most),
                              .scalars = scalars,
                              .inputs = in,
                              .outputs = out};
    static const Entry order[] = {ENTRY_INIT, ENTRY_GRAD, ENTRY_GRAD, ENTRY_STEP, ENTRY_STEP, ENTRY_STEP, ENTRY_INFER};
    const int64_t used = USED;
    const char *error = NULL;
    for (int i = 0; i < 7; i++) {
        scalars[SCALAR_STEP] = order[i] == ENTRY_INIT ? 0 : i < 4 ? 1 : i < 6 ? i - 2 : 4;
        scalars[SCALAR_ACCUMULATE] = i == 2;
        if (!module_run(arena, module, order[i], &mem, &used, &error)) fail_msg("%s", error);
        if (i == 5) r->loss_of_step = r->loss_of_infer;
    }
    memcpy(r->params, mem.params, (size_t)module->param_bytes);
    memcpy(r->states, mem.states, (size_t)module->state_bytes);
    memcpy(r->grads, mem.grads, (size_t)module->grad_bytes);
}

/* Gaps between tensors are nobody's. */
static void compare(const char *what, const ModuleTensor *t, int n, const void *got, const void *want) {
    for (int i = 0; i < n; i++)
        if (memcmp((const char *)got + t[i].offset, (const char *)want + t[i].offset, (size_t)t[i].bytes) != 0)
            fail_msg("%s %s differs", what, t[i].name);
}

static void run_built_with(const char *compiler, const char *so) {
    static Results got, want;
    const fusec_cu_driver driver = fake_cuda_driver();
    int (*call)(const fusec_cu_driver *, const float *, const int32_t *, Results *);
    scratch_shell(arena, arena_printf(arena, "%s %s -shared -fPIC -o %s tiny.c user.c -ldl", compiler, flags, so));
    void *library = dlopen(path(so), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    void *symbol = dlsym(library, "user");
    memcpy(&call, &symbol, sizeof call);
    fake.kernels = fake_kernels(arena, module);
    for (int i = 0; i < ROWS * 6; i++) image[i] = (float)(i * 7 % 11) / 4 - 1;
    memset(&got, 0, sizeof got);
    memset(&want, 0, sizeof want);
    const int status = call(&driver, image, label, &got);
    if (status) fail_msg("%s: %s", fusec_status_text((fusec_status)status), got.log);
    interpret_all(&want);
    assert_true(got.loss_of_step == want.loss_of_step && got.loss_of_infer == want.loss_of_infer &&
                want.loss_of_infer > 0);
    assert_memory_equal(got.probability, want.probability, sizeof(float) * USED * 3);
    compare("parameter", module->params.at, module->params.n, got.params, want.params);
    compare("state", module->states.at, module->states.n, got.states, want.states);
    compare("gradient", module->grads.at, module->grads.n, got.grads, want.grads);
    assert_int_equal(got.device_bytes, artifact_device_bytes(module));
    assert_int_equal(fake.most_device_bytes, got.device_bytes);
    assert_int_equal(fake.live, 0);
    assert_int_equal(fake.misuse, 0);
    assert_int_equal(fake.pageable - fake.calls[FAKE_cuMemcpyDtoHAsync_v2],
                     -3); /* reads of weights alone; outputs are pinned */
    fake_cuda_reset();
    dlclose(library);
}

static void the_artifact_trains(void **state) {
    (void)state;
    assert_true(module->param_bytes <= 4096 && module->state_bytes <= 16384 && module->grad_bytes <= 4096);
    assert_null(emit(ptx));
    run_built_with("gcc", "tiny.so");
    if (have_compiler("clang")) run_built_with("clang", "tiny_clang.so");
}

/* The kernels in their own file, found where the program runs. */
static void kernels_come_from_their_file(void **state) {
    (void)state;
    char here[4096];
    assert_null(emit(NULL));
    write_text(path("tiny.ptx"), ptx);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(scratch_folder()), 0);
    run_built_with("gcc", "tiny_file.so");
    assert_int_equal(chdir(here), 0);
}

/* The program in the comment is one, in C99 and C++. */
static void the_example_compiles(void **state) {
    (void)state;
    assert_null(emit(NULL));
    scratch_shell(arena, "sed -n '/^ \\*     #include/,/^ \\*     }$/p' tiny.c | sed -e 's/^ \\*     //' -e 's/^ \\*$//' >main.c "
                         "&& grep -q tiny_step main.c");
    scratch_shell(arena, arena_printf(arena, "cc %s -o main main.c tiny.c -ldl", flags));
    write_text(path("main.cc"),
               "#include \"tiny.h\"\nint main() { static tiny model; tiny_free(&model); return 0; }\n");
    if (have_compiler("c++")) scratch_shell(arena, "c++ -Wall -Wextra -Werror -c main.cc -o main.o");
}

static void two_models_share_a_program(void **state) {
    (void)state;
    assert_null(emit(NULL));
    assert_null(emit_as("other", ptx));
    write_text(
        path("two.c"),
        "#include \"tiny.h\"\n#include \"other.h\"\n"
        "int main(void) {\n    static tiny a;\n    static other b;\n    tiny_options o = {.library = "
        "\"libcuda-of-nobody.so\"};\n"
        "    return tiny_init(&a, 0, &o) == FUSEC_E_DRIVER && other_init(&b, 0, &o) == FUSEC_E_DRIVER ? 0 : 1;\n}\n");
    scratch_shell(arena, arena_printf(arena, "cc %s -o two two.c tiny.c other.c -ldl && ./two", flags));
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    const int align = module->align;
    module->align = 512;
    const char *why = emit(NULL);
    module->align = align;
    assert_string_equal(why, "tensors are aligned to more than 256 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_artifact_trains), cmocka_unit_test(kernels_come_from_their_file),
        cmocka_unit_test(the_example_compiles), cmocka_unit_test(two_models_share_a_program),
        cmocka_unit_test(what_does_not_fit_is_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
