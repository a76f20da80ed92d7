/*
 * Lowering of Attention and FlexAttention (ops/families/neural/attention.h says what the letters are).
 *
 *     b, q, e   the operator on its pieces; where the place of a query decides what it sees, a mask says that
 *     kv, g     the same; where heads are packed, its attributes say how many are here
 *     t         keys of one device have only a part of each softmax: written out (ops/lowering/scores.h)
 */
#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/scores.h"

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_VALID };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE, OUT_SCORES };
enum { SCORES_PRODUCTS, SCORES_CAPPED, SCORES_BIASED, SCORES_WEIGHTS };

/* How many axes the operands have: 3 packed, 4 apart. */
static uint32_t rank_of(const struct sp_lowering *lower, uint32_t input)
{
    return lower->inputs[input].rank;
}

static bool has_input(const struct sp_lowering *lower, uint32_t input)
{
    return input < lower->input_count && lower->inputs[input].value != NULL;
}

static bool is_placed(const struct sp_lowering *lower)
{
    return sp_node_int(lower->node, "is_causal", 0) != 0 || sp_node_int(lower->node, "left_window_size", -1) >= 0 ||
           sp_node_int(lower->node, "right_window_size", -1) >= 0;
}

/* Why masks cannot be told here by the places of queries and keys; NULL where they can. */
static const char *reason_against_masks(const struct sp_lowering *lower)
{
    const int64_t keys = lower->factors[sp_lower_named(lower, "t")].extent;
    if (is_placed(lower) && (sp_lower_named_size(lower, "q") < 0 || keys < 0 || sp_lower_named_size(lower, "p") < 0))
        return "what a query may look at depends on its place, and the number of queries or of keys is not known";
    if (has_input(lower, IN_MASK)) {
        const struct sp_lower_operand *mask = &lower->inputs[IN_MASK];
        if (mask->rank == 0 || mask->axes[mask->rank - 1].extent != keys)
            return "its mask does not have as many keys as it has";
    }
    return NULL;
}

/* Why the keys cannot be split here; NULL where they can. */
static const char *reason_for_whole_keys(const struct sp_lowering *lower, const struct sp_lower_scores *scores)
{
    if (scores->q_heads < 1 || scores->kv_heads < 1 || scores->size < 1 || scores->value_size < 1)
        return "the number or the size of its heads is not known";
    return reason_against_masks(lower);
}

/* The keys that a query may not look at because of its place; those of the past are in front of query 0. */
static struct sp_piece *mask_by_place(struct sp_lowering *lower)
{
    struct sp_lower_window window = {
        .keys = sp_lower_named(lower, "t"),
        .queries = sp_lower_named(lower, "q"),
        .offset = sp_lower_named(lower, "p") == SP_RULE_NO_FACTOR ? 0 : sp_lower_named_size(lower, "p"),
        .before = sp_node_int(lower->node, "left_window_size", -1),
        .after = sp_node_int(lower->node, "is_causal", 0) != 0 ? 0 : sp_node_int(lower->node, "right_window_size", -1),
    };
    /* No key is further away. */
    const int64_t furthest = lower->factors[window.keys].extent;
    window.before = window.before > furthest ? furthest : window.before;
    window.after = window.after > furthest ? furthest : window.after;
    return sp_lower_out_of_window(lower, &window);
}

/* The keys behind those that count: nonpad_kv_seqlen holds a number for each batch. */
static struct sp_piece *mask_by_length(struct sp_lowering *lower, uint8_t keys)
{
    struct sp_piece *lengths = sp_lower_input(lower, IN_VALID);
    for (uint32_t axis = 1; axis < 4; axis++)
        lengths = sp_lower_unsqueeze(lower, lengths, axis);
    return sp_lower_unary(lower, "Not", sp_lower_compare(lower, "Less", sp_lower_positions(lower, keys), lengths));
}

static void read_masks(struct sp_lowering *lower, struct sp_lower_scores *scores)
{
    if (is_placed(lower))
        scores->masked = mask_by_place(lower);
    if (has_input(lower, IN_VALID))
        scores->masked = sp_lower_either(lower, scores->masked, mask_by_length(lower, scores->keys));
    if (!has_input(lower, IN_MASK))
        return;
    struct sp_piece *mask = sp_lower_input(lower, IN_MASK);
    if (lower->inputs[IN_MASK].value->type.dtype == SP_DTYPE_BOOL)
        scores->masked = sp_lower_either(lower, scores->masked, sp_lower_unary(lower, "Not", mask));
    else
        scores->added = sp_lower_cast(lower, mask, scores->dtype);
}

static void read_scores(struct sp_lowering *lower, uint8_t keys, struct sp_lower_scores *ret)
{
    const uint8_t values = sp_lower_named(lower, "e");
    struct sp_lower_scores scores = {
        .keys = keys,
        .kv_heads = sp_lower_named_size(lower, "kv"),
        .size = sp_lower_named_size(lower, "d"),
        .value_size = values == SP_RULE_NO_FACTOR ? -1 : lower->factors[values].size,
        .dtype = lower->inputs[IN_Q].value->type.dtype,
        .value_dtype = lower->inputs[IN_V].value->type.dtype,
        .softcap = sp_node_float(lower->node, "softcap", 0),
        .precision = (enum sp_dtype)sp_node_int(lower->node, "softmax_precision", SP_DTYPE_UNDEFINED),
    };
    const int64_t group = sp_lower_named_size(lower, "g");
    scores.q_heads = group < 0 || scores.kv_heads < 0 ? -1 : scores.kv_heads * group;
    scores.scale = sp_node_float(lower->node, "scale", 0);
    if (sp_node_attribute(lower->node, "scale") == NULL && scores.size > 0)
        scores.scale = 1 / sqrt((double)scores.size);
    *ret = scores;
}

static void give_outputs(struct sp_lowering *lower, const struct sp_lower_scores *scores)
{
    const int64_t mode = sp_node_int(lower->node, "qk_matmul_output_mode", SCORES_PRODUCTS);
    struct sp_piece *const stages[] = {scores->products, scores->capped, scores->biased, scores->weights};
    struct sp_piece *const others[] = {scores->k, scores->v};
    struct sp_piece *y = sp_lower_heads_packed(lower, scores->y, rank_of(lower, IN_Q));
    if (lower->outputs[OUT_Y].value != NULL)
        sp_lower_output_partial(lower, OUT_Y, sp_lower_cast(lower, y, scores->dtype), SP_COMBINE_SUM, 1, &scores->keys);
    for (uint32_t i = OUT_PRESENT_KEY; i <= OUT_PRESENT_VALUE; i++)
        if (i < lower->output_count && lower->outputs[i].value != NULL)
            sp_lower_output(lower, i, others[i - OUT_PRESENT_KEY]);
    if (OUT_SCORES >= lower->output_count || lower->outputs[OUT_SCORES].value == NULL)
        return;
    struct sp_piece *stage = stages[mode < SCORES_PRODUCTS || mode > SCORES_WEIGHTS ? SCORES_PRODUCTS : mode];
    sp_lower_output(lower, OUT_SCORES, sp_lower_cast(lower, stage, scores->dtype));
}

/* Over split keys. */
static enum sp_status attend(struct sp_lowering *lower, uint8_t keys)
{
    struct sp_lower_scores scores;
    for (uint32_t i = IN_Q; i <= IN_V; i++)
        if (!has_input(lower, i))
            sp_lower_refuse(lower, keys, "its queries, its keys or its values are missing");
    if (sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower);
    read_scores(lower, keys, &scores);
    const char *reason = reason_for_whole_keys(lower, &scores);
    if (reason != NULL)
        sp_lower_refuse(lower, keys, reason);
    if (sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower);
    scores.q = sp_lower_heads_apart(lower, sp_lower_input(lower, IN_Q), rank_of(lower, IN_Q), scores.q_heads);
    scores.k = sp_lower_heads_apart(lower, sp_lower_input(lower, IN_K), rank_of(lower, IN_K), scores.kv_heads);
    scores.v = sp_lower_heads_apart(lower, sp_lower_input(lower, IN_V), rank_of(lower, IN_V), scores.kv_heads);
    read_masks(lower, &scores);
    sp_lower_attend(lower, &scores);
    if (sp_lower_status(lower) == SP_OK)
        give_outputs(lower, &scores);
    return sp_lower_status(lower);
}

/* What is added to a score that does not count: where such scores are given out, the number that runtimes give. */
static double bias_of_masked(const struct sp_lowering *lower, enum sp_dtype dtype)
{
    const bool is_shown = OUT_SCORES < lower->output_count && lower->outputs[OUT_SCORES].value != NULL &&
                          sp_node_int(lower->node, "qk_matmul_output_mode", SCORES_PRODUCTS) == SCORES_BIASED;
    return is_shown ? sp_lower_lowest(dtype) : -INFINITY;
}

/* The mask that was given (or NULL) with the keys that queries may not look at because of their places. */
static struct sp_piece *join_mask(struct sp_lowering *lower, struct sp_piece *mask)
{
    struct sp_piece *masked = mask_by_place(lower);
    if (mask == NULL)
        return sp_lower_unary(lower, "Not", masked);
    if (mask->dtype == SP_DTYPE_BOOL)
        return sp_lower_compare(lower, "And", mask, sp_lower_unary(lower, "Not", masked));
    const double bias = bias_of_masked(lower, mask->dtype);
    return sp_lower_where(lower, masked, sp_lower_scalar(lower, mask->dtype, bias), mask);
}

/* Queries that are not the first ones: what they may look at becomes a mask. */
static enum sp_status run_placed(struct sp_lowering *lower, uint8_t queries, struct sp_lower_changes *changes)
{
    static const char *const places[] = {"is_causal", "left_window_size", "right_window_size"};
    const char *reason = reason_against_masks(lower);
    if (reason != NULL)
        sp_lower_refuse(lower, queries, reason);
    struct sp_piece **given = sp_lower_inputs(lower), *inputs[IN_VALID + 1] = {NULL};
    if (given == NULL)
        return sp_lower_status(lower);
    for (uint32_t i = 0; i < lower->input_count; i++)
        inputs[i] = given[i];
    inputs[IN_MASK] = join_mask(lower, inputs[IN_MASK]);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (sp_node_attribute(lower->node, places[i]) != NULL)
            changes->items[changes->count++] = SP_NO_ATTR(places[i]);
    return sp_lower_changed_on(lower, lower->input_count > IN_MASK ? lower->input_count : IN_MASK + 1, inputs, changes);
}

enum sp_status sp_lower_attention(struct sp_lowering *lower)
{
    const uint8_t keys = sp_lower_split_named(lower, "t"), queries = sp_lower_split_named(lower, "q");
    struct sp_lower_changes changes = {0};
    if (keys != SP_RULE_NO_FACTOR)
        return attend(lower, keys);
    sp_lower_change_heads(lower, &changes, "q_num_heads", "kv", "g");
    sp_lower_change_heads(lower, &changes, "kv_num_heads", "kv", NULL);
    if (queries != SP_RULE_NO_FACTOR && is_placed(lower))
        return run_placed(lower, queries, &changes);
    return sp_lower_changed(lower, &changes);
}
