/* Figures of kernels, from counters.def and mix.def. */
#pragma once
#include <stdint.h>

enum { CLASS_ALU, CLASS_MEMORY, CLASS_CONTROL, CLASS_SYNC, CLASS_COUNT };

typedef enum Mix {
#define MIX(id, name) MIX_##id,
#include "tools/ptxsim/ptx/mix.def"
    MIX_COUNT,
    MIX_TYPED, /* not resolved yet: by the instruction's type, ... */
    MIX_SPACED /* ... by its state space */
} Mix;
const char *mix_name(Mix);

typedef struct Counters {
    uint64_t kind[CLASS_COUNT]; /* of the thread instructions */
#define COUNTER(name, meaning) uint64_t name;
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
} Counters;

void counters_add(Counters *to, const Counters *);
