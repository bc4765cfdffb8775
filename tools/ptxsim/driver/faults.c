/* Faults on demand: PTXSIM_FAIL="alloc:3,launch:5" makes the third allocation and the fifth launch fail, each once.
 * Words are kinds of calls (below), "any", or an entry point ("cuMemAlloc" or "cuMemAlloc_v2").  Counting begins anew
 * when the variable changes. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

enum { MAX_FAULTS = 16, WORD = 64 };
typedef struct Fault {
    char word[WORD];
    uint64_t at, seen;
} Fault;
static struct {
    char text[MAX_FAULTS * WORD];
    Fault fault[MAX_FAULTS];
    int count;
} faults;                       /* under the lock */
static const char *last_symbol; /* made to fail since the variable changed */

static const char *const KINDS[CALL_KINDS] = {"query", "set",  "make",   "drop", "alloc", "free",
                                              "load",  "copy", "launch", "sync", ""};
static const CUresult ERRORS[CALL_KINDS] = {
    [CALL_QUERY] = CUDA_ERROR_UNKNOWN,
    [CALL_SET] = CUDA_ERROR_UNKNOWN,
    [CALL_MAKE] = CUDA_ERROR_OUT_OF_MEMORY,
    [CALL_DROP] = CUDA_ERROR_LAUNCH_FAILED,
    [CALL_ALLOC] = CUDA_ERROR_OUT_OF_MEMORY,
    [CALL_FREE] = CUDA_ERROR_LAUNCH_FAILED,
    [CALL_LOAD] = CUDA_ERROR_OUT_OF_MEMORY,
    [CALL_COPY] = CUDA_ERROR_LAUNCH_FAILED,
    [CALL_LAUNCH] = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    [CALL_SYNC] = CUDA_ERROR_LAUNCH_FAILED,
};

static void parse(const char *text) {
    memset(&faults, 0, sizeof faults);
    last_symbol = NULL;
    strncpy(faults.text, text, sizeof faults.text - 1);
    while (*text && faults.count < MAX_FAULTS) {
        const size_t word = strcspn(text, ":,");
        Fault *f = &faults.fault[faults.count];
        if (text[word] == ':' && word < WORD) {
            memcpy(f->word, text, word);
            f->at = strtoull(text + word + 1, NULL, 10);
            faults.count++;
        }
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

CUresult fault_next(const char *name, const char *symbol, CallKind kind) {
    const char *text = getenv("PTXSIM_FAIL");
    CUresult r = CUDA_SUCCESS;
    if (!text) text = "";
    if (strncmp(text, faults.text, sizeof faults.text - 1) != 0) parse(text);
    for (int k = 0; k < faults.count; k++) {
        Fault *f = &faults.fault[k];
        if (strcmp(f->word, "any") != 0 && strcmp(f->word, KINDS[kind]) != 0 && strcmp(f->word, name) != 0 &&
            strcmp(f->word, symbol) != 0)
            continue;
        if (++f->seen == f->at) r = ERRORS[kind];
    }
    if (r) last_symbol = symbol;
    return r;
}

CUresult sim_ptxsim_fault(const char **symbol) {
    *symbol = last_symbol;
    return CUDA_SUCCESS;
}
