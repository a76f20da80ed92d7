/*
 * Lowering of the attention operators of ONNX Runtime (com.microsoft; ops/families/neural/contrib_attention.c).
 *
 *     Attention, GroupQueryAttention   heads in attributes are those that are here
 *     MultiHeadAttention               the same; with split keys it is written out (ops/lowering/scores.h)
 *
 * What MultiHeadAttention adds to its scores: attention_bias, and mask_filter_value where key_padding_mask is 0.
 */
#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/scores.h"

#define MASK_FILTER_VALUE (-10000.0) /* the attribute's default */

enum sp_status sp_lower_projected_attention(struct sp_lowering *lower)
{
    struct sp_lower_changes changes = {0};
    uint32_t count;
    const int64_t *sizes = sp_node_ints(lower->node, "qkv_hidden_sizes", &count);
    const uint8_t heads = sp_lower_split_named(lower, "kv");
    sp_lower_change_heads(lower, &changes, "num_heads", "kv", NULL);
    if (heads == SP_RULE_NO_FACTOR || sizes == NULL || count != 3)
        return sp_lower_changed(lower, &changes);
    int64_t here[3];
    for (uint32_t i = 0; i < 3; i++)
        here[i] = sizes[i] / lower->factors[heads].extent * lower->factors[heads].size;
    changes.items[changes.count++] = SP_INTS_ATTR("qkv_hidden_sizes", 3, here);
    return sp_lower_changed(lower, &changes);
}

enum sp_status sp_lower_group_attention(struct sp_lowering *lower)
{
    struct sp_lower_changes changes = {0};
    sp_lower_change_heads(lower, &changes, "num_heads", "kv", "g");
    sp_lower_change_heads(lower, &changes, "kv_num_heads", "kv", NULL);
    return sp_lower_changed(lower, &changes);
}

/* ---- MultiHeadAttention with split keys ---------------------------------------------------------------------------
 */

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_BIAS, IN_MASK, IN_ATTENTION_BIAS, INPUTS = 10 };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE };

static bool has_input(const struct sp_lowering *lower, uint32_t input)
{
    return input < lower->input_count && lower->inputs[input].value != NULL;
}

static bool has_output(const struct sp_lowering *lower, uint32_t output)
{
    return output < lower->output_count && lower->outputs[output].value != NULL;
}

static bool is_causal(const struct sp_lowering *lower)
{
    return sp_node_int(lower->node, "unidirectional", 0) != 0;
}

/* Why the keys cannot be split here; NULL where they can. */
static const char *reason_for_whole_keys(const struct sp_lowering *lower, const struct sp_lower_scores *scores)
{
    const uint32_t mask_rank = has_input(lower, IN_MASK) ? lower->inputs[IN_MASK].rank : 2;
    if (!has_input(lower, IN_KEY) || (lower->inputs[IN_KEY].rank != 5 && !has_input(lower, IN_VALUE)))
        return "its keys or its values are missing";
    if (scores->q_heads < 1 || scores->size < 1 || scores->value_size < 1)
        return "the number or the size of its heads is not known";
    if (is_causal(lower) && sp_lower_named_size(lower, "q") < 0)
        return "what a query may look at depends on its place, and the number of queries is not known";
    if (has_input(lower, IN_MASK) && mask_rank > 1 &&
        sp_lower_input_factor(lower, IN_MASK, mask_rank - 1) != scores->keys)
        return "its mask does not have as many keys as it has";
    return NULL;
}

/* One third of the bias, [1, heads, 1, size], from where it starts among those that are here. */
static struct sp_piece *bias_of(struct sp_lowering *lower, const struct sp_lower_scores *scores, int64_t start,
                                int64_t size)
{
    const int64_t dims[] = {1, scores->q_heads, 1, size};
    const int64_t width = scores->q_heads * size;
    struct sp_piece *part = sp_lower_slice(lower, sp_lower_input(lower, IN_BIAS), 0, start, start + width);
    return sp_lower_reshape_as(lower, part, 4, dims);
}

static void add_bias(struct sp_lowering *lower, struct sp_lower_scores *scores)
{
    const int64_t width = scores->q_heads * scores->size;
    if (!has_input(lower, IN_BIAS))
        return;
    scores->q = sp_lower_binary(lower, "Add", scores->q, bias_of(lower, scores, 0, scores->size));
    scores->k = sp_lower_binary(lower, "Add", scores->k, bias_of(lower, scores, width, scores->size));
    scores->v = sp_lower_binary(lower, "Add", scores->v, bias_of(lower, scores, 2 * width, scores->value_size));
}

/* Keys (part 0) or values (part 1) of [b, keys, heads, 2, size], as [b, heads, keys, size]. */
static struct sp_piece *one_of_two(struct sp_lowering *lower, struct sp_piece *both, int64_t part)
{
    static const int64_t apart[] = {0, 2, 1, 3};
    struct sp_piece *one = sp_lower_squeeze(lower, sp_lower_slice(lower, both, 3, part, part + 1), 3);
    return sp_lower_transpose(lower, one, 4, apart);
}

static void read_operands(struct sp_lowering *lower, struct sp_lower_scores *scores)
{
    const uint32_t key_rank = lower->inputs[IN_KEY].rank;
    struct sp_piece *key = sp_lower_input(lower, IN_KEY);
    scores->q = sp_lower_heads_apart(lower, sp_lower_input(lower, IN_QUERY), 3, scores->q_heads);
    if (key_rank == 5) {
        scores->k = one_of_two(lower, key, 0);
        scores->v = one_of_two(lower, key, 1);
    } else {
        struct sp_piece *value = sp_lower_input(lower, IN_VALUE);
        scores->k = sp_lower_heads_apart(lower, key, key_rank, scores->kv_heads);
        scores->v = sp_lower_heads_apart(lower, value, lower->inputs[IN_VALUE].rank, scores->kv_heads);
    }
    add_bias(lower, scores);
}

/* What the mask adds to the scores: 0 or the filter's value, with axes for heads and queries. */
static struct sp_piece *filter(struct sp_lowering *lower, const struct sp_lower_scores *scores)
{
    struct sp_piece *mask = sp_lower_input(lower, IN_MASK), *is_kept;
    const double value = sp_node_float(lower->node, "mask_filter_value", MASK_FILTER_VALUE);
    if (lower->inputs[IN_MASK].rank == 1) {
        struct sp_piece *lengths = sp_lower_unsqueeze(lower, sp_lower_cast(lower, mask, SP_DTYPE_INT64), 1);
        is_kept = sp_lower_compare(lower, "Less", sp_lower_positions(lower, scores->keys), lengths);
    } else {
        struct sp_piece *zero = sp_lower_int(lower, lower->inputs[IN_MASK].value->type.dtype, 0);
        is_kept = sp_lower_compare(lower, "Greater", mask, zero);
    }
    is_kept = sp_lower_unsqueeze(lower, is_kept, 1);
    if (lower->inputs[IN_MASK].rank < 3)
        is_kept = sp_lower_unsqueeze(lower, is_kept, 1);
    return sp_lower_where(lower, is_kept, sp_lower_scalar(lower, scores->dtype, 0),
                          sp_lower_scalar(lower, scores->dtype, value));
}

/* The keys behind a query; those of the past are in front of query 0. */
static struct sp_piece *mask_by_place(struct sp_lowering *lower)
{
    const struct sp_lower_window window = {
        .keys = sp_lower_named(lower, "t"),
        .queries = sp_lower_named(lower, "q"),
        .offset = sp_lower_named(lower, "p") == SP_RULE_NO_FACTOR ? 0 : sp_lower_named_size(lower, "p"),
        .before = -1,
    };
    return sp_lower_out_of_window(lower, &window);
}

static void read_masks(struct sp_lowering *lower, struct sp_lower_scores *scores)
{
    if (is_causal(lower))
        scores->masked = mask_by_place(lower);
    if (has_input(lower, IN_ATTENTION_BIAS))
        scores->added = sp_lower_input(lower, IN_ATTENTION_BIAS);
    if (!has_input(lower, IN_MASK))
        return;
    struct sp_piece *mask = filter(lower, scores);
    scores->added = scores->added == NULL ? mask : sp_lower_binary(lower, "Add", scores->added, mask);
}

static enum sp_status attend(struct sp_lowering *lower, uint8_t keys)
{
    const uint8_t values = sp_lower_named(lower, "e");
    struct sp_lower_scores scores = {
        .keys = keys,
        .q_heads = sp_lower_named_size(lower, "kv"),
        .kv_heads = sp_lower_named_size(lower, "kv"),
        .size = sp_lower_named_size(lower, "d"),
        .value_size = sp_lower_named_size(lower, values == SP_RULE_NO_FACTOR ? "d" : "e"),
        .dtype = lower->inputs[IN_QUERY].value->type.dtype,
        .value_dtype = lower->inputs[IN_QUERY].value->type.dtype,
        .scale = sp_node_float(lower->node, "scale", 0),
    };
    const char *reason = reason_for_whole_keys(lower, &scores);
    if (reason != NULL) {
        sp_lower_refuse(lower, keys, reason);
        return sp_lower_status(lower);
    }
    if (scores.scale == 0)
        scores.scale = 1 / sqrt((double)scores.size);
    read_operands(lower, &scores);
    read_masks(lower, &scores);
    sp_lower_attend(lower, &scores);
    if (has_output(lower, OUT_Y))
        sp_lower_output_partial(lower, OUT_Y, sp_lower_heads_packed(lower, scores.y, 3), SP_COMBINE_SUM, 1, &keys);
    if (has_output(lower, OUT_PRESENT_KEY))
        sp_lower_output(lower, OUT_PRESENT_KEY, scores.k);
    if (has_output(lower, OUT_PRESENT_VALUE))
        sp_lower_output(lower, OUT_PRESENT_VALUE, scores.v);
    return sp_lower_status(lower);
}

/* Queries that are not the first ones: what they may look at is said by the attention bias. */
static enum sp_status run_placed(struct sp_lowering *lower, uint8_t queries, struct sp_lower_changes *changes)
{
    const enum sp_dtype dtype = lower->inputs[IN_QUERY].value->type.dtype;
    if (sp_lower_named_size(lower, "t") < 0 || sp_lower_named_size(lower, "p") < 0)
        sp_lower_refuse(lower, queries,
                        "what a query may look at depends on its place, and the number of keys is not known");
    struct sp_piece **given = sp_lower_inputs(lower), *inputs[INPUTS] = {NULL};
    if (given == NULL)
        return sp_lower_status(lower);
    const uint32_t count = lower->input_count > IN_ATTENTION_BIAS ? lower->input_count : IN_ATTENTION_BIAS + 1;
    for (uint32_t i = 0; i < lower->input_count; i++)
        inputs[i] = given[i];
    struct sp_piece *masked = sp_lower_unsqueeze(lower, sp_lower_unsqueeze(lower, mask_by_place(lower), 0), 0);
    struct sp_piece *bias =
        has_input(lower, IN_ATTENTION_BIAS) ? inputs[IN_ATTENTION_BIAS] : sp_lower_scalar(lower, dtype, 0);
    inputs[IN_ATTENTION_BIAS] =
        sp_lower_where(lower, masked, sp_lower_scalar(lower, dtype, sp_lower_lowest(dtype)), bias);
    changes->items[changes->count++] = SP_INT_ATTR("unidirectional", 0);
    return sp_lower_changed_on(lower, count, inputs, changes);
}

enum sp_status sp_lower_multi_head_attention(struct sp_lowering *lower)
{
    const uint8_t keys = sp_lower_split_named(lower, "t"), queries = sp_lower_split_named(lower, "q");
    struct sp_lower_changes changes = {0};
    if (keys != SP_RULE_NO_FACTOR)
        return attend(lower, keys);
    sp_lower_change_heads(lower, &changes, "num_heads", "kv", NULL);
    if (queries != SP_RULE_NO_FACTOR && is_causal(lower))
        return run_placed(lower, queries, &changes);
    return sp_lower_changed(lower, &changes);
}
