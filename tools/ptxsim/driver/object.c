/* Handles and what they stand for. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>

/* Handles are this plus 64 for every object made before: aligned like pointers, far from host memory. */
#define FIRST_HANDLE UINT64_C(0x600000000000)
enum { HANDLE_STEP = 64 };

static struct {
    Object **slot;
    uint32_t count, capacity;
    Object *first;
} objects; /* under the lock */

static const char *const NAMES[OBJECT_KINDS] = {"context",    "module",           "function",   "library",
                                                "kernel",     "stream",           "event",      "graph",
                                                "graph node", "executable graph", "memory pool"};
const char *object_kind_name(ObjectKind kind) { return NAMES[kind]; }

static Object **list_of(Context *c) { return c ? &c->objects : &objects.first; }
Object *object_first(Context *c) { return *list_of(c); }

static bool reserve(void) {
    if (objects.count < objects.capacity) return true;
    const uint32_t capacity = objects.capacity ? 2 * objects.capacity : 256;
    Object **grown = realloc(objects.slot, capacity * sizeof *grown);
    if (!grown) return false;
    objects.slot = grown;
    objects.capacity = capacity;
    return true;
}

void *object_new(ObjectKind kind, Context *c, size_t bytes) {
    Object *o = reserve() ? calloc(1, bytes) : NULL;
    if (!o) return NULL;
    Object **list = list_of(c);
    *o = (Object){.kind = kind, .context = c, .next = *list, .index = objects.count};
    if (*list) (*list)->previous = o;
    *list = o;
    objects.slot[objects.count++] = o;
    return o;
}

void object_free(void *object) {
    Object *o = object;
    if (!o) return;
    if (o->next) o->next->previous = o->previous;
    if (o->previous)
        o->previous->next = o->next;
    else
        *list_of(o->context) = o->next;
    objects.slot[o->index] = NULL;
    free(o);
}

void *object_handle(const void *object) {
    const Object *o = object;
    return o ? (void *)(uintptr_t)(FIRST_HANDLE + (uint64_t)o->index * HANDLE_STEP) : NULL;
}

void *object_peek(const void *handle, ObjectKind kind) {
    const uint64_t at = (uint64_t)(uintptr_t)handle - FIRST_HANDLE, index = at / HANDLE_STEP;
    if ((uintptr_t)handle < FIRST_HANDLE || at % HANDLE_STEP || index >= objects.count) return NULL;
    Object *o = objects.slot[index];
    return o && o->kind == kind ? o : NULL;
}

void *object_find(const void *handle, ObjectKind kind) {
    void *o = object_peek(handle, kind);
    if (!o && handle) {
        char note[80];
        snprintf(note, sizeof note, "not a %s, or not one any more", NAMES[kind]);
        report_driver(REPORT_HANDLE, (uint64_t)(uintptr_t)handle, 0, note);
    }
    return o;
}
