/* Instructions whose dotted words are a sentence of their own (cp.async.bulk.tensor.2d...): rows with CAT_WORDS.  Their
 * lowering takes the words one by one, in the order of the PTX ISA's grammar; what is left over is refused. */
#pragma once
#include "tools/ptxsim/ptx/forms.h"
#include "tools/ptxsim/ptx/parse.h"

typedef struct Words {
    const Stmt *stmt;
    int next;
} Words;

/* Takes the next word if it is `text`. */
bool word_take(Words *, const char *text);
/* One of `count` texts: its index, or -1. */
int word_choose(Words *, const char *const *texts, int count);
void word_need(Parser *, Words *, const char *text);
/* A type, which must be there. */
PtxType word_type(Parser *, Words *);
/* shared, shared::cta -> SPACE_SHARED, shared::cluster, global, else SPACE_GENERIC with nothing taken. */
Space word_space(Words *);
/* .L2::cache_hint, and the policy among the operands from `*operand` on. */
void word_cache_hint(Parser *, Words *, int *operand);
/* No words are left, and all operands are used. */
void words_end(Parser *, const Words *, int operands);

/* An address operand. */
Pointer pointer(Parser *, const Stmt *, const Raw *, Space);
/* The operand of number k, which must be there. */
const Raw *operand_at(Parser *, const Stmt *, int k);
/* A copy of `form` that lives as long as the module. */
const void *keep_form(Parser *, const void *form, size_t bytes);
void need_target(Parser *, const Stmt *, int target);
void need_version(Parser *, const Stmt *, int version); /* of the PTX ISA, 83 for 8.3 */

/* lower_cache.c: what an access says of caches, .mmio too; the policy of .L2::cache_hint is operand number `policy`, and
 * without it no such operand is there. */
void check_cache(Parser *, const Stmt *, Space, int policy);
