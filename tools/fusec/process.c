#include "tools/fusec/process.h"
#include <errno.h>
#include <fcntl.h>
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
    if (mkdtemp(s->dir)) return true;
    *error = arena_printf(a, "%s: %s", s->dir, strerror(errno));
    return false;
}

const char *scratch_file(Scratch *s, const char *name) {
    return s->file[s->n++] = arena_printf(s->arena, "%s/%s", s->dir, name);
}

void scratch_close(Scratch *s) {
    for (int i = 0; i < s->n; i++) unlink(s->file[i]);
    rmdir(s->dir);
}

static char *read_log(Arena *a, const char *path) {
    char text[4096];
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    return arena_strndup(a, text, n);
}

bool process_run(Scratch *s, char *const *argv, const char **error) {
    const char *log = scratch_file(s, "log");
    posix_spawn_file_actions_t redirect;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&redirect);
    posix_spawn_file_actions_addopen(&redirect, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&redirect, 1, 2);
    const int failed = posix_spawnp(&pid, argv[0], &redirect, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&redirect);
    if (failed) {
        *error = arena_printf(s->arena, "%s cannot be run: %s", argv[0], strerror(failed));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    *error = arena_printf(s->arena, "%s failed:\n%s", argv[0], read_log(s->arena, log));
    return false;
}
