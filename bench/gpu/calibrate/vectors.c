#include "bench/gpu/calibrate/vectors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const OUTCOME[] = {"unreached", "done", "refused", "failed"};

uint32_t job_results(const Job *j) { return j->out_bytes / j->record * j->each; }

uint64_t job_result(const Job *j, const uint8_t *out, uint32_t index) {
    const uint32_t bytes = (uint32_t)element_bits(j->element) / 8;
    uint64_t v = 0;
    memcpy(&v, out + index / j->each * j->record + j->offset + index % j->each * bytes, bytes);
    return v;
}

static int values_of(const Job *j) {
    static const int VALUES[] = {[EXACT] = 4, [APPROX] = MOST_VALUES, [SUM] = 32};
    const int all = (int)job_results(j), most = VALUES[j->judgement];
    return all < most ? all : most;
}

uint32_t value_place(const Job *j, int value) {
    return (uint32_t)((uint64_t)value * job_results(j) / (uint64_t)values_of(j));
}

static uint64_t hash_bytes(const uint8_t *data, size_t n) {
    uint64_t h = n;
    for (size_t at = 0; at < n; at += 4) {
        uint32_t w = 0;
        memcpy(&w, data + at, n - at < 4 ? n - at : 4);
        h = hash_word(h, w);
    }
    return hash_word(h, 1);
}

/* Every NaN as one, and no bits that the ISA leaves open. */
static void normalize(const Job *j, uint8_t *out) {
    const uint32_t bytes = (uint32_t)element_bits(j->element) / 8;
    for (uint32_t k = 0; k < job_results(j); k++) {
        uint64_t v = element_significant(j->element, job_result(j, out, k));
        if (element_is_nan(j->element, v)) v = UINT64_MAX;
        memcpy(out + k / j->each * j->record + j->offset + k % j->each * bytes, &v, bytes);
    }
}

void vector_of(Vector *v, const Job *j, Outcome outcome, const char *why, const uint8_t *out) {
    static uint8_t copy[JOB_MEMORY];
    *v = (Vector){.outcome = outcome, .judgement = j->judgement, .element = j->element};
    snprintf(v->name, sizeof v->name, "%s", j->name);
    snprintf(v->why, sizeof v->why, "%s", why);
    if (outcome != OUTCOME_DONE) return;
    v->bits = hash_bytes(out, j->out_bytes);
    memcpy(copy, out, j->out_bytes);
    normalize(j, copy);
    v->hash = hash_bytes(copy, j->out_bytes);
    const uint32_t records = j->out_bytes / j->record;
    for (uint32_t g = 0; g < GROUPS; g++) {
        const uint32_t from = g * records / GROUPS, to = (g + 1) * records / GROUPS;
        v->group[g] = (uint16_t)hash_bytes(copy + from * j->record, (to - from) * j->record);
    }
    v->values = values_of(j);
    for (int k = 0; k < v->values; k++) v->value[k] = job_result(j, out, value_place(j, k));
}

/* ---- the file ------------------------------------------------------------------------------------------- */
static void write_vector(FILE *f, const Vector *v) {
    if (v->outcome != OUTCOME_DONE) {
        fprintf(f, "%s %s %s\n", v->name, OUTCOME[v->outcome], v->why);
        return;
    }
    fprintf(f, "%s %s %s %016" PRIx64 " %016" PRIx64 " ", v->name, judgement_names[v->judgement],
            element_name(v->element), v->hash, v->bits);
    for (int g = 0; g < GROUPS; g++) fprintf(f, "%04x", v->group[g]);
    fputc(' ', f);
    for (int k = 0; k < v->values; k++) fprintf(f, "%0*" PRIx64, element_bits(v->element) / 4, v->value[k]);
    fputc('\n', f);
}

bool vectors_write(const char *path, const Vectors *all) {
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "# fusec calibration 1\n# device %s arch sm_%d%d driver %d\n", all->device.name, all->device.major,
                all->device.minor, all->device.driver);
        for (int k = 0; k < all->count; k++) write_vector(f, &all->vector[k]);
    }
    const bool ok = f && !ferror(f);
    if ((f && fclose(f)) || !ok) {
        fprintf(stderr, "fusec_gpu_calibrate: %s cannot be written\n", path);
        return false;
    }
    return true;
}

static bool read_hex(const char **at, int digits, uint64_t *v) {
    char text[20] = "", *end;
    if (strspn(*at, "0123456789abcdef") < (size_t)digits) return false;
    memcpy(text, *at, (size_t)digits);
    *v = strtoull(text, &end, 16);
    *at += digits;
    return true;
}

static int named(const char *const *names, int count, const char *name) {
    for (int k = 0; k < count; k++)
        if (!strcmp(names[k], name)) return k;
    return -1;
}

static bool read_results(Vector *v, const char *element, const char *at) {
    uint64_t g = 0;
    v->outcome = OUTCOME_DONE;
    v->element = element_named(element);
    if (v->element == ELEMENTS || sscanf(at, "%16" SCNx64 " %16" SCNx64, &v->hash, &v->bits) != 2) return false;
    at += 34;
    for (int k = 0; k < GROUPS; k++) {
        if (!read_hex(&at, 4, &g)) return false;
        v->group[k] = (uint16_t)g;
    }
    at++;
    while (v->values < MOST_VALUES && read_hex(&at, element_bits(v->element) / 4, &v->value[v->values])) v->values++;
    return *at == '\n' && v->values;
}

static bool read_vector(Vector *v, const char *line) {
    char kind[16], element[16];
    int at = 0, more = 0;
    *v = (Vector){0};
    if (sscanf(line, "%111s %15s %n%15s %n", v->name, kind, &at, element, &more) < 2) return false;
    const int judgement = named(judgement_names, 3, kind), outcome = named(OUTCOME, 4, kind);
    if (judgement < 0) {
        v->outcome = (Outcome)outcome;
        snprintf(v->why, sizeof v->why, "%.*s", (int)strcspn(line + at, "\n"), line + at);
        return outcome >= 0 && outcome != OUTCOME_DONE;
    }
    v->judgement = (Judgement)judgement;
    return more && strlen(line + more) > 34 + GROUPS * 4 && read_results(v, element, line + more);
}

static bool read_head(FILE *f, DeviceName *d) {
    char line[512];
    int arch;
    if (!fgets(line, sizeof line, f) || strcmp(line, "# fusec calibration 1\n") || !fgets(line, sizeof line, f) ||
        sscanf(line, "# device %95s arch sm_%d driver %d", d->name, &arch, &d->driver) != 3)
        return false;
    d->major = arch / 10;
    d->minor = arch % 10;
    return true;
}

bool vectors_read(const char *path, Vectors *all) {
    static char line[8192];
    *all = (Vectors){0};
    FILE *f = fopen(path, "r");
    bool ok = f && read_head(f, &all->device);
    for (int room = 0; ok && fgets(line, sizeof line, f);) {
        if (all->count == room) {
            Vector *more = realloc(all->vector, (size_t)(room = room * 2 + 512) * sizeof *more);
            if (!more) break;
            all->vector = more;
        }
        ok = read_vector(&all->vector[all->count], line);
        all->count += ok;
    }
    if (f) fclose(f);
    if (!ok) fprintf(stderr, "fusec_gpu_calibrate: %s: line %d is no calibration\n", path, all->count + (f ? 3 : 0));
    return ok;
}

void vectors_free(Vectors *all) {
    free(all->vector);
    *all = (Vectors){0};
}
