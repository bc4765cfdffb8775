#include "tools/fusec/tune.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct Tune {
    Arena *arena;
    const Options *o;
    TuneDevice device;
    Session session;
    const Target *target;
    Module *m;
    Tuning tuning;
    Profile profile;
} Tune;

static bool fail(const char *message, const char *detail) {
    fprintf(stderr, "fusec: error: tune: %s%s\n", message, detail);
    return false;
}

/* ---- what is measured, and on what ------------------------------------------------------------------------------- */
static bool open_device(Tune *x) {
    if (tune_device_open(&x->device)) return true;
    fail("this machine has no GPU to measure on: ", x->device.log);
    fputs("fusec: run it where the kernels will run; on the software GPU (LD_LIBRARY_PATH=BUILD/ptxsim) counts stand "
          "for times\n",
          stderr);
    return false;
}

static bool choose_target(Tune *x) {
    const char *best = tune_device_target(&x->device), *name = x->o->target ? x->o->target : best;
    x->target = name ? target_find(name) : NULL;
    if (!name) return fail("no target fits this GPU, of capability ", x->device.capability);
    if (x->target && x->target->device->is_gpu) return true;
    return fail("tiles are measured on a GPU: --target sm_80, sm_90 or sm_90a, not ", name);
}

static void describe(Tune *x) {
    const TuneDevice *d = &x->device;
    x->profile.field[PROFILE_GPU] = d->name;
    x->profile.field[PROFILE_CAPABILITY] = d->capability;
    x->profile.field[PROFILE_DRIVER] = d->driver;
    x->profile.field[PROFILE_COMPILER] = FUSEC_VERSION;
    x->profile.field[PROFILE_TARGET] = x->target->name;
    x->profile.field[PROFILE_TIMER] = tune_device_timer(d);
}

/* What is in the file stays, if it was measured on the same. */
static bool merge(Tune *x, const ProfileFile *old) {
    bool same = true;
    for (ProfileField f = 0; f < PROFILE_FIELDS; f++) {
        const char *was = old->profile.field[f], *is = x->profile.field[f];
        if (!strcmp(was, is)) continue;
        profile_complain(&x->session, old, true, f,
                         arena_printf(x->arena, "the profile has measurements of %s %s, this would add some of %s",
                                      profile_field[f], was, is),
                         "name another file with --profile, or remove this one");
        same = false;
    }
    for (int i = 0; i < old->profile.products.n && same; i++)
        profile_put(x->arena, &x->profile, old->profile.products.at[i]);
    return same;
}

static bool open_profile(Tune *x) {
    describe(x);
    if (access(x->o->profile, F_OK) != 0) return true;
    const ProfileFile *old = profile_read(&x->session, x->o->profile);
    return old && merge(x, old);
}

static bool compile(Tune *x) {
    Options o = *x->o;
    o.profile = NULL;
    if (!session_open(&x->session, x->arena, &o) || !open_profile(x)) return false;
    session_prepare(&x->session, &o, x->target);
    x->tuning.most = o.tiles;
    x->session.context.tuning = &x->tuning;
    x->m = compile_module(&x->session.context, x->session.graph);
    return x->m != NULL;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */
static bool print_profile(FILE *f, void *user) {
    profile_print(f, user);
    return true;
}

static bool equal_tiles(const MatrixTile *a, const MatrixTile *b) {
    return a->by == b->by && a->rows == b->rows && a->columns == b->columns && a->warp_rows == b->warp_rows &&
           a->warp_columns == b->warp_columns && a->alternate == b->alternate;
}

/* The cost model's choice stands until another is faster by more than noise. */
static const TileTime *fastest(const ProfileProduct *x, const MatrixTile *modelled) {
    const double NOISE = 0.005;
    const TileTime *best = NULL;
    for (int i = 0; i < x->times.n; i++)
        if (equal_tiles(&x->times.at[i].tile, modelled) && !x->times.at[i].word) best = &x->times.at[i];
    const double bar = best ? best->us * (1 - NOISE) : INFINITY;
    for (int i = 0; i < x->times.n; i++) {
        const TileTime *t = &x->times.at[i];
        if (!t->word && t->us < bar && t->us < (best ? best->us : INFINITY)) best = t;
    }
    return best;
}

static void print_result(const TunedProduct *p, const ProfileProduct *r, const TileTime *best) {
    char text[PROFILE_TILE_TEXT];
    printf("%s\n  %-24s %10.3f us", r->key, matrix_tile_text(text, &best->tile), best->us);
    for (int i = 0; i < r->times.n; i++)
        if (equal_tiles(&r->times.at[i].tile, &p->modelled) && !r->times.at[i].word)
            printf(equal_tiles(&best->tile, &p->modelled) ? ", the cost model's choice"
                                                          : ", %.2f of the cost model's %s",
                   best->us / r->times.at[i].us, matrix_tile_text(text, &p->modelled));
    printf("\n");
    fflush(stdout);
}

/* Every tile; the result of the first that runs is what the others are held to. */
static bool measure(Tune *x, const TunedProduct *p) {
    ProfileProduct r = {.key = p->key};
    TuneCase c;
    bool ok = tune_case_open(&c, x->m, x->target, p) || fail("out of memory for ", p->key);
    for (int i = 0; i < p->candidates.n && ok; i++) {
        Arena *a = arena_new();
        const char *why;
        char text[PROFILE_TILE_TEXT];
        const TileTime t = tune_measure(a, &x->device, &c, &p->candidates.at[i], &why);
        if (t.word) fprintf(stderr, "fusec: %s: %s: %s: %s\n", p->key, matrix_tile_text(text, &t.tile), t.word, why);
        vec_push(x->arena, r.times, t);
        arena_free(a);
    }
    tune_case_close(&c);
    const TileTime *best = fastest(&r, &p->modelled);
    if (!ok || !best) return ok;
    r.tile = best->tile;
    profile_put(x->arena, &x->profile, r);
    print_result(p, &r, best);
    return write_file(x->o->profile, print_profile, &x->profile);
}

static bool measure_all(Tune *x) {
    printf("%s, driver %s, target %s: %d matrix products, by %s\n", x->device.name, x->device.driver, x->target->name,
           x->tuning.products.n,
           x->device.count ? "the least time that the software GPU's counters allow (it has no time of its own)"
                           : "events, the median");
    for (int i = 0; i < x->tuning.products.n; i++)
        if (!measure(x, &x->tuning.products.at[i])) return false;
    if (!x->tuning.products.n)
        puts("nothing to measure: products in f32 have no tiles to choose (precision bf16, f16 or tf32)");
    return x->tuning.products.n > 0 || write_file(x->o->profile, print_profile, &x->profile);
}

int command_tune(const Options *o) {
    if (!o->profile) {
        fputs("fusec: tune: --profile FILE is needed: where to write, or to add, what is measured\n", stderr);
        return EXIT_USAGE;
    }
    Tune x = {.arena = arena_new(), .o = o};
    bool ok = open_device(&x) && choose_target(&x);
    if (ok) {
        ok = compile(&x);
        ok = session_finish(&x.session) == EXIT_OK && ok && measure_all(&x);
    }
    tune_device_close(&x.device);
    arena_free(x.arena);
    return ok ? EXIT_OK : EXIT_ERROR;
}
