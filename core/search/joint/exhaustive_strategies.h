#pragma once
/*
 * exhaustive_strategies - the strategies of one set of nodes on blocks of one option, without those that others beat.
 */
#include "search/joint/exhaustive.h"

struct sp_way {
    const uint32_t *strategy_of; /* per node of the set, ascending */
    const struct sp_intra_result *intra;
    const uint32_t *border;                    /* layouts of what crosses the set's border */
    double seconds, bytes[SP_EXHAUST_DEVICES]; /* of one device; of each unequal one */
};

struct sp_ways {
    bool made;
    uint32_t count, node_count;
    uint32_t *nodes;
    struct sp_way *items; /* by time; the option with one device: one way, without strategies */
};

/* The nodes that run, those of each phase in the same order. */
struct sp_live_nodes {
    const uint32_t *nodes;
    uint32_t count, front_count; /* of all phases; of one */
};

/* `mask` says which of the first phase's nodes are in the set, and so in every phase. */
enum sp_status sp_ways_create(struct sp_joint *joint, const struct sp_space_option *option,
                              const struct sp_live_nodes *live, uint32_t mask, struct sp_ways *ret_ways,
                              struct sp_error *err);
