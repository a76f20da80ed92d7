/*
 * One node on the shards that a placement gives its devices.
 *
 * The operator's function is called for each device and records what it wants (ops/lowering/recorder.h). The records
 * are the same but for numbers, so they are gone through together: inputs are brought first; then every device's
 * operators up to the next collective, the collective, and so on; then the outputs.
 */
#include <string.h>

#include "partition/node_internal.h"

/* ---- one device's call ------------------------------------------------------------------------------------------ */

static enum sp_status fill_operands(struct sp_part_run *run, uint32_t at, uint32_t first, uint32_t count,
                                    bool is_output, struct sp_lower_operand *operands)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_value *value = is_output ? run->node->outputs[i] : run->node->inputs[i];
        const struct sp_operand_rule *rule = sp_rule_operand(run->rule, first + i);
        if (value == NULL)
            continue;
        uint32_t rank = sp_part_rank(value);
        struct sp_lower_axis *axes = SP_NEW_ARRAY(run->part->scratch, rank, struct sp_lower_axis);
        if (axes == NULL)
            return sp_fail_memory(run->part->err);
        enum sp_status status = sp_placement_part(run->part, &run->placement, run->rule, rule, value, at, axes);
        if (status != SP_OK)
            return status;
        operands[i] = (struct sp_lower_operand){value, rank, axes};
    }
    return SP_OK;
}

static enum sp_status make_local(struct sp_part_run *run, uint32_t at, struct sp_lowering *local)
{
    struct sp_partitioner *part = run->part;
    struct sp_lower_factor *factors = SP_NEW_ARRAY(part->scratch, run->rule->factor_count, struct sp_lower_factor);
    struct sp_lower_operand *inputs = SP_NEW_ARRAY(part->scratch, run->node->input_count, struct sp_lower_operand);
    struct sp_lower_operand *outputs = SP_NEW_ARRAY(part->scratch, run->node->output_count, struct sp_lower_operand);
    struct sp_lower_recorder *recorder = SP_NEW(part->scratch, struct sp_lower_recorder);
    enum sp_status status = SP_OK;
    if (factors == NULL || inputs == NULL || outputs == NULL || recorder == NULL) {
        (void)sp_fail_memory(part->err);
        return SP_ERR_MEMORY;
    }
    *recorder = (struct sp_lower_recorder){.kept = part->arena, .marker = part->marker, .next = &part->next};
    for (uint32_t f = 0; f < run->rule->factor_count && status == SP_OK; f++)
        status = sp_placement_factor(part, &run->placement, run->rule, (uint8_t)f, at, &factors[f]);
    if (status == SP_OK)
        status = fill_operands(run, at, 0, run->node->input_count, false, inputs);
    if (status == SP_OK)
        status = fill_operands(run, at, run->rule->input_count, run->node->output_count, true, outputs);
    *local = (struct sp_lowering){.model = part->model,
                                  .node = run->node,
                                  .rule = run->rule,
                                  .version = run->node->version,
                                  .opset = sp_graph_opset(run->node->graph, ""),
                                  .arena = part->scratch,
                                  .device = run->placement.devices[at],
                                  .factor_count = run->rule->factor_count,
                                  .input_count = run->node->input_count,
                                  .output_count = run->node->output_count,
                                  .factors = factors,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .recorder = recorder,
                                  .err = part->err};
    return status;
}

/* The node as it is on whole operands. */
static enum sp_status run_whole(struct sp_lowering *local)
{
    struct sp_piece **inputs = SP_NEW_ARRAY(local->arena, local->input_count, struct sp_piece *);
    struct sp_piece **outputs = SP_NEW_ARRAY(local->arena, local->output_count, struct sp_piece *);
    if (inputs == NULL || outputs == NULL)
        return sp_fail_memory(local->err);
    for (uint32_t i = 0; i < local->input_count; i++)
        inputs[i] = sp_lower_input_whole(local, i);
    sp_lower_same_many(local, local->input_count, inputs, 0, NULL, outputs);
    for (uint32_t o = 0; o < local->output_count; o++)
        if (local->node->outputs[o] != NULL)
            sp_lower_output(local, o, outputs[o]);
    return sp_lower_status(local);
}

/* Devices that draw the same numbers need the same seed, which the operator's function gives them. */
static bool draws_together(const struct sp_part_run *run)
{
    return run->node->op != NULL && (run->node->op->flags & SP_OP_RANDOM) && run->placement.device_count > 1;
}

/* What is not read need not be brought, which the operator's function knows. */
static bool has_unread(const struct sp_part_run *run)
{
    bool is_any = false;
    for (uint32_t i = 0; i < run->rule->input_count; i++)
        is_any = is_any || run->rule->inputs[i].is_unread;
    return is_any && run->node->op != NULL && run->node->op->lower != NULL;
}

static enum sp_status call(struct sp_part_run *run, struct sp_lowering *local)
{
    if (sp_placement_is_whole(&run->placement) && !draws_together(run) && !has_unread(run))
        return run_whole(local);
    if (run->node->op != NULL && run->node->op->lower != NULL)
        return run->node->op->lower(local);
    return sp_lower_default(local);
}

/* Records every device's part; *ret_factor is a factor that was made whole on the way, or SP_NO_FACTOR. */
static enum sp_status record(struct sp_part_run *run, uint8_t *ret_factor, const char **ret_message)
{
    *ret_factor = SP_NO_FACTOR;
    for (uint32_t at = 0; at < run->placement.device_count; at++) {
        struct sp_lowering local = {0};
        enum sp_status status = make_local(run, at, &local);
        if (status != SP_OK)
            return status;
        status = call(run, &local);
        run->records[at] = local.recorder;
        if (local.recorder->is_again) {
            *ret_factor = local.recorder->again_factor;
            *ret_message = local.recorder->again_message;
            if (run->part->err != NULL)
                sp_error_clear(run->part->err);
            return SP_OK;
        }
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* One program on many data: the same kinds of events, about the same operands. */
static enum sp_status compare_records(const struct sp_part_run *run)
{
    const struct sp_lower_recorder *first = run->records[0];
    char label[256];
    for (uint32_t at = 1; at < run->placement.device_count; at++) {
        const struct sp_lower_recorder *other = run->records[at];
        uint32_t own = 0, theirs = 0;
        for (;;) {
            while (own < first->count && !sp_part_is_joint(&first->events[own]))
                own++;
            while (theirs < other->count && !sp_part_is_joint(&other->events[theirs]))
                theirs++;
            if (own == first->count && theirs == other->count)
                break;
            if (own == first->count || theirs == other->count || first->events[own].kind != other->events[theirs].kind)
                return sp_fail(run->part->err, SP_ERR_INTERNAL, "PROGRAMS_DIFFER",
                               "The devices of node %s would not take part in the same collectives.",
                               sp_node_label(run->node, label, sizeof label));
            own++;
            theirs++;
        }
    }
    return SP_OK;
}

/* ---- captured values -------------------------------------------------------------------------------------------- */

static enum sp_status bring_captures(struct sp_part_run *run)
{
    struct sp_partitioner *part = run->part;
    uint32_t count = run->placement.device_count;
    const struct sp_value **values = NULL;
    enum sp_status status = SP_OK;
    if (!sp_captured(part->scratch, run->node, &run->capture_count, &values))
        return sp_fail_memory(part->err);
    if (run->capture_count == 0)
        return SP_OK;
    run->captures = SP_NEW_ARRAY(part->scratch, count, struct sp_part_capture *);
    if (run->captures == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t at = 0; at < count; at++) {
        run->captures[at] = SP_NEW_ARRAY(part->scratch, run->capture_count, struct sp_part_capture);
        if (run->captures[at] == NULL)
            return sp_fail_memory(part->err);
    }
    for (uint32_t i = 0; i < run->capture_count && status == SP_OK; i++) {
        struct sp_node_cut whole;
        struct sp_box *boxes = SP_NEW_ARRAY(part->arena, count, struct sp_box);
        const struct sp_piece **pieces = SP_NEW_ARRAY(part->arena, count, const struct sp_piece *);
        struct sp_part_target target = {
            .count = count, .devices = run->placement.devices, .boxes = boxes, .node = run->node};
        if (boxes == NULL || pieces == NULL)
            return sp_fail_memory(part->err);
        status = sp_placement_whole(part, 0, count, run->placement.devices, &whole);
        if (status == SP_OK)
            status = sp_placement_sharding(part, &whole, run->rule, NULL, values[i], &target.sharding);
        for (uint32_t at = 0; at < count && status == SP_OK; at++)
            status = sp_part_whole_box(part, values[i], &boxes[at]);
        if (status == SP_OK)
            status = sp_part_bring(part, values[i], &target, pieces);
        for (uint32_t at = 0; at < count && status == SP_OK; at++)
            run->captures[at][i] = (struct sp_part_capture){values[i], pieces[at]};
    }
    return status;
}

/* ---- the node --------------------------------------------------------------------------------------------------- */

/* A node with subgraphs runs whole: what is inside is not looked at. */
static enum sp_status keep_control_whole(struct sp_part_run *run)
{
    char label[256];
    if (!sp_has_graphs(run->node) || sp_placement_is_whole(&run->placement))
        return SP_OK;
    for (uint32_t f = 0; f < run->placement.factor_count; f++)
        sp_placement_make_whole(&run->placement, (uint8_t)f);
    return sp_part_tell(run->part, "NODE_WHOLE", run->node, NULL,
                        "Node %s is computed whole on each of its devices, with what is in its subgraphs.",
                        sp_node_label(run->node, label, sizeof label));
}

/* The operator's function could not write the shards: shapes contradict each other in a way that inference does not see.
   The operator itself may still take the whole operands. */
static enum sp_status give_up_shards(struct sp_part_run *run)
{
    struct sp_error why = {0};
    char label[256];
    if (run->part->err != NULL)
        why = *run->part->err;
    sp_error_clear(run->part->err);
    for (uint32_t f = 0; f < run->placement.factor_count; f++)
        sp_placement_make_whole(&run->placement, (uint8_t)f);
    return sp_part_tell(run->part, "LOCAL_FORM", run->node, NULL,
                        "Node %s is computed whole on each of its devices, because its shards cannot be: %s",
                        sp_node_label(run->node, label, sizeof label), why.message);
}

static enum sp_status run_placed(struct sp_part_run *run)
{
    struct sp_partitioner *part = run->part;
    uint8_t factor = SP_NO_FACTOR;
    const char *message = NULL;
    enum sp_status status = keep_control_whole(run);
    run->records = SP_NEW_ARRAY(part->scratch, run->placement.device_count, struct sp_lower_recorder *);
    if (status == SP_OK && run->records == NULL)
        status = sp_fail_memory(part->err);
    while (status == SP_OK) {
        status = record(run, &factor, &message);
        if (status == SP_ERR_INTERNAL && !sp_placement_is_whole(&run->placement)) {
            status = give_up_shards(run);
            continue;
        }
        if (status != SP_OK || factor == SP_NO_FACTOR)
            break;
        status = sp_part_tell(part, "FACTOR_WHOLE", run->node, NULL, "%s", message != NULL ? message : "");
        sp_placement_make_whole(&run->placement, factor);
    }
    if (status == SP_OK)
        status = compare_records(run);
    if (status == SP_OK)
        status = bring_captures(run);
    if (status == SP_OK)
        status = sp_part_bring_inputs(run);
    if (status == SP_OK)
        status = sp_part_tell_all(run);
    return status;
}

/* The rule of a node that the dataflow has no relation for (control flow), or that has none: nothing is cut. */
static enum sp_status empty_rule(struct sp_part_run *run)
{
    struct sp_rule *rule = SP_NEW(run->part->scratch, struct sp_rule);
    struct sp_operand_rule *operands = SP_NEW_ARRAY(
        run->part->scratch, (size_t)run->node->input_count + run->node->output_count, struct sp_operand_rule);
    if (rule == NULL || operands == NULL)
        return sp_fail_memory(run->part->err);
    rule->input_count = run->node->input_count;
    rule->output_count = run->node->output_count;
    rule->inputs = operands;
    rule->outputs = operands + run->node->input_count;
    run->rule = rule;
    return SP_OK;
}

enum sp_status sp_part_place_apart(struct sp_partitioner *part, const struct sp_node *node,
                                   struct sp_node_cut *ret_placement)
{
    int64_t count = 0;
    const int64_t *devices = NULL;
    const struct sp_node_specs *specs = &part->stated->nodes[sp_dataflow_node(part->dataflow, node)];
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < node->input_count + node->output_count && status == SP_OK && count == 0; i++)
        if (specs->operands != NULL && specs->operands[i].sharding != NULL &&
            specs->operands[i].origin != SP_SPEC_ASSUMED)
            status = sp_sharding_devices(part->arena, specs->operands[i].sharding, part->assignment.device_count,
                                         &count, &devices, part->err);
    for (uint32_t i = 0; i < node->input_count && status == SP_OK && count == 0; i++) {
        const struct sp_part_held *held = node->inputs[i] != NULL ? sp_part_tensor(part, node->inputs[i])->first : NULL;
        if (held != NULL && node->inputs[i]->producer != NULL) {
            count = held->count;
            devices = held->devices;
        }
    }
    if (status == SP_OK && count == 0) {
        struct sp_sharding everywhere = {.kind = SP_SHARDING_REPLICATED};
        status =
            sp_sharding_devices(part->arena, &everywhere, part->assignment.device_count, &count, &devices, part->err);
    }
    if (status == SP_OK)
        status = sp_placement_whole(part, 0, (uint32_t)count, devices, ret_placement);
    return status;
}

enum sp_status sp_part_node(struct sp_partitioner *part, struct sp_node *node)
{
    struct sp_arena_mark mark = sp_arena_mark(part->scratch);
    uint32_t id = sp_dataflow_node(part->dataflow, node), relation = part->relation_of[id];
    struct sp_part_run run = {.part = part, .node = node};
    struct sp_rule *rule = NULL;
    enum sp_status status;
    if (relation == SP_NO_TENSOR) {
        status = empty_rule(&run);
    } else {
        run.relation = &part->dataflow->relations[relation];
        status = sp_dataflow_rule(part->dataflow, run.relation, part->scratch, &rule, part->err);
        run.rule = rule;
    }
    if (status == SP_OK && part->branch != NULL && run.rule != NULL)
        status = sp_placement_whole(part, run.rule->factor_count, part->branch->device_count, part->branch->devices,
                                    &run.placement);
    else if (status == SP_OK)
        status = relation == SP_NO_TENSOR ? sp_part_place_apart(part, node, &run.placement)
                                          : sp_part_place(part, run.relation, run.rule, &run.placement);
    if (status == SP_OK)
        status = run_placed(&run);
    sp_arena_rewind(part->scratch, mark);
    return status;
}
