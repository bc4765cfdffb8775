/* What passes between a test (tests/support/runner.h) and a runner, a program that holds compiled models and runs them
 * under the sanitizers it was built with.  One machine, so in its own byte order.
 *
 * Request, on standard input: RunnerCall; float hypers[n_hypers]; int32_t syms[n_syms]; uint64_t bytes[blocks]; the
 * contents of every block.  Blocks: params, states, grads, arena, then the inputs, then the outputs.
 * Reply, on standard output: int32_t status (fusec_status), then the contents of every block. */
#ifndef FUSEC_TESTS_C99_RUNNER_H
#define FUSEC_TESTS_C99_RUNNER_H
#include "runtime/common/fusec.h"

enum { RUNNER_INPUT0 = 4 }; /* the block of the first input */

typedef struct RunnerCall {
    int32_t program; /* into runner_programs */
    int32_t entry, step;
    uint32_t seed;
    int32_t align; /* of the first four blocks */
    int32_t n_hypers, n_syms, n_inputs, n_outputs;
} RunnerCall;

/* MODEL_run of a model's header. */
typedef fusec_status RunnerProgram(const fusec_memory *memory, int entry, const void *const *inputs,
                                   void *const *outputs, const float *hyper, int32_t step, uint32_t seed,
                                   const int32_t *syms);
/* The models it was linked with: a file that the test writes. */
extern RunnerProgram *const runner_programs[];

#endif
