#include "tools/fusec/cli.h"
#include "codegen/host/host.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    KIND_TEXT,
    KIND_FLAG,
    KIND_COUNT,
    KIND_NUMBER,
    KIND_SIZE,
    KIND_LIST,
    KIND_PAIR,
    KIND_ENTRY,
    KIND_CHECKPOINT,
    KIND_PRINT_AFTER,
    KIND_DISABLE,
    KIND_LIST_PASSES
} Kind;

typedef struct OptionInfo {
    const char *flag, *argument;
    Kind kind;
    size_t offset, size;
    const char *help;
    unsigned where; /* 0: everywhere */
} OptionInfo;

static const OptionInfo table[] = {
#define OPTION(flag, argument, kind, field, ...) \
    {flag,                                       \
     argument,                                   \
     KIND_##kind,                                \
     offsetof(Options, field),                   \
     sizeof(((Options *)0)->field),              \
     FIRST(__VA_ARGS__, 0),                      \
     SECOND(__VA_ARGS__, 0, 0)},
#define FIRST(help, ...) help
#define SECOND(help, where, ...) where
#include "tools/fusec/options.def"
#undef FIRST
#undef SECOND
#undef OPTION
};
enum { N_OPTIONS = sizeof table / sizeof *table };

static void print_help(void) {
    puts("usage: fusec MODEL.dsl -o FILE [options]     compile\n"
         "       fusec check MODEL.dsl                 diagnostics only\n"
         "       fusec report MODEL.dsl [options]      tensors, kernels, FLOPs, bytes, peak memory\n"
         "       fusec run MODEL.dsl [options]         train or infer on this machine\n"
         "       fusec tune MODEL.dsl --profile FILE   measure the tiles of its matrix products on this machine's GPU\n"
         "       fusec verify MODEL.dsl [options]      run it on random data on this machine, compare with float64\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[64];
        const bool joined = table[i].kind == KIND_DISABLE, wide = table[i].flag[1] == '-';
        snprintf(left, sizeof left, "%s%s%s", table[i].flag,
                 !table[i].argument || joined ? ""
                 : wide                       ? "="
                                              : " ",
                 table[i].argument ? table[i].argument : "");
        printf("  %-22s %s\n", left, table[i].help);
    }
    puts("  --help, --version\n\nThe language: docs/language.md.  Exit status: 0 done, 1 errors in the program, its "
         "data or files, 2 usage, 3 out of memory, 130 training was interrupted.");
}

static void print_passes(void) {
    for (int i = 0; i < PASS_COUNT; i++)
        printf("%-18s %s%s\n", pass_info[i].name, pass_info[i].summary, pass_info[i].can_disable ? "" : " (always)");
}

typedef struct Parse {
    Arena *a;
    Options *o;
    int *status;
    bool stop; /* help was printed */
    bool given[N_OPTIONS];
} Parse;

static bool fail(Parse *p, const char *message, const char *what) {
    fprintf(stderr, "fusec: %s%s%s\nTry 'fusec --help'.\n", message, what ? ": " : "", what ? what : "");
    *p->status = EXIT_USAGE;
    return false;
}

/* A hyphen may stand for an underscore: -fno-jacobian-gemm. */
static bool same_pass(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && !(*a == '_' && *b == '-')) return false;
    return *a == *b;
}

static int find_pass(const char *name) {
    for (int i = 0; i < PASS_COUNT; i++)
        if (same_pass(pass_info[i].name, name)) return i;
    return -1;
}

static bool set_pass(Parse *p, bool *flags, const char *name, bool disable) {
    if (!disable && !strcmp(name, "all")) {
        for (int i = 0; i < PASS_COUNT; i++) flags[i] = true;
        return true;
    }
    const int id = find_pass(name);
    if (id < 0) return fail(p, "no such pass (see --passes)", name);
    if (disable && !pass_info[id].can_disable) return fail(p, "this pass cannot be left out", name);
    flags[id] = true;
    return true;
}

static bool set_entry(Parse *p, const char *name) {
    for (int e = 0; e < ENTRY_DERIVE; e++) /* which is there wherever it is needed, as init is */
        if (!strcmp(entry_name[e], name)) {
            p->o->entry[e] = true;
            p->o->run_entry = (Entry)e;
            return true;
        }
    return fail(p, "no such entry (init, infer, grad, step)", name);
}

static bool parse_count(Parse *p, const OptionInfo *info, void *field, const char *text, int least) {
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end || v < least) return fail(p, least ? "a whole number from 1 on is needed" : "a whole number is needed", info->flag);
    if (errno || (info->size != 8 && v > INT32_MAX)) return fail(p, "the number is too large", info->flag);
    if (info->size == 8)
        *(int64_t *)field = v;
    else
        *(int32_t *)field = (int32_t)v;
    return true;
}

/* Bytes, or with a letter behind the number multiples of 2^10, 2^20, 2^30. */
static bool parse_size(Parse *p, const OptionInfo *info, int64_t *field, const char *text) {
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    const double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const double bytes = unit ? ldexp(v, 10 * (int)(unit - units + 1)) : v;
    if (end == text || (*end && (!unit || end[1])) || !(bytes >= 1)) return fail(p, "a size is needed, such as 512K, 300M or 1.5G", info->flag);
    if (errno || bytes > 0x1p60) return fail(p, "the number is too large", info->flag);
    *field = (int64_t)bytes;
    return true;
}

/* NAME=VALUE; the name must be there. */
static bool parse_pair(Parse *p, const char *text, Override *out) {
    const char *eq = strchr(text, '=');
    if (!eq || eq == text) return fail(p, "NAME=VALUE is needed", text);
    *out = (Override){arena_strndup(p->a, text, (size_t)(eq - text)), eq + 1};
    return true;
}

static bool apply(Parse *p, const OptionInfo *info, const char *text) {
    Options *o = p->o;
    void *field = (char *)o + info->offset;
    Override pair;
    switch (info->kind) {
    case KIND_TEXT: *(const char **)field = text; return true;
    case KIND_FLAG: *(bool *)field = true; return true;
    case KIND_COUNT: return parse_count(p, info, field, text, 1);
    case KIND_NUMBER: return parse_count(p, info, field, text, 0);
    case KIND_ENTRY: return set_entry(p, text);
    case KIND_PRINT_AFTER: return set_pass(p, o->print_after, text, false);
    case KIND_DISABLE: return set_pass(p, o->disabled, text, true);
    case KIND_SIZE: return parse_size(p, info, field, text);
    case KIND_LIST: vec_push(p->a, *(Texts *)field, text); return true;
    case KIND_PAIR:
        if (!parse_pair(p, text, &pair)) return false;
        vec_push(p->a, *(Overrides *)field, pair);
        return true;
    case KIND_CHECKPOINT:
        if (strcmp(text, "none") && strcmp(text, "sqrt")) return fail(p, "--checkpoint takes none or sqrt", text);
        o->checkpoint = strcmp(text, "sqrt") ? CHECKPOINT_NONE : CHECKPOINT_SQRT;
        return true;
    case KIND_LIST_PASSES:
        print_passes();
        p->stop = true;
        return true;
    }
    return false;
}

/* The option that `arg` names, and its argument if it is joined to it (-DX=1, --seed=1, -fno-fuse). */
static const OptionInfo *match(const char *arg, const char **text) {
    for (int i = 0; i < N_OPTIONS; i++) {
        const size_t n = strlen(table[i].flag);
        if (strncmp(arg, table[i].flag, n)) continue;
        const char *rest = arg + n;
        const bool is_long = table[i].flag[1] == '-';
        *text = NULL;
        if (!*rest) return &table[i];
        if (is_long && *rest == '=')
            *text = rest + 1;
        else if (!is_long && table[i].argument)
            *text = rest;
        else
            continue;
        return &table[i];
    }
    return NULL;
}

static bool parse_command(Parse *p, const char *word) {
    static const char *const names[] = {[COMMAND_CHECK] = "check", [COMMAND_REPORT] = "report", [COMMAND_RUN] = "run",
                                        [COMMAND_TUNE] = "tune", [COMMAND_VERIFY] = "verify"};
    for (int c = COMMAND_CHECK; c <= COMMAND_VERIFY; c++)
        if (!strcmp(word, names[c])) {
            p->o->command = (Command)c;
            return true;
        }
    return false;
}

static bool parse_option(Parse *p, int argc, char **argv, int *i) {
    const char *text;
    const OptionInfo *info = match(argv[*i], &text);
    if (!info) return fail(p, "unknown option", argv[*i]);
    if (!info->argument && text) return fail(p, "this option takes no value", info->flag);
    if (info->argument && !text) {
        if (*i + 1 >= argc) return fail(p, "a value is missing after", info->flag);
        text = argv[++*i];
    }
    p->given[info - table] = true;
    return apply(p, info, text);
}

/* ---- options where they say nothing ------------------------------------------------------------------------- */
static const struct {
    unsigned bit;
    const char *text;
} places[] = {{ON_GRAPH, "-o FILE.graph"}, {ON_TILE, "-o FILE.tile"},     {ON_LL, "-o FILE.ll"},
              {ON_O, "-o FILE.o"},         {ON_C, "-o FILE.c"},           {ON_PTX, "-o FILE.ptx"},
              {ON_CUBIN, "-o FILE.cubin"}, {ON_CHECK, "fusec check"},     {ON_REPORT, "fusec report"},
              {ON_ONCE, "fusec run"},      {ON_DATA, "fusec run --data"}, {ON_TUNE, "fusec tune"},
              {ON_VERIFY, "fusec verify"}};
enum { N_PLACES = sizeof places / sizeof *places };

/* 0: a file of no kind that we write, which is another error. */
static unsigned place_of(const Options *o) {
    static const unsigned command[] = {
        [COMMAND_CHECK] = ON_CHECK, [COMMAND_REPORT] = ON_REPORT, [COMMAND_TUNE] = ON_TUNE, [COMMAND_VERIFY] = ON_VERIFY};
    if (o->command == COMMAND_RUN) return o->data.n ? ON_DATA : ON_ONCE;
    if (o->command != COMMAND_COMPILE) return command[o->command];
    const char *dot = o->output ? strrchr(o->output, '.') : NULL;
    for (int i = 0; dot && i < N_PLACES; i++)
        if (places[i].bit & ON_COMPILE && !strcmp(strrchr(places[i].text, '.'), dot)) return places[i].bit;
    return 0;
}

static const char *places_text(Arena *a, unsigned where) {
    const char *list = "";
    for (int k = 0; k < N_PLACES; k++)
        if (where & places[k].bit) list = arena_printf(a, "%s%s%s", list, *list ? ", " : "", places[k].text);
    return list;
}

static bool check_places(Parse *p) {
    const unsigned here = place_of(p->o);
    for (int i = 0; i < N_OPTIONS && here; i++) {
        if (!p->given[i] || !table[i].where || table[i].where & here) continue;
        return fail(p,
                    arena_printf(p->a, "%s says nothing about `%s`; leave it out, or use it with", table[i].flag,
                                 places_text(p->a, here)),
                    places_text(p->a, table[i].where));
    }
    return true;
}

static void print_version(void) {
    char llvm[32];
    host_llvm_version(llvm, sizeof llvm);
    printf("fusec %s, LLVM %s\n", FUSEC_VERSION, llvm);
}

bool cli_parse(Arena *a, int argc, char **argv, Options *o, int *status) {
    Parse p = {.a = a, .o = o, .status = status};
    *status = EXIT_OK;
    *o = (Options){.run_entry = ENTRY_COUNT};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            print_help();
            return false;
        }
        if (!strcmp(arg, "--version")) {
            print_version();
            return false;
        }
        if (i == 1 && parse_command(&p, arg)) continue;
        if (arg[0] == '-' && arg[1]) {
            if (!parse_option(&p, argc, argv, &i)) return false;
            if (p.stop) return false;
        } else if (o->input) {
            return fail(&p, i == 2 && !strchr(o->input, '.') ? "no such command (see --help), and one input file at a time"
                                                            : "one input file at a time",
                        i == 2 && !strchr(o->input, '.') ? o->input : arg);
        } else {
            o->input = arg;
        }
    }
    if (!o->input) return fail(&p, "no input file", NULL);
    if (o->command == COMMAND_COMPILE && !o->output) return fail(&p, "-o FILE is needed (or check, report, run, tune, verify)", NULL);
    return check_places(&p);
}
