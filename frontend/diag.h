/* Diagnostics: code, place, message, remedy.  Collected, printed sorted by place, never fatal:
 * the caller asks diag_errors().  Each code stands in diag.def with its summary and has a test
 * under tests/golden/diag that provokes it. */
#ifndef FUSEC_FRONTEND_DIAG_H
#define FUSEC_FRONTEND_DIAG_H
#include "ir/arena.h"
#include "ir/ops.h"
#include "ir/vec.h"
#include <stdio.h>

typedef enum {
#define DIAG(code, summary) code,
#include "frontend/diag.def" /* DIAG(E0101, "unexpected character") ...: E errors, W warnings */
#undef DIAG
    DIAG_COUNT
} DiagCode;

typedef struct SourceFile {
    const char *name; /* as given */
    const char *text; /* NUL-terminated */
    size_t length;
    bool library;     /* part of the standard library */
} SourceFile;

typedef struct Diag Diag; /* a collector; owns nothing but its arena's memory */
Diag *diag_new(Arena *a);
int diag_file(Diag *d, const char *name, const char *text, size_t length, bool library); /* its SrcLoc.file */
const SourceFile *diag_source(const Diag *d, int file);
int diag_files(const Diag *d);

/* The message may be followed by diag_help().  Beyond 50 errors further ones are counted only. */
void diag_report(Diag *d, DiagCode code, SrcLoc loc, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void diag_note(Diag *d, SrcLoc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4))); /* a second place */
void diag_help(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));             /* the remedy */
int diag_errors(const Diag *d);
int diag_warnings(const Diag *d);
/* file:line:col: error: message [E0203], the source line, a caret under the expression, help. */
void diag_print(const Diag *d, FILE *f);

/* The nearest of `names` by edit distance, or NULL when none is near. */
const char *diag_nearest(const char *word, const char *const *names, int n);

#endif
