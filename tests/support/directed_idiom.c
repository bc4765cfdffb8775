/* Expressions of several ops that rewrites and fusion look for, and that pairs of ops alone hardly ever form. */
#include "tests/support/directed.h"

static Shape shape(int rank, int64_t a, int64_t b, int64_t c) { return shape_fixed(rank, (const int64_t[]){a, b, c}); }
static Node *leaf(Directed *x, Shape s) { return directed_leaf(x, DT_F32, s, NEED_SMALL); }
static Node *one(Directed *x, Op op, Node *n, const Attr *at) {
    return directed_emit(x, op, 1, &n, at, shape_scalar());
}
static Node *two(Directed *x, Op op, Node *a, Node *b) {
    return directed_emit(x, op, 2, (Node *[]){a, b}, NULL, shape_scalar());
}
static Node *shaped(Directed *x, Node *n, Shape s) { return directed_emit(x, OP_RESHAPE, 1, &n, NULL, s); }
static Node *along(Directed *x, Op op, Node *n, int axis) {
    return one(x, op, n, &(Attr){.n_axes = 1, .axes = {(int8_t)axis}});
}
static Node *spread(Directed *x, Node *n, Shape s, int a, int b) {
    const Attr at = {.n_axes = n ? n->shape->rank : 0, .axes = {(int8_t)a, (int8_t)b}};
    return directed_emit(x, OP_BROADCAST, 1, &n, &at, s);
}

/* [6, 4] seen as [2, 3, 4]. */
static Node *split(Directed *x) {
    return shaped(x, two(x, OP_ADD, leaf(x, shape(2, 6, 4, 0)), leaf(x, shape(2, 6, 4, 0))), shape(3, 2, 3, 4));
}

static Node *split_element(Directed *x) { return two(x, OP_MUL, split(x), leaf(x, shape(3, 2, 3, 4))); }
static Node *split_reduce(Directed *x) {
    return one(x, pick_below(x, 2) ? OP_SUM : OP_RMAX, split(x), &(Attr){.n_axes = 2, .axes = {0, 1}});
}
static Node *split_scan(Directed *x) {
    return one(x, OP_SCAN, split(x), &(Attr){.axis = 2, .reverse = pick_below(x, 2)});
}
static Node *split_broadcast(Directed *x) {
    const Attr at = {.n_axes = 3, .axes = {1, 2, 3}};
    Node *n = split(x);
    return directed_emit(x, OP_BROADCAST, 1, &n, &at, shape_fixed(4, (const int64_t[]){2, 2, 3, 4}));
}
static Node *split_slice(Directed *x) {
    return one(x, OP_SLICE, split(x),
               &(Attr){.lo = {dim_fixed(0), dim_fixed(0), dim_fixed(1)},
                       .hi = {dim_fixed(2), dim_fixed(3), dim_fixed(2)},
                       .step = {1, 1, 1}});
}
static Node *split_pad(Directed *x) {
    const Dim none = dim_fixed(0);
    return one(x, OP_PAD, split(x), &(Attr){.lo = {none, none, dim_fixed(1)}, .hi = {none, none, none}});
}
static Node *merged_broadcast(Directed *x) {
    return shaped(x, spread(x, leaf(x, shape(1, 4, 0, 0)), shape(3, 2, 3, 4), 2, 0), shape(2, 6, 4, 0));
}
static Node *merged_slice(Directed *x) {
    Node *n = one(x, OP_SLICE, leaf(x, shape(3, 5, 2, 3)),
                  &(Attr){.lo = {dim_fixed(1), dim_fixed(0), dim_fixed(0)},
                          .hi = {dim_fixed(3), dim_fixed(2), dim_fixed(3)},
                          .step = {1, 1, 1}});
    return shaped(x, n, shape(2, 3, 6, 0));
}
static Node *reshaped_random(Directed *x) {
    for (int tries = 0; tries < 10; tries++) {
        Node *n = directed_op(x, OP_RANDOM, NULL, 0);
        if (n && n->shape->rank == 2 && shape_is_fixed(*n->shape))
            return shaped(x, n, shape(1, shape_elements(*n->shape), 0, 0));
    }
    return NULL;
}

static Node *reduced_twice(Directed *x) {
    const Op op = pick_below(x, 2) ? OP_SUM : OP_PROD;
    return along(x, op, along(x, op, leaf(x, shape(3, 2, 2, 3)), 0), pick_below(x, 2));
}
static Node *sum_of_product(Directed *x) {
    Node *a = spread(x, leaf(x, shape(2, 2, 3, 0)), shape(3, 2, 3, 4), 0, 1),
         *b = spread(x, leaf(x, shape(2, 3, 4, 0)), shape(3, 2, 3, 4), 1, 2);
    return along(x, OP_SUM, two(x, OP_MUL, a, b), 1);
}
static Node *empty_concat(Directed *x) {
    const Shape s = shape(2, 3, 4, 0), none = shape(2, 0, 4, 0);
    Node *in[3] = {leaf(x, s), leaf(x, none), leaf(x, s)};
    return directed_emit(x, OP_CONCAT, 2 + pick_below(x, 2), in, &(Attr){.axis = 0}, shape_scalar());
}

/* Lies in one part. */
static Node *slice_of_parts(Directed *x) {
    const int64_t first = pick_below(x, 2) ? 3 : 0;
    Node *in[2] = {leaf(x, shape(2, 3, 4, 0)), leaf(x, shape(2, 3, 4, 0))};
    Node *both = directed_emit(x, OP_CONCAT, 2, in, &(Attr){.axis = 0}, shape_scalar());
    const Attr rows = {.lo = {dim_fixed(first), dim_fixed(1)}, .hi = {dim_fixed(2), dim_fixed(3)}, .step = {1, 1}};
    return both ? one(x, OP_SLICE, both, &rows) : NULL;
}

/* ---- contractions -------------------------------------------------------------------------------------------- */
static Node *contraction(Directed *x, const Contract *c, Node *a, Node *b) {
    return directed_emit(x, OP_CONTRACT, c->n_operands, (Node *[]){a, b}, &(Attr){.contract = c}, shape_scalar());
}

/* a[m, k] b[k, n], under a guard or none. */
static Node *product(Directed *x, Node *a, Node *b, Guard *guard) {
    Affine map[2][MAX_RANK] = {{{.divisor = 1, .coef = {1}}, {.divisor = 1, .coef = {0, 0, 1}}},
                               {{.divisor = 1, .coef = {0, 0, 1}}, {.divisor = 1, .coef = {0, 1}}}};
    if (!a || !b) return NULL;
    const Contract c = {.n_loops = 3,
                        .n_out = 2,
                        .extent = {a->shape->dim[0], b->shape->dim[1], a->shape->dim[1]},
                        .n_operands = 2,
                        .map = map,
                        .n_guards = guard != NULL,
                        .guard = guard};
    return contraction(x, &c, a, b);
}
static Node *idle_guard(Directed *x) {
    Guard g = {.kind = GUARD_RANGE, .e = {.divisor = 1, .coef = {1}}, .lo = 0, .hi = dim_fixed(3)};
    return product(x, leaf(x, shape(2, 3, 4, 0)), leaf(x, shape(2, 4, 2, 0)), &g);
}
static Node *constant_factor(Directed *x) {
    Node *half = directed_emit(x, OP_CONST, 0, NULL, &(Attr){.dtype = DT_F32, .value = 0.5}, shape(2, 4, 2, 0));
    return product(x, leaf(x, shape(2, 3, 4, 0)), half, NULL);
}

/* y[p] = sum over n of a[(p + n - 1) / 2] * k[n], where it divides: what a stride of 2 leaves in a gradient.  Or with p
 * summed, for each n. */
static Node *strided(Directed *x) {
    const bool kernel = pick_below(x, 2);
    Affine map[2][MAX_RANK] = {{{.c = -1, .divisor = 2, .coef = {1, 1}}}, {{.divisor = 1, .coef = {0, 1}}}};
    const Dim p = dim_fixed(8), n = dim_fixed(3);
    const Contract c = {
        .n_loops = 2, .n_out = 1, .n_operands = 2, .map = map, .extent = {kernel ? n : p, kernel ? p : n}};
    return contraction(x, &c, leaf(x, shape(1, 5, 0, 0)), leaf(x, shape(1, kernel ? 8 : 3, 0, 0)));
}

/* Strides greater than the window, whose taps are 2 apart, or that share a factor with that. */
static Node *apart(Directed *x) {
    const int64_t stride = pick_below(x, 2) ? 5 : 4, taps = pick_below(x, 2) ? 2 : -2;
    Affine map[2][MAX_RANK] = {{{.c = 1, .divisor = stride, .coef = {1, taps}}, {.divisor = 1, .coef = {0, 0, 1}}},
                               {{.divisor = 1, .coef = {0, 1}}, {.divisor = 1, .coef = {0, 0, 1}}}};
    const Contract c = {
        .n_loops = 3, .n_out = 1, .extent = {dim_fixed(9), dim_fixed(3), dim_fixed(4)}, .n_operands = 2, .map = map};
    return contraction(x, &c, leaf(x, shape(2, 2, 4, 0)), leaf(x, shape(2, 3, 4, 0)));
}

/* The exponentials are read twice, along the row: a map that turns into a row kernel. */
static Node *weights(Directed *x, Node *scores) {
    if (!scores) return NULL;
    Node *e = one(x, OP_EXP, one(x, OP_TANH, scores, NULL), NULL), *z = along(x, OP_SUM, e, 1);
    return two(x, OP_DIV, e, spread(x, z, *scores->shape, 0, 0));
}
static Node *rows(Directed *x) { return weights(x, leaf(x, shape(2, 40, 5, 0))); }

/* contract -> reduce -> contract */
static Node *attention(Directed *x) {
    Node *scores = product(x, leaf(x, shape(2, 3, 4, 0)), leaf(x, shape(2, 4, 6, 0)), NULL);
    return product(x, weights(x, scores), leaf(x, shape(2, 6, 2, 0)), NULL);
}

/* The same of scores less their maximum. */
static Node *shifted(Directed *x) {
    Node *scores = product(x, leaf(x, shape(2, 3, 4, 0)), leaf(x, shape(2, 4, 6, 0)), NULL);
    if (!scores) return NULL;
    Node *most = along(x, OP_RMAX, scores, 1), *e = one(x, OP_EXP, two(x, OP_SUB, scores, spread(x, most, *scores->shape, 0, 0)), NULL);
    Node *w = two(x, OP_DIV, e, spread(x, along(x, OP_SUM, e, 1), *scores->shape, 0, 0));
    return product(x, w, leaf(x, shape(2, 6, 2, 0)), NULL);
}

/* a[s, m, k] b[s, k, n] of each sample, or a[s, k, m] b[s, k, n]. */
static Node *batch_product(Directed *x, Node *a, Node *b, bool transposed) {
    if (!a || !b) return NULL;
    const int m = transposed ? 2 : 1, k = 3 - m;
    Affine map[2][MAX_RANK] = {{{.divisor = 1, .coef = {1}}, {.divisor = 1}, {.divisor = 1}},
                               {{.divisor = 1, .coef = {1}}, {.divisor = 1, .coef = {0, 0, 0, 1}}, {.divisor = 1, .coef = {0, 0, 1}}}};
    map[0][m].coef[1] = map[0][k].coef[3] = 1;
    const Contract c = {.n_loops = 4,
                        .n_out = 3,
                        .extent = {a->shape->dim[0], a->shape->dim[m], b->shape->dim[2], a->shape->dim[k]},
                        .n_operands = 2,
                        .map = map};
    return contraction(x, &c, a, b);
}

/* Scores of which one product sums over rows, another over columns. */
static Node *both_ways(Directed *x) {
    const int before = x->pool.n;
    const int64_t most = x->most;
    x->most = 160;
    Node *scores = one(x, OP_TANH, batch_product(x, leaf(x, shape(3, 8, 3, 2)), leaf(x, shape(3, 8, 2, 4)), false), NULL);
    Node *rows = batch_product(x, scores, leaf(x, shape(3, 8, 4, 2)), false), *columns = batch_product(x, scores, leaf(x, shape(3, 8, 3, 2)), true);
    if (rows && columns && pick_below(x, 2)) columns = two(x, OP_ADD, columns, leaf(x, shape(3, 8, 4, 2)));
    x->most = most;
    if (!rows || !columns) return NULL;
    x->pool.n = before;
    vec_push(x->a, x->pool, rows);
    vec_push(x->a, x->pool, columns);
    return columns;
}

/* ---- what jacobian_gemm weighs ----------------------------------------------------------------------------------- */
static Node *chained(Directed *x) {
    Node *wide = product(x, leaf(x, shape(2, 8, 2, 0)), leaf(x, shape(2, 2, 8, 0)), NULL);
    return product(x, wide, leaf(x, shape(2, 8, 2, 0)), NULL);
}
static Node *low_rank(Directed *x) { return product(x, leaf(x, shape(2, 9, 2, 0)), leaf(x, shape(2, 2, 9, 0)), NULL); }
static Node *low_rank_sum(Directed *x) {
    return product(x, two(x, OP_ADD, low_rank(x), low_rank(x)), leaf(x, shape(2, 9, 2, 0)), NULL);
}
static Node *scaled(Directed *x) {
    const Op op = pick_below(x, 2) ? OP_MUL : OP_DIV;
    Node *by = directed_leaf(x, DT_F32, shape(1, 6, 0, 0), NEED_POSITIVE);
    return two(x, op, leaf(x, shape(2, 6, 4, 0)), spread(x, by, shape(2, 6, 4, 0), 0, 0));
}
static Node *scaled_sum(Directed *x) { return along(x, OP_SUM, scaled(x), 1); }
static Node *scaled_product(Directed *x) { return product(x, scaled(x), leaf(x, shape(2, 4, 2, 0)), NULL); }

/* rowsum((d b') * p), where p b is there too. */
static Node *known_sum(Directed *x) {
    Node *p = leaf(x, shape(2, 8, 9, 0)), *b = leaf(x, shape(2, 9, 2, 0)), *d = leaf(x, shape(2, 8, 2, 0));
    Node *turned = one(x, OP_TRANSPOSE, b, &(Attr){.n_axes = 2, .axes = {1, 0}});
    if (!turned || !product(x, p, b, NULL)) return NULL;
    Node *terms = product(x, d, turned, NULL);
    return terms ? along(x, OP_SUM, two(x, OP_MUL, terms, p), 1) : NULL;
}

/* a' b + c d, with a sum of b over the same loop and something elementwise after that. */
static Node *gathered(Directed *x) {
    Node *a = leaf(x, shape(2, 6, 4, 0)), *b = one(x, OP_TANH, leaf(x, shape(2, 6, 5, 0)), NULL);
    Node *turned = one(x, OP_TRANSPOSE, a, &(Attr){.n_axes = 2, .axes = {1, 0}}), *first = product(x, turned, b, NULL);
    Node *second = product(x, leaf(x, shape(2, 4, 3, 0)), leaf(x, shape(2, 3, 5, 0)), NULL);
    Node *sum = b ? one(x, OP_TANH, along(x, OP_SUM, b, 0), NULL) : NULL;
    if (!first || !second || !sum) return NULL;
    Node *both = two(x, OP_ADD, first, second), *more = two(x, OP_MUL, sum, leaf(x, shape(1, 5, 0, 0)));
    return both && more ? two(x, OP_ADD, both, spread(x, two(x, OP_ADD, sum, more), *both->shape, 1, 0)) : NULL;
}

/* Two products of one factor, alike, that a third multiplies with each other. */
static Node *siblings(Directed *x) {
    Node *a = leaf(x, shape(2, 4, 3, 0));
    Node *first = product(x, a, leaf(x, shape(2, 3, 4, 0)), NULL),
         *second = product(x, a, leaf(x, shape(2, 3, 4, 0)), NULL);
    return product(x, first, second, NULL);
}

/* Of a row of a product, or its diagonal, a few elements, mostly behind arithmetic; nothing else reads the whole. */
static Node *whole(Directed *x) {
    const Shape s = shape(2, 40, 40, 0);
    Node *a = one(x, OP_TANH, leaf(x, shape(2, 40, 2, 0)), NULL),
         *b = one(x, OP_TANH, leaf(x, shape(2, 2, 40, 0)), NULL);
    Node *n = product(x, a, b, NULL);
    if (!n || !pick_below(x, 3)) return n;
    n = one(x, OP_TANH, two(x, OP_ADD, n, spread(x, leaf(x, shape(1, 40, 0, 0)), s, 1, 0)), NULL);
    if (!n || pick_below(x, 2)) return n;
    Node *most = pick_below(x, 2) ? along(x, OP_RMAX, n, 1) : one(x, OP_TANH, along(x, OP_SUM, n, 1), NULL);
    if (!most) return NULL;
    if (pick_below(x, 2))
        most = shaped(x, two(x, OP_ADD, shaped(x, most, shape(2, 40, 1, 0)), leaf(x, shape(2, 40, 1, 0))),
                      shape(1, 40, 0, 0));
    Node *small = directed_emit(x, OP_CONST, 0, NULL, &(Attr){.dtype = DT_F32, .value = 0x1p-6}, s);
    n = two(x, OP_MUL, two(x, OP_SUB, n, spread(x, most, s, 0, 0)), small);
    return n && pick_below(x, 2) ? product(x, n, one(x, OP_TANH, leaf(x, shape(2, 40, 40, 0)), NULL), NULL) : n;
}

/* Nothing else is to read what n is made of: of what came since `before`, n alone stays.  `most`: as it was. */
static Node *alone(Directed *x, Node *n, int before, int64_t most) {
    x->most = most;
    if (!n) return NULL;
    x->pool.n = before;
    vec_push(x->a, x->pool, n);
    return n;
}

static Node *part(Directed *x) {
    const int before = x->pool.n;
    Affine at[1][MAX_RANK] = {{{.divisor = 1, .coef = {1}}, {.divisor = 1, .coef = {1}}}};
    const Contract diagonal = {.n_loops = 1, .n_out = 1, .extent = {dim_fixed(9)}, .n_operands = 1, .map = at};
    const Attr row = {.lo = {dim_fixed(39), dim_fixed(0)}, .hi = {dim_fixed(1), dim_fixed(9)}, .step = {1, 1}};
    const Attr rows = {.lo = {dim_fixed(37), dim_fixed(1)}, .hi = {dim_fixed(3), dim_fixed(4)}, .step = {-13, 1}};
    const int64_t most = x->most;
    x->most = 1600;
    Node *n = whole(x);
    if (n)
        n = pick_below(x, 3) ? one(x, OP_SLICE, n, pick_below(x, 2) ? &row : &rows)
                             : one(x, OP_CONTRACT, n, &(Attr){.contract = &diagonal});
    return alone(x, n, before, most);
}

/* A sum along the diagonal of a product, or the diagonal behind a transpose; nothing else reads the product. */
static Node *trace(Directed *x) {
    const int before = x->pool.n;
    const bool turned = pick_below(x, 2), summed = !turned || pick_below(x, 2);
    Affine at[1][MAX_RANK] = {{{.divisor = 1, .coef = {1}}, {.divisor = 1, .coef = {1}}}};
    const Contract c = {.n_loops = 1, .n_out = !summed, .extent = {dim_fixed(9)}, .n_operands = 1, .map = at};
    const int64_t most = x->most;
    x->most = 1600;
    Node *a = one(x, OP_TANH, leaf(x, shape(2, 40, 2, 0)), NULL),
         *b = one(x, OP_TANH, leaf(x, shape(2, 2, 40, 0)), NULL), *n = product(x, a, b, NULL);
    if (n && turned) n = one(x, OP_TRANSPOSE, n, &(Attr){.n_axes = 2, .axes = {1, 0}});
    if (n) n = one(x, OP_CONTRACT, n, &(Attr){.contract = &c});
    return alone(x, n, before, most);
}

/* A sum of a product, either way, with a bias perhaps; nothing else reads the product. */
static Node *product_summed(Directed *x) {
    const int before = x->pool.n, axis = pick_below(x, 2);
    const int64_t most = x->most;
    x->most = 1600;
    Node *a = one(x, OP_TANH, leaf(x, shape(2, 24, 6, 0)), NULL),
         *b = one(x, OP_TANH, leaf(x, shape(2, 6, 20, 0)), NULL), *n = product(x, a, b, NULL);
    if (n && pick_below(x, 2)) n = two(x, OP_ADD, n, spread(x, leaf(x, shape(1, 20, 0, 0)), *n->shape, 1, 0));
    return alone(x, n ? along(x, OP_SUM, n, axis) : NULL, before, most);
}

/* y[p] = sum over q and j of g[j] * w[q, j], where 0 <= p - q < 36: the gradient of an image's sums. */
static Node *same_for_all(Directed *x) {
    const int before = x->pool.n;
    const int64_t most = x->most;
    Affine map[2][MAX_RANK] = {{{.divisor = 1, .coef = {0, 0, 1}}},
                               {{.divisor = 1, .coef = {0, 1}}, {.divisor = 1, .coef = {0, 0, 1}}}};
    Guard g = {.kind = GUARD_RANGE, .e = {.divisor = 1, .coef = {1, -1}}, .lo = 0, .hi = dim_fixed(36)};
    const Contract c = {.n_loops = 3,
                        .n_out = 1,
                        .extent = {dim_fixed(40), dim_fixed(5), dim_fixed(6)},
                        .n_operands = 2,
                        .map = map,
                        .n_guards = 1,
                        .guard = &g};
    x->most = 1600;
    Node *a = one(x, OP_TANH, leaf(x, shape(1, 6, 0, 0)), NULL),
         *b = one(x, OP_TANH, leaf(x, shape(2, 5, 6, 0)), NULL);
    return alone(x, a && b ? contraction(x, &c, a, b) : NULL, before, most);
}

/* Products and sums of what is mostly zero, along the sum and beside it. */
static Node *padded(Directed *x) {
    const Dim few = dim_fixed(2), many = dim_fixed(pick_below(x, 2) ? 9 : 0);
    const Attr at = {.lo = {many, few}, .hi = {many, dim_fixed(1)}};
    Node *n = one(x, OP_PAD, one(x, OP_TANH, leaf(x, shape(2, 1, 4, 0)), NULL), &at);
    return pick_below(x, 2) ? along(x, OP_SUM, n, pick_below(x, 2)) : product(x, n, leaf(x, shape(2, 7, 3, 0)), NULL);
}

/* Long enough to be summed in slices where tiles are tiny; most for a GPU's tiles too.  Nothing else reads the terms.
 */
static Node *long_sum(Directed *x) {
    const int64_t rows = pick_below(x, 3) ? 20011 : 1200, most = x->most;
    const Shape s = shape(2, rows, 2, 0);
    const int before = x->pool.n;
    x->most = shape_elements(s);
    Node *part = directed_emit(x, OP_CONST, 0, NULL, &(Attr){.dtype = DT_F32, .value = 0x1p-14}, s);
    Node *sum = along(x, OP_SUM, two(x, OP_MUL, leaf(x, s), part), 0);
    x->most = most;
    if (!sum) return NULL;
    x->pool.n = before;
    vec_push(x->a, x->pool, sum);
    return sum;
}
static Node *long_product(Directed *x) {
    Node *a = one(x, OP_TANH, leaf(x, shape(2, 2, 200, 0)), NULL),
         *b = one(x, OP_TANH, leaf(x, shape(2, 200, 2, 0)), NULL);
    return product(x, a, b, NULL);
}

/* Columns' sums of what rows' means are taken of, as in the gradients of a norm. */
static Node *normed(Directed *x) {
    const Shape s = shape(2, 96, 6, 0);
    const int before = x->pool.n;
    const int64_t most = x->most;
    x->most = shape_elements(s);
    Node *small = directed_emit(x, OP_CONST, 0, NULL, &(Attr){.dtype = DT_F32, .value = 0x1p-7}, s);
    Node *n = one(x, OP_TANH, leaf(x, s), NULL);
    Node *mean = n ? along(x, OP_SUM, n, 1) : NULL;
    if (mean) n = two(x, OP_MUL, two(x, OP_SUB, n, spread(x, mean, s, 0, 0)), small);
    Node *sums = mean ? along(x, OP_SUM, pick_below(x, 2) ? two(x, OP_MUL, n, leaf(x, s)) : n, 0) : NULL;
    return alone(x, sums, before, most);
}

/* Side by side along what a reshape merges, or along the dim of one element that it makes; gradients of parts, added up. */
static Node *joined(Directed *x) {
    const bool merges = pick_below(x, 2);
    Node *in[2];
    for (int k = 0; k < 2; k++) {
        Node *n = one(x, OP_TANH, leaf(x, merges ? shape(3, 2, 2 + k, 3) : shape(2, 2, 3, 0)), NULL);
        in[k] = shaped(x, n, merges ? shape(2, 2, (2 + k) * 3, 0) : shape(3, 2, 1, 3));
    }
    return directed_emit(x, OP_CONCAT, 2, in, &(Attr){.axis = 1}, shape_scalar());
}

/* What an unrolled loop computes of successive rows, and a scan that needs none: of one element, or with factors of 1. */
static Node *rounds(Directed *x) {
    Node *a = leaf(x, shape(2, 5, 4, 0)), *b = leaf(x, shape(1, 4, 0, 0)), *in[5];
    for (int i = 0; i < 5; i++) {
        const Attr cut = {.lo = {dim_fixed(i), dim_fixed(0)}, .hi = {dim_fixed(1), dim_fixed(4)}, .step = {1, 1}};
        Node *row = shaped(x, one(x, OP_SLICE, a, &cut), shape(1, 4, 0, 0));
        in[i] = shaped(x, two(x, OP_MUL, one(x, OP_TANH, row, NULL), b), shape(2, 1, 4, 0));
    }
    return directed_emit(x, OP_CONCAT, 5, in, &(Attr){.axis = 0}, shape_scalar());
}
static Node *idle_scan(Directed *x) {
    const bool single = pick_below(x, 2);
    Node *n = leaf(x, shape(2, 3, single ? 1 : 4, 0));
    if (single) return one(x, OP_SCAN, n, &(Attr){.axis = 1, .exclusive = pick_below(x, 2)});
    Node *ones = directed_emit(x, OP_CONST, 0, NULL, &(Attr){.dtype = DT_F32, .value = 1}, shape(2, 3, 4, 0));
    return directed_emit(x, OP_SCAN, 2, (Node *[]){n, ones}, &(Attr){.axis = 1, .scan = SCAN_LINEAR, .reverse = pick_below(x, 2)}, shape_scalar());
}

Node *directed_idiom(Directed *x, int i) {
    static Node *(*const make[IDIOMS])(Directed *) = {
        split_element, split_reduce,    split_scan,     split_broadcast, split_slice,  split_pad,  merged_broadcast,
        merged_slice,  reshaped_random, reduced_twice,  sum_of_product,  empty_concat, idle_guard, strided,
        rows,          attention,       shifted,        constant_factor,
        chained,       low_rank_sum,    scaled_sum,     scaled_product,  known_sum,    gathered,   gathered,
        siblings,      part,           trace,          padded,          joined,   apart,
        long_sum,      long_product,   same_for_all,   product_summed,   normed, rounds, idle_scan,
        /* once more: their rules take a small tile, or a shape that others leave alone */
        long_product,  merged_slice,   product_summed, shifted, shifted, attention, attention,
        normed,        normed,         normed, both_ways, slice_of_parts, both_ways, slice_of_parts, gathered,
        gathered};
    const int before = x->pool.n;
    Node *n = make[i](x);
    if (!n) x->pool.n = before;
    return n;
}
