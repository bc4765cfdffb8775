#include "tools/fusec/temporary.h"
#include "tools/fusec/interrupt.h"
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 32 };

/* No memory that is given back: a handler may read it at any time. */
static struct {
    atomic_bool used;
    char path[PATH_MAX];
} kept[MOST];

static int add(const char *path) {
    int i = 0;
    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    while (i < MOST && atomic_load(&kept[i].used)) i++;
    if (i == MOST) {
        errno = EMFILE;
        return -1;
    }
    strcpy(kept[i].path, path);
    atomic_store(&kept[i].used, true);
    return i;
}

bool temporary_add(const char *path) { return add(path) >= 0; }

static void remove_path(const char *path) {
    if (unlink(path) != 0) rmdir(path);
}

/* Made and noted in one: no signal ends the process between. */
static int make(char *path, int (*create)(char *path)) {
    interrupt_defer();
    const int made = create(path), slot = made >= 0 ? add(path) : -1, why = errno;
    if (made >= 0 && slot < 0) {
        remove_path(path);
        if (made > 0) close(made);
    }
    interrupt_resume();
    errno = why;
    return slot < 0 ? -1 : made;
}

static int create_directory(char *path) { return mkdtemp(path) ? 0 : -1; }

int temporary_file(char *path) { return make(path, mkstemp); }
bool temporary_directory(char *path) { return make(path, create_directory) >= 0; }

void temporary_drop(const char *path) {
    for (int i = 0; i < MOST; i++)
        if (atomic_load(&kept[i].used) && !strcmp(kept[i].path, path)) atomic_store(&kept[i].used, false);
}

void temporary_remove(const char *path) {
    remove_path(path);
    temporary_drop(path);
}

void temporaries_remove(void) {
    for (int i = MOST - 1; i >= 0; i--)
        if (atomic_load(&kept[i].used)) remove_path(kept[i].path);
}
