/* Statements are found by their punctuation alone: this must not share a parser with what it tests.  Which registers
 * lead to an address follows from a walk backwards over the kernel's instructions, without regard to control flow. */
#include "tests/support/ptx_mutate.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const mutation_names[MUTATION_KINDS] = {"barrier", "wait", "commit", "fence", "swizzle", "index", "bound"};

enum { MAX_OPERANDS = 8, MAX_SLICE = 4096, NAME = 40 };

typedef struct Piece {
    const char *at;
    int bytes;
} Piece;

typedef struct Statement {
    Piece all; /* from the guard to the semicolon, both included */
    Piece guard, op, operand[MAX_OPERANDS];
    int operands;
} Statement;

typedef struct Kernel {
    Statement *s;
    int n;
} Kernel;

/* Registers whose values become addresses. */
typedef struct Slice {
    char name[MAX_SLICE][NAME];
    int n;
} Slice;

typedef struct Found {
    const char *text, *body; /* of the kernel being looked at */
    Mutation *out;
    int n, room;
    const char *counted; /* up to here there are `lines` lines; NULL: nowhere yet */
    int lines;
} Found;

/* ---- reading -------------------------------------------------------------------------------------------- */
static bool piece_has(Piece p, const char *word) {
    const size_t n = strlen(word);
    for (int k = 0; k + (int)n <= p.bytes; k++)
        if (memcmp(p.at + k, word, n) == 0) return true;
    return false;
}
static bool piece_starts(Piece p, const char *word) {
    return p.bytes >= (int)strlen(word) && memcmp(p.at, word, strlen(word)) == 0;
}
static bool piece_is(Piece p, const char *word) { return piece_starts(p, word) && p.bytes == (int)strlen(word); }

static Piece trimmed(const char *at, const char *end) {
    while (at < end && isspace((unsigned char)*at)) at++;
    while (end > at && isspace((unsigned char)end[-1])) end--;
    return (Piece){at, (int)(end - at)};
}

static const char *skip_blank(const char *p) {
    for (;;) {
        while (isspace((unsigned char)*p)) p++;
        if (p[0] == '/' && p[1] == '/')
            p += strcspn(p, "\n");
        else
            return p;
    }
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == ':'; }

/* guard, operation, operands at the outermost commas; the text is at a letter or an @. */
static const char *read_statement(const char *p, Statement *s) {
    *s = (Statement){.all = {p, 0}};
    if (*p == '@') {
        const char *start = p;
        while (*p && !isspace((unsigned char)*p)) p++;
        s->guard = (Piece){start, (int)(p - start)};
        p = skip_blank(p);
    }
    const char *op = p;
    while (is_word(*p)) p++;
    s->op = (Piece){op, (int)(p - op)};
    int depth = 0;
    const char *from = p;
    for (; *p && (*p != ';' || depth); p++) {
        if (strchr("{[(", *p)) depth++;
        if (strchr("}])", *p)) depth--;
        if (*p != ',' || depth) continue;
        if (s->operands < MAX_OPERANDS - 1) s->operand[s->operands++] = trimmed(from, p);
        from = p + 1;
    }
    const Piece last = trimmed(from, p);
    if (last.bytes) s->operand[s->operands++] = last;
    if (*p) p++;
    s->all.bytes = (int)(p - s->all.at);
    return p;
}

/* From the brace that opens a body to the one that closes it. */
static const char *read_kernel(const char *p, Kernel *k) {
    int depth = 0, room = 0;
    *k = (Kernel){0};
    do {
        p = skip_blank(p);
        if (*p == '{')
            depth++, p++;
        else if (*p == '}')
            depth--, p++;
        else if (*p == '.')
            p += strcspn(p, ";{"), p += *p == ';';
        else if (*p == ';')
            p++;
        else if (isalpha((unsigned char)*p) || *p == '@' || *p == '$' || *p == '_') {
            const char *end = p;
            while (isalnum((unsigned char)*end) || *end == '_' || *end == '$') end++;
            if (*p != '@' && *end == ':') {
                p = end + 1;
                continue;
            }
            if (k->n == room) {
                room = room ? 2 * room : 256;
                Statement *more = realloc(k->s, sizeof *more * (size_t)room);
                if (!more) abort();
                k->s = more;
            }
            p = read_statement(p, &k->s[k->n++]);
        } else if (*p)
            p++;
    } while (*p && depth);
    return p;
}

/* ---- addresses ------------------------------------------------------------------------------------------ */
static bool slice_has(const Slice *s, Piece p) {
    for (int k = 0; k < s->n; k++)
        if (piece_is(p, s->name[k])) return true;
    return false;
}

static void slice_add(Slice *s, Piece p) {
    if (p.bytes < NAME && p.at[0] == '%' && s->n < MAX_SLICE && !slice_has(s, p))
        snprintf(s->name[s->n++], NAME, "%.*s", p.bytes, p.at);
}

/* Every register in a piece of text. */
static void slice_add_all(Slice *s, Piece p) {
    for (int k = 0; k < p.bytes; k++) {
        int end = k + 1;
        if (p.at[k] != '%') continue;
        while (end < p.bytes && (isalnum((unsigned char)p.at[end]) || p.at[end] == '_')) end++;
        slice_add(s, (Piece){p.at + k, end - k});
    }
}

static bool is_memory(const Statement *s) {
    static const char *const OPS[] = {"ld.", "st.", "atom.", "red.", "ldmatrix", "stmatrix", "cp.async."};
    for (size_t k = 0; k < sizeof OPS / sizeof *OPS; k++)
        if (piece_starts(s->op, OPS[k])) return !piece_has(s->op, ".param") && !piece_has(s->op, "group");
    return false;
}

/* Whether the operand is an address, and in shared memory. */
static bool address_of(const Statement *s, int which, bool *shared) {
    if (!is_memory(s) || s->operand[which].at[0] != '[') return false;
    const bool copy = piece_starts(s->op, "cp.async"), store = piece_has(s->op, "global.shared");
    *shared = copy ? (which == 0) != store || which > 1 : piece_has(s->op, ".shared");
    return true;
}

static bool is_arithmetic(Piece op) {
    static const char *const OPS[] = {"add.", "sub.",  "mul.",  "mad.", "shl.", "shr.", "and.",
                                      "or.",  "xor.",  "mov.",  "cvt.", "bfe.", "bfi.", "lop3.",
                                      "shf.", "selp.", "cvta.", "min.", "max.", "prmt."};
    for (size_t k = 0; k < sizeof OPS / sizeof *OPS; k++)
        if (piece_starts(op, OPS[k]))
            return !piece_has(op, ".f32") && !piece_has(op, ".f64") && !piece_has(op, ".pred");
    return false;
}

static void slice_close(const Kernel *k, Slice *s) {
    for (int before = -1; before != s->n;) {
        before = s->n;
        for (int n = k->n - 1; n >= 0; n--) {
            const Statement *x = &k->s[n];
            if (!is_arithmetic(x->op) || x->operands < 2 || !slice_has(s, x->operand[0])) continue;
            for (int o = 1; o < x->operands; o++) slice_add_all(s, x->operand[o]);
        }
    }
}

typedef struct Slices {
    Slice shared, global, matrix; /* addresses, matrix descriptors */
    Slice swizzle;                /* what an exclusive-or in `shared` is made of */
} Slices;

static void slices_of(const Kernel *k, Slices *all) {
    Slice *shared = &all->shared, *global = &all->global, *matrix = &all->matrix, *swizzle = &all->swizzle;
    shared->n = global->n = matrix->n = swizzle->n = 0;
    for (int n = 0; n < k->n; n++) {
        const Statement *s = &k->s[n];
        bool in_shared;
        for (int o = 0; o < s->operands; o++)
            if (address_of(s, o, &in_shared)) slice_add_all(in_shared ? shared : global, s->operand[o]);
        if (piece_starts(s->op, "wgmma.mma_async")) slice_add(matrix, s->operand[1]), slice_add(matrix, s->operand[2]);
    }
    slice_close(k, shared);
    slice_close(k, global);
    slice_close(k, matrix);
    for (int n = 0; n < k->n; n++)
        if (piece_starts(k->s[n].op, "xor.") && slice_has(shared, k->s[n].operand[0]))
            slice_add_all(swizzle, k->s[n].operand[1]), slice_add_all(swizzle, k->s[n].operand[2]);
    slice_close(k, swizzle);
}

/* ---- mutations ------------------------------------------------------------------------------------------ */
static int lines_before(Found *f, const char *at) {
    if (!f->counted || at < f->counted) f->counted = f->text, f->lines = 0;
    for (; f->counted < at; f->counted++) f->lines += *f->counted == '\n';
    return f->lines;
}

static Mutation *put(Found *f, MutationKind kind, const Statement *s, Piece what, const char *now) {
    static Mutation beyond;
    Mutation *m = f->n < f->room ? &f->out[f->n++] : &beyond;
    *m = (Mutation){.kind = kind,
                    .at = (size_t)(what.at - f->text),
                    .bytes = (size_t)what.bytes,
                    .statement = (size_t)(s->all.at - f->text),
                    .body = (size_t)(f->body - f->text)};
    m->line = 1 + lines_before(f, what.at);
    snprintf(m->differs, sizeof m->differs, "%.*s trap; ", s->guard.bytes, s->guard.at);
    snprintf(m->now, sizeof m->now, "%s", now);
    return m;
}

static bool number_in(Piece p, long long *v) {
    char copy[32], *end;
    if (!p.bytes || p.bytes >= (int)sizeof copy) return false;
    snprintf(copy, sizeof copy, "%.*s", p.bytes, p.at);
    *v = copy[0] == '0' && copy[1] == 'x' ? (long long)strtoull(copy, &end, 16) : strtoll(copy, &end, 0);
    if (*end == 'U') end++;
    return end != copy && !*end;
}

static void put_number(Found *f, MutationKind kind, const Statement *s, Piece what, long long v) {
    char text[32];
    snprintf(text, sizeof text, "%lld", v);
    put(f, kind, s, what, text);
}

/* Synchronisation that is left out. */
static void mutate_order(Found *f, const Statement *s) {
    static const struct {
        const char *op;
        MutationKind kind;
    } DROPPED[] = {{"bar.", MUTATE_BARRIER},
                   {"barrier.", MUTATE_BARRIER},
                   {"cp.async.wait", MUTATE_WAIT},
                   {"wgmma.wait", MUTATE_WAIT},
                   {"cp.async.bulk.wait", MUTATE_WAIT},
                   {"cp.async.commit", MUTATE_COMMIT},
                   {"wgmma.commit", MUTATE_COMMIT},
                   {"cp.async.bulk.commit", MUTATE_COMMIT},
                   {"membar", MUTATE_FENCE},
                   {"fence.", MUTATE_FENCE},
                   {"wgmma.fence", MUTATE_FENCE}};
    char over[64];
    for (size_t k = 0; k < sizeof DROPPED / sizeof *DROPPED; k++)
        if (piece_starts(s->op, DROPPED[k].op)) {
            put(f, DROPPED[k].kind, s, s->all, "");
            return;
        }
    if (!piece_starts(s->op, "mbarrier.try_wait") && !piece_starts(s->op, "mbarrier.test_wait")) return;
    snprintf(over, sizeof over, "setp.eq.u32 %.*s, 0, 0;", s->operand[0].bytes, s->operand[0].at);
    put(f, MUTATE_WAIT, s, s->all, over);
}

/* The instruction as it was and as it is now, into registers of their own; a trap where they differ. */
static void put_probe(Mutation *m, const Statement *s, Piece op, Piece a, Piece was, const char *now,
                      const char *now_op) {
    char type[8] = "b32", rest[64] = "";
    const bool wide = piece_has(s->op, ".wide");
    if (s->guard.bytes || s->operands > 4) return;
    if (wide || piece_has(s->op, "64"))
        strcpy(type, "b64");
    else if (piece_has(s->op, "16"))
        return;
    if (s->operands == 4) snprintf(rest, sizeof rest, ", %.*s", s->operand[3].bytes, s->operand[3].at);
    snprintf(m->differs, sizeof m->differs,
             "{ .reg .pred other; .reg .%s was, now; %.*s was, %.*s, %.*s%s; %s now, %.*s, %s%s; setp.ne.%s other, "
             "was, now; "
             "@other trap; } ",
             type, op.bytes, op.at, a.bytes, a.at, was.bytes, was.at, rest, now_op, a.bytes, a.at, now, rest, type);
}

static void put_constant(Found *f, MutationKind kind, const Statement *s, long long v) {
    char now[32], op[32];
    snprintf(now, sizeof now, "%lld", v);
    snprintf(op, sizeof op, "%.*s", s->op.bytes, s->op.at);
    Mutation *m = put(f, kind, s, s->operand[2], now);
    put_probe(m, s, s->op, s->operand[1], s->operand[2], now, op);
}

static void put_or(Found *f, const Statement *s) {
    char other[NAME], op[16];
    snprintf(other, sizeof other, "%.*s", s->operand[2].bytes, s->operand[2].at);
    snprintf(op, sizeof op, "or%.*s", s->op.bytes - 3, s->op.at + 3);
    Mutation *m = put(f, MUTATE_SWIZZLE, s, (Piece){s->op.at, 3}, "or");
    put_probe(m, s, s->op, s->operand[1], s->operand[2], other, op);
}

static void mutate_swizzle(Found *f, const Statement *s, const Slices *all) {
    long long v;
    if (s->operands != 3 || !is_arithmetic(s->op)) return;
    const bool constant = number_in(s->operand[2], &v);
    if (constant && slice_has(&all->matrix, s->operand[0]) &&
        (piece_starts(s->op, "or.b64") || piece_starts(s->op, "add.s64")) &&
        (unsigned long long)v >> 32) { /* the layout: bits 62 and 63 */
        put_constant(f, MUTATE_SWIZZLE, s, (long long)((unsigned long long)v ^ 1ull << 62));
        return;
    }
    if (piece_starts(s->op, "xor.") && slice_has(&all->shared, s->operand[0])) {
        if (constant)
            put_constant(f, MUTATE_SWIZZLE, s, v * 2);
        else
            put_or(f, s);
    }
    if (!constant || !slice_has(&all->swizzle, s->operand[0])) return;
    if (piece_starts(s->op, "shl.") || piece_starts(s->op, "shr.")) put_constant(f, MUTATE_SWIZZLE, s, v + 1);
    if (piece_starts(s->op, "and.") && v > 1) put_constant(f, MUTATE_SWIZZLE, s, v & ~((v + 1) / 2));
}

/* Bytes of one element, from the type that the operation's name ends in. */
static int element_bytes(Piece op) {
    static const struct {
        const char *end;
        int bytes;
    } TYPES[] = {{"64", 8}, {"32", 4}, {"16", 2}, {"8", 1}};
    if (piece_starts(op, "ldmatrix") || piece_starts(op, "cp.async")) return 16;
    for (int k = 0; k < 4; k++) {
        const int n = (int)strlen(TYPES[k].end);
        if (op.bytes > n && memcmp(op.at + op.bytes - n, TYPES[k].end, (size_t)n) == 0) return TYPES[k].bytes;
    }
    return 4;
}

static void mutate_offset(Found *f, const Statement *s) {
    bool shared;
    for (int o = 0; o < s->operands; o++) {
        char now[96];
        long long v = 0;
        if (!address_of(s, o, &shared) || memchr(s->operand[o].at, ',', (size_t)s->operand[o].bytes)) continue;
        const Piece inside = trimmed(s->operand[o].at + 1, s->operand[o].at + s->operand[o].bytes - 1);
        int base = 0;
        while (base < inside.bytes && (is_word(inside.at[base]) || inside.at[base] == '%')) base++;
        const int sign = base < inside.bytes && inside.at[base] == '+';
        if (base < inside.bytes && !number_in(trimmed(inside.at + base + sign, inside.at + inside.bytes), &v)) continue;
        snprintf(now, sizeof now, "[%.*s+%lld]", base, inside.at, v + element_bytes(s->op));
        put(f, MUTATE_INDEX, s, s->operand[o], now);
    }
}

static void mutate_index(Found *f, const Statement *s, const Slices *all) {
    long long v;
    mutate_offset(f, s);
    if (s->operands < 3 || !is_arithmetic(s->op)) return;
    if (!slice_has(&all->shared, s->operand[0]) && !slice_has(&all->global, s->operand[0])) return;
    if (!number_in(s->operand[2], &v)) return;
    if (piece_starts(s->op, "add.")) put_constant(f, MUTATE_INDEX, s, v + (piece_has(s->op, "64") ? 4 : 1));
    if (piece_starts(s->op, "mul.wide"))
        put_constant(f, MUTATE_INDEX, s, v + v / 2);
    else if (piece_starts(s->op, "mul.lo") || piece_starts(s->op, "mad."))
        put_constant(f, MUTATE_INDEX, s, v + 1);
}

/* Whether a label stands somewhere before. */
static bool label_before(const char *text, const char *end, Piece label) {
    for (const char *p = text; p + label.bytes < end; p++)
        if (p[label.bytes] == ':' && memcmp(p, label.at, (size_t)label.bytes) == 0 && (p == text || !is_word(p[-1])))
            return true;
    return false;
}

/* Whether the predicate that statement n makes repeats a loop. */
static bool repeats(const Found *f, const Kernel *k, int n) {
    const Piece p = k->s[n].operand[0];
    for (int j = n + 1; j < k->n && j < n + 8; j++) {
        const Piece g = k->s[j].guard;
        if (!piece_starts(k->s[j].op, "bra") || !g.bytes) continue;
        const int sign = g.at[1] == '!' ? 2 : 1;
        if (g.bytes - sign == p.bytes && memcmp(g.at + sign, p.at, (size_t)p.bytes) == 0)
            return label_before(f->text, k->s[n].all.at, k->s[j].operand[0]);
    }
    return false;
}

static void mutate_bound(Found *f, const Kernel *k, int n) {
    static const struct {
        const char *was, *now;
    } PAIRS[] = {{".lt.", ".le."}, {".le.", ".lt."}, {".gt.", ".ge."},
                 {".ge.", ".gt."}, {".lo.", ".ls."}, {".hi.", ".hs."}};
    const Statement *s = &k->s[n];
    long long v;
    if (!piece_starts(s->op, "setp.") || s->operands < 3 || piece_has(s->op, ".f") || piece_has(s->op, ".b")) return;
    for (size_t j = 0; j < sizeof PAIRS / sizeof *PAIRS; j++) {
        if (memcmp(s->op.at + 4, PAIRS[j].was, 4) != 0) continue;
        Mutation *m = put(f, MUTATE_BOUND, s, (Piece){s->op.at + 4, 4}, PAIRS[j].now);
        const char *type = s->op.at + s->op.bytes - 3;
        if (s->guard.bytes) return;
        snprintf(m->differs, sizeof m->differs, "{ .reg .pred same; setp.eq.%.3s same, %.*s, %.*s; @same trap; } ",
                 type, s->operand[1].bytes, s->operand[1].at, s->operand[2].bytes, s->operand[2].at);
        return;
    }
    if ((piece_starts(s->op, "setp.ne.") || piece_starts(s->op, "setp.eq.")) && s->operands == 3 &&
        number_in(s->operand[2], &v) && repeats(f, k, n))
        put_number(f, MUTATE_BOUND, s, s->operand[2], v + 1);
}

static void mutate_kernel(Found *f, const Kernel *k) {
    static Slices all;
    slices_of(k, &all);
    for (int n = 0; n < k->n; n++) {
        mutate_order(f, &k->s[n]);
        mutate_swizzle(f, &k->s[n], &all);
        mutate_index(f, &k->s[n], &all);
        mutate_bound(f, k, n);
    }
}

int mutations_of(const char *text, const char *const *words, Mutation *out, int room) {
    Found f = {.text = text, .out = out, .room = room};
    for (const char *p = text; (p = strstr(p, ".entry"));) {
        const char *body = f.body = p + strcspn(p, "{");
        Kernel k;
        p = read_kernel(body, &k);
        bool wanted = !words;
        for (int w = 0; words && words[w]; w++) wanted |= piece_has((Piece){body, (int)(p - body)}, words[w]);
        if (wanted) mutate_kernel(&f, &k);
        free(k.s);
    }
    return f.n;
}

static char *replaced(const char *text, size_t at, size_t bytes, const char *now) {
    const size_t length = strlen(text), n = strlen(now);
    char *copy = malloc(length - bytes + n + 1);
    if (!copy) abort();
    memcpy(copy, text, at);
    memcpy(copy + at, now, n);
    memcpy(copy + at + n, text + at + bytes, length - at - bytes + 1);
    return copy;
}

char *mutation_apply(const char *text, const Mutation *m) { return replaced(text, m->at, m->bytes, m->now); }

/* A register that says whether the thread has used memory that others see. */
static char *barrier_probe(const char *text, const Mutation *m) {
    Kernel k;
    char *copy = NULL;
    size_t bytes = 0, from = m->body + 1;
    FILE *f = open_memstream(&copy, &bytes);
    if (!f) abort();
    read_kernel(text + m->body, &k);
    fprintf(f, "%.*s .reg .b32 touched; mov.b32 touched, 0; ", (int)from, text);
    for (int n = 0; n < k.n; n++) {
        const Statement *s = &k.s[n];
        const size_t start = (size_t)(s->all.at - text), end = start + (size_t)s->all.bytes;
        fwrite(text + from, 1, start - from, f);
        if (start == m->statement) fprintf(f, "{ .reg .pred used; setp.ne.b32 used, touched, 0; @used trap; } ");
        fwrite(s->all.at, 1, (size_t)s->all.bytes, f);
        if (is_memory(s) && (piece_has(s->op, ".shared") || !piece_starts(s->op, "ld.")))
            fprintf(f, " mov.b32 touched, 1;");
        from = end;
    }
    fputs(text + from, f);
    fclose(f);
    free(k.s);
    return copy;
}

char *mutation_probe(const char *text, const Mutation *m) {
    return m->kind == MUTATE_BARRIER ? barrier_probe(text, m) : replaced(text, m->statement, 0, m->differs);
}
