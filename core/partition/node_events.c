/*
 * What the records of one node ask for, carried out: inputs are brought, then every device's operators up to the next
 * collective, the collective, and so on.
 */
#include <string.h>

#include "partition/node_internal.h"

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* What an event says is in the memory of the node; what is held stays. */
static enum sp_status keep_ranges(struct sp_partitioner *part, const struct sp_axis_ranges *ranges,
                                  struct sp_axis_ranges *ret_ranges)
{
    struct sp_range *kept = SP_NEW_ARRAY(part->arena, ranges->count, struct sp_range);
    if (kept == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t i = 0; i < ranges->count; i++)
        kept[i] = ranges->ranges[i];
    *ret_ranges = (struct sp_axis_ranges){ranges->count, kept};
    return SP_OK;
}

/* Why an input is brought in other pieces than the cuts of its factors: its neighbours' ends, or elements that change
   their places. */
static enum sp_communication_kind border_of(const struct sp_part_run *run, uint32_t input)
{
    const struct sp_operand_rule *rule = sp_rule_operand(run->rule, input);
    for (uint32_t axis = 0; axis < rule->rank; axis++) {
        for (uint8_t k = 0; k < rule->axes[axis].count; k++) {
            uint8_t f = rule->axes[axis].factors[k];
            enum sp_factor_kind kind = run->rule->factors[f].kind;
            if (run->placement.coordinates[f] != NULL && (kind == SP_FACTOR_HALO || kind == SP_FACTOR_PERMUTATION))
                return kind == SP_FACTOR_HALO ? SP_COMMUNICATE_HALO : SP_COMMUNICATE_PERMUTE;
        }
    }
    return SP_COMMUNICATE_RESHARD;
}

/* Whether the node states an input split along an axis of which each device needs more. */
static bool gathers(const struct sp_part_run *run, uint32_t input, const struct sp_value *value,
                    const struct sp_sharding *needed)
{
    const struct sp_spec_entry *entries =
        run->part->stated->nodes[sp_dataflow_node(run->part->dataflow, run->node)].operands;
    const struct sp_sharding *stated = entries == NULL ? NULL : entries[input].sharding;
    for (uint32_t axis = 0; stated != NULL && axis < sp_part_rank(value); axis++) {
        if (sp_sharding_shards(stated, axis) > sp_sharding_shards(needed, axis))
            return true;
    }
    return false;
}

static enum sp_status bring_input(struct sp_part_run *run, const uint32_t *at_event)
{
    struct sp_partitioner *part = run->part;
    uint32_t count = run->placement.device_count;
    const struct sp_lower_event *first = &run->records[0]->events[at_event[0]];
    const struct sp_value *value = run->node->inputs[first->input.index];
    struct sp_box *boxes = SP_NEW_ARRAY(part->arena, count, struct sp_box);
    struct sp_part_brought brought = {.asked = SP_NEW_ARRAY(part->scratch, count, const struct sp_piece *),
                                      .pieces = SP_NEW_ARRAY(part->scratch, count, const struct sp_piece *)};
    struct sp_part_target target = {
        .count = count, .devices = run->placement.devices, .boxes = boxes, .node = run->node};
    bool is_part = true, is_whole = true;
    enum sp_status status = SP_OK;
    if (boxes == NULL || brought.asked == NULL || brought.pieces == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t at = 0; at < count; at++) {
        const struct sp_lower_event *event = &run->records[at]->events[at_event[at]];
        uint32_t rank = sp_part_rank(value);
        struct sp_axis_ranges *axes = SP_NEW_ARRAY(part->arena, rank, struct sp_axis_ranges);
        if (axes == NULL)
            return sp_fail_memory(part->err);
        for (uint32_t a = 0; a < rank && status == SP_OK; a++)
            status = keep_ranges(part, &event->input.axes[a], &axes[a]);
        if (status != SP_OK)
            return status;
        boxes[at] = (struct sp_box){rank, axes, event->input.is_whole || sp_part_is_whole(value, axes, rank)};
        brought.asked[at] = event->piece;
        is_part = is_part && event->input.is_part;
        is_whole = is_whole && event->input.is_whole;
    }
    target.purpose = is_part || is_whole ? SP_COMMUNICATE_RESHARD : border_of(run, first->input.index);
    if (is_part || is_whole) {
        struct sp_node_cut whole;
        status = sp_placement_whole(part, run->rule->factor_count, count, run->placement.devices, &whole);
        if (status == SP_OK)
            status = sp_placement_sharding(part, is_whole ? &whole : &run->placement, run->rule,
                                           sp_rule_operand(run->rule, first->input.index), value, &target.sharding);
    }
    if (target.sharding != NULL && gathers(run, first->input.index, value, target.sharding))
        target.purpose = SP_COMMUNICATE_GATHER;
    if (status == SP_OK)
        status = sp_part_bring(part, value, &target, brought.pieces);
    run->brought[run->brought_count++] = brought;
    return status;
}

/* All inputs, in the order in which they are asked for. */
enum sp_status sp_part_bring_inputs(struct sp_part_run *run)
{
    uint32_t devices = run->placement.device_count, inputs = 0;
    uint32_t *at_event = SP_NEW_ARRAY(run->part->scratch, devices, uint32_t);
    for (uint32_t i = 0; i < run->records[0]->count; i++)
        inputs += run->records[0]->events[i].kind == SP_LOWER_INPUT;
    run->brought = SP_NEW_ARRAY(run->part->scratch, inputs, struct sp_part_brought);
    if (at_event == NULL || run->brought == NULL)
        return sp_fail_memory(run->part->err);
    for (uint32_t n = 0; n < inputs; n++) {
        for (uint32_t at = 0; at < devices; at++) {
            const struct sp_lower_recorder *record = run->records[at];
            while (at_event[at] < record->count && record->events[at_event[at]].kind != SP_LOWER_INPUT)
                at_event[at]++;
        }
        enum sp_status status = bring_input(run, at_event);
        if (status != SP_OK)
            return status;
        for (uint32_t at = 0; at < devices; at++)
            at_event[at]++;
    }
    return SP_OK;
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

static const struct sp_piece **resolve_all(struct sp_part_run *run, uint32_t at, struct sp_piece *const *pieces,
                                           uint32_t count)
{
    const struct sp_piece **resolved = SP_NEW_ARRAY(run->part->scratch, count, const struct sp_piece *);
    for (uint32_t i = 0; resolved != NULL && i < count; i++)
        resolved[i] = pieces[i] != NULL ? sp_part_resolved(run, at, pieces[i]) : NULL;
    return resolved;
}

static enum sp_status tell_op(struct sp_part_run *run, uint32_t at, const struct sp_lower_event *event)
{
    struct sp_partitioner *part = run->part;
    struct sp_part_op op = {.device = run->placement.devices[at],
                            .node = run->node,
                            .is_same = event->op.is_same,
                            .domain = event->op.domain,
                            .op_type = event->op.op_type,
                            .name = run->node->name[0] != '\0' ? run->node->name : event->op.op_type,
                            .input_count = event->op.input_count,
                            .output_count = event->op.output_count,
                            .attribute_count = event->op.attribute_count,
                            .inputs = resolve_all(run, at, event->op.inputs, event->op.input_count),
                            .outputs = (const struct sp_piece *const *)event->op.outputs,
                            .attributes = event->op.attributes,
                            .capture_count = event->op.is_same ? run->capture_count : 0,
                            .captures = run->captures != NULL ? run->captures[at] : NULL};
    if (op.inputs == NULL)
        return sp_fail_memory(part->err);
    return part->sink->op != NULL ? part->sink->op(part->sink->context, &op, part->err) : SP_OK;
}

static enum sp_status tell_local_constant(struct sp_part_run *run, uint32_t at, const struct sp_lower_event *event)
{
    struct sp_partitioner *part = run->part;
    struct sp_part_constant constant = {.device = run->placement.devices[at],
                                        .piece = event->piece,
                                        .dtype = event->constant.dtype,
                                        .rank = event->constant.rank,
                                        .dims = event->constant.dims,
                                        .is_filled = event->constant.is_filled,
                                        .bytes = event->constant.bytes,
                                        .size = event->constant.size};
    return part->sink->constant != NULL ? part->sink->constant(part->sink->context, &constant, part->err) : SP_OK;
}

/* A device's events up to the next joint one, whose index comes back. */
static enum sp_status tell_until_joint(struct sp_part_run *run, uint32_t at, uint32_t *event)
{
    const struct sp_lower_recorder *record = run->records[at];
    enum sp_status status = SP_OK;
    for (; *event < record->count && status == SP_OK && !sp_part_is_joint(&record->events[*event]); ++*event) {
        if (record->events[*event].kind == SP_LOWER_CONSTANT)
            status = tell_local_constant(run, at, &record->events[*event]);
        else if (record->events[*event].kind == SP_LOWER_OP)
            status = tell_op(run, at, &record->events[*event]);
    }
    return status;
}

enum sp_status sp_part_tell_all(struct sp_part_run *run)
{
    uint32_t devices = run->placement.device_count;
    uint32_t *events = SP_NEW_ARRAY(run->part->scratch, devices, uint32_t);
    enum sp_status status = SP_OK;
    if (events == NULL)
        return sp_fail_memory(run->part->err);
    for (;;) {
        for (uint32_t at = 0; at < devices && status == SP_OK; at++)
            status = tell_until_joint(run, at, &events[at]);
        if (status != SP_OK || events[0] >= run->records[0]->count)
            return status;
        if (run->records[0]->events[events[0]].kind == SP_LOWER_OUTPUT)
            status = sp_part_output(run, events);
        else if (run->records[0]->events[events[0]].kind != SP_LOWER_INPUT)
            status = sp_part_collective(run, events);
        if (status != SP_OK)
            return status;
        for (uint32_t at = 0; at < devices; at++)
            events[at]++;
    }
}
