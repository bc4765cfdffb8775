/* The table of one instruction-set level. */
#include "tools/ptxsim/exec/alu.h"
#include "tools/ptxsim/exec/alu_level.h"

extern const AluLevel ALU(alu_level);
const AluLevel ALU(alu_level) = {
#define HANDLER(name) .handler[HANDLER_##name] = name,
#define FINDER(name, parameters, arguments) .find_##name = name,
#include "tools/ptxsim/exec/alu.def"
};
