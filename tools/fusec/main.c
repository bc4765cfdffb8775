/* fusec: the compiler's command line. */
#include "tools/fusec/cli.h"

int main(int argc, char **argv) {
    static int (*const commands[])(const Options *) = {[COMMAND_COMPILE] = command_compile, [COMMAND_CHECK] = command_check,
                                                       [COMMAND_REPORT] = command_report, [COMMAND_RUN] = command_run};
    Arena *a = arena_new();
    Options o;
    int status;
    if (cli_parse(a, argc, argv, &o, &status)) status = commands[o.command](&o);
    arena_free(a);
    return status;
}
