/* The stack that the functions of an emitted MODEL.h take: each is called on a stack of its own which a pattern fills, and
 * what no longer holds the pattern has been used.
 *     cc -DMODEL=net -DMACRO=NET -I DIR stack_use.c DIR/net.c -o stack_use
 * Prints `ENTRY BYTES` for each function; exit status 1 if one takes more than MACRO_STACK_BYTES, or fails. */
#define _XOPEN_SOURCE 700
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(what) PASTE(MODEL, what)
#define SIZE(what) PASTE(MACRO, what)
#include TEXT(MODEL.h)
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { PATTERN = 0xA5, SLACK = 1 << 20, MOST = 64 };

static MODEL model;
static NAME(_memory) memory;
static NAME(_inputs) inputs;
static NAME(_outputs) outputs;
static void *in[MOST], *out[MOST], *scratch;
static unsigned char *file;
static size_t file_bytes, file_room;
static fusec_status status;
static const unsigned char *top; /* the stack where the measured function is called */

static void *block(uint64_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, SIZE(_ALIGN) < sizeof p ? sizeof p : SIZE(_ALIGN), bytes + 1)) abort();
    return memset(p, 0, bytes + 1);
}

/* What the callbacks take is the embedder's: here they are leaves. */
static int put(void *user, const void *from, uint32_t n) {
    (void)user;
    if (n > file_room - file_bytes) return 1;
    for (uint32_t i = 0; i < n; i++) file[file_bytes++] = ((const unsigned char *)from)[i];
    return 0;
}
static int get(void *user, uint64_t offset, void *to, uint32_t n) {
    (void)user;
    if (offset > file_bytes || n > file_bytes - offset) return 1;
    for (uint32_t i = 0; i < n; i++) ((unsigned char *)to)[i] = file[offset + i];
    return 0;
}
static const fusec_io io = {NULL, put, get};

/* ---- the functions, each called from a frame that holds nothing ---- */
#define CALL(name, ...) \
    static __attribute__((noinline)) void name(void) { status = __VA_ARGS__; }
CALL(call_init, NAME(_init)(&model, &memory, NULL))
CALL(call_save, NAME(_save)(&model, &io))
CALL(call_load, NAME(_load)(&model, &io))
/* A file of parameters alone: entries init and derive run inside of load. */
static void call_load_params(void) {
    static fusec_manifest params;
    params = NAME(_manifest);
    params.n_states = 0, params.state_bytes = 0;
    file_bytes = 0;
    status = fusec_save(&params, &memory, NULL, &io);
    if (status == FUSEC_OK) call_load();
}
#ifdef INFER
CALL(call_infer, NAME(_infer)(&model, &inputs, &outputs))
#endif
#ifdef GRAD
CALL(call_grad, NAME(_grad)(&model, &inputs, &outputs, true))
#ifdef HYPER
CALL(call_step, NAME(_step)(&model, &inputs, &outputs, NULL))
#else
CALL(call_step, NAME(_step)(&model, &inputs, &outputs))
#endif
#endif
#ifdef DERIVE
CALL(call_derive, NAME(_derive)(&model))
#endif
CALL(call_selftest, NAME(_selftest)(&model, scratch))

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {{"init", call_init},
#ifdef INFER
             {"infer", call_infer},
#endif
#ifdef GRAD
             {"grad", call_grad},         {"step", call_step},
#endif
#ifdef DERIVE
             {"derive", call_derive},
#endif
             {"save", call_save},         {"load", call_load},
             {"load_params", call_load_params}, {"selftest", call_selftest}};

static int current;
static ucontext_t back, there;
static __attribute__((noinline)) void enter(void) {
    top = __builtin_frame_address(0);
    calls[current].call();
}

static int64_t measure(int i) {
    const size_t n = SIZE(_STACK_BYTES) + SLACK;
    unsigned char *stack = block(n);
    size_t untouched = 0;
    memset(stack, PATTERN, n);
    getcontext(&there);
    there.uc_stack.ss_sp = stack, there.uc_stack.ss_size = n, there.uc_link = &back;
    current = i;
    makecontext(&there, enter, 0);
    swapcontext(&back, &there);
    while (stack[untouched] == PATTERN) untouched++;
    const int64_t used = top - (stack + untouched);
    free(stack);
    return used;
}

/* ---- what they are called with ---- */
static void fill(const fusec_tensor *t, void *data) {
    uint64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= (uint64_t)t->dim[d];
    for (uint64_t i = 0; i < n && t->dtype == FUSEC_F32; i++) ((float *)data)[i] = (float)(i * 37 % 17) / 8 - 1;
    for (uint64_t i = 0; i < n && t->dtype == FUSEC_I32; i++) ((int32_t *)data)[i] = (int32_t)t->lo;
}

/* The typed structs are pointers in the manifest's order, and for the inputs the extents after them. */
static void prepare(void) {
    const fusec_manifest *m = &NAME(_manifest);
    int32_t extents[MOST];
    if (m->n_inputs > MOST || m->n_outputs > MOST || m->n_syms > MOST) abort();
    for (uint32_t i = 0; i < m->n_inputs; i++) fill(&m->inputs[i], in[i] = block(m->inputs[i].bytes));
    for (uint32_t i = 0; i < m->n_outputs; i++) out[i] = block(m->outputs[i].bytes);
    for (uint32_t i = 0; i < m->n_syms; i++) extents[i] = m->syms[i].bound;
    memcpy(&inputs, in, m->n_inputs * sizeof *in);
    memcpy((char *)&inputs + m->n_inputs * sizeof *in, extents, m->n_syms * sizeof *extents);
    memcpy(&outputs, out, m->n_outputs * sizeof *out);
    memory.params = block(memory.param_bytes = m->param_bytes);
    memory.states = block(memory.state_bytes = m->state_bytes);
    memory.grads = block(memory.grad_bytes = m->grad_bytes);
    memory.arena = block(memory.arena_bytes = SIZE(_ARENA_BYTES));
    file = malloc(file_room = m->param_bytes + m->state_bytes + (1 << 20));
    scratch = block(SIZE(_SELFTEST_BYTES));
    if (!file) abort();
}

int main(void) {
    int bad = 0;
    prepare();
    printf("bound %d\n", (int)SIZE(_STACK_BYTES));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const int64_t used = measure((int)i);
        const bool fits = used > 0 && used <= SIZE(_STACK_BYTES), ok = status == FUSEC_OK || status == FUSEC_SKIPPED;
        printf("%s %" PRId64 "%s%s\n", calls[i].name, used, fits ? "" : " EXCEEDED", ok ? "" : " FAILED");
        bad |= !fits || !ok;
    }
    return bad;
}
