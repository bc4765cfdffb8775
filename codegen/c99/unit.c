/* A C text: helpers, math functions, kernels; identifiers. */
#include "codegen/c99/internal.h"
#include "codegen/math/math.h"
#include <ctype.h>
#include <string.h>

typedef struct HelperInfo {
    uint64_t needs;
    const char *text;
} HelperInfo;
static const HelperInfo helper[C99_HELPERS] = {
#define M(e) ((uint64_t)1 << C99_##e)
#define HELPER(e, needs, text) {needs, text},
#include "codegen/c99/helpers.def"
#undef HELPER
#undef M
};

C99Unit *c99_unit(Arena *a) {
    C99Unit *u = ARENA_NEW(a, C99Unit);
    u->arena = a;
    return u;
}

void c99_use(C99Unit *u, C99Helper h) {
    if (u->helpers >> h & 1) return;
    u->helpers |= (uint64_t)1 << h;
    for (int n = 0; n < C99_HELPERS; n++)
        if (helper[h].needs >> n & 1) c99_use(u, (C99Helper)n);
}

C99Stack c99_stack(const C99Unit *u) {
    int math = 0;
    for (int op = 0; op < OP_COUNT; op++)
        if (u->math[op] && c99_math_values((Op)op) > math) math = c99_math_values((Op)op);
    return (C99Stack){u->stack.arrays, u->stack.values + math, u->stack.arguments};
}

void c99_print(FILE *f, const C99Unit *u) {
    Arena *a = arena_new();
    fputs("/* Compile with -ffp-contract=off (gcc contracts by default) and FLT_EVAL_METHOD 0: then the results are\n"
          " * the same bits on every machine. */\n"
          "#include <stdbool.h>\n#include <stdint.h>\n\n"
          "/* Not inlined: a call takes the stack of one kernel, not of all. */\n"
          "#if defined(__GNUC__)\n#define FUSEC_KERNEL static __attribute__((noinline)) void\n#else\n"
          "#define FUSEC_KERNEL static void\n#endif\n\n"
          "#define FUSEC_INF fusec_float(0x7f800000u)\n#define FUSEC_NAN fusec_float(0x7fc00000u)\n\n",
          f);
    for (int h = 0; h < C99_HELPERS; h++)
        if (u->helpers >> h & 1) fprintf(f, "%s\n", helper[h].text);
    for (int op = 0; op < OP_COUNT; op++)
        if (u->math[op]) {
            c99_print_math(f, a, (Op)op);
            fputc('\n', f);
        }
    for (int i = 0; i < u->kernels.n; i++) fprintf(f, "%s%s", i ? "\n" : "", u->kernels.at[i]);
    arena_free(a);
}

/* ---- identifiers -------------------------------------------------------------------------------------------- */
static const char *const reserved[] = {
    "auto",       "break",     "case",     "char",     "const",     "continue", "default",  "do",       "double",
    "else",       "enum",      "extern",   "float",    "for",       "goto",     "if",       "inline",   "int",
    "long",       "register",  "restrict", "return",   "short",     "signed",   "sizeof",   "static",   "struct",
    "switch",     "typedef",   "union",    "unsigned", "void",      "volatile", "while",    "_Bool",    "_Complex",
    "_Imaginary", "asm",       "bool",     "true",     "false",     "class",    "delete",   "new",      "this",
    "template",   "namespace", "operator", "private",  "protected", "public",   "virtual",  "typename", "try",
    "catch",      "throw",     "friend",   "using",    "export",    "explicit", "mutable",  "and",      "or",
    "not",        "xor",       "main",     "NULL",     "near",      "far",      "linux",    "unix",     "int8_t",
    "int16_t",    "int32_t",   "int64_t",  "uint8_t",  "uint16_t",  "uint32_t", "uint64_t", "size_t",   "INT32_MIN",
    "INT32_MAX",  "memcpy",    "memset",   "memmove",  "memcmp"};

/* Names that the printer gives to values: v7, next7. */
static bool is_generated(const char *s) {
    const char *digits = strncmp(s, "next", 4) == 0 ? s + 4 : *s == 'v' ? s + 1 : "x";
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

char *c99_identifier(Arena *a, const char *text) {
    char *s = arena_printf(a, "%s%s", *text && !isdigit((unsigned char)*text) ? "" : "_", text);
    for (char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c >= 128) *c = '_';
    bool taken = is_generated(s) || strncmp(s, "fusec_", 6) == 0 || strncmp(s, "FUSEC_", 6) == 0;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) taken |= strcmp(s, reserved[i]) == 0;
    return taken ? arena_printf(a, "%s_", s) : s;
}

/* The slot that holds s, or the empty one where it goes. */
static const char **slot_of(const C99Names *names, const char *s) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = s; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    for (;; h++) {
        const char **slot = &names->slot[h & (uint64_t)(names->n_slots - 1)];
        if (!*slot || strcmp(*slot, s) == 0) return slot;
    }
}

static void grow_names(Arena *a, C99Names *names) {
    const C99Names old = *names;
    names->n_slots = old.n_slots ? 2 * old.n_slots : 64;
    names->slot = ARENA_ARRAY(a, const char *, names->n_slots);
    for (int i = 0; i < old.n_slots; i++)
        if (old.slot[i]) *slot_of(names, old.slot[i]) = old.slot[i];
}

const char *c99_unique(Arena *a, C99Names *names, const char *wanted) {
    const char *s = wanted;
    if (2 * names->n >= names->n_slots) grow_names(a, names);
    for (int n = 2; *slot_of(names, s); n++) s = arena_printf(a, "%s_%d", wanted, n);
    names->n++;
    return *slot_of(names, s) = s;
}
