/* fusec: the compiler's command line. */
#include "tools/fusec/cli.h"
#include <limits.h>
#include <malloc.h>

int main(int argc, char **argv) {
    static int (*const commands[])(const Options *) = {[COMMAND_COMPILE] = command_compile,
                                                       [COMMAND_CHECK] = command_check,
                                                       [COMMAND_REPORT] = command_report,
                                                       [COMMAND_RUN] = command_run};
    /* Arenas come and go with the passes: memory that was paid for once is used again, not given back. */
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    Arena *a = arena_new();
    Options o;
    int status;
    if (cli_parse(a, argc, argv, &o, &status)) status = commands[o.command](&o);
    arena_free(a);
    return status;
}
