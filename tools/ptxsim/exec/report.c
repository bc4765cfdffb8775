#include "tools/ptxsim/exec/report.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *text; int status; CheckLevel level; } KINDS[] = {
#define REPORT(name, text, status, level, meaning) {text, status, CHECK_##level},
#include "tools/ptxsim/exec/report.def"
#undef REPORT
};

static atomic_uint_fast64_t total_findings;

void reports_init(ReportSet *s) {
    s->count = 0;
    pthread_mutex_init(&s->lock, NULL);
}

static bool same(const Report *a, const Report *b) {
    return a->kind == b->kind && a->line == b->line && strcmp(a->function, b->function) == 0;
}

void reports_add(ReportSet *s, const Report *r) {
    pthread_mutex_lock(&s->lock);
    Report *known = NULL;
    for (int k = 0; k < s->count && !known; k++)
        if (same(&s->item[k], r)) known = &s->item[k];
    if (known) {
        const uint64_t count = known->count + 1;
        if (r->order < known->order) *known = *r;
        known->count = count;
    } else if (s->count < MAX_REPORTS) {
        s->item[s->count] = *r;
        s->item[s->count++].count = 1;
    }
    pthread_mutex_unlock(&s->lock);
}

static int by_line(const void *x, const void *y) {
    const Report *a = x, *b = y;
    if (a->line != b->line) return a->line < b->line ? -1 : 1;
    return (int)a->kind - (int)b->kind;
}

static void print_text(FILE *f, const Report *r) {
    fprintf(f, "ptxsim: %s: kernel %s, line %d, block (%u,%u,%u), thread (%u,%u,%u)", KINDS[r->kind].text, r->function,
            r->line, r->block[0], r->block[1], r->block[2], r->thread[0], r->thread[1], r->thread[2]);
    if (r->bytes) fprintf(f, ", %d bytes at 0x%" PRIx64, r->bytes, r->address);
    if (r->note[0]) fprintf(f, ": %s", r->note);
    if (r->count > 1) fprintf(f, " (%" PRIu64 " times)", r->count);
    fputc('\n', f);
}

/* One line per finding: tab-separated name=value pairs. */
static void print_record(FILE *f, const Report *r) {
    fprintf(f, "kind=%s\tkernel=%s\tline=%d\tblock=%u,%u,%u\tthread=%u,%u,%u\taddress=0x%" PRIx64 "\tbytes=%d\tcount=%" PRIu64
               "\tnote=%s\n",
            KINDS[r->kind].text, r->function, r->line, r->block[0], r->block[1], r->block[2], r->thread[0], r->thread[1],
            r->thread[2], r->address, r->bytes, r->count, r->note);
}

static void publish(const Report *r) {
    const char *path = getenv("PTXSIM_REPORT");
    atomic_fetch_add(&total_findings, 1);
    print_text(stderr, r);
    FILE *f = path && *path ? fopen(path, "a") : NULL;
    if (!f) return;
    print_record(f, r);
    fclose(f);
}

int reports_flush(ReportSet *s) {
    int status = 0;
    qsort(s->item, (size_t)s->count, sizeof *s->item, by_line);
    for (int k = 0; k < s->count; k++) {
        const int own = KINDS[s->item[k].kind].status;
        publish(&s->item[k]);
        if (check_level(s->item[k].kind) != CHECK_ERROR) continue;
        if (own == 700 || !status) status = own; /* an illegal address outranks the rest */
    }
    s->count = 0;
    pthread_mutex_destroy(&s->lock);
    return status;
}

void report_driver(ReportKind kind, uint64_t address, uint64_t bytes, const char *note) {
    if (check_level(kind) == CHECK_OFF) return;
    Report r = {.kind = kind, .function = "(driver)", .address = address, .bytes = bytes > 1 << 30 ? 1 << 30 : (int)bytes,
                .count = 1};
    snprintf(r.note, sizeof r.note, "%s", note);
    publish(&r);
}

uint64_t reports_total(void) { return atomic_load(&total_findings); }

/* ---- levels --------------------------------------------------------------------------------------------- */
enum { CHECKS_TEXT = 1024 };
static struct {
    char text[CHECKS_TEXT]; /* of which `level` was read */
    bool read;
    CheckLevel level[REPORT_KINDS];
} checks;
static pthread_mutex_t checks_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_word(const char *text, size_t length, const char *word) {
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* False: no kind has this name. */
static bool set_level(const char *name, size_t length, CheckLevel level) {
    bool known = false;
    for (int k = 0; k < REPORT_KINDS; k++) {
        if (!is_word(name, length, "all") && !is_word(name, length, KINDS[k].text)) continue;
        checks.level[k] = level;
        known = true;
    }
    return known;
}

/* KIND=LEVEL, or -KIND for off; a mistake in it would make checks look stricter or laxer than they are. */
static void read_check(const char *text, size_t length) {
    static const char *const LEVELS[] = {[CHECK_OFF] = "off", [CHECK_REPORT] = "report", [CHECK_ERROR] = "error"};
    const char *equals = memchr(text, '=', length);
    if (!length || (*text == '-' && !equals && set_level(text + 1, length - 1, CHECK_OFF))) return;
    for (int l = CHECK_OFF; equals && l <= CHECK_ERROR; l++)
        if (is_word(equals + 1, length - (size_t)(equals + 1 - text), LEVELS[l]) &&
            set_level(text, (size_t)(equals - text), (CheckLevel)l))
            return;
    fprintf(stderr, "ptxsim: PTXSIM_CHECKS: '%.*s' is not KIND=error, KIND=report, KIND=off or -KIND; left out\n", (int)length,
            text);
}

static void read_checks(const char *text) {
    snprintf(checks.text, sizeof checks.text, "%s", text);
    for (int k = 0; k < REPORT_KINDS; k++) checks.level[k] = KINDS[k].level;
    for (const char *at = checks.text; *at; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        read_check(at, length);
        at += length;
    }
    checks.read = true;
}

CheckLevel check_level(ReportKind kind) {
    const char *text = getenv("PTXSIM_CHECKS");
    if (!text) text = "";
    pthread_mutex_lock(&checks_lock);
    if (!checks.read || strncmp(text, checks.text, sizeof checks.text - 1) != 0) read_checks(text);
    const CheckLevel level = checks.level[kind];
    pthread_mutex_unlock(&checks_lock);
    return level;
}

uint32_t checks_enabled(void) {
    uint32_t set = 0;
    for (int k = 0; k < REPORT_KINDS; k++)
        if (check_level((ReportKind)k) != CHECK_OFF) set |= UINT32_C(1) << k;
    return set;
}
