/* Golden tests of the graph passes: tests/golden/PASS/NAME.graph through PASS is NAME.out, as text.
 * UPDATE=1 in the environment rewrites the .out files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/gradcheck.h"

#ifndef SOURCE_DIR
#define SOURCE_DIR "."
#endif

typedef Graph *Pass(PassContext *, Graph *);

static char *read_file(Arena *a, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    VEC(char) text = {0};
    for (int c; (c = fgetc(f)) != EOF;) vec_push(a, text, (char)c);
    vec_push(a, text, 0);
    fclose(f);
    return text.at;
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) fail_msg("cannot write %s", path);
}

static void check_file(Arena *a, const char *dir, const char *name, Pass *pass, const Target *target) {
    const char *stem = arena_printf(a, "%s/%.*s", dir, (int)(strlen(name) - strlen(".graph")), name), *error = NULL;
    const char *out = arena_printf(a, "%s.out", stem), *text = read_file(a, arena_printf(a, "%s.graph", stem));
    Graph *g = graph_parse(a, text, &error);
    if (!g) fail_msg("%s.graph: %s", stem, error);
    PassContext c = {.arena = a, .target = target};
    g = pass(&c, g);
    const char *illegal = graph_verify(a, g), *got = graph_text(a, g), *want = read_file(a, out);
    if (illegal) fail_msg("%s: %s\n%s", stem, illegal, got);
    if (getenv("UPDATE"))
        write_file(out, got);
    else if (!want || strcmp(want, got) != 0)
        fail_msg("%s differs (UPDATE=1 accepts); now\n%s", out, got);
    if (!graph_parse(a, got, &error)) fail_msg("%s does not parse back: %s", out, error);
}

static void check_dir(const char *pass_name, Pass *pass, const Target *target, int at_least) {
    Arena *a = arena_new();
    const char *dir = arena_printf(a, "%s/tests/golden/%s", SOURCE_DIR, pass_name);
    DIR *d = opendir(dir);
    if (!d) fail_msg("cannot read %s", dir);
    int files = 0;
    for (struct dirent *e; (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        if (!end || strcmp(end, ".graph") != 0) continue;
        check_file(a, dir, e->d_name, pass, target);
        files++;
    }
    closedir(d);
    assert_true(files >= at_least);
    arena_free(a);
}

static void autodiff(void **state) {
    (void)state;
    check_dir("autodiff", pass_autodiff, NULL, 5);
}
static void canonicalize(void **state) {
    (void)state;
    check_dir("canonicalize", pass_canonicalize, NULL, 4);
}
static void jacobian_gemm(void **state) {
    (void)state;
    check_dir("jacobian_gemm", pass_jacobian_gemm, NULL, 4);
}
static void together(void **state) {
    (void)state;
    check_dir("together", pass_together, NULL, 1);
}
static void parts_of_product(void **state) {
    (void)state;
    check_dir("parts_of_product", pass_parts_of_product, target_find("host"), 4);
}
static void physical_order(void **state) {
    (void)state;
    check_dir("physical_order", pass_physical_order, target_find("sm_80"), 3);
}
static Graph *fuse_and_split(PassContext *c, Graph *g) { return pass_split(c, pass_fuse(c, g)); }
static void split(void **state) {
    (void)state;
    check_dir("split", fuse_and_split, target_find("host"), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(autodiff),
        cmocka_unit_test(canonicalize),
        cmocka_unit_test(jacobian_gemm),
        cmocka_unit_test(together),
        cmocka_unit_test(parts_of_product),
        cmocka_unit_test(physical_order),
        cmocka_unit_test(split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
