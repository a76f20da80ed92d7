/*
 * Local forms of Attention and FlexAttention (ops/attention.h says what the letters are).
 *
 *     b, q, e   the operator on its pieces; where the place of a query decides what it sees, a mask says that
 *     kv, g     the same; where heads are packed, its attributes say how many are here
 *     t         keys of one device have only a part of each softmax: written out (ops/local_scores.h)
 */
#include <math.h>

#include "ops/local_functions.h"
#include "ops/local_parts.h"
#include "ops/local_scores.h"

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_VALID };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE, OUT_SCORES };
enum { SCORES_PRODUCTS, SCORES_CAPPED, SCORES_BIASED, SCORES_WEIGHTS };

/* How many axes the operands have: 3 packed, 4 apart. */
static uint32_t rank_of(const struct sp_local *local, uint32_t input)
{
    return local->inputs[input].rank;
}

static bool has_input(const struct sp_local *local, uint32_t input)
{
    return input < local->input_count && local->inputs[input].value != NULL;
}

static bool is_placed(const struct sp_local *local)
{
    return sp_node_int(local->node, "is_causal", 0) != 0 || sp_node_int(local->node, "left_window_size", -1) >= 0 ||
           sp_node_int(local->node, "right_window_size", -1) >= 0;
}

/* Why masks cannot be told here by the places of queries and keys; NULL where they can. */
static const char *reason_against_masks(const struct sp_local *local)
{
    const int64_t keys = local->factors[sp_local_named(local, "t")].extent;
    if (is_placed(local) && (sp_local_named_size(local, "q") < 0 || keys < 0 || sp_local_named_size(local, "p") < 0))
        return "what a query may look at depends on its place, and the number of queries or of keys is not known";
    if (has_input(local, IN_MASK)) {
        const struct sp_local_operand *mask = &local->inputs[IN_MASK];
        if (mask->rank == 0 || mask->axes[mask->rank - 1].extent != keys)
            return "its mask does not have as many keys as it has";
    }
    return NULL;
}

/* Why the keys cannot be split here; NULL where they can. */
static const char *reason_for_whole_keys(const struct sp_local *local, const struct sp_local_scores *scores)
{
    if (scores->q_heads < 1 || scores->kv_heads < 1 || scores->size < 1 || scores->value_size < 1)
        return "the number or the size of its heads is not known";
    return reason_against_masks(local);
}

/* The keys that a query may not look at because of its place; those of the past are in front of query 0. */
static struct sp_piece *mask_by_place(struct sp_local *local)
{
    struct sp_local_window window = {
        .keys = sp_local_named(local, "t"),
        .queries = sp_local_named(local, "q"),
        .offset = sp_local_named(local, "p") == SP_RULE_NO_FACTOR ? 0 : sp_local_named_size(local, "p"),
        .before = sp_node_int(local->node, "left_window_size", -1),
        .after = sp_node_int(local->node, "is_causal", 0) != 0 ? 0 : sp_node_int(local->node, "right_window_size", -1),
    };
    /* No key is further away. */
    const int64_t furthest = local->factors[window.keys].extent;
    window.before = window.before > furthest ? furthest : window.before;
    window.after = window.after > furthest ? furthest : window.after;
    return sp_local_out_of_window(local, &window);
}

/* The keys behind those that count: nonpad_kv_seqlen holds a number for each batch. */
static struct sp_piece *mask_by_length(struct sp_local *local, uint8_t keys)
{
    struct sp_piece *lengths = sp_local_input(local, IN_VALID);
    for (uint32_t axis = 1; axis < 4; axis++)
        lengths = sp_local_unsqueeze(local, lengths, axis);
    return sp_local_unary(local, "Not", sp_local_compare(local, "Less", sp_local_positions(local, keys), lengths));
}

static void read_masks(struct sp_local *local, struct sp_local_scores *scores)
{
    if (is_placed(local))
        scores->masked = mask_by_place(local);
    if (has_input(local, IN_VALID))
        scores->masked = sp_local_either(local, scores->masked, mask_by_length(local, scores->keys));
    if (!has_input(local, IN_MASK))
        return;
    struct sp_piece *mask = sp_local_input(local, IN_MASK);
    if (local->inputs[IN_MASK].value->type.dtype == SP_DTYPE_BOOL)
        scores->masked = sp_local_either(local, scores->masked, sp_local_unary(local, "Not", mask));
    else
        scores->added = sp_local_cast(local, mask, scores->dtype);
}

static void read_scores(struct sp_local *local, uint8_t keys, struct sp_local_scores *ret)
{
    const uint8_t values = sp_local_named(local, "e");
    struct sp_local_scores scores = {
        .keys = keys,
        .kv_heads = sp_local_named_size(local, "kv"),
        .size = sp_local_named_size(local, "d"),
        .value_size = values == SP_RULE_NO_FACTOR ? -1 : local->factors[values].size,
        .dtype = local->inputs[IN_Q].value->type.dtype,
        .value_dtype = local->inputs[IN_V].value->type.dtype,
        .softcap = sp_node_float(local->node, "softcap", 0),
        .precision = (enum sp_dtype)sp_node_int(local->node, "softmax_precision", SP_DTYPE_UNDEFINED),
    };
    const int64_t group = sp_local_named_size(local, "g");
    scores.q_heads = group < 0 || scores.kv_heads < 0 ? -1 : scores.kv_heads * group;
    scores.scale = sp_node_float(local->node, "scale", 0);
    if (sp_node_attribute(local->node, "scale") == NULL && scores.size > 0)
        scores.scale = 1 / sqrt((double)scores.size);
    *ret = scores;
}

static void give_outputs(struct sp_local *local, const struct sp_local_scores *scores)
{
    const int64_t mode = sp_node_int(local->node, "qk_matmul_output_mode", SCORES_PRODUCTS);
    struct sp_piece *const stages[] = {scores->products, scores->capped, scores->biased, scores->weights};
    struct sp_piece *const others[] = {scores->k, scores->v};
    struct sp_piece *y = sp_local_heads_packed(local, scores->y, rank_of(local, IN_Q));
    if (local->outputs[OUT_Y].value != NULL)
        sp_local_output_partial(local, OUT_Y, sp_local_cast(local, y, scores->dtype), SP_COMBINE_SUM, 1, &scores->keys);
    for (uint32_t i = OUT_PRESENT_KEY; i <= OUT_PRESENT_VALUE; i++)
        if (i < local->output_count && local->outputs[i].value != NULL)
            sp_local_output(local, i, others[i - OUT_PRESENT_KEY]);
    if (OUT_SCORES >= local->output_count || local->outputs[OUT_SCORES].value == NULL)
        return;
    struct sp_piece *stage = stages[mode < SCORES_PRODUCTS || mode > SCORES_WEIGHTS ? SCORES_PRODUCTS : mode];
    sp_local_output(local, OUT_SCORES, sp_local_cast(local, stage, scores->dtype));
}

/* Over split keys. */
static enum sp_status attend(struct sp_local *local, uint8_t keys)
{
    struct sp_local_scores scores;
    for (uint32_t i = IN_Q; i <= IN_V; i++)
        if (!has_input(local, i))
            sp_local_refuse(local, keys, "its queries, its keys or its values are missing");
    if (sp_local_status(local) != SP_OK)
        return sp_local_status(local);
    read_scores(local, keys, &scores);
    const char *reason = reason_for_whole_keys(local, &scores);
    if (reason != NULL)
        sp_local_refuse(local, keys, reason);
    if (sp_local_status(local) != SP_OK)
        return sp_local_status(local);
    scores.q = sp_local_heads_apart(local, sp_local_input(local, IN_Q), rank_of(local, IN_Q), scores.q_heads);
    scores.k = sp_local_heads_apart(local, sp_local_input(local, IN_K), rank_of(local, IN_K), scores.kv_heads);
    scores.v = sp_local_heads_apart(local, sp_local_input(local, IN_V), rank_of(local, IN_V), scores.kv_heads);
    read_masks(local, &scores);
    sp_local_attend(local, &scores);
    if (sp_local_status(local) == SP_OK)
        give_outputs(local, &scores);
    return sp_local_status(local);
}

/* What is added to a score that does not count: where such scores are given out, the number that runtimes give. */
static double bias_of_masked(const struct sp_local *local, enum sp_dtype dtype)
{
    const bool is_shown = OUT_SCORES < local->output_count && local->outputs[OUT_SCORES].value != NULL &&
                          sp_node_int(local->node, "qk_matmul_output_mode", SCORES_PRODUCTS) == SCORES_BIASED;
    return is_shown ? sp_local_lowest(dtype) : -INFINITY;
}

/* The mask that was given (or NULL) with the keys that queries may not look at because of their places. */
static struct sp_piece *join_mask(struct sp_local *local, struct sp_piece *mask)
{
    struct sp_piece *masked = mask_by_place(local);
    if (mask == NULL)
        return sp_local_unary(local, "Not", masked);
    if (mask->dtype == SP_DTYPE_BOOL)
        return sp_local_compare(local, "And", mask, sp_local_unary(local, "Not", masked));
    const double bias = bias_of_masked(local, mask->dtype);
    return sp_local_where(local, masked, sp_local_scalar(local, mask->dtype, bias), mask);
}

/* Queries that are not the first ones: what they may look at becomes a mask. */
static enum sp_status run_placed(struct sp_local *local, uint8_t queries, struct sp_local_changes *changes)
{
    static const char *const places[] = {"is_causal", "left_window_size", "right_window_size"};
    const char *reason = reason_against_masks(local);
    if (reason != NULL)
        sp_local_refuse(local, queries, reason);
    struct sp_piece **given = sp_local_inputs(local), *inputs[IN_VALID + 1] = {NULL};
    if (given == NULL)
        return sp_local_status(local);
    for (uint32_t i = 0; i < local->input_count; i++)
        inputs[i] = given[i];
    inputs[IN_MASK] = join_mask(local, inputs[IN_MASK]);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (sp_node_attribute(local->node, places[i]) != NULL)
            changes->items[changes->count++] = SP_NO_ATTR(places[i]);
    return sp_local_changed_on(local, local->input_count > IN_MASK ? local->input_count : IN_MASK + 1, inputs, changes);
}

enum sp_status sp_local_attention(struct sp_local *local)
{
    const uint8_t keys = sp_local_split_named(local, "t"), queries = sp_local_split_named(local, "q");
    struct sp_local_changes changes = {0};
    if (keys != SP_RULE_NO_FACTOR)
        return attend(local, keys);
    sp_local_change_heads(local, &changes, "q_num_heads", "kv", "g");
    sp_local_change_heads(local, &changes, "kv_num_heads", "kv", NULL);
    if (queries != SP_RULE_NO_FACTOR && is_placed(local))
        return run_placed(local, queries, &changes);
    return sp_local_changed(local, &changes);
}
