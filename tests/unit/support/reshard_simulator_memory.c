/* The memories of the virtual devices, their elements in order, and the groups that devices form. */
#include <stdio.h>

#include "base/arith.h"
#include "reshard_simulator_internal.h"

/* Elements of each shard, added up. */
static enum sp_status measure(const struct sp_held *held, uint64_t *first, struct sp_error *err)
{
    uint64_t total = 0;
    for (uint32_t s = 0; s < held->shard_count; s++) {
        int64_t elements = 1;
        first[s] = total;
        for (uint32_t a = 0; a < held->rank; a++) {
            const struct sp_axis_ranges *axis = &held->shards[(size_t)s * held->rank + a];
            int64_t extent = 0;
            for (uint32_t r = 0; r < axis->count; r++)
                extent += axis->ranges[r].limit - axis->ranges[r].start;
            if (!sp_mul_i64(elements, extent, &elements))
                elements = INT64_MAX;
        }
        if (elements > SP_MAX_SIMULATED_VALUES || total + (uint64_t)elements > SP_MAX_SIMULATED_VALUES)
            return sp_fail_limit(err, "SIMULATION_TOO_LARGE", "SP_MAX_SIMULATED_VALUES", SP_MAX_SIMULATED_VALUES,
                                 elements, "A device would hold more numbers than the simulator keeps for one.");
        total += (uint64_t)elements;
    }
    first[held->shard_count] = total;
    return SP_OK;
}

enum sp_status sp_sim_memory_create(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                                    int64_t device, struct sp_sim_memory *ret_memory, struct sp_error *err)
{
    struct sp_sim_memory memory = {.device = device};
    enum sp_status status =
        sp_sharding_held(simulation->arena, sharding, simulation->rank, simulation->shape, device, &memory.held, err);
    if (status != SP_OK)
        return status;
    memory.first = SP_NEW_ARRAY(simulation->arena, (size_t)memory.held.shard_count + 1, uint64_t);
    if (!memory.first)
        return sp_fail_memory(err);
    if ((status = measure(&memory.held, memory.first, err)) != SP_OK)
        return status;
    memory.values = SP_NEW_ARRAY(simulation->arena, sp_sim_memory_count(&memory), int64_t);
    if (!memory.values)
        return sp_fail_memory(err);
    *ret_memory = memory;
    return SP_OK;
}

/* Where an index stands within the ranges of one axis, and how many indices these have; false when not in them. */
static bool find_in_ranges(const struct sp_axis_ranges *axis, int64_t index, int64_t *ret_place, int64_t *ret_extent)
{
    int64_t place = -1, extent = 0;
    for (uint32_t r = 0; r < axis->count; r++) {
        const struct sp_range *range = &axis->ranges[r];
        if (index >= range->start && index < range->limit)
            place = extent + index - range->start;
        extent += range->limit - range->start;
    }
    *ret_place = place;
    *ret_extent = extent;
    return place >= 0;
}

int64_t *sp_sim_memory_find(const struct sp_sim_memory *memory, const int64_t *index)
{
    uint32_t rank = memory->held.rank;
    for (uint32_t s = 0; s < memory->held.shard_count; s++) {
        const struct sp_axis_ranges *axes = memory->held.shards + (size_t)s * rank;
        uint64_t at = 0;
        uint32_t a;
        for (a = 0; a < rank; a++) {
            int64_t place, extent;
            if (!find_in_ranges(&axes[a], index[a], &place, &extent))
                break;
            at = at * (uint64_t)extent + (uint64_t)place;
        }
        if (a == rank)
            return &memory->values[memory->first[s] + at];
    }
    return NULL;
}

struct sp_sim_memory *sp_sim_find(const struct sp_simulation *simulation, int64_t device)
{
    int64_t low = 0, high = simulation->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (simulation->memories[middle].device < device)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < simulation->count && simulation->memories[low].device == device)
        return &simulation->memories[low];
    return NULL;
}

/* The first element of the first shard from `cursor->shard` on that has any. */
static bool enter_shard(struct sp_sim_cursor *cursor)
{
    const struct sp_sim_memory *memory = cursor->memory;
    uint32_t rank = memory->held.rank;
    while (cursor->shard < memory->held.shard_count && memory->first[cursor->shard] == memory->first[cursor->shard + 1])
        cursor->shard++;
    if (cursor->shard == memory->held.shard_count)
        return false;
    for (uint32_t a = 0; a < rank; a++) {
        cursor->range[a] = 0;
        cursor->index[a] = memory->held.shards[(size_t)cursor->shard * rank + a].ranges[0].start;
    }
    return true;
}

bool sp_sim_cursor_begin(struct sp_sim_cursor *cursor, const struct sp_sim_memory *memory)
{
    cursor->memory = memory;
    cursor->shard = 0;
    cursor->at = 0;
    return enter_shard(cursor);
}

bool sp_sim_cursor_next(struct sp_sim_cursor *cursor)
{
    uint32_t rank = cursor->memory->held.rank;
    const struct sp_axis_ranges *axes = cursor->memory->held.shards + (size_t)cursor->shard * rank;
    cursor->at++;
    for (uint32_t a = rank; a-- > 0;) {
        if (++cursor->index[a] < axes[a].ranges[cursor->range[a]].limit)
            return true;
        if (++cursor->range[a] < axes[a].count) {
            cursor->index[a] = axes[a].ranges[cursor->range[a]].start;
            return true;
        }
        cursor->range[a] = 0;
        cursor->index[a] = axes[a].ranges[0].start;
    }
    cursor->shard++;
    return enter_shard(cursor);
}

/* Of the middle digit of a ref: how far apart its values stand in the mesh's order of positions. */
static int64_t stride_of(const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    int64_t stride = mesh->axes[ref.axis].size / (ref.pre * ref.size);
    for (uint32_t i = ref.axis + 1; i < mesh->axis_count; i++)
        stride *= mesh->axes[i].size;
    return stride;
}

enum sp_status sp_sim_groups_create(struct sp_arena *arena, const struct sp_mesh *mesh, const struct sp_axis_list *axes,
                                    struct sp_sim_groups *ret_groups, struct sp_error *err)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < axes->count; i++) {
        struct sp_error ignored = {0};
        if (sp_axis_check(mesh, axes->refs[i], &ignored) != SP_OK || !sp_mul_i64(size, axes->refs[i].size, &size))
            return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_AXES",
                           "Axis %u in the list of a step is none of the step's mesh.", i);
        for (uint32_t j = 0; j < i; j++)
            if (sp_axis_overlaps(axes->refs[i], axes->refs[j]))
                return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_AXES", "Axes %u and %u in the list of a step overlap.",
                               j, i);
    }
    if (size > mesh->order.count)
        return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_AXES", "A step's groups are larger than its mesh.");
    int64_t *offsets = SP_NEW_ARRAY(arena, (size_t)size, int64_t);
    if (!offsets)
        return sp_fail_memory(err);
    for (int64_t k = 0; k < size; k++) {
        int64_t rest = k;
        for (uint32_t i = axes->count; i-- > 0;) {
            offsets[k] += rest % axes->refs[i].size * stride_of(mesh, axes->refs[i]);
            rest /= axes->refs[i].size;
        }
    }
    *ret_groups = (struct sp_sim_groups){.mesh = mesh, .axes = axes, .size = size, .offsets = offsets};
    return SP_OK;
}

enum sp_status sp_sim_groups_of_partial(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                                        struct sp_sim_groups *ret_groups, struct sp_error *err)
{
    static const struct sp_axis_list none;
    if (sharding->kind == SP_SHARDING_AXES && sharding->partial.count > 0)
        return sp_sim_groups_create(simulation->arena, sharding->mesh, &sharding->partial, ret_groups, err);
    *ret_groups = (struct sp_sim_groups){.axes = &none, .size = 1};
    if (sharding->kind == SP_SHARDING_UNREDUCED)
        ret_groups->size = simulation->count;
    return SP_OK;
}

bool sp_sim_groups_find(const struct sp_simulation *simulation, const struct sp_sim_groups *groups, int64_t device,
                        int64_t *ret_member, const struct sp_sim_memory **ret_memories)
{
    *ret_member = 0;
    if (!groups->mesh && groups->size == 1) {
        ret_memories[0] = sp_sim_find(simulation, device);
        return true;
    }
    if (!groups->mesh) {
        for (int64_t k = 0; k < groups->size; k++) {
            ret_memories[k] = &simulation->memories[k];
            if (simulation->memories[k].device == device)
                *ret_member = k;
        }
        return true;
    }
    int64_t position = sp_device_order_find(&groups->mesh->order, device);
    if (position < 0)
        return false;
    for (uint32_t i = 0; i < groups->axes->count; i++) {
        struct sp_axis_ref ref = groups->axes->refs[i];
        *ret_member = *ret_member * ref.size + position / stride_of(groups->mesh, ref) % ref.size;
    }
    position -= groups->offsets[*ret_member];
    for (int64_t k = 0; k < groups->size; k++)
        ret_memories[k] =
            sp_sim_find(simulation, sp_device_order_at(&groups->mesh->order, position + groups->offsets[k]));
    return true;
}

bool sp_sim_combiner_is_known(enum sp_combiner combiner)
{
    return combiner == SP_COMBINE_SUM || combiner == SP_COMBINE_MAX || combiner == SP_COMBINE_MIN;
}

int64_t sp_sim_combine(enum sp_combiner combiner, int64_t a, int64_t b)
{
    if (combiner == SP_COMBINE_MAX)
        return a > b ? a : b;
    if (combiner == SP_COMBINE_MIN)
        return a < b ? a : b;
    return (int64_t)((uint64_t)a + (uint64_t)b); /* modulo 2^64, so that random addends may be of any size */
}

int64_t sp_sim_neutral(enum sp_combiner combiner)
{
    return combiner == SP_COMBINE_MAX ? INT64_MIN : combiner == SP_COMBINE_MIN ? INT64_MAX : 0;
}

void sp_sim_write_index(uint32_t rank, const int64_t *index, size_t size, char *text)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t a = 0; a < rank && used + 24 < size; a++)
        used += (size_t)snprintf(text + used, size - used, a ? ", %lld" : "%lld", (long long)index[a]);
    snprintf(text + used, size - used, "]");
}
