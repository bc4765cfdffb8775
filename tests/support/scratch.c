#include "tests/support/scratch.h"
#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/fusec-test-XXXXXX";

const char *scratch_folder(void) { return folder; }

int scratch_make(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

int scratch_remove(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    return rmdir(folder);
}

char *read_text(Arena *a, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    char *text = arena_strdup(a, "");
    size_t room = 1 << 12, n = 0;
    do {
        char *more = arena_alloc(a, room *= 2);
        memcpy(more, text, n);
        text = more;
        n += fread(text + n, 1, room - 1 - n, f);
    } while (n == room - 1);
    text[n] = 0;
    fclose(f);
    return text;
}

void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void scratch_shell(Arena *a, const char *command) {
    if (system(arena_printf(a, "cd %s && %s", folder, command)) != 0) fail_msg("%s", command);
}

bool have_compiler(const char *name) {
    char command[256];
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", name);
    return system(command) == 0;
}

void *compile_and_load(Arena *a, const char *compiler, const char *source) {
    static int serial;
    const char *so = arena_printf(a, "%s/loaded%d.so", folder, serial++);
    const char *command = arena_printf(a, "%s " STRICT_C99 " -shared -fPIC -o %s %s", compiler, so, source);
    if (system(command) != 0) fail_msg("%s", command);
    void *library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    return library;
}

void *load_symbol(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol) fail_msg("no %s", name);
    return symbol;
}
