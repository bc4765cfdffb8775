#include "bench/gpu/calibrate/instructions.h"
#include "bench/gpu/calibrate/instruction_cases.h"
#include <stdio.h>
#include <string.h>

/* ---- texts --------------------------------------------------------------------------------------------- */
static const char *register_of(const char *type) {
    const char *digits = strpbrk(type, "0123456789");
    if (!strncmp(type, "e4m3", 4) || !strncmp(type, "e5m2", 4)) return "%h";
    if (!strcmp(type, "tf32") || !strcmp(type, "u8") || !strcmp(type, "s8")) return "%r";
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

typedef struct Texts {
    char (*line)[INSTRUCTION_TEXT];
    int count, room;
    char beyond[INSTRUCTION_TEXT]; /* where lines go that there is no room for */
} Texts;
static char *next_line(Texts *t) {
    char *at = t->count < t->room ? t->line[t->count] : t->beyond;
    t->count++;
    return at;
}

static void expand(const Pattern *p, Texts *to) {
    char types[128], *rest = types;
    snprintf(types, sizeof types, "%s", p->types);
    for (char *type; (type = strtok_r(rest, " ", &rest)) != NULL;) {
        char *text = next_line(to);
        int at = snprintf(text, INSTRUCTION_TEXT, "@%s.%s ", p->op, type);
        for (const char *f = p->form; *f; f++) {
            char one[16];
            operand(one, sizeof one, *f, type);
            at += snprintf(text + at, (size_t)(INSTRUCTION_TEXT - at), "%s%s", one, f[1] ? ", " : ";");
        }
    }
}

/* Calls `each` on every word of a list. */
typedef struct Converting {
    const Conversion *row;
    const char *to, *from;
    Texts *text;
} Converting;

static void each_word(Converting *c, const char *list, void (*each)(Converting *, const char *)) {
    char words[128], *rest = words;
    snprintf(words, sizeof words, "%s", list);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) each(c, word);
}

static void convert(Converting *c, const char *modifier) {
    const char *to = register_of(c->to), *from = register_of(c->from);
    const bool none = !strcmp(modifier, "-");
    char second[16] = "";
    if (c->row->pair) snprintf(second, sizeof second, ", %s6", from);
    snprintf(next_line(c->text), INSTRUCTION_TEXT, "@cvt%s%s.%s.%s %s8, %s5%s;", none ? "" : ".", none ? "" : modifier,
             c->to, c->from, to, from, second);
}

static void convert_from(Converting *c, const char *from) {
    c->from = from;
    each_word(c, c->row->modifiers, convert);
}

static void convert_to(Converting *c, const char *to) {
    c->to = to;
    each_word(c, c->row->from, convert_from);
}

int instructions_list(char (*to)[INSTRUCTION_TEXT], int room, bool whole_only) {
    Texts texts = {.line = to, .room = room};
    Converting c = {.text = &texts};
    for (size_t k = 0; !whole_only && k < sizeof PATTERNS / sizeof *PATTERNS; k++)
        expand(&PATTERNS[k], &texts);
    for (size_t k = 0; !whole_only && k < sizeof CONVERSIONS / sizeof *CONVERSIONS; k++) {
        c.row = &CONVERSIONS[k];
        each_word(&c, c.row->to, convert_to);
    }
    for (size_t k = 0; k < sizeof PLAIN / sizeof *PLAIN; k++)
        if ((PLAIN[k][0] == '!') == whole_only) snprintf(next_line(&texts), INSTRUCTION_TEXT, "%s", PLAIN[k]);
    return texts.count;
}

/* ---- kernels ------------------------------------------------------------------------------------------- */
size_t instructions_head(char *to, size_t room) {
    size_t at = (size_t)snprintf(
        to, room,
        ".reg .b64 %%rd<12>; .reg .b32 %%r<20>; .reg .b16 %%h<10>; .reg .f32 %%f<10>; .reg .f64 %%d<10>; .reg .pred "
        "%%p<10>;\n"
        "ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x;\n"
        "mad.lo.u32 %%r1, %%r2, %d, %%r1; mad.wide.u32 %%rd3, %%r1, %d, %%rd1; mad.wide.u32 %%rd4, %%r1, %d, %%rd2;\n",
        INPUT_THREADS, (int)sizeof(InstructionInput), RESULT_WORDS * 8);
    for (int k = 5; k < 8; k++)
        at += (size_t)snprintf(to + at, room - at,
                               "ld.global.b64 %%rd%d, [%%rd3+%d]; mov.b64 {%%r%d, %%r0}, %%rd%d; mov.b32 {%%h%d, "
                               "%%h0}, %%r%d; mov.b32 %%f%d, %%r%d; mov.b64 %%d%d, %%rd%d;\n",
                               k, (k - 5) * 8, k, k, k, k, k, k, k, k);
    return at + (size_t)snprintf(
                    to + at, room - at,
                    "ld.global.b32 %%r11, [%%rd3+24]; ld.global.b32 %%r12, [%%rd3+28]; ld.global.b32 %%r0, "
                    "[%%rd3+32];\nld.global.b32 %%r13, [%%rd3+36]; ld.global.b32 %%r14, [%%rd3+40];\n"
                    "and.b32 %%r2, %%r0, 1; setp.ne.u32 %%p1, %%r2, 0; and.b32 %%r2, %%r0, 2; setp.ne.u32 %%p3, %%r2, "
                    "0;\nand.b32 %%r2, %%r0, 4; setp.ne.u32 %%p4, %%r2, 0;\n");
}

size_t instruction_emit(char *to, size_t room, const char *text, InstructionMode mode, int index) {
    const char *set = "";
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
        INPUTS * RESULT_WORDS * 8);
    return at;
}

/* ---- inputs -------------------------------------------------------------------------------------------- */
static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static uint64_t draw_word(uint64_t *state, int kind) {
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
    const uint64_t r = draw(state);
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

void instruction_inputs(InstructionInput in[INPUTS], bool whole) {
    uint64_t seed = 88172645463325252u, *state = &seed;
    for (int i = 0; i < INPUTS; i++) {
        const int kind = (int)(draw(state) >> 20);
        for (int k = 0; k < 3; k++) in[i].word[k] = draw_word(state, i % 3 ? kind : kind + k * (int)(draw(state) % 6));
        in[i].predicates = (uint32_t)draw(state) & 7;
        in[i].shift = (uint32_t)(draw(state) % (i % 5 ? 40 : 300));
        in[i].width = (uint32_t)(draw(state) % (i % 7 ? 40 : 300));
        if (whole) in[i].predicates |= 1;
    }
    for (int w = 0; w < INPUTS; w += 32) {
        uint32_t members = 0;
        in[w + (int)(draw(state) % 32)].predicates |= 1;
        for (int l = 0; l < 32; l++) members |= (in[w + l].predicates & 1) << l;
        for (int l = 0; l < 32; l++) {
            uint32_t lane = (uint32_t)draw(state) % 32;
            while (!(members >> lane & 1)) lane = (lane + 1) % 32;
            in[w + l].lane = lane;
            in[w + l].members = members;
        }
    }
}
