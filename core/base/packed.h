#pragma once
/*
 * packed - elements of 2, 4 or 6 bits one behind the other, the first in the lowest bits of the first byte. An element of
 * 6 bits may lie in two bytes.
 */
#include <stdint.h>

/* The element that begins at a bit; `bits` is less than 8. */
static inline uint32_t sp_packed_get(const unsigned char *bytes, uint64_t at, uint32_t bits)
{
    const uint32_t shift = (uint32_t)(at % 8);
    uint32_t element = (uint32_t)bytes[at / 8] >> shift;
    if (shift + bits > 8)
        element |= (uint32_t)bytes[at / 8 + 1] << (8 - shift);
    return element & ((1U << bits) - 1);
}

/* Sets the bits of an element whose place is zero. */
static inline void sp_packed_put(unsigned char *bytes, uint64_t at, uint32_t bits, uint32_t element)
{
    const uint32_t shifted = (element & ((1U << bits) - 1)) << (at % 8);
    bytes[at / 8] |= (unsigned char)shifted;
    if (at % 8 + bits > 8)
        bytes[at / 8 + 1] |= (unsigned char)(shifted >> 8);
}

/* How many bits of the elements one item of a typed field holds: all of one element, but where those are packed as many
   as the number of items says. */
static inline uint32_t sp_packed_item_bits(uint64_t elements, uint32_t bits, uint64_t items)
{
    for (uint32_t item = 32; bits < 8 && item > bits; item /= 2)
        if (items == (elements * bits + item - 1) / item)
            return item;
    return bits;
}
