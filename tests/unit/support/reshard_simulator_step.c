/* One step of a reshard, carried out with what its kind may use and nothing else. */
#include "reshard_simulator_internal.h"

struct step {
    const struct sp_simulation *simulation;
    const struct sp_reshard_step *plan;
    struct sp_sim_groups groups;          /* of plan->axes */
    const struct sp_sim_memory **members; /* of the group of the device at hand */
    int64_t member;                       /* which of them it is */
};

static enum sp_status refuse(const struct step *step, const char *code, int64_t device, const int64_t *index,
                             const char *what, struct sp_error *err)
{
    char text[SP_SIM_INDEX_TEXT];
    sp_sim_write_index(step->simulation->rank, index, sizeof(text), text);
    return sp_fail(err, SP_ERR_INTERNAL, code, "In a step of kind %s device %lld %s at index %s.",
                   sp_collective_name(step->plan->kind), (long long)device, what, text);
}

/* Whether one of the two shardings is on a mesh that has these axes; the sequence's mesh. */
static const struct sp_mesh *mesh_of(const struct sp_reshard_step *plan)
{
    if (plan->after->kind == SP_SHARDING_AXES)
        return plan->after->mesh;
    if (plan->before->kind == SP_SHARDING_AXES)
        return plan->before->mesh;
    return NULL;
}

/* Gathering, exchanging: some member of the group has the number, and all that have one agree. */
static enum sp_status read_any(const struct step *step, int64_t device, const int64_t *index, int64_t *ret_value,
                               struct sp_error *err)
{
    const int64_t *found = NULL;
    for (int64_t k = 0; k < step->groups.size; k++) {
        const int64_t *value = step->members[k] ? sp_sim_memory_find(step->members[k], index) : NULL;
        if (value && found && *value != *found)
            return refuse(step, "SIMULATION_AMBIGUOUS", device, index, "is offered two different numbers", err);
        if (value)
            found = value;
    }
    if (!found)
        return refuse(step, "SIMULATION_MISSING", device, index, "needs what no device of its group has", err);
    *ret_value = *found;
    return SP_OK;
}

/* Reducing: every member of the group has an addend. */
static enum sp_status read_all(const struct step *step, int64_t device, const int64_t *index, int64_t *ret_value,
                               struct sp_error *err)
{
    int64_t total = 0;
    for (int64_t k = 0; k < step->groups.size; k++) {
        const int64_t *value = step->members[k] ? sp_sim_memory_find(step->members[k], index) : NULL;
        if (!value)
            return refuse(step, "SIMULATION_MISSING", device, index, "needs an addend of a device that has none", err);
        total = k == 0 ? *value : sp_sim_combine(step->plan->before->combiner, total, *value);
    }
    *ret_value = total;
    return SP_OK;
}

/* The device's own memory; of to-partial only member 0 of each group keeps it. */
static enum sp_status read_own(const struct step *step, int64_t device, const int64_t *index, int64_t *ret_value,
                               struct sp_error *err)
{
    const struct sp_sim_memory *own = sp_sim_find(step->simulation, device);
    const int64_t *value = own ? sp_sim_memory_find(own, index) : NULL;
    if (!value)
        return refuse(step, "SIMULATION_MISSING", device, index, "needs what it does not hold", err);
    *ret_value = *value;
    if (step->plan->kind == SP_TO_PARTIAL && step->member != 0)
        *ret_value = sp_sim_neutral(step->plan->after->combiner);
    return SP_OK;
}

static enum sp_status read_one(const struct step *step, int64_t device, const int64_t *index, int64_t *ret_value,
                               struct sp_error *err)
{
    switch (step->plan->kind) {
    case SP_ALL_GATHER:
    case SP_ALL_TO_ALL:
        return read_any(step, device, index, ret_value, err);
    case SP_ALL_REDUCE:
    case SP_REDUCE_SCATTER:
        return read_all(step, device, index, ret_value, err);
    default:
        return read_own(step, device, index, ret_value, err);
    }
}

/* Fills a memory element by element. */
static enum sp_status compute(struct step *step, struct sp_sim_memory *memory, struct sp_error *err)
{
    struct sp_sim_cursor cursor;
    enum sp_status status = SP_OK;
    if (!sp_sim_groups_find(step->simulation, &step->groups, memory->device, &step->member, step->members))
        return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_MISSING", "Device %lld is not of the mesh of the step.",
                       (long long)memory->device);
    for (bool more = sp_sim_cursor_begin(&cursor, memory); more && status == SP_OK; more = sp_sim_cursor_next(&cursor))
        status = read_one(step, memory->device, cursor.index, &memory->values[cursor.at], err);
    return status;
}

/* Copies one piece; `is_set` marks what has arrived. */
static enum sp_status receive(const struct step *step, const struct sp_transfer *transfer, struct sp_sim_memory *memory,
                              bool *is_set, struct sp_error *err)
{
    const struct sp_simulation *simulation = step->simulation;
    const struct sp_sim_memory *source = sp_sim_find(simulation, transfer->source);
    struct sp_axis_ranges axes[SP_MAX_RANK];
    struct sp_sim_cursor cursor;
    uint64_t first[2] = {0, 1};
    for (uint32_t a = 0; a < simulation->rank; a++) {
        bool is_empty = transfer->box[a].start >= transfer->box[a].limit;
        axes[a] = (struct sp_axis_ranges){.count = is_empty ? 0 : 1, .ranges = (struct sp_range *)&transfer->box[a]};
        first[1] = is_empty ? 0 : first[1];
    }
    /* The piece as if it were a memory, so that one cursor serves all; its values are never read. */
    struct sp_sim_memory piece = {
        .held = {.rank = simulation->rank, .shard_count = 1, .shards = axes}, .first = first, .values = NULL};
    for (bool more = sp_sim_cursor_begin(&cursor, &piece); more; more = sp_sim_cursor_next(&cursor)) {
        const int64_t *from = source ? sp_sim_memory_find(source, cursor.index) : NULL;
        int64_t *to = sp_sim_memory_find(memory, cursor.index);
        if (!from)
            return refuse(step, "SIMULATION_MISSING", transfer->source, cursor.index, "is to send what it has not",
                          err);
        if (!to)
            return refuse(step, "SIMULATION_UNWANTED", memory->device, cursor.index, "is sent what it is not to hold",
                          err);
        if (is_set[to - memory->values] && *to != *from)
            return refuse(step, "SIMULATION_AMBIGUOUS", memory->device, cursor.index, "is sent two different numbers",
                          err);
        is_set[to - memory->values] = true;
        *to = *from;
    }
    return SP_OK;
}

/* All pieces for one device; afterwards nothing may be undefined. */
static enum sp_status receive_all(struct step *step, struct sp_sim_memory *memory, struct sp_error *err)
{
    const struct sp_reshard_step *plan = step->plan;
    const struct sp_transfer *first = NULL;
    struct sp_sim_cursor cursor;
    bool *is_set = SP_NEW_ARRAY(step->simulation->arena, sp_sim_memory_count(memory), bool);
    if (!is_set)
        return sp_fail_memory(err);
    for (uint64_t i = 0; i < plan->transfer_count; i++) {
        const struct sp_transfer *transfer = &plan->transfers[i];
        if (transfer->target != memory->device)
            continue;
        if (plan->kind == SP_COLLECTIVE_PERMUTE && first && first->source != transfer->source)
            return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_SOURCES",
                           "A collective-permute sends device %lld pieces of both device %lld and device %lld.",
                           (long long)memory->device, (long long)first->source, (long long)transfer->source);
        first = transfer;
        enum sp_status status = receive(step, transfer, memory, is_set, err);
        if (status != SP_OK)
            return status;
    }
    for (bool more = sp_sim_cursor_begin(&cursor, memory); more; more = sp_sim_cursor_next(&cursor))
        if (!is_set[cursor.at])
            return refuse(step, "SIMULATION_UNDEFINED", memory->device, cursor.index, "is sent nothing", err);
    return SP_OK;
}

/* The step starts from what the devices hold: the sharding before it is the one that they are in. */
static enum sp_status check_before(const struct step *step, struct sp_error *err)
{
    const struct sp_simulation *simulation = step->simulation;
    for (int64_t i = 0; i < simulation->count; i++) {
        const struct sp_sim_memory *memory = &simulation->memories[i];
        struct sp_sim_memory expected;
        struct sp_sim_cursor want, have;
        enum sp_status status = sp_sim_memory_create(simulation, step->plan->before, memory->device, &expected, err);
        if (status != SP_OK)
            return status;
        bool is_same = sp_sim_memory_count(&expected) == sp_sim_memory_count(memory);
        bool more = is_same && sp_sim_cursor_begin(&want, &expected) && sp_sim_cursor_begin(&have, memory);
        for (; more && is_same; more = sp_sim_cursor_next(&want) && sp_sim_cursor_next(&have))
            for (uint32_t a = 0; a < simulation->rank; a++)
                is_same = is_same && want.index[a] == have.index[a];
        if (!is_same)
            return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_BEFORE",
                           "A step of kind %s starts from a sharding in which device %lld holds something else than "
                           "it does.",
                           sp_collective_name(step->plan->kind), (long long)memory->device);
    }
    return SP_OK;
}

static enum sp_status prepare(struct step *step, struct sp_error *err)
{
    const struct sp_reshard_step *plan = step->plan;
    static const struct sp_axis_list none;
    enum sp_status status = SP_OK;
    bool is_listed = plan->kind == SP_COLLECTIVE_PERMUTE || plan->kind == SP_SEND_RECEIVE;
    bool is_local = plan->kind == SP_ALL_SLICE;
    step->groups = (struct sp_sim_groups){.axes = &none, .size = 1};
    if (is_listed && plan->transfer_count > 0 && !plan->transfers)
        return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_UNLISTED",
                       "A step of kind %s with %llu transfers does not list them.", sp_collective_name(plan->kind),
                       (unsigned long long)plan->transfer_count);
    if (!is_listed && !is_local && plan->axes.count > 0) {
        const struct sp_mesh *mesh = mesh_of(plan);
        if (!mesh)
            return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_AXES", "A step of kind %s has axes, but no mesh.",
                           sp_collective_name(plan->kind));
        status = sp_sim_groups_create(step->simulation->arena, mesh, &plan->axes, &step->groups, err);
    }
    if (status != SP_OK)
        return status;
    bool reduces = plan->kind == SP_ALL_REDUCE || plan->kind == SP_REDUCE_SCATTER;
    if ((reduces && !sp_sim_combiner_is_known(plan->before->combiner)) ||
        (plan->kind == SP_TO_PARTIAL && !sp_sim_combiner_is_known(plan->after->combiner)))
        return sp_fail(err, SP_ERR_INTERNAL, "SIMULATION_COMBINER",
                       "A step of kind %s does not say how values are combined.", sp_collective_name(plan->kind));
    step->members = SP_NEW_ARRAY(step->simulation->arena, (size_t)step->groups.size, const struct sp_sim_memory *);
    if (!step->members)
        return sp_fail_memory(err);
    return check_before(step, err);
}

enum sp_status sp_simulation_step(struct sp_simulation *simulation, const struct sp_reshard_step *step,
                                  struct sp_error *err)
{
    struct step work = {.simulation = simulation, .plan = step};
    int64_t count;
    const int64_t *devices;
    enum sp_status status = prepare(&work, err);
    if (status == SP_OK)
        status = sp_sim_devices(simulation, step->after, &count, &devices, err);
    if (status != SP_OK || !work.members)
        return status;
    struct sp_sim_memory *memories = SP_NEW_ARRAY(simulation->arena, (size_t)count, struct sp_sim_memory);
    if (!memories)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < count; i++) {
        status = sp_sim_memory_create(simulation, step->after, devices[i], &memories[i], err);
        if (status != SP_OK)
            return status;
        bool is_listed = step->kind == SP_COLLECTIVE_PERMUTE || step->kind == SP_SEND_RECEIVE;
        status = is_listed ? receive_all(&work, &memories[i], err) : compute(&work, &memories[i], err);
        if (status != SP_OK)
            return status;
    }
    /* Only now: every device of the step has read what the others held before it. */
    simulation->memories = memories;
    simulation->count = count;
    return SP_OK;
}
