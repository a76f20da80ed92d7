/*
 * Lowering of MoE and QMoE of ONNX Runtime (com.microsoft; ops/families/neural/moe.c says what the letters are).
 *
 *     n..   the operator on its tokens
 *     i     on its part of the inner size: what fc2 adds is added by one device; the output is a sum over the shards
 *     x     on its experts; the output is a sum over the shards
 *
 * With x split the choice is still one among all experts. Every device makes it on all of router_probs, and shows its
 * operator the experts that are its own: those that were chosen with their own numbers, the others with the lowest
 * there is. The operator's softmax over these gives the chosen ones of this device weights that sum to 1, in the right
 * proportions; so its output times the sum of the weights that they have among all is this device's summand. Where none
 * was chosen that sum is 0: such a token is computed for nothing. An expert with weight 0 costs nothing in runtimes
 * that sort tokens by expert.
 *
 *     weights   softmax of router_probs over all experts, or router_weights, for the k with the highest router_probs;
 *               divided by their sum with normalize_routing_weights
 */
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/scores.h"

#define GATHER_ELEMENTS_SINCE 11

enum { IN_X, IN_ROUTER, IN_ROUTER_WEIGHTS = 14 };

static bool has_input(const struct sp_lowering *lower, uint32_t input)
{
    return input < lower->input_count && lower->inputs[input].value != NULL;
}

static bool normalizes(const struct sp_lowering *lower)
{
    return sp_node_int(lower->node, "normalize_routing_weights", 0) != 0;
}

/* ---- the choice among all experts ------------------------------------------------------------------------------- */

/* Why the experts cannot be split here; NULL where they can. */
static const char *reason_for_whole_experts(const struct sp_lowering *lower)
{
    const struct sp_lower_operand *y = &lower->outputs[0];
    if (lower->opset < GATHER_ELEMENTS_SINCE)
        return "the choice of experts takes operator set 11 or later";
    if (lower->inputs[IN_ROUTER].rank != 2 || (y->rank == 3 && y->axes[0].size < 0 && y->axes[1].size < 0))
        return "how its tokens are numbered is not known";
    return NULL;
}

struct choice {
    struct sp_piece *experts; /* int64 [tokens, k] */
    struct sp_piece *ids;     /* int64 [x here]: the experts of this device */
    struct sp_piece *chosen;  /* float [tokens, x here]: 1 where it was chosen */
    struct sp_piece *is_here; /* float [tokens, k]: 1 where the chosen one is of this device */
};

static struct choice choose(struct sp_lowering *lower, uint8_t experts, int64_t k)
{
    const enum sp_dtype dtypes[] = {lower->inputs[IN_ROUTER].value->type.dtype, SP_DTYPE_INT64};
    const int64_t tokens = lower->inputs[IN_ROUTER].axes[0].size, own = lower->factors[experts].size;
    const int64_t best_dims[] = {tokens, k}, same_dims[] = {tokens, k, own};
    struct sp_piece *const operands[] = {sp_lower_input(lower, IN_ROUTER), sp_lower_ints(lower, 1, &k)};
    struct sp_piece *best[2];
    struct choice choice;
    sp_lower_op_many(lower, &(struct sp_lower_call){"", "TopK", 2, operands, 0, NULL, 2}, dtypes, best);
    choice.experts = best[1];
    sp_piece_set_dims(lower, choice.experts, 2, best_dims);
    choice.ids = sp_lower_positions(lower, experts);
    struct sp_piece *same = sp_lower_compare(lower, "Equal", sp_lower_unsqueeze(lower, choice.experts, 2), choice.ids);
    same = sp_lower_cast(lower, same, SP_DTYPE_FLOAT);
    sp_piece_set_dims(lower, same, 3, same_dims);
    choice.chosen = sp_lower_reduce(lower, "ReduceMax", same, UINT64_C(1) << 1, false);
    choice.is_here = sp_lower_reduce(lower, "ReduceMax", same, UINT64_C(1) << 2, false);
    return choice;
}

/* float [tokens, 1]: the sum of the weights of the chosen experts that are of this device. */
static struct sp_piece *share_of(struct sp_lowering *lower, const struct choice *choice)
{
    const struct sp_lower_attribute last = SP_INT_ATTR("axis", -1), second = SP_INT_ATTR("axis", 1);
    struct sp_piece *among;
    if (has_input(lower, IN_ROUTER_WEIGHTS)) {
        among = sp_lower_cast(lower, sp_lower_input(lower, IN_ROUTER_WEIGHTS), SP_DTYPE_FLOAT);
    } else {
        struct sp_piece *router = sp_lower_cast(lower, sp_lower_input(lower, IN_ROUTER), SP_DTYPE_FLOAT);
        among = sp_lower_op(lower, "Softmax", SP_DTYPE_FLOAT, 1, &router, 1, &last);
    }
    struct sp_piece *const picked[] = {among, choice->experts};
    struct sp_piece *weights = sp_lower_op(lower, "GatherElements", SP_DTYPE_FLOAT, 2, picked, 1, &second);
    if (choice->experts != NULL)
        sp_piece_set_dims(lower, weights, choice->experts->rank, choice->experts->dims);
    struct sp_piece *here = sp_lower_binary(lower, "Mul", weights, choice->is_here);
    here = sp_lower_reduce(lower, "ReduceSum", here, UINT64_C(1) << 1, true);
    if (!normalizes(lower))
        return here;
    return sp_lower_binary(lower, "Div", here, sp_lower_reduce(lower, "ReduceSum", weights, UINT64_C(1) << 1, true));
}

/* The columns of this device's experts: those that were chosen as they are, the others as `otherwise` says. */
static struct sp_piece *own_columns(struct sp_lowering *lower, const struct choice *choice, uint32_t input,
                                    double otherwise)
{
    const enum sp_dtype dtype = lower->inputs[input].value->type.dtype;
    struct sp_piece *own = sp_lower_gather(lower, sp_lower_input(lower, input), choice->ids, 1);
    struct sp_piece *half = sp_lower_scalar(lower, SP_DTYPE_FLOAT, 0.5);
    struct sp_piece *is_chosen = sp_lower_compare(lower, "Greater", choice->chosen, half);
    return sp_lower_where(lower, is_chosen, own, sp_lower_scalar(lower, dtype, otherwise));
}

/* [tokens, 1] beside an output [tokens, h] or [b, s, h]. */
static struct sp_piece *beside_output(struct sp_lowering *lower, struct sp_piece *share)
{
    const struct sp_lower_operand *y = &lower->outputs[0];
    const int64_t dims[] = {y->axes[0].size < 0 ? -1 : y->axes[0].size, y->axes[1].size < 0 ? -1 : y->axes[1].size, 1};
    return y->rank == 2 ? share : sp_lower_reshape_as(lower, share, 3, dims);
}

/* ---- the operator ----------------------------------------------------------------------------------------------- */

/* What fc2 adds, on the device with the first part of the inner size; 0 on others. */
static struct sp_piece *bias_once(struct sp_lowering *lower, uint8_t inner, struct sp_piece *bias)
{
    if (bias == NULL)
        return NULL;
    const double times = lower->factors[inner].shard == 0 ? 1 : 0;
    return sp_lower_binary(lower, "Mul", bias, sp_lower_scalar(lower, bias->dtype, times));
}

/* Shows the operator its own experts; returns what its output is to be multiplied with, or NULL. */
static struct sp_piece *show_own(struct sp_lowering *lower, uint8_t experts, struct sp_piece **inputs,
                                 struct sp_lower_changes *changes)
{
    const int64_t k = sp_node_int(lower->node, "k", 1), own = lower->factors[experts].size;
    const enum sp_dtype dtype = lower->inputs[IN_ROUTER].value->type.dtype;
    const struct choice choice = choose(lower, experts, k);
    inputs[IN_ROUTER] = own_columns(lower, &choice, IN_ROUTER, sp_lower_lowest(dtype));
    if (k > own)
        changes->items[changes->count++] = SP_INT_ATTR("k", own);
    if (has_input(lower, IN_ROUTER_WEIGHTS)) {
        inputs[IN_ROUTER_WEIGHTS] = own_columns(lower, &choice, IN_ROUTER_WEIGHTS, 0);
        if (!normalizes(lower))
            return NULL;
    }
    return share_of(lower, &choice);
}

enum sp_status sp_lower_moe(struct sp_lowering *lower)
{
    const uint8_t experts = sp_lower_split_named(lower, "x"), inner = sp_lower_split_named(lower, "i");
    const uint32_t second_bias = strcmp(lower->node->op_type, "QMoE") == 0 ? 7 : 5;
    const char *reason = experts == SP_RULE_NO_FACTOR ? NULL : reason_for_whole_experts(lower);
    struct sp_lower_changes changes = {0};
    struct sp_piece *share = NULL;
    uint32_t count = 0;
    if (reason != NULL)
        sp_lower_refuse(lower, experts, reason);
    struct sp_piece **inputs = sp_lower_inputs(lower);
    if (inputs == NULL)
        return sp_lower_status(lower);
    if (inner != SP_RULE_NO_FACTOR && has_input(lower, second_bias))
        inputs[second_bias] = bias_once(lower, inner, inputs[second_bias]);
    if (experts != SP_RULE_NO_FACTOR)
        share = show_own(lower, experts, inputs, &changes);
    struct sp_piece *y = sp_lower_same(lower, lower->input_count, inputs, changes.count, changes.items);
    if (share != NULL) {
        share = sp_lower_cast(lower, share, lower->outputs[0].value->type.dtype);
        y = sp_lower_binary(lower, "Mul", y, beside_output(lower, share));
    }
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    sp_lower_output_partial(lower, 0, y, SP_COMBINE_SUM, count, factors);
    return sp_lower_status(lower);
}
