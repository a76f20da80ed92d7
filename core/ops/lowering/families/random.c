/*
 * Random tensors on shards (rules in random.c, Dropout's in unary.c).
 *
 * Devices that draw different parts need different seeds, and devices that draw the same part the same one. So a part's
 * seed is that of the node, or where it has none the node's number, and the number of the part among all of the result.
 * These functions are called where nothing is split, too, as long as several devices draw.
 */
#include "ops/lowering/functions.h"

#define SEEDS (INT64_C(1) << 24) /* whole numbers that a float32 holds: the seed's type in most operators */

/* The number of this device's part of output 0 among all its parts. */
static int64_t part_number(const struct sp_lowering *lower)
{
    const struct sp_operand_rule *y = &lower->rule->outputs[0];
    int64_t number = 0;
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        for (uint8_t i = 0; i < y->axes[axis].count; i++) {
            const struct sp_lower_factor *factor = &lower->factors[y->axes[axis].factors[i]];
            number = (number * (factor->shards % SEEDS) + factor->shard) % SEEDS;
        }
    }
    return number;
}

/* 7919 parts from one node's numbers to the next one's. */
static int64_t own_seed(const struct sp_lowering *lower)
{
    const struct sp_attribute *seed = sp_node_attribute(lower->node, "seed");
    double given = seed == NULL ? 0 : seed->type == SP_ATTR_INT ? (double)seed->i : seed->f;
    int64_t base = (int64_t)lower->node->index * 7919 % SEEDS;
    if (seed != NULL && given > -(double)INT64_MAX / 2 && given < (double)INT64_MAX / 2)
        base = (int64_t)given % SEEDS;
    return (base + part_number(lower) + SEEDS) % SEEDS;
}

static struct sp_lower_attribute seed_of(const struct sp_lowering *lower)
{
    return (struct sp_lower_attribute){.name = "seed", .type = SP_ATTR_FLOAT, .f = (double)own_seed(lower)};
}

/* The extents are an attribute. */
enum sp_status sp_lower_random_shaped(struct sp_lowering *lower)
{
    const int64_t *dims = sp_lower_part_dims(lower, &lower->outputs[0]);
    if (dims == NULL)
        return sp_lower_default(lower);
    const struct sp_lower_attribute attributes[] = {SP_INTS_ATTR("shape", lower->outputs[0].rank, dims),
                                                    seed_of(lower)};
    sp_lower_output(lower, 0, sp_lower_same(lower, 0, NULL, 2, attributes));
    return sp_lower_status(lower);
}

/* The extents are an input's. */
enum sp_status sp_lower_random_like(struct sp_lowering *lower)
{
    const struct sp_lower_attribute seed = seed_of(lower);
    sp_lower_output(lower, 0, sp_lower_same(lower, 0, NULL, 1, &seed));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_multinomial(struct sp_lowering *lower)
{
    if (lower->outputs[0].rank != 2)
        return sp_lower_default(lower);
    const struct sp_lower_attribute attributes[] = {SP_INT_ATTR("sample_size", lower->outputs[0].axes[1].size),
                                                    seed_of(lower)};
    sp_lower_output(lower, 0, sp_lower_same(lower, 0, NULL, 2, attributes));
    return sp_lower_status(lower);
}

/* The seed is an integer since 12, and there was none before. A dropout that is not training draws nothing, and another
   seed does no harm. */
enum sp_status sp_lower_dropout(struct sp_lowering *lower)
{
    const struct sp_lower_attribute seed = SP_INT_ATTR("seed", own_seed(lower));
    struct sp_piece *outputs[2];
    if (lower->version < 12)
        return sp_lower_default(lower);
    sp_lower_same_many(lower, 0, NULL, 1, &seed, outputs);
    for (uint32_t i = 0; i < lower->output_count; i++) {
        if (outputs[i] != NULL)
            sp_lower_output(lower, i, outputs[i]);
    }
    return sp_lower_status(lower);
}
