/* Which form a product takes, and plain loops, which take them all. */
#include "codegen/host/forms.h"

static const struct {
    const char *text;
    bool (*plan)(FormPlan *p);
    void (*emit)(const FormPlan *p, const DotResult *to, const Inst *store);
} form[] = {
#define FORM(e, text, plan, emit) {text, plan, emit},
#include "codegen/host/forms.def"
#undef FORM
};

const char *host_form_text(HostForm f) { return form[f].text; }

bool form_refuse(FormPlan *p, const char *why) {
    p->why[p->form] = why;
    return false;
}

bool form_sums_at_once(const FormPlan *p) {
    for (int o = 0; o < p->dot->n_over; o++) {
        const Axis *x = &p->ke->k->axes.at[p->dot->over[o]];
        if (x->extent.bound > x->step) return false;
    }
    return true;
}

FormPlan *form_choose(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m) {
    FormPlan *p = arena_alloc(ke->arena, sizeof *p);
    *p = (FormPlan){.ke = ke, .dot = dot, .storage = storage, .machine = m};
    while (!form[p->form].plan(p)) p->form++;
    return p;
}

void form_emit(const FormPlan *p, const DotResult *to, const Inst *store) { form[p->form].emit(p, to, store); }

/* ---- roles ------------------------------------------------------------------------------------------------------- */
/* Keeps the axes increasing. */
static void add_axis(TileType *t, int axis) {
    int i = t->n_axes++;
    for (; i > 0 && t->axis[i - 1] > axis; i--) t->axis[i] = t->axis[i - 1];
    t->axis[i] = (int8_t)axis;
}

const char *form_matrix_roles(const FormPlan *p, MatrixRoles *r) {
    const Kernel *k = p->ke->k;
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
            return "an axis is of both factors and the result";
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
bool loops_plan(FormPlan *p) {
    (void)p;
    return true;
}

void loops_emit(const FormPlan *p, const DotResult *to, const Inst *store) {
    const Kernel *k = p->ke->k;
    TileType axes = tile_type_union(k->types.at[p->dot->in[0]], k->types.at[p->dot->in[1]]);
    axes = tile_type_union(axes, k->types.at[p->dot->result]);
    Sink sink = {.kind = SINK_DOT, .inst = p->dot, .value = -1, .storage = p->storage};
    (void)to, (void)store; /* it does not start */
    nest_emit(p->ke, &axes, 1, &sink);
}

/* ---- all of a kernel --------------------------------------------------------------------------------------------- */
typedef struct Products {
    KernelEmit *ke;
    const HostMachine *machine;
    VEC(FormPlan *) plans;
} Products;

static void find_products(Products *f, const Block *b) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->kind == TI_DOT)
            vec_push(f->ke->arena, f->plans, form_choose(f->ke, i, f->ke->v->value[i->result].storage, f->machine));
        find_products(f, &i->body);
    }
}

int form_products(Arena *a, const Kernel *k, const HostMachine *m, FormPlan ***of) {
    Values *v = arena_alloc(a, sizeof *v);
    KernelEmit *ke = arena_alloc(a, sizeof *ke);
    *ke = (KernelEmit){.k = k, .v = v, .arena = a, .masks = m->masks};
    values_plan(v, a, k, m->vector);
    Products f = {.ke = ke, .machine = m};
    find_products(&f, &k->body);
    *of = f.plans.at;
    return f.plans.n;
}
