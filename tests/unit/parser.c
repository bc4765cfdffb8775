/* Text to tree: the programs under tests/golden/syntax against their trees, places, recovery and limits. */
#include "frontend/frontend.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GOLDEN SOURCE_DIR "/tests/golden/syntax"

typedef struct Parsed {
    Arena *arena;
    Diag *diag;
    Ast *ast;
} Parsed;

/* text[length] is NUL */
static Parsed parse_bytes(const char *text, size_t length) {
    Parsed p = {.arena = arena_new()};
    p.diag = diag_new(p.arena);
    const char *copy = arena_dup(p.arena, text, length + 1);
    p.ast = ast_parse(p.arena, p.diag, diag_file(p.diag, "test.dsl", copy, length, false));
    return p;
}

static Parsed parse(const char *text) { return parse_bytes(text, strlen(text)); }

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
    fclose(f);
    return text;
}

/* The diagnostics, or the tree, as text; the caller frees it. */
static char *printed(const Parsed *p, bool tree) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (tree)
        ast_print(f, p->ast);
    else
        diag_print(p->diag, f);
    fclose(f);
    return text;
}

static bool reports(const Parsed *p, const char *words) {
    char *text = printed(p, false);
    const bool found = strstr(text, words) != NULL;
    if (!found) print_error("not reported: %s\n%s", words, text);
    free(text);
    return found;
}

static void check_golden(const char *name) {
    char path[512], tree_path[512];
    snprintf(path, sizeof path, "%s/%s", GOLDEN, name);
    snprintf(tree_path, sizeof tree_path, "%s/%.*s.ast", GOLDEN, (int)strlen(name) - 4, name);
    char *text = read_file(path);
    Parsed p = parse(text);
    char *errors = printed(&p, false), *tree = printed(&p, true);
    assert_string_equal(errors, "");
    if (getenv("UPDATE")) {
        FILE *f = fopen(tree_path, "wb");
        assert_non_null(f);
        fputs(tree, f);
        fclose(f);
    }
    char *golden = read_file(tree_path);
    assert_non_null(golden);
    assert_string_equal(tree, golden);
    free(golden), free(tree), free(errors), free(text);
    arena_free(p.arena);
}

static void test_goldens(void **state) {
    (void)state;
    DIR *dir = opendir(GOLDEN);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        const size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 4, ".dsl") != 0) continue;
        check_golden(entry->d_name);
        n++;
    }
    closedir(dir);
    assert_true(n >= 5);
}

static void assert_loc(SrcLoc loc, int line, int col, int end_line, int end_col) {
    assert_int_equal(loc.line, line);
    assert_int_equal(loc.col, col);
    assert_int_equal(loc.end_line, end_line);
    assert_int_equal(loc.end_col, end_col);
}

static void test_places(void **state) {
    (void)state;
    Parsed p = parse("let a = (1 +\n\tbcd) * f(x)[0] # e\nfn g(x) {\n  y = -x\n}\n");
    assert_int_equal(diag_errors(p.diag), 0);
    const Top *let = p.ast->tops.at[0], *fn = p.ast->tops.at[1];
    assert_loc(let->loc, 1, 5, 2, 16);
    assert_loc(let->name.loc, 1, 5, 1, 6);
    assert_loc(let->value->loc, 1, 9, 2, 16);
    assert_loc(let->value->a->loc, 1, 9, 2, 6);
    assert_loc(let->value->a->b->loc, 2, 2, 2, 5);
    assert_loc(let->value->b->loc, 2, 9, 2, 16);
    assert_loc(let->value->b->items.at[0].loc, 2, 14, 2, 15);
    assert_loc(fn->loc, 3, 1, 5, 2);
    assert_loc(fn->body.at[0]->loc, 4, 3, 4, 9);
    assert_loc(fn->body.at[0]->values.at[0]->loc, 4, 7, 4, 9);
    arena_free(p.arena);
}

static void test_every_error_of_a_file(void **state) {
    (void)state;
    Parsed p = parse("let a = 1 +* 2\nlet b = 2\nfn f(x {\n  y = x x\n  z = )\n  return y\n}\nlet c = 3\n");
    assert_int_equal(diag_errors(p.diag), 4);
    assert_true(reports(&p, "test.dsl:1:12: error"));
    assert_true(reports(&p, "test.dsl:3:8: error"));
    assert_true(reports(&p, "test.dsl:4:9: error"));
    assert_true(reports(&p, "test.dsl:5:7: error"));
    assert_int_equal(p.ast->tops.n, 2);
    assert_string_equal(p.ast->tops.at[1]->name.text, "c");
    arena_free(p.arena);
}

static void test_one_mistake_one_error(void **state) {
    (void)state;
    static const char *const programs[] = {
        "model m {\n    y = f(a,\n          b c,\n          d)\n    z = y\n}\n",
        "model m {\n    y = f(a, b\n    z = y\n    w = z\n}\n",
        "fn f(x) {\n    if x {\n        y = x\n    return y\n}\nfn g(x) { return x }\n",
        "model m {\n    y = if true { 1 } else { 2 ) }\n    z = y\n}\n",
        "fn f(x] {\n    return x\n}\nlet a = 1\n",
        "fn f(x) {\n    y = \"abc\n    return x\n}\nlet a = 1\n",
        "fn f(x) {\n    y = x +\n}\nlet a = 1\n",
        "let a = f(1, 2 # never closed\nlet b = 2\nlet c = 3\n",
        "}\nlet a = 1\n",
        "let a = (1",
        "fn f(x) {",
        "fn f(x) {\n    if = 3 {\n        y = 2\n    } else if x {\n        z = 3\n    } else {\n    }\n}\n",
        "repeat 3 {\n    y = x\n    if y { z = 3 } else { z = 4 }\n}\nlet a = 1\n",
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        Parsed p = parse(programs[i]);
        char *text = printed(&p, false);
        if (diag_errors(p.diag) != 1) print_error("%s\n%s", programs[i], text);
        assert_int_equal(diag_errors(p.diag), 1);
        free(text);
        arena_free(p.arena);
    }
}

static void test_which_brace_is_missing(void **state) {
    (void)state;
    Parsed p = parse("fn f(x) {\n    if x {\n        y = 1\n    return y\n}\nfn g(x) { return x }\n");
    assert_true(reports(&p, "test.dsl:6:1: error: missing `}`: the `{` of line 2 is not closed [E0110]"));
    assert_int_equal(p.ast->tops.n, 2);
    arena_free(p.arena);
    p = parse("fn f(x) {\n    if x {\n  }\n}\nfn g(x) {\n    return x\n");
    assert_true(reports(&p, "test.dsl:6:13: error: missing `}`: the `{` of line 5 is not closed [E0110]"));
    arena_free(p.arena);
}

/* `n` times `unit`, between `before` and `after` */
static Parsed parse_repeated(const char *before, const char *unit, int n, const char *after) {
    const size_t length = strlen(before) + strlen(unit) * (size_t)n + strlen(after);
    char *text = malloc(length + 1), *at = stpcpy(text, before);
    for (int i = 0; i < n; i++) at = stpcpy(at, unit);
    stpcpy(at, after);
    Parsed p = parse_bytes(text, length);
    free(text);
    return p;
}

static void assert_limit(const char *before, const char *unit, int n, const char *after) {
    Parsed p = parse_repeated(before, unit, n, after);
    assert_int_equal(diag_errors(p.diag), 1);
    assert_true(reports(&p, "[E0108]"));
    arena_free(p.arena);
}

static void test_nesting_is_limited(void **state) {
    (void)state;
    assert_limit("let a = ", "(", 201, "1");
    assert_limit("let a = ", "[", 100000, "1");
    assert_limit("let a = ", "f(", 100000, "1");
    assert_limit("let a = ", "- ", 100000, "1");
    assert_limit("let a = ", "not ", 100000, "1");
    assert_limit("let a = 1", " + 1", 100000, "\n");
    assert_limit("let a = 1", " ^ 1", 100000, "\n");
    assert_limit("let a = x", ".y", 100000, "\n");
    assert_limit("let a = x", "[0]", 100000, "\n");
    assert_limit("let a = ", "if x then 1 else ", 100000, "1\n");
    assert_limit("let a = ", "sum[i] ", 100000, "1\n");
}

static void test_blocks_are_limited(void **state) {
    (void)state;
    assert_limit("fn f(x) {\n", "if x {\n", 100000, "}");
    assert_limit("fn f(x) {\nif x {}", " else if x {}", 100000, "\n}\n");
    Parsed p = parse_repeated("fn f(x) {\nif x {}", " else if x {}", 100, "\n}\n");
    assert_int_equal(diag_errors(p.diag), 0);
    arena_free(p.arena);
    p = parse_repeated("fn f(x) {\n", "if x {} else if x {}\n", 1000, "}\n");
    assert_int_equal(diag_errors(p.diag), 0);
    assert_int_equal(p.ast->tops.at[0]->body.n, 1000);
    arena_free(p.arena);
}

static void test_what_is_within_limits(void **state) {
    (void)state;
    Parsed p = parse_repeated("let a = 1", " + 1", 900, "\n");
    assert_int_equal(diag_errors(p.diag), 0);
    assert_int_equal(p.ast->tops.at[0]->value->height, 901);
    arena_free(p.arena);
    p = parse_repeated("let a = [", "1, ", 100000, "]\n");
    assert_int_equal(diag_errors(p.diag), 0);
    assert_int_equal(p.ast->tops.at[0]->value->list.n, 100000);
    arena_free(p.arena);
}

static void test_what_is_not_text(void **state) {
    (void)state;
    Parsed p = parse_bytes("let a = 1\nlet \0b = 2\n", 21);
    assert_true(reports(&p, "test.dsl:2:5: error: this is not text: byte 0x00 [E0106]"));
    arena_free(p.arena);
    static const char *const bad[] = {"let a = 1 # \xff\n", "# \xc3", "# \xe2\x82(\n", "# \xc0\x80\n",
                                      "# \xf5\x80\x80\x80\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p = parse(bad[i]);
        assert_int_equal(diag_errors(p.diag), 1);
        assert_true(reports(&p, "[E0106]"));
        arena_free(p.arena);
    }
    p = parse("\xef\xbb\xbflet a = 1\r\n# \xe2\x82\xac\r\nlet b = 2\r\n");
    assert_int_equal(diag_errors(p.diag), 0);
    assert_int_equal(p.ast->tops.n, 2);
    arena_free(p.arena);
}

static void test_size_is_limited(void **state) {
    (void)state;
    const size_t most = 16 << 20;
    char *text = malloc(most + 2);
    memset(text, ' ', most + 1);
    text[most + 1] = '\0';
    Parsed p = parse_bytes(text, most + 1);
    assert_true(reports(&p, "[E0107]"));
    arena_free(p.arena);
    p = parse_bytes(text, most);
    assert_int_equal(diag_errors(p.diag), 0);
    arena_free(p.arena);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_every_error_of_a_file),
        cmocka_unit_test(test_one_mistake_one_error),
        cmocka_unit_test(test_which_brace_is_missing),
        cmocka_unit_test(test_nesting_is_limited),
        cmocka_unit_test(test_blocks_are_limited),
        cmocka_unit_test(test_what_is_within_limits),
        cmocka_unit_test(test_what_is_not_text),
        cmocka_unit_test(test_size_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
