/* Arenas: a chain of blocks, freed together. */
#include "ir/arena.h"
#include "ir/memory.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BLOCK = 1 << 16, LARGEST_BLOCK = 1 << 22 };

typedef struct ArenaBlock {
    struct ArenaBlock *next;
    size_t size; /* bytes of payload, which follows at the next aligned address */
} ArenaBlock;

struct Arena {
    ArenaBlock *blocks; /* the one in use first */
    char *at;      /* next free byte of it */
    size_t left;
    size_t handed_out;
    size_t next_block;
    Arena *children, *next; /* the first child; the next of the same parent */
    Arena **link;           /* what points to this one, NULL if it has no parent */
};

static size_t round_up(size_t n) {
    if (n > SIZE_MAX / 2) memory_exhausted();
    return (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static char *payload(ArenaBlock *b) { return (char *)b + round_up(sizeof *b); }

static ArenaBlock *block_new(size_t bytes) {
    ArenaBlock *b = memory_zeroed(1, round_up(sizeof *b) + bytes);
    b->size = bytes;
    return b;
}

Arena *arena_new(void) {
    Arena *a = memory_zeroed(1, sizeof *a);
    a->next_block = FIRST_BLOCK;
    return a;
}

Arena *arena_child(Arena *a) {
    Arena *child = arena_new();
    child->link = &a->children;
    child->next = a->children;
    if (child->next) child->next->link = &child->next;
    a->children = child;
    return child;
}

void arena_free(Arena *a) {
    if (!a) return;
    while (a->children) arena_free(a->children);
    if (a->link) *a->link = a->next;
    if (a->next) a->next->link = a->link;
    for (ArenaBlock *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(a);
}

/* A block of its own, kept behind the one in use so that its free rest is not lost. */
static void *alloc_alone(Arena *a, size_t bytes) {
    ArenaBlock *b = block_new(bytes);
    if (a->blocks) {
        b->next = a->blocks->next;
        a->blocks->next = b;
    } else {
        a->blocks = b;
    }
    return payload(b);
}

#ifdef FUSEC_ARENA_MALLOC
static void *alloc_from_block(Arena *a, size_t bytes) { return alloc_alone(a, bytes); }
#else
static void *alloc_from_block(Arena *a, size_t bytes) {
    bytes = round_up(bytes);
    if (bytes > a->left) {
        if (bytes > a->next_block / 4) return alloc_alone(a, bytes);
        ArenaBlock *b = block_new(a->next_block);
        b->next = a->blocks;
        a->blocks = b;
        a->at = payload(b);
        a->left = b->size;
        if (a->next_block < LARGEST_BLOCK) a->next_block *= 2;
    }
    void *p = a->at;
    a->at += bytes;
    a->left -= bytes;
    return p;
}
#endif

bool arena_extend(Arena *a, const void *p, size_t old, size_t bytes) {
    if (!a->at || (const char *)p + round_up(old) != a->at || bytes > SIZE_MAX / 4) return false;
    const size_t more = round_up(bytes) - round_up(old);
    if (more > a->left) return false;
    a->at += more;
    a->left -= more;
    a->handed_out += bytes - old;
    return true;
}

void *arena_alloc(Arena *a, size_t bytes) {
    if (bytes == 0) bytes = 1;
    if (bytes > SIZE_MAX / 4) memory_exhausted();
    a->handed_out += bytes;
    return alloc_from_block(a, bytes);
}

void *arena_dup(Arena *a, const void *src, size_t bytes) {
    void *p = arena_alloc(a, bytes);
    if (bytes) memcpy(p, src, bytes);
    return p;
}

char *arena_strdup(Arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_strndup(Arena *a, const char *s, size_t n) {
    size_t length = strnlen(s, n);
    char *p = arena_alloc(a, length + 1);
    memcpy(p, s, length);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *s = arena_alloc(a, n < 0 ? 1 : (size_t)n + 1);
    if (n >= 0) vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

size_t arena_bytes(const Arena *a) { return a->handed_out; }
