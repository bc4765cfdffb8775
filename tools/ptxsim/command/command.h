/* The ptxsim command: runs programs with the software GPU in front, shows what its kernels did, checks PTX. */
#pragma once
#include "tools/ptxsim/command/roofline.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2 };

/* ---- records.c: what the library writes with PTXSIM_STATS_FILE ------------------------------------------ */
typedef struct Named {
    char *name;
    uint64_t value;
} Named;

typedef struct KernelRecord {
    char *name;
    uint64_t launches;
    Counters count;
    uint64_t warps[MIX_COUNT], threads[MIX_COUNT];
    Named *matrix; /* instructions of warps by shape */
    size_t shapes;
} KernelRecord;

typedef struct Records {
    KernelRecord *at;
    size_t n;
} Records;
/* Kernels of one name, from several processes, are summed.  False after a message. */
bool records_read(FILE *, Records *);
void records_free(Records *);

/* ---- output --------------------------------------------------------------------------------------------- */
void table_print(FILE *, const Records *, const Target *);      /* table.c */
bool json_print(FILE *, const Records *, const Target *);       /* json.c; false without memory */

/* ---- subcommands ---------------------------------------------------------------------------------------- */
/* The folder of libcuda.so.1: this executable's own.  NULL after a message; to be freed. */
char *library_folder(void);
int command_stat(int argc, char **argv);  /* stat.c */
int command_check(int argc, char **argv); /* check.c */
