/* Reading a program: the user's file, the files it uses, the standard library; tables of definitions. */
#include "frontend/program.h"
#include "ir/memory.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Written by embed.sh: the library's files as strings. */
struct embedded {
    const char *name, *text;
};
extern const struct embedded std_library[];

/* The parser has its own, lower limit on text; this one bounds what is read at all. */
/* More than the 16 MiB that a program may have, so that E0107 says how long it is; the rest is not read. */
enum { MAX_READ_BYTES = 64 << 20, MAX_USED_FILES = 256 };

typedef struct Loader {
    Arena *arena;
    Diag *diag;
    Program *program;
    VEC(const char *) seen; /* paths read so far */
} Loader;

const Top *program_function(const Program *p, const char *name, bool from_library) {
    if (from_library) return names_get(&p->functions[1], name);
    const Top *t = names_get(&p->functions[0], name);
    return t ? t : names_get(&p->functions[1], name);
}

Global *program_value(const Program *p, const char *name, bool from_library) {
    if (from_library) return names_get(&p->values[1], name);
    Global *g = names_get(&p->values[0], name);
    return g ? g : names_get(&p->values[1], name);
}

bool is_predeclared(const char *name) {
    static const char *const names[] = {"training", "step", "inf", "none", "all"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* NULL when it cannot be read, with the reason in *why. */
static char *read_stream(Arena *a, FILE *f, size_t *length, const char **why) {
    size_t cap = 1 << 16, n = 0;
    char *text = memory_alloc(cap);
    for (;;) {
        n += fread(text + n, 1, cap - n, f);
        if (n < cap || n > MAX_READ_BYTES) break;
        text = memory_resize(text, cap *= 2);
    }
    char *out = NULL;
    if (ferror(f))
        *why = strerror(errno);
    else if (n > MAX_READ_BYTES)
        *why = "it is larger than 16 MiB, the limit";
    else
        out = memcpy(arena_alloc(a, n + 1), text, n), *length = n;
    free(text);
    return out;
}

static char *read_source(Arena *a, const char *path, size_t *length, const char **why) {
    if (strcmp(path, "-") == 0) return read_stream(a, stdin, length, why);
    errno = 0;
    FILE *f = fopen(path, "rb");
    if (!f) {
        *why = strerror(errno);
        return NULL;
    }
    char *text = read_stream(a, f, length, why);
    fclose(f);
    return text;
}

static void add_top(Loader *l, Top *top, bool library) {
    Program *p = l->program;
    vec_push(l->arena, p->tops, top);
    if (top->kind == TOP_MODEL) {
        for (int i = 0; i < p->models.n; i++)
            if (strcmp(p->models.at[i]->name.text, top->name.text) == 0) {
                diag_report(l->diag, E0207, top->name.loc, "model '%s' is defined twice", top->name.text);
                diag_note(l->diag, p->models.at[i]->name.loc, "the first definition");
                return;
            }
        vec_push(l->arena, p->models, top);
        return;
    }
    bool value = top->kind == TOP_DIM || top->kind == TOP_LET;
    NameMap *map = value ? &p->values[library] : &p->functions[library];
    void *old = names_get(map, top->name.text);
    if (old) {
        SrcLoc first = value ? ((Global *)old)->top->name.loc : ((Top *)old)->name.loc;
        diag_report(l->diag, E0207, top->name.loc, "'%s' is defined twice", top->name.text);
        diag_note(l->diag, first, "the first definition");
        return;
    }
    if (is_predeclared(top->name.text) && value)
        diag_report(l->diag, E0207, top->name.loc, "'%s' is predeclared and cannot be defined", top->name.text);
    if (!value) {
        names_set(l->arena, map, top->name.text, top);
        return;
    }
    Global *g = ARENA_NEW(l->arena, Global);
    g->top = top;
    names_set(l->arena, map, top->name.text, g);
}

static void load_file(Loader *l, const char *path, SrcLoc from);

/* `use` paths are relative to the file that says them. */
static const char *used_path(Loader *l, const Top *use) {
    const char *from = diag_source(l->diag, use->loc.file)->name;
    const char *slash = strrchr(from, '/');
    if (use->name.text[0] == '/' || !slash) return use->name.text;
    return arena_printf(l->arena, "%.*s/%s", (int)(slash - from), from, use->name.text);
}

static void load_text(Loader *l, const char *name, const char *text, size_t length, bool library) {
    int file = diag_file(l->diag, name, text, length, library);
    Ast *ast = ast_parse(l->arena, l->diag, file);
    for (int i = 0; i < ast->tops.n; i++) {
        Top *top = ast->tops.at[i];
        if (top->kind == TOP_USE)
            load_file(l, used_path(l, top), top->loc);
        else if (top->name.text)
            add_top(l, top, library);
    }
}

/* One name per file, however it is spelled. */
static const char *canonical_path(Arena *a, const char *path) {
    char *real = realpath(path, NULL);
    if (!real && errno == ENOMEM) memory_exhausted();
    const char *key = real ? arena_strdup(a, real) : path;
    free(real);
    return key;
}

static void load_file(Loader *l, const char *path, SrcLoc from) {
    const char *key = canonical_path(l->arena, path);
    for (int i = 0; i < l->seen.n; i++)
        if (strcmp(l->seen.at[i], key) == 0) return;
    if (l->seen.n >= MAX_USED_FILES) {
        diag_report(l->diag, E0401, from, "more than %d files are used", MAX_USED_FILES);
        return;
    }
    vec_push(l->arena, l->seen, key);
    size_t length = 0;
    const char *why = "";
    char *text = read_source(l->arena, path, &length, &why);
    if (text) {
        load_text(l, strcmp(path, "-") == 0 ? "<stdin>" : path, text, length, false);
        return;
    }
    if (!from.line) from.file = diag_file(l->diag, path, "", 0, false); /* the command line's own file */
    diag_report(l->diag, E0401, from, "cannot read %s: %s", path, why);
}

static const char *nearest_value(Loader *l, const char *word) {
    VEC(const char *) names = {0};
    const NameMap *m = &l->program->values[0];
    for (int i = 0; i < m->cap; i++)
        if (m->slot[i].name) vec_push(l->arena, names, m->slot[i].name);
    return diag_nearest(word, names.at, names.n);
}

static void apply_overrides(Loader *l, const FrontendOptions *o) {
    for (int i = 0; o && i < o->n_overrides; i++) {
        Global *g = names_get(&l->program->values[0], o->overrides[i].name);
        if (g) {
            g->override = o->overrides[i].value;
            continue;
        }
        diag_report(l->diag, E0307, (SrcLoc){0}, "-D %s=%s: the program has no dim or let of that name",
                    o->overrides[i].name, o->overrides[i].value);
        const char *near = nearest_value(l, o->overrides[i].name);
        if (near) diag_help(l->diag, "did you mean '%s'?", near);
    }
}

static void check_wanted(Loader *l) {
    Program *p = l->program;
    if (!p->wanted) return;
    VEC(const char *) names = {0};
    for (int i = 0; i < p->models.n; i++) {
        if (strcmp(p->models.at[i]->name.text, p->wanted) == 0) return;
        vec_push(l->arena, names, p->models.at[i]->name.text);
    }
    diag_report(l->diag, E0306, (SrcLoc){0}, "there is no model '%s'", p->wanted);
    const char *near = diag_nearest(p->wanted, names.at, names.n);
    if (near) diag_help(l->diag, "did you mean '%s'?", near);
}

Program *program_load(Arena *a, Diag *d, const char *path, const FrontendOptions *o) {
    Loader l = {.arena = a, .diag = d, .program = ARENA_NEW(a, Program)};
    l.program->arena = a;
    l.program->diag = d;
    l.program->wanted = o ? o->model : NULL;
    l.program->check_finite = o && o->check_finite;
    load_file(&l, path, (SrcLoc){0});
    for (const struct embedded *e = std_library; e->name; e++)
        load_text(&l, arena_printf(a, "<library>/%s", e->name), e->text, strlen(e->text), true);
    if (diag_errors(d)) return NULL;
    apply_overrides(&l, o);
    check_wanted(&l);
    check_program(l.program);
    return diag_errors(d) ? NULL : l.program;
}

int program_models(const Program *p) { return p->models.n; }
const char *program_model_name(const Program *p, int i) { return p->models.at[i]->name.text; }
