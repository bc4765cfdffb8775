/* The part of the way to memory that is vectors of lanes and rows of words: compiled once per instruction-set level, as
 * the arithmetic is (alu.h). */
#pragma once
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/shadow.h"

/* An access of a warp, while it is looked at. */
typedef struct Access {
    Warp *w;
    Actor actor;
    Space space;
    bool own_block;          /* shared memory of the own block only: .shared::cta */
    uint32_t bytes;          /* of a lane */
    uint32_t mask;
    const uint64_t *address; /* by lane; in the space */
    uint64_t window;         /* what to add for reports: generic addresses are reported as they are */
    Places *out;
} Access;

typedef struct AccessKernels {
    void (*places)(Warp *w, Space space, AccessKind kind, uint8_t scope, const uint64_t address[WARP], int bytes,
                   uint32_t mask, Places *out);
    bool (*row_read)(const Actor *, const Shadow *, uint32_t k, uint32_t n, const uint8_t *code);
    bool (*row_write)(const Actor *, const Shadow *, uint32_t k, uint32_t n, const uint8_t *code);
} AccessKernels;

/* access.c: findings of addresses, what is common to all levels. */
Actor access_actor(Warp *w, AccessKind kind, uint8_t scope);
Block *access_block(const Access *, uint64_t address, uint64_t *offset); /* that a shared address names, or NULL */
Space access_window(uint64_t address, uint64_t *start);                 /* that a generic address lies in */
void access_bounds(const Access *, int lane, const char *space, uint64_t size);
void access_global_bounds(const Access *, int lane);
void access_misaligned(const Access *, uint32_t lanes);
void access_early(Warp *, const uint64_t address[WARP], int bytes, uint32_t lanes); /* before griddepcontrol.wait */
void access_overlapped(Warp *, const Inst *, const uint64_t address[WARP], uint8_t *const place[WARP], int bytes);

#ifdef ALU_LEVEL
#define ACCESS_JOIN2(name, level) name##_##level
#define ACCESS_JOIN(name, level) ACCESS_JOIN2(name, level)
#define ACCESS(name) ACCESS_JOIN(name, ALU_LEVEL)
#define places_find ACCESS(places_find)
#define shadow_row_read ACCESS(shadow_row_read)
#define shadow_row_write ACCESS(shadow_row_write)
#define shadow_lane_read ACCESS(shadow_lane_read)
#define shadow_lane_write ACCESS(shadow_lane_write)
#define words_check ACCESS(words_check)
#define exec_load ACCESS(exec_load)
#define exec_store ACCESS(exec_store)
extern const AccessKernels ACCESS(access_kernels);
void exec_load(Warp *, const Inst *, uint32_t);
void exec_store(Warp *, const Inst *, uint32_t);

/* As warp_places. */
void places_find(Warp *w, Space space, AccessKind kind, uint8_t scope, const uint64_t address[WARP], int bytes,
                 uint32_t mask, Places *out);
/* Weak accesses of whole words by one agent; n words from k, word j marked code[j].  False: a word needs shadow_touch;
 * then nothing has changed. */
bool shadow_row_read(const Actor *, const Shadow *, uint32_t k, uint32_t n, const uint8_t *code);
bool shadow_row_write(const Actor *, const Shadow *, uint32_t k, uint32_t n, const uint8_t *code);

/* A word of each lane's, whose state is compared with the first lane's.  Lanes that are off repeat the first. */
typedef struct Words {
    uint32_t *w[WARP];
    uint32_t code[WARP];
    ptrdiff_t to_r,
        to_wc; /* from the word's W to its R, to the writer's and (one further to_r) the reader's cluster; 0: none */
    int first;
} Words;
/* Weak accesses of whole words.  False: somebody's words need a closer look, and nothing is marked. */
bool words_check(const Access *, const Words *);

/* What lanes in a row know from word to word: results of the last checks. */
typedef struct ShadowMemo {
    uint32_t w_key, w_cluster; /* a write that is ordered before the warp's present */
    uint32_t r_key, r_cluster; /* a state of readers, ... */
    uint32_t r_next;           /* ... and what it becomes; 0: the reader alone */
} ShadowMemo;
/* The same for one lane's words, marked `code`, to be read also LANE_LOW or LANE_HIGH for a half; those that need it go
 * through shadow_touch.  A memo serves one warp's access, and codes of one kind. */
void shadow_lane_read(const Actor *, const Shadow *, uint32_t k, uint32_t n, int lane, uint32_t code, ShadowMemo *,
                      Conflict *found);
void shadow_lane_write(const Actor *, const Shadow *, uint32_t k, uint32_t n, int lane, uint32_t code, ShadowMemo *,
                       Conflict *found);
#endif
