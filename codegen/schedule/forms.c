/* Which form a product takes, and plain loops, which take them all. */
#include "codegen/schedule/forms.h"

static const struct {
    const char *text;
    bool (*plan)(FormPlan *p), (*choose)(FormPlan *p);
} form[] = {
#define FORM(e, text, plan, choose, emit) {text, plan, choose},
#include "codegen/schedule/forms.def"
#undef FORM
};

#define FORM(e, text, plan, choose, emit) \
    _Static_assert((int)BY_##e == BY_WINDOW + FORM_##e, "By has the forms in their order");
#include "codegen/schedule/forms.def"
#undef FORM

const char *host_form_text(HostForm f) { return form[f].text; }

bool form_refuse(FormPlan *p, const char *why) {
    p->why[p->form] = why;
    return false;
}

bool form_sums_at_once(const FormPlan *p) {
    for (int o = 0; o < p->dot->n_over; o++) {
        const Axis *x = &p->at->k->axes.at[p->dot->over[o]];
        if (x->extent.bound > x->step) return false;
    }
    return true;
}

/* The form, if it fits. */
static FormPlan *plan_by(const HostPlan *at, const Inst *dot, int storage, HostForm f) {
    FormPlan *p = ARENA_NEW(at->arena, FormPlan);
    *p = (FormPlan){.at = at, .dot = dot, .storage = storage, .c = at->v->storage.at[storage], .form = f, .s = dot->host};
    p->fits = form[f].plan(p);
    return p;
}

FormPlan *form_choose(const HostPlan *at, const Inst *dot, int storage) {
    const double MARGIN = 0.9; /* one that stands behind has to be faster by more than the model knows */
    FormPlan *of[N_HOST_FORMS], *best = NULL;
    if (by_is_host_form(dot->by)) {
        best = plan_by(at, dot, storage, (HostForm)(dot->by - BY_WINDOW));
        return host_schedule_is_of(dot->by, &dot->host) && best->fits ? best : NULL;
    }
    for (int f = 0; f < N_HOST_FORMS; f++) {
        of[f] = plan_by(at, dot, storage, (HostForm)f);
        const bool faster = !best || host_cycles(of[f]->work) < MARGIN * host_cycles(best->work);
        if (of[f]->fits && faster) best = of[f];
    }
    for (int f = 0; f < (int)best->form; f++)
        best->why[f] = !of[f]->fits ? of[f]->why[f]
                                    : arena_printf(at->arena, "it would take %.1f times as long",
                                                   host_cycles(of[f]->work) / host_cycles(best->work));
    return best;
}

unsigned form_fits(const FormPlan *p) {
    unsigned bits = 0;
    for (int f = 0; f < N_HOST_FORMS; f++)
        if (plan_by(p->at, p->dot, p->storage, (HostForm)f)->fits) bits |= 1u << form_by((HostForm)f);
    return bits;
}

bool form_is_chosen(FormPlan *p) {
    (void)p;
    return true;
}

/* ---- roles ------------------------------------------------------------------------------------------------------- */
/* Keeps the axes increasing. */
static void add_axis(TileType *t, int axis) {
    int i = t->n_axes++;
    for (; i > 0 && t->axis[i - 1] > axis; i--) t->axis[i] = t->axis[i - 1];
    t->axis[i] = (int8_t)axis;
}

const char *form_matrix_roles(const FormPlan *p, MatrixRoles *r) {
    const Kernel *k = p->at->k;
    const Storage *c = form_storage(p);
    const TileType *a = &k->types.at[p->dot->in[0]], *b = &k->types.at[p->dot->in[1]];
    if (c->n_columns == 0) return "its result has no columns";
    const bool swapped = tile_type_has(a, c->axis[c->n - 1]);
    const TileType *x = swapped ? b : a, *y = swapped ? a : b;
    *r = (MatrixRoles){.x = p->dot->in[swapped], .y = p->dot->in[!swapped]};
    if (x->dtype != DT_F32 || y->dtype != DT_F32 || c->dtype != DT_F32) return "it is not of f32";
    for (int i = 0; i < c->n; i++) {
        const int axis = c->axis[i];
        const bool column = i >= c->n - c->n_columns;
        if (tile_type_has(x, axis) == column || tile_type_has(y, axis) != column)
            return "it has a batch axis, of both factors and the result";
        add_axis(column ? &r->columns : &r->rows, axis);
    }
    for (int i = 0; i < p->dot->n_over; i++) {
        const int axis = p->dot->over[i];
        if (!tile_type_has(x, axis) || !tile_type_has(y, axis)) return "one factor alone is summed over an axis";
        if (!axis_trivial(k, axis)) add_axis(&r->over, axis);
    }
    return NULL;
}

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
static double lanes_of(const Kernel *k, const TileType *t) {
    double n = 1;
    for (int i = 0; i < t->n_axes; i++) n *= k->axes.at[t->axis[i]].step;
    return n;
}

/* Each step loads both factors and a result, and stores it. */
bool loops_plan(FormPlan *p) {
    const Kernel *k = p->at->k;
    const TileType *x = &k->types.at[p->dot->in[0]], *y = &k->types.at[p->dot->in[1]];
    double sums = 1;
    for (int i = 0; i < p->dot->n_over; i++) sums *= k->axes.at[p->dot->over[i]].step;
    const double products = sums * (double)form_storage(p)->elements / p->at->machine->vector;
    p->work = (HostWork){.products = products,
                         .loads = 4 * products,
                         .read = (lanes_of(k, x) + lanes_of(k, y)) / p->at->machine->vector};
    return true;
}

/* ---- all of a kernel --------------------------------------------------------------------------------------------- */
HostPlan host_plan(Arena *a, const Kernel *k, const HostMachine *m) {
    const HostPlan kp = {.k = k, .machine = m, .v = ARENA_NEW(a, Values), .arena = a};
    values_plan(kp.v, a, k, m->vector);
    return kp;
}

static void plan_block(const HostPlan *at, const Block *b, FormPlans *plans) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        plan_block(at, &i->body, plans);
        if (i->kind != TI_DOT) continue;
        FormPlan *p = form_choose(at, i, at->v->value[i->result].storage);
        if (!p) plans->no = i;
        if (p) vec_push(at->arena, plans->of, p);
    }
}

FormPlans form_plan_all(const HostPlan *at) {
    FormPlans plans = {.no = NULL};
    plan_block(at, &at->k->body, &plans);
    form_find_starts(&plans, at);
    for (int i = 0; i < plans.of.n; i++) {
        FormPlan *p = plans.of.at[i];
        if (!form[p->form].choose(p)) plans.no = p->dot;
    }
    return plans;
}

static void undecide(const Block *b) {
    for (int n = 0; n < b->n; n++) {
        undecide(&b->at[n]->body);
        if (b->at[n]->kind == TI_DOT) b->at[n]->by = BY_NONE, b->at[n]->host = (HostSchedule){.sums = 0};
    }
}

static void decide(const Block *b, FormPlan *const **next) {
    for (int n = 0; n < b->n; n++) {
        decide(&b->at[n]->body, next);
        if (b->at[n]->kind != TI_DOT) continue;
        const FormPlan *p = *(*next)++;
        b->at[n]->by = form_by(p->form);
        b->at[n]->host = p->s;
    }
}

void form_schedule(Arena *a, Kernel *k, const HostMachine *m) {
    undecide(&k->body);
    const HostPlan at = host_plan(a, k, m);
    const FormPlans plans = form_plan_all(&at);
    FormPlan *const *next = plans.of.at;
    decide(&k->body, &next);
}
