/* Mutated programs through lexer, token layer, grammar and diagnostics: nothing may crash, hang or leak, places stay
 * inside the text, and what is reported can be printed.  The seed is fixed, so a failure repeats. */
#include "frontend/frontend.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_TEXT = 1 << 16, MAX_SEEDS = 128, ROUNDS = 3000 };

typedef struct Text {
    char at[MAX_TEXT + 1];
    size_t n;
} Text;

typedef struct Seeds {
    char *text[MAX_SEEDS];
    size_t length[MAX_SEEDS];
    int n;
} Seeds;

static uint64_t random_next(uint64_t *state) { /* xorshift64* (Vigna 2016) */
    uint64_t x = *state;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1DULL >> 16;
}

static size_t below(uint64_t *state, size_t n) { return n ? (size_t)(random_next(state) % n) : 0; }

static void add_directory(Seeds *seeds, const char *path) {
    DIR *dir = opendir(path);
    assert_non_null(dir);
    struct dirent **names;
    closedir(dir);
    const int n = scandir(path, &names, NULL, alphasort); /* sorted: the order must not depend on the file system */
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        const size_t length = strlen(name);
        char file[512];
        snprintf(file, sizeof file, "%s/%s", path, name);
        FILE *f =
            length > 4 && strcmp(name + length - 4, ".dsl") == 0 && seeds->n < MAX_SEEDS ? fopen(file, "rb") : NULL;
        if (f) {
            char *text = malloc(MAX_TEXT + 1);
            seeds->length[seeds->n] = fread(text, 1, MAX_TEXT, f);
            seeds->text[seeds->n++] = text;
            fclose(f);
        }
        free(names[i]);
    }
    free(names);
}

static bool is_word(char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

/* The word or symbol around byte i: [*from, *to). */
static void token_around(const Text *t, size_t i, size_t *from, size_t *to) {
    *from = i;
    *to = i + 1;
    if (!is_word(t->at[i])) return;
    while (*from > 0 && is_word(t->at[*from - 1])) --*from;
    while (*to < t->n && is_word(t->at[*to])) ++*to;
}

static void splice(Text *t, size_t from, size_t to, const char *with, size_t n) {
    if (t->n - (to - from) + n > MAX_TEXT) return;
    memmove(t->at + from + n, t->at + to, t->n - to);
    memcpy(t->at + from, with, n);
    t->n = t->n - (to - from) + n;
}

static void swap_tokens(Text *t, uint64_t *rng) {
    size_t a0, a1, b0, b1;
    token_around(t, below(rng, t->n), &a0, &a1);
    token_around(t, below(rng, t->n), &b0, &b1);
    if (a1 > b0 || b1 - b0 > 64 || a1 - a0 > 64) return;
    char first[64], second[64];
    memcpy(first, t->at + a0, a1 - a0);
    memcpy(second, t->at + b0, b1 - b0);
    splice(t, b0, b1, first, a1 - a0);
    splice(t, a0, a1, second, b1 - b0);
}

static const char *const snippets[] = {
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\n",
    ",",
    "=",
    "<-",
    "..",
    "...",
    ":",
    ".",
    "-",
    "\"",
    "#",
    "1e999",
    "99999999999999999999",
    " if ",
    " else ",
    " then ",
    " as ",
    " in ",
    " over ",
    " scan x over ",
    "\nfn f(",
    "\nmodel m {",
    " sum[",
    " zeros like ",
    " param [",
    " hyper 1",
    "\ncheckpoint {",
    "\r\n",
    "\t",
    "\xe2\x80\x9c",
    "\xff",
    " not ",
    "^",
    "\\",
    ";",
    "**",
    "1.",
    ".5",
};

static void mutate(Text *t, uint64_t *rng) {
    if (t->n == 0) return;
    const size_t i = below(rng, t->n);
    size_t from, to;
    token_around(t, i, &from, &to);
    const char *snippet = snippets[below(rng, sizeof snippets / sizeof *snippets)];
    char copy[64];
    const size_t length = to - from < sizeof copy ? to - from : sizeof copy;
    memcpy(copy, t->at + from, length);
    switch (below(rng, 9)) {
    case 0: t->at[i] ^= (char)(1u << below(rng, 8)); break;
    case 1: t->at[i] = (char)below(rng, 128); break;
    case 2: t->n = i; break;
    case 3: splice(t, from, to, "", 0); break;
    case 4: splice(t, to, to, copy, length); break;
    case 5: swap_tokens(t, rng); break;
    case 6: splice(t, from, to, snippet, strlen(snippet)); break;
    case 7: splice(t, i, i, snippet, strlen(snippet)); break;
    default: splice(t, from, from + below(rng, t->n - from < 200 ? t->n - from : 200), "", 0); break;
    }
}

static int lines_of(const Text *t) {
    int lines = 1;
    for (size_t i = 0; i < t->n; i++) lines += t->at[i] == '\n';
    return lines;
}

static void check_places(const Ast *ast, int lines) {
    for (int i = 0; i < ast->tops.n; i++) {
        const Top *top = ast->tops.at[i];
        assert_in_range(top->loc.line, 1, lines);
        assert_in_range(top->loc.end_line, top->loc.line, lines);
        assert_non_null(top->name.text);
        for (int k = 0; k < top->body.n; k++) {
            const SrcLoc loc = top->body.at[k]->loc;
            assert_in_range(loc.line, top->loc.line, top->loc.end_line);
            assert_true(loc.end_line > loc.line || loc.end_col > loc.col);
        }
    }
}

/* Returns whether the text was accepted. */
static bool run(const Text *t, FILE *sink) {
    Arena *arena = arena_new();
    Diag *diag = diag_new(arena);
    char *exact = malloc(t->n + 1); /* so that reading past the end is seen */
    memcpy(exact, t->at, t->n);
    exact[t->n] = '\0';
    const Ast *ast = ast_parse(arena, diag, diag_file(diag, "fuzz.dsl", exact, t->n, false));
    assert_non_null(ast);
    check_places(ast, lines_of(t));
    ast_print(sink, ast);
    diag_print(diag, sink);
    const bool accepted = diag_errors(diag) == 0;
    free(exact);
    arena_free(arena);
    return accepted;
}

static void load(Text *t, const Seeds *seeds, int i) {
    memcpy(t->at, seeds->text[i], seeds->length[i]);
    t->n = seeds->length[i];
}

static void test_mutations(void **state) {
    (void)state;
    static Text text;
    Seeds seeds = {0};
    add_directory(&seeds, SOURCE_DIR "/tests/golden/syntax");
    add_directory(&seeds, SOURCE_DIR "/tests/golden/diag");
    assert_true(seeds.n > 20);
    FILE *sink = fopen("/dev/null", "w");
    uint64_t rng = 0x9E3779B97F4A7C15ULL;
    int accepted = 0;
    for (int round = 0; round < ROUNDS; round++) {
        load(&text, &seeds, (int)below(&rng, (size_t)seeds.n));
        for (size_t n = 1 + below(&rng, 6); n > 0; n--) mutate(&text, &rng);
        accepted += run(&text, sink);
    }
    fclose(sink);
    for (int i = 0; i < seeds.n; i++) free(seeds.text[i]);
    assert_in_range(accepted, ROUNDS / 200, ROUNDS * 3 / 4); /* both ways out of the parser were taken */
}

/* Strings of snippets alone: far from any program. */
static void test_rubble(void **state) {
    (void)state;
    static Text text;
    FILE *sink = fopen("/dev/null", "w");
    uint64_t rng = 88172645463325252ULL;
    for (int round = 0; round < ROUNDS; round++) {
        text.n = 0;
        for (size_t n = below(&rng, 60); n > 0; n--) {
            const char *snippet = snippets[below(&rng, sizeof snippets / sizeof *snippets)];
            if (*snippet != '\xff') splice(&text, text.n, text.n, snippet, strlen(snippet));
            splice(&text, text.n, text.n, "x ", below(&rng, 3));
        }
        run(&text, sink);
    }
    fclose(sink);
}

/* Every prefix of a program: each place where a file may end. */
static void test_prefixes(void **state) {
    (void)state;
    static Text text, whole;
    Seeds seeds = {0};
    add_directory(&seeds, SOURCE_DIR "/tests/golden/syntax");
    FILE *sink = fopen("/dev/null", "w");
    for (int i = 0; i < seeds.n; i++) {
        load(&whole, &seeds, i);
        for (size_t n = 0; n < whole.n && n < 1500; n++) {
            memcpy(text.at, whole.at, n);
            text.n = n;
            run(&text, sink);
        }
        free(seeds.text[i]);
    }
    fclose(sink);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_rubble),
        cmocka_unit_test(test_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
