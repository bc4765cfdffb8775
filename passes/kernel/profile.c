/* The text of a profile. */
#include "passes/kernel/profile.h"
#include <stdlib.h>
#include <string.h>

const char *const profile_field[PROFILE_FIELDS] = {
    [PROFILE_GPU] = "gpu",           [PROFILE_CAPABILITY] = "capability", [PROFILE_DRIVER] = "driver",
    [PROFILE_COMPILER] = "compiler", [PROFILE_TARGET] = "target",         [PROFILE_TIMER] = "timer"};

static const char FIRST[] = "fusec-profile", AGAIN[] = "write it anew with `fusec tune`";

/* ---- tiles ------------------------------------------------------------------------------------------------------- */
const char *matrix_tile_text(char text[PROFILE_TILE_TEXT], const MatrixTile *t) {
    const int n = snprintf(text, PROFILE_TILE_TEXT, "%s:%dx%d:%dx%d", t->by == BY_WGMMA ? "wgmma" : "mma", t->rows,
                           t->columns, t->warp_rows, t->warp_columns);
    if (t->alternate > 1) snprintf(text + n, (size_t)(PROFILE_TILE_TEXT - n), ":%d", t->alternate);
    return text;
}

const MatrixTile *matrix_tile_find(const char *text, size_t n) {
    for (int i = 0; i < n_matrix_tiles; i++) {
        char name[PROFILE_TILE_TEXT];
        if (strlen(matrix_tile_text(name, &matrix_tile[i])) == n && !memcmp(name, text, n)) return &matrix_tile[i];
    }
    return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
typedef struct Reader {
    Arena *a;
    Profile *p;
    ProfileReport *report;
    void *user;
    int line, errors;
    const char *start, *at, *end; /* of the line */
} Reader;

static bool say(Reader *r, bool is_error, const char *at, const char *message, const char *help) {
    r->report(r->user, is_error, r->line, (int)(at - r->start) + 1, message, help);
    r->errors += is_error;
    return false;
}
static bool fail(Reader *r, const char *message) { return say(r, true, r->at, message, AGAIN); }

/* The next word, up to a blank or the end of the line; its bytes. */
static size_t word(const Reader *r) {
    const char *stop = r->at;
    while (stop < r->end && *stop != ' ') stop++;
    return (size_t)(stop - r->at);
}
static void skip(Reader *r, size_t n) {
    r->at += n;
    if (r->at < r->end) r->at++; /* one blank stands between words */
}
static bool take(Reader *r, const char *expected) {
    const size_t n = word(r);
    if (n != strlen(expected) || memcmp(r->at, expected, n) != 0) return false;
    skip(r, n);
    return true;
}

static bool read_version(Reader *r) {
    if (!take(r, FIRST)) return fail(r, "this is no profile of fusec");
    char *end;
    const long version = strtol(r->at, &end, 10);
    if (end == r->at || end != r->end) return fail(r, "the version of the profile is no number");
    if (version == PROFILE_VERSION) return true;
    return fail(r, arena_printf(r->a, "the profile has version %ld, this fusec reads %d", version, PROFILE_VERSION));
}

static bool read_field(Reader *r, int f) {
    if (!take(r, profile_field[f]))
        return fail(r, arena_printf(r->a, "`%s` and a value are expected here", profile_field[f]));
    if (r->at == r->end) return fail(r, arena_printf(r->a, "`%s` has no value", profile_field[f]));
    r->p->field[f] = arena_strndup(r->a, r->at, (size_t)(r->end - r->at));
    r->p->line[f] = r->line;
    return true;
}

/* TILE=MICROSECONDS or TILE=WORD. */
static bool read_time(Reader *r, ProfileProduct *x) {
    const size_t n = word(r);
    const char *equals = memchr(r->at, '=', n), *stop = r->at + n;
    if (!equals || equals + 1 == stop) return fail(r, "TILE=MICROSECONDS is expected here");
    const MatrixTile *tile = matrix_tile_find(r->at, (size_t)(equals - r->at));
    TileTime t = {0};
    char *end;
    t.us = strtod(equals + 1, &end);
    if (end != stop) t.us = 0, t.word = arena_strndup(r->a, equals + 1, (size_t)(stop - equals - 1));
    if (!t.word && !(t.us > 0 && t.us < 1e12))
        return r->at = equals + 1, fail(r, "a time is a positive number of microseconds");
    skip(r, n);
    if (!tile) return true; /* of another compiler: the one that was chosen matters */
    t.tile = *tile;
    vec_push(r->a, x->times, t);
    return true;
}

static bool read_tile(Reader *r, ProfileProduct *x) {
    const size_t n = word(r);
    const MatrixTile *tile = matrix_tile_find(r->at, n);
    if (tile)
        x->tile = *tile;
    else if (!memchr(r->at, ':', n))
        return fail(r, "a tile is expected here, such as mma:128x128:64x64");
    else
        say(r, false, r->at,
            arena_printf(r->a, "this fusec has no tile %.*s: the cost model chooses for this product", (int)n, r->at),
            "measure again with `fusec tune`");
    skip(r, n);
    return true;
}

static bool read_product(Reader *r) {
    ProfileProduct x = {0};
    if (!take(r, "product")) return fail(r, "`product` is expected here");
    const char *arrow = NULL;
    for (const char *c = r->at; c + 4 <= r->end && !arrow; c++)
        if (!memcmp(c, " -> ", 4)) arrow = c;
    if (!arrow || arrow == r->at) return fail(r, "`PRODUCT -> TILE of TILE=MICROSECONDS ..` is expected here");
    x.key = arena_strndup(r->a, r->at, (size_t)(arrow - r->at));
    const char *key = r->at;
    r->at = arrow + 4;
    if (!read_tile(r, &x)) return false;
    if (!take(r, "of")) return fail(r, "`of` and the times of all tiles are expected here");
    while (r->at < r->end)
        if (!read_time(r, &x)) return false;
    if (profile_find(r->p, x.key)) return r->at = key, fail(r, "this product stands in the profile twice");
    profile_put(r->a, r->p, x);
    return true;
}

static void read_line(Reader *r, int n) {
    if (n == 0)
        read_version(r);
    else if (n <= PROFILE_FIELDS)
        read_field(r, n - 1);
    else
        read_product(r);
}

bool profile_parse(Arena *a, const char *text, Profile *out, ProfileReport *report, void *user) {
    Reader r = {.a = a, .p = out, .report = report, .user = user};
    int n = 0;
    *out = (Profile){0};
    for (const char *line = text; *line && !(r.errors && n <= PROFILE_FIELDS); n++) {
        const char *end = strchr(line, '\n');
        if (!end) end = line + strlen(line);
        r.start = r.at = line, r.end = end, r.line = n + 1;
        read_line(&r, n);
        line = *end ? end + 1 : end;
    }
    r.start = r.at = r.end = text, r.line = n + 1;
    if (!r.errors && n <= PROFILE_FIELDS) fail(&r, "the profile ends before its first product");
    return !r.errors;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
static void print_product(FILE *f, const ProfileProduct *x) {
    char text[PROFILE_TILE_TEXT];
    fprintf(f, "product %s -> %s of", x->key, matrix_tile_text(text, &x->tile));
    for (int i = 0; i < x->times.n; i++) {
        const TileTime *t = &x->times.at[i];
        fprintf(f, " %s=", matrix_tile_text(text, &t->tile));
        if (t->word)
            fputs(t->word, f);
        else
            fprintf(f, "%.3f", t->us);
    }
    fputc('\n', f);
}

void profile_print(FILE *f, const Profile *p) {
    fprintf(f, "%s %d\n", FIRST, PROFILE_VERSION);
    for (int i = 0; i < PROFILE_FIELDS; i++) fprintf(f, "%s %s\n", profile_field[i], p->field[i]);
    for (int i = 0; i < p->products.n; i++)
        if (p->products.at[i].tile.by != BY_NONE) print_product(f, &p->products.at[i]);
}

/* ---- products by name -------------------------------------------------------------------------------------------- */
/* The first product whose name is not less. */
static int place_of(const Profile *p, const char *key) {
    int low = 0, high = p->products.n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (strcmp(p->products.at[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const ProfileProduct *profile_find(const Profile *p, const char *key) {
    const int at = place_of(p, key);
    return at < p->products.n && !strcmp(p->products.at[at].key, key) ? &p->products.at[at] : NULL;
}

void profile_put(Arena *a, Profile *p, ProfileProduct x) {
    const int at = place_of(p, x.key);
    if (profile_find(p, x.key)) {
        p->products.at[at] = x;
        return;
    }
    vec_push(a, p->products, x);
    memmove(&p->products.at[at + 1], &p->products.at[at], (size_t)(p->products.n - 1 - at) * sizeof x);
    p->products.at[at] = x;
}
