/* How a product of tiles is made: decided once, before its code is, from the Tile IR and the machine alone. */
#ifndef FUSEC_CODEGEN_SCHEDULE_FORMS_H
#define FUSEC_CODEGEN_SCHEDULE_FORMS_H
#include "codegen/schedule/schedule.h"
#include "ir/host_work.h"

typedef enum HostForm {
#define FORM(e, text, plan, choose, emit) FORM_##e,
#include "codegen/schedule/forms.def"
#undef FORM
    N_HOST_FORMS
} HostForm;

typedef struct FormPlan {
    const HostPlan *at;
    const Inst *dot;
    int storage; /* of C */
    Storage c;   /* which lies so; Values may get more of them while code is emitted */
    HostForm form;
    bool fits;
    HostSchedule s; /* what the dot says, and when all is chosen, all */
    HostWork work;  /* of one tile */
    void *of_form;  /* what the form has found out */
    bool pairs;     /* multiplies pairs of bf16, unconverted */
    bool starts;    /* its code can begin from zero */
    bool whole;     /* all sums are made at once, and only lanes that exist are written */
    bool exact; /* else: only lanes that exist can be written, if C has no axes but `rows` (-1: none) and `columns` */
    int rows, columns;
    const Inst *loop, *store; /* of START_FRESH: whose zero carry is not written; of START_STORES: whose place it writes */
    int carry;
    const char *why[N_HOST_FORMS]; /* why not by a form in front of `form`; NULL: the product is not of its kind */
} FormPlan;

/* The form that the dot is `by`, or else the cheapest; NULL: that form does not fit. */
FormPlan *form_choose(const HostPlan *at, const Inst *dot, int storage);

/* The plans of a kernel's dots, in the order of its text. */
typedef struct FormPlans {
    VEC(FormPlan *) of;
    const Inst *no; /* a dot that cannot be made as it says; NULL: all can */
} FormPlans;
/* Whole plans: of which nothing is left to be decided. */
FormPlans form_plan_all(const HostPlan *at);
/* starts.c: which dots begin from zero, and where those write. */
void form_find_starts(FormPlans *plans, const HostPlan *at);

/* Writes into each dot how it is made: form, blocks, ways of the factors, start. */
void form_schedule(Arena *a, Kernel *k, const HostMachine *m);
/* Bit By: the forms that fit, in whatever order they stand. */
unsigned form_fits(const FormPlan *p);
static inline By form_by(HostForm f) { return (By)(BY_WINDOW + (int)f); }
const char *host_form_text(HostForm f);

/* ---- for the forms ---- */
/* Notes why the form at hand does not fit a product of its kind; false. */
bool form_refuse(FormPlan *p, const char *why);
/* No loop of the kernel goes over an axis that it sums. */
bool form_sums_at_once(const FormPlan *p);

/* Sets a field that is not given; false: it is, and not one of `allowed`. */
static inline bool form_count(int *field, int chosen) {
    if (*field == 0) *field = chosen;
    return *field == chosen;
}
static inline bool form_way(FactorWay *field, FactorWay chosen, unsigned allowed) {
    if (*field == WAY_NONE) *field = chosen;
    return allowed >> *field & 1;
}

static inline const Storage *form_storage(const FormPlan *p) { return &p->c; }

/* The roles of the axes of a matrix product: rows are X's and C's, columns Y's and C's trailing ones, sums of both
 * factors. */
typedef struct MatrixRoles {
    int x, y; /* values */
    TileType rows, columns, over;
} MatrixRoles;
const char *form_matrix_roles(const FormPlan *p, MatrixRoles *r); /* NULL, or why there are none */

#define FORM(e, text, plan, choose, emit) \
    bool plan(FormPlan *p);               \
    bool choose(FormPlan *p);
#include "codegen/schedule/forms.def"
#undef FORM

#endif
