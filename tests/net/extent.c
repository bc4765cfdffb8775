// Extents that follow the bounded dimension S.
#include "tests/net/prog.h"

static const int forms[][2] = {{1, 0}, {2, 0}, {1, 1}, {2, 1}, {3, 0}};
enum { FORMS = sizeof forms / sizeof *forms };

bool extent_form(const Prog *p, int n, int *scale, int *shift) {
    for (int k = 0; k < (p->extent > 1 ? FORMS : 1); k++) {
        *scale = forms[k][0], *shift = forms[k][1];
        if (*scale * p->extent + *shift == n) return true;
    }
    return false;
}
bool extent_sum(const Prog *p, int n, bool n_bounded, int m, bool m_bounded) {
    int a = 0, b = n, c = 0, d = m, e, f;
    if (n_bounded && !extent_form(p, n, &a, &b)) return false;
    if (m_bounded && !extent_form(p, m, &c, &d)) return false;
    return extent_form(p, n + m, &e, &f) && e == a + c && f == b + d;
}
bool extent_scaled(const Prog *p, int n, int factor, int to, int divisor) {
    int a, b, c, d;
    return extent_form(p, n, &a, &b) && extent_form(p, to, &c, &d) && a * factor == c * divisor && b * factor == d * divisor;
}
int some_bounded_extent(Gen *g) {
    int k = random_chance(&g->random, 65) || g->prog->extent < 2 ? 0 : random_below(&g->random, FORMS);
    return forms[k][0] * g->prog->extent + forms[k][1];
}
void print_bounded(FILE *f, const Prog *p, int n) {
    int scale = 1, shift = 0;
    extent_form(p, n, &scale, &shift);
    if (scale > 1) fprintf(f, "%d*", scale);
    fputc('S', f);
    if (shift) fprintf(f, " + %d", shift);
}
