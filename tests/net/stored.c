// The safetensors format: eight bytes of header length, the header in JSON, the data (huggingface/safetensors, README).
#include "tests/net/judge.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int width(const char *dtype) { return !strcmp(dtype, "BOOL") ? 1 : strstr(dtype, "F16") ? 2 : !strcmp(dtype, "I64") || !strcmp(dtype, "F64") ? 8 : 4; }

static void put(FILE *f, const Stored *s, int i) {
    float x = (float)s->data[i];
    int k = (int)s->data[i];
    unsigned char b = s->data[i] != 0;
    if (s->dtype[0] == 'F') fwrite(&x, 4, 1, f);
    else if (s->dtype[0] == 'I') fwrite(&k, 4, 1, f);
    else fwrite(&b, 1, 1, f);
}

bool stored_write(const char *path, const Stored *s, int count) {
    char *header = NULL;
    size_t size = 0, at = 0;
    FILE *h = open_memstream(&header, &size), *f = fopen(path, "wb");
    if (!h || !f) return false;
    fputc('{', h);
    for (int k = 0; k < count; k++) {
        size_t bytes = (size_t)s[k].size * (size_t)width(s[k].dtype);
        fprintf(h, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", k ? "," : "", s[k].name, s[k].dtype);
        for (int d = 0; d < s[k].rank; d++) fprintf(h, "%s%d", d ? "," : "", s[k].n[d]);
        fprintf(h, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    fputc('}', h);
    while (ftell(h) % 8) fputc(' ', h);
    fclose(h);
    unsigned long long length = size;
    fwrite(&length, 8, 1, f);
    fwrite(header, 1, size, f);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < s[k].size; i++) put(f, &s[k], i);
    free(header);
    return fclose(f) == 0;
}

static double from_bf16(unsigned short bits) {
    unsigned wide = (unsigned)bits << 16;
    float x;
    return memcpy(&x, &wide, 4), (double)x;
}
static double from_f16(unsigned short b) {
    int e = b >> 10 & 31, m = b & 1023;
    double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return b >> 15 ? -x : x;
}
static double get(const char *dtype, const unsigned char *p) {
    float x;
    double d;
    int k;
    unsigned short h;
    if (strstr(dtype, "F16")) return memcpy(&h, p, 2), dtype[0] == 'B' ? from_bf16(h) : from_f16(h);
    if (!strcmp(dtype, "F64")) return memcpy(&d, p, 8), d;
    if (!strcmp(dtype, "F32")) return memcpy(&x, p, 4), (double)x;
    if (dtype[0] == 'I') return memcpy(&k, p, 4), (double)k;
    return *p;
}

static const char *entry(const char *at, Stored *s, size_t *from) {
    const char *q = strchr(at, '"'), *end = q ? strchr(q + 1, '"') : NULL;
    if (!end || end - q > 100) return NULL;
    *s = (Stored){.size = 1};
    memcpy(s->name, q + 1, (size_t)(end - q - 1));
    if (!strcmp(s->name, "__metadata__")) return strchr(end, '}') ? strchr(end, '}') + 1 : NULL;
    const char *dtype = strstr(end, "\"dtype\":"), *shape = strstr(end, "\"shape\":"), *offsets = strstr(end, "\"data_offsets\":");
    if (!dtype || !shape || !offsets) return NULL;
    sscanf(dtype + 8, " \"%7[A-Z0-9]", s->dtype);
    for (shape = strchr(shape, '[') + 1; *shape != ']' && s->rank < 8; shape += *shape == ',') {
        s->n[s->rank] = (int)strtol(shape, (char **)&shape, 10);
        s->size *= s->n[s->rank++];
        while (*shape == ' ') shape++;
    }
    *from = strtoul(strchr(offsets, '[') + 1, NULL, 10);
    return strchr(offsets, '}') + 1;
}

static char *slurp(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(1, *size + 1);
    bool ok = text && fread(text, 1, *size, f) == *size;
    fclose(f);
    return ok ? text : NULL;
}

int stored_read(const char *path, Stored *s, int most) {
    size_t size = 0;
    unsigned long long length = 0;
    char *text = slurp(path, &size);
    if (!text || size < 8) return free(text), -1;
    memcpy(&length, text, 8);
    int count = 0;
    const char *at = text + 9, *end = text + 8 + length;
    while (count < most && at && at < end && memchr(at, '"', (size_t)(end - at))) {
        size_t from = 0;
        const char *next = entry(at, &s[count], &from);
        if (next && s[count].dtype[0]) {
            s[count].data = calloc((size_t)s[count].size + 1, sizeof(double));
            for (int i = 0; i < s[count].size; i++) s[count].data[i] = get(s[count].dtype, (unsigned char *)end + from + (size_t)i * (size_t)width(s[count].dtype));
            count++;
        }
        at = next;
    }
    free(text);
    return count;
}
