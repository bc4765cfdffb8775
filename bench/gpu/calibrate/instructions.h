/* The instructions of instruction_cases.h as PTX, and what they are given: for a test of the software GPU and for the
 * comparison with a real one. */
#ifndef FUSEC_CALIBRATE_INSTRUCTIONS_H
#define FUSEC_CALIBRATE_INSTRUCTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INSTRUCTION_TEXT = 160, INSTRUCTION_MOST = 1200 };
enum { INPUT_THREADS = 128, INPUT_BLOCKS = 4, INPUTS = INPUT_THREADS * INPUT_BLOCKS };

/* Whether every thread executes the instruction, those of predicate %p1 by a guard, or those by a branch. */
typedef enum InstructionMode { WHOLE, GUARDED, BRANCHED, INSTRUCTION_MODES } InstructionMode;

/* Inputs of a thread: three words, a source lane, the mask of its warp, predicates (bit 0: takes part). */
typedef struct InstructionInput {
    uint64_t word[3];
    uint32_t lane, members, predicates, shift, width, spare;
} InstructionInput;

/* Registers after the instruction: %r8 and %r9; %h8, %h9 and bits of %p8, %p9; %rd8; %d8; %f8. */
enum { RESULT_WORDS = 5 };
typedef uint64_t InstructionResult[RESULT_WORDS];

/* Texts with "@" where a guard belongs; with `whole_only`, those that only whole warps may execute.  Returns how many
 * there are; at most `room` of them are written. */
int instructions_list(char (*to)[INSTRUCTION_TEXT], int room, bool whole_only);

/* Declarations and inputs of a thread, in a body whose parameters are `in` (InstructionInput[INPUTS]) and `out`. */
size_t instructions_head(char *to, size_t room);
/* One instruction and the stores of its results; then `out` is INPUTS results further.  `label` is its own. */
size_t instruction_emit(char *to, size_t room, const char *text, InstructionMode mode, int label);

/* The same at each call.  With `whole` all threads take part. */
void instruction_inputs(InstructionInput in[INPUTS], bool whole);

#endif
