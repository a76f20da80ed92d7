#include "search/states.h"

#include "base/sorted.h"
#include "base/union_find.h"
#include "search/joint/evaluate.h"

static bool takes(const struct sp_workload *workload, uint32_t node)
{
    return workload->nodes[node].node == NULL || sp_work_takes_elements(workload->nodes[node].node);
}

/* The layout of a tensor at a node of a stage whose operators are split. */
static uint32_t layout_at(const struct sp_sharded_stage *stage, uint32_t node, uint32_t tensor)
{
    uint32_t at;
    SP_LOWER_BOUND(at, stage->node_count, stage->nodes[at] < node);
    return at < stage->node_count && stage->nodes[at] == node
               ? sp_joint_layout(stage->table, node, stage->strategy_of[at], tensor)
               : 0;
}

static bool has_same_weights(const struct sp_workload *workload, const struct sp_sharded_stage *stage, uint32_t node)
{
    const uint32_t first = sp_work_first_node(workload, node), count = sp_work_operand_count(workload, node);
    uint32_t i = 0;
    while (i < count && (!sp_work_ties_weight(workload, node, i) ||
                         layout_at(stage, node, workload->nodes[node].node->inputs[i]->id) ==
                             layout_at(stage, first, workload->nodes[first].node->inputs[i]->id)))
        i++;
    return i == count;
}

static bool phases_agree(const struct sp_workload *workload, const struct sp_placement *placement,
                         const struct sp_sharded_stage *sharded)
{
    for (uint32_t n = 0; workload->phase_count > 0 && n < workload->node_count; n++) {
        const uint32_t first = sp_work_first_node(workload, n), stage = placement->stage_of[n];
        if (first == n || workload->nodes[n].folded || workload->nodes[first].folded)
            continue;
        if (stage != placement->stage_of[first] ||
            (sharded != NULL && sharded[stage].table != NULL && !has_same_weights(workload, &sharded[stage], n)))
            return false;
    }
    return true;
}

bool sp_states_are_kept(const struct sp_workload *workload, const struct sp_placement *placement,
                        const struct sp_sharded_stage *sharded)
{
    if (!phases_agree(workload, placement, sharded))
        return false;
    for (uint32_t i = 0; i < workload->state_count; i++) {
        const struct sp_work_state *state = &workload->states[i];
        const struct sp_work_tensor *past = &workload->tensors[state->past];
        const uint32_t producer = workload->tensors[state->present].producer;
        const uint32_t stage = placement->stage_of[producer];
        const struct sp_sharded_stage *split = sharded != NULL && sharded[stage].table != NULL ? &sharded[stage] : NULL;
        const uint32_t made = split != NULL ? layout_at(split, producer, state->present) : 0;
        for (uint32_t c = 0; c < past->consumer_count; c++) {
            if (!takes(workload, past->consumers[c]))
                continue;
            if (placement->stage_of[past->consumers[c]] != stage ||
                (split != NULL && layout_at(split, past->consumers[c], state->past) != made))
                return false;
        }
        if (split != NULL && state->axis != SP_STATE_FIXED && sp_strategy_cuts(split->table, made, state->axis))
            return false;
    }
    return true;
}

void sp_states_join(const struct sp_workload *workload, const uint32_t *set_of, uint32_t *sets)
{
    for (uint32_t i = 0; i < workload->state_count; i++) {
        const struct sp_work_tensor *past = &workload->tensors[workload->states[i].past];
        const uint32_t made = set_of[workload->tensors[workload->states[i].present].producer];
        for (uint32_t c = 0; c < past->consumer_count; c++) {
            const uint32_t taken = set_of[past->consumers[c]];
            if (taken != SP_NO_WORK && made != SP_NO_WORK && takes(workload, past->consumers[c]))
                sp_union_join(sets, made, taken);
        }
    }
    for (uint32_t n = 0; workload->phase_count > 0 && n < workload->node_count; n++) {
        const uint32_t first = set_of[sp_work_first_node(workload, n)];
        if (set_of[n] != SP_NO_WORK && first != SP_NO_WORK)
            sp_union_join(sets, set_of[n], first);
    }
}

/* Whether several nodes make and take a state; with a node, whether it is one of them. */
static bool joins_nodes(const struct sp_workload *workload, const struct sp_work_state *state, uint32_t node)
{
    const struct sp_work_tensor *past = &workload->tensors[state->past];
    const uint32_t producer = workload->tensors[state->present].producer;
    bool has_others = false, is_among = node == SP_NO_WORK || node == producer;
    for (uint32_t c = 0; c < past->consumer_count; c++) {
        if (!takes(workload, past->consumers[c]))
            continue;
        has_others = has_others || past->consumers[c] != producer;
        is_among = is_among || past->consumers[c] == node;
    }
    return has_others && is_among;
}

bool sp_states_hold(const struct sp_workload *workload, uint32_t node)
{
    uint32_t i = 0;
    if (workload->phase_count > 1 && node != SP_NO_WORK)
        return true;
    while (i < workload->state_count && !joins_nodes(workload, &workload->states[i], node))
        i++;
    return i < workload->state_count;
}

bool sp_states_join_nodes(const struct sp_workload *workload)
{
    return sp_states_hold(workload, SP_NO_WORK);
}
