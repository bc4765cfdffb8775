#include "tests/support/runner.h"
#include "tests/support/scratch.h"
#include "tests/tools/c99_runner.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

Runner runner_start(Arena *a, const char *program) {
    Runner r = {.report = arena_printf(a, "%s.report", program)};
    int to[2], from[2];
    signal(SIGPIPE, SIG_IGN); /* a runner that has ended shows when its reply is missing */
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) fail_msg("no pipe");
    r.pid = fork();
    if (r.pid < 0) fail_msg("no process");
    if (r.pid == 0) {
        const int report = open(r.report, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* models do not allocate */
        setenv("UBSAN_OPTIONS", "print_stacktrace=1", 1);
        if (report >= 0 && dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1 && dup2(report, 2) == 2)
            execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    r.to = fdopen(to[1], "wb");
    r.from = fdopen(from[0], "rb");
    if (!r.to || !r.from) fail_msg("no stream");
    return r;
}

typedef struct Span {
    void *data;
    uint64_t bytes;
} Span;

/* The blocks of a call, in the runner's order; *n of them. */
static Span *blocks(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, int *n) {
    *n = RUNNER_INPUT0 + m->inputs.n + m->outputs.n;
    Span *s = ARENA_ARRAY(a, Span, *n);
    s[0] = (Span){mem->params, (uint64_t)m->param_bytes};
    s[1] = (Span){mem->states, (uint64_t)m->state_bytes};
    s[2] = (Span){mem->grads, (uint64_t)m->grad_bytes};
    s[3] = (Span){mem->arena, (uint64_t)m->entry[e].arena_bytes};
    Span *at = s + RUNNER_INPUT0;
    for (int i = 0; i < m->inputs.n; i++) *at++ = (Span){mem->inputs[i], (uint64_t)m->inputs.at[i].bytes};
    for (int i = 0; i < m->outputs.n; i++) *at++ = (Span){mem->outputs[i], (uint64_t)m->outputs.at[i].bytes};
    return s;
}

static bool put(FILE *f, const void *data, uint64_t bytes) { return !bytes || fwrite(data, 1, bytes, f) == bytes; }
static bool get(FILE *f, void *data, uint64_t bytes) { return !bytes || fread(data, 1, bytes, f) == bytes; }

static bool send(Runner *r, const RunnerCall *c, const ModuleMemory *mem, const int64_t *syms, const Span *s, int n) {
    bool ok = put(r->to, c, sizeof *c) && put(r->to, &mem->scalars[SCALAR_HYPER0], 4 * (uint64_t)c->n_hypers);
    for (int i = 0; i < c->n_syms; i++) ok = ok && put(r->to, &(int32_t){(int32_t)syms[i]}, 4);
    for (int i = 0; i < n; i++) ok = ok && put(r->to, &s[i].bytes, sizeof s[i].bytes);
    for (int i = 0; i < n; i++) ok = ok && put(r->to, s[i].data, s[i].bytes);
    return ok && fflush(r->to) == 0;
}

static bool receive(Arena *a, Runner *r, const Module *m, const Span *s, int n, int32_t *status, const char **error) {
    if (!get(r->from, status, sizeof *status)) return false;
    for (int i = 0; i < n; i++) {
        const int input = i - RUNNER_INPUT0;
        const bool kept = input >= 0 && input < m->inputs.n;
        void *to = kept ? arena_alloc(a, s[i].bytes + 1) : s[i].data;
        if (!get(r->from, to, s[i].bytes)) return false;
        if (kept && memcmp(to, s[i].data, s[i].bytes))
            *error = arena_printf(a, "input %s is changed", m->inputs.at[input].name);
    }
    return true;
}

bool runner_call(Arena *a, Runner *r, int program, const Module *m, Entry e, const ModuleMemory *mem,
                 const int64_t *syms, const char **error) {
    const RunnerCall c = {.program = program,
                          .entry = (int32_t)e,
                          .step = mem->scalars[SCALAR_STEP],
                          .seed = (uint32_t)mem->scalars[SCALAR_SEED],
                          .align = m->align,
                          .n_hypers = m->hypers.n,
                          .n_syms = m->syms.n,
                          .n_inputs = m->inputs.n,
                          .n_outputs = m->outputs.n};
    int n;
    int32_t status;
    const Span *s = blocks(a, m, e, mem, &n);
    *error = NULL;
    if (!send(r, &c, mem, syms, s, n) || !receive(a, r, m, s, n, &status, error)) {
        runner_stop(r); /* it writes its report to the end */
        const char *said = read_text(a, r->report);
        *error = arena_printf(a, "the process has ended\n%s", said ? said : "");
    } else if (status != FUSEC_OK)
        *error = fusec_status_text((fusec_status)status);
    return !*error;
}

bool runner_stop(Runner *r) {
    int status = 0;
    if (!r->pid) return true;
    fclose(r->to);
    fclose(r->from);
    const bool ended = waitpid(r->pid, &status, 0) == r->pid;
    r->pid = 0;
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
