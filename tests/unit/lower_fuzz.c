/* Damaged programs: words of good ones are dropped, doubled, exchanged.  Whatever comes out, lowering
 * reports or gives graphs that verify; it never crashes. */
#include "frontend/frontend.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROUNDS = 1000, MAX_WORDS = 1200 };

static const char *const programs[] = {
    "dim B = 2, S <= 6\nlet width = 4, deep = 1 + 1\n"
    "fn act(x, k = 2) { return where(x > 0, x, k * x) }\n"
    "layer block(x, n) {\n h = act(linear(x, n) as up)\n return x + linear(layernorm(h) as ln, x.dim(-1)) as down\n}\n"
    "model m {\n input x : f32[B, width]\n input t : i32[B] in 0..3\n repeat deep as h { x = block(x, 8) }\n"
    " z = linear(dropout(x, 0.1), 3) as head\n loss = mean(cross_entropy(z, t, ignore = 1))\n output loss\n output p = "
    "softmax(z)\n"
    " train loss with adam(lr = hyper 1e-3) only \"h.*\", \"head.w\" clip_norm 1.0\n}\n",
    "dim N = 5, S <= 6\nmodel m {\n input x : f32[N, 6]\n input k : f32[3, 6]\n input i : i32[N] in 0..3\n input b : "
    "f32[S, 6]\n"
    " y[n, c in 0..4] = sum[r in 0..3] x[n, c + r - 1] * k[r, 2 * c / 2]\n w[n, c] = k[i[n], c] * 2.0\n"
    " v[n in 0..2] = max[r in 0..3] x[2*n + r, 0] - x[n, r]\n u = sum[s, c] b[s, c]^2\n g[n] = x[n, i[n]] * float(n)\n"
    " output y\n output w\n output v\n output u\n output g\n output q = mean(b, axis = 0)\n output f = x[1:4, ..., "
    "::2]\n"
    " output s = slice(x, i[0], 2) @ transpose(k)\n}\n",
    "model c {\n input x : f32[2, 8, 8, 4]\n a = conv2d(x, 6, 3, stride = 2, padding = \"reflect\") as c1\n"
    " b = conv2d(x, 6, 3, dilation = 2, groups = 2, padding = \"valid\", bias = false) as c2\n"
    " d = max_pool2d(conv_transpose2d(a, 4, 2, 2) as up, 3, 2, padding = \"same\")\n f = batchnorm(silu(b)) as bn\n"
    " e = self_attention(reshape(d, [2, 16, 4]), 2, mask = none) as at\n loss = mean(f) + sum(d, axis = 0..-1)[0] + "
    "mean(e, axis = [0, 1])[-1]\n"
    " output loss\n train loss with momentum(lr = 0.1, mu = 0.5)\n}\n",
    "optimizer own(p, g, lr, b = 0.9) {\n state m = zeros like p\n m <- b*m + (1 - b)*g\n d = if p.rank >= 2 then 0.1 "
    "else 0\n"
    " p <- p - lr * (m / (1 - b^step) + d*p)\n}\nlayer norm(x, k = 0.1) {\n c = x.dim(-1)\n g = param [c] init "
    "uniform(-1, 1)\n state mu = zeros [c]\n"
    " if training {\n  m = mean(x, axis = 0..-1)\n  mu <- (1 - k)*mu + k*stop_gradient(m)\n  return (x - m) * g\n }\n "
    "return (x - mu) * g\n}\n"
    "model m {\n input x : f32[4, 3]\n state n = 0\n n <- n + 1\n a, b = split(norm(x) as one, [1, 2], axis = 1)\n"
    " w = param [2, 2] init xavier\n loss = mean((b @ w)^2) + sum(a) * float(3 / 2)\n output loss\n output o = "
    "concat(a, b, axis = -1)\n"
    " train loss with own(lr = hyper 0.1 as rate)\n}\n",
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

/* xorshift: the same damage in every run */
static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static int split_words(Arena *a, const char *text, const char **word) {
    int n = 0;
    for (const char *p = text; *p && n < MAX_WORDS;) {
        size_t k = 1;
        if (is_word(*p))
            while (is_word(p[k])) k++;
        word[n++] = arena_strndup(a, p, k);
        p += k;
    }
    return n;
}

/* A number mostly, else a name, seldom anything: what is broken there is seldom a syntax error. */
static int pick(const char **word, int n, uint64_t *seed) {
    uint64_t kind = next_random(seed) % 16;
    for (;;) {
        int i = (int)(next_random(seed) % (uint64_t)n);
        bool digit = word[i][0] >= '0' && word[i][0] <= '9';
        if (kind == 0 || digit || (kind < 5 && is_word(word[i][0]))) return i;
    }
}

static const char *damaged(Arena *a, uint64_t *seed) {
    static const char *const odd[] = {
        "0",   "-1",     "1",        "2",         "7",     "1000000007", "9223372036854775807",
        "0.5", "inf",    "none",     "all",       "x",     "[",          "]",
        "B",   "S",      "training", "step",      "true",  "axis",       "\"same\"",
        "[]",  "[0, 1]", "0..2",     "zeros [3]", "x.rank"};
    const char **word = ARENA_ARRAY(a, const char *, MAX_WORDS);
    int n = split_words(a, programs[next_random(seed) % N_PROGRAMS], word);
    for (int k = (int)(next_random(seed) % 4) + 1; k > 0; k--) {
        int i = pick(word, n, seed), j = pick(word, n, seed);
        const char *t = word[i];
        switch (next_random(seed) % 8) {
        case 0: word[i] = ""; break;
        case 1: word[i] = word[j], word[j] = t; break;
        case 2: word[i] = word[j]; break;
        case 3:
        case 4:
        case 5: word[i] = arena_printf(a, "%d", (int)(next_random(seed) % 10)); break;
        default: word[i] = odd[next_random(seed) % (sizeof odd / sizeof *odd)]; break;
        }
    }
    size_t length = 1;
    for (int i = 0; i < n; i++) length += strlen(word[i]);
    char *text = arena_alloc(a, length), *p = text;
    for (int i = 0; i < n; i++) p = stpcpy(p, word[i]);
    return text;
}

static void write_program(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void damaged_programs(void **state) {
    (void)state;
    const char *rounds_wanted = getenv("FUSEC_FUZZ_ROUNDS");
    int rounds = rounds_wanted ? atoi(rounds_wanted) : ROUNDS, good = 0, bad = 0;
    char path[] = "/tmp/fusec-fuzz-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < rounds; i++) {
        Arena *a = arena_new();
        Diag *d = diag_new(a);
        uint64_t seed = 88172645463325252u + (uint64_t)i * 7919;
        for (int warm = 0; warm < 8; warm++) next_random(&seed);
        const char *text = damaged(a, &seed);
        Graph *g[ENTRY_COUNT] = {0};
        write_program(path, text);
        Program *p = program_load(a, d, path, NULL);
        bool ok = p && program_lower(a, d, p, NULL, g);
        if (!ok && diag_errors(d) == 0) fail_msg("refused without a word:\n%s", text);
        if (ok && diag_errors(d)) fail_msg("lowered with errors:\n%s", text);
        for (int e = 0; e < ENTRY_COUNT && ok; e++) {
            const char *why = g[e] ? graph_verify(a, g[e]) : NULL;
            if (why) fail_msg("%s: %s\n%s", entry_name[e], why, text);
        }
        good += ok, bad += !ok;
        arena_free(a);
    }
    unlink(path);
    assert_true(good > rounds / 50 && bad > rounds / 10); /* both ways are exercised */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
