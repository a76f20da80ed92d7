#pragma once
/*
 * how_many - how many random cases a test takes: a part of them in everyday runs, all of them when
 * SHARDPLAN_TEST_THOROUGH is set. The cases of an everyday run are the first of the others.
 */
#include <stdint.h>
#include <stdlib.h>

static inline uint32_t how_many(uint32_t usual, uint32_t thorough)
{
    return getenv("SHARDPLAN_TEST_THOROUGH") != NULL ? thorough : usual;
}
