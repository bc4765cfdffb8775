/* Every rule by number: rewrites that are functions (rewrites.def), those that are data (rules.def), and fuse's ways
 * into a kernel (fusions.def).  Tests count how often each fires: PassContext.fired. */
#ifndef FUSEC_PASSES_RULES_H
#define FUSEC_PASSES_RULES_H

typedef enum {
#define REWRITE(name, summary) REWRITE_##name,
#include "passes/rewrite/rewrites.def"
#undef REWRITE
    REWRITE_COUNT,
    REWRITE_END = REWRITE_COUNT /* of a list */
} RewriteId;

enum {
    PATTERN_COUNT = 0
#define RULE(op, pattern, replacement, where) +1
#include "passes/rewrite/rules.def"
#undef RULE
};

typedef enum {
#define FUSION(name, summary) FUSION_##name,
#include "passes/plan/fusions.def"
#undef FUSION
    FUSION_COUNT
} FusionId;

/* Numbers of all rules: rewrites, then patterns in the order of rules.def, then fusions. */
enum {
    RULE_PATTERN = REWRITE_COUNT,
    RULE_FUSION = RULE_PATTERN + PATTERN_COUNT,
    RULE_COUNT = RULE_FUSION + FUSION_COUNT
};

/* What it does, in words or as "pattern -> replacement". */
extern const char *const rule_text[RULE_COUNT];

#endif
