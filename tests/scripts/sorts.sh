# Orders are those of a stable sort in C, whose comparison knows numbers, not bits: of long axes (by digits) and short ones, of values that
# are often equal, zeros of both signs, infinities, subnormal numbers and NaN, and of integers to both ends; likewise the gradient.
. "$SRC/tests/support/script.sh"
cat >m.dsl <<'END_M'
model m {
    input x : f32[2, 1500]
    input s : f32[3, 90]
    input i : i32[1100]
    input c : f32[2, 1500]
    output up = sort(x)
    output down = sort(x, descending = true)
    output up_at = argsort(x)
    output down_at = argsort(x, descending = true)
    output up_rank = ranks(x)
    output down_rank = ranks(x, descending = true)
    t, at = top_k(x, 200)
    output t
    output at
    f, f_at = top_k(x, 5)
    output f
    output f_at
    output s_up = sort(s)
    output s_down_at = argsort(s, descending = true)
    output s_rank = ranks(s)
    u, u_at = top_k(s, 20)
    output u
    output u_at
    output i_down = sort(i, descending = true)
    output i_at = argsort(i)
    output counted = counting_sort(mod(i, 7) - 1, 5)
    output d = vjp(sort(x, descending = true), x, c)
}
END_M
cat >main.c <<'END_C'
#include "any_form.h"
#include <math.h>
enum { N = 1500, SHORT = 90, INTS = 1100 };
static float x[2 * N], s[3 * SHORT], c[2 * N];
static int32_t i[INTS];
static struct {
    float up[2 * N], down[2 * N], t[400], f[10], s_up[3 * SHORT], u[60], d[2 * N];
    int32_t up_at[2 * N], down_at[2 * N], up_rank[2 * N], down_rank[2 * N], at[400], f_at[10], s_down_at[3 * SHORT], s_rank[3 * SHORT],
        u_at[60], i_down[INTS], i_at[INTS], counted[INTS];
} y;

static int less(double a, double b) { return !isnan(a) && (isnan(b) || a < b); }

/* at[]: where the elements stand, in order; insertion is stable. */
static void order(int n, const double *v, int down, int *at) {
    for (int k = 0; k < n; k++) {
        int j = k;
        for (; j > 0 && (down ? less(v[at[j - 1]], v[k]) : less(v[k], v[at[j - 1]])); j--) at[j] = at[j - 1];
        at[j] = k;
    }
}

static void values(const char *what, int n, const float *got, const double *v, const int *at) {
    for (int k = 0; k < n; k++)
        if (!(got[k] == v[at[k]] || (isnan(got[k]) && isnan(v[at[k]]))))
            fprintf(stderr, "%s: number %d is %g, not %g\n", what, k, got[k], v[at[k]]), exit(1);
}
static void places(const char *what, int n, const int32_t *got, const int *at) {
    for (int k = 0; k < n; k++)
        if (got[k] != at[k]) fprintf(stderr, "%s: number %d stands at %d, not %d\n", what, k, got[k], at[k]), exit(1);
}
static void ranks(const char *what, int n, const int32_t *got, const int *at) {
    for (int k = 0; k < n; k++)
        if (got[at[k]] != k) fprintf(stderr, "%s: %d comes as %d, not %d\n", what, at[k], got[at[k]], k), exit(1);
}

static uint32_t drawn = 1;
static uint32_t draw(uint32_t n) { return drawn = drawn * 1664525u + 1013904223u, (drawn >> 8) % n; }
static float number(void) {
    static const float odd[] = {0, -0.0f, 1e-42f, -1e-42f, 3e38f, -3e38f};
    const uint32_t kind = draw(40);
    if (kind < 6) return odd[kind];
    if (kind == 6) return draw(2) ? INFINITY : -INFINITY;
    if (kind == 7) return draw(2) ? NAN : -NAN;
    return kind < 24 ? (float)((int)draw(9) - 4) : ((float)draw(1 << 20) - 500000) * 1e-3f;
}

int main(void) {
    double v[N];
    int up[N], down[N];
    for (int k = 0; k < 2 * N; k++) x[k] = number(), c[k] = (float)draw(1000);
    for (int k = 0; k < 3 * SHORT; k++) s[k] = number();
    for (int k = 0; k < INTS; k++) i[k] = draw(3) ? (int32_t)draw(20) - 9 : draw(2) ? INT32_MIN + (int32_t)draw(3) : INT32_MAX - (int32_t)draw(3);
    begin();
    memset(&y, 0xee, sizeof y);
    const m_inputs in = {.x = x, .s = s, .i = i, .c = c};
    const m_outputs out = {.up = y.up, .down = y.down, .up_at = y.up_at, .down_at = y.down_at, .up_rank = y.up_rank, .down_rank = y.down_rank,
        .t = y.t, .at = y.at, .f = y.f, .f_at = y.f_at, .s_up = y.s_up, .s_down_at = y.s_down_at, .s_rank = y.s_rank, .u = y.u, .u_at = y.u_at,
        .i_down = y.i_down, .i_at = y.i_at, .counted = y.counted, .d = y.d};
    MUST(m_infer(&model, &in, &out) == FUSEC_OK);
    end();
    for (int r = 0; r < 2; r++) {
        for (int k = 0; k < N; k++) v[k] = x[r * N + k];
        order(N, v, 0, up), order(N, v, 1, down);
        values("sort", N, y.up + r * N, v, up), values("sort, descending", N, y.down + r * N, v, down);
        places("argsort", N, y.up_at + r * N, up), places("argsort, descending", N, y.down_at + r * N, down);
        ranks("ranks", N, y.up_rank + r * N, up), ranks("ranks, descending", N, y.down_rank + r * N, down);
        values("top_k of 200", 200, y.t + r * 200, v, down), places("top_k of 200", 200, y.at + r * 200, down);
        values("top_k of 5", 5, y.f + r * 5, v, down), places("top_k of 5", 5, y.f_at + r * 5, down);
        for (int k = 0; k < N; k++) MUST(y.d[r * N + down[k]] == c[r * N + k]);
    }
    for (int r = 0; r < 3; r++) {
        for (int k = 0; k < SHORT; k++) v[k] = s[r * SHORT + k];
        order(SHORT, v, 0, up), order(SHORT, v, 1, down);
        values("a short sort", SHORT, y.s_up + r * SHORT, v, up), places("a short argsort", SHORT, y.s_down_at + r * SHORT, down);
        ranks("short ranks", SHORT, y.s_rank + r * SHORT, up);
        values("a short top_k", 20, y.u + r * 20, v, down), places("a short top_k", 20, y.u_at + r * 20, down);
    }
    for (int k = 0; k < INTS; k++) v[k] = i[k];
    order(INTS, v, 0, up), order(INTS, v, 1, down);
    places("argsort of integers", INTS, y.i_at, up);
    for (int k = 0; k < INTS; k++) MUST(y.i_down[k] == i[down[k]]);
    for (int k = 0; k < INTS; k++) {
        const int id = (i[k] % 7 + 7) % 7 - 1;
        v[k] = id < 0 || id >= 5 ? 5 : id;
    }
    order(INTS, v, 0, up);
    places("counting_sort", INTS, y.counted, up);
    return 0;
}
END_C
in_every_form m.dsl
for target in host sm_80; do
    "$FUSEC" m.dsl --target $target -o m.tile --entry infer
    [ "$(grep -c '^  bucket ' m.tile)" -ge 8 ] || fail "$target: no digits"
done
for precision in bf16 f16; do
    sed "s/PRECISION/$precision/" >low.dsl <<'END_M'
model low {
    precision PRECISION
    x = param [2, 700] init normal(1.0)
    h = x * x - x
    output h
    output y = sort(h)
    output at = argsort(h, descending = true)
}
END_M
    all_targets
    "$FUSEC" verify low.dsl --target $targets --rounds 1 --quiet >log 2>&1 || fail "$precision: $(cat log)"
    grep -q ' 0 undecided' log || fail "$precision, undecided: $(cat log)"
done
exit $bad
