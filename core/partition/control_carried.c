/*
 * What goes in and comes out of the graphs of control flow, and how it is cut.
 *
 * What is carried (a Loop's or Scan's state, what a branch returns) has one sharding outside, going in, and coming out:
 * what the assignment says of the node's operand, else of the graph's nodes that take or make it, where that fits both
 * sides; else it is whole. What a Scan takes apart, and what turns stack, has the axis of turns more outside.
 */
#include <string.h>

#include "partition/control_internal.h"

/* ---- whether ---------------------------------------------------------------------------------------------------- */

static bool splits(const struct sp_sharding *sharding, uint32_t rank)
{
    for (uint32_t a = 0; a < rank; a++)
        if (sp_sharding_shards(sharding, a) > 1)
            return true;
    return false;
}

static bool node_is_cut(const struct sp_partitioner *part, const struct sp_node *node)
{
    const struct sp_node_specs *specs = &part->stated->nodes[sp_dataflow_node(part->dataflow, node)];
    for (uint32_t i = 0; specs->operands != NULL && i < node->input_count + node->output_count; i++) {
        const struct sp_value *value = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        if (value != NULL && specs->operands[i].sharding != NULL &&
            splits(specs->operands[i].sharding, sp_part_rank(value)))
            return true;
    }
    return false;
}

/* The graphs of a node that are run here, 0 where it is none of these operators. */
uint32_t sp_control_graphs(const struct sp_node *node, const struct sp_graph **ret_graphs, const char **ret_names)
{
    static const char *const names[] = {"then_branch", "else_branch", "body"};
    uint32_t count = 0;
    bool is_if = strcmp(node->op_type, "If") == 0;
    if (node->domain[0] != '\0' ||
        (!is_if && strcmp(node->op_type, "Loop") != 0 && (strcmp(node->op_type, "Scan") != 0 || node->version < 9)))
        return 0;
    for (uint32_t i = is_if ? 0 : 2; i < (is_if ? 2U : 3U); i++) {
        const struct sp_attribute *attribute = sp_node_attribute(node, names[i]);
        if (attribute == NULL || attribute->type != SP_ATTR_GRAPH || attribute->count != 1)
            return 0;
        ret_graphs[count] = attribute->graphs[0];
        ret_names[count++] = names[i];
    }
    return count;
}

static bool is_ranked(const struct sp_value *value)
{
    return value == NULL || (value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank);
}

static bool all_ranked(uint32_t count, struct sp_value *const *values)
{
    for (uint32_t i = 0; i < count; i++)
        if (!is_ranked(values[i]))
            return false;
    return true;
}

/* Whether a Scan's axes are those of operands that have one axis more than these. */
static bool has_axes(const struct sp_node *node, const char *name, struct sp_value *const *values, uint32_t count)
{
    uint32_t given = 0;
    const int64_t *axes = sp_node_ints(node, name, &given);
    for (uint32_t i = 0; axes != NULL && i < given && i < count; i++) {
        int64_t rank = (int64_t)sp_part_rank(values[i]) + 1;
        if (axes[i] < -rank || axes[i] >= rank)
            return false;
    }
    return true;
}

/* Whether the node's operands and the graph's are as many as they should be, and none is left out that a graph takes.
 */
static bool is_paired(const struct sp_node *node, const struct sp_graph *graph)
{
    bool is_if = strcmp(node->op_type, "If") == 0, is_loop = strcmp(node->op_type, "Loop") == 0;
    int64_t scanned = is_if || is_loop ? 0 : sp_node_int(node, "num_scan_inputs", 0);
    uint32_t first = is_if ? 1 : is_loop ? 2 : 0, given = is_loop ? 1 : 0;
    uint32_t inputs = is_if ? 0 : node->input_count < first ? first : node->input_count;
    if (graph->input_count != inputs || graph->output_count != node->output_count + given || scanned < 0 ||
        scanned > (int64_t)inputs || (!is_if && graph->output_count - given < inputs - first - (uint32_t)scanned))
        return false;
    for (uint32_t i = first; i < node->input_count; i++)
        if (node->inputs[i] == NULL)
            return false;
    return is_if || is_loop ||
           (has_axes(node, "scan_input_axes", graph->inputs + (inputs - (uint32_t)scanned), (uint32_t)scanned) &&
            has_axes(node, "scan_output_axes", graph->outputs + (inputs - (uint32_t)scanned),
                     graph->output_count - (inputs - (uint32_t)scanned)));
}

/* Marks the control flow around each node that is cut. */
static enum sp_status find_cut_inside(struct sp_partitioner *part)
{
    part->is_cut_inside = SP_NEW_ARRAY(part->arena, part->dataflow->node_count, bool);
    if (part->is_cut_inside == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t n = 0; n < part->dataflow->node_count; n++) {
        const struct sp_node *owner = part->dataflow->nodes[n]->graph->owner;
        if (owner == NULL || !node_is_cut(part, part->dataflow->nodes[n]))
            continue;
        while (owner != NULL && !part->is_cut_inside[sp_dataflow_node(part->dataflow, owner)]) {
            part->is_cut_inside[sp_dataflow_node(part->dataflow, owner)] = true;
            owner = owner->graph->owner;
        }
    }
    return SP_OK;
}

enum sp_status sp_part_is_cut_inside(struct sp_partitioner *part, const struct sp_node *node, bool *ret_is)
{
    if (part->is_cut_inside == NULL && find_cut_inside(part) != SP_OK)
        return part->err->status;
    *ret_is = part->is_cut_inside[sp_dataflow_node(part->dataflow, node)];
    return SP_OK;
}

enum sp_status sp_part_is_split_control(struct sp_partitioner *part, const struct sp_node *node, bool *ret_is)
{
    const struct sp_graph *graphs[2];
    const char *names[2];
    uint32_t count = sp_control_graphs(node, graphs, names);
    *ret_is = false;
    if (part->sink->control_begin == NULL || count == 0)
        return SP_OK;
    bool is_fit = false;
    enum sp_status status = sp_part_is_cut_inside(part, node, &is_fit);
    if (status != SP_OK)
        return status;
    is_fit = is_fit && all_ranked(node->input_count, node->inputs) && all_ranked(node->output_count, node->outputs);
    for (uint32_t g = 0; g < count && is_fit; g++)
        is_fit = is_paired(node, graphs[g]) && all_ranked(graphs[g]->input_count, graphs[g]->inputs) &&
                 all_ranked(graphs[g]->output_count, graphs[g]->outputs);
    *ret_is = is_fit;
    return SP_OK;
}

/* ---- shardings -------------------------------------------------------------------------------------------------- */

/* What the assignment says of a value where it is made or first taken in its own graph. */
static const struct sp_sharding *stated_inside(const struct sp_partitioner *part, const struct sp_value *value)
{
    if (value->producer != NULL) {
        const struct sp_node *node = value->producer;
        const struct sp_spec_entry *specs = part->stated->nodes[sp_dataflow_node(part->dataflow, node)].operands;
        if (specs != NULL && specs[node->input_count + value->producer_output].sharding != NULL)
            return specs[node->input_count + value->producer_output].sharding;
    }
    for (uint32_t u = 0; u < value->use_count; u++) {
        const struct sp_node *node = value->uses[u].node;
        const struct sp_spec_entry *specs = part->stated->nodes[sp_dataflow_node(part->dataflow, node)].operands;
        if (value->uses[u].input != UINT32_MAX && specs != NULL && specs[value->uses[u].input].sharding != NULL)
            return specs[value->uses[u].input].sharding;
    }
    return NULL;
}

enum sp_status sp_control_whole(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                const struct sp_value *value, const struct sp_sharding **ret_sharding)
{
    struct sp_node_cut whole;
    static const struct sp_rule none = {0};
    enum sp_status status = sp_placement_whole(part, 0, run->told.device_count, run->told.devices, &whole);
    return status == SP_OK ? sp_placement_sharding(part, &whole, &none, NULL, value, ret_sharding) : status;
}

/* As BLOCKS with an axis more, or less where `axis` is given as ~axis: that axis is whole. */
static enum sp_status with_axis(struct sp_partitioner *part, const struct sp_sharding *sharding, uint32_t rank,
                                int32_t axis, bool drops, const struct sp_sharding **ret_sharding)
{
    struct sp_sharding *blocks = NULL, *changed = SP_NEW(part->scratch, struct sp_sharding);
    enum sp_status status =
        sp_sharding_to_blocks(part->scratch, sharding, rank, part->assignment.device_count, &blocks, NULL, part->err);
    if (status != SP_OK || changed == NULL)
        return status != SP_OK ? status : sp_fail_memory(part->err);
    struct sp_block_dim *dims = SP_NEW_ARRAY(part->scratch, (size_t)rank + 1, struct sp_block_dim);
    if (dims == NULL)
        return sp_fail_memory(part->err);
    uint32_t count = 0;
    for (uint32_t a = 0; a <= rank; a++) {
        if (!drops && a == (uint32_t)axis)
            dims[count++] = (struct sp_block_dim){0};
        if (a < rank && !(drops && a == (uint32_t)axis))
            dims[count++] = a < blocks->rank ? blocks->blocks[a] : (struct sp_block_dim){0};
    }
    *changed = *blocks;
    changed->rank = count;
    changed->is_rank_open = false;
    changed->blocks = dims;
    return sp_view_cache_sharding(part->assignment.cache, changed, false, ret_sharding, part->err);
}

enum sp_status sp_control_outer_sharding(struct sp_partitioner *part, const struct sp_carried_value *carried,
                                         const struct sp_sharding **ret_sharding)
{
    *ret_sharding = carried->sharding;
    if (carried->extra_axis < 0)
        return SP_OK;
    return with_axis(part, carried->sharding, sp_part_rank(carried->inner), carried->extra_axis, false, ret_sharding);
}

/* Whether each device has one piece of the value that is not empty: a cut needs an extent. */
enum sp_status sp_control_find_fit(struct sp_partitioner *part, const struct sp_value *value,
                                   const struct sp_sharding *sharding, bool *ret_fits)
{
    uint32_t rank = sp_part_rank(value);
    int64_t count = 0, shape[SP_MAX_RANK];
    const int64_t *devices = NULL;
    for (uint32_t a = 0; a < rank; a++)
        shape[a] = sp_dim_is_known(value->type.shape.dims[a]) ? value->type.shape.dims[a].value : -1;
    *ret_fits = sp_sharding_check(sharding, rank, shape, part->assignment.device_count, NULL) == SP_OK;
    for (uint32_t a = 0; a < rank && *ret_fits; a++) {
        *ret_fits = shape[a] >= 0 || sp_sharding_shards(sharding, a) == 1;
        shape[a] = shape[a] < 0 ? 1 : shape[a];
    }
    if (!*ret_fits || !splits(sharding, rank))
        return SP_OK;
    struct sp_arena_mark mark = sp_arena_mark(part->scratch);
    enum sp_status status =
        sp_sharding_devices(part->scratch, sharding, part->assignment.device_count, &count, &devices, part->err);
    for (int64_t d = 0; d < count && status == SP_OK && *ret_fits; d++) {
        struct sp_held held;
        status = sp_sharding_held(part->scratch, sharding, rank, shape, devices[d], &held, part->err);
        *ret_fits = status == SP_OK && held.shard_count == 1;
        for (uint32_t a = 0; a < rank && *ret_fits; a++)
            *ret_fits = held.shards[a].count > 0;
    }
    sp_arena_rewind(part->scratch, mark);
    return status;
}

/* Whether two values have the same extents along the axes that are cut. */
static bool agree(const struct sp_value *a, const struct sp_value *b, const struct sp_sharding *sharding)
{
    if (sp_part_rank(a) != sp_part_rank(b))
        return false;
    for (uint32_t i = 0; i < sp_part_rank(a); i++)
        if (sp_sharding_shards(sharding, i) > 1 && a->type.shape.dims[i].value != b->type.shape.dims[i].value)
            return false;
    return true;
}

/* Whether the node is on all devices of a sharding: that of an outer value that a graph gives may have others. */
static enum sp_status find_on_node(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                   const struct sp_sharding *sharding, bool *ret_is)
{
    struct sp_arena_mark mark = sp_arena_mark(part->scratch);
    int64_t count = 0;
    uint32_t at = 0;
    const int64_t *devices = NULL;
    enum sp_status status =
        sp_sharding_devices(part->scratch, sharding, part->assignment.device_count, &count, &devices, part->err);
    *ret_is = status == SP_OK;
    for (int64_t i = 0; i < count && *ret_is; i++) {
        while (at < run->told.device_count && run->told.devices[at] < devices[i])
            at++;
        *ret_is = at < run->told.device_count && run->told.devices[at] == devices[i];
    }
    sp_arena_rewind(part->scratch, mark);
    return status;
}

/* Makes whole what does not fit both sides. */
static enum sp_status fit_carried(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                  struct sp_carried_value *carried)
{
    const struct sp_sharding *outer = NULL;
    bool fits = false;
    enum sp_status status = find_on_node(part, run, carried->sharding, &fits);
    if (status == SP_OK && fits)
        status = sp_control_find_fit(part, carried->inner, carried->sharding, &fits);
    if (status == SP_OK && fits && carried->outer != NULL) {
        status = sp_control_outer_sharding(part, carried, &outer);
        if (status == SP_OK)
            status = sp_control_find_fit(part, carried->outer, outer, &fits);
    }
    return status == SP_OK && !fits ? sp_control_whole(part, run, carried->inner, &carried->sharding) : status;
}

/* The sharding of what is carried, of its inner side. */
static enum sp_status choose_sharding(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                      const struct sp_spec_entry *entry, struct sp_carried_value *carried)
{
    const struct sp_sharding *stated = entry != NULL ? entry->sharding : NULL;
    enum sp_status status = SP_OK;
    carried->sharding = NULL;
    if (stated != NULL && carried->extra_axis >= 0) {
        uint32_t rank = sp_part_rank(carried->inner) + 1;
        if (carried->outer == NULL || sp_sharding_shards(stated, (uint32_t)carried->extra_axis) > 1)
            stated = NULL;
        else
            status = with_axis(part, stated, rank, carried->extra_axis, true, &stated);
    }
    if (status == SP_OK && stated == NULL)
        stated = stated_inside(part, carried->inner);
    if (status != SP_OK || stated == NULL)
        return status != SP_OK ? status : sp_control_whole(part, run, carried->inner, &carried->sharding);
    carried->sharding = stated;
    return fit_carried(part, run, carried);
}

/* A state has one sharding before, in and after the graph. */
static enum sp_status fit_state(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                struct sp_carried_value *in, struct sp_carried_value *out)
{
    const struct sp_sharding *chosen = in->sharding;
    out->sharding = chosen;
    enum sp_status status = fit_carried(part, run, out);
    if (status == SP_OK && (out->sharding != chosen || !agree(in->inner, out->inner, chosen)))
        status = sp_control_whole(part, run, in->inner, &in->sharding);
    if (status == SP_OK && in->sharding != chosen)
        status = sp_control_whole(part, run, out->inner, &out->sharding);
    return status;
}

/* ---- operands -------------------------------------------------------------------------------------------- */

static int32_t axis_of(const struct sp_node *node, const char *attribute, uint32_t index, const struct sp_value *inner)
{
    uint32_t count = 0;
    const int64_t *axes = sp_node_ints(node, attribute, &count);
    int64_t axis = axes != NULL && index < count ? axes[index] : 0;
    return (int32_t)(axis < 0 ? axis + sp_part_rank(inner) + 1 : axis);
}

/* Pairs the node's operands with the graph's. */
enum sp_status sp_control_pair(struct sp_partitioner *part, struct sp_part_control_run *run)
{
    const struct sp_node *node = run->node;
    const struct sp_graph *graph = run->graphs[run->next];
    bool is_if = run->graph_count == 2, is_loop = strcmp(node->op_type, "Loop") == 0;
    uint32_t scanned = is_if || is_loop ? 0 : (uint32_t)sp_node_int(node, "num_scan_inputs", 0);
    run->first_in = is_if ? 1 : is_loop ? 2 : 0;
    run->in_count = is_if ? 0 : graph->input_count - (is_loop ? 2 : 0);
    run->state_count = run->in_count - (scanned < run->in_count ? scanned : run->in_count);
    run->out_count = graph->output_count - (is_loop ? 1 : 0);
    run->in = SP_NEW_ARRAY(part->arena, run->in_count, struct sp_carried_value);
    run->out = SP_NEW_ARRAY(part->arena, run->out_count, struct sp_carried_value);
    if (run->in == NULL || run->out == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t i = 0; i < run->in_count; i++) {
        uint32_t outer = run->first_in + i;
        run->in[i] = (struct sp_carried_value){.outer = outer < node->input_count ? node->inputs[outer] : NULL,
                                               .inner = graph->inputs[i + (is_loop ? 2 : 0)],
                                               .extra_axis = -1};
        if (i >= run->state_count)
            run->in[i].extra_axis = axis_of(node, "scan_input_axes", i - run->state_count, run->in[i].inner);
    }
    for (uint32_t o = 0; o < run->out_count; o++) {
        run->out[o] = (struct sp_carried_value){.outer = o < node->output_count ? node->outputs[o] : NULL,
                                                .inner = graph->outputs[o + (is_loop ? 1 : 0)],
                                                .extra_axis = -1};
        if (!is_if && o >= run->state_count)
            run->out[o].extra_axis =
                is_loop ? 0 : axis_of(node, "scan_output_axes", o - run->state_count, run->out[o].inner);
    }
    return SP_OK;
}

enum sp_status sp_control_choose(struct sp_partitioner *part, struct sp_part_control_run *run)
{
    const struct sp_node *node = run->node;
    const struct sp_spec_entry *specs = part->stated->nodes[sp_dataflow_node(part->dataflow, node)].operands;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < run->in_count && status == SP_OK; i++)
        status = choose_sharding(part, run, specs != NULL ? &specs[run->first_in + i] : NULL, &run->in[i]);
    for (uint32_t o = 0; o < run->out_count && status == SP_OK; o++) {
        bool is_state = run->graph_count == 1 && o < run->state_count;
        bool is_there = specs != NULL && o < node->output_count;
        if (is_state)
            status = fit_state(part, run, &run->in[o], &run->out[o]);
        else
            status = choose_sharding(part, run, is_there ? &specs[node->input_count + o] : NULL, &run->out[o]);
    }
    return status;
}
