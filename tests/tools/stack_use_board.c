/* stack_use.c for the board of examples/firmware: what init, step, save and load of its model take of the stack there.  Below
 * the frame of `measure` everything is filled with a pattern, then called, then looked at.  Prints `ENTRY ok` or
 * `ENTRY exceeded`, and the bytes in hexadecimal. */
#include "board.h"
#include "model.h"

enum { PAINTED = DIGITS_STACK_BYTES + 4096, PATTERN = 0xA5, FILE_BYTES = 65536, BELOW = 64 };

static _Alignas(DIGITS_ALIGN) uint8_t params[DIGITS_PARAM_BYTES + 1];
static _Alignas(DIGITS_ALIGN) uint8_t states[DIGITS_STATE_BYTES + 1];
static _Alignas(DIGITS_ALIGN) uint8_t grads[DIGITS_GRAD_BYTES + 1];
static _Alignas(DIGITS_ALIGN) uint8_t arena[DIGITS_ARENA_BYTES + 1];
static const digits_memory memory = {.params = params, .param_bytes = sizeof params, .states = states,
    .state_bytes = sizeof states, .grads = grads, .grad_bytes = sizeof grads, .arena = arena, .arena_bytes = sizeof arena};
static float image[16][64], loss;
static int32_t label[16];
static const digits_inputs inputs = {.image = image[0], .label = label};
static const digits_outputs outputs = {.loss = &loss};
static uint8_t file[FILE_BYTES];
static uint32_t file_bytes;
static digits model;

static int put(void *user, const void *from, uint32_t n) {
    (void)user;
    if (n > FILE_BYTES - file_bytes) return 1;
    for (uint32_t i = 0; i < n; i++) file[file_bytes++] = ((const uint8_t *)from)[i];
    return 0;
}
static int get(void *user, uint64_t offset, void *to, uint32_t n) {
    (void)user;
    if (offset > file_bytes || n > file_bytes - offset) return 1;
    for (uint32_t i = 0; i < n; i++) ((uint8_t *)to)[i] = file[offset + i];
    return 0;
}
static const fusec_io io = {0, put, get};

#define CALL(name, ...) \
    static __attribute__((noinline)) fusec_status name(void) { return __VA_ARGS__; }
CALL(call_init, digits_init(&model, &memory, 0))
CALL(call_grad, digits_grad(&model, &inputs, &outputs, 1))
CALL(call_step, digits_step(&model, &inputs, &outputs, 0))
CALL(call_save, digits_save(&model, &io))
CALL(call_load, digits_load(&model, &io))

static void print_hex(uint32_t x) {
    char line[] = "00000000\n";
    for (int i = 0; i < 8; i++) line[i] = "0123456789abcdef"[x >> (28 - 4 * i) & 15];
    board_print(line);
}

static __attribute__((noinline)) int measure(const char *name, fusec_status (*call)(void)) {
    volatile uint8_t *top = (volatile uint8_t *)__builtin_frame_address(0) - BELOW, *at = top - PAINTED;
    for (volatile uint8_t *p = at; p < top; p++) *p = PATTERN;
    const fusec_status status = call();
    while (at < top && *at == PATTERN) at++;
    const uint32_t used = (uint32_t)(top - at) + BELOW;
    board_print(name);
    board_print(used <= DIGITS_STACK_BYTES && status == FUSEC_OK ? " ok " : " exceeded ");
    print_hex(used);
    return used > DIGITS_STACK_BYTES || status != FUSEC_OK;
}

int main(void) {
    int bad = 0;
    for (int i = 0; i < 16 * 64; i++) image[i / 64][i % 64] = (float)(i % 7) / 7;
    bad |= measure("init", call_init);
    bad |= measure("grad", call_grad);
    bad |= measure("step", call_step);
    bad |= measure("save", call_save);
    bad |= measure("load", call_load);
    return bad;
}
