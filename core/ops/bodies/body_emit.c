#include <stdio.h>
#include <string.h>

#include "ops/bodies/body_rule.h"

/* Beyond this a number of turns says nothing: exporters write "until the condition fails" as a number near 2^63. */
#define MAX_BELIEVED_TRIPS 1000000

/* The operands of the whole, as axes of the unifier. */
struct emission {
    struct sp_op_context *context;
    struct sp_body_frame *frame;
    struct sp_rule *rule;
    struct sp_value *const *input_values, *const *output_values;
    struct sp_unified_axes *inputs, *outputs;
    uint32_t turns;    /* the factor of the turns, or UINT32_MAX */
    uint32_t *numbers; /* factor of the unifier -> factor of the rule, or UINT32_MAX */
};

/* ---- the boundary -------------------------------------------------------------------------------------------- */

/* The axes of a value inside; not set when it is none of the graph's, or constant. */
static struct sp_unified_axes inner(struct emission *emission, uint32_t graph, const struct sp_value *value)
{
    struct sp_body_frame *frame = emission->frame;
    struct sp_unified_axes none = {0};
    if (value->graph != frame->graphs[graph] || value->is_constant || value->tensor != NULL || value->sparse != NULL)
        return none;
    struct sp_unified_axes *axes = &frame->values[graph][value->id];
    sp_unifier_complete(&frame->unifier, axes, &value->type.shape);
    return *axes;
}

/* One thing outside and inside; what comes from elsewhere cannot be split. */
static void tie(struct emission *emission, struct sp_unified_axes *outer, const struct sp_unified_axes *axes,
                const struct sp_shape *shape)
{
    struct sp_unifier *unifier = &emission->frame->unifier;
    if (axes->is_set)
        sp_unifier_join(unifier, outer, axes, shape);
    else if (outer->is_set)
        sp_unifier_replicate_axes(unifier, outer);
}

/* The axes with one more; `factor` UINT32_MAX: one that nothing splits. */
static struct sp_unified_axes with_axis(struct emission *emission, struct sp_unified_axes axes, uint32_t at,
                                        uint32_t factor)
{
    struct sp_unifier *unifier = &emission->frame->unifier;
    struct sp_unified_axes result = {true, axes.rank + 1,
                                     SP_NEW_ARRAY(unifier->arena, axes.rank + 1, struct sp_unified_axis)};
    uint32_t *list = SP_NEW(unifier->arena, uint32_t);
    if (!axes.is_set || at > axes.rank || result.axes == NULL || list == NULL) {
        unifier->is_out_of_memory = unifier->is_out_of_memory || result.axes == NULL || list == NULL;
        sp_unifier_replicate_axes(unifier, &axes);
        return (struct sp_unified_axes){0};
    }
    for (uint32_t i = 0, from = 0; i < result.rank; i++) {
        if (i != at)
            result.axes[i] = axes.axes[from++];
    }
    list[0] = factor;
    result.axes[at] = (struct sp_unified_axis){factor != UINT32_MAX, list};
    return result;
}

static uint32_t add_factor(struct emission *emission, enum sp_factor_kind kind, struct sp_dim extent)
{
    struct sp_factor factor = {.kind = kind, .extent = extent, .block = 1};
    return sp_unifier_add(&emission->frame->unifier, &factor);
}

static void link_call(struct emission *emission)
{
    const struct sp_graph *body = emission->frame->graphs[0];
    for (uint32_t i = 0; i < emission->rule->input_count && i < body->input_count; i++) {
        if (body->inputs[i] != NULL)
            emission->inputs[i] = inner(emission, 0, body->inputs[i]);
    }
    for (uint32_t i = 0; i < emission->rule->output_count && i < body->output_count; i++) {
        if (body->outputs[i] != NULL)
            emission->outputs[i] = inner(emission, 0, body->outputs[i]);
    }
}

static void link_branches(struct emission *emission)
{
    const struct sp_body_frame *frame = emission->frame;
    for (uint32_t i = 0; i < emission->rule->output_count; i++) {
        emission->outputs[i] = inner(emission, 0, frame->graphs[0]->outputs[i]);
        if (frame->graph_count < 2)
            continue;
        struct sp_unified_axes other = inner(emission, 1, frame->graphs[1]->outputs[i]);
        if (!emission->outputs[i].is_set)
            sp_unifier_replicate_axes(&emission->frame->unifier, &other);
        else
            tie(emission, &emission->outputs[i], &other, &frame->graphs[0]->outputs[i]->type.shape);
    }
}

/* Each turn needs reductions and borders done before the next. */
static void complete_state(struct sp_unifier *unifier, const struct sp_unified_axes *axes)
{
    for (uint32_t i = 0; i < axes->rank; i++) {
        for (uint32_t k = 0; k < axes->axes[i].count; k++) {
            uint32_t root = sp_unifier_root(unifier, axes->axes[i].factors[k]);
            enum sp_factor_kind kind = unifier->items[root].factor.kind;
            if (kind == SP_FACTOR_HALO || kind == SP_FACTOR_REDUCTION)
                sp_unifier_replicate(unifier, root);
        }
    }
}

static void link_states(struct emission *emission, uint32_t batch)
{
    const struct sp_body_frame *frame = emission->frame;
    const struct sp_control *control = &frame->control;
    for (uint32_t i = 0; i < control->state_count; i++) {
        const struct sp_value *before = frame->graphs[0]->inputs[control->first_body_state + i];
        const struct sp_value *after = frame->graphs[0]->outputs[control->first_body_result + i];
        struct sp_unified_axes axes = inner(emission, 0, before), returned = inner(emission, 0, after);
        tie(emission, &axes, &returned, &before->type.shape);
        complete_state(&emission->frame->unifier, &axes);
        if (control->has_batch)
            axes = with_axis(emission, axes, 0, batch);
        emission->inputs[control->first_state + i] = axes;
        emission->outputs[i] = axes;
    }
}

static enum sp_status link_turns(struct emission *emission, uint32_t batch)
{
    const struct sp_body_frame *frame = emission->frame;
    const struct sp_control *control = &frame->control;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < control->scanned_count + control->stacked_count; i++) {
        bool is_input = i < control->scanned_count;
        uint32_t index = is_input ? i : i - control->scanned_count, at = 0;
        const struct sp_value *value = is_input ? frame->graphs[0]->inputs[control->first_body_scanned + index]
                                                : frame->graphs[0]->outputs[control->first_body_stacked + index];
        uint32_t operand = is_input ? control->first_scanned + index : control->state_count + index;
        uint32_t rank = is_input ? emission->rule->inputs[operand].rank : emission->rule->outputs[operand].rank;
        if (rank == 0)
            continue; /* an omitted result */
        status = is_input ? sp_control_scanned_axis(emission->context, control, index, rank, &at)
                          : sp_control_stacked_axis(emission->context, control, index, rank, &at);
        struct sp_unified_axes axes = inner(emission, 0, value);
        if (!axes.is_set && !is_input) { /* a constant: its own axes are whole, the turns are not */
            axes = (struct sp_unified_axes){true, rank - 1 - control->has_batch, NULL};
            axes.axes = SP_NEW_ARRAY(frame->unifier.arena, axes.rank, struct sp_unified_axis);
            if (axes.axes == NULL)
                return sp_fail_memory(emission->context->err);
        }
        if (status == SP_OK && control->has_batch)
            axes = with_axis(emission, axes, 0, batch);
        if (status == SP_OK)
            axes = with_axis(emission, axes, at, emission->turns);
        if (status == SP_OK)
            *(is_input ? &emission->inputs[operand] : &emission->outputs[operand]) = axes;
    }
    return status;
}

static enum sp_status link_loop(struct emission *emission)
{
    const struct sp_control *control = &emission->frame->control;
    struct sp_dim trips;
    uint32_t batch = UINT32_MAX;
    enum sp_status status = sp_control_trips(emission->context, control, &trips);
    if (status != SP_OK)
        return status;
    if (control->scanned_count + control->stacked_count > 0)
        emission->turns = add_factor(emission, SP_FACTOR_SEQUENTIAL, trips);
    if (control->has_batch) {
        uint32_t first = control->first_scanned;
        batch = add_factor(emission, SP_FACTOR_PARALLEL, emission->input_values[first]->type.shape.dims[0]);
        if (emission->rule->input_count > 0 && emission->rule->inputs[0].rank == 1) /* the lengths */
            emission->inputs[0] = with_axis(emission, (struct sp_unified_axes){.is_set = true}, 0, batch);
    }
    if (emission->frame->unifier.is_out_of_memory)
        return sp_fail_memory(emission->context->err);
    link_states(emission, batch);
    return link_turns(emission, batch);
}

/* ---- factors of the whole ------------------------------------------------------------------------------------ */

static bool is_mapped(const struct emission *emission, const struct sp_unified_axis *axis, struct sp_dim extent)
{
    struct sp_unifier *unifier = &emission->frame->unifier;
    struct sp_dim product = sp_dim_known(1);
    for (uint32_t i = 0; i < axis->count; i++)
        product = sp_dim_mul(emission->frame->dims, product,
                             unifier->items[sp_unifier_root(unifier, axis->factors[i])].factor.extent);
    return !sp_dim_is_known(product) || !sp_dim_is_known(extent) || product.value == extent.value;
}

/* Whether factor `k` of axis `axis` is one of those before it in the operand. */
static bool is_met_before(struct sp_unifier *unifier, const struct sp_unified_axes *axes, uint32_t axis, uint32_t k)
{
    uint32_t root = sp_unifier_root(unifier, axes->axes[axis].factors[k]);
    for (uint32_t i = 0; i <= axis; i++) {
        uint32_t end = i == axis ? k : axes->axes[i].count;
        for (uint32_t m = 0; m < end; m++) {
            if (sp_unifier_root(unifier, axes->axes[i].factors[m]) == root)
                return true;
        }
    }
    return false;
}

/* What one operand shows to be impossible: a factor on two of its axes, or of another extent; a reduction that the
   result still has. */
static void restrict_operand(struct emission *emission, const struct sp_unified_axes *axes,
                             const struct sp_value *value, bool is_output)
{
    struct sp_unifier *unifier = &emission->frame->unifier;
    const struct sp_shape *shape = &value->type.shape;
    if (!axes->is_set || axes->rank != shape->rank) {
        sp_unifier_replicate_axes(unifier, axes);
        return;
    }
    for (uint32_t i = 0; i < axes->rank; i++) {
        const struct sp_unified_axis *axis = &axes->axes[i];
        if (!is_mapped(emission, axis, shape->dims[i]))
            sp_unifier_replicate_axis(unifier, axis);
        for (uint32_t k = 0; k < axis->count; k++) {
            uint32_t root = sp_unifier_root(unifier, axis->factors[k]);
            const struct sp_factor *factor = &unifier->items[root].factor;
            bool is_partial = factor->kind == SP_FACTOR_REDUCTION && factor->combiner != SP_COMBINE_SOFTMAX &&
                              factor->combiner != SP_COMBINE_MOMENTS;
            if ((is_output && is_partial) || is_met_before(unifier, axes, i, k))
                sp_unifier_replicate(unifier, root);
        }
    }
}

/* Whether the rule has room for all factors of the operands; gives them numbers. */
static bool number_factors(struct emission *emission, const struct sp_unified_axes *operands,
                           struct sp_value *const *values, uint32_t count)
{
    struct sp_unifier *unifier = &emission->frame->unifier;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_unified_axes *axes = &operands[i];
        if (values[i] == NULL || !axes->is_set || axes->rank != values[i]->type.shape.rank)
            continue;
        for (uint32_t axis = 0; axis < axes->rank; axis++) {
            if (!is_mapped(emission, &axes->axes[axis], values[i]->type.shape.dims[axis]))
                continue;
            for (uint32_t k = 0; k < axes->axes[axis].count; k++) {
                uint32_t root = sp_unifier_root(unifier, axes->axes[axis].factors[k]);
                if (emission->numbers[root] != UINT32_MAX)
                    continue;
                if (emission->rule->factor_count == SP_RULE_MAX_FACTORS)
                    return false;
                char name[SP_FACTOR_NAME_SIZE];
                struct sp_factor factor = unifier->items[root].factor;
                bool is_turns = emission->turns != UINT32_MAX && root == sp_unifier_root(unifier, emission->turns);
                (void)snprintf(name, sizeof name, is_turns ? "t" : "f%u", emission->rule->factor_count);
                uint8_t number = sp_rule_factor(emission->rule, name, factor.kind, factor.extent);
                memcpy(factor.name, name, sizeof factor.name);
                if (factor.kind != SP_FACTOR_REDUCTION)
                    factor.combiner = SP_COMBINE_NONE;
                if (factor.kind != SP_FACTOR_HALO)
                    factor.halo_low = factor.halo_high = 0;
                if (emission->rule->faults == 0)
                    emission->rule->factors[number] = factor;
                emission->numbers[root] = number;
            }
        }
    }
    return true;
}

static void map_operands(struct emission *emission, const struct sp_unified_axes *operands,
                         struct sp_value *const *values, uint32_t count, bool is_input)
{
    struct sp_unifier *unifier = &emission->frame->unifier;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_unified_axes *axes = &operands[i];
        if (values[i] == NULL || !axes->is_set || axes->rank != values[i]->type.shape.rank)
            continue;
        for (uint32_t axis = 0; axis < axes->rank; axis++) {
            if (!is_mapped(emission, &axes->axes[axis], values[i]->type.shape.dims[axis]))
                continue;
            for (uint32_t k = 0; k < axes->axes[axis].count; k++) {
                uint32_t root = sp_unifier_root(unifier, axes->axes[axis].factors[k]);
                uint8_t number = (uint8_t)emission->numbers[root];
                if (is_input)
                    sp_rule_map_input(emission->rule, i, axis, number);
                else
                    sp_rule_map_output(emission->rule, i, axis, number);
            }
        }
    }
}

/* ---- work ---------------------------------------------------------------------------------------------------- */

static double extent_number(struct sp_dim extent)
{
    return sp_dim_is_known(extent) ? (double)extent.value : 1.0;
}

static double term_flops(struct emission *emission, const struct sp_body_term *term)
{
    struct sp_unifier *unifier = &emission->frame->unifier;
    double flops = term->coefficient;
    for (uint32_t i = 0; i < term->count; i++)
        flops *= extent_number(unifier->items[sp_unifier_root(unifier, term->factors[i])].factor.extent);
    return flops;
}

static bool same_factors(const struct sp_term *term, const uint8_t *factors, uint32_t count)
{
    if (term->count != count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (memchr(term->factors, factors[i], count) == NULL)
            return false;
    }
    return true;
}

static bool add_to_term(struct sp_rule *rule, double coefficient, uint32_t count, const uint8_t *factors)
{
    for (uint32_t i = 0; i < rule->term_count; i++) {
        if (same_factors(&rule->terms[i], factors, count)) {
            rule->terms[i].coefficient += coefficient;
            return true;
        }
    }
    return false;
}

/* Terms over the same factors are one; when there is no room for more, the rest is `whole` FLOPs that no split makes
   less. */
static void add_term(struct sp_rule *rule, double coefficient, uint32_t count, const uint8_t *factors, double whole)
{
    if (add_to_term(rule, coefficient, count, factors))
        return;
    if (count == 0 || rule->term_count + 1 < SP_RULE_MAX_TERMS)
        sp_rule_term(rule, coefficient, count, factors);
    else if (!add_to_term(rule, whole, 0, NULL))
        sp_rule_term(rule, whole, 0, NULL);
}

static void emit_terms(struct emission *emission, double trips)
{
    struct sp_body_frame *frame = emission->frame;
    double work[2] = {0, 0};
    for (uint32_t i = 0; i < frame->term_count; i++)
        work[frame->terms[i].branch] += term_flops(emission, &frame->terms[i]);
    uint32_t branch = work[1] > work[0];
    for (uint32_t i = 0; i < frame->term_count; i++) {
        const struct sp_body_term *term = &frame->terms[i];
        double coefficient = term->coefficient * trips;
        uint8_t factors[SP_RULE_MAX_FACTORS];
        uint32_t count = 0;
        if (term->branch != branch)
            continue;
        for (uint32_t k = 0; k < term->count; k++) {
            uint32_t root = sp_unifier_root(&frame->unifier, term->factors[k]);
            uint32_t number = emission->numbers[root];
            if (number != UINT32_MAX && memchr(factors, (int)number, count) == NULL)
                factors[count++] = (uint8_t)number;
            else
                coefficient *= extent_number(frame->unifier.items[root].factor.extent);
        }
        add_term(emission->rule, coefficient, count, factors, term_flops(emission, term) * trips);
    }
}

/* How often the body runs: the factor of the turns is of no term, so it counts here. */
static double count_trips(struct emission *emission)
{
    struct sp_dim trips;
    if (emission->frame->node == NULL || emission->frame->control.kind <= SP_CONTROL_IF ||
        sp_control_trips(emission->context, &emission->frame->control, &trips) != SP_OK)
        return 1;
    return sp_dim_is_known(trips) && trips.value <= MAX_BELIEVED_TRIPS ? (double)trips.value : 1;
}

enum sp_status sp_body_emit(struct sp_op_context *context, struct sp_body_frame *frame, struct sp_rule *rule)
{
    const struct sp_node *node = frame->node;
    struct sp_arena *work = frame->unifier.arena;
    struct emission emission = {.context = context,
                                .frame = frame,
                                .rule = rule,
                                .input_values = node != NULL ? node->inputs : frame->graphs[0]->inputs,
                                .output_values = node != NULL ? node->outputs : frame->graphs[0]->outputs,
                                .inputs = SP_NEW_ARRAY(work, rule->input_count, struct sp_unified_axes),
                                .outputs = SP_NEW_ARRAY(work, rule->output_count, struct sp_unified_axes),
                                .turns = UINT32_MAX};
    enum sp_status status = SP_OK;
    if (emission.inputs == NULL || emission.outputs == NULL)
        return sp_fail_memory(context->err);
    if (node == NULL || node->body != NULL)
        link_call(&emission);
    else if (frame->control.kind == SP_CONTROL_IF)
        link_branches(&emission);
    else
        status = link_loop(&emission);
    if (status != SP_OK)
        return status;
    emission.numbers = SP_NEW_ARRAY(work, frame->unifier.count, uint32_t);
    if (frame->unifier.is_out_of_memory || emission.numbers == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < rule->input_count; i++) {
        if (emission.input_values[i] != NULL)
            restrict_operand(&emission, &emission.inputs[i], emission.input_values[i], false);
    }
    for (uint32_t i = 0; i < rule->output_count; i++) {
        if (emission.output_values[i] != NULL)
            restrict_operand(&emission, &emission.outputs[i], emission.output_values[i], true);
    }
    memset(emission.numbers, 0xff, frame->unifier.count * sizeof *emission.numbers);
    if (!number_factors(&emission, emission.inputs, emission.input_values, rule->input_count) ||
        !number_factors(&emission, emission.outputs, emission.output_values, rule->output_count)) {
        rule->factor_count = 0; /* too many to speak of: all whole */
        memset(emission.numbers, 0xff, frame->unifier.count * sizeof *emission.numbers);
    } else {
        map_operands(&emission, emission.inputs, emission.input_values, rule->input_count, true);
        map_operands(&emission, emission.outputs, emission.output_values, rule->output_count, false);
    }
    emit_terms(&emission, count_trips(&emission));
    return SP_OK;
}
