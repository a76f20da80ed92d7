/*
 * Local forms of the attention operators of ONNX Runtime (com.microsoft; ops/contrib_attention.c).
 *
 *     Attention, GroupQueryAttention   heads in attributes are those that are here
 *     MultiHeadAttention               the same; with split keys it is written out (ops/local_scores.h)
 *
 * What MultiHeadAttention adds to its scores: attention_bias, and mask_filter_value where key_padding_mask is 0.
 */
#include <math.h>

#include "ops/local_functions.h"
#include "ops/local_parts.h"
#include "ops/local_scores.h"

#define MASK_FILTER_VALUE (-10000.0) /* the attribute's default */

enum sp_status sp_local_projected_attention(struct sp_local *local)
{
    struct sp_local_changes changes = {0};
    uint32_t count;
    const int64_t *sizes = sp_node_ints(local->node, "qkv_hidden_sizes", &count);
    const uint8_t heads = sp_local_split_named(local, "kv");
    sp_local_change_heads(local, &changes, "num_heads", "kv", NULL);
    if (heads == SP_RULE_NO_FACTOR || sizes == NULL || count != 3)
        return sp_local_changed(local, &changes);
    int64_t here[3];
    for (uint32_t i = 0; i < 3; i++)
        here[i] = sizes[i] / local->factors[heads].extent * local->factors[heads].size;
    changes.items[changes.count++] = SP_INTS_ATTR("qkv_hidden_sizes", 3, here);
    return sp_local_changed(local, &changes);
}

enum sp_status sp_local_group_attention(struct sp_local *local)
{
    struct sp_local_changes changes = {0};
    sp_local_change_heads(local, &changes, "num_heads", "kv", "g");
    sp_local_change_heads(local, &changes, "kv_num_heads", "kv", NULL);
    return sp_local_changed(local, &changes);
}

/* ---- MultiHeadAttention with split keys ---------------------------------------------------------------------------
 */

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_BIAS, IN_MASK, IN_ATTENTION_BIAS, INPUTS = 10 };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE };

static bool has_input(const struct sp_local *local, uint32_t input)
{
    return input < local->input_count && local->inputs[input].value != NULL;
}

static bool has_output(const struct sp_local *local, uint32_t output)
{
    return output < local->output_count && local->outputs[output].value != NULL;
}

static bool is_causal(const struct sp_local *local)
{
    return sp_node_int(local->node, "unidirectional", 0) != 0;
}

/* Why the keys cannot be split here; NULL where they can. */
static const char *reason_for_whole_keys(const struct sp_local *local, const struct sp_local_scores *scores)
{
    const uint32_t mask_rank = has_input(local, IN_MASK) ? local->inputs[IN_MASK].rank : 2;
    if (!has_input(local, IN_KEY) || (local->inputs[IN_KEY].rank != 5 && !has_input(local, IN_VALUE)))
        return "its keys or its values are missing";
    if (scores->q_heads < 1 || scores->size < 1 || scores->value_size < 1)
        return "the number or the size of its heads is not known";
    if (is_causal(local) && sp_local_named_size(local, "q") < 0)
        return "what a query may look at depends on its place, and the number of queries is not known";
    if (has_input(local, IN_MASK) && mask_rank > 1 &&
        sp_local_input_factor(local, IN_MASK, mask_rank - 1) != scores->keys)
        return "its mask does not have as many keys as it has";
    return NULL;
}

/* One third of the bias, [1, heads, 1, size], from where it starts among those that are here. */
static struct sp_piece *bias_of(struct sp_local *local, const struct sp_local_scores *scores, int64_t start,
                                int64_t size)
{
    const int64_t dims[] = {1, scores->q_heads, 1, size};
    const int64_t width = scores->q_heads * size;
    struct sp_piece *part = sp_local_slice(local, sp_local_input(local, IN_BIAS), 0, start, start + width);
    return sp_local_reshape_as(local, part, 4, dims);
}

static void add_bias(struct sp_local *local, struct sp_local_scores *scores)
{
    const int64_t width = scores->q_heads * scores->size;
    if (!has_input(local, IN_BIAS))
        return;
    scores->q = sp_local_binary(local, "Add", scores->q, bias_of(local, scores, 0, scores->size));
    scores->k = sp_local_binary(local, "Add", scores->k, bias_of(local, scores, width, scores->size));
    scores->v = sp_local_binary(local, "Add", scores->v, bias_of(local, scores, 2 * width, scores->value_size));
}

/* Keys (part 0) or values (part 1) of [b, keys, heads, 2, size], as [b, heads, keys, size]. */
static struct sp_piece *one_of_two(struct sp_local *local, struct sp_piece *both, int64_t part)
{
    static const int64_t apart[] = {0, 2, 1, 3};
    struct sp_piece *one = sp_local_squeeze(local, sp_local_slice(local, both, 3, part, part + 1), 3);
    return sp_local_transpose(local, one, 4, apart);
}

static void read_operands(struct sp_local *local, struct sp_local_scores *scores)
{
    const uint32_t key_rank = local->inputs[IN_KEY].rank;
    struct sp_piece *key = sp_local_input(local, IN_KEY);
    scores->q = sp_local_heads_apart(local, sp_local_input(local, IN_QUERY), 3, scores->q_heads);
    if (key_rank == 5) {
        scores->k = one_of_two(local, key, 0);
        scores->v = one_of_two(local, key, 1);
    } else {
        struct sp_piece *value = sp_local_input(local, IN_VALUE);
        scores->k = sp_local_heads_apart(local, key, key_rank, scores->kv_heads);
        scores->v = sp_local_heads_apart(local, value, local->inputs[IN_VALUE].rank, scores->kv_heads);
    }
    add_bias(local, scores);
}

/* What the mask adds to the scores: 0 or the filter's value, with axes for heads and queries. */
static struct sp_piece *filter(struct sp_local *local, const struct sp_local_scores *scores)
{
    struct sp_piece *mask = sp_local_input(local, IN_MASK), *is_kept;
    const double value = sp_node_float(local->node, "mask_filter_value", MASK_FILTER_VALUE);
    if (local->inputs[IN_MASK].rank == 1) {
        struct sp_piece *lengths = sp_local_unsqueeze(local, sp_local_cast(local, mask, SP_DTYPE_INT64), 1);
        is_kept = sp_local_compare(local, "Less", sp_local_positions(local, scores->keys), lengths);
    } else {
        struct sp_piece *zero = sp_local_int(local, local->inputs[IN_MASK].value->type.dtype, 0);
        is_kept = sp_local_compare(local, "Greater", mask, zero);
    }
    is_kept = sp_local_unsqueeze(local, is_kept, 1);
    if (local->inputs[IN_MASK].rank < 3)
        is_kept = sp_local_unsqueeze(local, is_kept, 1);
    return sp_local_where(local, is_kept, sp_local_scalar(local, scores->dtype, 0),
                          sp_local_scalar(local, scores->dtype, value));
}

/* The keys behind a query; those of the past are in front of query 0. */
static struct sp_piece *mask_by_place(struct sp_local *local)
{
    const struct sp_local_window window = {
        .keys = sp_local_named(local, "t"),
        .queries = sp_local_named(local, "q"),
        .offset = sp_local_named(local, "p") == SP_RULE_NO_FACTOR ? 0 : sp_local_named_size(local, "p"),
        .before = -1,
    };
    return sp_local_out_of_window(local, &window);
}

static void read_masks(struct sp_local *local, struct sp_local_scores *scores)
{
    if (is_causal(local))
        scores->masked = mask_by_place(local);
    if (has_input(local, IN_ATTENTION_BIAS))
        scores->added = sp_local_input(local, IN_ATTENTION_BIAS);
    if (!has_input(local, IN_MASK))
        return;
    struct sp_piece *mask = filter(local, scores);
    scores->added = scores->added == NULL ? mask : sp_local_binary(local, "Add", scores->added, mask);
}

static enum sp_status attend(struct sp_local *local, uint8_t keys)
{
    const uint8_t values = sp_local_named(local, "e");
    struct sp_local_scores scores = {
        .keys = keys,
        .q_heads = sp_local_named_size(local, "kv"),
        .kv_heads = sp_local_named_size(local, "kv"),
        .size = sp_local_named_size(local, "d"),
        .value_size = sp_local_named_size(local, values == SP_RULE_NO_FACTOR ? "d" : "e"),
        .dtype = local->inputs[IN_QUERY].value->type.dtype,
        .value_dtype = local->inputs[IN_QUERY].value->type.dtype,
        .scale = sp_node_float(local->node, "scale", 0),
    };
    const char *reason = reason_for_whole_keys(local, &scores);
    if (reason != NULL) {
        sp_local_refuse(local, keys, reason);
        return sp_local_status(local);
    }
    if (scores.scale == 0)
        scores.scale = 1 / sqrt((double)scores.size);
    read_operands(local, &scores);
    read_masks(local, &scores);
    sp_local_attend(local, &scores);
    if (has_output(local, OUT_Y))
        sp_local_output_partial(local, OUT_Y, sp_local_heads_packed(local, scores.y, 3), SP_COMBINE_SUM, 1, &keys);
    if (has_output(local, OUT_PRESENT_KEY))
        sp_local_output(local, OUT_PRESENT_KEY, scores.k);
    if (has_output(local, OUT_PRESENT_VALUE))
        sp_local_output(local, OUT_PRESENT_VALUE, scores.v);
    return sp_local_status(local);
}

/* Queries that are not the first ones: what they may look at is said by the attention bias. */
static enum sp_status run_placed(struct sp_local *local, uint8_t queries, struct sp_local_changes *changes)
{
    const enum sp_dtype dtype = local->inputs[IN_QUERY].value->type.dtype;
    if (sp_local_named_size(local, "t") < 0 || sp_local_named_size(local, "p") < 0)
        sp_local_refuse(local, queries,
                        "what a query may look at depends on its place, and the number of keys is not known");
    struct sp_piece **given = sp_local_inputs(local), *inputs[INPUTS] = {NULL};
    if (given == NULL)
        return sp_local_status(local);
    const uint32_t count = local->input_count > IN_ATTENTION_BIAS ? local->input_count : IN_ATTENTION_BIAS + 1;
    for (uint32_t i = 0; i < local->input_count; i++)
        inputs[i] = given[i];
    struct sp_piece *masked = sp_local_unsqueeze(local, sp_local_unsqueeze(local, mask_by_place(local), 0), 0);
    struct sp_piece *bias =
        has_input(local, IN_ATTENTION_BIAS) ? inputs[IN_ATTENTION_BIAS] : sp_local_scalar(local, dtype, 0);
    inputs[IN_ATTENTION_BIAS] =
        sp_local_where(local, masked, sp_local_scalar(local, dtype, sp_local_lowest(dtype)), bias);
    changes->items[changes->count++] = SP_INT_ATTR("unidirectional", 0);
    return sp_local_changed_on(local, count, inputs, changes);
}

enum sp_status sp_local_multi_head_attention(struct sp_local *local)
{
    const uint8_t keys = sp_local_split_named(local, "t"), queries = sp_local_split_named(local, "q");
    struct sp_local_changes changes = {0};
    if (keys != SP_RULE_NO_FACTOR)
        return attend(local, keys);
    sp_local_change_heads(local, &changes, "num_heads", "kv", NULL);
    if (queries != SP_RULE_NO_FACTOR && is_causal(local))
        return run_placed(local, queries, &changes);
    return sp_local_changed(local, &changes);
}
