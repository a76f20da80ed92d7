/* A tensor laid out on virtual devices, and the comparison at the end. */
#include <stdio.h>

#include "base/arith.h"
#include "base/random.h"
#include "reshard_simulator_internal.h"

/*
 * What member `member` of a group of `size` holds so that all of them combine to `value`. The number depends on the
 * place in the group and the element only: replicas of a summand are equal.
 */
static int64_t share_of(enum sp_combiner combiner, int64_t value, uint64_t seed, uint64_t element, int64_t member,
                        int64_t size)
{
    uint64_t base = sp_scramble(seed ^ sp_scramble(element));
    if (size == 1)
        return value;
    if (combiner == SP_COMBINE_SUM) {
        if (member < size - 1)
            return (int64_t)sp_scramble(base + (uint64_t)member);
        uint64_t rest = (uint64_t)value;
        for (int64_t k = 0; k < size - 1; k++)
            rest -= sp_scramble(base + (uint64_t)k);
        return (int64_t)rest;
    }
    if ((int64_t)(base % (uint64_t)size) == member)
        return value;
    int64_t off = (int64_t)(sp_scramble(base + (uint64_t)member) % 1000) + 1, share;
    if (combiner == SP_COMBINE_MAX)
        return sp_sub_i64(value, off, &share) ? share : INT64_MIN;
    return sp_add_i64(value, off, &share) ? share : INT64_MAX;
}

static uint64_t element_of(const struct sp_simulation *simulation, const int64_t *index)
{
    uint64_t element = 0;
    for (uint32_t a = 0; a < simulation->rank; a++)
        element = element * (uint64_t)simulation->shape[a] + (uint64_t)index[a];
    return element;
}

enum sp_status sp_sim_devices(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                              int64_t *ret_count, const int64_t **ret_devices, struct sp_error *err)
{
    struct sp_error unknown = {0};
    enum sp_status status =
        sp_sharding_devices(simulation->arena, sharding, simulation->device_count, ret_count, ret_devices, &unknown);
    if (status == SP_OK)
        return SP_OK;
    if (status != SP_ERR_REQUEST) {
        if (err)
            *err = unknown;
        return status;
    }
    int64_t *devices = SP_NEW_ARRAY(simulation->arena, (size_t)simulation->count, int64_t);
    if (!devices)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < simulation->count; i++)
        devices[i] = simulation->memories[i].device;
    *ret_count = simulation->count;
    *ret_devices = devices;
    return SP_OK;
}

static enum sp_status check_tensor(uint32_t rank, const int64_t *shape, struct sp_error *err)
{
    int64_t elements = 1;
    if (rank > SP_MAX_RANK)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_RANK", SP_MAX_RANK, rank, "The tensor has %u axes.", rank);
    for (uint32_t a = 0; a < rank; a++) {
        if (shape[a] < 0)
            return sp_fail(err, SP_ERR_REQUEST, "BAD_SHAPE", "Axis %u of the tensor has no known extent.", a);
        if (!sp_mul_i64(elements, shape[a], &elements) || elements > SP_MAX_SIMULATED_VALUES)
            return sp_fail_limit(err, "SIMULATION_TOO_LARGE", "SP_MAX_SIMULATED_VALUES", SP_MAX_SIMULATED_VALUES,
                                 shape[a], "The tensor has more elements than the simulator carries.");
    }
    return SP_OK;
}

/* Fills all memories with their shares of `values`. */
static enum sp_status fill(struct sp_simulation *simulation, const struct sp_sharding *sharding, const int64_t *values,
                           uint64_t seed, struct sp_error *err)
{
    struct sp_sim_groups groups;
    enum sp_status status = sp_sim_groups_of_partial(simulation, sharding, &groups, err);
    if (status != SP_OK)
        return status;
    if (groups.size > 1 && !sp_sim_combiner_is_known(sharding->combiner))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "COMBINER_UNSUPPORTED",
                       "The simulator combines partial values by sum, maximum or minimum only.");
    const struct sp_sim_memory **members =
        SP_NEW_ARRAY(simulation->arena, (size_t)groups.size, const struct sp_sim_memory *);
    if (!members)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < simulation->count; i++) {
        struct sp_sim_memory *memory = &simulation->memories[i];
        struct sp_sim_cursor cursor;
        int64_t member;
        sp_sim_groups_find(simulation, &groups, memory->device, &member, members);
        for (bool more = sp_sim_cursor_begin(&cursor, memory); more; more = sp_sim_cursor_next(&cursor)) {
            uint64_t element = element_of(simulation, cursor.index);
            memory->values[cursor.at] =
                share_of(sharding->combiner, values[element], seed, element, member, groups.size);
        }
    }
    return SP_OK;
}

enum sp_status sp_simulation_create(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                    const int64_t *shape, int64_t device_count, const int64_t *values, uint64_t seed,
                                    struct sp_simulation **ret_simulation, struct sp_error *err)
{
    enum sp_status status = check_tensor(rank, shape, err);
    if (status != SP_OK)
        return status;
    struct sp_simulation *simulation = SP_NEW(arena, struct sp_simulation);
    int64_t *extents = SP_NEW_ARRAY(arena, rank, int64_t);
    if (!simulation || !extents)
        return sp_fail_memory(err);
    for (uint32_t a = 0; a < rank; a++)
        extents[a] = shape[a];
    *simulation = (struct sp_simulation){.arena = arena, .rank = rank, .shape = extents, .device_count = device_count};

    int64_t count;
    const int64_t *devices;
    if ((status = sp_sharding_devices(arena, sharding, device_count, &count, &devices, err)) != SP_OK)
        return status;
    simulation->memories = SP_NEW_ARRAY(arena, (size_t)count, struct sp_sim_memory);
    if (!simulation->memories)
        return sp_fail_memory(err);
    for (simulation->count = 0; simulation->count < count; simulation->count++) {
        status = sp_sim_memory_create(simulation, sharding, devices[simulation->count],
                                      &simulation->memories[simulation->count], err);
        if (status != SP_OK)
            return status;
    }
    if ((status = fill(simulation, sharding, values, seed, err)) != SP_OK)
        return status;
    *ret_simulation = simulation;
    return SP_OK;
}

/* The number that a group holds together at an index; false when a member has none. */
static bool combine_group(const struct sp_sim_groups *groups, const struct sp_sim_memory *const *members,
                          enum sp_combiner combiner, const int64_t *index, int64_t *ret_value)
{
    int64_t total = 0;
    for (int64_t k = 0; k < groups->size; k++) {
        const int64_t *share = members[k] ? sp_sim_memory_find(members[k], index) : NULL;
        if (!share)
            return false;
        total = k == 0 ? *share : sp_sim_combine(combiner, total, *share);
    }
    *ret_value = total;
    return true;
}

static enum sp_status differs(const struct sp_simulation *simulation, int64_t device, const int64_t *index,
                              const char *what, struct sp_error *err)
{
    char text[SP_SIM_INDEX_TEXT];
    sp_sim_write_index(simulation->rank, index, sizeof(text), text);
    return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_DIFFERS", "Device %lld at index %s %s.", (long long)device, text,
                   what);
}

/* One device against what it should hold. */
static enum sp_status compare_device(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                                     int64_t device, const struct sp_sim_groups *groups,
                                     const struct sp_sim_memory **members, const int64_t *values, struct sp_error *err)
{
    struct sp_sim_memory expected;
    struct sp_sim_cursor want, have;
    int64_t member;
    const struct sp_sim_memory *memory = sp_sim_find(simulation, device);
    enum sp_status status = sp_sim_memory_create(simulation, sharding, device, &expected, err);
    if (status != SP_OK)
        return status;
    uint64_t count = memory ? sp_sim_memory_count(memory) : 0;
    if (count != sp_sim_memory_count(&expected))
        return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_DIFFERS", "Device %lld holds %llu numbers, not %llu.",
                       (long long)device, (unsigned long long)count,
                       (unsigned long long)sp_sim_memory_count(&expected));
    if (count == 0)
        return SP_OK;
    if (!sp_sim_groups_find(simulation, groups, device, &member, members))
        return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_DIFFERS", "Device %lld is not of the mesh.",
                       (long long)device);
    /* In step: the order in which a device holds its elements counts, too. */
    bool more = sp_sim_cursor_begin(&want, &expected) && sp_sim_cursor_begin(&have, memory);
    for (; more; more = sp_sim_cursor_next(&want) && sp_sim_cursor_next(&have)) {
        int64_t value, right = values[element_of(simulation, want.index)];
        for (uint32_t a = 0; a < simulation->rank; a++)
            if (want.index[a] != have.index[a])
                return differs(simulation, device, want.index, "holds the number of another index", err);
        if (!combine_group(groups, members, sharding->combiner, want.index, &value))
            return differs(simulation, device, want.index, "lacks the addend of another device", err);
        if (value != right) {
            char text[80];
            snprintf(text, sizeof(text), "holds %lld, not %lld", (long long)value, (long long)right);
            return differs(simulation, device, want.index, text, err);
        }
    }
    return SP_OK;
}

enum sp_status sp_simulation_compare(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                                     const int64_t *values, struct sp_error *err)
{
    int64_t count;
    const int64_t *devices;
    struct sp_sim_groups groups;
    struct sp_arena_mark mark = sp_arena_mark(simulation->arena);
    enum sp_status status = sp_sim_devices(simulation, sharding, &count, &devices, err);
    if (status == SP_OK)
        status = sp_sim_groups_of_partial(simulation, sharding, &groups, err);
    if (status != SP_OK)
        goto cleanup;
    const struct sp_sim_memory **members =
        SP_NEW_ARRAY(simulation->arena, (size_t)groups.size, const struct sp_sim_memory *);
    if (!members)
        status = sp_fail_memory(err);
    for (int64_t i = 0; i < count && status == SP_OK; i++)
        status = compare_device(simulation, sharding, devices[i], &groups, members, values, err);
cleanup:
    sp_arena_rewind(simulation->arena, mark);
    return status;
}

enum sp_status sp_simulation_local(const struct sp_simulation *simulation, int64_t device, uint64_t *ret_count,
                                   const int64_t **ret_values, struct sp_error *err)
{
    const struct sp_sim_memory *memory = sp_sim_find(simulation, device);
    if (!memory)
        return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_DEVICE", "The simulation has no device %lld.", (long long)device);
    *ret_count = sp_sim_memory_count(memory);
    *ret_values = memory->values;
    return SP_OK;
}
