/* ptxsim stat: runs a program with the software GPU as its libcuda.so.1 and shows what the kernels did. */
#include "tools/ptxsim/command/command.h"
#include "ir/memory.h"
#include "tools/fusec/temporary.h"
#include "tools/fusec/write_file.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Stat {
    const Target *gpu;
    const char *output; /* NULL: standard error, apart from what the program prints */
    bool json;
    char **command;
} Stat;

static const char USAGE[] =
    "usage: ptxsim stat [--gpu NAME] [--json] [-o FILE] [--] COMMAND [ARGUMENT...]\n";

char *library_folder(void) {
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    char *end = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    if (!end) {
        fputs("ptxsim: cannot find its own folder\n", stderr);
        return NULL;
    }
    *end = '\0';
    return memory_strdup(path);
}

static bool parse(int argc, char **argv, Stat *s) {
    static const struct option LONG[] = {
        {"gpu", required_argument, NULL, 'g'}, {"json", no_argument, NULL, 'j'}, {"output", required_argument, NULL, 'o'}, {0}};
    for (int c; (c = getopt_long(argc, argv, "+o:", LONG, NULL)) != -1;) {
        if (c == 'g') {
            s->gpu = target_find(optarg);
            if (!s->gpu || !s->gpu->device->is_gpu) {
                fprintf(stderr, "ptxsim: no such GPU: %s (sm_80, sm_90)\n", optarg);
                return false;
            }
        } else if (c == 'j') s->json = true;
        else if (c == 'o') s->output = optarg;
        else return false;
    }
    s->command = argv + optind;
    return s->command[0] != NULL;
}

/* In the child: the library before every other, figures to `file`. */
static void enter(const Stat *s, const char *folder, const char *file) {
    const char *others = getenv("LD_LIBRARY_PATH");
    char *path = memory_alloc(strlen(folder) + (others ? strlen(others) : 0) + 2);
    strcpy(path, folder);
    if (others && *others) strcat(strcat(path, ":"), others);
    if (setenv("LD_LIBRARY_PATH", path, 1) || setenv("PTXSIM_STATS_FILE", file, 1) ||
        setenv("PTXSIM_DEVICE", s->gpu->name, 0))
        memory_exhausted();
    execvp(s->command[0], s->command);
    const int why = errno;
    fprintf(stderr, "ptxsim: %s: %s\n", s->command[0], strerror(why));
    _exit(why == ENOENT ? 127 : 126);
}

/* The program's exit status; as a shell has it when a signal ended it. */
static int run_program(const Stat *s, const char *folder, const char *file) {
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) enter(s, folder, file);
    if (child < 0) {
        perror("ptxsim: fork");
        return EXIT_ERROR;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return EXIT_ERROR;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

typedef struct Show {
    const Stat *stat;
    const Records *all;
} Show;

static bool print(FILE *f, void *user) {
    const Show *x = user;
    if (x->stat->json) return json_print(f, x->all, x->stat->gpu);
    table_print(f, x->all, x->stat->gpu);
    return true;
}

static bool show(const Stat *s, FILE *figures) {
    Records all;
    Show x = {s, &all};
    bool ok = records_read(figures, &all);
    if (ok && !all.n) {
        fputs("ptxsim: no kernel was launched on the software GPU\n", stderr);
        ok = false;
    }
    ok = ok && (s->output ? write_file(s->output, print, &x) : print(stderr, &x));
    records_free(&all);
    return ok;
}

int command_stat(int argc, char **argv) {
    Stat s = {.gpu = target_find("sm_90")};
    char file[] = "/tmp/ptxsim-XXXXXX";
    if (!parse(argc, argv, &s)) {
        fputs(USAGE, stderr);
        return EXIT_USAGE;
    }
    char *folder = library_folder();
    const int fd = folder ? temporary_file(file) : -1;
    FILE *figures = fd >= 0 ? fdopen(fd, "r") : NULL;
    int status = EXIT_ERROR;
    if (figures) {
        status = run_program(&s, folder, file);
        if (!show(&s, figures) && status == EXIT_OK) status = EXIT_ERROR;
        fclose(figures);
    } else if (folder) perror("ptxsim: a temporary file");
    if (!figures && fd >= 0) close(fd);
    if (fd >= 0) temporary_remove(file);
    free(folder);
    return status;
}
