/* What the GPU computed against the expected numbers.
 *
 * The error of a tensor is |got - want| / |want| in 2-norms over the stored elements, 0 where the difference
 * is below FLOOR * sqrt(n), for tensors of zeros; the 2-norm of the whole tensor must agree as
 * well, and no element may be NaN.  Allowed is the entry's tolerance, or NUMBERS_NOISE times what rounding was seen to do. */
#include "bench/gpu/runner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Relative.  step: an optimizer may divide by the size of a gradient, which magnifies the error of small ones. */
static const double tolerance[FUSEC_ENTRIES] = {
    [FUSEC_INIT] = 1e-5, [FUSEC_INFER] = 1e-4, [FUSEC_GRAD] = 5e-4, [FUSEC_STEP] = 2e-3};
static const double FLOOR = 1e-12;

typedef struct Place {
    const fusec_tensor *t;
    fusec_region region;
    uint32_t index;
} Place;

static bool find_in(const char *name, const char *prefix, const fusec_tensor *t, uint32_t n, fusec_region region,
                    Place *p) {
    const size_t skip = strlen(prefix);
    if (strncmp(name, prefix, skip) != 0) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(t[i].name, name + skip)) {
            *p = (Place){&t[i], region, i};
            return true;
        }
    return false;
}

static bool find(const fusec_manifest *m, const char *name, Place *p) {
    return find_in(name, "param/", m->params, m->n_params, FUSEC_R_PARAM, p) ||
           find_in(name, "state/", m->states, m->n_states, FUSEC_R_STATE, p) ||
           find_in(name, "grad/", m->grads, m->n_grads, FUSEC_R_GRAD, p) ||
           find_in(name, "", m->outputs, m->n_outputs, FUSEC_R_OUTPUT, p);
}

/* The tensor's data in memory of the caller's, NULL after a message. */
static void *bring(GpuModel *m, const Place *p) {
    void *data = malloc((size_t)p->t->bytes + 1);
    if (!data) return NULL;
    if (p->region == FUSEC_R_OUTPUT) return memcpy(data, m->outputs[p->index], (size_t)p->t->bytes);
    if (fusec_cuda_read(&m->cuda, p->region, p->t->offset, data, p->t->bytes) == FUSEC_OK) return data;
    fprintf(stderr, "%s %s: reading %s: %s\n", m->name, m->arch, p->t->name, m->log);
    free(data);
    return NULL;
}

/* |difference| of `n` elements over |want|; not a number: infinity. */
static double relative(double difference, double want, uint64_t n) {
    if (isnan(difference)) return INFINITY;
    return difference <= FLOOR * sqrt((double)n) ? 0 : difference / fmax(want, 1e-30);
}

static double square(double x) { return x * x; }

static double error_of(const Numbers *want, const fusec_tensor *t, const void *data) {
    double difference = 0, stored = 0, all = 0;
    for (uint64_t i = 0; i < want->stored; i++) {
        const double w = want->value[i];
        const double g =
            numbers_get(t, data, want->stored == want->count ? i : numbers_place(want->name, i, want->count));
        if (w == g && isinf(w)) continue;
        difference += square(g - w);
        stored += square(w);
    }
    for (uint64_t i = 0; i < want->count; i++) all += square(numbers_get(t, data, i));
    const bool same_norm = want->norm == sqrt(all); /* infinite ones too */
    return fmax(relative(sqrt(difference), sqrt(stored), want->stored),
                same_norm ? 0 : relative(fabs(sqrt(all) - want->norm), want->norm, want->count));
}

/* Entry init of small models: what was checked is then made exact, so that later entries start from the same values. */
static bool adopt(GpuModel *m, const Place *p, const Numbers *want, void *data) {
    if (want->stored != want->count || p->t->dtype != FUSEC_F32) return true;
    memcpy(data, want->value, (size_t)p->t->bytes);
    return fusec_cuda_write(&m->cuda, p->region, p->t->offset, data, p->t->bytes) == FUSEC_OK;
}

/* 1 if it differs, 0 if not, -1 after a message. */
static int check_one(GpuModel *m, int entry, const Numbers *want, double *worst) {
    Place p;
    char kernels[600];
    if (!find(m->manifest, want->name, &p) || numbers_count(p.t) != want->count) {
        fprintf(stderr, "%s %s: the model has no %s of %llu elements\n", m->name, m->arch, want->name,
                (unsigned long long)want->count);
        return -1;
    }
    void *data = bring(m, &p);
    if (!data) return -1;
    const double e = error_of(want, p.t, data);
    const bool written = entry != FUSEC_INIT || adopt(m, &p, want, data);
    free(data);
    const double allowed = fmax(tolerance[entry], NUMBERS_NOISE * want->noise);
    *worst = fmax(*worst, e * tolerance[entry] / allowed);
    if (e <= allowed) return written ? 0 : -1;
    model_kernels(m, entry, p.region, p.t->offset, p.t->bytes, p.index, kernels, sizeof kernels);
    fprintf(stderr, "FAIL %s %s %s: %s: error %.3g, tolerance %.1e; kernels that touch it: %s\n", m->name, m->arch,
            entry_names[entry], want->name, e, allowed, kernels);
    return 1;
}

static int check_file(GpuModel *m, int entry, FILE *f) {
    Numbers want;
    bool damaged;
    int bad = 0, result = 0;
    double worst = 0;
    while (result >= 0 && numbers_read(f, &want, &damaged)) {
        result = check_one(m, entry, &want, &worst);
        bad += result > 0;
        free(want.value);
    }
    if (result >= 0 && damaged)
        fprintf(stderr, "%s: the expected numbers of %s are damaged\n", m->name, entry_names[entry]);
    if (result < 0 || damaged) return -1;
    printf("check.%s.%s.%s\t%.3g\trelative_error%s\n", m->name, m->arch, entry_names[entry], worst, bad ? "_FAIL" : "");
    fflush(stdout);
    return bad;
}

static bool restart(GpuModel *m) {
    char path[MODEL_PATH];
    Numbers want;
    Place p;
    bool damaged, ok = model_run(m, FUSEC_INIT);
    snprintf(path, sizeof path, "%s/expect/%s/init.numbers", m->pack, m->name);
    FILE *f = fopen(path, "rb");
    while (ok && f && numbers_read(f, &want, &damaged)) {
        void *data = find(m->manifest, want.name, &p) ? malloc((size_t)p.t->bytes + 1) : NULL;
        ok = data && adopt(m, &p, &want, data);
        free(data);
        free(want.value);
    }
    if (f) fclose(f);
    return ok;
}

int model_check(GpuModel *m) {
    int bad = 0, found = 0;
    for (int e = FUSEC_INIT; e < FUSEC_ENTRIES; e++) {
        char path[MODEL_PATH];
        snprintf(path, sizeof path, "%s/expect/%s/%s.numbers", m->pack, m->name, entry_names[e]);
        FILE *f = m->manifest->entry[e].present ? fopen(path, "rb") : NULL;
        if (!f) continue;
        found++;
        const bool ran = e == FUSEC_INIT || (restart(m) && model_run(m, e));
        const int n = ran ? check_file(m, e, f) : -1;
        fclose(f);
        if (n < 0) return -1;
        bad += n;
    }
    if (!found) fprintf(stderr, "%s: the pack has no expected numbers for it\n", m->name);
    return found ? bad : -1;
}
