#include "bench/gpu/numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea, Flood, 2014). */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* FNV-1a */
static uint64_t hash_name(const char *name) {
    uint64_t h = 0xCBF29CE484222325u;
    while (*name) h = (h ^ (unsigned char)*name++) * 0x100000001B3u;
    return h;
}

static uint64_t draw(const char *name, uint64_t i) { return mix(hash_name(name) + i * 0x9E3779B97F4A7C15u); }

uint64_t numbers_place(const char *name, uint64_t i, uint64_t count) { return count ? draw(name, i) % count : 0; }

uint64_t numbers_count(const fusec_tensor *t) {
    uint64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= (uint64_t)t->dim[d];
    return n;
}

double numbers_get(const fusec_tensor *t, const void *data, uint64_t i) {
    switch (t->dtype) {
    case FUSEC_BOOL: return ((const uint8_t *)data)[i];
    case FUSEC_I32: return ((const int32_t *)data)[i];
    default: return ((const float *)data)[i];
    }
}

void numbers_draw(const fusec_tensor *t, void *to, uint64_t count) {
    const uint64_t seed = hash_name(t->name);
    const uint64_t range = t->hi > t->lo ? (uint64_t)(t->hi - t->lo) : 4;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t u = mix(seed + i * 0x9E3779B97F4A7C15u);
        switch (t->dtype) {
        case FUSEC_BOOL: ((uint8_t *)to)[i] = (uint8_t)(u & 1); break;
        case FUSEC_I32: ((int32_t *)to)[i] = (int32_t)((t->hi > t->lo ? t->lo : 0) + (int64_t)(u % range)); break;
        default: ((float *)to)[i] = (float)(u >> 40) * 0x1p-23f - 1; break;
        }
    }
}

void numbers_take(Numbers *n, const char *name, uint64_t count, uint64_t whole, NumbersGet *get, const void *user) {
    double squares = 0;
    *n = (Numbers){.count = count, .stored = count <= whole ? count : NUMBERS_SAMPLES};
    snprintf(n->name, sizeof n->name, "%s", name);
    for (uint64_t i = 0; i < count; i++) squares += get(user, i) * get(user, i);
    n->norm = sqrt(squares);
    n->value = malloc(sizeof *n->value * (size_t)(n->stored + 1));
    for (uint64_t i = 0; n->value && i < n->stored; i++)
        n->value[i] = (float)get(user, n->stored == count ? i : numbers_place(name, i, count));
}

double numbers_distance(const Numbers *a, const Numbers *b) {
    double squares = 0;
    for (uint64_t i = 0; i < a->stored && (!b || i < b->stored); i++) {
        const double d = (double)a->value[i] - (b ? (double)b->value[i] : 0);
        squares += d * d;
    }
    return sqrt(squares);
}

bool numbers_write(FILE *f, const Numbers *n) {
    fprintf(f, "%s %llu %llu %.17g %.6g\n", n->name, (unsigned long long)n->count, (unsigned long long)n->stored,
            n->norm, n->noise);
    return fwrite(n->value, sizeof *n->value, (size_t)n->stored, f) == n->stored;
}

bool numbers_read(FILE *f, Numbers *n, bool *damaged) {
    char line[NUMBERS_NAME + 120];
    unsigned long long count, stored;
    *damaged = false;
    if (!fgets(line, sizeof line, f)) return false;
    *damaged = true;
    if (sscanf(line, "%199s %llu %llu %lf %lf", n->name, &count, &stored, &n->norm, &n->noise) != 5 || stored > count)
        return false;
    n->count = count;
    n->stored = stored;
    n->value = malloc(sizeof *n->value * (size_t)(stored + 1));
    if (!n->value) return false;
    if (fread(n->value, sizeof *n->value, (size_t)stored, f) != stored) {
        free(n->value);
        return false;
    }
    *damaged = false;
    return true;
}
