/*
 * Local forms of operators that are about devices themselves (ops/distributed.c; ShardedMoE): none is split further.
 *
 * A model that has one was made for one device of several already, and its operator talks to the same operator on the
 * others. A part of it would talk to parts that are not its own.
 */
#include "ops/local_functions.h"
#include "ops/local_parts.h"

enum sp_status sp_local_one_of_many(struct sp_local *local)
{
    for (uint32_t i = 0; i < local->factor_count; i++)
        sp_local_refuse(local, (uint8_t)i, "it is one device's part of an operator that runs on several already");
    return sp_local_status(local);
}
