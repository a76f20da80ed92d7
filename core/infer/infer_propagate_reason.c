/*
 * infer_propagate_reason - the sentences: why an operand is sharded as it is, and what stood against a split.
 */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "infer/infer_propagate.h"

static const struct sp_node *node_of_flow(const struct sp_inference *all, uint32_t flow)
{
    return all->assignment->net->relations[all->relation_of[flow]].node;
}

static bool is_whole(const struct sp_sharding *sharding)
{
    for (uint32_t axis = 0; sharding != NULL && axis < sharding->rank; axis++) {
        if (sharding->dims[axis].axes.count > 0)
            return false;
    }
    return true;
}

/* The first axis of the tensor that propagation split, or NULL. */
static const struct sp_flow_origin *first_origin(const struct sp_inference *all, uint32_t tensor)
{
    for (uint32_t axis = 0; axis < all->ranks[tensor]; axis++) {
        if (all->origins[tensor][axis].flow != UINT32_MAX)
            return &all->origins[tensor][axis];
    }
    return NULL;
}

static const char *write_whole(const struct sp_inference *all, const struct sp_value *value,
                               const struct sp_resolve_operand *resolved, enum sp_spec_origin *ret_origin)
{
    bool is_source = value->producer == NULL && value->graph == all->assignment->net->model->graph;
    *ret_origin = is_source && resolved->result == resolved->sharding ? SP_SPEC_ASSUMED : SP_SPEC_INFERRED;
    if (*ret_origin == SP_SPEC_ASSUMED)
        return sp_arena_printf(all->arena, "Nothing is said of '%.120s' and no split reaches it, so it is whole.",
                               value->name);
    return sp_arena_printf(all->arena, "No split reaches '%.120s', so it is whole.", value->name);
}

/* Why a split arrived at the tensor. */
static const char *write_origin(const struct sp_inference *all, uint32_t tensor, const struct sp_flow_origin *origin)
{
    char label[264];
    const char *own = all->values[tensor]->name, *source = all->values[origin->source_tensor]->name;
    const char *factor = all->flows[origin->flow].rule->factors[origin->factor].name;
    sp_node_label(node_of_flow(all, origin->flow), label, sizeof(label));
    if (strcmp(own, source) == 0)
        return sp_arena_printf(all->arena, "'%.120s' is split over factor %s of %.200s.", own, factor, label);
    return sp_arena_printf(all->arena, "'%.120s' is split as '%.120s' is: both have factor %s of %.200s.", own, source,
                           factor, label);
}

enum sp_status sp_infer_reason(struct sp_inference *all, uint32_t flow_id, uint32_t operand,
                               const struct sp_resolve_operand *resolved, struct sp_spec_entry *entry)
{
    char label[264];
    const struct sp_flow *flow = &all->flows[flow_id];
    uint32_t tensor = flow->tensors[operand];
    const struct sp_value *value = all->values[tensor];
    const struct sp_flow_origin *origin = first_origin(all, tensor);
    const char *factor = resolved->factor < flow->rule->factor_count ? flow->rule->factors[resolved->factor].name : "";
    bool is_output = operand >= flow->input_count;
    sp_node_label(node_of_flow(all, flow_id), label, sizeof(label));
    entry->origin = SP_SPEC_INFERRED;
    if (is_output && resolved->is_combined && is_whole(resolved->result))
        entry->because = sp_arena_printf(all->arena,
                                         "%.200s combines its parts along factor %s, which is split, so that '%.120s' "
                                         "is whole after it.",
                                         label, factor, value->name);
    else if (is_output && resolved->is_combined && origin != NULL && resolved->result == resolved->sharding)
        entry->because = sp_arena_printf(all->arena, "%.200s combines its parts along factor %s; %s", label, factor,
                                         write_origin(all, tensor, origin));
    else if (is_whole(resolved->result) && is_whole(resolved->sharding))
        entry->because = write_whole(all, value, resolved, &entry->origin);
    else if (is_whole(resolved->result))
        entry->because = sp_arena_printf(all->arena, "'%.120s' is split elsewhere, but %.200s %s it whole.",
                                         value->name, label, is_output ? "can only make" : "needs");
    else if (resolved->result != resolved->sharding || origin == NULL)
        entry->because = sp_arena_printf(all->arena, "%.200s cuts factor %s in all its operands, so in '%.120s'.",
                                         label, factor, value->name);
    else
        entry->because = write_origin(all, tensor, origin);
    return entry->because == NULL ? sp_fail_memory(all->err) : SP_OK;
}

/* ---- stops ------------------------------------------------------------------------------------------------------ */

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
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
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
    const char *name = all->values[tensor]->name, *other = all->values[opponent]->name;
    const char *of = all->flows[flow].rule->factors[factor].name;
    if (all->stop_status != SP_OK)
        return;
    sp_node_label(node, label, sizeof(label));
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
