/*
 * reason - the sentences: why an operand is sharded as it is, and what stood against a split.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "infer/propagate/internal.h"

static const struct sp_node *node_of_flow(const struct sp_inference *all, uint32_t flow)
{
    return all->assignment->dataflow->relations[all->flow.relation_of[flow]].node;
}

static bool is_whole(const struct sp_sharding *sharding)
{
    for (uint32_t axis = 0; sharding != NULL && axis < sharding->rank; axis++) {
        if (sharding->dims[axis].axes.count > 0)
            return false;
    }
    return true;
}

/* Where the split of the tensor's first axis that propagation split comes from, or NULL. */
static const struct sp_flow_origin *first_origin(const struct sp_inference *all, uint32_t tensor)
{
    const struct sp_flow_origin *first = all->tensor.origins[tensor];
    for (const struct sp_flow_origin *origin = first; origin != NULL; origin = origin->next) {
        if (origin->axis < first->axis)
            first = origin;
    }
    return first;
}

#define SENTENCE_SIZE 1024

__attribute__((format(printf, 2, 3))) static const char *write(struct sp_arena *arena, const char *format, ...)
{
    char text[SENTENCE_SIZE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return length < 0 ? NULL : sp_arena_string(arena, text, strlen(text));
}

/* Why a split arrived at the tensor. */
static const char *write_origin(const struct sp_inference *all, uint32_t tensor, const struct sp_flow_origin *origin)
{
    char label[264];
    const char *own = all->tensor.values[tensor]->name, *source = all->tensor.values[origin->source_tensor]->name;
    const char *factor = all->flow.items[origin->flow].rule->factors[origin->factor].name;
    sp_node_label(node_of_flow(all, origin->flow), label, sizeof label);
    if (strcmp(own, source) == 0)
        return write(all->arena, "'%.120s' is split over factor %s of %.200s.", own, factor, label);
    return write(all->arena, "'%.120s' is split as '%.120s' is: both have factor %s of %.200s.", own, source, factor,
                 label);
}

static bool is_source(const struct sp_inference *all, const struct sp_value *value)
{
    return value->producer == NULL && value->graph == all->assignment->dataflow->model->graph;
}

static enum sp_infer_reason reason_of(const struct sp_inference *all, uint32_t tensor, bool is_output,
                                      const struct sp_resolve_operand *resolved)
{
    const struct sp_flow_origin *origin = all->tensor.origins[tensor];
    bool is_result_whole = is_whole(resolved->result), is_same = resolved->result == resolved->sharding;
    if (is_output && resolved->is_combined && is_result_whole)
        return SP_REASON_COMBINED;
    if (is_output && resolved->is_combined && origin != NULL && is_same)
        return SP_REASON_SCATTERED;
    if (is_result_whole && is_whole(resolved->sharding))
        return is_same && is_source(all, all->tensor.values[tensor]) ? SP_REASON_ASSUMED : SP_REASON_WHOLE;
    if (is_result_whole)
        return is_output ? SP_REASON_MADE_WHOLE : SP_REASON_NEEDED_WHOLE;
    return is_same && origin != NULL ? SP_REASON_ORIGIN : SP_REASON_CUT;
}

static const char *write_reason(const struct sp_inference *all, const struct sp_infer_told *told, uint32_t tensor,
                                const char *factor)
{
    char label[264];
    const char *name = all->tensor.values[tensor]->name, *origin;
    sp_node_label(node_of_flow(all, told->flow), label, sizeof label);
    switch ((enum sp_infer_reason)told->reason) {
    case SP_REASON_ASSUMED:
        return write(all->arena, "Nothing is said of '%.120s' and no split reaches it, so it is whole.", name);
    case SP_REASON_WHOLE:
        return write(all->arena, "No split reaches '%.120s', so it is whole.", name);
    case SP_REASON_ORIGIN:
        return write_origin(all, tensor, first_origin(all, tensor));
    case SP_REASON_COMBINED:
        return write(all->arena,
                     "%.200s combines its parts along factor %s, which is split, so that '%.120s' is whole after it.",
                     label, factor, name);
    case SP_REASON_SCATTERED:
        origin = write_origin(all, tensor, first_origin(all, tensor));
        return origin == NULL
                   ? NULL
                   : write(all->arena, "%.200s combines its parts along factor %s; %s", label, factor, origin);
    case SP_REASON_MADE_WHOLE:
        return write(all->arena, "'%.120s' is split elsewhere, but %.200s can only make it whole.", name, label);
    case SP_REASON_NEEDED_WHOLE:
        return write(all->arena, "'%.120s' is split elsewhere, but %.200s needs it whole.", name, label);
    case SP_REASON_NONE:
    case SP_REASON_CUT:
        break;
    }
    return write(all->arena, "%.200s cuts factor %s in all its operands, so in '%.120s'.", label, factor, name);
}

/* Whether what was told last is what is to be told: some sentences are the same for all uses of a value, or at all
   nodes that have a tensor. */
static bool is_told(const struct sp_infer_told *told, const struct sp_infer_told *wanted)
{
    if (told->reason != wanted->reason)
        return false;
    if (told->reason == SP_REASON_ASSUMED || told->reason == SP_REASON_WHOLE)
        return true;
    if (told->reason == SP_REASON_ORIGIN)
        return told->tensor == wanted->tensor;
    return told->tensor == wanted->tensor && told->flow == wanted->flow && told->factor == wanted->factor;
}

enum sp_status sp_infer_reason(struct sp_inference *all, uint32_t flow_id, uint32_t operand,
                               const struct sp_resolve_operand *resolved, struct sp_spec_entry *entry)
{
    const struct sp_flow *flow = &all->flow.items[flow_id];
    uint32_t tensor = flow->tensors[operand];
    const char *factor = resolved->factor < flow->rule->factor_count ? flow->rule->factors[resolved->factor].name : "";
    struct sp_infer_told *told =
        &all->tensor.told[sp_dataflow_tensor(all->assignment->dataflow, all->tensor.values[tensor])];
    struct sp_infer_told wanted = {.tensor = tensor, .flow = flow_id, .factor = resolved->factor};
    wanted.reason = (uint8_t)reason_of(all, tensor, operand >= flow->input_count, resolved);
    entry->origin = wanted.reason == SP_REASON_ASSUMED ? SP_SPEC_ASSUMED : SP_SPEC_INFERRED;
    if (!is_told(told, &wanted)) {
        *told = wanted;
        told->text = write_reason(all, told, tensor, factor);
    }
    entry->because = told->text;
    return told->text == NULL ? sp_fail_memory(all->err) : SP_OK;
}

/* ---- stops ------------------------------------------------------------------------------------------------------ */

enum sp_status sp_infer_leave_out(struct sp_inference *all, const struct sp_node *node)
{
    return sp_assignment_stop(all->assignment, "TOO_LARGE", node, NULL, all->err,
                              "The rules of the model's operators have too many axes and factors for its size: splits "
                              "are not carried through this node.");
}

static const char *stop_text(const char *code)
{
    static const struct {
        const char *code, *text;
    } texts[] = {
        {"SPLIT_CONFLICT", "another split stands against it"},
        {"CLOSED", "its spec is stated otherwise"},
        {"NEEDS_WHOLE_AXIS", "the operator needs this axis whole on every device"},
        {"NOT_CARRIED", "a part of this axis on one side is another part on the other side"},
        {"NOT_DIVISIBLE", "its extent is not divisible by the shards"},
        {"BLOCK", "its blocks must not be cut"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i].code, code) == 0)
            return texts[i].text;
    }
    return code;
}

void sp_infer_stop(void *context, uint32_t flow, uint8_t factor, uint32_t tensor, uint32_t opponent, const char *code)
{
    char label[264];
    struct sp_inference *all = context;
    const struct sp_node *node = node_of_flow(all, flow);
    const char *name = all->tensor.values[tensor]->name, *other = all->tensor.values[opponent]->name;
    const char *of = all->flow.items[flow].rule->factors[factor].name;
    if (all->stop_status != SP_OK)
        return;
    sp_node_label(node, label, sizeof label);
    if (tensor == opponent)
        all->stop_status = sp_assignment_stop(all->assignment, code, node, name, all->err,
                                              "The split of '%.120s' is not carried through factor %s of %.200s: %s.",
                                              name, of, label, stop_text(code));
    else
        all->stop_status =
            sp_assignment_stop(all->assignment, code, node, name, all->err,
                               "'%.120s' does not take the split that '%.120s' has along factor %s of %.200s: %s.",
                               name, other, of, label, stop_text(code));
}
