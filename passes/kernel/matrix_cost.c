/* What tiles of a product by matrix instructions cost: a count of what a multiprocessor does for them, in seconds. */
#include "passes/kernel/matrix.h"

const MatrixTile matrix_tile[] = {
#define MATRIX_TILE(b, r, c, wr, wc, n) {BY_##b, r, c, wr, wc, n},
#include "passes/kernel/matrix_tiles.def"
#undef MATRIX_TILE
};
const int n_matrix_tiles = sizeof matrix_tile / sizeof *matrix_tile;

enum {
    SLOTS = 4,            /* of the ring, where shared memory has room */
    FETCHED_SLOTS = 8,    /* the same where a warp of its own fetches: it has nothing else to do */
    BUSY_WARPS = 8,       /* per multiprocessor, that keep its matrix units busy */
    FILE_REGISTERS = 65536,
    MOST_WARPS = 64,      /* of a multiprocessor */
    WARPGROUP = 4,        /* warps */
    FETCHING = 1,         /* warps that only fetch, in blocks of one warpgroup */
    L2_OVER_MEMORY = 3,   /* how much faster the L2 cache delivers than memory */
    STORED = 2            /* steps in which a result leaves its register */
};

/* Part of their time by which units that work at once hold each other up, where one block has a multiprocessor. */
static const double IN_THE_WAY = 0.2;

/* Seconds until what is fetched is there, and until what is stored is on its way. */
static const double LATENCY = 0.5e-6;

/* Hopper's mma beside wgmma: 62.9 % of the peak on average, and 728.5 of 756.5 TFLOP/s (H800; Luo et al., "Dissecting the
 * NVIDIA Hopper Architecture through Microbenchmarking and Multiple Level Analysis", arXiv:2501.12084, 6.2, tables 7, 8). */
static const double OF_WGMMA = 0.629 / (728.5 / 756.5);

static double ceil_div(double a, double b) { return (double)(int64_t)((a + b - 1) / b); }
static double larger(double a, double b) { return a > b ? a : b; }

static int warps_of(const MatrixTile *t) {
    return t->rows / t->warp_rows * (t->columns / t->warp_columns) * (t->by == BY_WGMMA ? 4 : 1);
}

/* Elements summed per iteration: rows of 128 bytes where tiles are small, of 64 else, so that a ring of them fits. */
static int sum_of(const MatrixTile *t, const MatrixProduct *p) {
    const int wide = (t->by == BY_WGMMA || t->rows + t->columns <= 128 ? 128 : 64) / p->bytes;
    int sum = 32 / p->bytes;
    while (sum < wide && sum < p->k) sum *= 2;
    return sum;
}

static int64_t slot_bytes(const MatrixTile *t, const MatrixProduct *p) {
    return (int64_t)(t->rows + t->columns) * sum_of(t, p) * p->bytes;
}

/* Blocks of more than one warpgroup have a multiprocessor for themselves, and stay there. */
static bool stays(const MatrixTile *tile) { return tile->by == BY_WGMMA && warps_of(tile) * tile->alternate > WARPGROUP; }

/* Shared memory for one block: a block of one warpgroup leaves room for another, which multiplies while it stores. */
static int64_t room_of(const Target *t, const MatrixTile *tile) {
    return tile->by == BY_WGMMA && !stays(tile) ? t->fast_bytes / 2 : t->fast_bytes;
}

static int ahead_of(const Target *t, const MatrixTile *tile, const MatrixProduct *p) {
    const int64_t slots = room_of(t, tile) / slot_bytes(tile, p);
    const double trips = ceil_div(p->k, sum_of(tile, p));
    int ahead = tile->by == BY_WGMMA ? FETCHED_SLOTS - 1 : SLOTS - 1;
    if (ahead > slots - 1) ahead = (int)slots - 1;
    if (ahead > trips) ahead = (int)trips;
    return ahead < 1 ? 1 : ahead;
}

int matrix_accumulators(const MatrixTile *t) {
    return t->warp_rows * t->warp_columns / (t->by == BY_WGMMA ? 128 : 32);
}

/* wgmma reads its factors in place, and has four warps for its accumulators. */
static int registers_of(const MatrixTile *t) {
    const int fragments = t->by == BY_WGMMA ? 0 : t->warp_rows / 16 * 4 + t->warp_columns / 8 * 2, addresses = 48;
    const int registers = matrix_accumulators(t) + fragments + addresses;
    return registers > 255 ? 255 : registers;
}

/* Programs that a multiprocessor holds, by registers, shared memory and warps. */
static double resident(const Target *t, const MatrixTile *tile, const MatrixProduct *p) {
    const int warps = warps_of(tile) + (tile->by == BY_WGMMA ? FETCHING : 0);
    if (stays(tile)) return tile->alternate;
    const double by_registers = FILE_REGISTERS / (32 * warps * registers_of(tile));
    const double by_shared = (double)(t->fast_bytes / (slot_bytes(tile, p) * (ahead_of(t, tile, p) + 1)));
    const double by_warps = MOST_WARPS / warps_of(tile);
    const double least = by_registers < by_shared ? by_registers : by_shared;
    return larger(1, least < by_warps ? least : by_warps);
}

/* Bytes of shared memory that the matrix instructions of one iteration read: a warp its rows and columns; a warpgroup 64 of
 * its rows at a time, with all its columns. */
static double read_bytes(const MatrixTile *t, const MatrixProduct *p) {
    const double sum = (double)sum_of(t, p) * p->bytes;
    if (t->by != BY_WGMMA) return warps_of(t) * (t->warp_rows + t->warp_columns) * sum;
    return warps_of(t) / 4 * (t->warp_rows / 64) * (64 + t->warp_columns) * sum;
}

/* Bytes that one iteration fetches from the L2 cache: of pairs of programs each fetches half of a tile for both
 * (pair_programs in matrix_schedule.c). */
static double fetched_bytes(const MatrixTile *t, const MatrixProduct *p) {
    const double sum = (double)sum_of(t, p) * p->bytes, rows = t->rows * sum, columns = t->columns * sum;
    const bool by_rows = (int64_t)ceil_div(p->m, t->rows) % 2 == 0, by_columns = (int64_t)ceil_div(p->n, t->columns) % 2 == 0;
    if (!stays(t) || (!by_rows && !by_columns)) return rows + columns;
    const bool columns_shared = by_rows && (t->columns >= t->rows || !by_columns);
    return columns_shared ? rows + columns / 2 : rows / 2 + columns;
}

/* Slots of the ring that there is room for beside what goes through shared memory after the sums. */
static double slots_left(const Target *t, const MatrixTile *tile, const MatrixProduct *p) {
    const double staged = p->staged * tile->rows * tile->columns * tile->alternate;
    const double slots = (double)(int64_t)((double)room_of(t, tile) - staged) / (double)slot_bytes(tile, p);
    return larger(2, (double)(int64_t)slots);
}

/* Seconds of a program's loop, where so many warps multiply at once: for each iteration the slowest of matrix units, shared
 * memory and the L2 cache, and of a fetch's latency for the slots that are under way.  A group that multiplies alone does not
 * while it loads its rows. */
static double summing(const Target *t, const MatrixTile *tile, const MatrixProduct *p, double warps) {
    const double busy = tile->by == BY_WGMMA ? WARPGROUP : BUSY_WARPS;
    const double rate = t->gflops_matrix / t->cores * 1e9 * (warps < busy ? warps / busy : 1) * 2 / p->bytes;
    const double fill = (double)slot_bytes(tile, p), read = read_bytes(tile, p), each = t->shared_gbytes_per_s / t->cores * 1e9;
    const double loading = tile->alternate > 1 && p->loads_rows ? read / each : 0;
    const double math = 2.0 * tile->rows * tile->columns * sum_of(tile, p) / rate + loading, shared = (fill + read) / each;
    const double cache = fetched_bytes(tile, p) / (L2_OVER_MEMORY * t->gbytes_per_s / t->cores * 1e9);
    const double slowest = larger(math, larger(shared, cache));
    if (tile->by == BY_MMA) return ceil_div(p->k, sum_of(tile, p)) * slowest;
    const double others = IN_THE_WAY * (math + shared + cache - slowest), waiting = LATENCY / (slots_left(t, tile, p) - 1);
    return ceil_div(p->k, sum_of(tile, p)) * larger(slowest + others, waiting);
}

/* Seconds from its last product to its store, for one result, by so many of the warps that keep a multiprocessor busy: what is
 * stored goes its way by itself, what is read has to come. */
static double finishing(const Target *t, const MatrixProduct *p, double warps) {
    const double rate = t->gflops_f32 / 2 / t->cores * 1e9 * (warps < BUSY_WARPS ? warps / BUSY_WARPS : 1);
    return (p->steps + STORED) / rate + p->reads / (t->gbytes_per_s / t->cores * 1e9);
}

/* Seconds of all programs of a multiprocessor.  With wgmma, of programs that it has at a time one's loop hides another's
 * beginning and end, and blocks that stay fetch ahead of the next program; with mma each wave begins by itself, and what
 * stands after the sums is the same for all tiles. */
static double seconds(const Target *t, const MatrixTile *tile, const MatrixProduct *p) {
    const double programs = p->batch * ceil_div(p->m, tile->rows) * ceil_div(p->n, tile->columns);
    const double each = ceil_div(programs, t->cores), held = resident(t, tile, p), together = each < held ? each : held;
    const double warps = together * warps_of(tile), sum = summing(t, tile, p, warps), results = (double)tile->rows * tile->columns;
    if (tile->by == BY_MMA)
        return each * sum + ceil_div(each, held) * 2 * LATENCY + p->batch * p->m * p->n / t->cores * finishing(t, p, BUSY_WARPS);
    const double idle = (stays(tile) ? LATENCY : 2 * LATENCY) + results * finishing(t, p, warps_of(tile));
    const double first = stays(tile) ? LATENCY : 0;
    if (together <= 1) return first + each * (sum + idle);
    return first + each * larger(larger(sum, results * finishing(t, p, warps)), (sum + idle) / together) + idle;
}

/* Programs that run at the same time read tiles of G rows and of as many columns as there are then: least for equal
 * sides of that field. */
static int order_of(const Target *t, const MatrixTile *tile, const MatrixProduct *p) {
    const double rows = ceil_div(p->m, tile->rows), field = resident(t, tile, p) * t->cores * tile->columns / tile->rows;
    int order = 1;
    while (2 * order <= rows && 4.0 * order * order <= field) order *= 2;
    return order > 1 && ceil_div(p->n, tile->columns) > 1 ? order : 0;
}

bool matrix_tile_fits(const Target *t, const MatrixTile *tile) {
    if (tile->by == BY_WGMMA && !t->has_wgmma) return false;
    return tile->rows * tile->columns <= 4 * t->max_tile; /* accumulators are all that a matrix kernel holds */
}

const MatrixTile *matrix_cheapest(const Target *t, const MatrixTiles *m, By by, const MatrixTile *after) {
    const double passed = after ? seconds(t, after, &m->product) : 0;
    const MatrixTile *cheapest = NULL;
    double best = 0;
    for (int i = 0; i < n_matrix_tiles; i++) {
        const MatrixTile *tile = &matrix_tile[i];
        if (tile->by != by || !matrix_tile_fits(t, tile) || !matrix_slice_fits(m, tile)) continue;
        const double s = seconds(t, tile, &m->product);
        if (after && (s < passed || (s == passed && tile <= after))) continue;
        if (cheapest && s >= best) continue;
        best = s;
        cheapest = tile;
    }
    return cheapest;
}

bool matrix_better_by_warps(const Target *t, const MatrixTiles *m, const MatrixTile *tile) {
    const MatrixTile *other = matrix_cheapest(t, m, BY_MMA, NULL);
    return other && seconds(t, other, &m->product) < OF_WGMMA * seconds(t, tile, &m->product);
}

double matrix_seconds(const Target *t, const MatrixTiles *m) {
    const MatrixTile *by_warps = matrix_cheapest(t, m, BY_MMA, NULL), *by_groups = matrix_cheapest(t, m, BY_WGMMA, NULL);
    return seconds(t, by_groups ? by_groups : by_warps, &m->product);
}

void matrix_take(const Target *t, MatrixTiles *m, const MatrixTile *tile) {
    m->tile = *tile;
    m->sum = sum_of(tile, &m->product);
    m->ahead = ahead_of(t, tile, &m->product);
    m->order = order_of(t, tile, &m->product);
    m->room = room_of(t, tile);
}
