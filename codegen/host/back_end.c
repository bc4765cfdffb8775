#include "codegen/back_end.h"
#include "codegen/host/host.h"

static HostOptions options(const BackEndOptions *o) { return (HostOptions){.triple = o->triple, .cpu = o->arch}; }

static bool schedule(Module *m, const BackEndOptions *o, char **error) {
    const HostOptions ho = options(o);
    return host_schedule(m, &ho, error);
}

static bool ir_text(const Module *m, const BackEndOptions *o, char **text, char **error) {
    const HostOptions ho = options(o);
    return host_emit_ir_text(m, &ho, text, error);
}

static bool code(const Module *m, const BackEndOptions *o, const char *header, void **bytes, size_t *n, char **error) {
    const HostOptions ho = options(o);
    (void)header;
    return host_emit_object(m, &ho, bytes, n, error);
}

extern const BackEnd back_end_HOST;
const BackEnd back_end_HOST = {
    .usual = "host", .form = &artifact_host_form, .schedule = schedule, .ir_text = ir_text, .code = code};
