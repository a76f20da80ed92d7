/* Shapes that do not fit: where parts cannot be joined, and where one is larger than the whole. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

/* How many collectives of the same name over all ranks read a tensor of the same extents. */
static uint32_t count_alike(const struct sp_verification *all, const struct sp_node *node, const struct sp_numbers *own)
{
    const struct sp_value *value = sp_original_value(all, node->outputs[0]->name);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_verify_run *run = &all->runs[i];
        for (uint32_t n = 0; n < run->model->graph->node_count; n++) {
            const struct sp_node *other = &run->model->graph->nodes[n];
            if (!sp_is_collective(other) || other->output_count == 0 || other->outputs[0] == NULL ||
                sp_original_value(all, other->outputs[0]->name) != value)
                continue;
            const struct sp_outcome *outcome = sp_variable_of(run, other->inputs[0]);
            bool is_alike = outcome != NULL && outcome->numbers->rank == own->rank;
            for (uint32_t axis = 0; is_alike && axis < own->rank; axis++)
                is_alike = outcome->numbers->axes[axis].extent == own->axes[axis].extent;
            count += is_alike;
        }
    }
    return count;
}

/* Where parts cannot be joined, what made the one of a shape that the fewest have. */
static void name_odd_part(struct sp_verification *all, struct sp_verify_failure *failure)
{
    const struct sp_node *node = failure->node;
    uint32_t least = UINT32_MAX, most = 0;
    struct sp_run_place odd = {0};
    if (failure->run == NULL || node == NULL || strcmp(node->op_type, "Concat") != 0)
        return;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_outcome *own = sp_variable_of(failure->run, node->inputs[i]);
        uint32_t alike = 0;
        for (uint32_t k = 0; own != NULL && k < node->input_count; k++) {
            const struct sp_outcome *other = sp_variable_of(failure->run, node->inputs[k]);
            bool is_alike = other != NULL && other->numbers->rank == own->numbers->rank;
            for (uint32_t axis = 0; is_alike && axis < own->numbers->rank; axis++)
                is_alike = axis == (uint32_t)sp_node_int(node, "axis", 0) ||
                           own->numbers->axes[axis].extent == other->numbers->axes[axis].extent;
            alike += is_alike;
        }
        most = own != NULL && alike > most ? alike : most;
        if (own != NULL && alike < least) {
            least = alike;
            odd = (struct sp_run_place){failure->run, node->inputs[i]};
        }
    }
    if (odd.value != NULL && node->output_count > 0 && node->outputs[0] != NULL) {
        const struct sp_outcome *own = sp_variable_of(odd.run, odd.value);
        const struct sp_value *whole = sp_original_value(all, node->outputs[0]->name);
        if (own != NULL && whole != NULL && own->of == whole && !own->is_scattered)
            return; /* it is what it should be: the Concat is not */
    }
    odd = least < most ? sp_blame_behind_moves(all, odd, NULL) : odd;
    if (least < most && odd.value != NULL && odd.value->producer != NULL) {
        failure->run = odd.run;
        failure->node = odd.value->producer;
    }
}

/* Where members do not fit, the one is named whose tensor has a shape that no other collective of that name has. */
static void name_odd_shape(const struct sp_verification *all, struct sp_verify_failure *failure)
{
    const struct sp_node *node = failure->node;
    if (failure->run == NULL || node == NULL || !sp_is_collective(node) || node->output_count == 0 ||
        node->outputs[0] == NULL || sp_original_value(all, node->outputs[0]->name) == NULL)
        return;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_verify_run *run = &all->runs[i];
        for (uint32_t n = 0; n < run->model->graph->node_count; n++) {
            const struct sp_node *other = &run->model->graph->nodes[n];
            const struct sp_outcome *outcome = sp_is_collective(other) && other->output_count > 0 &&
                                                       other->outputs[0] != NULL &&
                                                       sp_original_value(all, other->outputs[0]->name) ==
                                                           sp_original_value(all, node->outputs[0]->name)
                                                   ? sp_variable_of(run, other->inputs[0])
                                                   : NULL;
            const uint32_t alike = outcome != NULL ? count_alike(all, other, outcome->numbers) : UINT32_MAX;
            const bool is_own = other == node;
            if (alike < least || (alike == least && is_own)) {
                least = alike;
                failure->run = run;
                failure->node = other;
            }
        }
    }
}

void sp_blame_name_misfit(struct sp_verification *all, struct sp_verify_failure *failure)
{
    if (failure->output == NULL && failure->verdict == SP_REFUTED) {
        name_odd_shape(all, failure);
        name_odd_part(all, failure);
    }
}

/* The value of the original of which a value has to be a part, where it is larger than that along some axis; or NULL. */
static const struct sp_value *smaller_whole(const struct sp_verification *all, const struct sp_verify_run *run,
                                            const struct sp_value *value)
{
    const struct sp_value *whole = sp_original_value(all, value->name);
    const struct sp_outcome *own = sp_run_outcome(run, value),
                            *outcome = whole != NULL ? sp_run_outcome(&all->original, whole) : NULL;
    if (own == NULL || own->numbers == NULL || outcome == NULL || outcome->numbers == NULL ||
        own->numbers->rank != outcome->numbers->rank || strrchr(value->name, '@') == NULL ||
        strchr(strrchr(value->name, '@'), '/') != NULL)
        return NULL;
    for (uint32_t i = 0; i < own->numbers->rank; i++) {
        if (own->numbers->axes[i].extent > outcome->numbers->axes[i].extent)
            return whole;
    }
    return NULL;
}

/* Whether a node reads something that is larger than its whole already. */
static bool reads_oversized(const struct sp_verification *all, const struct sp_verify_run *run,
                            const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != NULL && smaller_whole(all, run, node->inputs[i]) != NULL)
            return true;
    }
    return false;
}

enum sp_status sp_blame_name_oversized(struct sp_verification *all, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        const struct sp_verify_run *run = &all->runs[i];
        for (uint32_t n = 0; status == SP_OK && n < run->order_count; n++) {
            const struct sp_node *node = run->order[n];
            const struct sp_value *value = node->output_count > 0 ? node->outputs[0] : NULL;
            const struct sp_value *whole = value != NULL ? smaller_whole(all, run, value) : NULL;
            if (whole == NULL || reads_oversized(all, run, node))
                continue;
            struct sp_verify_failure failure = {.verdict = SP_REFUTED, .run = run, .node = node, .certainty = 1};
            failure.message = sp_arena_printf(
                all->arena, "Its result is larger than '%.200s', of which it has to be a part.", whole->name);
            status = failure.message != NULL ? sp_verify_fail(all, failure, err) : sp_fail_memory(err);
            break;
        }
    }
    return status;
}
