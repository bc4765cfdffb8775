/* Plans written by hand, for tests of the passes after fuse.
 *
 *     # comment
 *     forward p0 -> 1000            a kernel that reads parameter 0 and writes value 0, 1000 bytes
 *     forward 0 i0 -> 500, 8@out0   reads value 0 and input 0; writes values 1 and 2, the latter output 0
 *     remat3 0 -> 500               part of remat 3
 *     backward 1 workspace 64 -> 400
 *     update 4 p0 -> 1000@p0        in place over parameter 0 (s0: state, g0: gradient) */
#ifndef FUSEC_TESTS_PLAN_TEXT_H
#define FUSEC_TESTS_PLAN_TEXT_H
#include "passes/memory/memory.h"

Plan *plan_read(Arena *a, const char *text); /* NULL if it cannot be read; homes set, not settled, no order */
PassContext plan_context(Arena *a, const char *target); /* reports of errors end the process */

#endif
