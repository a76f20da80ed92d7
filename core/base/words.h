#pragma once
/* words - 64-bit numbers as bytes, little-endian: what files for keeping are written in. */
#include <stdint.h>

static inline void sp_put_word(unsigned char *bytes, uint64_t word)
{
    for (unsigned i = 0; i < sizeof word; i++)
        bytes[i] = (unsigned char)(word >> (8 * i));
}

static inline uint64_t sp_get_word(const unsigned char *bytes)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < sizeof word; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}
