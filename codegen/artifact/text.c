/* Names, strings and the runtime's source text. */
#include "codegen/artifact/artifact.h"
#include "codegen/c99/c99.h"
#include <ctype.h>
#include <string.h>

struct embedded {
    const char *name, *text;
};
extern const struct embedded runtime_sources[];

char *artifact_prefix(Arena *a, const Module *m) {
    char *s = c99_identifier(a, m->name);
    return strcmp(s, "fusec") == 0 ? arena_strdup(a, "model_fusec") : s; /* fusec_memory and so on are taken */
}

char *artifact_macro_prefix(Arena *a, const Module *m) {
    char *s = artifact_prefix(a, m);
    for (char *c = s; *c; c++) *c = (char)toupper((unsigned char)*c);
    return s;
}

char *artifact_string(Arena *a, const char *text) {
    char *s = arena_alloc(a, 4 * strlen(text) + 3), *to = s;
    *to++ = '"';
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\' || *c == '?') *to++ = '\\'; /* ?: no trigraphs */
        if (isprint((unsigned char)*c) && (unsigned char)*c < 128) {
            *to++ = *c;
            continue;
        }
        *to++ = '\\'; /* three octal digits: no following digit can join them */
        for (int shift = 6; shift >= 0; shift -= 3) *to++ = (char)('0' + ((unsigned char)*c >> shift & 7));
    }
    *to++ = '"';
    return s;
}

char *artifact_runtime(Arena *a, const char *file) {
    for (const struct embedded *e = runtime_sources; e->name; e++) {
        if (strcmp(e->name, file) != 0) continue;
        char *s = arena_alloc(a, strlen(e->text) + 1), *to = s;
        for (const char *line = e->text; *line;) {
            const char *end = strchr(line, '\n');
            const size_t n = end ? (size_t)(end - line) + 1 : strlen(line);
            if (strncmp(line, "#include \"", 10) != 0) {
                memcpy(to, line, n);
                to += n;
            }
            line += n;
        }
        return s;
    }
    return NULL;
}
