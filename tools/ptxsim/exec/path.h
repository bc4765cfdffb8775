/* Paths: which lanes of a warp stand where.  The stack of a frame begins with the lanes that entered; a branch that
 * splits lanes puts each side above, its siblings: same join, no lane in common.  Below them lies the path that goes on
 * at the join, with all their lanes.  The top path runs; one that waits for lanes of its siblings lets them go first. */
#pragma once
#include "tools/ptxsim/exec/exec.h"

/* False without memory of the host. */
bool push_path(Warp *, int32_t pc, int32_t join, uint32_t mask);
/* The lanes of the top path part at `i`: `taken` at `target`, the rest after it; they join at its post-dominator. */
void diverge(Warp *, const Inst *i, int32_t target, uint32_t taken, uint32_t rest);
/* Lanes that go round and round reading what others write may wait for what others of their warp do next (a lock, a
 * flag): those go first for a while. */
void take_turns(Warp *);
/* The path below the top one in its frame that is its sibling number k (0: the nearest); NULL: there is none. */
Path *sibling(Warp *, int k);
/* The top path waits, a sibling that does not goes first.  Returns where the one that waits is now; NULL: no sibling. */
Path *try_sibling(Warp *);
/* The top path and its siblings give up their join: they become siblings of the lanes that have passed the branch around
 * them, or that wait there, if any.  False: no branch is around them in this frame. */
bool give_up_join(Warp *);
/* Siblings that wait at the instruction where the top one is now become one path with it; false: there were none. */
bool merge_siblings(Warp *);
/* Siblings one of which comes to where another is, whatever happens: they join there. */
void line_up(Warp *);

/* meet.c: *.sync instructions among the lanes that operand e names.  Of the top path, `mask` executes i.  False: others
 * come first, and the instruction is tried again. */
bool meet(Warp *, const Inst *i, uint32_t active, uint32_t mask);
