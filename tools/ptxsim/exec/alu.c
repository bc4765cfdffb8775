/* Which instruction-set level the arithmetic runs at. */
#include "tools/ptxsim/exec/alu_level.h"
#include <stdlib.h>

/* Levels from the lowest to the highest; tools/CMakeLists.txt says which are compiled. */
extern const AluLevel alu_level_baseline;
#ifdef PTXSIM_X86_LEVELS
extern const AluLevel alu_level_v3, alu_level_v4;
static bool has_v3(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
static bool has_v4(void) {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

const AluLevel *alu_level(void) {
#ifdef PTXSIM_X86_LEVELS
    const char *text = getenv("PTXSIM_ISA");
    const int most = !text || !*text ? 4 : strcmp(text, "baseline") == 0 ? 1 : strcmp(text, "v3") == 0 ? 3 : 4;
    if (most >= 4 && has_v4()) return &alu_level_v4;
    if (most >= 3 && has_v3()) return &alu_level_v3;
#endif
    return &alu_level_baseline;
}

/* The handlers as the lowering names them; alu_direct leaves this step out. */
#define HANDLER(name) \
    void name(Warp *w, const Inst *i, uint32_t mask) { alu_level()->handler[HANDLER_##name](w, i, mask); }
#define FINDER(name, parameters, arguments) \
    ExecFn name parameters { return alu_level()->find_##name arguments; }
#include "tools/ptxsim/exec/alu.def"

ExecFn alu_direct(ExecFn run) {
    static const ExecFn NAMED[HANDLER_COUNT] = {
#define HANDLER(name) name,
#include "tools/ptxsim/exec/alu.def"
    };
    for (int k = 0; k < HANDLER_COUNT; k++)
        if (NAMED[k] == run) return alu_level()->handler[k];
    return run;
}
