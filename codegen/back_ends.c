#include "codegen/back_end.h"

#define DEVICE(b, ...) extern const BackEnd back_end_##b;
#include "ir/targets.def"

const BackEnd *const back_ends[] = {
#define DEVICE(b, ...) [BACKEND_##b] = &back_end_##b,
#include "ir/targets.def"
};
