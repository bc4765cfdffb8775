/* float64 evaluation of movement, reductions and indexed ops. */
#include "ir/eval.h"
#include <math.h>
#include <string.h>

/* ---- reads: out[i] = in[start + step * i] --------------------------------------------------- */

/* Per output dim: the input dim it walks along (-1: none), from where, in which steps. */
typedef struct MoveView {
    int dim[MAX_RANK];
    int64_t start[MAX_RANK], step[MAX_RANK];
} MoveView;

/* Where the reads of output dim d, index i, stand in the input; false: outside. */
static bool read_at(const EvalNode *e, const MoveView *v, const int64_t *stride, int d, int64_t i, int64_t *at) {
    if (v->dim[d] < 0) return true;
    const int64_t x = v->start[d] + v->step[d] * i;
    *at += x * stride[v->dim[d]];
    return x >= 0 && x < e->in[0]->dim[v->dim[d]];
}

/* Reads outside the input give `outside`.  Row by row: the dims but the last are looked at once for each row. */
static void read_view(EvalNode *e, const MoveView *v, double outside) {
    const double *in = e->in[0]->data;
    const int last = e->out->rank - 1;
    const int64_t n = tensor_elements(e->out), width = last < 0 ? 1 : e->out->dim[last];
    int64_t stride[MAX_RANK], index[MAX_RANK] = {0};
    Tensor rows = *e->out;
    if (last >= 0) rows.dim[last] = 1;
    tensor_strides(e->in[0], stride);
    for (int64_t row = 0; row < n; row += width) {
        int64_t at = 0;
        bool inside = true;
        for (int d = 0; d < last; d++) inside &= read_at(e, v, stride, d, index[d], &at);
        for (int64_t i = 0; i < width; i++) {
            int64_t place = at;
            const bool there = inside && (last < 0 || read_at(e, v, stride, last, i, &place));
            e->out->data[row + i] = there ? in[place] : outside;
        }
        tensor_next(&rows, index);
    }
}

static MoveView identity_view(int rank) {
    MoveView v = {0};
    for (int d = 0; d < rank; d++) {
        v.dim[d] = d;
        v.start[d] = 0;
        v.step[d] = 1;
    }
    return v;
}

static void eval_reshape(EvalNode *e) {
    int64_t n = tensor_elements(e->out);
    if (n == tensor_elements(e->in[0])) {
        memcpy(e->out->data, e->in[0]->data, sizeof(double) * (size_t)n);
    } else {
        e->error = arena_printf(e->arena, "%%%d: reshape changes the number of elements", e->node->id);
    }
}

static void eval_transpose(EvalNode *e) {
    MoveView v = identity_view(e->out->rank);
    for (int d = 0; d < e->out->rank; d++) v.dim[d] = e->node->attr->axes[d];
    read_view(e, &v, 0);
}

static void eval_broadcast(EvalNode *e) {
    MoveView v = identity_view(e->out->rank);
    for (int d = 0; d < e->out->rank; d++) v.dim[d] = -1;
    for (int d = 0; d < e->in[0]->rank; d++) v.dim[e->node->attr->axes[d]] = d;
    read_view(e, &v, 0);
}

static void eval_slice(EvalNode *e) {
    MoveView v = identity_view(e->out->rank);
    for (int d = 0; d < e->out->rank; d++) {
        v.start[d] = dim_at(e->node->attr->lo[d], e->env->syms);
        v.step[d] = e->node->attr->step[d];
    }
    read_view(e, &v, 0);
}

static void eval_pad(EvalNode *e) {
    MoveView v = identity_view(e->out->rank);
    for (int d = 0; d < e->out->rank; d++) v.start[d] = -e->node->attr->lo[d].bound;
    read_view(e, &v, e->node->attr->value);
}

static void eval_slice_at(EvalNode *e) {
    MoveView v = identity_view(e->out->rank);
    v.start[0] = (int64_t)e->in[1]->data[0];
    read_view(e, &v, 0);
}

/* ---- writes: out[i + offset along axis] = part[i] ----------------------------------------------- */

static void write_part(Tensor *out, const Tensor *part, int axis, int64_t offset) {
    int64_t stride[MAX_RANK], index[MAX_RANK] = {0}, n = tensor_elements(part);
    tensor_strides(out, stride);
    for (int64_t i = 0; i < n; i++) {
        int64_t place = index[axis] + offset, at = offset * stride[axis];
        for (int d = 0; d < out->rank; d++) at += index[d] * stride[d];
        if (place >= 0 && place < out->dim[axis]) out->data[at] = part->data[i];
        tensor_next(part, index);
    }
}

static void eval_concat(EvalNode *e) {
    int axis = e->node->attr->axis;
    int64_t offset = 0;
    for (int k = 0; k < e->node->n_in; k++) {
        const Tensor *part = &e->values[e->node->in[k]->id];
        write_part(e->out, part, axis, offset);
        offset += part->dim[axis];
    }
}

static void eval_update_at(EvalNode *e) {
    memcpy(e->out->data, e->in[0]->data, sizeof(double) * (size_t)tensor_elements(e->out));
    write_part(e->out, e->in[1], 0, (int64_t)e->in[2]->data[0]);
}

void eval_move(EvalNode *e) {
    switch (e->node->op) {
    case OP_RESHAPE: eval_reshape(e); break;
    case OP_TRANSPOSE: eval_transpose(e); break;
    case OP_BROADCAST: eval_broadcast(e); break;
    case OP_SLICE: eval_slice(e); break;
    case OP_PAD: eval_pad(e); break;
    case OP_CONCAT: eval_concat(e); break;
    case OP_SLICE_AT: eval_slice_at(e); break;
    case OP_UPDATE_AT: eval_update_at(e); break;
    default: e->error = "unknown movement"; break;
    }
}

/* ---- reductions ------------------------------------------------------------------------------------ */

/* Strides into the result for every input dim: 0 for reduced ones.  Strides of the reduced dims among
 * themselves, 0 for kept ones. */
static void reduction_strides(const EvalNode *e, int64_t *kept, int64_t *reduced) {
    const Attr *attr = e->node->attr;
    int64_t kept_size = 1, reduced_size = 1;
    int next = attr->n_axes - 1;
    for (int d = e->in[0]->rank - 1; d >= 0; d--) {
        bool is_reduced = next >= 0 && attr->axes[next] == d;
        next -= is_reduced;
        kept[d] = is_reduced ? 0 : kept_size;
        reduced[d] = is_reduced ? reduced_size : 0;
        *(is_reduced ? &reduced_size : &kept_size) *= e->in[0]->dim[d];
    }
}

/* NaN is greater than all numbers. */
static bool exceeds(double x, double most) { return x > most || (isnan(x) && !isnan(most)); }

static void eval_argmax(EvalNode *e, const int64_t *kept, const int64_t *reduced) {
    const Tensor *in = e->in[0];
    int64_t index[MAX_RANK] = {0}, n = tensor_elements(in);
    double *best = ARENA_ARRAY(e->arena, double, tensor_elements(e->out));
    bool *seen = ARENA_ARRAY(e->arena, bool, tensor_elements(e->out));
    for (int64_t i = 0; i < n; i++) {
        int64_t to = 0, place = 0;
        for (int d = 0; d < in->rank; d++) {
            to += index[d] * kept[d];
            place += index[d] * reduced[d];
        }
        double x = in->data[i];
        if (!seen[to] || exceeds(x, best[to])) {
            seen[to] = true;
            best[to] = x;
            e->out->data[to] = (double)place;
        }
        tensor_next(in, index);
    }
}

static void eval_fold(EvalNode *e, const int64_t *kept) {
    const Tensor *in = e->in[0];
    Op step = scalar_step(e->node->op);
    DType t = e->node->dtype;
    int64_t index[MAX_RANK] = {0}, n = tensor_elements(in), n_out = tensor_elements(e->out);
    for (int64_t i = 0; i < n_out; i++) e->out->data[i] = scalar_identity(e->node->op, t);
    for (int64_t i = 0; i < n; i++) {
        int64_t to = 0;
        for (int d = 0; d < in->rank; d++) to += index[d] * kept[d];
        e->out->data[to] = scalar_op(step, t, (double[]){e->out->data[to], in->data[i]});
        tensor_next(in, index);
    }
}

static void eval_scan(EvalNode *e) {
    const Attr *attr = e->node->attr;
    const Tensor *in = e->in[0];
    const Op step = attr->scan == SCAN_PROD ? OP_MUL : OP_ADD;
    const Tensor *factor = attr->scan == SCAN_LINEAR ? e->in[1] : NULL;
    int64_t stride[MAX_RANK], n = tensor_elements(in), length = in->dim[attr->axis];
    if (n == 0) return;
    tensor_strides(in, stride);
    int64_t inner = stride[attr->axis], lines = n / length;
    for (int64_t line = 0; line < lines; line++) {
        int64_t base = line / inner * inner * length + line % inner;
        double sum = attr->scan == SCAN_PROD ? 1 : 0;
        for (int64_t k = 0; k < length; k++) {
            int64_t at = base + (attr->reverse ? length - 1 - k : k) * inner;
            if (factor) sum = factor->data[at] == 0 ? 0 : scalar_op(OP_MUL, e->node->dtype, (double[]){factor->data[at], sum});
            double with = scalar_op(step, e->node->dtype, (double[]){sum, in->data[at]});
            e->out->data[at] = attr->exclusive ? sum : with;
            sum = with;
        }
    }
}

void eval_reduce(EvalNode *e) {
    int64_t kept[MAX_RANK], reduced[MAX_RANK];
    if (e->node->op == OP_SCAN) {
        eval_scan(e);
        return;
    }
    reduction_strides(e, kept, reduced);
    if (e->node->op == OP_ARGMAX) {
        eval_argmax(e, kept, reduced);
    } else {
        eval_fold(e, kept);
    }
}

/* ---- indexed --------------------------------------------------------------------------------------------- */

/* A counting sort: of the ids that are rows. */
static void eval_bucket(EvalNode *e) {
    const int64_t rows = e->node->attr->extent.bound, n = tensor_elements(e->in[0]);
    double *first = e->out->data, *places = first + rows + 1;
    for (int64_t r = 0, at = 0; r <= rows; r++) {
        first[r] = (double)at;
        for (int64_t i = 0; i < n && r < rows; i++)
            if ((int64_t)e->in[0]->data[i] == r) places[at++] = (double)i;
    }
}

static void fill(const Tensor *t, double x) {
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++) t->data[i] = x;
}

/* Of each element of the result the position whose element is the first of the greatest, NaN among them. */
static void eval_scatter_argmax(EvalNode *e) {
    const Tensor *ids = e->in[1], *out = e->out;
    const int64_t n = tensor_elements(ids);
    int64_t row = 1;
    for (int d = 1; d < out->rank; d++) row *= out->dim[d];
    fill(out, -1);
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = (int64_t)ids->data[i];
        for (int64_t c = 0; c < row && r >= 0 && r < out->dim[0]; c++) {
            double *first = &out->data[r * row + c];
            const double x = e->in[0]->data[i * row + c], most = *first < 0 ? 0 : e->in[0]->data[(int64_t)*first * row + c];
            if (*first < 0 || exceeds(x, most)) *first = (double)i;
        }
    }
}

/* The others walk ids and move rows of `row` elements: out of the table, or onto the result. */
void eval_indexed(EvalNode *e) {
    if (e->node->op == OP_BUCKET) {
        eval_bucket(e);
        return;
    }
    if (e->node->op == OP_SCATTER_ARGMAX) {
        eval_scatter_argmax(e);
        return;
    }
    bool gather = e->node->op == OP_GATHER;
    const Op reduce = op_scattered(e->node->op), step = scalar_step(reduce);
    const Tensor *ids = e->in[1], *table = gather ? e->in[0] : e->out;
    int64_t n = tensor_elements(ids), rows = table->dim[0], row = 1;
    for (int d = 1; d < table->rank; d++) row *= table->dim[d];
    if (!gather) fill(e->out, scalar_identity(reduce, e->node->dtype));
    for (int64_t i = 0; i < n; i++) {
        int64_t r = (int64_t)ids->data[i];
        if (r < 0 || r >= rows) continue;
        double *flat = (gather ? e->out : e->in[0])->data + i * row, *at = table->data + r * row;
        for (int64_t c = 0; c < row; c++) {
            if (gather) {
                flat[c] = at[c];
            } else {
                at[c] = scalar_op(step, e->node->dtype, (double[]){at[c], flat[c]});
            }
        }
    }
}
