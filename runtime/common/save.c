/* Writes a safetensors file: 8 bytes of header length, a JSON header, the tensors' bytes one after the other.
 * Format: github.com/huggingface/safetensors.  The header is produced twice, first to be measured. */
#include "runtime/common/fusec.h"

typedef struct saver {
    const fusec_io *io; /* NULL: only count */
    uint64_t written;
    int failed;
} saver;

static void put_bytes(saver *s, const void *from, uint64_t n) {
    const uint8_t *p = (const uint8_t *)from;
    s->written += n;
    while (s->io && n > 0 && !s->failed) {
        const uint32_t part = n < 0x40000000u ? (uint32_t)n : 0x40000000u;
        s->failed = s->io->write(s->io->user, p, part) != 0;
        p += part;
        n -= part;
    }
}

static void put_text(saver *s, const char *text) {
    uint64_t n = 0;
    while (text[n]) n++;
    put_bytes(s, text, n);
}

static void put_number(saver *s, uint64_t x) {
    char digits[20];
    int at = 20;
    do digits[--at] = (char)('0' + x % 10);
    while (x /= 10);
    put_bytes(s, digits + at, (uint64_t)(20 - at));
}

/* A JSON string; control characters cannot occur in names. */
static void put_name(saver *s, const char *prefix, const char *name) {
    put_text(s, "\"");
    put_text(s, prefix);
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') put_text(s, "\\");
        put_bytes(s, name, 1);
    }
    put_text(s, "\"");
}

static void put_tensor(saver *s, const char *prefix, const fusec_tensor *t, uint64_t at) {
    static const char *const dtype[] = {"BOOL", "I32", "F32", "F64", "F16", "BF16"};
    put_text(s, ",");
    put_name(s, prefix, t->name);
    put_text(s, ":{\"dtype\":\"");
    put_text(s, dtype[t->dtype]);
    put_text(s, "\",\"shape\":[");
    for (int d = 0; d < t->rank; d++) {
        if (d) put_text(s, ",");
        put_number(s, (uint64_t)t->dim[d]);
    }
    put_text(s, "],\"data_offsets\":[");
    put_number(s, at);
    put_text(s, ",");
    put_number(s, at + t->bytes);
    put_text(s, "]}");
}

static void put_header(saver *s, const fusec_manifest *m, uint32_t crc) {
    uint64_t at = 0;
    put_text(s, "{\"__metadata__\":{\"format\":\"fusec\",\"model\":");
    put_name(s, "", m->name);
    put_text(s, ",\"crc32\":\"");
    for (int i = 28; i >= 0; i -= 4) put_bytes(s, &"0123456789abcdef"[crc >> i & 15], 1);
    put_text(s, "\"}");
    for (uint32_t i = 0; i < m->n_params; at += m->params[i++].bytes) put_tensor(s, "", &m->params[i], at);
    for (uint32_t i = 0; i < m->n_states; at += m->states[i++].bytes) put_tensor(s, "state/", &m->states[i], at);
    put_text(s, "}");
    while (s->written % 8) put_text(s, " ");
}

FUSEC_WEAK fusec_status fusec_save(const fusec_manifest *m, const fusec_memory *memory, const fusec_io *io) {
    saver measure = {0}, s = {0};
    uint32_t crc = 0;
    uint8_t length[8];
    if (!memory || !io || !io->write || (m->param_bytes && !memory->params) || (m->state_bytes && !memory->states))
        return FUSEC_E_ARGUMENT;
    if (memory->param_bytes < m->param_bytes || memory->state_bytes < m->state_bytes) return FUSEC_E_MEMORY;
    for (uint32_t i = 0; i < m->n_params; i++)
        crc = fusec_crc32(crc, (const char *)memory->params + m->params[i].offset, m->params[i].bytes);
    for (uint32_t i = 0; i < m->n_states; i++)
        crc = fusec_crc32(crc, (const char *)memory->states + m->states[i].offset, m->states[i].bytes);
    put_header(&measure, m, crc);
    s.io = io;
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(measure.written >> 8 * i);
    put_bytes(&s, length, 8);
    put_header(&s, m, crc);
    for (uint32_t i = 0; i < m->n_params; i++)
        put_bytes(&s, (const char *)memory->params + m->params[i].offset, m->params[i].bytes);
    for (uint32_t i = 0; i < m->n_states; i++)
        put_bytes(&s, (const char *)memory->states + m->states[i].offset, m->states[i].bytes);
    return s.failed ? FUSEC_E_FILE : FUSEC_OK;
}
