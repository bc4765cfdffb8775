/* Text of a plan: one line per kernel in execution order, then every buffer with memory. */
#include "passes/pass.h"
#include <inttypes.h>

static const char *const phase_name[] = {
    [PHASE_FORWARD] = "forward", [PHASE_BACKWARD] = "backward", [PHASE_UPDATE] = "update"};
static const char *const home_name[] = {
    [HOME_NONE] = "none", [HOME_SOURCE] = "source", [HOME_ARENA] = "arena", [HOME_OUTPUT] = "output",
    [HOME_GRAD] = "grad", [HOME_PARAM] = "param",   [HOME_STATE] = "state"};

static void print_ids(FILE *f, const char *label, Node *const *nodes, int n) {
    fprintf(f, "%s", label);
    for (int i = 0; i < n; i++) fprintf(f, "%s%%%d", i ? ", " : " ", nodes[i]->id);
}

static void print_kernel(FILE *f, const Plan *p, int k) {
    const PlanKernel *pk = &p->kernels.at[k];
    fprintf(f, "  k%d %s", k, phase_name[pk->phase]);
    print_ids(f, " reads", pk->reads.at, pk->reads.n);
    print_ids(f, " writes", pk->outputs.at, pk->outputs.n);
    if (pk->workspace) fprintf(f, " workspace %" PRId64, pk->workspace);
    if (pk->workspace && p->arena_bytes) fprintf(f, " at %" PRId64, pk->workspace_offset);
    fprintf(f, "\n");
}

static void print_buffer(FILE *f, const Plan *p, const Node *n) {
    const PlanBuffer *b = &p->buffer[n->id];
    fprintf(f, "  %%%d %s", n->id, home_name[b->home]);
    if (b->home == HOME_ARENA)
        fprintf(f, " %" PRId64 " bytes", b->bytes);
    else
        fprintf(f, " %d", b->decl);
    if (b->output) fprintf(f, " or output %d", b->output - 1);
    if (b->within) fprintf(f, " in %%%d", b->within->id);
    if (b->home == HOME_ARENA && p->arena_bytes) fprintf(f, " at %" PRId64, b->offset);
    if (n->remat) fprintf(f, " remat %d", n->remat);
    fprintf(f, "\n");
}

void plan_print(FILE *f, const Plan *p) {
    fprintf(f, "plan %s\n", entry_name[p->graph->entry]);
    for (int i = 0; i < p->kernels.n; i++) print_kernel(f, p, p->order ? p->order[i] : i);
    fprintf(f, "buffers\n");
    for (int k = 0; k < p->kernels.n; k++)
        for (int i = 0; i < p->kernels.at[k].outputs.n; i++) print_buffer(f, p, p->kernels.at[k].outputs.at[i]);
    if (p->arena_bytes) fprintf(f, "arena %" PRId64 " bytes, at least %" PRId64 "\n", p->arena_bytes, p->lower_bound);
}
