#pragma once
/*
 * simulate_pools - requests of a service whose prompts and decode steps have devices of their own (service/pools.h), one by
 * one.
 *
 * Nothing goes back from steps to prompts in an open loop, so that the pools are simulated one behind the other
 * (service/simulation.h): prompts alone on their copies; then the cache of each request, in the order in which they are
 * there, on the links of the copies of the smaller pool, the first that is free; then steps alone.
 */
#include "service/simulation.h"

struct sp_pools_simulation {
    struct sp_simulation of; /* an open loop; copies and places are those for steps */
    uint32_t prompt_copies;
    double transfer_seconds, transfer_input; /* of a request of so many positions; others in proportion */
};

/* As sp_simulate(). The first token of a request is there with its cache. */
enum sp_status sp_simulate_pools(struct sp_arena *arena, const struct sp_pools_simulation *simulation,
                                 struct sp_simulated *ret, struct sp_error *err);
