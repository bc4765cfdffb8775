/* For a test's program that calls the model `m` in the form that it has been compiled to: C, an object or PTX.  Memory is filled with
 * ones before a form has it, so that nothing lives on zeros. */
#ifndef FUSEC_TESTS_ANY_FORM_H
#define FUSEC_TESTS_ANY_FORM_H
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); exit(1); } } while (0)

static m model;

#ifdef FUSEC_CUDA_H
#define M_CALLED (&model) /* what m_run() takes */
static inline void begin(void) { MUST(m_init(&model, NULL, NULL) == FUSEC_OK); }
static inline void read_memory(fusec_region r, void *to, size_t bytes) { MUST(fusec_cuda_read(&model.cuda, r, 0, to, bytes) == FUSEC_OK); }
static inline void end(void) { m_free(&model); }
#else
#ifdef FUSEC_HOST_H
#define M_CALLED (&model)
#else
#define M_CALLED (&model.memory)
#endif
static m_memory memory;

static inline void *block(size_t n) {
    void *p = aligned_alloc(256, (n / 256 + 2) * 256);
    MUST(p);
    return memset(p, 0xff, n);
}
/* From the seed's parameters on. */
static inline void begin(void) {
    const m_memory new = {.params = block(M_PARAM_BYTES), .param_bytes = M_PARAM_BYTES, .states = block(M_STATE_BYTES),
        .state_bytes = M_STATE_BYTES, .grads = block(M_GRAD_BYTES), .grad_bytes = M_GRAD_BYTES, .arena = block(M_ARENA_BYTES),
        .arena_bytes = M_ARENA_BYTES};
    memory = new;
    MUST(m_init(&model, &memory, NULL) == FUSEC_OK);
}
static inline void read_memory(fusec_region r, void *to, size_t bytes) {
    MUST(r == FUSEC_R_PARAM || r == FUSEC_R_GRAD);
    memcpy(to, r == FUSEC_R_PARAM ? memory.params : memory.grads, bytes);
}
static inline void end(void) {
#ifdef FUSEC_HOST_H
    m_free(&model);
#endif
    free(memory.params), free(memory.states), free(memory.grads), free(memory.arena);
}
#endif
#endif
