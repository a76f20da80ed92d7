#pragma once
/*
 * heap - priority queues: the first of what waits comes out first.
 *
 * SP_HEAP(name, type, context, before) defines two static functions over an array of `type` that the caller owns and
 * that has room for all that wait; `count` is how many wait before the call. `before(context, a, b)`, a function or a
 * macro, says whether `a` comes out ahead of `b`. Where it decides between any two different items, the order in which
 * they come out follows from them alone, not from the order in which they were put in.
 *
 *     static bool is_earlier(const double *key, uint32_t a, uint32_t b) { return key[a] < key[b]; }
 *     SP_HEAP(ready, uint32_t, const double *, is_earlier)
 *
 *     ready_push(waiting, count++, node, key);
 *     uint32_t next = ready_pop(waiting, count--, key);
 *
 * Both take logarithmic time, allocate nothing and cannot fail. Popping from nothing is an error of the caller.
 *
 * Why our own: there is none in uthash or stb_ds, and a comparison that is not inlined costs more than the heap.
 */
#include <stdbool.h>
#include <stdint.h>

#define SP_HEAP(name, type, context, before)                                                                           \
    static inline void name##_push(type *items, uint32_t count, type item, context with)                               \
    {                                                                                                                  \
        uint32_t at = count;                                                                                           \
        for (; at > 0 && before(with, item, items[(at - 1) / 2]); at = (at - 1) / 2)                                   \
            items[at] = items[(at - 1) / 2];                                                                           \
        items[at] = item;                                                                                              \
    }                                                                                                                  \
    static inline type name##_pop(type *items, uint32_t count, context with)                                           \
    {                                                                                                                  \
        const type top = items[0], last = items[count - 1];                                                            \
        uint32_t at = 0;                                                                                               \
        for (uint32_t child = 1; child < count - 1; at = child, child = 2 * at + 1) {                                  \
            if (child + 1 < count - 1 && before(with, items[child + 1], items[child]))                                 \
                child++;                                                                                               \
            if (!before(with, items[child], last))                                                                     \
                break;                                                                                                 \
            items[at] = items[child];                                                                                  \
        }                                                                                                              \
        items[at] = last;                                                                                              \
        return top;                                                                                                    \
    }
