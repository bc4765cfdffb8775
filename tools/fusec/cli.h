/* The command line: what was asked for, and the road from a file to a compiled module. */
#ifndef FUSEC_TOOLS_CLI_H
#define FUSEC_TOOLS_CLI_H
#include "frontend/frontend.h"
#include "passes/pass.h"
#include "tools/fusec/write_file.h"

typedef enum { COMMAND_COMPILE, COMMAND_CHECK, COMMAND_REPORT, COMMAND_RUN, COMMAND_TUNE, COMMAND_VERIFY } Command;

/* Where an option can be used: kinds of output, commands. */
enum {
    ON_GRAPH = 1,
    ON_TILE = 2,
    ON_LL = 4,
    ON_O = 8,
    ON_C = 16,
    ON_PTX = 32,
    ON_CUBIN = 64,
    ON_CHECK = 128,
    ON_REPORT = 256,
    ON_ONCE = 512, /* run, one call */
    ON_DATA = 1024, /* run over data */
    ON_TUNE = 2048,
    ON_VERIFY = 4096,
    ON_COMPILE = 127,
    ON_RUNS = ON_ONCE | ON_DATA
};

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_MEMORY = 3 };

#define FUSEC_VERSION "0.1.0"

typedef VEC(Override) Overrides;
typedef VEC(const char *) Texts;

typedef struct Options {
    Command command;
    const char *input, *output;
    const char *target; /* host, c99, sm_80, sm_90, sm_90a; for run: host, c99, cuda, interp */
    const char *arch;   /* host: the CPU to tune for; cuda: sm_80, sm_90 or sm_90a */
    const char *triple; /* host: "aarch64-linux-gnu"; NULL: this machine */
    const char *model;
    const char *profile; /* measured tiles */
    int tiles;           /* tune: how many of each instruction; 0: all */
    Overrides overrides;
    bool entry[ENTRY_COUNT]; /* which to compile; none set: all */
    Entry run_entry;
    bool print_after[PASS_COUNT], disabled[PASS_COUNT];
    CheckpointMode checkpoint;
    int64_t memory_budget;
    bool time_passes, verify, no_verify;
    bool embed;    /* .ptx: the launcher carries the kernels */
    bool check_finite; /* steps that are not finite change nothing; run: inputs are looked at too */
    bool selftest; /* known results for MODEL_selftest */
    bool measured; /* report: bytes counted on the software GPU */
    /* run */
    Overrides data;       /* input name, file */
    Overrides extents;    /* dimension, run-time extent */
    Texts wants;          /* outputs to compute; none: all */
    Texts lines;          /* `train` lines, by turns; none: all in every step */
    const char *accuracy; /* OUTPUT=INPUT */
    const char *params, *inputs, *outputs, *load, *save, *resume;
    Overrides hypers;
    int64_t steps, epochs;
    int threads;
    int rounds; /* verify; 0: the default */
    uint32_t seed;
    bool quiet, accumulate;
    const char *rows, *test_rows; /* A:B of the data: trained on, tested on */
} Options;

/* False after a message on stderr (*status is then the exit status), or when --help and the like are done. */
bool cli_parse(Arena *a, int argc, char **argv, Options *o, int *status);

/* Everything one compile owns. */
typedef struct Session {
    Arena *arena;
    Diag *diag;
    Program *program;
    Graph *graph[ENTRY_COUNT];
    PassContext context;
    double frontend_seconds;
} Session;

/* Text to graphs; diagnostics are collected, not printed. False on errors. */
bool session_open(Session *s, Arena *a, const Options *o);
/* What passes work under; session_compile does it itself. */
void session_prepare(Session *s, const Options *o, const Target *t);
/* NULL: said, with the names that there are. */
const Target *find_target(const char *name);
/* --target, or a GPU's name in --arch, or `fallback`; machine_code: for the host --arch can name a CPU.  NULL: said;
 * no such target, or --arch or --triple is not about it. */
const Target *target_asked(const Options *o, const char *fallback, bool machine_code);
/* Graphs to a module for a target; NULL on errors. */
Module *session_compile(Session *s, const Options *o, const Target *t);
/* Compiles the program again for this machine, runs entry init and grad (infer where m has no grad) on made inputs and
 * stores in m what comes out.  Takes the time and memory of one such call.  False after a message. */
bool selftest_measure(Arena *a, const Options *o, Module *m);
/* Prints the diagnostics collected so far; returns EXIT_ERROR if there were errors. */
int session_finish(Session *s);

int command_compile(const Options *o);
int command_check(const Options *o);
int command_report(const Options *o);
int command_measure(const Options *o); /* report --measured */
int command_run(const Options *o);
int command_tune(const Options *o);
int command_verify(const Options *o);

#endif
