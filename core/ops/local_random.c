/*
 * Random tensors on shards (rules in random.c, Dropout's in unary.c).
 *
 * Devices that draw different parts need different seeds, and devices that draw the same part the same one. So a part's
 * seed is that of the node, or where it has none the node's number, and the number of the part among all of the result.
 * These functions are called where nothing is split, too, as long as several devices draw.
 */
#include "ops/local_functions.h"
#include "ops/local_statistics.h"

#define SEEDS (INT64_C(1) << 24) /* whole numbers that a float32 holds: the seed's type in most operators */

/* The number of this device's part of output 0 among all its parts. */
static int64_t part_number(const struct sp_local *local)
{
    const struct sp_operand_rule *y = &local->rule->outputs[0];
    int64_t number = 0;
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        for (uint8_t i = 0; i < y->axes[axis].count; i++) {
            const struct sp_local_factor *factor = &local->factors[y->axes[axis].factors[i]];
            number = (number * (factor->shards % SEEDS) + factor->shard) % SEEDS;
        }
    }
    return number;
}

/* 7919 parts from one node's numbers to the next one's. */
static int64_t own_seed(const struct sp_local *local)
{
    const struct sp_attribute *seed = sp_node_attribute(local->node, "seed");
    double given = seed == NULL ? 0 : seed->type == SP_ATTR_INT ? (double)seed->i : seed->f;
    int64_t base = (int64_t)local->node->index * 7919 % SEEDS;
    if (seed != NULL && given > -(double)INT64_MAX / 2 && given < (double)INT64_MAX / 2)
        base = (int64_t)given % SEEDS;
    return (base + part_number(local) + SEEDS) % SEEDS;
}

static struct sp_local_attribute seed_of(const struct sp_local *local)
{
    return (struct sp_local_attribute){.name = "seed", .type = SP_ATTR_FLOAT, .f = (double)own_seed(local)};
}

/* The extents are an attribute. */
enum sp_status sp_local_random_shaped(struct sp_local *local)
{
    const int64_t *dims = sp_local_part_dims(local, &local->outputs[0]);
    if (dims == NULL)
        return sp_local_default(local);
    const struct sp_local_attribute attributes[] = {SP_INTS_ATTR("shape", local->outputs[0].rank, dims),
                                                    seed_of(local)};
    sp_local_output(local, 0, sp_local_same(local, 0, NULL, 2, attributes));
    return sp_local_status(local);
}

/* The extents are an input's. */
enum sp_status sp_local_random_like(struct sp_local *local)
{
    const struct sp_local_attribute seed = seed_of(local);
    sp_local_output(local, 0, sp_local_same(local, 0, NULL, 1, &seed));
    return sp_local_status(local);
}

enum sp_status sp_local_multinomial(struct sp_local *local)
{
    if (local->outputs[0].rank != 2)
        return sp_local_default(local);
    const struct sp_local_attribute attributes[] = {SP_INT_ATTR("sample_size", local->outputs[0].axes[1].size),
                                                    seed_of(local)};
    sp_local_output(local, 0, sp_local_same(local, 0, NULL, 2, attributes));
    return sp_local_status(local);
}

/* The seed is an integer since 12, and there was none before. A dropout that is not training draws nothing, and another
   seed does no harm. */
enum sp_status sp_local_dropout(struct sp_local *local)
{
    const struct sp_local_attribute seed = SP_INT_ATTR("seed", own_seed(local));
    struct sp_piece *outputs[2];
    if (local->version < 12)
        return sp_local_default(local);
    sp_local_same_many(local, 0, NULL, 1, &seed, outputs);
    for (uint32_t i = 0; i < local->output_count; i++) {
        if (outputs[i] != NULL)
            sp_local_output(local, i, outputs[i]);
    }
    return sp_local_status(local);
}
