#include "tools/ptxsim/exec/report.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *text; int status; } KINDS[] = {
#define REPORT(name, text, status) {text, status},
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
        if (own == 700 || !status) status = own; /* an illegal address outranks the rest */
    }
    s->count = 0;
    pthread_mutex_destroy(&s->lock);
    return status;
}

void report_driver(ReportKind kind, uint64_t address, uint64_t bytes, const char *note) {
    Report r = {.kind = kind, .function = "(driver)", .address = address, .bytes = bytes > 1 << 30 ? 1 << 30 : (int)bytes,
                .count = 1};
    snprintf(r.note, sizeof r.note, "%s", note);
    publish(&r);
}

uint64_t reports_total(void) { return atomic_load(&total_findings); }

uint32_t checks_enabled(void) {
    uint32_t set = UINT32_MAX;
    const char *text = getenv("PTXSIM_CHECKS");
    if (!text) return set;
    for (int k = 0; k < REPORT_KINDS; k++) {
        char off[40];
        snprintf(off, sizeof off, "-%s", KINDS[k].text);
        const char *at = strstr(text, off);
        const size_t n = strlen(off);
        if (at && (at[n] == '\0' || at[n] == ',')) set &= ~(UINT32_C(1) << k);
    }
    return set;
}
