/* What a Diag holds; shared by the collector and the printer only. */
#ifndef FUSEC_FRONTEND_DIAG_ITEMS_H
#define FUSEC_FRONTEND_DIAG_ITEMS_H
#include "frontend/diag.h"
#include <stdbool.h>

/* a note (with a place of its own) or a help (none) under a diagnostic */
typedef struct DiagRemark {
    bool help;
    SrcLoc loc;
    const char *text;
} DiagRemark;

typedef struct DiagItem {
    DiagCode code;
    SrcLoc loc;
    const char *text;
    int order; /* of reporting, which settles the printing order at one place */
    VEC(DiagRemark) remarks;
} DiagItem;

struct Diag {
    Arena *arena;
    VEC(SourceFile) files;
    VEC(DiagItem) items;
    int errors, warnings; /* reported, the ones past the limit included */
    int last;             /* the item that notes and helps go to; -1: the last report was dropped */
};

const char *diag_code_name(DiagCode code); /* "E0101" */
bool diag_is_error(DiagCode code);

#endif
