#include "simulate_random.h"

/* xorshift64*: the same everywhere. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static int64_t below(uint64_t *state, int64_t limit)
{
    return (int64_t)((next(state) >> 32) % (uint64_t)limit);
}

/* The first `count` of all devices in any order. */
static int64_t *shuffle(struct sp_arena *arena, uint64_t *state, int64_t count)
{
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)count, int64_t);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = below(state, i + 1);
        devices[i] = devices[at];
        devices[at] = i;
    }
    return devices;
}

/* Rows that are cut alike, few of them: every range is a slice of its own on the way to another cut. */
static int64_t few_rows(const struct sp_factor *factor, int64_t shards)
{
    for (int64_t rows = 2; rows <= 4; rows++) {
        struct sp_factor one = *factor;
        one.extent = sp_dim_known(factor->extent.value / rows);
        if (factor->extent.value % rows == 0 && simulate_may_cut(&one, shards))
            return one.extent.value;
    }
    return 0;
}

/* A factor that may be cut and is not, in some shards; false where none is found. */
static bool cut(const struct sp_rule *rule, uint64_t *state, int64_t most, struct simulate_way *way)
{
    for (unsigned tries = 0; tries < 8 && rule->factor_count > 0 && most > 1; tries++) {
        uint8_t factor = (uint8_t)below(state, rule->factor_count);
        int64_t shards = 2 + below(state, most - 1);
        if (!simulate_may_cut(&rule->factors[factor], shards) || (way->count > 0 && way->cuts[0].factor == factor))
            continue;
        struct simulate_cut one = {.factor = factor, .shards = shards};
        if (below(state, 4) == 0)
            one.row = few_rows(&rule->factors[factor], shards);
        way->cuts[way->count++] = one;
        return true;
    }
    return false;
}

static bool give(struct sp_assignment *assignment, const struct sp_relation *relation, const struct sp_rule *rule,
                 uint64_t *state)
{
    struct simulate_way way = {.devices = shuffle(assignment->arena, state, assignment->device_count)};
    const char *reason;
    int64_t left = assignment->device_count;
    if (below(state, 8) != 0 && cut(rule, state, left, &way))
        left /= way.cuts[0].shards;
    if (below(state, 2) != 0 && way.count > 0 && cut(rule, state, left, &way))
        left /= way.cuts[1].shards;
    way.copies = 1 + below(state, left);
    return simulate_give(assignment, relation, rule, &way, &reason);
}

enum sp_status simulate_random(struct sp_assignment *assignment, uint64_t seed, uint32_t first, uint32_t last,
                               struct sp_error *err)
{
    const struct simulate_way whole = {0};
    const struct sp_dataflow *dataflow = assignment->dataflow;
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (uint32_t i = 0; i < dataflow->relation_count; i++) {
        const struct sp_relation *relation = &dataflow->relations[i];
        struct sp_rule *rule = NULL;
        if (relation->kind != SP_RELATION_NODE)
            continue;
        enum sp_status status = sp_dataflow_rule(dataflow, relation, assignment->arena, &rule, err);
        if (status != SP_OK)
            return status;
        unsigned tries = 0;
        while (tries < 16 && !give(assignment, relation, rule, &state))
            tries++;
        if (tries == 16)
            return sp_fail(err, SP_ERR_INTERNAL, "NO_WAY", "No way of splitting %s is found.", relation->node->name);
        const char *reason;
        if (relation->node_id < first || relation->node_id > last)
            (void)simulate_give(assignment, relation, rule, &whole, &reason);
    }
    return SP_OK;
}
