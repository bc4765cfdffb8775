/* The table of one instruction-set level. */
#include "tools/ptxsim/exec/alu.h"
#include "tools/ptxsim/exec/alu_level.h"

extern const AluLevel ALU(alu_level);
extern const struct MatrixKernels ALU(matrix_level);
extern const struct AccessKernels ALU(access_kernels);
#define ALU_TEXT2(level) #level
#define ALU_TEXT(level) ALU_TEXT2(level)
const AluLevel ALU(alu_level) = {
    .name = ALU_TEXT(ALU_LEVEL),
    .matrix = &ALU(matrix_level),
    .access = &ALU(access_kernels),
#define HANDLER(name) .handler[HANDLER_##name] = name,
#define FINDER(name, parameters, arguments) .find_##name = name,
#include "tools/ptxsim/exec/alu.def"
};
