/* Runs compiled models for a test until its standard input ends (tests/tools/c99_runner.h).  Whatever a model is given,
 * blocks, arrays of pointers, extents, is an allocation of exactly its size: an address sanitizer sees every byte that
 * the model touches beside it. */
#include "tests/tools/c99_runner.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct Block {
    char *memory; /* to be freed */
    char *data;
    uint64_t bytes;
} Block;

/* A block of no bytes begins where its allocation ends. */
static Block block_new(uint64_t bytes, size_t align) {
    Block b = {.bytes = bytes};
    if (posix_memalign((void **)&b.memory, align, bytes ? bytes : align)) abort();
    b.data = bytes ? b.memory : b.memory + align;
    return b;
}

static Block block_read(uint64_t bytes, size_t align) {
    Block b = block_new(bytes, align);
    if (bytes && fread(b.data, 1, bytes, stdin) != bytes) exit(2);
    return b;
}

static int32_t run(const RunnerCall *c, const Block *hypers, const Block *syms, const Block *block) {
    const fusec_memory memory = {block[0].data, block[0].bytes, block[1].data, block[1].bytes,
                                 block[2].data, block[2].bytes, block[3].data, block[3].bytes};
    const size_t n_in = (size_t)c->n_inputs, n_out = (size_t)c->n_outputs;
    const Block inputs = block_new(n_in * sizeof(void *), sizeof(void *)),
                outputs = block_new(n_out * sizeof(void *), sizeof(void *));
    for (size_t i = 0; i < n_in; i++) ((const void **)inputs.data)[i] = block[RUNNER_INPUT0 + i].data;
    for (size_t i = 0; i < n_out; i++) ((void **)outputs.data)[i] = block[RUNNER_INPUT0 + n_in + i].data;
    const fusec_status s =
        runner_programs[c->program](&memory, c->entry, (const void *const *)inputs.data, (void *const *)outputs.data,
                                    (const float *)hypers->data, c->step, c->seed, (const int32_t *)syms->data);
    free(inputs.memory);
    free(outputs.memory);
    return (int32_t)s;
}

int main(void) {
    RunnerCall c;
    while (fread(&c, sizeof c, 1, stdin) == 1) {
        const size_t n = RUNNER_INPUT0 + (size_t)c.n_inputs + (size_t)c.n_outputs, pointer = sizeof(void *);
        const Block hypers = block_read(sizeof(float) * (size_t)c.n_hypers, pointer),
                    syms = block_read(sizeof(int32_t) * (size_t)c.n_syms, pointer),
                    bytes = block_read(sizeof(uint64_t) * n, pointer);
        Block *block = malloc(n * sizeof *block);
        if (!block) return 2;
        for (size_t i = 0; i < n; i++)
            block[i] = block_read(((const uint64_t *)bytes.data)[i], i < RUNNER_INPUT0 ? (size_t)c.align : pointer);
        const int32_t status = run(&c, &hypers, &syms, block);
        if (fwrite(&status, sizeof status, 1, stdout) != 1) return 2;
        for (size_t i = 0; i < n; i++) {
            if (block[i].bytes && fwrite(block[i].data, 1, block[i].bytes, stdout) != block[i].bytes) return 2;
            free(block[i].memory);
        }
        if (fflush(stdout)) return 2;
        free(block);
        free(hypers.memory);
        free(syms.memory);
        free(bytes.memory);
    }
    return 0;
}
