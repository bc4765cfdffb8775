/* Golden tests of lowering: tests/golden/lower/NAME.dsl is NAME.out, as text: the entries that the
 * program's first line names ("# entries: infer step"), else infer.  UPDATE=1 rewrites the .out files. */
#include "frontend/frontend.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifndef SOURCE_DIR
#define SOURCE_DIR "."
#endif

static char *read_file(Arena *a, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = arena_alloc(a, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static bool wants(const char *source, Entry e) {
    static const char *const key = "# entries:";
    if (strncmp(source, key, strlen(key)) != 0) return e == ENTRY_INFER;
    const char *end = strchr(source, '\n'), *at = strstr(source, entry_name[e]);
    return at && at < end;
}

static char *lowered_text(Arena *a, const char *path) {
    Diag *d = diag_new(a);
    Graph *g[ENTRY_COUNT] = {0};
    Program *p = program_load(a, d, path, NULL);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!p || !program_lower(a, d, p, NULL, g)) {
        diag_print(d, stderr);
        fail_msg("%s does not lower", path);
    }
    const char *source = diag_source(d, 0)->text;
    for (int e = 0; e < ENTRY_COUNT; e++) {
        const char *bad = g[e] ? graph_verify(a, g[e]) : NULL;
        if (bad) fail_msg("%s, %s: %s", path, entry_name[e], bad);
        if (g[e] && wants(source, (Entry)e)) graph_print(f, g[e]);
    }
    fclose(f);
    char *out = arena_strdup(a, text);
    free(text);
    return out;
}

static void check_program(const char *dir, const char *file) {
    Arena *a = arena_new();
    const char *path = arena_printf(a, "%s/%s", dir, file);
    const char *out = arena_printf(a, "%.*s.out", (int)(strlen(path) - 4), path);
    const char *got = lowered_text(a, path), *want = read_file(a, out);
    if (getenv("UPDATE")) {
        FILE *f = fopen(out, "w");
        assert_non_null(f);
        assert_true(fputs(got, f) >= 0);
        assert_int_equal(fclose(f), 0);
    } else if (!want || strcmp(want, got) != 0) {
        fail_msg("%s differs (UPDATE=1 accepts); now\n%s", out, got);
    }
    arena_free(a);
}

static void golden_programs(void **state) {
    (void)state;
    DIR *d = opendir(SOURCE_DIR "/tests/golden/lower");
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        if (!end || strcmp(end, ".dsl") != 0) continue;
        check_program(SOURCE_DIR "/tests/golden/lower", e->d_name);
        n++;
    }
    closedir(d);
    assert_true(n >= 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
