#include "tools/ptxsim/ptx/lex.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void lex_init(Lexer *x, const char *text, size_t length) {
    *x = (Lexer){.at = text, .end = text + length, .line_start = text, .line = 1};
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_word_start(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

static char peek(const Lexer *x, ptrdiff_t k) { return x->end - x->at > k ? x->at[k] : '\0'; }

static void newline(Lexer *x) {
    x->line++;
    x->line_start = x->at;
}

/* Skips blanks and comments; false for a comment that never closes. */
static bool skip_blank(Lexer *x) {
    while (x->at < x->end) {
        const char c = *x->at;
        if (c == '\n') {
            x->at++;
            newline(x);
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            x->at++;
        } else if (c == '/' && peek(x, 1) == '/') {
            while (x->at < x->end && *x->at != '\n') x->at++;
        } else if (c == '/' && peek(x, 1) == '*') {
            for (x->at += 2; !(peek(x, 0) == '*' && peek(x, 1) == '/');) {
                if (x->at >= x->end) return false;
                if (*x->at++ == '\n') newline(x);
            }
            x->at += 2;
        } else {
            return true;
        }
    }
    return true;
}

static Token bad(Token t, const char *problem) {
    t.kind = TOK_BAD;
    t.problem = problem;
    return t;
}

static int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

/* Digits of `base`, at most `limit` of them when limit > 0; the count read. */
static int lex_digits(Lexer *x, int base, int limit, uint64_t *value, bool *overflow) {
    int count = 0;
    *value = 0;
    *overflow = false;
    while ((!limit || count < limit) && x->at < x->end && hex_value(*x->at) < base) {
        if (*value > (UINT64_MAX - (uint64_t)hex_value(*x->at)) / (uint64_t)base) *overflow = true;
        *value = *value * (uint64_t)base + (uint64_t)hex_value(*x->at++);
        count++;
    }
    return count;
}

static Token lex_hex_float(Lexer *x, Token t, int digits) {
    bool overflow;
    x->at += 2;
    t.kind = digits == 8 ? TOK_F32 : TOK_F64;
    const int count = lex_digits(x, 16, digits, &t.bits, &overflow);
    return count == digits && !is_word(peek(x, 0)) ? t : bad(t, "a hexadecimal float has 8 (0f) or 16 (0d) digits");
}

static Token lex_decimal_float(Lexer *x, Token t) {
    char copy[64];
    size_t n = 0;
    while (x->at < x->end && n < sizeof copy - 1) {
        const char c = *x->at;
        const bool sign = (c == '+' || c == '-') && n && (copy[n - 1] == 'e' || copy[n - 1] == 'E');
        if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !sign) break;
        copy[n++] = c;
        x->at++;
    }
    copy[n] = '\0';
    char *stop;
    const double value = strtod(copy, &stop);
    t.kind = TOK_F64;
    memcpy(&t.bits, &value, sizeof value);
    return *stop || is_word(peek(x, 0)) ? bad(t, "malformed floating-point number") : t;
}

static bool looks_decimal_float(const Lexer *x) {
    ptrdiff_t k = 0;
    while (is_digit(peek(x, k))) k++;
    return (peek(x, k) == '.' && is_digit(peek(x, k + 1))) || peek(x, k) == 'e' || peek(x, k) == 'E';
}

static Token lex_number(Lexer *x, Token t) {
    const char second = peek(x, 1);
    if (*x->at == '0' && (second == 'f' || second == 'F')) return lex_hex_float(x, t, 8);
    if (*x->at == '0' && (second == 'd' || second == 'D')) return lex_hex_float(x, t, 16);
    int base = 10, count;
    bool overflow;
    if (*x->at == '0' && (second == 'x' || second == 'X')) base = 16;
    else if (*x->at == '0' && (second == 'b' || second == 'B')) base = 2;
    else if (looks_decimal_float(x)) return lex_decimal_float(x, t);
    else if (*x->at == '0') base = 8;
    if (base == 16 || base == 2) x->at += 2;
    count = lex_digits(x, base, 0, &t.bits, &overflow);
    if (peek(x, 0) == 'U') x->at++;
    t.kind = TOK_INT;
    if (overflow) return bad(t, "integer constant exceeds 64 bits");
    return count == 0 || is_word(peek(x, 0)) ? bad(t, "malformed integer constant") : t;
}

static Token lex_string(Lexer *x, Token t) {
    t.kind = TOK_STRING;
    t.text = ++x->at;
    while (x->at < x->end && *x->at != '"' && *x->at != '\n') x->at++;
    t.length = (uint32_t)(x->at - t.text);
    if (peek(x, 0) != '"') return bad(t, "a string does not end on its line");
    x->at++;
    return t;
}

Token lex_next(Lexer *x) {
    const bool closed = skip_blank(x);
    Token t = {.text = x->at, .line = x->line, .column = (int32_t)(x->at - x->line_start) + 1};
    if (!closed) return bad(t, "a comment is never closed");
    if (x->at >= x->end) return t;
    const char c = *x->at;
    if (is_digit(c)) {
        t = lex_number(x, t);
    } else if (is_word_start(c)) {
        t.kind = TOK_WORD;
        do x->at++;
        while (is_word(peek(x, 0)));
    } else if (c == '.' && (is_word(peek(x, 1)) || peek(x, 1) == '%')) {
        t.kind = TOK_DOT;
        t.text++;
        do x->at++;
        while (is_word(peek(x, 0)) || (peek(x, 0) == ':' && peek(x, 1) == ':' && (x->at += 1)));
        /* ".shared::cta": the loop above stepped over the first colon, the next round over the second */
    } else if (c == '"') {
        return lex_string(x, t);
    } else if (c && strchr(",;:{}()[]@!+-|<>=*/&~?", c)) {
        t.kind = TOK_PUNCT;
        t.punct = c;
        x->at++;
    } else {
        x->at++;
        t = bad(t, "a character that PTX does not use");
    }
    t.length = (uint32_t)(x->at - t.text);
    return t;
}
