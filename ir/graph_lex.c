/* Tokens of graph text.  Survives any text: everything it does not know is an error with a place. */
#include "ir/graph_text.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void graph_lexer_fail(Lexer *l, const Token *where, const char *fmt, ...) {
    if (!l->error) {
        va_list ap;
        va_start(ap, fmt);
        l->error = arena_printf(l->arena, "%d:%d: %s", where->line, where->col, arena_vprintf(l->arena, fmt, ap));
        va_end(ap);
    }
    l->token.kind = TOKEN_END;
}

static void advance(Lexer *l, int n) {
    for (; n > 0; n--, l->at++) {
        l->col++;
        if (*l->at == '\n') {
            l->line++;
            l->col = 1;
        }
    }
}

static void skip_space(Lexer *l) {
    for (;;) {
        if (*l->at == ' ' || *l->at == '\t' || *l->at == '\r' || *l->at == '\n') {
            advance(l, 1);
        } else if (*l->at == '#') {
            advance(l, (int)strcspn(l->at, "\n"));
        } else {
            return;
        }
    }
}

static int digits(const char *s) { return (int)strspn(s, "0123456789"); }

/* Decimal digits, few enough to fit. */
static int64_t read_integer(const char *s, int n) {
    int64_t value = 0;
    for (int i = 0; i < n; i++) value = value * 10 + (s[i] - '0');
    return value;
}

static int number_length(const char *s, bool *is_integer) {
    int n = digits(s), exponent;
    *is_integer = true;
    if (s[n] == '.' && digits(s + n + 1) > 0) {
        n += 1 + digits(s + n + 1);
        *is_integer = false;
    }
    if (s[n] == 'e' || s[n] == 'E') {
        int sign = s[n + 1] == '+' || s[n + 1] == '-';
        exponent = digits(s + n + 1 + sign);
        if (exponent > 0) {
            n += 1 + sign + exponent;
            *is_integer = false;
        }
    }
    return n;
}

static void read_number(Lexer *l) {
    Token *t = &l->token;
    bool is_integer;
    t->length = number_length(t->text, &is_integer);
    t->kind = is_integer ? TOKEN_INTEGER : TOKEN_FLOAT;
    if (t->length > 400) {
        graph_lexer_fail(l, t, "number too long");
        return;
    }
    char copy[401] = {0};
    memcpy(copy, t->text, (size_t)t->length);
    t->number = strtod(copy, NULL);
    if (is_integer && t->number > 0x1p60) {
        graph_lexer_fail(l, t, "number too large");
    } else if (is_integer) {
        int zeros = (int)strspn(copy, "0");
        t->integer = read_integer(copy + zeros, t->length - zeros);
    }
}

static void read_string(Lexer *l) {
    Token *t = &l->token;
    int n = 1;
    while (t->text[n] && t->text[n] != '"' && t->text[n] != '\n') n += t->text[n] == '\\' && t->text[n + 1] ? 2 : 1;
    t->kind = TOKEN_STRING;
    t->length = n + 1;
    if (t->text[n] != '"') graph_lexer_fail(l, t, "string is not closed");
}

static int name_length(const char *s) {
    int n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
    return n;
}

static void read_value(Lexer *l) {
    Token *t = &l->token;
    int n = digits(t->text + 1);
    if (n == 0 || n > 9) {
        graph_lexer_fail(l, t, "%% needs a number");
        return;
    }
    t->kind = TOKEN_VALUE;
    t->length = n + 1;
    t->integer = read_integer(t->text + 1, n);
}

static void read_symbol(Lexer *l) {
    static const struct {
        char text[3];
        TokenKind kind;
    } pairs[] = {{"->", TOKEN_ARROW}, {"<-", TOKEN_GETS}, {"<=", TOKEN_LE}, {"==", TOKEN_EQ}, {"..", TOKEN_RANGE}};
    Token *t = &l->token;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strncmp(t->text, pairs[i].text, 2) == 0) {
            t->kind = pairs[i].kind;
            t->length = 2;
            return;
        }
    }
    if (strchr("@={}:[],+-*/()<!", *t->text)) {
        t->kind = *t->text;
        t->length = 1;
    } else {
        graph_lexer_fail(l, t, "unexpected character (code %d)", (unsigned char)*t->text);
    }
}

void graph_lexer_next(Lexer *l) {
    if (l->error) {
        l->token.kind = TOKEN_END;
        return;
    }
    skip_space(l);
    l->token = (Token){.text = l->at, .line = l->line, .col = l->col, .kind = TOKEN_END};
    char c = *l->at;
    if (c == 0) return;
    if (isalpha((unsigned char)c) || c == '_') {
        l->token.kind = TOKEN_NAME;
        l->token.length = name_length(l->at);
    } else if (c >= '0' && c <= '9') {
        read_number(l);
    } else if (c == '"') {
        read_string(l);
    } else if (c == '%') {
        read_value(l);
    } else {
        read_symbol(l);
    }
    if (!l->error) advance(l, l->token.length);
}

Lexer graph_lexer_start(Arena *a, const char *text) {
    Lexer l = {.arena = a, .at = text, .line = 1, .col = 1};
    graph_lexer_next(&l);
    return l;
}

bool token_is(const Token *t, const char *word) {
    return t->kind == TOKEN_NAME && strlen(word) == (size_t)t->length && memcmp(t->text, word, (size_t)t->length) == 0;
}

bool graph_lexer_is(const Lexer *l, int kind) { return l->token.kind == kind; }

bool graph_lexer_word(Lexer *l, const char *word) {
    if (!token_is(&l->token, word)) return false;
    graph_lexer_next(l);
    return true;
}

bool graph_lexer_take(Lexer *l, int kind) {
    if (l->token.kind != kind) return false;
    graph_lexer_next(l);
    return true;
}

void graph_lexer_expect(Lexer *l, int kind, const char *what) {
    if (!graph_lexer_take(l, kind)) graph_lexer_fail(l, &l->token, "expected %s", what);
}

static int hex(char c) {
    const char *all = "0123456789abcdef", *at = c ? strchr(all, c) : NULL;
    return at ? (int)(at - all) : -1;
}

const char *graph_lexer_string(Lexer *l) {
    Token t = l->token;
    if (t.kind != TOKEN_STRING) {
        graph_lexer_fail(l, &t, "expected a name in quotes");
        return "";
    }
    char *out = arena_alloc(l->arena, (size_t)t.length), *to = out;
    for (int i = 1; i < t.length - 1; i++) {
        char c = t.text[i];
        if (c == '\\' && t.text[i + 1] == 'x') {
            int high = hex(t.text[i + 2]), low = high < 0 ? -1 : hex(t.text[i + 3]);
            c = (char)(low < 0 ? 0 : high * 16 + low);
            i += 3;
        } else if (c == '\\') {
            c = t.text[++i];
        }
        if (c == 0) {
            graph_lexer_fail(l, &t, "bad escape in a name");
            return "";
        }
        *to++ = c;
    }
    graph_lexer_next(l);
    return out;
}
