#pragma once
/* arith - checked size and dimension arithmetic. What takes `ret` returns false on overflow and leaves *ret alone. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool sp_add_size(size_t a, size_t b, size_t *ret)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *ret = sum;
    return true;
}

static inline bool sp_mul_size(size_t a, size_t b, size_t *ret)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *ret = product;
    return true;
}

static inline bool sp_add_i64(int64_t a, int64_t b, int64_t *ret)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *ret = sum;
    return true;
}

static inline bool sp_sub_i64(int64_t a, int64_t b, int64_t *ret)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return false;
    *ret = difference;
    return true;
}

static inline bool sp_mul_i64(int64_t a, int64_t b, int64_t *ret)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *ret = product;
    return true;
}

/* The greatest common divisor of two numbers that are not negative; gcd(a, 0) is a. */
static inline int64_t sp_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
