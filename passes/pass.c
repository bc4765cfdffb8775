/* The pass table as data. */
#include "passes/pass.h"

const PassInfo pass_info[PASS_COUNT] = {
#define PASS(name, along, can_disable, summary) [PASS_##name] = {#name, summary, can_disable, PASS_##along},
#include "passes/passes.def"
#undef PASS
};
