/* Reads a safetensors file, without allocation: the JSON header is scanned as it comes, by a small window.  A first
 * scan checks everything, CRC included; a second one copies.  Robust against any bytes: every length is
 * checked before it is used, and nothing recurses. */
#include "runtime/common/fusec.h"

enum { FUSEC_LOAD_WINDOW = 64, FUSEC_LOAD_NAME = 256, FUSEC_LOAD_WORD = 16 };
#define FUSEC_LOAD_MAX_HEADER 100000000u

typedef struct fusec_loader {
    const fusec_manifest *m;
    const fusec_memory *memory;
    const fusec_io *io;
    uint64_t at_byte, end; /* in the file: the next header byte, the header's end = start of the data */
    uint8_t window[FUSEC_LOAD_WINDOW];
    uint64_t window_at;
    uint32_t window_n;
    fusec_status failed;
    uint32_t crc, stored_crc;
    int has_crc, has_at, states; /* whether there is a CRC; a step or a seed; whether any tensor is a state */
    fusec_position at;           /* of the file; the seed as it was where there is none */
    uint64_t seen, mixed; /* tensors found; the sum of their numbers' hashes: tells duplicates from missing ones */
    char name[FUSEC_LOAD_NAME], word[FUSEC_LOAD_WORD]; /* of a tensor; a key, a dtype, a value */
} fusec_loader;

static int fusec_load_fail(fusec_loader *l, fusec_status s) {
    if (l->failed == FUSEC_OK) l->failed = s;
    return 0;
}

/* The next byte of the header, or -1. */
static int fusec_load_peek(fusec_loader *l) {
    if (l->failed != FUSEC_OK || l->at_byte >= l->end) return -1;
    if (l->at_byte < l->window_at || l->at_byte >= l->window_at + l->window_n) {
        const uint64_t left = l->end - l->at_byte;
        l->window_at = l->at_byte;
        l->window_n = left < FUSEC_LOAD_WINDOW ? (uint32_t)left : FUSEC_LOAD_WINDOW;
        if (l->io->read(l->io->user, l->at_byte, l->window, l->window_n) != 0) {
            l->window_n = 0;
            fusec_load_fail(l, FUSEC_E_FILE);
            return -1;
        }
    }
    return l->window[l->at_byte - l->window_at];
}

static int fusec_load_next(fusec_loader *l) {
    const int c = fusec_load_peek(l);
    l->at_byte++;
    return c;
}

static void fusec_load_space(fusec_loader *l) {
    int c = fusec_load_peek(l);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        l->at_byte++;
        c = fusec_load_peek(l);
    }
}

/* 1 if the next token is c, which is then taken. */
static int fusec_load_accept(fusec_loader *l, int c) {
    fusec_load_space(l);
    if (fusec_load_peek(l) != c) return 0;
    l->at_byte++;
    return 1;
}

static int fusec_load_expect(fusec_loader *l, int c) {
    return fusec_load_accept(l, c) || fusec_load_fail(l, FUSEC_E_FORMAT);
}

/* A string into text[size], ended by 0.  What is longer than that is taken as empty; it and \u escapes are nothing of
 * ours. */
static int fusec_load_string(fusec_loader *l, char *text, uint32_t size) {
    uint32_t n = 0;
    if (!fusec_load_expect(l, '"')) return 0;
    for (;;) {
        int c = fusec_load_next(l);
        if (c == '"') break;
        if (c < ' ') return fusec_load_fail(l, FUSEC_E_FORMAT);
        if (c == '\\') c = fusec_load_next(l);
        if (c < 0) return fusec_load_fail(l, FUSEC_E_FORMAT);
        if (n < size) text[n++] = (char)c;
    }
    text[n < size ? n : 0] = 0;
    return 1;
}

static int fusec_load_number(fusec_loader *l, uint64_t *x) {
    int c, digits = 0;
    fusec_load_space(l);
    *x = 0;
    while ((c = fusec_load_peek(l)) >= '0' && c <= '9') {
        if (*x > (UINT64_MAX - 9) / 10) return fusec_load_fail(l, FUSEC_E_FORMAT);
        *x = *x * 10 + (uint64_t)(c - '0');
        l->at_byte++;
        digits++;
    }
    return digits > 0 || fusec_load_fail(l, FUSEC_E_FORMAT);
}

static int fusec_load_same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

/* [n, n, ...] of at most `most` numbers. */
static int fusec_load_list(fusec_loader *l, uint64_t *list, int most, int *n) {
    *n = 0;
    if (!fusec_load_expect(l, '[')) return 0;
    if (fusec_load_accept(l, ']')) return 1;
    do {
        if (*n == most) return fusec_load_fail(l, FUSEC_E_FORMAT);
        if (!fusec_load_number(l, &list[(*n)++])) return 0;
    } while (fusec_load_accept(l, ','));
    return fusec_load_expect(l, ']');
}

static int fusec_load_hex(const char *s, uint32_t *x) {
    int n = 0;
    for (*x = 0; s[n] && n < 8; n++) {
        const char c = s[n];
        const int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0) return 0;
        *x = *x << 4 | (uint32_t)d;
    }
    return n == 8 && !s[8];
}

static int fusec_load_decimal(const char *s, uint32_t most, uint32_t *x) {
    uint64_t v = 0;
    int n = 0;
    for (; s[n] >= '0' && s[n] <= '9'; n++) v = v * 10 + (uint64_t)(s[n] - '0');
    *x = (uint32_t)v;
    return n > 0 && !s[n] && v <= most;
}

/* A value of the metadata, if it is one of those that we know. */
static int fusec_load_value(fusec_loader *l, int crc, int step, int seed) {
    uint32_t x = 0;
    if (!crc && !step && !seed) return 1;
    if (crc ? !fusec_load_hex(l->word, &x) : !fusec_load_decimal(l->word, step ? INT32_MAX : UINT32_MAX, &x))
        return fusec_load_fail(l, FUSEC_E_FORMAT);
    if (crc) l->stored_crc = x, l->has_crc = 1;
    if (step || seed) l->has_at = 1;
    if (step) l->at.step = (int32_t)x;
    if (seed) l->at.seed = x;
    return 1;
}

/* {"key": "text", ...}: takes note of the CRC, the step and the seed. */
static int fusec_load_metadata(fusec_loader *l) {
    if (!fusec_load_expect(l, '{')) return 0;
    if (fusec_load_accept(l, '}')) return 1;
    do {
        if (!fusec_load_string(l, l->word, FUSEC_LOAD_WORD) || !fusec_load_expect(l, ':')) return 0;
        const int crc = fusec_load_same(l->word, "crc32"), step = fusec_load_same(l->word, "step"),
                  seed = fusec_load_same(l->word, "seed");
        if (!fusec_load_string(l, l->word, FUSEC_LOAD_WORD) || !fusec_load_value(l, crc, step, seed)) return 0;
    } while (fusec_load_accept(l, ','));
    return fusec_load_expect(l, '}');
}

/* The tensor of that name and its number, parameters first; the search starts at `hint`, where our own files have it.
 */
static const fusec_tensor *fusec_load_find(const fusec_manifest *m, const char *name, uint32_t hint, uint32_t *number) {
    static const char prefix[] = "state/";
    const uint32_t all = m->n_params + m->n_states;
    int is_state = 1;
    for (int i = 0; prefix[i] && is_state; i++) is_state = name[i] == prefix[i];
    for (uint32_t i = 0; i < all; i++) {
        const uint32_t n = hint < all - i ? hint + i : hint + i - all;
        const fusec_tensor *t = n < m->n_params ? &m->params[n] : &m->states[n - m->n_params];
        *number = n;
        if (n < m->n_params && fusec_load_same(t->name, name)) return t;
        if (n >= m->n_params && is_state && fusec_load_same(t->name, name + 6)) return t;
    }
    return 0;
}

/* Checks the tensor's bytes [from, to) of the data, or with `copy` puts them in their place. */
static int fusec_load_data(fusec_loader *l, const fusec_tensor *t, uint32_t number, uint64_t from, int copy) {
    const int is_state = number >= l->m->n_params;
    char *to = (char *)(is_state ? l->memory->states : l->memory->params) + t->offset;
    l->window_n = 0; /* the data passes through it */
    for (uint64_t done = 0; done < t->bytes;) {
        const uint64_t left = t->bytes - done, most = copy ? 0x40000000u : FUSEC_LOAD_WINDOW;
        const uint32_t n = (uint32_t)(left < most ? left : most);
        if (l->io->read(l->io->user, l->end + from + done, copy ? (void *)(to + done) : l->window, n) != 0)
            return fusec_load_fail(l, FUSEC_E_FILE);
        if (!copy) l->crc = fusec_crc32(l->crc, l->window, n);
        done += n;
    }
    return 1;
}

static int fusec_load_dtype_is(const fusec_tensor *t, const char *dtype) {
    static const char *const names[] = {
        [FUSEC_BOOL] = "BOOL", [FUSEC_I32] = "I32", [FUSEC_F32] = "F32", [FUSEC_F16] = "F16", [FUSEC_BF16] = "BF16"};
    return fusec_load_same(dtype, names[t->dtype]);
}

static int fusec_load_shape_is(const fusec_tensor *t, const uint64_t *shape, int rank) {
    if (rank != t->rank) return 0;
    for (int d = 0; d < rank; d++)
        if (shape[d] != (uint64_t)t->dim[d]) return 0;
    return 1;
}

/* Splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t fusec_load_mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* {"dtype": "F32", "shape": [..], "data_offsets": [from, to]}, in any order: where the data begins. */
static int fusec_load_fields(fusec_loader *l, const fusec_tensor *t, uint64_t *from) {
    uint64_t shape[FUSEC_MAX_RANK], span[2];
    int rank = -1, ends = 0, same = 0;
    if (!fusec_load_expect(l, '{')) return 0;
    do {
        if (!fusec_load_string(l, l->word, FUSEC_LOAD_WORD) || !fusec_load_expect(l, ':')) return 0;
        if (fusec_load_same(l->word, "dtype"))
            same = fusec_load_string(l, l->word, FUSEC_LOAD_WORD) && fusec_load_dtype_is(t, l->word);
        else if (fusec_load_same(l->word, "shape"))
            fusec_load_list(l, shape, FUSEC_MAX_RANK, &rank);
        else if (fusec_load_same(l->word, "data_offsets"))
            fusec_load_list(l, span, 2, &ends);
        else
            return fusec_load_fail(l, FUSEC_E_FORMAT);
        if (l->failed != FUSEC_OK) return 0;
    } while (fusec_load_accept(l, ','));
    if (!fusec_load_expect(l, '}')) return 0;
    if (ends != 2 || !same || !fusec_load_shape_is(t, shape, rank) || span[1] < span[0] ||
        span[1] - span[0] != t->bytes || span[1] > UINT64_MAX - l->end)
        return fusec_load_fail(l, FUSEC_E_FORMAT);
    *from = span[0];
    return 1;
}

/* The tensor l->name. */
static int fusec_load_tensor(fusec_loader *l, int copy) {
    uint32_t number = 0;
    uint64_t from = 0;
    const fusec_tensor *t =
        fusec_load_find(l->m, l->name, (uint32_t)(l->seen % ((uint64_t)l->m->n_params + l->m->n_states + 1)), &number);
    if (!t) return fusec_load_fail(l, FUSEC_E_FORMAT);
    if (!fusec_load_fields(l, t, &from)) return 0;
    l->seen++;
    l->mixed += fusec_load_mix(number);
    l->states |= number >= l->m->n_params;
    return fusec_load_data(l, t, number, from, copy);
}

static int fusec_load_header(fusec_loader *l, int copy) {
    if (!fusec_load_expect(l, '{')) return 0;
    if (!fusec_load_accept(l, '}')) {
        do {
            if (!fusec_load_string(l, l->name, FUSEC_LOAD_NAME) || !fusec_load_expect(l, ':')) return 0;
            if (fusec_load_same(l->name, "__metadata__") ? !fusec_load_metadata(l) : !fusec_load_tensor(l, copy))
                return 0;
        } while (fusec_load_accept(l, ','));
        if (!fusec_load_expect(l, '}')) return 0;
    }
    fusec_load_space(l);
    return l->at_byte == l->end || fusec_load_fail(l, FUSEC_E_FORMAT);
}

/* All parameters, and all states or none: each once. */
static int fusec_load_is_complete(const fusec_loader *l) {
    const uint64_t n = (uint64_t)l->m->n_params + (l->states ? l->m->n_states : 0);
    uint64_t mixed = 0;
    for (uint64_t i = 0; i < n; i++) mixed += fusec_load_mix(i);
    return l->seen == n && l->mixed == mixed;
}

/* From the file's start; l->at.seed is what the model has. */
static fusec_status fusec_load_scan(fusec_loader *l, int copy) {
    uint8_t length[8];
    uint64_t n = 0;
    l->window_n = l->crc = 0;
    l->seen = l->mixed = 0;
    if (l->io->read(l->io->user, 0, length, 8) != 0) return FUSEC_E_FORMAT;
    for (int i = 0; i < 8; i++) n |= (uint64_t)length[i] << 8 * i;
    if (n < 2 || n > FUSEC_LOAD_MAX_HEADER) return FUSEC_E_FORMAT;
    l->at.step = 0;
    l->at_byte = 8;
    l->end = 8 + n;
    if (!fusec_load_header(l, copy)) return l->failed;
    if (!fusec_load_is_complete(l)) return FUSEC_E_FORMAT;
    if (l->has_at) l->crc = fusec_crc32_position(l->crc, &l->at);
    return !copy && l->has_crc && l->crc != l->stored_crc ? FUSEC_E_FORMAT : FUSEC_OK;
}

static fusec_status fusec_load_begin(const fusec_loader *l, const fusec_begin *begin, int entry) {
    if (l->states || !l->m->n_states) return FUSEC_OK;
    if (entry == FUSEC_DERIVE && !l->m->entry[FUSEC_DERIVE].present) return FUSEC_OK;
    return begin ? begin->run(begin->user, entry) : FUSEC_E_FORMAT;
}

FUSEC_WEAK fusec_status fusec_load(const fusec_manifest *m, const fusec_memory *memory, fusec_position *at,
                                   const fusec_io *io, const fusec_begin *begin) {
    fusec_loader l = {0};
    fusec_status s;
    if (!m || !memory || !io || !io->read || (m->param_bytes && !memory->params) || (m->state_bytes && !memory->states))
        return FUSEC_E_ARGUMENT;
    if (memory->param_bytes < m->param_bytes || memory->state_bytes < m->state_bytes) return FUSEC_E_MEMORY;
    l.m = m;
    l.memory = memory;
    l.io = io;
    if (at) l.at.seed = at->seed;
    s = fusec_load_scan(&l, 0);
    if (s == FUSEC_OK) s = fusec_load_begin(&l, begin, FUSEC_INIT);
    if (s == FUSEC_OK) s = fusec_load_scan(&l, 1);
    if (s == FUSEC_OK) s = fusec_load_begin(&l, begin, FUSEC_DERIVE);
    if (s != FUSEC_OK || !at) return s;
    at->step = 0;
    if (l.states || !m->n_states) *at = l.at;
    return FUSEC_OK;
}
