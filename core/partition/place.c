/*
 * Where a node runs, and which shard of every factor each device has.
 *
 * The node's inputs say it (infer/view/view.h). A factor that no input cuts is cut as a stated output is: a device
 * slices what it has whole, which costs nothing. What contradicts, and a cut that leaves a device without any part, is
 * whole.
 */
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "base/rows.h"
#include "partition/partition_internal.h"

static int64_t known_extent(struct sp_dim dim)
{
    return sp_dim_is_known(dim) ? dim.value : -1;
}

/* ---- placements ------------------------------------------------------------------------------------------------- */

enum sp_status sp_placement_whole(struct sp_partitioner *part, uint32_t factor_count, uint32_t device_count,
                                  const int64_t *devices, struct sp_node_cut *ret_placement)
{
    struct sp_node_cut placement = {.device_count = device_count,
                                    .devices = devices,
                                    .factor_count = factor_count,
                                    .cuts = SP_NEW_ARRAY(part->scratch, factor_count, struct sp_block_dim),
                                    .shards = SP_NEW_ARRAY(part->scratch, factor_count, int64_t),
                                    .coordinates = SP_NEW_ARRAY(part->scratch, factor_count, int32_t *)};
    if (placement.cuts == NULL || placement.shards == NULL || placement.coordinates == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t f = 0; f < factor_count; f++)
        placement.shards[f] = 1;
    *ret_placement = placement;
    return SP_OK;
}

void sp_placement_make_whole(struct sp_node_cut *placement, uint8_t factor)
{
    placement->cuts[factor] = (struct sp_block_dim){0};
    placement->shards[factor] = 1;
    placement->coordinates[factor] = NULL;
}

bool sp_placement_is_whole(const struct sp_node_cut *placement)
{
    for (uint32_t f = 0; f < placement->factor_count; f++)
        if (placement->coordinates[f] != NULL)
            return false;
    return true;
}

static enum sp_status whole_ranges(struct sp_partitioner *part, int64_t extent, struct sp_axis_ranges *ret_ranges)
{
    struct sp_range *range = SP_NEW(part->arena, struct sp_range);
    if (range == NULL)
        return sp_fail_memory(part->err);
    *range = (struct sp_range){0, extent};
    *ret_ranges = (struct sp_axis_ranges){extent != 0, range};
    return SP_OK;
}

static int64_t ranges_size(const struct sp_axis_ranges *ranges)
{
    int64_t size = 0;
    for (uint32_t i = 0; i < ranges->count; i++) {
        if (ranges->ranges[i].limit < 0)
            return -1;
        size += ranges->ranges[i].limit - ranges->ranges[i].start;
    }
    return size;
}

enum sp_status sp_placement_factor(struct sp_partitioner *part, const struct sp_node_cut *placement,
                                   const struct sp_rule *rule, uint8_t factor, uint32_t at,
                                   struct sp_lower_factor *ret_factor)
{
    struct sp_lower_factor one = {.extent = known_extent(rule->factors[factor].extent), .shards = 1};
    const int32_t *coordinates = placement->coordinates[factor];
    enum sp_status status;
    if (coordinates != NULL) {
        one.is_split = true;
        one.shards = placement->shards[factor];
        one.bounds = placement->cuts[factor].part_count == 1 ? placement->cuts[factor].parts[0].bounds : NULL;
        one.shard = coordinates[at];
        status =
            sp_block_ranges(part->arena, &placement->cuts[factor], 0, one.extent, one.shard, &one.ranges, part->err);
    } else {
        status = whole_ranges(part, one.extent, &one.ranges);
    }
    if (status != SP_OK)
        return status;
    one.start = one.ranges.count > 0 ? one.ranges.ranges[0].start : 0;
    one.size = ranges_size(&one.ranges);
    one.is_contiguous = one.ranges.count <= 1;
    *ret_factor = one;
    return SP_OK;
}

/* The ranges of a compound: for each index of the major part the minor ones. */
static enum sp_status nest_ranges(struct sp_partitioner *part, const struct sp_axis_ranges *major,
                                  const struct sp_axis_ranges *minor, int64_t minor_extent,
                                  struct sp_axis_ranges *ret_ranges)
{
    bool is_all = minor->count == 1 && minor->ranges[0].start == 0 && minor->ranges[0].limit == minor_extent;
    int64_t rows = is_all ? major->count : ranges_size(major);
    if (rows > SP_MAX_HELD_RANGES || rows * (int64_t)minor->count > SP_MAX_HELD_RANGES)
        return sp_fail_limit(part->err, "TOO_MANY_RANGES", "SP_MAX_HELD_RANGES", SP_MAX_HELD_RANGES,
                             SP_MAX_HELD_RANGES + 1, "What one device holds falls into more than %d ranges.",
                             SP_MAX_HELD_RANGES);
    struct sp_range *ranges = SP_NEW_ARRAY(part->arena, (size_t)(rows * (int64_t)minor->count), struct sp_range);
    uint32_t count = 0;
    if (ranges == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t i = 0; i < major->count; i++) {
        struct sp_range range = major->ranges[i];
        if (is_all) {
            ranges[count++] = (struct sp_range){range.start * minor_extent, range.limit * minor_extent};
            continue;
        }
        for (int64_t row = range.start; row < range.limit; row++)
            for (uint32_t j = 0; j < minor->count; j++) {
                int64_t start = row * minor_extent + minor->ranges[j].start;
                int64_t limit = row * minor_extent + minor->ranges[j].limit;
                if (count > 0 && ranges[count - 1].limit == start)
                    ranges[count - 1].limit = limit;
                else
                    ranges[count++] = (struct sp_range){start, limit};
            }
    }
    *ret_ranges = (struct sp_axis_ranges){count, ranges};
    return SP_OK;
}

/* What the factors of an axis multiply to, -1 where one is not known. */
static int64_t axis_product(const struct sp_rule *rule, const struct sp_axis_factors *list)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t extent = known_extent(rule->factors[list->factors[i]].extent);
        if (extent < 0 || !sp_mul_i64(product, extent, &product))
            return -1;
    }
    return product;
}

static bool is_axis_cut(const struct sp_node_cut *placement, const struct sp_axis_factors *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (placement->coordinates[list->factors[i]] != NULL)
            return true;
    return false;
}

/* The shards of an axis, and which of them device number `at` has: row-major over the axis' factors. */
static int64_t axis_shard(const struct sp_node_cut *placement, const struct sp_axis_factors *list, uint32_t at,
                          int64_t *ret_shards)
{
    int64_t shard = 0, shards = 1;
    for (uint32_t i = 0; i < list->count; i++) {
        uint8_t factor = list->factors[i];
        shards *= placement->shards[factor];
        shard = shard * placement->shards[factor] +
                (placement->coordinates[factor] != NULL ? placement->coordinates[factor][at] : 0);
    }
    *ret_shards = shards;
    return shard;
}

struct sp_block_part sp_placement_own_cut(const struct sp_node_cut *placement, const struct sp_axis_factors *list)
{
    struct sp_block_part plain = {.shards = 1};
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct sp_block_dim *cut = &placement->cuts[list->factors[i]];
        plain.shards *= placement->shards[list->factors[i]];
        if (placement->coordinates[list->factors[i]] == NULL)
            continue;
        plain.bounds = count++ == 0 && cut->part_count == 1 ? cut->parts[0].bounds : NULL;
    }
    return plain;
}

static enum sp_status axis_part(struct sp_partitioner *part, const struct sp_node_cut *placement,
                                const struct sp_rule *rule, const struct sp_axis_factors *list, int64_t extent,
                                uint32_t at, struct sp_lower_axis *ret_axis)
{
    struct sp_lower_axis axis = {.extent = extent, .is_cut = is_axis_cut(placement, list)};
    enum sp_status status = SP_OK;
    if (!axis.is_cut) {
        status = whole_ranges(part, extent, &axis.ranges);
    } else if (axis_product(rule, list) == extent) {
        int64_t minor = 1;
        for (uint32_t i = list->count; i-- > 0 && status == SP_OK;) {
            struct sp_lower_factor factor;
            status = sp_placement_factor(part, placement, rule, list->factors[i], at, &factor);
            if (status == SP_OK && i + 1 == list->count)
                axis.ranges = factor.ranges;
            else if (status == SP_OK)
                status = nest_ranges(part, &factor.ranges, &axis.ranges, minor, &axis.ranges);
            minor *= status == SP_OK ? factor.extent : 1;
        }
    } else { /* a halo, or of another extent than its factor: cut evenly for itself */
        int64_t shards, shard = axis_shard(placement, list, at, &shards);
        struct sp_block_part plain = sp_placement_own_cut(placement, list);
        struct sp_block_dim dim = {1, &plain};
        status = sp_block_ranges(part->arena, &dim, 0, extent, shard, &axis.ranges, part->err);
    }
    axis.size = ranges_size(&axis.ranges);
    *ret_axis = axis;
    return status;
}

enum sp_status sp_placement_part(struct sp_partitioner *part, const struct sp_node_cut *placement,
                                 const struct sp_rule *rule, const struct sp_operand_rule *operand,
                                 const struct sp_value *value, uint32_t at, struct sp_lower_axis *ret_axes)
{
    static const struct sp_axis_factors none = {0};
    uint32_t rank = sp_part_rank(value);
    for (uint32_t a = 0; a < rank; a++) {
        const struct sp_axis_factors *list = operand != NULL && a < operand->rank ? &operand->axes[a] : &none;
        enum sp_status status =
            axis_part(part, placement, rule, list, known_extent(value->type.shape.dims[a]), at, &ret_axes[a]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- the sharding that parts are -------------------------------------------------------------------------------- */

static bool repeats_factor(const struct sp_node_cut *placement, const struct sp_operand_rule *operand)
{
    bool is_seen[SP_RULE_MAX_FACTORS] = {false};
    for (uint32_t a = 0; a < operand->rank; a++)
        for (uint32_t i = 0; i < operand->axes[a].count; i++) {
            uint8_t factor = operand->axes[a].factors[i];
            if (placement->coordinates[factor] != NULL && is_seen[factor])
                return true;
            is_seen[factor] = true;
        }
    return false;
}

/* The cut of one axis as parts: those of its factors, one after the other. */
static enum sp_status axis_cut(struct sp_partitioner *part, const struct sp_node_cut *placement,
                               const struct sp_rule *rule, const struct sp_axis_factors *list, int64_t extent,
                               struct sp_block_dim *ret_dim)
{
    uint32_t capacity = 1, count = 0;
    bool is_plain = axis_product(rule, list) != extent;
    if (!is_axis_cut(placement, list)) {
        *ret_dim = (struct sp_block_dim){0};
        return SP_OK;
    }
    for (uint32_t i = 0; i < list->count; i++)
        capacity += placement->cuts[list->factors[i]].part_count + 1;
    struct sp_block_part *parts = SP_NEW_ARRAY(part->scratch, capacity, struct sp_block_part);
    if (parts == NULL)
        return sp_fail_memory(part->err);
    if (is_plain) {
        parts[0] = sp_placement_own_cut(placement, list);
        count = 1;
    }
    for (uint32_t i = 0; i < list->count && !is_plain; i++) {
        uint8_t factor = list->factors[i];
        const struct sp_block_dim *cut = &placement->cuts[factor];
        int64_t own = known_extent(rule->factors[factor].extent), open = own;
        if (placement->coordinates[factor] == NULL) {
            parts[count++] = (struct sp_block_part){.extent = own, .shards = 1};
            continue;
        }
        for (uint32_t j = 0; j < cut->part_count; j++)
            open = cut->parts[j].extent > 0 ? open / cut->parts[j].extent : open;
        for (uint32_t j = 0; j < cut->part_count; j++) {
            parts[count] = cut->parts[j];
            parts[count].extent = cut->parts[j].extent > 0 ? cut->parts[j].extent : open;
            count++;
        }
    }
    *ret_dim = (struct sp_block_dim){count, parts};
    return SP_OK;
}

enum sp_status sp_placement_sharding(struct sp_partitioner *part, const struct sp_node_cut *placement,
                                     const struct sp_rule *rule, const struct sp_operand_rule *operand,
                                     const struct sp_value *value, const struct sp_sharding **ret_sharding)
{
    uint32_t rank = sp_part_rank(value), count = placement->device_count;
    struct sp_sharding *sharding = SP_NEW(part->scratch, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(part->scratch, rank, struct sp_block_dim);
    int64_t shards = 1;
    *ret_sharding = NULL;
    if (sharding == NULL || dims == NULL)
        return sp_fail_memory(part->err);
    if (operand != NULL && repeats_factor(placement, operand))
        return SP_OK;
    for (uint32_t a = 0; a < rank && operand != NULL && a < operand->rank; a++) {
        enum sp_status status =
            axis_cut(part, placement, rule, &operand->axes[a], known_extent(value->type.shape.dims[a]), &dims[a]);
        if (status != SP_OK)
            return status;
        shards *= sp_cut_shards(&dims[a]);
    }
    struct sp_rows places; /* of the devices, by shard */
    int64_t *devices = SP_NEW_ARRAY(part->scratch, count, int64_t);
    uint32_t *shard_of = SP_NEW_ARRAY(part->scratch, count, uint32_t);
    if (devices == NULL || shard_of == NULL || shards >= UINT32_MAX)
        return sp_fail_memory(part->err);
    for (uint32_t at = 0; at < count; at++) {
        for (uint32_t a = 0; a < rank && operand != NULL && a < operand->rank; a++) {
            int64_t own, shard = axis_shard(placement, &operand->axes[a], at, &own);
            shard_of[at] = (uint32_t)(shard_of[at] * own + shard);
        }
    }
    if (!sp_rows_sort(part->scratch, shard_of, count, (uint32_t)shards, &places))
        return sp_fail_memory(part->err);
    for (uint32_t at = 0; at < count; at++)
        devices[at] = placement->devices[places.items[at]];
    *sharding = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                     .rank = rank,
                                     .blocks = dims,
                                     .shard_count = shards,
                                     .first = places.start,
                                     .devices = devices};
    enum sp_status status = sp_sharding_written(part->scratch, sharding, part->err);
    return status == SP_OK ? sp_view_cache_sharding(part->assignment.cache, sharding, false, ret_sharding, part->err)
                           : status;
}
