/* Mutations of PTX text: the mistakes that people make in kernels, made on purpose, one at a time. */
#ifndef FUSEC_TESTS_PTX_MUTATE_H
#define FUSEC_TESTS_PTX_MUTATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum MutationKind {
    MUTATE_BARRIER, /* bar.sync, bar.arrive, bar.warp.sync, barrier.cluster dropped */
    MUTATE_WAIT,    /* cp.async and wgmma waits dropped; a wait for an mbarrier is over at once */
    MUTATE_COMMIT,  /* commit of a group dropped */
    MUTATE_FENCE,   /* membar, fence, wgmma.fence dropped */
    MUTATE_SWIZZLE, /* an exclusive-or on the way to a shared address, shifts and masks on the way to it; a matrix
                       descriptor's layout */
    MUTATE_INDEX,   /* offset of an access, constant of an addition or multiplication on the way to an address */
    MUTATE_BOUND,   /* below or at most; the constant of the compare that repeats a loop */
    MUTATION_KINDS
} MutationKind;

extern const char *const mutation_names[MUTATION_KINDS];

/* The bytes [at, at + bytes) of the text become `now`. */
typedef struct Mutation {
    MutationKind kind;
    size_t at, bytes;
    int line; /* from 1 */
    char now[96];
    /* Instructions to put before the statement at `statement`, that trap where the mutation makes a difference: the
     * result of arithmetic or of a compare would be another; anything else is executed at all. */
    size_t statement, body; /* and of the kernel's opening brace */
    char differs[320];
} Mutation;

/* All that can be made in kernels (.entry) whose text has one of these words, NULL: in all of them.  In order of their
 * place; at most `room` are stored, their number is returned. */
int mutations_of(const char *text, const char *const *words, Mutation *out, int room);
/* The text with it made, to be freed. */
char *mutation_apply(const char *text, const Mutation *);
/* The text unchanged but for the trap of m->differs.  A barrier traps where a thread that comes to it has used shared
 * memory or stored before: one that comes before all that orders nothing. */
char *mutation_probe(const char *text, const Mutation *);

#endif
