/*
 * The collectives of one node: what its operator asks for, and what its outputs need.
 *
 * The devices of a collective over some factors are those that differ in these factors only. Where several devices do
 * the same work (replicas), the first of each make the first group, and so on; a replica without a counterpart in every
 * part joins the first group and only listens.
 */
#include <string.h>

#include "base/sorted.h"
#include "partition/node_internal.h"

/* One device in its group. */
struct seat {
    int64_t group, shard; /* where it is along the other factors, and along these */
    uint32_t replica, at;
    bool is_listener;
};

static bool is_listed(uint32_t count, const uint8_t *factors, uint32_t factor)
{
    for (uint32_t i = 0; i < count; i++)
        if (factors[i] == factor)
            return true;
    return false;
}

SP_ASCENDING(compare_seats, struct seat, group, replica, shard, at)

/* The devices in the order of groups, replicas and shards. */
static enum sp_status seat_devices(struct sp_part_run *run, uint32_t count, const uint8_t *factors,
                                   struct seat **ret_seats)
{
    const struct sp_node_cut *placement = &run->placement;
    struct seat *seats = SP_NEW_ARRAY(run->part->scratch, placement->device_count, struct seat);
    int64_t shards = 1;
    if (seats == NULL) {
        (void)sp_fail_memory(run->part->err);
        return SP_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++)
        shards *= placement->shards[factors[i]];
    for (uint32_t at = 0; at < placement->device_count; at++) {
        seats[at].at = at;
        for (uint32_t f = 0; f < placement->factor_count; f++) {
            if (placement->coordinates[f] == NULL)
                continue;
            int64_t *to = is_listed(count, factors, f) ? &seats[at].shard : &seats[at].group;
            *to = *to * placement->shards[f] + placement->coordinates[f][at];
        }
    }
    qsort(seats, placement->device_count, sizeof *seats, compare_seats); /* by group, then shard: replicas together */
    for (uint32_t i = 1; i < placement->device_count; i++)
        if (seats[i].group == seats[i - 1].group && seats[i].shard == seats[i - 1].shard)
            seats[i].replica = seats[i - 1].replica + 1;
    qsort(seats, placement->device_count, sizeof *seats, compare_seats);
    for (uint32_t i = 0, last; i < placement->device_count; i = last) {
        for (last = i; last < placement->device_count && seats[last].group == seats[i].group &&
                       seats[last].replica == seats[i].replica;)
            last++;
        if (last - i == (uint64_t)shards)
            continue;
        for (uint32_t j = i; j < last; j++) { /* not one of each */
            seats[j].replica = 0;
            seats[j].is_listener = true;
        }
    }
    qsort(seats, placement->device_count, sizeof *seats, compare_seats);
    *ret_seats = seats;
    return SP_OK;
}

static bool starts_group(const struct seat *seats, uint32_t i)
{
    return i == 0 || seats[i].group != seats[i - 1].group || seats[i].replica != seats[i - 1].replica;
}

static enum sp_status whole_piece_box(struct sp_part_run *run, const struct sp_piece *piece, struct sp_box *ret_box)
{
    struct sp_axis_ranges *axes = SP_NEW_ARRAY(run->part->scratch, piece->rank, struct sp_axis_ranges);
    struct sp_range *ranges = SP_NEW_ARRAY(run->part->scratch, piece->rank, struct sp_range);
    if (axes == NULL || ranges == NULL) {
        (void)sp_fail_memory(run->part->err);
        return SP_ERR_MEMORY;
    }
    for (uint32_t a = 0; a < piece->rank; a++) {
        ranges[a] = (struct sp_range){0, piece->dims != NULL ? piece->dims[a] : -1};
        axes[a] = (struct sp_axis_ranges){1, &ranges[a]};
    }
    *ret_box = (struct sp_box){piece->rank, axes, true};
    return SP_OK;
}

/* ---- what an operator asks for ---------------------------------------------------------------------------------- */

/* The members of a collective, one for each device: what they hold is the whole of their pieces. */
static enum sp_status list_members(struct sp_part_run *run, const uint32_t *events, uint32_t *ret_groups,
                                   struct sp_exchange_member **ret_members)
{
    const struct sp_lower_event *first = &run->records[0]->events[events[0]];
    uint32_t count = run->placement.device_count, groups = 0;
    struct seat *seats = NULL;
    struct sp_exchange_member *members = SP_NEW_ARRAY(run->part->scratch, count, struct sp_exchange_member);
    enum sp_status status = seat_devices(run, first->collective.factor_count, first->collective.factors, &seats);
    if (status != SP_OK || members == NULL)
        return status != SP_OK ? status : sp_fail_memory(run->part->err);
    for (uint32_t i = 0; i < count && status == SP_OK; i++) {
        const struct sp_lower_event *event = &run->records[seats[i].at]->events[events[seats[i].at]];
        const struct sp_piece *from = sp_part_resolved(run, seats[i].at, event->collective.from);
        groups += starts_group(seats, i);
        members[i] = (struct sp_exchange_member){.device = run->placement.devices[seats[i].at],
                                                 .group = groups - 1,
                                                 .before = seats[i].is_listener ? NULL : from,
                                                 .after = event->piece};
        status = whole_piece_box(run, from, &members[i].held);
    }
    *ret_groups = groups;
    *ret_members = members;
    return status;
}

static enum sp_status all_reduce(struct sp_part_run *run, const uint32_t *events)
{
    const struct sp_lower_event *first = &run->records[0]->events[events[0]];
    uint32_t count = run->placement.device_count, groups = 0;
    struct sp_exchange_member *members = NULL;
    enum sp_status status = list_members(run, events, &groups, &members);
    if (status != SP_OK || members == NULL)
        return status;
    for (uint32_t i = 0; i < count; i++)
        members[i].needed = members[i].held;
    const struct sp_piece *piece = first->piece;
    struct sp_exchange exchange = {.kind = SP_ALL_REDUCE,
                                   .purpose = SP_COMMUNICATE_REDUCE,
                                   .rule = run->rule,
                                   .factor_count = first->collective.factor_count,
                                   .factors = first->collective.factors,
                                   .combiner = first->collective.combiner,
                                   .dtype = piece->dtype,
                                   .rank = members[0].held.rank,
                                   .shape = members[0].before != NULL ? members[0].before->dims : NULL,
                                   .node = run->node,
                                   .group_count = groups,
                                   .member_count = count,
                                   .members = members};
    if (exchange.shape == NULL)
        exchange.rank = 0;
    return sp_part_exchange(run->part, &exchange);
}

/* Each group has its own extent along the axis: pieces stand one after the other. */
static enum sp_status gather_group(struct sp_part_run *run, struct sp_exchange_member *members, uint32_t count,
                                   uint32_t axis, int64_t *ret_extent)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].before == NULL)
            continue;
        struct sp_range *range = &((struct sp_axis_ranges *)members[i].held.axes)[axis].ranges[0];
        int64_t size = members[i].before->dims[axis];
        *range = (struct sp_range){at, at + size};
        at += size;
    }
    for (uint32_t i = 0; i < count; i++) {
        enum sp_status status =
            whole_piece_box(run, members[i].before != NULL ? members[i].before : members[0].before, &members[i].needed);
        if (status != SP_OK)
            return status;
        ((struct sp_axis_ranges *)members[i].needed.axes)[axis].ranges[0] = (struct sp_range){0, at};
    }
    *ret_extent = at;
    return SP_OK;
}

static enum sp_status all_gather(struct sp_part_run *run, const uint32_t *events)
{
    const struct sp_lower_event *first = &run->records[0]->events[events[0]];
    uint32_t count = run->placement.device_count, axis = first->collective.axis, groups = 0;
    struct sp_exchange_member *members = NULL;
    enum sp_status status = list_members(run, events, &groups, &members);
    if (status != SP_OK || members == NULL)
        return status;
    /* A group is an exchange of its own: the extents of what is gathered may differ. Where they do not, it is one. */
    uint32_t begin = 0;
    int64_t extent = 0, common = -1;
    bool is_uniform = true;
    for (uint32_t i = 1; i <= count && status == SP_OK; i++)
        if (i == count || members[i].group != members[begin].group) {
            status = gather_group(run, &members[begin], i - begin, axis, &extent);
            is_uniform = is_uniform && (common < 0 || common == extent);
            common = extent;
            begin = i;
        }
    begin = 0;
    for (uint32_t i = 1; i <= count && status == SP_OK; i++) {
        if (i < count && (is_uniform || members[i].group == members[begin].group))
            continue;
        int64_t *shape = SP_NEW_ARRAY(run->part->scratch, members[begin].needed.rank, int64_t);
        if (shape == NULL)
            return sp_fail_memory(run->part->err);
        for (uint32_t a = 0; a < members[begin].needed.rank; a++)
            shape[a] = members[begin].needed.axes[a].ranges[0].limit;
        struct sp_exchange exchange = {.kind = SP_ALL_GATHER,
                                       .purpose = SP_COMMUNICATE_GATHER,
                                       .rule = run->rule,
                                       .factor_count = first->collective.factor_count,
                                       .factors = first->collective.factors,
                                       .axis = axis,
                                       .dtype = first->piece->dtype,
                                       .rank = members[begin].needed.rank,
                                       .shape = shape,
                                       .node = run->node,
                                       .group_count = is_uniform ? groups : 1,
                                       .member_count = i - begin,
                                       .members = &members[begin]};
        status = sp_part_exchange(run->part, &exchange);
        begin = i;
    }
    return status;
}

enum sp_status sp_part_collective(struct sp_part_run *run, const uint32_t *events)
{
    if (run->records[0]->events[events[0]].kind == SP_LOWER_ALL_GATHER)
        return all_gather(run, events);
    return all_reduce(run, events);
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

struct made {
    const struct sp_value *value;
    const struct sp_sharding *sharding; /* of what the node makes; NULL: none says it */
    const struct sp_sharding *stated;   /* where the assignment wants it, or NULL */
    struct sp_box *boxes;
    const struct sp_piece **pieces;
};

/* Where the assignment wants the output, per device of the placement; false where its devices are others, or one has
   no single part. */
static enum sp_status stated_boxes(struct sp_part_run *run, const struct made *made, struct sp_box **ret_boxes)
{
    struct sp_partitioner *part = run->part;
    int64_t count = 0;
    const int64_t *devices = NULL;
    *ret_boxes = NULL;
    if (made->stated == NULL)
        return SP_OK;
    enum sp_status status =
        sp_sharding_devices(part->scratch, made->stated, part->assignment.device_count, &count, &devices, part->err);
    if (status != SP_OK || count != run->placement.device_count ||
        memcmp(devices, run->placement.devices, (size_t)count * sizeof *devices) != 0)
        return status;
    struct sp_box *boxes = SP_NEW_ARRAY(part->arena, (size_t)count, struct sp_box);
    if (boxes == NULL)
        return sp_fail_memory(part->err);
    status = sp_part_boxes(part, made->value, made->stated, (uint32_t)count, devices, boxes);
    *ret_boxes = status == SP_OK ? boxes : NULL;
    return status;
}

/* Whether the stated boxes of each group are slices, in the order of members, of what its devices have partial. */
static bool scatters(struct sp_exchange *exchange)
{
    exchange->kind = SP_REDUCE_SCATTER;
    sp_exchange_classify(exchange);
    return exchange->is_regular;
}

static enum sp_status combine(struct sp_part_run *run, const uint32_t *events, struct made *made, bool *ret_scattered)
{
    struct sp_partitioner *part = run->part;
    const struct sp_lower_event *first = &run->records[0]->events[events[0]];
    uint32_t count = run->placement.device_count, groups = 0, rank = sp_part_rank(made->value);
    struct seat *seats = NULL;
    struct sp_box *wanted = NULL;
    struct sp_exchange_member *members = SP_NEW_ARRAY(part->scratch, count, struct sp_exchange_member);
    int64_t *shape = SP_NEW_ARRAY(part->scratch, rank, int64_t);
    enum sp_status status = seat_devices(run, first->output.factor_count, first->output.factors, &seats);
    if (status == SP_OK)
        status = stated_boxes(run, made, &wanted);
    if (status != SP_OK || members == NULL || shape == NULL)
        return status != SP_OK ? status : sp_fail_memory(part->err);
    for (uint32_t a = 0; a < rank; a++) {
        struct sp_dim dim = made->value->type.shape.dims[a];
        shape[a] = sp_dim_is_known(dim) ? dim.value : -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = seats[i].at;
        groups += starts_group(seats, i);
        members[i] = (struct sp_exchange_member){.device = run->placement.devices[at],
                                                 .group = groups - 1,
                                                 .before = seats[i].is_listener ? NULL : made->pieces[at],
                                                 .held = made->boxes[at],
                                                 .after = made->pieces[at],
                                                 .needed = wanted != NULL ? wanted[at] : made->boxes[at]};
    }
    struct sp_exchange exchange = {.kind = SP_ALL_REDUCE,
                                   .purpose = SP_COMMUNICATE_REDUCE,
                                   .rule = run->rule,
                                   .factor_count = first->output.factor_count,
                                   .factors = first->output.factors,
                                   .combiner = first->output.combiner,
                                   .dtype = made->value->type.dtype,
                                   .rank = rank,
                                   .shape = shape,
                                   .value = made->value,
                                   .node = run->node,
                                   .group_count = groups,
                                   .member_count = count,
                                   .members = members};
    *ret_scattered = wanted != NULL && scatters(&exchange);
    if (!*ret_scattered)
        exchange.kind = SP_ALL_REDUCE;
    exchange.goal = *ret_scattered ? made->stated : made->sharding;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = seats[i].at;
        if (!*ret_scattered)
            members[i].needed = made->boxes[at];
        else
            made->boxes[at] = wanted[at];
        struct sp_piece *after =
            sp_part_piece(part, made->value->name, members[i].device, made->value->type.dtype, &members[i].needed);
        if (after == NULL)
            return sp_fail_memory(part->err);
        members[i].after = after;
        made->pieces[at] = after;
    }
    return sp_part_exchange(part, &exchange);
}

/* What the devices have of the output once the node is done. */
static enum sp_status describe(struct sp_part_run *run, const uint32_t *events, struct made *made)
{
    struct sp_partitioner *part = run->part;
    const struct sp_lower_event *first = &run->records[0]->events[events[0]];
    uint32_t count = run->placement.device_count, rank = sp_part_rank(made->value);
    struct sp_node_cut whole;
    const struct sp_node_cut *placement = &run->placement;
    const struct sp_operand_rule *rule = sp_rule_operand(run->rule, run->rule->input_count + first->output.index);
    enum sp_status status = SP_OK;
    if (first->output.kind == SP_LOWER_WHOLE) {
        status = sp_placement_whole(part, run->rule->factor_count, count, run->placement.devices, &whole);
        placement = &whole;
    }
    for (uint32_t at = 0; at < count && status == SP_OK; at++) {
        struct sp_lower_axis *axes = SP_NEW_ARRAY(part->scratch, rank, struct sp_lower_axis);
        struct sp_axis_ranges *ranges = SP_NEW_ARRAY(part->arena, rank, struct sp_axis_ranges);
        if (axes == NULL || ranges == NULL)
            return sp_fail_memory(part->err);
        status = sp_placement_part(part, placement, run->rule, rule, made->value, at, axes);
        bool is_whole = true;
        for (uint32_t a = 0; a < rank && status == SP_OK; a++) {
            ranges[a] = axes[a].ranges;
            is_whole = is_whole && !axes[a].is_cut;
        }
        made->boxes[at] = (struct sp_box){rank, ranges, is_whole};
        const struct sp_lower_event *event = &run->records[at]->events[events[at]];
        made->pieces[at] = sp_part_resolved(run, at, event->piece);
    }
    if (status == SP_OK)
        status = sp_placement_sharding(part, placement, run->rule, rule, made->value, &made->sharding);
    return status;
}

/* Whether which part a device holds can be told: a cut needs an extent. */
static bool is_known_part(const struct sp_value *value, const struct sp_sharding *sharding)
{
    for (uint32_t a = 0; a < sp_part_rank(value); a++)
        if (sp_sharding_shards(sharding, a) > 1 && !sp_dim_is_known(value->type.shape.dims[a]))
            return false;
    return true;
}

/* Brings an output to where the assignment wants it, when that is elsewhere. */
static enum sp_status place_output(struct sp_part_run *run, const struct made *made)
{
    struct sp_partitioner *part = run->part;
    int64_t count = 0;
    struct sp_part_target target = {.sharding = made->stated, .node = run->node};
    if (made->stated == NULL || !is_known_part(made->value, made->stated))
        return SP_OK;
    enum sp_status status = sp_sharding_devices(part->arena, made->stated, part->assignment.device_count, &count,
                                                &target.devices, part->err);
    if (status != SP_OK)
        return status;
    struct sp_box *boxes = SP_NEW_ARRAY(part->arena, (size_t)count, struct sp_box);
    const struct sp_piece **pieces = SP_NEW_ARRAY(part->arena, (size_t)count, const struct sp_piece *);
    if (boxes == NULL || pieces == NULL)
        return sp_fail_memory(part->err);
    target.count = (uint32_t)count;
    target.boxes = boxes;
    status = sp_part_boxes(part, made->value, made->stated, target.count, target.devices, boxes);
    if (status == SP_OK)
        status = sp_part_bring(part, made->value, &target, pieces);
    return status;
}

enum sp_status sp_part_output(struct sp_part_run *run, const uint32_t *events)
{
    struct sp_partitioner *part = run->part;
    const struct sp_lower_event *first = &run->records[0]->events[events[0]];
    uint32_t count = run->placement.device_count, id = sp_dataflow_node(part->dataflow, run->node);
    bool is_scattered = false;
    struct made made = {.value = run->node->outputs[first->output.index],
                        .boxes = SP_NEW_ARRAY(part->arena, count, struct sp_box),
                        .pieces = SP_NEW_ARRAY(part->arena, count, const struct sp_piece *)};
    if (made.boxes == NULL || made.pieces == NULL)
        return sp_fail_memory(part->err);
    const struct sp_spec_entry *specs = part->stated->nodes[id].operands;
    if (specs != NULL && part->branch == NULL && sp_part_rank(made.value) > 0)
        made.stated = specs[run->node->input_count + first->output.index].sharding;
    enum sp_status status = describe(run, events, &made);
    if (status == SP_OK && first->output.kind == SP_LOWER_PARTIAL && first->output.factor_count > 0)
        status = combine(run, events, &made, &is_scattered);
    if (status == SP_OK)
        status = sp_part_hold(part, made.value, is_scattered ? made.stated : made.sharding, count,
                              run->placement.devices, made.pieces, made.boxes);
    if (status == SP_OK && !is_scattered)
        status = place_output(run, &made);
    return status;
}

/* The piece that stands for one that was asked for. */
const struct sp_piece *sp_part_resolved(const struct sp_part_run *run, uint32_t at, const struct sp_piece *piece)
{
    for (uint32_t i = 0; i < run->brought_count; i++)
        if (run->brought[i].asked[at] == piece)
            return run->brought[i].pieces[at];
    return piece;
}
