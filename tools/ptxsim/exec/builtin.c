/* Functions that every device has: vprintf and __assertfail, as nvcc and Triton call them.  Source: CUDA C++
 * Programming Guide, "Formatted Output", "Assertion". */
#include "tools/ptxsim/exec/access.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- arguments and texts -------------------------------------------------------------------------------- */
static size_t local_at(const Warp *w, int lane, uint32_t offset) {
    return (size_t)lane * w->local_stride + w->frame[w->frames - 1].local_base + offset;
}

static uint64_t argument(const Warp *w, const CallSite *c, int k, int lane) {
    uint64_t v = 0;
    memcpy(&v, w->local + local_at(w, lane, c->arg[k].from), c->arg[k].bytes);
    return v;
}

static void give_result(const Warp *w, const CallSite *c, int lane, uint64_t v) {
    if (!c->result_count) return;
    const size_t at = local_at(w, lane, c->result[0].to);
    memcpy(w->local + at, &v, c->result[0].bytes);
    memset(w->local_written + at, 1, c->result[0].bytes);
}

/* `bytes` (1, 4, 8) at a generic address; false, with a finding made, where a load would be refused. */
static bool fetch(Warp *w, int lane, uint64_t address, int bytes, void *to) {
    uint64_t at[WARP] = {0};
    uint8_t *place[WARP];
    at[lane] = address;
    warp_access(w, SPACE_GENERIC, ACCESS_READ, false, at, bytes, UINT32_C(1) << lane, place);
    if (place[lane]) memcpy(to, place[lane], (size_t)bytes);
    return place[lane] != NULL;
}

enum { MAX_TEXT = 4096 };
/* Of a generic address; false, with a finding made, where it cannot be read.  Cut to MAX_TEXT - 1 characters. */
static bool fetch_text(Warp *w, int lane, uint64_t address, char text[MAX_TEXT]) {
    for (int n = 0; n < MAX_TEXT - 1; n++) {
        text[n] = '\0';
        if (!fetch(w, lane, address + (uint64_t)n, 1, text + n)) return false;
        if (!text[n]) return true;
    }
    text[MAX_TEXT - 1] = '\0';
    return true;
}

/* ---- vprintf -------------------------------------------------------------------------------------------- */
typedef struct Print {
    Warp *w;
    int lane;
    uint64_t next; /* generic address of the next argument: each is aligned to its size */
    int taken;
    FILE *to;
} Print;

static uint64_t next_argument(Print *p, int bytes) {
    uint64_t v = 0;
    p->next = (p->next + (uint64_t)bytes - 1) / (uint64_t)bytes * (uint64_t)bytes;
    fetch(p->w, p->lane, p->next, bytes, &v);
    p->next += (uint64_t)bytes;
    p->taken++;
    return v;
}

enum { MAX_SPECIFIER = 32 };
/* %[flags][width][.precision][size]type: its length up to `size`, or 0 for what is none. */
static size_t specifier_length(const char *text) {
    size_t n = 1 + strspn(text + 1, "-+ #0");
    n += strspn(text + n, "0123456789");
    if (text[n] == '.') n += 1 + strspn(text + n + 1, "0123456789");
    return n < MAX_SPECIFIER - 4 ? n : 0;
}

static void print_integer(Print *p, char *format, size_t n, bool wide, char type) {
    const uint64_t v = next_argument(p, wide ? 8 : 4);
    snprintf(format + n, MAX_SPECIFIER - n, "ll%c", type);
    const bool is_signed = type == 'd' || type == 'i';
    fprintf(p->to, format, is_signed && !wide ? (long long)(int32_t)v : (long long)v);
}

static void print_float(Print *p, char *format, size_t n, char type) {
    const uint64_t bits = next_argument(p, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    snprintf(format + n, MAX_SPECIFIER - n, "%c", type);
    fprintf(p->to, format, v);
}

static void print_text(Print *p, char *format, size_t n) {
    char text[MAX_TEXT];
    const uint64_t at = next_argument(p, 8);
    snprintf(format + n, MAX_SPECIFIER - n, "s");
    if (!at)
        fprintf(p->to, format, "(null)");
    else if (fetch_text(p->w, p->lane, at, text))
        fprintf(p->to, format, text);
}

/* The specifier at text[0] == '%'; returns what follows it. */
static const char *print_one(Print *p, const char *text) {
    char format[MAX_SPECIFIER];
    const size_t n = specifier_length(text);
    const char *end = text + n;
    const bool wide = end[0] == 'l';
    end += strspn(end, "hl");
    if (!n || !*end || !strchr("diouxXcpeEfFgGaAs", *end)) { /* %% among them; as it is */
        fputc('%', p->to);
        return text + (text[1] == '%' ? 2 : 1);
    }
    memcpy(format, text, n);
    if (strchr("diouxX", *end)) {
        print_integer(p, format, n, wide, *end);
    } else if (*end == 'c') {
        snprintf(format + n, sizeof format - n, "c");
        fprintf(p->to, format, (int)(uint8_t)next_argument(p, 4));
    } else if (*end == 'p') {
        snprintf(format + n, sizeof format - n, "p");
        fprintf(p->to, format, (void *)(uintptr_t)next_argument(p, 8));
    } else if (*end == 's') {
        print_text(p, format, n);
    } else {
        print_float(p, format, n, *end);
    }
    return end + 1;
}

/* The number of arguments printed; -1 without a format. */
static int print_lane(Warp *w, int lane, uint64_t format, uint64_t arguments, FILE *to) {
    char text[MAX_TEXT];
    Print p = {.w = w, .lane = lane, .next = arguments, .to = to};
    if (!format || !fetch_text(w, lane, format, text)) return -1;
    for (const char *at = text; *at;) {
        const size_t plain = strcspn(at, "%");
        fwrite(at, 1, plain, to);
        at += plain;
        if (*at) at = print_one(&p, at);
    }
    return p.taken;
}

/* vprintf(format, arguments): to standard output, lane after lane. */
static void run_vprintf(Warp *w, const CallSite *c, uint32_t mask) {
    for (; mask; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        const int taken = print_lane(w, lane, argument(w, c, 0, lane), argument(w, c, 1, lane), stdout);
        give_result(w, c, lane, (uint64_t)(int64_t)taken);
    }
}

/* ---- __assertfail --------------------------------------------------------------------------------------- */
/* __assertfail(message, file, line, function, bytes of a character): the launch ends, unless assertions are no errors;
 * then the thread goes on. */
static void run_assertfail(Warp *w, const CallSite *c, uint32_t mask) {
    for (; mask; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        char message[MAX_TEXT] = "", file[MAX_TEXT] = "", function[MAX_TEXT] = "", note[sizeof((Report){0}).note];
        fetch_text(w, lane, argument(w, c, 0, lane), message);
        fetch_text(w, lane, argument(w, c, 1, lane), file);
        fetch_text(w, lane, argument(w, c, 3, lane), function);
        snprintf(note, sizeof note, "%.60s:%u: %.60s: Assertion `%.60s` failed", file,
                 (unsigned)argument(w, c, 2, lane), function, message);
        warp_report(w, REPORT_ASSERT, lane, 0, 0, note);
    }
    if (check_level(REPORT_ASSERT) == CHECK_ERROR) w->cluster->stuck = true;
}

static const Builtin BUILTINS[] = {{"vprintf", 4, {8, 8}, run_vprintf},
                                   {"__assertfail", 0, {8, 8, 4, 8, 8}, run_assertfail}};

const Builtin *builtin_find(const char *name) {
    for (size_t k = 0; k < sizeof BUILTINS / sizeof *BUILTINS; k++)
        if (!strcmp(BUILTINS[k].name, name)) return &BUILTINS[k];
    return NULL;
}
