/* fusec: the compiler's command line. */
#include "codegen/llvm/failures.h"
#include "ir/memory.h"
#include "tools/fusec/cli.h"
#include "tools/fusec/interrupt.h"
#include "tools/fusec/temporary.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

/* A standard stream that is closed would lend its number to the next file opened, and messages would go there. */
static void open_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd) _exit(EXIT_ERROR);
}

/* Before the constructors of LLVM, which take memory. */
static void set_up(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    memory_before_end(temporaries_remove);
    llvm_failures_end(temporaries_remove);
}
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = set_up;

/* What was printed must have arrived: a full disk is an error. */
static int flush_output(int status) {
    const bool failed = ferror(stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !failed) return status;
    fprintf(stderr, "fusec: error: standard output cannot be written%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return status == EXIT_OK ? EXIT_ERROR : status;
}

int main(int argc, char **argv) {
    static int (*const commands[])(const Options *) = {[COMMAND_COMPILE] = command_compile,
                                                       [COMMAND_CHECK] = command_check,
                                                       [COMMAND_REPORT] = command_report,
                                                       [COMMAND_RUN] = command_run,
                                                       [COMMAND_TUNE] = command_tune,
                                                       [COMMAND_VERIFY] = command_verify};
    open_streams();
    interrupt_handle();
    /* Arenas come and go with the passes: memory that was paid for once is used again, not given back. */
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    Arena *a = arena_new();
    Options o;
    int status;
    if (cli_parse(a, argc, argv, &o, &status)) status = commands[o.command](&o);
    arena_free(a);
    return flush_output(status);
}
