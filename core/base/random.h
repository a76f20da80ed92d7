#pragma once
/*
 * random - numbers that look random and follow from a seed (splitmix64): the same ones in every run and on any machine,
 * so that a search which takes turns by them gives the same plan again. Not for secrets.
 *
 *     uint64_t random = options->seed;
 *     uint32_t unit = sp_random_below(&random, unit_count);
 *
 * The state is one word, and any value of it begins another series of 2^64 numbers. Nothing can fail.
 */
#include <stdint.h>

/* A word scrambled: each bit of the result depends on all of `x`, and different words give different results. */
static inline uint64_t sp_scramble(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The next number of 64 bits. */
static inline uint64_t sp_random(uint64_t *state)
{
    const uint64_t number = sp_scramble(*state);
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return number;
}

/* A number below `count`; 0 for 0. */
static inline uint32_t sp_random_below(uint64_t *state, uint32_t count)
{
    return (uint32_t)(((sp_random(state) >> 32) * count) >> 32);
}

/* A number from 0 up to, but not including, 1. */
static inline double sp_random_fraction(uint64_t *state)
{
    return (double)(sp_random(state) >> 11) * 0x1p-53;
}
