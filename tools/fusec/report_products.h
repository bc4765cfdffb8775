/* What fusec report says of matrix products. */
#ifndef FUSEC_TOOLS_REPORT_PRODUCTS_H
#define FUSEC_TOOLS_REPORT_PRODUCTS_H
#include "codegen/host/host.h"
#include "ir/module.h"
#include "ir/target.h"

typedef struct ProductReport {
    const char *by;    /* "wgmma", "mma", "threads"; NULL: nothing is multiplied, or it is no GPU */
    bool low;          /* factors are f16, bf16 or tf32 */
    int rows, columns; /* of a program's tile; 0: not by matrix instructions */
    bool by_turns;     /* a block has several programs, which multiply by turns */
    bool measured;     /* the tile is a profile's */
    double used;       /* part of the tiles that is in the result */
} ProductReport;
ProductReport product_report(const Kernel *k, const Target *t);

/* A line for every reason why a product of the entry is slower than the target's best.  `profile`: its file, or NULL; host: by
 * kernel, the products that the host makes; NULL: none. */
void product_notes(Arena *a, const Module *m, Entry e, const Target *t, const char *profile, const HostProducts *host);

/* The forms of the entry's products, how many have each, and why those that stand before it do not fit. */
void product_forms(Arena *a, const Module *m, Entry e, const HostProducts *host);

#endif
