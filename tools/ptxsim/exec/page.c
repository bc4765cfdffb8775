#include "tools/ptxsim/exec/page.h"
#include "tools/ptxsim/exec/run.h"
#include <stdio.h>
#include <stdlib.h>

struct LaunchShadow {
    bool shared;          /* all clusters use `pages` and `table` */
    ShadowTable table;
    PageTable pages;      /* shared: the clusters'; else the record of what ended clusters did */
    pthread_mutex_t lock; /* of all below, and of the record */
    pthread_cond_t merged;
    Page *pool;
    Cluster **waiting;    /* ended, and a lower one has not: ring by linear number */
    uint64_t turn;        /* next to be merged */
    bool failed;
};
enum { RING = 256 };

/* What a cluster that has its own pages keeps of itself until they are merged. */
typedef struct ClusterShadow {
    ShadowTable table;
    PageTable pages;
} ClusterShadow;

/* ---- tables of pages -------------------------------------------------------------------------------------- */
static uint32_t slot_of(const PageTable *t, uint64_t number) {
    return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (t->slots - 1);
}

static Page *table_find(const PageTable *t, uint64_t number) {
    if (!t->slots) return NULL;
    for (uint32_t k = slot_of(t, number); t->slot[k]; k = (k + 1) & (t->slots - 1))
        if (t->slot[k]->number == number) return t->slot[k];
    return NULL;
}

static void table_put(PageTable *t, Page *p) {
    uint32_t k = slot_of(t, p->number);
    while (t->slot[k]) k = (k + 1) & (t->slots - 1);
    t->slot[k] = p;
}

static bool table_add(PageTable *t, Page *p) {
    if (2 * t->count >= t->slots) {
        const uint32_t slots = t->slots ? 2 * t->slots : 64;
        Page **slot = calloc(slots, sizeof *slot);
        if (!slot) return false;
        free(t->slot);
        t->slot = slot;
        t->slots = slots;
        for (Page *q = t->first; q; q = q->next) table_put(t, q);
    }
    table_put(t, p);
    p->next = t->first;
    t->first = p;
    t->count++;
    return true;
}

static void free_pages(Page *p) {
    while (p) {
        Page *next = p->next;
        free(p);
        p = next;
    }
}

/* ---- pages ------------------------------------------------------------------------------------------------ */
static Page *page_memory(LaunchShadow *s) {
    const size_t words = (s->shared ? 4 : 2) * (size_t)PAGE_WORDS;
    Page *p = NULL;
    if (!s->shared) {
        pthread_mutex_lock(&s->lock);
        p = s->pool;
        if (p) s->pool = p->next;
        pthread_mutex_unlock(&s->lock);
    }
    if (!p) p = aligned_alloc(64, (sizeof *p + words * sizeof *p->word + 63) / 64 * 64);
    return p;
}

static void page_place(Page *p, uint64_t number, const Allocation *a) {
    const uint64_t start = number << PAGE_SHIFT;
    const uint64_t first = start > a->address ? start : a->address;
    const uint64_t end = start + PAGE_BYTES < a->address + a->bytes ? start + PAGE_BYTES : a->address + a->bytes;
    *p = (Page){.number = number,
                .allocation = a,
                .data = a->data + (first - a->address),
                .written = a->written + (first - a->address),
                .from = (uint32_t)(first - start),
                .to = (uint32_t)(end - start)};
}

static uint32_t first_word(const Page *p) { return p->from / 4; }
static uint32_t words_of(const Page *p) { return (p->to + 3) / 4 - p->from / 4; }
static Shadow shadow_from(const Shadow *s, uint32_t k) {
    return (Shadow){s->w + k, s->r + k, s->wc ? s->wc + k : NULL, s->rc ? s->rc + k : NULL};
}

/* What the part of a cropped grid that did not run would have written: all of it may have been. */
static const uint8_t WRITTEN[PAGE_BYTES] = {[0 ... PAGE_BYTES - 1] = 1};

static Page *page_make(Warp *w, uint64_t number, const Allocation *a) {
    Cluster *c = w->cluster;
    LaunchShadow *s = c->launch->shadow;
    Page *p = page_memory(s);
    if (!p) return NULL;
    page_place(p, number, a);
    p->shadow = (Shadow){.w = p->word, .r = p->word + PAGE_WORDS};
    if (s->shared) p->shadow.wc = p->word + 2 * PAGE_WORDS, p->shadow.rc = p->word + 3 * PAGE_WORDS;
    const Shadow part = shadow_from(&p->shadow, first_word(p));
    shadow_begin(c->table, &part, words_of(p), c->launch->crop ? WRITTEN : p->written);
    if (table_add(c->page_table, p)) return p;
    free(p);
    return NULL;
}

Page *page_find(Warp *w, uint64_t number) {
    Page *p = table_find(w->cluster->page_table, number);
    if (!p) {
        const Allocation *a = memory_on(w->cluster->launch->memory, number << PAGE_SHIFT, PAGE_BYTES);
        if (!a) return NULL;
        p = page_make(w, number, a);
        if (!p) cluster_no_memory(w->cluster);
    }
    if (p) w->pages->way[(number ^ number >> 6) % PAGE_WAYS] = p;
    return p;
}

/* ---- the record: which cluster wrote a word, and which read it -------------------------------------------- */
/* Cluster numbers + 1; a word whose bytes differ has the index of a Detail of such numbers in `w`. */
enum { SEVERAL_CLUSTERS = INT32_MAX };
#define RECORD_DETAIL UINT32_C(0x80000000)

typedef struct Merge {
    LaunchShadow *launch;
    Cluster *cluster;
    uint32_t self;        /* cluster + 1 */
    const Page *page;     /* of the cluster */
    Page *record;
    uint32_t last_r;      /* readers looked at last, and the bytes that they read */
    uint8_t last_bytes;
    bool told[3];         /* findings of this page: write after write, write after read, read after write */
} Merge;

static Page *record_page(LaunchShadow *s, const Page *from) {
    Page *p = table_find(&s->pages, from->number);
    if (p) return p;
    p = s->pool; /* the lock is held */
    if (p) s->pool = p->next;
    else p = aligned_alloc(64, (sizeof *p + 2 * PAGE_WORDS * sizeof *p->word + 63) / 64 * 64);
    if (!p) return NULL;
    page_place(p, from->number, from->allocation);
    p->shadow = (Shadow){.w = p->word, .r = p->word + PAGE_WORDS};
    memset(p->word, 0, 2 * PAGE_WORDS * sizeof *p->word);
    if (table_add(&s->pages, p)) return p;
    free(p);
    return NULL;
}

static void tell(Merge *m, uint32_t k, uint32_t other, int what) {
    static const char *const DID[] = {"write of global memory that %s wrote", "write of global memory that %s read",
                                      "read of global memory that %s wrote"};
    if (m->told[what]) return;
    m->told[what] = true;
    const bool write = what < 2;
    char who[96], text[224];
    if (other == SEVERAL_CLUSTERS) snprintf(who, sizeof who, "several other blocks");
    else race_block_name(m->cluster->launch, other - 1, who, sizeof who);
    snprintf(text, sizeof text, DID[what], who);
    const Inst *at = what == 1 ? m->record->reader : m->record->writer;
    if (at) snprintf(text + strlen(text), sizeof text - strlen(text), " in the same launch (line %d)", at->line);
    const Stamp by = shadow_someone(m->cluster->table, &m->page->shadow, k, write);
    race_report_at(m->cluster, by, write ? m->page->writer : m->page->reader,
                   m->page->number << PAGE_SHIFT | (uint64_t)k * 4, text);
}

/* One number of the record against another cluster's access: does it clash, and what becomes of it. */
static bool other_than(uint32_t recorded, uint32_t self) { return recorded && recorded != self; }

static void merge_byte(Merge *m, uint32_t k, uint32_t *w, uint32_t *r, bool wrote, bool read) {
    if (wrote && other_than(*w, m->self)) tell(m, k, *w, 0);
    if (wrote && other_than(*r, m->self)) tell(m, k, *r, 1);
    if (read && other_than(*w, m->self)) tell(m, k, *w, 2);
    if (wrote && !*w) *w = m->self;
    if (read) *r = *r == 0 || *r == m->self ? m->self : SEVERAL_CLUSTERS;
}

static void merge_bytes(Merge *m, uint32_t k, uint8_t wrote, uint8_t read) {
    uint32_t *w = &m->record->shadow.w[k], *r = &m->record->shadow.r[k];
    ShadowTable *t = &m->launch->table;
    if (!(*w & RECORD_DETAIL)) {
        const uint32_t made = shadow_detail_new(t);
        if (!made) return;
        for (int b = 0; b < 4; b++) t->detail[made - 1].w[b] = *w, t->detail[made - 1].r[b] = *r;
        *w = RECORD_DETAIL | (made - 1);
        *r = 0;
    }
    Detail *d = &t->detail[*w & ~RECORD_DETAIL];
    for (int b = 0; b < 4; b++) merge_byte(m, k, &d->w[b], &d->r[b], wrote >> b & 1, read >> b & 1);
}

static void merge_word(Merge *m, uint32_t k) {
    const uint32_t w = m->page->shadow.w[k], r = m->page->shadow.r[k];
    if (w <= STAMP_BEFORE && !r) return;
    uint8_t wrote = w > STAMP_BEFORE ? 15 : 0, read = r ? 15 : 0;
    if (w >= SHADOW_INDEX) shadow_detail_bytes(m->cluster->table, w, &wrote, &read);
    else if (r && r == m->last_r) read = m->last_bytes;
    else if (r) m->last_bytes = read = shadow_reader_bytes(m->cluster->table, m->last_r = r);
    const bool whole = (wrote == 0 || wrote == 15) && (read == 0 || read == 15);
    if (whole && !(m->record->shadow.w[k] & RECORD_DETAIL))
        merge_byte(m, k, &m->record->shadow.w[k], &m->record->shadow.r[k], wrote != 0, read != 0);
    else merge_bytes(m, k, wrote, read);
}

static void merge_page(LaunchShadow *s, Cluster *c, const Page *p) {
    Merge m = {.launch = s, .cluster = c, .self = (uint32_t)c->linear + 1, .page = p, .record = record_page(s, p)};
    if (!m.record) {
        c->launch->out_of_memory = true;
        return;
    }
    if (p->writer) shadow_publish(c->table, &(Shadow){.w = p->shadow.w + first_word(p)}, words_of(p), p->written);
    const uint32_t end = first_word(p) + words_of(p);
    for (uint32_t k = first_word(p); k < end; k++) merge_word(&m, k);
    if (p->writer) m.record->writer = p->writer;
    if (p->reader) m.record->reader = p->reader;
}

static void own_shadow_free(LaunchShadow *s, Cluster *c) {
    if (!c->own_shadow) return;
    for (Page *p = c->own_shadow->pages.first, *next; p; p = next) {
        next = p->next;
        p->next = s->pool;
        s->pool = p;
    }
    free(c->own_shadow->pages.slot);
    shadow_table_free(&c->own_shadow->table);
    free(c->own_shadow);
}

static void merge_cluster(LaunchShadow *s, Cluster *c) {
    for (const Page *p = c->own_shadow ? c->own_shadow->pages.first : NULL; p; p = p->next) merge_page(s, c, p);
    own_shadow_free(s, c);
    cluster_free(c);
}

/* ---- life ------------------------------------------------------------------------------------------------- */
LaunchShadow *launch_shadow_new(bool shared_pages) {
    LaunchShadow *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->shared = shared_pages;
    s->waiting = calloc(RING, sizeof *s->waiting);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->merged, NULL);
    if (s->waiting) return s;
    free(s);
    return NULL;
}

void launch_shadow_fail(LaunchShadow *s) {
    pthread_mutex_lock(&s->lock);
    s->failed = true;
    pthread_cond_broadcast(&s->merged);
    pthread_mutex_unlock(&s->lock);
}

void launch_shadow_end(LaunchShadow *s) {
    for (int k = 0; k < RING; k++)
        if (s->waiting[k]) merge_cluster(s, s->waiting[k]); /* only after a failure */
    for (Page *p = s->pages.first; p; p = p->next) {
        if (!p->writer) continue;
        if (s->shared) shadow_publish(&s->table, &(Shadow){.w = p->shadow.w + first_word(p)}, words_of(p), p->written);
        for (uint32_t k = 0; k < p->to - p->from; k++) p->written[k] = (p->written[k] | p->written[k] >> 1) & 1;
    }
    free_pages(s->pages.first);
    free_pages(s->pool);
    free(s->pages.slot);
    free(s->waiting);
    if (s->shared) shadow_table_free(&s->table);
    else free(s->table.detail);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->merged);
    free(s);
}

bool cluster_shadow_start(Cluster *c) {
    LaunchShadow *s = c->launch->shadow;
    if (s->shared) {
        c->table = &s->table;
        c->page_table = &s->pages;
        return true;
    }
    c->own_shadow = calloc(1, sizeof *c->own_shadow);
    if (!c->own_shadow) return false;
    c->table = &c->own_shadow->table;
    c->page_table = &c->own_shadow->pages;
    return true;
}

void cluster_shadow_end(Cluster *c) {
    LaunchShadow *s = c->launch->shadow;
    if (s->shared) {
        cluster_free(c);
        return;
    }
    pthread_mutex_lock(&s->lock);
    while (c->position >= s->turn + RING && !s->failed)
        pthread_cond_wait(&s->merged, &s->lock);                                      /* the lowest one never waits */
    if (s->waiting[c->position % RING]) merge_cluster(s, s->waiting[c->position % RING]); /* only after a failure */
    s->waiting[c->position % RING] = c;
    for (Cluster **next = &s->waiting[s->turn % RING]; *next; next = &s->waiting[s->turn % RING]) {
        merge_cluster(s, *next);
        *next = NULL;
        s->turn++;
    }
    pthread_cond_broadcast(&s->merged);
    pthread_mutex_unlock(&s->lock);
}
