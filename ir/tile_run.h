/* The Tile IR interpreter's state; private to tile_run.c (control, arithmetic) and tile_memory.c. */
#ifndef FUSEC_IR_TILE_RUN_H
#define FUSEC_IR_TILE_RUN_H
#include "ir/tile.h"

/* A value: doubles over the tile's lanes, row-major in axis order; every axis takes `step` lanes. */
typedef struct Tile {
    double *data;
    int64_t stride[MAX_AXES]; /* 0 along axes the value has not */
} Tile;

/* Who has touched one element of a written buffer. */
typedef struct Touch {
    int32_t writer, reader; /* program + 1; 0: none; reader -1: several */
    uint32_t stamp;         /* of the last store instruction executed on it */
} Touch;

typedef struct Machine {
    Arena *errors, *scratch;
    const Kernel *k;
    const TileMemory *memory;
    const int64_t *syms;
    const char *error;          /* the first one */
    Tile *value;                /* by value number */
    int64_t extent[MAX_AXES];   /* run-time */
    int64_t base[MAX_AXES];     /* first index of the current tile */
    int active[MAX_AXES];       /* its lanes that hold values */
    int lane[MAX_AXES];         /* of the element being addressed */
    int64_t (*limit)[MAX_RANK]; /* run-time extents of the buffers */
    Touch **touch;              /* by buffer; NULL: never written; shared by buffers with one address */
    int32_t program;            /* + 1 */
    uint32_t stamp;
    bool bad_divisor;
} Machine;

/* Walks the active lanes of a tile row by row: all axes but the last stand in m->lane, the last one
 * (`inner`, -1 for a scalar) has `count` lanes that the caller loops over. */
typedef struct Rows {
    int n;
    int8_t axis[2 * MAX_TILE_AXES];
    int inner, count;
    bool more;
} Rows;
Rows rows_begin(Machine *m, const TileType *t);
void rows_next(Machine *m, Rows *r);
double *tile_row(const Machine *m, const Rows *r, int value, int64_t *step); /* first element and distance */

bool run_fail(Machine *m, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* returns false */
bool memory_prepare(Machine *m);                  /* checks the buffers, allocates the access maps */
int64_t memory_index(Machine *m, const Index *x); /* at m->lane */
bool memory_load(Machine *m, const Inst *i);
bool memory_store(Machine *m, const Inst *i);
bool memory_bucket(Machine *m, const Inst *i);

#endif
