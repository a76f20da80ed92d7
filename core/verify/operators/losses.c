/*
 * Losses: the cross entropy of scores, and the negative of given logarithms, at the targets' classes.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

struct loss {
    const struct sp_numbers *scores; /* [n, classes, ..]: logarithms of probabilities */
    const struct sp_numbers *target; /* [n, ..] */
    const struct sp_numbers *weights;
    struct sp_numbers *losses, *shares; /* like target: what each one adds to the loss and to what it is divided by */
};

static struct sp_numbers *log_softmax(struct sp_steps *steps, const struct sp_numbers *x)
{
    struct sp_numbers *distance = sp_step(steps, x, sp_step_fold(steps, x, 2, sp_number_max), sp_number_subtract);
    struct sp_numbers *sum = sp_step_fold(steps, sp_step_apply(steps, distance, "Exp", sp_real_exp), 2, sp_number_add);
    return sp_step(steps, distance, sp_step_apply(steps, sum, "Log", log), sp_number_subtract);
}

/* One part of the numbers of an element: its loss and its share of what a mean is divided by; 0 for one that is ignored.
   False where the class is not looked at. */
static bool lose(const struct loss *loss, uint64_t item, bool is_field, int64_t class)
{
    const struct sp_index_axis *classes = &loss->scores->axes[1];
    const uint64_t inner = loss->target->count / (loss->target->axes[0].count > 0 ? loss->target->axes[0].count : 1);
    const int64_t at = sp_index_find(classes, class < 0 ? class + classes->extent : class);
    if (at < 0)
        return false;
    const struct sp_number score =
        loss->scores->items[(item / inner * classes->count + (uint64_t)at) * inner + item % inner];
    struct sp_number share = {1, 1};
    if (loss->weights != NULL) {
        const int64_t place = sp_index_find(&loss->weights->axes[0], class < 0 ? class + classes->extent : class);
        if (place < 0)
            return false;
        share = loss->weights->items[place];
    }
    const struct sp_number product = sp_number_negate(sp_number_multiply(score, share));
    struct sp_number *sum = &loss->losses->items[item], *divisor = &loss->shares->items[item];
    if (is_field) {
        sum->field = product.field;
        divisor->field = share.field;
    } else {
        sum->real = product.real;
        divisor->real = share.real;
    }
    return true;
}

static enum sp_status lose_all(struct sp_steps *steps, struct loss *loss)
{
    struct sp_call *call = steps->call;
    const struct sp_attribute *ignored = sp_node_attribute(call->node, "ignore_index");
    for (uint64_t i = 0; i < loss->target->count; i++) {
        const struct sp_number target = loss->target->items[i];
        const int64_t classes[] = {(int64_t)target.field, fabs(target.real) < 0x1p60 ? (int64_t)target.real : -1};
        for (int k = 0; k < 2; k++) {
            const bool counts = ignored == NULL || classes[k] != ignored->i;
            if (counts && !lose(loss, i, k == 0, classes[k]))
                return sp_call_refuse(call, "a target is none of its classes");
        }
    }
    return SP_OK;
}

static bool fits(const struct sp_numbers *scores, const struct sp_numbers *target)
{
    bool is_same = scores != NULL && target != NULL && target->rank + 1 == scores->rank && scores->rank >= 2 &&
                   target->count > 0 && !sp_dtype_is_float(target->dtype);
    for (uint32_t i = 0; is_same && i < target->rank; i++)
        is_same = sp_index_equal(&target->axes[i], &scores->axes[i == 0 ? 0 : i + 1]);
    return is_same;
}

static enum sp_status evaluate_loss(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const char *reduction = sp_node_string(call->node, "reduction", "mean");
    struct loss loss = {sp_call_in(call, 0), sp_call_in(call, 1), sp_call_in(call, 2), NULL, NULL};
    if (!fits(loss.scores, loss.target) || (loss.weights != NULL && loss.weights->rank != 1))
        return sp_evaluate_by_rule(call);
    if (call->node->op_type[0] == 'S')
        loss.scores = log_softmax(&steps, loss.scores);
    for (int k = 0; steps.status == SP_OK && k < 2; k++)
        steps.status = sp_numbers_create(call->arena, call->in[0]->dtype, loss.target->rank, loss.target->axes,
                                         k == 0 ? &loss.losses : &loss.shares, call->err);
    if (steps.status == SP_OK)
        steps.status = lose_all(&steps, &loss);
    struct sp_numbers *out = loss.losses;
    if (strcmp(reduction, "none") != 0 && steps.status == SP_OK) {
        const uint64_t all = (UINT64_C(1) << loss.target->rank) - 1;
        out = sp_step_fold(&steps, loss.losses, all, sp_number_add);
        if (strcmp(reduction, "mean") == 0)
            out = sp_step(&steps, out, sp_step_fold(&steps, loss.shares, all, sp_number_add), sp_number_divide);
        out = sp_step_reshape(&steps, out, 0, NULL);
    }
    call->out[0] = out;
    if (call->out_count > 1 && steps.status == SP_OK)
        steps.status =
            sp_numbers_view(call->arena, loss.scores, loss.scores->rank, loss.scores->axes, &call->out[1], call->err);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_losses[] = {
    {"SoftmaxCrossEntropyLoss", evaluate_loss},
    {"NegativeLogLikelihoodLoss", evaluate_loss},
    {NULL, NULL},
};
