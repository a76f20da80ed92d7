/*
 * Lowering of operators that name devices themselves (ops/families/tensor/distributed.c; ShardedMoE): none is split
 * further.
 *
 * A model that has one was made for one device of several already, and its operator talks to the same operator on the
 * others. A part of it would talk to parts that are not its own.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"

enum sp_status sp_lower_one_of_many(struct sp_lowering *lower)
{
    for (uint32_t i = 0; i < lower->factor_count; i++)
        sp_lower_refuse(lower, (uint8_t)i, "it is one device's part of an operator that runs on several already");
    return sp_lower_status(lower);
}
