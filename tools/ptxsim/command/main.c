#include "tools/ptxsim/command/command.h"
#include "ir/memory.h"
#include "tools/fusec/interrupt.h"
#include "tools/fusec/temporary.h"
#include <string.h>

static const char HELP[] =
    "usage: ptxsim stat [--gpu NAME] [--json] [-o FILE] [--] COMMAND [ARGUMENT...]\n"
    "       ptxsim check FILE.ptx...\n"
    "\n"
    "stat   Runs COMMAND with the software GPU as its libcuda.so.1 and prints, when it has ended, a table of its kernels\n"
    "       on standard error: launches, thread instructions, bytes of global memory that threads asked for, that warps\n"
    "       moved in 32-byte sectors, and the distinct ones; coalescing (asked over moved), passes of shared memory and how many\n"
    "       of them are bank conflicts, arithmetic and matrix operations; and the least time that these figures allow on a\n"
    "       GPU, with the part that sets it.  The exit status is COMMAND's.\n"
    "         --gpu NAME   sm_80 or sm_90 (default): whose peaks are used, and which device COMMAND sees\n"
    "         --json       everything that was counted, as JSON\n"
    "         -o FILE      write FILE instead of standard error\n"
    "check  Loads PTX as a program would and prints what is wrong with it.\n"
    "\n"
    "Every finding of the checks is printed as it is found, as always; PTXSIM_CHECKS, PTXSIM_SEED and the other variables\n"
    "of the software GPU (docs/software-gpu.md) hold for COMMAND.\n"
    "\n"
    "PTXSIM_CHECKS is a list of KIND=error (fails the launch), KIND=report (is printed and counted only), KIND=off or -KIND\n"
    "(is not looked for); KIND may be `all`.  Without it:\n"
#define REPORT(name, text, status, level, meaning) KIND_##level(text, meaning)
#define KIND_ERROR(text, meaning) "  error   " text ": " meaning "\n"
#define KIND_REPORT(text, meaning) "  report  " text ": " meaning "\n"
#include "tools/ptxsim/exec/report.def"
#undef REPORT
    ;

static bool asks_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

/* What was printed must have arrived. */
static int flushed(int status) {
    const bool failed = ferror(stdout);
    if (fflush(stdout) == 0 && !failed) return status;
    fputs("ptxsim: error: standard output cannot be written\n", stderr);
    return status == EXIT_OK ? EXIT_ERROR : status;
}

int main(int argc, char **argv) {
    static const struct { const char *name; int (*run)(int, char **); } COMMANDS[] = {{"stat", command_stat},
                                                                                      {"check", command_check}};
    memory_before_end(temporaries_remove);
    interrupt_handle();
    if ((argc > 1 && asks_help(argv[1])) || (argc > 2 && asks_help(argv[2]))) {
        fputs(HELP, stdout);
        return flushed(EXIT_OK);
    }
    for (size_t k = 0; k < sizeof COMMANDS / sizeof *COMMANDS; k++)
        if (argc > 1 && !strcmp(argv[1], COMMANDS[k].name)) return flushed(COMMANDS[k].run(argc - 1, argv + 1));
    fputs(HELP, stderr);
    return EXIT_USAGE;
}
