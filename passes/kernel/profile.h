/* Measured tiles of matrix products: what `fusec tune` writes and later compiles read instead of the cost model.
 *
 *   fusec-profile 1
 *   gpu H200
 *   capability 9.0
 *   driver 12.8
 *   compiler 0.1.0
 *   target sm_90a
 *   timer events
 *   product 512x768x3072 batch 1 bf16 km reads bf16[512,3072],bf16[3072,768],f32[768] writes bf16[512,768] ->
 *       wgmma:128x256:64x256 of wgmma:128x256:64x256=12.340 mma:256x128:64x64=19.120 mma:16x64:16x16=refused
 *
 * (a product is one line).  A product is named by rows, columns and sum, the type of its factors, the loop along which
 * each factor is contiguous (matrix_key), and what its kernel reads and writes.  A tile is instruction, rows x columns
 * of a program, rows x columns of a warp or warpgroup, and, where programs of a block multiply by turns, how many; its time is
 * in microseconds, or a word says why it has none.
 * Products stand in the order of their names, tiles in that of matrix_tiles.def. */
#ifndef FUSEC_PASSES_PROFILE_H
#define FUSEC_PASSES_PROFILE_H
#include "passes/kernel/matrix.h"

enum { PROFILE_VERSION = 1, PROFILE_TILE_TEXT = 64 };

typedef struct TileTime {
    MatrixTile tile;
    double us;
    const char *word; /* instead of a time; NULL: it has one */
} TileTime;

typedef struct ProfileProduct {
    const char *key;
    MatrixTile tile; /* the fastest; by BY_NONE: one that this compiler does not have */
    VEC(TileTime) times;
} ProfileProduct;

/* What was measured, on what; the order of the file's first lines. */
typedef enum {
    PROFILE_GPU,
    PROFILE_CAPABILITY,
    PROFILE_DRIVER,
    PROFILE_COMPILER,
    PROFILE_TARGET,
    PROFILE_TIMER,
    PROFILE_FIELDS
} ProfileField;
extern const char *const profile_field[PROFILE_FIELDS];

typedef struct Profile {
    const char *field[PROFILE_FIELDS];
    int line[PROFILE_FIELDS];     /* where it stands, from 1 */
    VEC(ProfileProduct) products; /* by key, ascending */
} Profile;

/* A problem of the text: line and column from 1.  What is no error is left out of the profile. */
typedef void ProfileReport(void *user, bool is_error, int line, int column, const char *message, const char *help);
/* False after errors; reports at most one a line. */
bool profile_parse(Arena *a, const char *text, Profile *out, ProfileReport *report, void *user);
void profile_print(FILE *f, const Profile *p);

const ProfileProduct *profile_find(const Profile *p, const char *key); /* NULL: not measured */
void profile_put(Arena *a, Profile *p, ProfileProduct x);              /* in its place; an older measurement goes */

/* What there is to measure, collected by pass_tile (PassContext.tuning): each product once, with a kernel per tile. */
typedef struct TileCandidate {
    MatrixTile tile;
    Kernel *kernel;
} TileCandidate;
typedef struct TunedProduct {
    const char *key;
    MatrixTile modelled; /* what the cost model chooses */
    int32_t constant[FUSEC_MAX_CONSTANTS];
    VEC(TileCandidate) candidates; /* in the order of the table */
} TunedProduct;
typedef struct Tuning {
    int most; /* tiles of each instruction, those that the cost model takes for the fastest; 0: all */
    VEC(TunedProduct) products;
} Tuning;

/* The product's name. */
const char *matrix_key(Arena *a, const PlanKernel *k, const MatrixTiles *m);
const char *matrix_tile_text(char text[PROFILE_TILE_TEXT], const MatrixTile *t);
const MatrixTile *matrix_tile_find(const char *text, size_t n); /* of the table; NULL: none has that name */

#endif
