/* Accesses to memory: what does not depend on the instruction-set level; ranges of asynchronous operations. */
#include "tools/ptxsim/exec/access_level.h"
#include "tools/ptxsim/exec/async.h"
#include "tools/ptxsim/exec/page.h"
#include "tools/ptxsim/ptx/parse.h"
#include <stdio.h>

static const char *did(const Access *x) {
    return x->actor.atomic ? "atomic on" : x->actor.write ? "write of" : "read of";
}

/* ---- findings of addresses -------------------------------------------------------------------------------- */
void access_bounds(const Access *x, int lane, const char *space, uint64_t size) {
    char note[160];
    snprintf(note, sizeof note, "%s %s memory of %llu bytes", did(x), space, (unsigned long long)size);
    warp_report(x->w, REPORT_BOUNDS, lane, x->address[lane] + x->window, (int)x->bytes, note);
}

void access_global_bounds(const Access *x, int lane) {
    char note[160];
    const uint64_t address = x->address[lane];
    const Allocation *a = memory_near(x->w->block->launch->memory, address);
    if (!a) {
        snprintf(note, sizeof note, "%s global memory: nothing is allocated", did(x));
    } else {
        const bool after = address >= a->address;
        snprintf(note, sizeof note, "%s global memory, %llu bytes %s allocation 0x%llx of %llu bytes%s%s", did(x),
                 (unsigned long long)(after ? address - a->address : a->address - address),
                 after ? "after the start of" : "before", (unsigned long long)a->address, (unsigned long long)a->bytes,
                 a->name ? " " : "", a->name ? a->name : "");
    }
    warp_report(x->w, REPORT_BOUNDS, lane, address, (int)x->bytes, note);
}

void access_misaligned(const Access *x, uint32_t mask) {
    char note[64];
    snprintf(note, sizeof note, "an access of %u bytes needs that alignment", x->bytes);
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        warp_report(x->w, REPORT_MISALIGNED, l, x->address[l] + x->window, (int)x->bytes, note);
    }
}

/* Lanes that write the same bytes in one instruction must write the same values there. */
void access_overlapped(Warp *w, const Inst *i, const uint64_t address[WARP], uint8_t *const place[WARP], int bytes) {
    const int each = type_bytes((PtxType)i->type);
    for (int l = 0; l < WARP; l++) {
        uint8_t value[16];
        for (int k = 0; place[l] && k < i->count; k++)
            memcpy(value + k * each, (const uint8_t *)lane_in(w, &i->vec[k]) + l * i->vec[k].bytes, (size_t)each);
        if (!place[l] || memcmp(place[l], value, (size_t)bytes) == 0) continue;
        warp_report(w, REPORT_RACE, l, address[l], bytes,
                    "lanes of one store write different values to the same bytes");
        return;
    }
}

/* ---- addresses -------------------------------------------------------------------------------------------- */
Block *access_block(const Access *x, uint64_t address, uint64_t *offset) {
    Block *b = shared_block(x->w, address, offset);
    return x->own_block && b != x->w->block ? NULL : b;
}

Space access_window(uint64_t address, uint64_t *start) {
    static const struct { uint64_t start; Space space; } WINDOW[] = {
        {SHARED_WINDOW, SPACE_SHARED}, {LOCAL_WINDOW, SPACE_LOCAL}, {PARAM_WINDOW, SPACE_PARAM}};
    *start = 0;
    for (int k = 0; k < 3; k++) {
        if (address - WINDOW[k].start >= WINDOW_BYTES) continue;
        *start = WINDOW[k].start;
        return WINDOW[k].space;
    }
    return SPACE_GLOBAL;
}

Actor access_actor(Warp *w, AccessKind kind, uint8_t scope) {
    return (Actor){.warp = w,
                   .table = w->cluster->table,
                   .cluster = (uint32_t)w->cluster->linear + 1,
                   .stamp = stamp_make(w->time, w->agent, 0),
                   .write = kind != ACCESS_READ,
                   .atomic = kind == ACCESS_ATOMIC,
                   .scope = scope};
}

/* ---- dependent grids ---------------------------------------------------------------------------------------- */
/* A kernel that waits for others may have been launched while they run (PTX ISA, griddepcontrol). */
void access_early(Warp *w, const uint64_t address[WARP], int bytes, uint32_t mask) {
    if (!w->block->launch->fn->waits || !(mask &= ~w->waited)) return;
    const int lane = __builtin_ctz(mask);
    warp_report(w, REPORT_EARLY, lane, address[lane], bytes, "the thread has not executed griddepcontrol.wait");
}

/* ---- the interface ---------------------------------------------------------------------------------------- */
void warp_places(Warp *w, Space space, AccessKind kind, uint8_t scope, const uint64_t address[WARP], int bytes,
                 uint32_t mask, Places *out) {
    w->block->launch->access->places(w, space, kind, scope, address, bytes, mask, out);
}

void places_spread(Places *p, int bytes, uint32_t mask, uint8_t *place[WARP]) {
    for (int l = 0; l < WARP; l++) {
        uint8_t *at = p->shape == PLACE_SAME ? p->first : p->shape == PLACE_ROW ? p->first + l * bytes : p->lane[l];
        place[l] = mask >> l & 1 ? at : NULL;
    }
}

void warp_access(Warp *w, Space space, AccessKind kind, bool ordered, const uint64_t address[WARP], int bytes,
                 uint32_t mask, uint8_t *place[WARP]) {
    Places p;
    warp_places(w, space, kind, ordered ? SCOPED_SYS : WEAK, address, bytes, mask, &p);
    places_spread(&p, bytes, mask, place);
}

/* ---- ranges of asynchronous operations -------------------------------------------------------------------- */
/* A kernel's parameters, of which copies only read tensor maps. */
static bool param_range(const Warp *w, uint64_t offset, uint32_t bytes, Range *out) {
    const Launch *k = w->block->launch;
    if (offset > k->fn->param_bytes || k->fn->param_bytes - offset < bytes) return false;
    out->offset = offset;
    out->data = (uint8_t *)k->params + offset;
    return true;
}

bool range_find(Warp *w, int lane, Space space, uint64_t address, uint32_t bytes, uint32_t align, bool write,
                Range *out) {
    uint64_t start = 0, at[WARP] = {0};
    if (space == SPACE_GENERIC) space = access_window(address, &start);
    if (space == SPACE_CLUSTER) space = SPACE_SHARED;
    at[lane] = address - start;
    const Access x = {.w = w, .actor = access_actor(w, write ? ACCESS_WRITE : ACCESS_READ, WEAK), .space = space,
                      .bytes = bytes, .address = at, .window = start};
    if (align > 1 && address % align) {
        char note[64];
        snprintf(note, sizeof note, "an access that needs an alignment of %u bytes", align);
        warp_report(w, REPORT_MISALIGNED, lane, address, (int)bytes, note);
        return false;
    }
    *out = (Range){.space = space, .address = address, .bytes = bytes};
    if (space == SPACE_SHARED) {
        out->block = shared_block(w, at[lane], &out->offset);
        const uint32_t room = out->block ? out->block->shared_bytes : 0;
        if (!out->block || out->offset > room || room - out->offset < bytes) {
            access_bounds(&x, lane, "shared", room);
            return false;
        }
        out->data = out->block->shared + out->offset;
        return true;
    }
    if (space == SPACE_PARAM && !write && param_range(w, at[lane], bytes, out)) return true;
    const Allocation *a = space == SPACE_GLOBAL ? memory_find(w->block->launch->memory, at[lane]) : NULL;
    if (!a || a->bytes - (at[lane] - a->address) < bytes) {
        access_global_bounds(&x, lane);
        return false;
    }
    access_early(w, at, (int)bytes, 1u << lane);
    out->allocation = a;
    out->offset = at[lane] - a->address;
    out->data = a->data + out->offset;
    return true;
}

/* `bytes` of a shadow from `offset` on: whole words as a row where they allow it, the rest one after another. */
static bool range_row(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    const AccessKernels *kernels = a->warp->block->launch->access;
    if (a->scope) return false; /* reductions: rows are of weak accesses */
    return (a->write ? kernels->row_write : kernels->row_read)(a, s, k, n, code);
}

static void range_part(const Actor *a, const Shadow *s, uint64_t offset, uint64_t bytes, int lane, uint32_t code,
                       Conflict *f) {
    uint8_t codes[64];
    memset(codes, (int)code, sizeof codes);
    while (bytes) {
        const uint32_t k = (uint32_t)(offset / 4), at = offset % 4;
        uint64_t n = bytes / 4 < 64 ? bytes / 4 : 64;
        if (at == 0 && n && range_row(a, s, k, (uint32_t)n, codes)) {
            n *= 4;
        } else {
            n = 4 - at < bytes ? 4 - at : bytes;
            shadow_touch(a, s, k, lane, code, (int)at, (int)n, f);
        }
        offset += n;
        bytes -= n;
    }
}

static void range_check(Warp *w, int lane, const AsyncOp *op, const Range *r, bool write, const uint8_t *value) {
    Actor a = access_actor(w, write ? ACCESS_WRITE : ACCESS_READ, WEAK);
    a.value = value;
    Conflict found = {0};
    const uint32_t code = op && op->async_proxy ? LANE_ASYNC : (uint32_t)lane;
    if (op) {
        a.stamp = stamp_make(op->time, op->agent, 0);
        a.async_proxy = op->async_proxy;
        a.proxy_space = r->space == SPACE_SHARED ? PROXY_SHARED : PROXY_GLOBAL;
        if (op->reduces && write) a.atomic = true, a.scope = SCOPED_GPU; /* each element .relaxed.gpu */
    }
    if (r->space == SPACE_SHARED) {
        const Shadow s = block_shadow(r->block);
        range_part(&a, &s, r->offset, r->bytes, lane, code, &found);
    } else {
        for (uint64_t done = 0, part; done < r->bytes; done += part) {
            const uint64_t address = r->allocation->address + r->offset + done,
                           left = PAGE_BYTES - address % PAGE_BYTES;
            Page *p = page_at(w, address);
            part = r->bytes - done < left ? r->bytes - done : left;
            if (!p || r->allocation->constant) continue;
            if (write) p->writer = w->at;
            else p->reader = w->at;
            range_part(&a, &p->shadow, address % PAGE_BYTES, part, lane, code, &found);
        }
    }
    if (found.with || found.unwritten) race_report(&a, r->space, lane, r->address, (int)r->bytes, &found);
}

void range_read(Warp *w, int lane, const AsyncOp *op, const Range *r) { range_check(w, lane, op, r, false, NULL); }
void range_write(Warp *w, int lane, const AsyncOp *op, const Range *r) { range_check(w, lane, op, r, true, NULL); }
void range_store(Warp *w, int lane, const AsyncOp *op, const Range *r, const uint8_t *value) {
    range_check(w, lane, op, r, true, value);
}
void range_poison(const Range *r) { memset(r->data, 0xff, r->bytes); }

void range_forget(Warp *w, const Range *r) {
    for (uint64_t done = 0; done < r->bytes; done += 4) {
        const uint64_t address = r->allocation->address + r->offset + done;
        Page *p = page_at(w, address);
        if (!p) continue;
        const uint32_t at = address % PAGE_BYTES;
        p->shadow.w[at / 4] = p->shadow.r[at / 4] = 0;
        memset(p->written + (at - p->from), 0, 4);
    }
}
