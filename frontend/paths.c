/* Names of parameters and states, built from the inside out. */
#include "frontend/lower.h"

static const PathEntry *taken(const PathScope *scope, const char *path) { return names_get(&scope->taken, path); }

/* `loc`: what names it here, a call or the declaration itself. */
static void add_entry(Lower *L, PathScope *scope, PathEntry e, SrcLoc loc) {
    if (taken(scope, e.path)) {
        lower_fail(L, E0302, loc, "give it another name with `as`; to share, bind a value to a name and use that, or call the layer again `sharing` this one",
                   "the %s path '%s' is used twice", e.state ? "state" : "parameter", e.path);
        return;
    }
    vec_push(L->scratch, scope->entries, e);
    names_set(L->scratch, &scope->taken, e.path, arena_dup(L->scratch, &e, sizeof e));
}

void paths_add(Lower *L, PathScope *scope, const char *path, bool state, int index, SrcLoc loc) {
    add_entry(L, scope, (PathEntry){.path = path, .state = state, .index = index}, loc);
}

static const char *prefixed(Lower *L, const char *component, const char *path) {
    return component ? arena_printf(L->scratch, "%s.%s", component, path) : path;
}

/* The first of inner's paths that is taken in outer, with `component` before it. */
static const char *first_clash(Lower *L, const PathScope *outer, const PathScope *inner, const char *component) {
    for (int i = 0; i < inner->entries.n; i++) {
        const char *path = prefixed(L, component, inner->entries.at[i].path);
        if (taken(outer, path)) return path;
    }
    return NULL;
}

static const char *free_component(Lower *L, const PathScope *outer, const PathScope *inner, const char *base) {
    const char *component = base;
    for (int k = 1; first_clash(L, outer, inner, component); k++) component = arena_printf(L->scratch, "%s_%d", base, k);
    return component;
}

void paths_merge(Lower *L, PathScope *outer, const PathScope *inner, const char *as, const char *fallback, SrcLoc loc) {
    const char *component = as;
    const char *clash = as || !fallback ? NULL : first_clash(L, outer, inner, NULL);
    if (clash) {
        component = free_component(L, outer, inner, fallback);
        if (L->declaring)
            lower_warn(L, W0303, loc,
                       "name the instance with `as`, so that its parameter paths stay when the program changes",
                       "the path '%s' is taken: this instance of %s is named '%s'", clash, fallback, component);
    }
    for (int i = 0; i < inner->entries.n; i++) {
        PathEntry e = inner->entries.at[i];
        e.path = prefixed(L, component, e.path);
        if (L->stopped) return;
        add_entry(L, outer, e, loc);
    }
}
