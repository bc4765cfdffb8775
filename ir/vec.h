/* Growable arrays that live in an arena:
 *     VEC(Node *) nodes = {0};
 *     vec_push(arena, nodes, node);
 *     for (int i = 0; i < nodes.n; i++) use(nodes.at[i]);
 * Growing goes on where the array ends, or else copies and leaves the old one to the arena. */
#ifndef FUSEC_IR_VEC_H
#define FUSEC_IR_VEC_H
#include "ir/arena.h"

#define VEC(T) \
    struct { \
        T *at; \
        int n, cap; \
    }

#define vec_push(arena, v, ...) \
    ((v).n == (v).cap ? (void)((v).at = vec_grow((arena), (v).at, (v).n, &(v).cap, sizeof *(v).at)) \
                      : (void)0, \
     (v).at[(v).n++] = (__VA_ARGS__))

#define vec_last(v) ((v).at[(v).n - 1])

void *vec_grow(Arena *a, void *at, int n, int *cap, size_t item);

typedef VEC(int) IntList;

#endif
