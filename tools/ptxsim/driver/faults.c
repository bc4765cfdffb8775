/* Faults on demand: PTXSIM_FAIL="alloc:3,launch:5" makes the third allocation and the fifth launch fail, each once.
 * Words are kinds of calls (below), "any", or an entry point ("cuMemAlloc" or "cuMemAlloc_v2").  Counting begins anew
 * when the variable changes. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
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

static bool is_kind(const char *word) {
    for (int k = 0; k < CALL_KINDS; k++)
        if (*word && strcmp(word, KINDS[k]) == 0) return true;
    return strcmp(word, "any") == 0;
}

/* WORD:N; a plan with a mistake in it would make a test of failures pass without a failure. */
static void parse_fault(const char *text, size_t length) {
    Fault *f = &faults.fault[faults.count];
    const size_t word = strcspn(text, ":,");
    char *end = NULL;
    if (word < WORD && text[word] == ':') {
        memcpy(f->word, text, word);
        f->at = strtoull(text + word + 1, &end, 10);
    }
    if (faults.count < MAX_FAULTS - 1 && end == text + length && f->at && (is_kind(f->word) || export_known(f->word)))
        faults.count++;
    else {
        fprintf(stderr, "ptxsim: PTXSIM_FAIL: '%.*s' is not KIND:N, any:N or FUNCTION:N, N from 1; left out\n", (int)length, text);
        memset(f, 0, sizeof *f);
    }
}

static void parse(const char *text) {
    memset(&faults, 0, sizeof faults);
    last_symbol = NULL;
    strncpy(faults.text, text, sizeof faults.text - 1);
    while (*text) {
        const size_t length = strcspn(text, ",");
        parse_fault(text, length);
        text += length;
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
