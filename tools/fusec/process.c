#include "tools/fusec/process.h"
#include "tools/fusec/interrupt.h"
#include "tools/fusec/temporary.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool scratch_open(Arena *a, Scratch *s, const char **error) {
    const char *tmp = getenv("TMPDIR");
    *s = (Scratch){.arena = a, .dir = arena_printf(a, "%s/fusec-XXXXXX", tmp && *tmp ? tmp : "/tmp")};
    if (temporary_directory(s->dir)) return true;
    *error = arena_printf(a, "%s: %s", s->dir, strerror(errno));
    return false;
}

/* What has no room in the list is left behind only if a signal ends the process. */
const char *scratch_file(Scratch *s, const char *name) {
    const char *path = s->file[s->n++] = arena_printf(s->arena, "%s/%s", s->dir, name);
    temporary_add(path);
    return path;
}

bool scratch_write(Scratch *s, const char *path, const void *bytes, size_t n, const char **error) {
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(bytes, 1, n, f) == n && fflush(f) == 0;
    if (!ok) *error = arena_printf(s->arena, "%s: %s", path, strerror(errno));
    if (!f || fclose(f) == 0 || !ok) return ok;
    *error = arena_printf(s->arena, "%s: %s", path, strerror(errno));
    return false;
}

void scratch_close(Scratch *s) {
    for (int i = 0; i < s->n; i++) temporary_remove(s->file[i]);
    temporary_remove(s->dir);
}

static char *read_log(Arena *a, const char *path) {
    char text[4096];
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    return arena_strndup(a, text, n);
}

/* Its output in `log`; in a process group of its own, which ends with us; with the default action for SIGXFSZ.  An
 * errno, or 0. */
static int start(pid_t *pid, const char *log, char *const *argv) {
    posix_spawn_file_actions_t redirect;
    posix_spawnattr_t how;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawn_file_actions_init(&redirect);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&how, &defaults);
    int failed = posix_spawn_file_actions_addopen(&redirect, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&redirect, 1, 2);
    interrupt_defer();
    if (!failed) failed = posix_spawnp(pid, argv[0], &redirect, &how, argv, environ);
    if (!failed) interrupt_child(*pid);
    interrupt_resume();
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&redirect);
    return failed;
}

bool process_run(Scratch *s, char *const *argv, const char **error) {
    const char *log = scratch_file(s, "log");
    pid_t pid;
    int status = 0;
    const int failed = start(&pid, log, argv);
    if (failed) {
        *error = arena_printf(s->arena, "%s cannot be run: %s", argv[0], strerror(failed));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    interrupt_child(0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    *error = arena_printf(s->arena, "%s failed:\n%s", argv[0], read_log(s->arena, log));
    return false;
}
