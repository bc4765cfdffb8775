/* Writes a safetensors file: 8 bytes of header length, a JSON header, the tensors' bytes one after the other.
 * Format: github.com/huggingface/safetensors.  The header is produced twice, first to be measured. */
#include "runtime/common/fusec.h"

typedef struct fusec_saver {
    const fusec_io *io; /* NULL: only count */
    uint64_t written;
    int failed;
} fusec_saver;

static void fusec_put_bytes(fusec_saver *s, const void *from, uint64_t n) {
    const uint8_t *p = (const uint8_t *)from;
    s->written += n;
    while (s->io && n > 0 && !s->failed) {
        const uint32_t part = n < 0x40000000u ? (uint32_t)n : 0x40000000u;
        s->failed = s->io->write(s->io->user, p, part) != 0;
        p += part;
        n -= part;
    }
}

static void fusec_put_text(fusec_saver *s, const char *text) {
    uint64_t n = 0;
    while (text[n]) n++;
    fusec_put_bytes(s, text, n);
}

static void fusec_put_number(fusec_saver *s, uint64_t x) {
    char digits[20];
    int at = 20;
    do digits[--at] = (char)('0' + x % 10);
    while (x /= 10);
    fusec_put_bytes(s, digits + at, (uint64_t)(20 - at));
}

/* A JSON string; control characters cannot occur in names. */
static void fusec_put_name(fusec_saver *s, const char *prefix, const char *name) {
    fusec_put_text(s, "\"");
    fusec_put_text(s, prefix);
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') fusec_put_text(s, "\\");
        fusec_put_bytes(s, name, 1);
    }
    fusec_put_text(s, "\"");
}

static void fusec_put_tensor(fusec_saver *s, const char *prefix, const fusec_tensor *t, uint64_t at) {
    static const char *const dtype[] = {
        [FUSEC_BOOL] = "BOOL", [FUSEC_I32] = "I32", [FUSEC_F32] = "F32", [FUSEC_F16] = "F16", [FUSEC_BF16] = "BF16"};
    fusec_put_text(s, ",");
    fusec_put_name(s, prefix, t->name);
    fusec_put_text(s, ":{\"dtype\":\"");
    fusec_put_text(s, dtype[t->dtype]);
    fusec_put_text(s, "\",\"shape\":[");
    for (int d = 0; d < t->rank; d++) {
        if (d) fusec_put_text(s, ",");
        fusec_put_number(s, (uint64_t)t->dim[d]);
    }
    fusec_put_text(s, "],\"data_offsets\":[");
    fusec_put_number(s, at);
    fusec_put_text(s, ",");
    fusec_put_number(s, at + t->bytes);
    fusec_put_text(s, "]}");
}

/* Ten digits whatever the value is. */
static void fusec_put_value(fusec_saver *s, const char *key, uint32_t x) {
    char digits[10];
    for (int at = 10; at-- > 0; x /= 10) digits[at] = (char)('0' + x % 10);
    fusec_put_text(s, key);
    fusec_put_bytes(s, digits, sizeof digits);
}

static void fusec_put_header(fusec_saver *s, const fusec_manifest *m, const fusec_position *position, uint32_t crc) {
    uint64_t at = 0;
    fusec_put_text(s, "{\"__metadata__\":{\"format\":\"fusec\",\"model\":");
    fusec_put_name(s, "", m->name);
    fusec_put_text(s, ",\"crc32\":\"");
    for (int i = 28; i >= 0; i -= 4) fusec_put_bytes(s, &"0123456789abcdef"[crc >> i & 15], 1);
    if (position) {
        fusec_put_value(s, "\",\"step\":\"", (uint32_t)position->step);
        fusec_put_value(s, "\",\"seed\":\"", position->seed);
    }
    fusec_put_text(s, "\"}");
    for (uint32_t i = 0; i < m->n_params; at += m->params[i++].bytes) fusec_put_tensor(s, "", &m->params[i], at);
    for (uint32_t i = 0; i < m->n_states; at += m->states[i++].bytes) fusec_put_tensor(s, "state/", &m->states[i], at);
    fusec_put_text(s, "}");
    while (s->written % 8) fusec_put_text(s, " ");
}

FUSEC_WEAK fusec_status fusec_save(const fusec_manifest *m, const fusec_memory *memory, const fusec_position *at,
                                   const fusec_io *io) {
    fusec_saver measure = {0}, s = {0};
    uint32_t crc = 0;
    uint8_t length[8];
    if (!m || !memory || !io || !io->write || (at && at->step < 0) || (m->param_bytes && !memory->params) ||
        (m->state_bytes && !memory->states))
        return FUSEC_E_ARGUMENT;
    if (memory->param_bytes < m->param_bytes || memory->state_bytes < m->state_bytes) return FUSEC_E_MEMORY;
    for (uint32_t i = 0; i < m->n_params; i++)
        crc = fusec_crc32(crc, (const char *)memory->params + m->params[i].offset, m->params[i].bytes);
    for (uint32_t i = 0; i < m->n_states; i++)
        crc = fusec_crc32(crc, (const char *)memory->states + m->states[i].offset, m->states[i].bytes);
    if (at) crc = fusec_crc32_position(crc, at);
    fusec_put_header(&measure, m, at, crc);
    s.io = io;
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(measure.written >> 8 * i);
    fusec_put_bytes(&s, length, 8);
    fusec_put_header(&s, m, at, crc);
    for (uint32_t i = 0; i < m->n_params; i++)
        fusec_put_bytes(&s, (const char *)memory->params + m->params[i].offset, m->params[i].bytes);
    for (uint32_t i = 0; i < m->n_states; i++)
        fusec_put_bytes(&s, (const char *)memory->states + m->states[i].offset, m->states[i].bytes);
    return s.failed ? FUSEC_E_FILE : FUSEC_OK;
}
