// What is known to fail, so that a sweep goes on to what is not.  An entry goes when its cause is mended.
#include "tests/net/judge.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// A product with an extent of 0 and a bounded inner axis is refused as a reshape.
static bool empty_bounded_product(const Prog *p, const Command *c, const Judgement *j) {
    (void)c;
    bool empty = false;
    for (int i = 0; i < p->count; i++) empty |= !p->at[i].dead && shape_size(&p->at[i].shape) == 0;
    return empty && uses_bound(p) && strstr(j->message, "this reshape merges or splits a bounded dimension");
}
// A gradient that another one is computed from is added up before that reads it.
static bool accumulated_before_read(const Prog *p, const Command *c, const Judgement *j) {
    if (!adds_up(p) || j->verdict != V_DIFFERS) return false;
    Prog once = *p;
    Expected x;
    once.accumulate = false;
    Judgement again = judge(&once, c, &x);
    expected_free(&x);
    return again.verdict == V_AGREES;
}

// GCC 12 miscompiles loops over reversed pairs: right without its vectorizer.
static bool miscompiled_c(const Prog *p, const Command *c, const Judgement *j) {
    char path[500];
    if (strcmp(c->target, "c99") || j->verdict != V_DIFFERS) return false;
    snprintf(path, sizeof path, "%s/cc", c->folder);
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const char *cc = getenv("CC");
    fprintf(f, "#!/bin/sh\nexec %s \"$@\" -fno-tree-vectorize\n", cc ? cc : "cc");
    fclose(f);
    char *before = cc ? strdup(cc) : NULL;
    Expected x;
    if (chmod(path, 0700) || setenv("CC", path, 1)) return false;
    Judgement again = judge(p, c, &x);
    expected_free(&x);
    if (before) setenv("CC", before, 1);
    else unsetenv("CC");
    free(before);
    return again.verdict == V_AGREES;
}

static const struct { const char *name; bool (*is)(const Prog *, const Command *, const Judgement *); } list[] = {
    {"empty product over a bounded axis", empty_bounded_product},
    {"C that the C compiler's vectorizer gets wrong", miscompiled_c},
    {"gradient accumulated before it is read", accumulated_before_read},
};
const char *known_find(const Prog *p, const Command *c, const Judgement *j) {
    for (unsigned k = 0; k < sizeof list / sizeof *list; k++)
        if (list[k].is(p, c, j)) return list[k].name;
    return NULL;
}
