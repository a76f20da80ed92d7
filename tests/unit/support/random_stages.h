#pragma once
/* Random small problems of stages, of whole numbers, so that sums are exact. */
#include "solvers/stages/stages.h"

#define RANDOM_STAGES_NODES   10
#define RANDOM_STAGES_OPTIONS 3

struct random_stages {
    struct sp_stages_problem problem;
    struct sp_stages_node nodes[RANDOM_STAGES_NODES];
    struct sp_stages_tensor tensors[2 * RANDOM_STAGES_NODES];
    uint32_t users[2 * RANDOM_STAGES_NODES][RANDOM_STAGES_NODES];
    struct sp_stages_weight weights[2];
    uint32_t holders[2][RANDOM_STAGES_NODES];
    struct sp_stages_option options[RANDOM_STAGES_OPTIONS];
    double seconds[RANDOM_STAGES_OPTIONS][RANDOM_STAGES_NODES];
    double weight_bytes[RANDOM_STAGES_OPTIONS][RANDOM_STAGES_NODES],
        held_bytes[RANDOM_STAGES_OPTIONS][RANDOM_STAGES_NODES];
    uint32_t class_size[2];
};

static inline uint32_t random_stages_below(uint64_t *state, uint32_t bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % bound;
}

/* A problem of at most `nodes` nodes; the objective and what it needs are the caller's to set, and are THROUGHPUT. It
   refers to itself and must not be moved. */
void random_stages_make(struct random_stages *random, uint64_t *state, uint32_t nodes);
