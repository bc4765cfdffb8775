/* The rules' texts, in the order of their numbers. */
#include "passes/rules.h"

const char *const rule_text[RULE_COUNT] = {
#define REWRITE(name, summary) #name ": " summary,
#include "passes/rewrites.def"
#undef REWRITE
#define RULE(op, pattern, replacement, where) pattern " -> " replacement,
#include "passes/rules.def"
#undef RULE
#define FUSION(name, summary) #name ": " summary,
#include "passes/fusions.def"
#undef FUSION
};
