/* Diagnostics: order, excerpts, carets, clipping, limits, suggestions. */
#include "frontend/diag.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct Fixture {
    Arena *arena;
    Diag *diag;
} Fixture;

static Fixture with_source(const char *name, const char *text) {
    Fixture x = {.arena = arena_new()};
    x.diag = diag_new(x.arena);
    assert_int_equal(diag_file(x.diag, name, text, strlen(text), false), 0);
    return x;
}

static SrcLoc at(int file, int line, int col, int end_col) {
    return (SrcLoc){.file = file, .line = line, .col = col, .end_line = line, .end_col = end_col};
}

static void assert_prints(const Fixture *x, const char *expected) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    diag_print(x->diag, f);
    fclose(f);
    assert_string_equal(text, expected);
    free(text);
}

static void test_layout(void **state) {
    (void)state;
    Fixture x = with_source("m.dsl", "let a = 1\nlet bcd = a + 2\n");
    diag_report(x.diag, E0203, at(0, 2, 11, 16), "[%d] against [%d]", 3, 4);
    diag_note(x.diag, at(0, 1, 5, 6), "'%s' is bound here", "a");
    diag_help(x.diag, "try %s", "b");
    assert_int_equal(diag_errors(x.diag), 1);
    assert_int_equal(diag_warnings(x.diag), 0);
    assert_prints(&x, "m.dsl:2:11: error: [3] against [4] [E0203]\n"
                      "   2 | let bcd = a + 2\n"
                      "     |           ^~~~~\n"
                      "m.dsl:1:5: note: 'a' is bound here\n"
                      "   1 | let a = 1\n"
                      "     |     ^\n"
                      "     = help: try b\n");
    arena_free(x.arena);
}

static void test_order_and_duplicates(void **state) {
    (void)state;
    Fixture x = with_source("a.dsl", "1\n2\n");
    assert_int_equal(diag_file(x.diag, "b.dsl", "3", 1, true), 1);
    diag_report(x.diag, E0101, at(1, 1, 1, 2), "fourth");
    diag_report(x.diag, E0102, at(0, 2, 1, 2), "second");
    diag_report(x.diag, W0301, at(0, 2, 1, 2), "third");
    diag_report(x.diag, E0101, at(0, 1, 1, 2), "first");
    diag_report(x.diag, E0101, at(0, 1, 1, 2), "first");
    diag_help(x.diag, "of the duplicate: dropped with it");
    assert_int_equal(diag_errors(x.diag), 3);
    assert_int_equal(diag_warnings(x.diag), 1);
    assert_prints(&x, "a.dsl:1:1: error: first [E0101]\n   1 | 1\n     | ^\n"
                      "a.dsl:2:1: error: second [E0102]\n   2 | 2\n     | ^\n"
                      "a.dsl:2:1: warning: third [W0301]\n   2 | 2\n     | ^\n"
                      "b.dsl:1:1: error: fourth [E0101]\n   1 | 3\n     | ^\n");
    arena_free(x.arena);
}

static void test_tabs_and_code_points(void **state) {
    (void)state;
    Fixture x = with_source("m.dsl", "\ta\tb # \xe2\x82\xac\n# \xe2\x82\xac\xc3\xa4 z\n# \xff\x1b z\n");
    diag_report(x.diag, E0101, at(0, 1, 4, 5), "after tabs");
    diag_report(x.diag, E0101, at(0, 2, 9, 10), "after wide bytes");
    diag_report(x.diag, E0101, at(0, 3, 6, 7), "after what no terminal should see");
    assert_prints(&x, "m.dsl:1:4: error: after tabs [E0101]\n"
                      "   1 |     a   b # \xe2\x82\xac\n"
                      "     |         ^\n"
                      "m.dsl:2:9: error: after wide bytes [E0101]\n"
                      "   2 | # \xe2\x82\xac\xc3\xa4 z\n"
                      "     |      ^\n"
                      "m.dsl:3:6: error: after what no terminal should see [E0101]\n"
                      "   3 | # \xef\xbf\xbd\xef\xbf\xbd z\n"
                      "     |      ^\n");
    arena_free(x.arena);
}

static void test_places_without_a_line(void **state) {
    (void)state;
    Fixture x = with_source("m.dsl", "ab");
    diag_report(x.diag, E0401, (SrcLoc){.file = -1}, "no file");
    diag_report(x.diag, E0306, (SrcLoc){.file = 0}, "no line");
    diag_report(x.diag, E0110, at(0, 1, 3, 4), "past the end");
    diag_report(x.diag, E0101, at(0, 7, 3, 4), "past the file");
    diag_report(x.diag, E0101, (SrcLoc){.file = 0, .line = 1, .col = 2, .end_line = 9, .end_col = 1}, "several lines");
    assert_prints(&x, "error: no file [E0401]\n"
                      "m.dsl: error: no line [E0306]\n"
                      "m.dsl:1:2: error: several lines [E0101]\n   1 | ab\n     |  ^\n"
                      "m.dsl:1:3: error: past the end [E0110]\n   1 | ab\n     |   ^\n"
                      "m.dsl:7:3: error: past the file [E0101]\n");
    arena_free(x.arena);
}

static void test_long_lines_are_clipped(void **state) {
    (void)state;
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = '\0';
    memcpy(text + 500, "HERE", 4);
    Fixture x = with_source("m.dsl", text);
    diag_report(x.diag, E0101, at(0, 1, 501, 505), "far right");
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    diag_print(x.diag, f);
    fclose(f);
    char *excerpt = strchr(out, '\n') + 1, *underline = strchr(excerpt, '\n') + 1;
    assert_memory_equal(excerpt, "   1 | ...xxx", 13);
    assert_true(underline - excerpt < 120);
    assert_int_equal(strstr(excerpt, "HERE") - excerpt, strchr(underline, '^') - underline);
    assert_string_equal(strchr(underline, '^'), "^~~~\n");
    free(out);
    arena_free(x.arena);
}

static void test_errors_are_counted_past_the_limit(void **state) {
    (void)state;
    Fixture x = with_source("m.dsl", "a");
    for (int i = 1; i <= 60; i++) {
        diag_report(x.diag, E0201, (SrcLoc){.file = -1, .line = i}, "no %d", i);
        diag_help(x.diag, "help %d", i);
    }
    assert_int_equal(diag_errors(x.diag), 60);
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    diag_print(x.diag, f);
    fclose(f);
    assert_non_null(strstr(out, "no 50 [E0201]\n     = help: help 50\n10 more not shown\n"));
    assert_null(strstr(out, "51"));
    free(out);
    arena_free(x.arena);
}

static void test_long_messages_are_clipped(void **state) {
    (void)state;
    Fixture x = with_source("m.dsl", "a");
    char name[3000] = "a";
    for (int i = 0; i < 900; i++) strcat(name, "\xe2\x82\xac");
    diag_report(x.diag, E0201, (SrcLoc){.file = -1}, "%s", name);
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    diag_print(x.diag, f);
    fclose(f);
    assert_in_range(size, 490, 530);
    assert_non_null(strstr(out, "\xe2\x82\xac... [E0201]"));
    free(out);
    arena_free(x.arena);
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"softmax", "log_softmax", "relu", "gelu", "x", "matmul", "y2"};
    const int n = sizeof names / sizeof *names;
    assert_string_equal(diag_nearest("sofmtax", names, n), "softmax");
    assert_string_equal(diag_nearest("Relu", names, n), "relu");
    assert_string_equal(diag_nearest("gellu", names, n), "gelu");
    assert_string_equal(diag_nearest("mat_mul", names, n), "matmul");
    assert_null(diag_nearest("convolution", names, n));
    assert_null(diag_nearest("z", names, n));
    assert_null(diag_nearest("", names, n));
    char longest[200];
    memset(longest, 'a', sizeof longest);
    longest[199] = '\0';
    assert_null(diag_nearest(longest, names, n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_order_and_duplicates),
        cmocka_unit_test(test_tabs_and_code_points),
        cmocka_unit_test(test_places_without_a_line),
        cmocka_unit_test(test_long_lines_are_clipped),
        cmocka_unit_test(test_errors_are_counted_past_the_limit),
        cmocka_unit_test(test_long_messages_are_clipped),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
