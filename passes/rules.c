/* The rules' texts, in the order of their numbers. */
#include "passes/rules.h"

const char *const rule_text[RULE_COUNT] = {
#define REWRITE(name, summary) #name ": " summary,
#include "passes/rewrite/rewrites.def"
#undef REWRITE
#define RULE(op, pattern, replacement, where) pattern " -> " replacement,
#include "passes/rewrite/rules.def"
#undef RULE
#define FUSION(name, summary) #name ": " summary,
#include "passes/plan/fusions.def"
#undef FUSION
};
