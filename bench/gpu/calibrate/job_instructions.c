/* Instructions on registers: INPUTS threads each; approximations on a grid over all exponents. */
#include "bench/gpu/calibrate/instructions.h"
#include "bench/gpu/calibrate/job.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void body(const Job *j, Text *t, int label) {
    char text[8192];
    size_t at = instructions_head(text, sizeof text);
    at += instruction_emit(text + at, sizeof text - at, j->text, WHOLE, label);
    text_add(t, "%.*s", (int)at, text);
}

/* The quotient by zero is unspecified. */
enum { ANY, NO_ZERO_DIVISOR, GRID, GRID_OF_ANGLES };

/* A number and its negative, of every exponent for half of the inputs, of those near 1 for the others.  Angles stay
 * between -4 and 4, where the ISA bounds the error. */
static uint64_t grid(Element e, int i, uint64_t *state) {
    const int m = e == F64 ? 52 : e == F16 ? 10 : e == BF16 ? 7 : 23, bits = element_bits(e);
    const int exponents = (1 << (bits - 1 - m)) - 1, pair = i / 2 % (INPUTS / 2), half = pair / 2;
    const int spread = half * exponents / (INPUTS / 4), near = exponents / 2 - 9 + half * 14 / (INPUTS / 4);
    const uint64_t exponent = (uint64_t)(pair & 1 ? near : spread);
    return (uint64_t)(i & 1) << (bits - 1) | exponent << m | (random_word(state) & ((UINT64_C(1) << m) - 1));
}

static void fill_grid(const Job *j, InstructionInput *in) {
    uint64_t state = 1;
    for (int i = 24; i < INPUTS; i++) /* before them lie the special numbers that were drawn */
        for (int k = 0; k < 3; k++) {
            uint64_t w = 0, n = j->element == F64 ? 1 : 64 / (uint64_t)element_bits(j->element);
            for (uint64_t x = 0; x < n; x++)
                w |= grid(j->element, k ? (int)(random_word(&state) % INPUTS) : i + (int)x, &state)
                     << x * (uint64_t)element_bits(j->element) % 64;
            in[i].word[k] = w;
        }
    for (int i = 0; j->form[0] == GRID_OF_ANGLES && i < INPUTS; i++) {
        const uint64_t exponent = in[i].word[0] >> 23 & 255;
        if (exponent > 128 && exponent < 255) in[i].word[0] ^= (exponent ^ (exponent * 7 % 32 + 97)) << 23;
    }
}

static void fill(const Job *j, uint8_t *to, uint8_t *out) {
    static InstructionInput in[INPUTS];
    (void)out;
    instruction_inputs(in, true);
    for (int i = 0; j->form[0] == NO_ZERO_DIVISOR && i < INPUTS; i++) in[i].word[1] |= 1;
    if (j->form[0] >= GRID) fill_grid(j, in);
    memcpy(to, in, sizeof in);
}

/* ---- where the result is, and of what type ---------------------------------------------------------------- */
/* The first type among the dotted words is the result's; here only if it is a floating type. */
static Element type_of(const char *mnemonic, uint32_t *each) {
    char words[INSTRUCTION_TEXT], *rest = words;
    snprintf(words, sizeof words, "%s", mnemonic);
    *each = 1;
    for (char *w; (w = strtok_r(rest, ".", &rest)) != NULL;) {
        char *pair = strstr(w, "x2");
        if (pair && pair > w && !pair[2])
            *pair = '\0';
        else
            pair = NULL;
        const Element e = element_named(w);
        const bool other = strchr("busp", *w) && (strpbrk(w, "0123456789") == w + 1 || !strcmp(w, "pred"));
        *each = pair ? 2 : 1;
        if (other) return ELEMENTS;
        if (e != ELEMENTS && w != words) return e;
    }
    return ELEMENTS;
}

static void place_result(Job *j, const char *mnemonic, const char *destination) {
    static const struct {
        const char *name;
        uint32_t offset;
        Element element;
    } REGISTER[] = {{"%rd8", 16, U64}, {"%r8", 0, U32}, {"%h8", 8, U16},        {"%f8", 32, U32},      {"%d8", 24, U64},
                    {"%p8", 12, U32},  {"%r9", 4, U32}, {"{%h8, %h9}", 8, U32}, {"{%r8, %r9}", 0, U64}};
    uint32_t each;
    const Element type = type_of(mnemonic, &each);
    j->record = RESULT_WORDS * 8;
    for (size_t k = 0; k < sizeof REGISTER / sizeof *REGISTER; k++) {
        if (strncmp(destination, REGISTER[k].name, strlen(REGISTER[k].name))) continue;
        const int bits = element_bits(REGISTER[k].element);
        const bool fits = type != ELEMENTS && destination[1] != 'p' && element_bits(type) * (int)each == bits;
        j->offset = REGISTER[k].offset;
        j->element = fits ? type : REGISTER[k].element;
        j->each = fits ? each : 1;
        return;
    }
    j->offset = 0;
    j->element = U64;
}

static int inputs_for(const char *mnemonic, Judgement judgement) {
    const bool divides = !strncmp(mnemonic, "div.", 4) || !strncmp(mnemonic, "rem.", 4);
    if (divides && !strchr(mnemonic, 'f')) return NO_ZERO_DIVISOR;
    if (judgement != APPROX) return ANY;
    return !strncmp(mnemonic, "sin", 3) || !strncmp(mnemonic, "cos", 3) ? GRID_OF_ANGLES : GRID;
}

/* The mnemonic; where that is taken, the whole text. */
static void name(Jobs *jobs, Job *j, const char *text) {
    const size_t n = strcspn(text, " ");
    snprintf(j->name, sizeof j->name, "%.*s", (int)n, text);
    bool taken = strchr(text, ';')[1];
    for (int k = 0; k + 1 < jobs->count; k++) taken = taken || !strcmp(jobs->job[k].name, j->name);
    if (!taken) return;
    size_t at = 0;
    for (const char *c = text; *c && at < sizeof j->name - 1; c++)
        if (*c != ' ' && *c != '@' && *c != '%')
            j->name[at++] = *c;
        else if (*c == ' ' && at && j->name[at - 1] != ',' && j->name[at - 1] != ';')
            j->name[at++] = '_';
    j->name[at - (j->name[at - 1] == ';')] = '\0';
}

static void add(Jobs *jobs, const char *text) {
    const char *plain = text + (*text == '@' || *text == '!');
    Job *j = jobs_add(jobs, "%s", "");
    name(jobs, j, plain);
    const size_t n = strcspn(plain, " ");
    char mnemonic[INSTRUCTION_TEXT];
    snprintf(mnemonic, sizeof mnemonic, "%.*s", (int)n, plain);
    if (strstr(mnemonic, ".approx") || strstr(mnemonic, ".full")) j->judgement = APPROX;
    place_result(j, mnemonic, plain + n + 1);
    j->in_bytes = INPUTS * sizeof(InstructionInput);
    j->out_bytes = INPUTS * sizeof(InstructionResult);
    j->blocks = INPUT_BLOCKS;
    j->threads = INPUT_THREADS;
    j->body = body;
    j->fill = fill;
    j->text = text;
    j->form[0] = inputs_for(mnemonic, j->judgement);
}

void jobs_of_instructions(Jobs *jobs) {
    jobs->texts = calloc(INSTRUCTION_MOST, sizeof *jobs->texts);
    if (!jobs->texts) return;
    int count = instructions_list(jobs->texts, INSTRUCTION_MOST, false);
    count += instructions_list(jobs->texts + count, INSTRUCTION_MOST - count, true);
    for (int k = 0; k < count && k < INSTRUCTION_MOST; k++) add(jobs, jobs->texts[k]);
}
