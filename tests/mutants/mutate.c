/* One-line mutations of C sources: where a test suite looks away.
 *
 *     mutate list SEED COUNT FILE...       COUNT sites drawn from all of the files: FILE:LINE:COLUMN<TAB>KIND<TAB>OLD<TAB>NEW
 *     mutate apply FILE LINE COLUMN OLD NEW   the file with that one change, on standard output
 *
 * Kinds, after the mutation operators of Offutt et al., "An Experimental Determination of Sufficient Mutant Operators" (ACM
 * TOSEM 5(2), 1996), and of what index arithmetic gets wrong: a relation's bound, a sign, a connective, a negation, a literal,
 * the other operand of two, a guard that never returns.  Comments, text, preprocessor lines and table lines are left alone. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Change {
    const char *kind, *old, *now;
} Change;

/* Tried in order at each place; the first that stands there is the one. */
static const Change changes[] = {
    {"bound", " <= ", " < "},      {"bound", " >= ", " > "},       {"bound", " < ", " <= "},       {"bound", " > ", " >= "},
    {"relation", " == ", " != "},  {"relation", " != ", " == "},   {"sign", " + ", " - "},         {"sign", " - ", " + "},
    {"sign", " += ", " -= "},      {"sign", " -= ", " += "},       {"connective", " && ", " || "}, {"connective", " || ", " && "},
    {"operand", "in[0]", "in[1]"}, {"operand", "in[1]", "in[0]"},  {"operand", "[k]", "[1 - k]"},  {"operand", "[1 - k]", "[k]"},
    {"negation", "(!", "("},       {"negation", " !", " "},        {"truth", "true", "false"},     {"truth", "false", "true"},
    {"factor", " / ", " * "},      {"factor", " % ", " / "},       {"factor", " * ", " + "},
};

typedef struct Site {
    const char *file;
    int line, column; /* from 1, from 0 */
    const char *kind;
    char old[64], now[64];
    uint64_t key;
} Site;

typedef struct Sites {
    Site *at;
    size_t n, room;
} Sites;

static void die(const char *what, const char *which) {
    fprintf(stderr, "mutate: %s: %s\n", which, what);
    exit(2);
}

static void add(Sites *s, Site site) {
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->at = realloc(s->at, s->room * sizeof *s->at);
        if (!s->at) die("out of memory", "list");
    }
    s->at[s->n++] = site;
}

/* Overwrites text, characters and comments by 'x' of the same length: what is left is code.  *inside: a comment goes on. */
static void blank(char *line, bool *inside) {
    for (char *p = line; *p && *p != '\n'; p++) {
        if (*inside) {
            *inside = !(p[0] == '*' && p[1] == '/');
            if (!*inside) *p++ = 'x';
            *p = 'x';
        } else if (p[0] == '/' && p[1] == '/') {
            while (*p && *p != '\n') *p++ = 'x';
            return;
        } else if (p[0] == '/' && p[1] == '*') {
            *inside = true;
            *p++ = 'x', *p = 'x';
        } else if (*p == '"' || *p == '\'') {
            const char end = *p;
            *p = 'x';
            for (p++; *p && *p != '\n' && *p != end; p++) {
                if (*p == '\\' && p[1]) *p++ = 'x';
                *p = 'x';
            }
            if (*p == end) *p = 'x';
        }
    }
}

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* Within the size of an allocation, which a larger literal only makes larger. */
static bool in_allocation(const char *line, int at) {
    const char *call = strstr(line, "ARENA_ARRAY(");
    int depth = 0;
    for (const char *p = call; p && p < line + at; p++) depth += (*p == '(') - (*p == ')');
    return depth > 0;
}

/* The size of an array with all of its elements, which may be larger. */
static bool sizes_array(const char *end) { return strncmp(end, "] = {", 5) == 0; }

/* A literal of one to four digits: a bound one off. */
static bool literal(const char *line, int at, Site *s) {
    char *end;
    if (in_allocation(line, at)) return false;
    if (!isdigit((unsigned char)line[at]) || (at > 0 && in_word(line[at - 1]))) return false;
    const long v = strtol(line + at, &end, 10);
    if (in_word(*end) || end - (line + at) > 4 || sizes_array(end)) return false;
    s->kind = "literal";
    snprintf(s->old, sizeof s->old, "%.*s", (int)(end - (line + at)), line + at);
    snprintf(s->now, sizeof s->now, "%ld", v + 1);
    return true;
}

/* `if (` in front of a return, continue or break on the same line. */
static bool guard(const char *line, int at, Site *s) {
    if (strncmp(line + at, "if (", 4) != 0 || (at > 0 && in_word(line[at - 1]))) return false;
    if (!strstr(line, ") return") && !strstr(line, ") continue;") && !strstr(line, ") break;")) return false;
    s->kind = "guard";
    strcpy(s->old, "if (");
    strcpy(s->now, "if (0 && ");
    return true;
}

static bool table(const char *line, int at, Site *s) {
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const size_t n = strlen(changes[i].old);
        const bool word = isalpha((unsigned char)changes[i].old[0]) && changes[i].old[n - 1] != ']';
        if (strncmp(line + at, changes[i].old, n) != 0) continue;
        if (word && ((at > 0 && in_word(line[at - 1])) || in_word(line[at + (int)n]))) continue;
        s->kind = changes[i].kind;
        strcpy(s->old, changes[i].old);
        strcpy(s->now, changes[i].now);
        return true;
    }
    return false;
}

/* FNV-1a. */
static uint64_t hash(uint64_t h, const char *text) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h * 0x9E3779B97F4A7C15u ^ h >> 31;
}

/* Lines that declare nothing to get wrong: directives, signatures and prototypes. */
static bool left_alone(const char *line) { return line[0] == '#' || (line[0] != ' ' && line[0] != '\t'); }

static void list_file(Sites *s, const char *path, uint64_t seed) {
    char *line = NULL, column[16];
    size_t room = 0;
    bool inside = false;
    FILE *f = fopen(path, "r");
    if (!f) die(strerror(errno), path);
    for (int n = 1; getline(&line, &room, f) > 0; n++) {
        const uint64_t key = hash(seed, line);
        blank(line, &inside);
        if (left_alone(line)) continue;
        for (int at = 0; line[at] && line[at] != '\n'; at++) {
            Site site = {.file = path, .line = n, .column = at};
            if (guard(line, at, &site) || table(line, at, &site) || literal(line, at, &site)) {
                snprintf(column, sizeof column, "%d", at);
                site.key = hash(key, column);
                add(s, site);
            }
        }
    }
    free(line);
    fclose(f);
}

static int by_kind_and_key(const void *x, const void *y) {
    const Site *a = x, *b = y;
    const int kinds = strcmp(a->kind, b->kind);
    return kinds ? kinds : a->key != b->key ? (a->key > b->key) - (a->key < b->key) : a->line - b->line;
}

/* Equal chances for each kind (literals are a third of all sites), and of a kind the sites with the least keys.  A key comes from
 * the seed and the text of the line, so that a change of other lines leaves the sample as it is. */
static int list(int n, char **arg) {
    if (n < 3) die("SEED COUNT FILE...", "list");
    const size_t count = strtoull(arg[1], NULL, 10);
    size_t first[64], end[64], kinds = 0, printed = 0;
    Sites s = {0};
    for (int i = 2; i < n; i++) list_file(&s, arg[i], hash(hash(0xcbf29ce484222325u, arg[0]), arg[i]));
    qsort(s.at, s.n, sizeof *s.at, by_kind_and_key);
    for (size_t i = 0; i < s.n; i++) {
        if (i == 0 || strcmp(s.at[i].kind, s.at[i - 1].kind) != 0) first[kinds++] = i;
        end[kinds - 1] = i + 1;
    }
    for (bool more = true; more && printed < count;) {
        more = false;
        for (size_t k = 0; k < kinds && printed < count; k++) {
            if (first[k] == end[k]) continue;
            const Site *site = &s.at[first[k]++];
            printf("%s:%d:%d\t%s\t%s\t%s\n", site->file, site->line, site->column, site->kind, site->old, site->now);
            printed++, more = true;
        }
    }
    free(s.at);
    return 0;
}

static int apply(int n, char **arg) {
    if (n != 5) die("FILE LINE COLUMN OLD NEW", "apply");
    const int at_line = atoi(arg[1]);
    const size_t at = (size_t)atoi(arg[2]), length = strlen(arg[3]);
    char *line = NULL;
    size_t room = 0;
    ssize_t got;
    bool done = false;
    FILE *f = fopen(arg[0], "r");
    if (!f) die(strerror(errno), arg[0]);
    for (int i = 1; (got = getline(&line, &room, f)) > 0; i++) {
        const bool here = i == at_line && at + length <= (size_t)got && strncmp(line + at, arg[3], length) == 0;
        if (here) printf("%.*s%s%s", (int)at, line, arg[4], line + at + length);
        if (!here) fputs(line, stdout);
        done |= here;
    }
    free(line);
    fclose(f);
    if (!done) die("the line is another one", arg[0]);
    return fflush(stdout) ? 2 : 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "list") == 0) return list(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "apply") == 0) return apply(argc - 2, argv + 2);
    fputs("usage: mutate list SEED COUNT FILE... | mutate apply FILE LINE COLUMN OLD NEW\n", stderr);
    return 2;
}
