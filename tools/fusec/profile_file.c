#include "tools/fusec/profile_file.h"
#include "tools/fusec/array.h"
#include <string.h>

typedef struct Reading {
    Session *session;
    int file;
} Reading;

static void report(void *user, bool is_error, int line, int column, const char *message, const char *help) {
    const Reading *r = user;
    const SrcLoc at = {.file = r->file, .line = line, .col = column, .end_line = line, .end_col = column + 1};
    diag_report(r->session->diag, is_error ? E0402 : W0401, at, "%s", message);
    diag_help(r->session->diag, "%s", help);
}

ProfileFile *profile_read(Session *s, const char *path) {
    ProfileFile *p = ARENA_NEW(s->arena, ProfileFile);
    uint8_t *bytes;
    size_t n;
    const char *error;
    p->path = path;
    p->file = -1;
    if (!file_read(s->arena, path, &bytes, &n, &error)) {
        diag_report(s->diag, E0402, (SrcLoc){0}, "%s", error);
        diag_help(s->diag, "`fusec tune MODEL.dsl --profile %s` writes one, on a machine with a GPU", path);
        return NULL;
    }
    p->file = diag_file(s->diag, path, (const char *)bytes, n, false);
    Reading r = {s, p->file};
    return profile_parse(s->arena, (const char *)bytes, &p->profile, report, &r) ? p : NULL;
}

void profile_complain(Session *s, const ProfileFile *p, bool is_error, ProfileField f, const char *message,
                      const char *help) {
    const int line = p->profile.line[f], column = (int)strlen(profile_field[f]) + 2;
    const int end = column + (int)strlen(p->profile.field[f]);
    const SrcLoc at = {.file = p->file, .line = line, .col = column, .end_line = line, .end_col = end};
    diag_report(s->diag, is_error ? E0403 : W0401, at, "%s", message);
    diag_help(s->diag, "%s", help);
}

static bool other_target(Session *s, const ProfileFile *p, const Target *t) {
    const char *was = p->profile.field[PROFILE_TARGET], *measure = "";
    if (t->device->is_gpu)
        measure = arena_printf(s->arena, "; or measure with `fusec tune --target %s` into another file", t->name);
    profile_complain(s, p, true, PROFILE_TARGET,
                     arena_printf(s->arena, "the profile is for target %s, this compile for %s", was, t->name),
                     arena_printf(s->arena, "compile with --target %s, or without --profile%s", was, measure));
    return false;
}

/* A GPU's code runs on later ones, that with an `a` on its own alone. */
static bool runs_there(const char *capability, const Target *t) {
    int major = 0, minor = 0, needs = 0;
    if (sscanf(capability, "%d.%d", &major, &minor) != 2 || sscanf(t->name, "sm_%d", &needs) != 1) return false;
    return t->has_wgmma ? 10 * major + minor == needs : 10 * major + minor >= needs;
}

static bool other_gpu(Session *s, const ProfileFile *p, const Target *t) {
    profile_complain(s, p, true, PROFILE_CAPABILITY,
                     arena_printf(s->arena, "the profile is of a GPU of capability %s, where code for %s does not run",
                                  p->profile.field[PROFILE_CAPABILITY], t->name),
                     "measure with `fusec tune` on the GPU that the code is for, or compile without --profile");
    return false;
}

bool profile_suits(Session *s, const ProfileFile *p, const Target *t) {
    const char *const *field = p->profile.field;
    if (strcmp(field[PROFILE_TARGET], t->name)) return other_target(s, p, t);
    if (t->device->is_gpu && !runs_there(field[PROFILE_CAPABILITY], t)) return other_gpu(s, p, t);
    if (strcmp(field[PROFILE_COMPILER], FUSEC_VERSION))
        profile_complain(s, p, false, PROFILE_COMPILER,
                         arena_printf(s->arena, "the profile was measured with fusec %s, this is %s",
                                      field[PROFILE_COMPILER], FUSEC_VERSION),
                         "its kernels may have changed: measure again with `fusec tune`");
    if (strcmp(field[PROFILE_TIMER], "events"))
        profile_complain(s, p, false, PROFILE_TIMER,
                         "the profile has no times: it was made on the software GPU, of what its counters bound",
                         "measure on a GPU with `fusec tune`");
    return true;
}
