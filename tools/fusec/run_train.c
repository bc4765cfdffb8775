/* Training over data, then testing; or inference over data (--entry infer). */
#include "tools/fusec/train.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_INTERRUPTED = 130 };

/* ---- setting up ---------------------------------------------------------------------------------------------- */
static bool open_rows(Training *t) {
    const Options *o = t->r->o;
    const int64_t rows = t->data.rows;
    t->has_test = o->test_rows != NULL;
    if (!data_range("--rows", o->rows, rows, &t->first, &t->last) ||
        !data_range("--test-rows", o->test_rows, rows, &t->test_first, &t->test_last))
        return run_usage(t->r, false);
    return data_check(t->r, &t->data, t->first, t->last) &&
           (!t->has_test || data_check(t->r, &t->data, t->test_first, t->test_last));
}

static bool load_weights(Run *r) {
    const WeightsFile files[] = {{r->o->params, false}, {r->o->load, true}};
    return weights_start(r, files, 2);
}

static bool start(Training *t, Entry entry, const bool entries[ENTRY_COUNT]) {
    Run *r = t->r;
    const Options *o = r->o;
    if (!run_open(r, r->arena, o, entries) || !data_open(r, &t->data) || !open_rows(t) || !run_allocate(r, entries))
        return false;
    if (entry == ENTRY_STEP && !t->data.partial && t->last - t->first < t->data.capacity)
        return run_error("%lld rows are fewer than a batch of %lld", (long long)(t->last - t->first),
                         (long long)t->data.capacity);
    for (int i = 0; i < r->m->inputs.n && entry == ENTRY_STEP; i++)
        if (!data_has(&t->data, i) && run_needs_input(r, entry, i))
            return run_error("missing input: %s (--data %s=FILE)", r->m->inputs.at[i].name, r->m->inputs.at[i].name);
    if ((o->save && !write_file_possible(o->save)) || (o->outputs && !write_file_possible(o->outputs))) return false;
    t->order = ARENA_ARRAY(r->arena, int64_t, t->last - t->first);
    t->mean = ARENA_ARRAY(r->arena, ScalarMean, r->m->outputs.n + 1);
    return run_init(r) && load_weights(r) && (!o->resume || train_resume(t, o->resume)) && run_upload(r);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static int64_t batches_per_epoch(const Training *t) {
    const int64_t rows = t->last - t->first, whole = rows / t->data.capacity;
    return whole + (t->data.partial && rows % t->data.capacity ? 1 : 0);
}

static void set_end(Training *t) {
    const Options *o = t->r->o;
    t->epochs = o->epochs ? o->epochs : o->steps ? INT64_MAX : 1;
    t->steps = o->steps ? o->steps : INT64_MAX;
    const int64_t per_epoch = batches_per_epoch(t), limit = INT32_MAX; /* `step` is an i32 */
    if (t->epochs < limit / per_epoch && t->epochs * per_epoch < t->steps) t->steps = t->epochs * per_epoch;
    if (t->steps > limit) t->steps = limit;
}

static bool finite_scalars(const Run *r) {
    for (int o = 0; o < r->m->outputs.n; o++)
        if (is_scalar(&r->m->outputs.at[o]) &&
            !isfinite(element_get(element_of(r->m->outputs.at[o].dtype), r->outputs[o])))
            return false;
    return true;
}

static bool step(Training *t, int64_t n) {
    Run *r = t->r;
    if (!data_fill(r, &t->data, t->order + t->at, n) || !run_call(r, ENTRY_STEP, r->step + 1, false)) return false;
    r->step++;
    t->at += n;
    t->rows_seen += n;
    for (int o = 0; o < r->m->outputs.n; o++) {
        if (!is_scalar(&r->m->outputs.at[o])) continue;
        t->mean[o].sum += (double)n * element_get(element_of(r->m->outputs.at[o].dtype), r->outputs[o]);
        t->mean[o].rows += n;
    }
    return true;
}

static void draw(Training *t) {
    char what[48], value[128];
    if (!t->progress.shown) return;
    Arena *a = arena_new();
    if (t->epochs == INT64_MAX)
        snprintf(what, sizeof what, "step %" PRId64 "/%" PRId64, t->r->step, t->steps);
    else
        snprintf(what, sizeof what, "epoch %" PRId64 "/%" PRId64, t->epoch + 1, t->epochs);
    snprintf(value, sizeof value, "%s", scalars_text(a, t->r, t->mean));
    progress_draw(&t->progress, t->r->step, what, value);
    arena_free(a);
}

/* One line with the means since the last one. */
static void report(Training *t) {
    Run *r = t->r;
    Arena *a = arena_new();
    if (t->rows_seen && !r->o->quiet) {
        progress_clear(&t->progress);
        printf("step %" PRId64 "  epoch %" PRId64 "  %s  %.4g steps/s\n", r->step, t->epoch,
               scalars_text(a, r, t->mean), progress_speed(&t->progress, r->step));
        fflush(stdout);
    }
    t->rows_seen = 0;
    memset(t->mean, 0, sizeof *t->mean * (size_t)r->m->outputs.n);
    arena_free(a);
}

/* Rows of the next batch; 0 at the end of the epoch. */
static int64_t next_rows(const Training *t) {
    const int64_t left = t->last - t->first - t->at;
    return left >= t->data.capacity ? t->data.capacity : t->data.partial ? left : 0;
}

static void next_epoch(Training *t) {
    t->epoch++;
    t->at = 0;
    data_order(t->r->seed, t->epoch, t->first, t->last - t->first, t->order);
}

/* After an epoch, but at most once a second; the end of the run saves in any case. */
static bool save_sometimes(Training *t) {
    const double now = progress_now();
    if (!t->r->o->save || t->r->step >= t->steps || now - t->saved < 1) return true;
    t->saved = now;
    return train_save(t, t->r->o->save);
}

/* Steps to the end, an interruption, or a failure. */
static bool train(Training *t, bool *interrupted) {
    Run *r = t->r;
    const int64_t per_line = t->steps / 20 > 1 ? t->steps / 20 : 1; /* without epochs to report by */
    bool warned = false;
    data_order(r->seed, t->epoch, t->first, t->last - t->first, t->order);
    while (r->step < t->steps && !*interrupted) {
        if (!step(t, next_rows(t))) return false;
        if (!warned && !finite_scalars(r)) {
            progress_clear(&t->progress);
            fprintf(stderr,
                    "fusec: warning: step %" PRId64 ": an output is not finite; a smaller learning rate may help\n",
                    r->step);
            warned = true;
        }
        draw(t);
        *interrupted = interrupt_pending();
        const bool epoch_ends = next_rows(t) == 0;
        if (epoch_ends) next_epoch(t);
        if (t->epochs == INT64_MAX ? r->step % per_line == 0 : epoch_ends) report(t);
        if (epoch_ends && !save_sometimes(t)) return false;
    }
    report(t);
    progress_clear(&t->progress);
    return true;
}

static void print_memory(const Run *r) {
    const fusec_memory *m = &r->memory;
    printf("memory: %" PRIu64 " bytes (parameters %" PRIu64 ", states %" PRIu64 ", arena %" PRIu64 ")\n",
           m->param_bytes + m->state_bytes + m->arena_bytes, m->param_bytes, m->state_bytes, m->arena_bytes);
}

static int train_all(Training *t) {
    Run *r = t->r;
    bool interrupted = false;
    set_end(t);
    if (r->step >= t->steps && !r->o->quiet)
        printf("nothing to train: %s has done %" PRId64 " steps, of %" PRId64 "\n", r->o->resume, r->step, t->steps);
    progress_start(&t->progress, r->o->quiet, r->step, t->steps);
    if (!train(t, &interrupted)) return EXIT_ERROR;
    if (r->o->save && !train_save(t, r->o->save)) return EXIT_ERROR;
    if (interrupted) {
        fprintf(stderr, "fusec: interrupted after step %" PRId64 "%s%s\n", r->step,
                r->o->save ? "; saved to " : "; nothing saved (--save)", r->o->save ? r->o->save : "");
        return EXIT_INTERRUPTED;
    }
    if (!r->o->quiet) {
        print_memory(r);
        if (!run_print_loss_scale(r)) return EXIT_ERROR;
    }
    return !t->has_test || evaluate(r, &t->data, t->test_first, t->test_last, "test", r->o->outputs) ? EXIT_OK
                                                                                                     : EXIT_ERROR;
}

int run_train(Run *r) {
    const Entry entry = r->o->run_entry == ENTRY_COUNT ? ENTRY_STEP : r->o->run_entry;
    Training t = {.r = r};
    if (entry != ENTRY_STEP && entry != ENTRY_INFER) {
        run_error("run --data trains (--entry step) or infers (--entry infer)");
        return EXIT_USAGE;
    }
    if (r->o->inputs || (r->o->load && r->o->resume)) {
        run_error(r->o->inputs ? "--data and --inputs exclude each other" : "--load and --resume exclude each other");
        return EXIT_USAGE;
    }
    const bool entries[ENTRY_COUNT] = {
        [ENTRY_INFER] = entry == ENTRY_INFER || r->o->test_rows, [ENTRY_STEP] = entry == ENTRY_STEP};
    if (!start(&t, entry, entries)) return r->status;
    interrupt_hold();
    if (entry == ENTRY_STEP) return train_all(&t);
    return evaluate(r, &t.data, t.has_test ? t.test_first : t.first, t.has_test ? t.test_last : t.last, "infer",
                    r->o->outputs)
               ? EXIT_OK
               : EXIT_ERROR;
}
