#pragma once
/*
 * sorted - orders for qsort() and sp_sort(), and binary search in whatever is in order: arrays, lists of ranges, and
 * orders that are kept beside the items.
 *
 *     SP_ASCENDING(by_key, struct item, key, number)
 *     ...
 *     qsort(items, count, sizeof *items, by_key);
 *
 *     uint32_t at;
 *     SP_LOWER_BOUND(at, count, items[at].key < key);
 *     if (at < count && items[at].key == key)
 *         ...
 */
#include <stddef.h>
#include <stdlib.h>

/* -1, 0 or 1, as x comes before y or behind it. */
#define SP_ORDER(x, y) (((x) > (y)) - ((x) < (y)))

/* Defines `name`, a function for qsort(): items of a type, ascending by these members, of which the first that differs
   decides. Up to five of them. */
#define SP_ASCENDING(name, type, ...)                                                                                  \
    static int name(const void *a, const void *b)                                                                      \
    {                                                                                                                  \
        const type *x = a, *y = b;                                                                                     \
        return SP_BY_PICK(__VA_ARGS__, SP_BY_5, SP_BY_4, SP_BY_3, SP_BY_2, SP_BY_1)(__VA_ARGS__);                      \
    }
#define SP_BY_PICK(k1, k2, k3, k4, k5, by, ...) by
#define SP_BY_1(key)                            SP_ORDER(x->key, y->key)
#define SP_BY_2(key, ...)                       (x->key != y->key ? SP_BY_1(key) : SP_BY_1(__VA_ARGS__))
#define SP_BY_3(key, ...)                       (x->key != y->key ? SP_BY_1(key) : SP_BY_2(__VA_ARGS__))
#define SP_BY_4(key, ...)                       (x->key != y->key ? SP_BY_1(key) : SP_BY_3(__VA_ARGS__))
#define SP_BY_5(key, ...)                       (x->key != y->key ? SP_BY_1(key) : SP_BY_4(__VA_ARGS__))

/* The same for numbers of a type. */
#define SP_ASCENDING_NUMBERS(name, type)                                                                               \
    static int name(const void *a, const void *b)                                                                      \
    {                                                                                                                  \
        const type *x = a, *y = b;                                                                                     \
        return SP_ORDER(*x, *y);                                                                                       \
    }

/* qsort(), for items that are mostly in order already, as lists of devices are: these are left as they lie. */
static inline void sp_sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b))
{
    const char *bytes = items;
    size_t at = 1;
    while (at < count && compare(bytes + (at - 1) * size, bytes + at * size) <= 0)
        at++;
    if (at < count)
        qsort(items, count, size, compare);
}

/* Sets the variable `at` to the first of the indices 0 .. count - 1 that is not before what is looked for, or to `count`.
   `is_before` is an expression of `at`, true up to some index and false from there on; it is evaluated log2(count)
   times. */
#define SP_LOWER_BOUND(at, count, is_before)                                                                           \
    do {                                                                                                               \
        __typeof__(at) low_ = 0, high_ = (count);                                                                      \
        while (low_ < high_) {                                                                                         \
            (at) = low_ + (high_ - low_) / 2;                                                                          \
            if (is_before)                                                                                             \
                low_ = (at) + 1;                                                                                       \
            else                                                                                                       \
                high_ = (at);                                                                                          \
        }                                                                                                              \
        (at) = low_;                                                                                                   \
    } while (0)
