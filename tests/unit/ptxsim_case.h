/* Kernels in PTX text with the launch they are meant for: tests/golden/ptxsim/wrong.  A file has two kernels in one:
 * lines that end in `// wrong` are in the wrong one only, those in `// right` in its twin only, and `// <-` marks the
 * lines of which one must be named by a finding.  What is left out becomes an empty line, so that both count alike.
 *
 * Comments at the top:
 *     // finding: KIND, KIND...    kinds of report.def that may be reported; `value`: none, but other results
 *     // launch: grid N[xN] block N[xN] shared N
 *     // parameters: P, P...       in order, those in parentheses are only there for a map:
 *         iota N    N words, 0 1 2...     zero N    N words of 0     empty N    N words that nobody has written
 *         halves N  N half-precision floats, small whole numbers          words4    an array of 4 words by value
 *         floats N  N single-precision floats                             int N     a number by value
 *         map f16|f32 buffer B size W H box W H [swizzle 32|64|128]       a tensor map of buffer B
 *     // landing: early late       schedules of asynchronous operations that it is wrong under; default: all */
#pragma once
#include "ptxsim_driver.h"
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

enum { CASE_PARAMETERS = 8, CASE_LINES = 256, CASE_FINDINGS = 32, CASE_WORDS = 20000 };

typedef struct CaseParameter {
    char kind[8];
    uint32_t count; /* words, or halves; the number itself */
    uint32_t buffer, size[2], box[2], swizzle;
    bool hidden; /* the kernel does not take it */
} CaseParameter;

typedef struct PtxCase {
    char path[512], kinds[128], landing[32];
    unsigned grid[2], block[2], shared;
    CaseParameter parameter[CASE_PARAMETERS];
    int parameters;
    bool expected[CASE_LINES]; /* by line: marked */
    char *text;                /* owned */
} PtxCase;

typedef struct Found {
    char kind[24];
    int line;
} Found;

typedef struct Outcome {
    Found found[CASE_FINDINGS];
    int findings;
    CUresult result;
    char log[256];               /* of a module that does not load */
    uint32_t memory[CASE_WORDS]; /* of all buffers, one after the other */
    size_t words;
} Outcome;

/* ---- reading -------------------------------------------------------------------------------------------- */
static inline char *case_file(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s: cannot be read", path);
    fseek(f, 0, SEEK_END);
    const long bytes = ftell(f);
    rewind(f);
    char *text = calloc((size_t)bytes + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, f), bytes);
    fclose(f);
    return text;
}

static inline CaseParameter case_parameter(const char *text, const char *path) {
    CaseParameter p = {.hidden = *text == '('};
    text += p.hidden;
    if (sscanf(text, "map f%u buffer %u size %u %u box %u %u swizzle %u", &p.count, &p.buffer, &p.size[0], &p.size[1],
               &p.box[0], &p.box[1], &p.swizzle) >= 6)
        strcpy(p.kind, "map");
    else if (sscanf(text, " %7s %u", p.kind, &p.count) < 1)
        fail_msg("%s: parameter '%s'", path, text);
    return p;
}

/* "word N" or "word NxN" in text. */
static inline void case_extent(const char *text, const char *word, unsigned extent[2]) {
    const char *at = strstr(text, word);
    extent[0] = extent[1] = 1;
    if (at) sscanf(at + strlen(word), " %ux%u", &extent[0], &extent[1]);
}

static inline void case_launch_of(PtxCase *c, const char *text) {
    unsigned shared[2];
    case_extent(text, "grid", c->grid);
    case_extent(text, "block", c->block);
    case_extent(text, "shared", shared);
    c->shared = strstr(text, "shared") ? shared[0] : 0;
}

static inline void case_parameters(PtxCase *c, char *text) {
    for (char *save, *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        assert_true(c->parameters < CASE_PARAMETERS);
        while (*p == ' ') p++;
        c->parameter[c->parameters++] = case_parameter(p, c->path);
    }
}

static inline void case_header(PtxCase *c, char *line) {
    char *value = strchr(line, ':');
    if (!value) return;
    *value++ = '\0';
    while (*value == ' ') value++;
    if (strcmp(line, "// finding") == 0)
        snprintf(c->kinds, sizeof c->kinds, "%s", value);
    else if (strcmp(line, "// landing") == 0)
        snprintf(c->landing, sizeof c->landing, "%s", value);
    else if (strcmp(line, "// launch") == 0)
        case_launch_of(c, value);
    else if (strcmp(line, "// parameters") == 0)
        case_parameters(c, value);
}

/* One of the two kernels in a file. */
static inline void case_read(PtxCase *c, const char *path, bool wrong) {
    *c = (PtxCase){0};
    snprintf(c->path, sizeof c->path, "%.*s", (int)sizeof c->path - 1, path);
    c->text = case_file(path);
    int number = 1;
    for (char *line = c->text, *end; (end = strchr(line, '\n')); line = end + 1, number++) {
        char copy[512];
        assert_true(number < CASE_LINES && end - line < (int)sizeof copy);
        snprintf(copy, sizeof copy, "%.*s", (int)(end - line), line);
        char *tag = strstr(copy + 2, "// ");
        const bool left_out = tag && strstr(tag, wrong ? "right" : "wrong");
        c->expected[number] = !left_out && tag && strstr(tag, "<-");
        if (left_out)
            memset(line, ' ', (size_t)(end - line));
        else if (memcmp(copy, "// ", 3) == 0) {
            if (tag) *tag = '\0';
            case_header(c, copy);
        }
    }
}

/* ---- running -------------------------------------------------------------------------------------------- */
static inline uint16_t half_of(int whole) { /* -15 .. 15 */
    const int magnitude = whole < 0 ? -whole : whole;
    if (!magnitude) return 0;
    const int e = 31 - __builtin_clz((unsigned)magnitude);
    return (uint16_t)((whole < 0) << 15 | (15 + e) << 10 | (magnitude - (1 << e)) << (10 - e));
}

static inline uint32_t parameter_words(const CaseParameter *p) {
    if (strcmp(p->kind, "map") == 0 || strcmp(p->kind, "words4") == 0 || strcmp(p->kind, "int") == 0) return 0;
    return strcmp(p->kind, "halves") == 0 ? p->count / 2 : p->count;
}

static inline CUdeviceptr case_buffer(const CaseParameter *p) {
    static uint32_t data[CASE_WORDS];
    const uint32_t n = parameter_words(p);
    assert_true(n <= CASE_WORDS);
    for (uint32_t k = 0; k < n; k++) {
        if (strcmp(p->kind, "iota") == 0)
            data[k] = k;
        else if (strcmp(p->kind, "halves") == 0)
            data[k] = half_of((int)(2 * k * 7 % 23) - 11) | (uint32_t)half_of((int)((2 * k + 1) * 7 % 23) - 11) << 16;
        else if (strcmp(p->kind, "floats") == 0) {
            const float v = (float)(k * 7919 % 2003) / 1001.5f - 1;
            memcpy(&data[k], &v, sizeof v);
        } else
            data[k] = 0;
    }
    return upload(strcmp(p->kind, "empty") == 0 ? NULL : data, n * sizeof *data);
}

/* CU_TENSOR_MAP_DATA_TYPE_FLOAT16 or _FLOAT32, no interleaving, no promotion, zeros out of bounds. */
static inline void case_map(CUtensorMap *map, const CaseParameter *p, CUdeviceptr at) {
    const uint64_t size[2] = {p->size[0], p->size[1]}, stride[1] = {p->size[0] * (uint64_t)p->count / 8};
    const int swizzle = p->swizzle == 32 ? 1 : p->swizzle == 64 ? 2 : p->swizzle == 128 ? 3 : 0;
    assert_int_equal(cu.cuTensorMapEncodeTiled(map, p->count == 16 ? 6 : 7, 2, (void *)(uintptr_t)at, size, stride,
                                               p->box, (uint32_t[]){1, 1}, 0, swizzle, 0, 0),
                     CUDA_SUCCESS);
}

/* The records of PTXSIM_REPORT, which is emptied. */
static inline void case_findings(Outcome *o) {
    const char *path = getenv("PTXSIM_REPORT");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[1024];
    o->findings = 0;
    while (f && fgets(line, sizeof line, f)) {
        Found *found = &o->found[o->findings < CASE_FINDINGS ? o->findings++ : 0];
        const char *at = strstr(line, "\tline=");
        sscanf(line, "kind=%23[^\t]", found->kind);
        found->line = at ? atoi(at + 6) : 0;
    }
    if (!f) return;
    fclose(f);
    assert_int_equal(truncate(path, 0), 0);
}

static inline CUfunction case_load(const char *text, const char *name, Outcome *o) {
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {o->log, (void *)sizeof o->log};
    CUmodule module;
    CUfunction f;
    o->log[0] = '\0';
    o->result = cu.cuModuleLoadDataEx(&module, text, 2, options, values);
    if (o->result) return NULL;
    loaded[loaded_count++] = module;
    assert_int_equal(cu.cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
    return f;
}

/* Launches without the text of findings on stderr. */
static inline CUresult case_launch(const PtxCase *c, CUfunction f, void **params) {
    const int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    assert_true(kept >= 0 && nowhere >= 0);
    dup2(nowhere, STDERR_FILENO);
    const CUresult r =
        cu.cuLaunchKernel(f, c->grid[0], c->grid[1], 1, c->block[0], c->block[1], 1, c->shared, NULL, params, NULL);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(nowhere);
    return r;
}

/* Loads the kernel of that name and runs it once in a context of its own. */
static inline void case_run(const PtxCase *c, const char *name, Outcome *o) {
    static CUtensorMap map[CASE_PARAMETERS];
    static uint32_t four[4] = {11, 12, 13, 14};
    CUdeviceptr buffer[CASE_PARAMETERS] = {0};
    void *params[CASE_PARAMETERS];
    int taken = 0;
    o->findings = 0;
    o->words = 0;
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    CUfunction f = case_load(c->text, name, o);
    for (int k = 0; f && k < c->parameters; k++) {
        const CaseParameter *p = &c->parameter[k];
        params[taken] = strcmp(p->kind, "map") == 0      ? (void *)&map[k]
                        : strcmp(p->kind, "words4") == 0 ? (void *)four
                                                         : &buffer[k];
        taken += !p->hidden;
        if (strcmp(p->kind, "int") == 0) buffer[k] = p->count;
        if (strcmp(p->kind, "map") == 0)
            case_map(&map[k], p, buffer[p->buffer]);
        else if (parameter_words(p))
            buffer[k] = case_buffer(p);
    }
    if (f) o->result = case_launch(c, f, params);
    case_findings(o);
    for (int k = 0; f && k < c->parameters; k++) {
        const uint32_t n = parameter_words(&c->parameter[k]);
        assert_true(o->words + n <= CASE_WORDS);
        if (n && !o->result)
            assert_int_equal(cu.cuMemcpyDtoH_v2(o->memory + o->words, buffer[k], n * 4u), CUDA_SUCCESS);
        o->words += n;
        if (n) cu.cuMemFree_v2(buffer[k]);
    }
    cu.cuCtxDestroy_v2(cu.context);
}

/* A schedule: warps by the seed, asynchronous operations by the landing. */
static inline void case_schedule(unsigned seed, const char *landing) {
    char text[16];
    snprintf(text, sizeof text, "%u", seed);
    setenv("PTXSIM_SEED", text, 1);
    setenv("PTXSIM_LANDING", landing, 1);
}

/* Findings go to a file of their own, the text of thousands of them nowhere. */
static inline void case_silence(void) {
    static char path[64] = "/tmp/ptxsim_case_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    setenv("PTXSIM_REPORT", path, 1);
    setenv("PTXSIM_DEVICE", "sm_90", 1);
    setenv("PTXSIM_MAX_STEPS", "300000", 1);
}
