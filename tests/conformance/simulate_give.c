#include <stdlib.h>

#include "infer/dataflow.h"
#include "simulate.h"

/* One operand's sharding while it is put together. */
struct giving {
    struct sp_arena *arena;
    const struct sp_rule *rule;
    uint32_t cut_count;
    const struct simulate_cut *cuts;
    int64_t position_count;
    const int64_t *devices; /* by position; NULL: device i is at position i */
    const struct sp_operand_rule *operand;
    const struct sp_value *value;
    uint32_t order_count; /* the cuts that the operand has, in the order in which its shards are numbered */
    uint32_t order[SP_RULE_MAX_FACTORS];
    const char *reason;
};

static bool refuse(struct giving *giving, const char *reason)
{
    giving->reason = reason;
    return false;
}

static const struct simulate_cut *cut_of(const struct giving *giving, uint8_t factor)
{
    for (uint32_t i = 0; i < giving->cut_count; i++) {
        if (giving->cuts[i].factor == factor)
            return &giving->cuts[i];
    }
    return NULL;
}

int64_t simulate_blocks(const struct simulate_cut *cut)
{
    int64_t blocks = 0;
    for (int64_t i = 0; cut->shares != NULL && i < cut->shards; i++)
        blocks += cut->shares[i];
    return cut->shares != NULL ? blocks : cut->shards;
}

/* The shard that has a block. */
static int64_t shard_of(const struct simulate_cut *cut, int64_t block)
{
    int64_t shard = 0;
    if (cut->shares == NULL)
        return block;
    while (block >= cut->shares[shard])
        block -= cut->shares[shard++];
    return shard;
}

static bool has_empty_shard(int64_t extent, int64_t shards)
{
    int64_t block = (extent + shards - 1) / shards;
    return extent < shards || (shards - 1) * block >= extent;
}

static bool note_order(struct giving *giving, const struct simulate_cut *cut)
{
    uint32_t index = (uint32_t)(cut - giving->cuts);
    for (uint32_t i = 0; i < giving->order_count; i++) {
        if (giving->order[i] == index)
            return refuse(giving, "an operand has the factor twice");
    }
    giving->order[giving->order_count++] = index;
    return true;
}

/* The axis in parts, one for each factor; where its extent is not their product it is cut for itself. */
static bool give_axis(struct giving *giving, uint32_t axis, struct sp_block_dim *dim)
{
    const struct sp_axis_factors *mapped = &giving->operand->axes[axis];
    struct sp_dim extent = giving->value->type.shape.dims[axis];
    const struct simulate_cut *cut = NULL;
    int64_t product = 1;
    for (uint32_t i = 0; i < mapped->count; i++) {
        const struct sp_factor *factor = &giving->rule->factors[mapped->factors[i]];
        product = sp_dim_is_known(factor->extent) ? product * factor->extent.value : -1;
        const struct simulate_cut *found = cut_of(giving, mapped->factors[i]);
        if (found != NULL && !note_order(giving, found))
            return false;
        cut = found != NULL ? found : cut;
    }
    if (cut == NULL)
        return true;
    bool is_product = product >= 0 && sp_dim_is_known(extent) && extent.value == product;
    dim->part_count = is_product ? 0 : 1;
    dim->parts = SP_NEW_ARRAY(giving->arena, 2 * (size_t)mapped->count, struct sp_block_part);
    for (uint32_t i = 0; i < mapped->count && is_product; i++) {
        const struct simulate_cut *found = cut_of(giving, mapped->factors[i]);
        int64_t own = giving->rule->factors[mapped->factors[i]].extent.value;
        if (found != NULL && found->row > 0) {
            dim->parts[dim->part_count++] = (struct sp_block_part){own / found->row, NULL, 1};
            own = found->row;
        }
        dim->parts[dim->part_count++] = (struct sp_block_part){own, NULL, found == NULL ? 1 : simulate_blocks(found)};
    }
    if (is_product)
        return true;
    dim->parts[0] = (struct sp_block_part){0, NULL, simulate_blocks(cut)};
    return mapped->count == 1 || refuse(giving, "an axis of several factors is not their product");
}

static bool check_extents(struct giving *giving, const struct sp_sharding *blocks)
{
    for (uint32_t axis = 0; axis < blocks->rank; axis++) {
        struct sp_dim extent = giving->value->type.shape.dims[axis];
        const struct sp_block_dim *dim = &blocks->blocks[axis];
        if (dim->part_count == 1 && sp_dim_is_known(extent) && has_empty_shard(extent.value, dim->parts[0].shards))
            return refuse(giving, "a shard of an operand would be empty");
    }
    return true;
}

static int by_device(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Which devices have this shard: those whose coordinate in each cut that the operand has is the shard's. */
static void place(struct giving *giving, struct sp_sharding *blocks)
{
    uint32_t *first = SP_NEW_ARRAY(giving->arena, (size_t)blocks->shard_count + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(giving->arena, (size_t)(giving->position_count * blocks->shard_count), int64_t);
    uint32_t count = 0;
    for (int64_t shard = 0; shard < blocks->shard_count; shard++) {
        for (int64_t position = 0; position < giving->position_count; position++) {
            int64_t coordinates[SP_RULE_MAX_FACTORS], rest = position, block = shard;
            bool has_it = true;
            for (uint32_t i = giving->cut_count; i-- > 0; rest /= giving->cuts[i].shards)
                coordinates[i] = rest % giving->cuts[i].shards;
            for (uint32_t i = giving->order_count; i-- > 0;) {
                const struct simulate_cut *cut = &giving->cuts[giving->order[i]];
                has_it = has_it && shard_of(cut, block % simulate_blocks(cut)) == coordinates[giving->order[i]];
                block /= simulate_blocks(cut);
            }
            if (has_it)
                devices[count++] = giving->devices == NULL ? position : giving->devices[position];
        }
        qsort(devices + first[shard], count - first[shard], sizeof(*devices), by_device);
        first[shard + 1] = count;
    }
    blocks->first = first;
    blocks->devices = devices;
}

static struct sp_sharding *give_operand(struct giving *giving)
{
    uint32_t rank = giving->value->type.shape.has_rank ? giving->value->type.shape.rank : 0;
    struct sp_sharding *blocks = SP_NEW(giving->arena, struct sp_sharding);
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS, .rank = rank, .shard_count = 1};
    blocks->blocks = SP_NEW_ARRAY(giving->arena, rank, struct sp_block_dim);
    giving->order_count = 0;
    for (uint32_t axis = 0; axis < rank && axis < giving->operand->rank; axis++) {
        if (!give_axis(giving, axis, &blocks->blocks[axis]))
            return NULL;
    }
    if (!check_extents(giving, blocks))
        return NULL;
    for (uint32_t i = 0; i < giving->order_count; i++)
        blocks->shard_count *= simulate_blocks(&giving->cuts[giving->order[i]]);
    place(giving, blocks);
    return blocks;
}

/* An axis of an output that the only cut does not cut, in as many shards: what is reduced is scattered along it. */
static bool scatter(struct giving *giving, struct sp_sharding *blocks)
{
    int64_t shards = simulate_blocks(&giving->cuts[0]);
    if (giving->order_count > 0)
        return refuse(giving, "the result is cut already");
    for (uint32_t axis = 0; axis < blocks->rank && axis < giving->operand->rank; axis++) {
        struct sp_dim extent = giving->value->type.shape.dims[axis];
        if (!sp_dim_is_known(extent) || has_empty_shard(extent.value, shards) || giving->operand->axes[axis].count != 1)
            continue;
        const struct sp_factor *factor = &giving->rule->factors[giving->operand->axes[axis].factors[0]];
        if (factor->kind != SP_FACTOR_PARALLEL || !sp_dim_is_known(factor->extent) ||
            factor->extent.value != extent.value)
            continue;
        blocks->blocks[axis].part_count = 1;
        blocks->blocks[axis].parts = SP_NEW(giving->arena, struct sp_block_part);
        blocks->blocks[axis].parts[0] = (struct sp_block_part){0, NULL, shards};
        blocks->shard_count = shards;
        giving->order[giving->order_count++] = 0;
        place(giving, blocks);
        return true;
    }
    return refuse(giving, "the result has no axis for it");
}

bool simulate_may_cut(const struct sp_factor *factor, int64_t shards)
{
    bool may_split = factor->kind == SP_FACTOR_PARALLEL || factor->kind == SP_FACTOR_REDUCTION ||
                     factor->kind == SP_FACTOR_HALO || factor->kind == SP_FACTOR_PERMUTATION;
    if (!may_split || !sp_dim_is_known(factor->extent) || factor->extent.value < shards)
        return false;
    int64_t extent = factor->extent.value, size = (extent + shards - 1) / shards;
    int64_t last = extent - (shards - 1) * size;
    return last > 0 && size % factor->block == 0 && last % factor->block == 0;
}

int64_t simulate_row(const struct sp_factor *factor, int64_t shards)
{
    int64_t extent = sp_dim_is_known(factor->extent) ? factor->extent.value : 0;
    for (int64_t row = shards; row < extent; row++) {
        struct sp_factor one = *factor;
        one.extent = sp_dim_known(row);
        if (extent % row == 0 && simulate_may_cut(&one, shards))
            return row;
    }
    return 0;
}

bool simulate_give(struct sp_assignment *assignment, const struct sp_relation *relation, const struct sp_rule *rule,
                   const struct simulate_way *way, const char **ret_reason)
{
    struct giving giving = {.arena = assignment->arena,
                            .rule = rule,
                            .cut_count = way->count,
                            .cuts = way->cuts,
                            .position_count = way->copies > 1 ? way->copies : 1,
                            .devices = way->devices};
    for (uint32_t i = 0; i < way->count; i++)
        giving.position_count *= way->cuts[i].shards;
    for (uint32_t i = 0; i < relation->operand_count; i++) {
        if (relation->tensors[i] == SP_NO_TENSOR)
            continue;
        giving.operand = sp_rule_operand(rule, i);
        giving.value = assignment->dataflow->tensors[relation->tensors[i]];
        struct sp_sharding *sharding = give_operand(&giving);
        if (sharding == NULL || (way->scatters && i >= relation->input_count && !scatter(&giving, sharding))) {
            *ret_reason = giving.reason;
            return false;
        }
        *sp_spec_of(assignment, relation->node_id, i) =
            (struct sp_spec_entry){.sharding = sharding, .origin = SP_SPEC_GIVEN};
    }
    return true;
}
