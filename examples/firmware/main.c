/* Trains the digits MLP on 16 digits and prints the bits of the loss of every eighth step: on a Cortex-M4 the same
 * as anywhere else. */
#include "board.h"
#include "digits16.h"
#include "model.h"

/* + 1: a block may be empty, an array may not */
static _Alignas(DIGITS_ALIGN) uint8_t params[DIGITS_PARAM_BYTES + 1];
static _Alignas(DIGITS_ALIGN) uint8_t states[DIGITS_STATE_BYTES + 1];
static _Alignas(DIGITS_ALIGN) uint8_t arena[DIGITS_ARENA_BYTES + 1];
static float image[16][64];

static void print_bits(float x) {
    char line[] = "loss 0x00000000\n";
    union { float f; uint32_t u; } bits = {.f = x};
    for (int i = 0; i < 8; i++) line[7 + i] = "0123456789abcdef"[bits.u >> (28 - 4 * i) & 15];
    board_print(line);
}

int main(void) {
    const digits_memory memory = {.params = params, .param_bytes = sizeof params, .states = states,
                                  .state_bytes = sizeof states, .arena = arena, .arena_bytes = sizeof arena};
    const digits_options options = {.seed = 1};
    float loss = 0;
    digits model;
    for (int i = 0; i < 16 * 64; i++) image[i / 64][i % 64] = digit_pixels[i / 64][i % 64] / 16.0f;
    fusec_status status = digits_init(&model, &memory, &options);
    const digits_inputs inputs = {.image = image[0], .label = digit_labels};
    const digits_outputs outputs = {.loss = &loss};
    for (int i = 0; i < 64 && status == FUSEC_OK; i++) {
        status = digits_step(&model, &inputs, &outputs, 0);
        if (i % 8 == 7) print_bits(loss);
    }
    if (status != FUSEC_OK) board_print(fusec_status_text(status));
    return status != FUSEC_OK;
}
