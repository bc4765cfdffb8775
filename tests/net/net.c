// net --seed S --count N --target T [--fusec PATH] [--finds FOLDER] [--show FOLDER]: random programs, judged; with
// --show none is run, and FOLDER gets their text; --stop ends at the first that is wrong, as it was drawn;
// --far draws subscripts that go beyond 32 bits, which read 0; --scans draws a scan in every program; --layers draws layers,
// calls that share their parameters, `repeat`, states written in part and several `train` lines.
#include "tests/net/judge.h"
#include "tests/net/shrink.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    uint64_t seed;
    int count;
    const char *finds, *torch, *goldens, *show;
    bool cover, stop;
    Kind what;
    Command command;
} Options;
typedef struct {
    long programs, disagreements, compared, skipped, unusable;
    long *drawn, *after;
} Totals;

static Options parse(int argc, char **argv) {
    Options o = {.seed = 1, .count = 100, .command = {"build/release/fusec", "host", NULL}};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(a, "--seed"))
            o.seed = strtoull(v, NULL, 10), i++;
        else if (!strcmp(a, "--count"))
            o.count = atoi(v), i++;
        else if (!strcmp(a, "--target"))
            o.command.target = v, i++;
        else if (!strcmp(a, "--fusec"))
            o.command.fusec = v, i++;
        else if (!strcmp(a, "--finds"))
            o.finds = v, i++;
        else if (!strcmp(a, "--torch"))
            o.torch = v, i++;
        else if (!strcmp(a, "--goldens"))
            o.goldens = v, i++;
        else if (!strcmp(a, "--show"))
            o.show = v, i++;
        else if (!strcmp(a, "--cover"))
            o.cover = true;
        else if (!strcmp(a, "--stop"))
            o.stop = true;
        else if (!strcmp(a, "--far"))
            o.what = DRAW_FAR;
        else if (!strcmp(a, "--scans"))
            o.what = DRAW_SCANS;
        else if (!strcmp(a, "--layers"))
            o.what = DRAW_LAYERS;
        else {
            fprintf(stderr, "usage: net [--seed S] [--count N] [--target host|c99|interp|cuda] [--fusec PATH] [--finds "
                            "FOLDER] [--show FOLDER] [--stop] [--far|--scans|--layers] [--cover] [--torch FOLDER] [--goldens FILE]\n");
            exit(2);
        }
    }
    return o;
}

static void count_drawn(const Prog *p, Totals *t) {
    int last = -1;
    for (int i = 0; i < p->count; i++) {
        int op = p->at[i].op;
        t->drawn[op]++;
        if (ops[op].weight && last >= 0) t->after[last * op_count + op]++;
        if (ops[op].weight) last = op;
    }
}
static int print_cover(const Totals *t, int count) {
    int rare = 0, pairs = 0, possible = 0;
    for (int i = 0; i < count; i++) {
        if (t->drawn[i] < 20) printf("drawn only %ld times: %s\n", t->drawn[i], ops[i].name), rare++;
        for (int k = 0; k < count; k++)
            if (ops[i].weight && ops[k].weight) possible++, pairs += t->after[i * op_count + k] > 0;
    }
    printf("constructs: %d, of %d adjacent pairs %d were drawn\n", count, possible, pairs);
    return rare;
}

static void report(const Prog *p, const Options *o, const Judgement *j, uint64_t seed) {
    static const char *verdicts[] = {"agrees", "WRONG", "REFUSED", "DIED", "unusable"};
    char options[400];
    run_options(p, &o->command, options, sizeof options);
    printf("---- seed %llu, %s: %s\n", (unsigned long long)seed, options, verdicts[j->verdict]);
    if (j->verdict == V_DIFFERS)
        printf("%s[%d]: %.9g, should be %.9g within %.3g\n", j->tensor, j->element, j->got, j->want, j->bound);
    else
        printf("%s", j->message);
    print_dsl(stdout, p);
    fflush(stdout);
}

static void write_right(const Expected *x, const char *folder) {
    static const char *types[] = {"F32", "I32", "BOOL"};
    Stored s[MAX_RESULTS];
    char path[500];
    for (int k = 0; k < x->count; k++) {
        const Result *r = &x->at[k];
        s[k] = (Stored){.rank = r->rank, .data = r->value, .size = r->size};
        memcpy(s[k].name, r->name, sizeof s[k].name);
        strcpy(s[k].dtype, types[r->type]);
        memcpy(s[k].n, r->n, sizeof r->n);
    }
    snprintf(path, sizeof path, "%s/right.safetensors", folder);
    stored_write(path, s, x->count);
}
// A folder of the find: m.dsl, its inputs and parameters, what is right, and README with what was found.
static void keep_find(const Prog *p, const Options *o, const Judgement *j, uint64_t seed) {
    char folder[400], path[500];
    Expected x;
    if (!o->finds) return;
    snprintf(folder, sizeof folder, "%s/%s_%llu", o->finds, o->command.target, (unsigned long long)seed);
    Command c = o->command;
    c.folder = folder;
    if (mkdir(folder, 0777)) return;
    judge(p, &c, &x);
    write_right(&x, folder);
    expected_free(&x);
    snprintf(path, sizeof path, "%s/README", folder);
    FILE *f = fopen(path, "w");
    if (!f) return;
    char options[400];
    run_options(p, &c, options, sizeof options);
    fprintf(f,
            "net --seed %llu --count 1 --target %s, shrunk: fusec run m.dsl --inputs inputs.safetensors --params "
            "params.safetensors %s\n",
            (unsigned long long)seed, o->command.target, options);
    if (j->verdict == V_DIFFERS)
        fprintf(f, "%s[%d]: %.9g, should be %.9g within %.3g\n", j->tensor, j->element, j->got, j->want, j->bound);
    else
        fprintf(f, "%s\n", j->message);
    fclose(f);
}

static bool show(const Prog *p, const char *folder, uint64_t seed) {
    char path[600];
    snprintf(path, sizeof path, "%s/net_%llu.dsl", folder, (unsigned long long)seed);
    FILE *f = fopen(path, "w");
    if (!f) return false;
    print_dsl(f, p);
    return fclose(f) == 0;
}

static void one(const Options *o, uint64_t seed, Totals *t) {
    Prog *p = malloc(sizeof *p);
    Expected x;
    if (!p) abort();
    generate(p, seed, o->what);
    count_drawn(p, t);
    if (o->torch) export_torch(p, o->torch, seed);
    if (o->cover || o->torch || (p->loss < 0 && p->nresults == 0)) {
        t->unusable++;
        prog_free(p), free(p);
        return;
    }
    if (o->show) {
        t->programs += show(p, o->show, seed);
        prog_free(p), free(p);
        return;
    }
    Judgement j = judge(p, &o->command, &x);
    t->compared += x.compared, t->skipped += x.skipped;
    expected_free(&x);
    t->programs += j.verdict != V_UNUSABLE;
    t->unusable += j.verdict == V_UNUSABLE;
    if (j.verdict != V_AGREES && j.verdict != V_UNUSABLE) {
        t->disagreements++;
        if (!o->stop) shrink(p, &o->command, &j);
        report(p, o, &j, seed);
        keep_find(p, o, &j, seed);
    }
    prog_free(p);
    free(p);
}

int main(int argc, char **argv) {
    Options o = parse(argc, argv);
    char folder[] = "/tmp/net.XXXXXX", command[100];
    Totals t = {.drawn = calloc((size_t)op_count, sizeof(long)),
                .after = calloc((size_t)op_count * (size_t)op_count, sizeof(long))};
    if (o.goldens) return check_goldens(o.goldens, o.what) != 0;
    o.command.folder = mkdtemp(folder);
    if (!o.command.folder || !t.drawn || !t.after) return 3;
    for (int i = 0; i < o.count && !(o.stop && t.disagreements); i++) one(&o, o.seed + (uint64_t)i, &t);
    int rare = o.count >= 20000 || o.cover ? print_cover(&t, o.what == DRAW_LAYERS ? op_count : common_ops()) : 0;
    printf("%ld programs, %ld without anything to compare, %ld elements compared, %ld skipped\n", t.programs,
           t.unusable, t.compared, t.skipped);
    printf("trust.random.programs\t%ld\tprograms\ntrust.random.disagreements\t%ld\tprograms\n", t.programs,
           t.disagreements);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command)) return 3;
    free(t.drawn);
    free(t.after);
    return t.disagreements || rare;
}
