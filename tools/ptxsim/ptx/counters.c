#include "tools/ptxsim/ptx/counters.h"

const char *mix_name(Mix m) {
    static const char *const NAMES[] = {
#define MIX(id, name) name,
#include "tools/ptxsim/ptx/mix.def"
    };
    return m < MIX_COUNT ? NAMES[m] : "?";
}

void counters_add(Counters *to, const Counters *c) {
    for (int k = 0; k < CLASS_COUNT; k++) to->kind[k] += c->kind[k];
#define COUNTER(name, meaning) to->name += c->name;
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
}
