/*
 * Control flow of which something inside is cut: every device runs the node with its part of each graph.
 *
 * Conditions, numbers of turns and what else is a scalar are everywhere; how the rest is cut says control_carried.c.
 */
#include "partition/control_internal.h"

/* ---- targets ---------------------------------------------------------------------------------------------------- */

static enum sp_status target_of(struct sp_partitioner *part, const struct sp_node *node, const struct sp_value *value,
                                const struct sp_sharding *sharding, struct sp_part_target *ret_target)
{
    int64_t count = 0;
    *ret_target = (struct sp_part_target){.sharding = sharding, .node = node};
    enum sp_status status = sp_sharding_devices(part->arena, sharding, part->assignment.device_count, &count,
                                                &ret_target->devices, part->err);
    if (status != SP_OK)
        return status;
    struct sp_box *boxes = SP_NEW_ARRAY(part->arena, (size_t)count, struct sp_box);
    if (boxes == NULL)
        return sp_fail_memory(part->err);
    ret_target->count = (uint32_t)count;
    ret_target->boxes = boxes;
    return sp_part_boxes(part, value, sharding, ret_target->count, ret_target->devices, boxes);
}

/* Pieces of a target's devices, laid out over the devices of the node. */
static enum sp_status lay_out(struct sp_partitioner *part, const struct sp_part_control_run *run,
                              const struct sp_part_target *target, const struct sp_piece *const *pieces,
                              const struct sp_value *value, struct sp_part_port *ret_port)
{
    const struct sp_piece **all = SP_NEW_ARRAY(part->arena, run->told.device_count, const struct sp_piece *);
    if (all == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t at = 0; at < run->told.device_count; at++)
        for (uint32_t i = 0; i < target->count; i++)
            if (target->devices[i] == run->told.devices[at])
                all[at] = pieces[i];
    *ret_port = (struct sp_part_port){value, all};
    return SP_OK;
}

/* Brings a value to a sharding; its pieces as a port. */
static enum sp_status bring_port(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                 const struct sp_value *value, const struct sp_sharding *sharding,
                                 struct sp_part_port *ret_port)
{
    struct sp_part_target target;
    enum sp_status status = target_of(part, run->node, value, sharding, &target);
    if (status != SP_OK)
        return status;
    const struct sp_piece **pieces = SP_NEW_ARRAY(part->arena, target.count, const struct sp_piece *);
    if (pieces == NULL)
        return sp_fail_memory(part->err);
    status = sp_part_bring(part, value, &target, pieces);
    return status == SP_OK ? lay_out(part, run, &target, pieces, value, ret_port) : status;
}

/* New pieces that a value is there as: what a graph takes, or the node gives. */
static enum sp_status make_port(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                const struct sp_value *value, const struct sp_sharding *sharding,
                                struct sp_part_port *ret_port)
{
    struct sp_part_target target;
    enum sp_status status = target_of(part, run->node, value, sharding, &target);
    if (status != SP_OK)
        return status;
    const struct sp_piece **pieces = SP_NEW_ARRAY(part->arena, target.count, const struct sp_piece *);
    if (pieces == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t i = 0; status == SP_OK && i < target.count; i++) {
        pieces[i] = sp_part_piece(part, value->name, target.devices[i], value->type.dtype, &target.boxes[i]);
        if (pieces[i] == NULL)
            status = sp_fail_memory(part->err);
    }
    if (status == SP_OK)
        status = sp_part_hold(part, value, sharding, target.count, target.devices, pieces, target.boxes);
    return status == SP_OK ? lay_out(part, run, &target, pieces, value, ret_port) : status;
}

/* ---- beginning -------------------------------------------------------------------------------------------------- */

static enum sp_status add_devices(struct sp_partitioner *part, const struct sp_node *node, bool *is_used)
{
    const struct sp_spec_entry *specs = part->stated->nodes[sp_dataflow_node(part->dataflow, node)].operands;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; specs != NULL && i < node->input_count + node->output_count && status == SP_OK; i++) {
        int64_t count = 0;
        const int64_t *named = NULL;
        struct sp_arena_mark mark = sp_arena_mark(part->scratch);
        if (specs[i].sharding == NULL)
            continue;
        status = sp_sharding_devices(part->scratch, specs[i].sharding, part->assignment.device_count, &count, &named,
                                     part->err);
        for (int64_t d = 0; d < count && status == SP_OK; d++)
            if (named[d] < part->assignment.device_count)
                is_used[named[d]] = true;
        sp_arena_rewind(part->scratch, mark);
    }
    return status;
}

/* All devices that the node's operands or something inside is on. */
static enum sp_status find_devices(struct sp_partitioner *part, struct sp_part_control_run *run)
{
    bool *is_used = SP_NEW_ARRAY(part->arena, (size_t)part->assignment.device_count, bool);
    int64_t *devices = SP_NEW_ARRAY(part->arena, (size_t)part->assignment.device_count, int64_t);
    if (is_used == NULL || devices == NULL)
        return sp_fail_memory(part->err);
    enum sp_status status = add_devices(part, run->node, is_used);
    struct sp_arena_mark mark = sp_arena_mark(part->scratch);
    uint32_t count = 0;
    const struct sp_graph **graphs = NULL;
    if (status == SP_OK)
        status = sp_graphs_inside(part->scratch, run->node, &count, &graphs) ? SP_OK : sp_fail_memory(part->err);
    for (uint32_t g = 0; g < count && status == SP_OK; g++)
        for (uint32_t n = 0; n < graphs[g]->node_count && status == SP_OK; n++)
            status = add_devices(part, &graphs[g]->nodes[n], is_used);
    sp_arena_rewind(part->scratch, mark);
    for (int64_t d = 0; d < part->assignment.device_count; d++)
        if (is_used[d])
            devices[run->told.device_count++] = d;
    run->told.devices = devices;
    return status;
}

/* Conditions and numbers of turns: whole, everywhere. */
static enum sp_status bring_scalars(struct sp_partitioner *part, struct sp_part_control_run *run,
                                    struct sp_part_port *inputs)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < run->first_in && i < run->node->input_count && status == SP_OK; i++) {
        const struct sp_sharding *whole = NULL;
        if (run->node->inputs[i] == NULL)
            continue;
        status = sp_control_whole(part, run, run->node->inputs[i], &whole);
        if (status == SP_OK)
            status = bring_port(part, run, run->node->inputs[i], whole, &inputs[i]);
    }
    return status;
}

static enum sp_status begin_graph(struct sp_partitioner *part, struct sp_part_control_run *run,
                                  const struct sp_graph **ret_graph)
{
    const struct sp_graph *graph = run->graphs[run->next];
    struct sp_part_port *inputs = SP_NEW_ARRAY(part->arena, graph->input_count, struct sp_part_port);
    struct sp_part_port *outputs = SP_NEW_ARRAY(part->arena, graph->output_count, struct sp_part_port);
    uint32_t scalars = graph->input_count - run->in_count;
    enum sp_status status = SP_OK;
    if (inputs == NULL || outputs == NULL)
        return sp_fail_memory(part->err);
    run->mark = part->undo_count;
    part->body_depth++;
    for (uint32_t i = 0; i < graph->input_count && status == SP_OK; i++) {
        const struct sp_sharding *sharding = i >= scalars ? run->in[i - scalars].sharding : NULL;
        if (i < scalars)
            status = sp_control_whole(part, run, graph->inputs[i], &sharding);
        if (status == SP_OK)
            status = make_port(part, run, graph->inputs[i], sharding, &inputs[i]);
    }
    run->body = (struct sp_part_body){.graph = graph,
                                      .attribute = run->attributes[run->next],
                                      .input_count = graph->input_count,
                                      .output_count = graph->output_count,
                                      .inputs = inputs,
                                      .outputs = outputs};
    *ret_graph = graph;
    return status == SP_OK ? part->sink->body_begin(part->sink->context, &run->body, part->err) : status;
}

enum sp_status sp_control_begin(struct sp_partitioner *part, const struct sp_node *node,
                                struct sp_part_control_run **ret_run, const struct sp_graph **ret_graph)
{
    struct sp_part_control_run *run = SP_NEW(part->arena, struct sp_part_control_run);
    struct sp_part_port *inputs = SP_NEW_ARRAY(part->arena, node->input_count, struct sp_part_port);
    struct sp_part_port *outputs = SP_NEW_ARRAY(part->arena, node->output_count, struct sp_part_port);
    if (run == NULL || inputs == NULL || outputs == NULL)
        return sp_fail_memory(part->err);
    run->node = node;
    run->graph_count = sp_control_graphs(node, run->graphs, run->attributes);
    run->told = (struct sp_part_control){.node = node,
                                         .name = node->name[0] != '\0' ? node->name : node->op_type,
                                         .input_count = node->input_count,
                                         .output_count = node->output_count,
                                         .inputs = inputs,
                                         .outputs = outputs};
    enum sp_status status = find_devices(part, run);
    if (status == SP_OK)
        status = sp_control_pair(part, run);
    if (status == SP_OK)
        status = sp_control_choose(part, run);
    if (status == SP_OK)
        status = bring_scalars(part, run, inputs);
    for (uint32_t i = 0; i < run->in_count && status == SP_OK; i++) {
        const struct sp_sharding *sharding = NULL;
        if (run->in[i].outer == NULL)
            continue;
        status = sp_control_outer_sharding(part, &run->in[i], &sharding);
        if (status == SP_OK)
            status = bring_port(part, run, run->in[i].outer, sharding, &inputs[run->first_in + i]);
    }
    if (status == SP_OK)
        status = part->sink->control_begin(part->sink->context, &run->told, part->err);
    *ret_run = run;
    return status == SP_OK ? begin_graph(part, run, ret_graph) : status;
}

/* ---- ending ----------------------------------------------------------------------------------------------------- */

/* What came to be held inside is not there outside. */
static void forget(struct sp_partitioner *part, uint32_t mark)
{
    while (part->undo_count > mark) {
        struct sp_part_undo undo = part->undo[--part->undo_count];
        undo.tensor->last = undo.last;
        if (undo.last != NULL)
            undo.last->next = NULL;
        else
            undo.tensor->first = NULL;
    }
}

static enum sp_status end_graph(struct sp_partitioner *part, struct sp_part_control_run *run)
{
    const struct sp_graph *graph = run->graphs[run->next];
    struct sp_part_port *outputs = (struct sp_part_port *)(uintptr_t)run->body.outputs;
    uint32_t scalars = graph->output_count - run->out_count;
    enum sp_status status = SP_OK;
    for (uint32_t o = 0; o < graph->output_count && status == SP_OK; o++) {
        const struct sp_sharding *sharding = o >= scalars ? run->out[o - scalars].sharding : NULL;
        if (o < scalars)
            status = sp_control_whole(part, run, graph->outputs[o], &sharding);
        if (status == SP_OK)
            status = bring_port(part, run, graph->outputs[o], sharding, &outputs[o]);
    }
    if (status == SP_OK)
        status = part->sink->body_end(part->sink->context, &run->body, part->err);
    forget(part, run->mark);
    part->body_depth--;
    return status;
}

static enum sp_status end_node(struct sp_partitioner *part, struct sp_part_control_run *run)
{
    struct sp_part_port *outputs = (struct sp_part_port *)(uintptr_t)run->told.outputs;
    enum sp_status status = SP_OK;
    for (uint32_t o = 0; o < run->out_count && status == SP_OK; o++) {
        const struct sp_sharding *sharding = NULL;
        if (run->out[o].outer == NULL)
            continue;
        status = sp_control_outer_sharding(part, &run->out[o], &sharding);
        if (status == SP_OK)
            status = make_port(part, run, run->out[o].outer, sharding, &outputs[o]);
    }
    return status == SP_OK ? part->sink->control_end(part->sink->context, &run->told, part->err) : status;
}

enum sp_status sp_control_next(struct sp_partitioner *part, struct sp_part_control_run *run,
                               const struct sp_graph **ret_graph)
{
    enum sp_status status = end_graph(part, run);
    *ret_graph = NULL;
    if (status != SP_OK)
        return status;
    if (++run->next == run->graph_count)
        return end_node(part, run);
    const struct sp_carried_value *first = run->out;
    uint32_t count = run->out_count;
    status = sp_control_pair(part, run); /* the other branch: its own values, the same shardings */
    for (uint32_t o = 0; o < run->out_count && o < count; o++)
        run->out[o].sharding = first[o].sharding;
    return status == SP_OK ? begin_graph(part, run, ret_graph) : status;
}
