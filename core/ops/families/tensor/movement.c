/* movement - operators that put whole blocks elsewhere: Concat, Split, Transpose, Tile. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/traffic.h"

/* ---- Concat -------------------------------------------------------------------------------------------------- */

/* Concat-1 has a default axis; later versions demand it. */
static enum sp_status concat_axis(struct sp_op_context *context, int64_t *ret_axis)
{
    const struct sp_attribute *axis = sp_node_attribute(context->node, "axis");
    if ((axis == NULL || axis->type != SP_ATTR_INT) && context->version >= 4)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "the attribute 'axis' is missing");
    *ret_axis = sp_node_int(context->node, "axis", 1);
    return SP_OK;
}

static enum sp_status concat_dims(struct sp_op_context *context, uint32_t axis, uint32_t rank, struct sp_dim *dims)
{
    bool is_first = true, has_unranked = false;
    struct sp_dim sum = sp_dim_known(0);
    for (uint32_t input = 0; input < context->node->input_count; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (shape == NULL) {
            has_unranked = has_unranked || sp_has_input(context, input);
            continue;
        }
        if (shape->rank != rank)
            return sp_op_fail(context, "SHAPES_DISAGREE", "input %u has %u axes where another input has %u", input,
                              shape->rank, rank);
        for (uint32_t i = 0; i < rank; i++) {
            if (i == axis)
                continue;
            enum sp_status status = SP_OK;
            if (is_first)
                dims[i] = shape->dims[i];
            else
                status = sp_join_dims(context, dims[i], shape->dims[i], &dims[i]);
            if (status != SP_OK)
                return status;
        }
        sum = sp_dim_add(context->dims, sum, shape->dims[axis]);
        is_first = false;
    }
    dims[axis] = has_unranked ? sp_dim_unknown() : sum;
    return SP_OK;
}

/* Elements of one input that go into one row of the output: extent along the axis times everything behind it. */
static int64_t row_length(const struct sp_shape *shape, uint32_t axis)
{
    struct sp_shape tail = {true, shape->rank - axis, shape->dims + axis};
    return sp_shape_elements(&tail);
}

/* Pieces that are not known leave unknown elements between known ones: [?, 64] is worth having. */
static enum sp_status concat_elements(struct sp_op_context *context, uint32_t axis)
{
    const struct sp_node *node = context->node;
    bool is_real = sp_dtype_is_float(sp_in_dtype(context, 0)), has_any = false;
    if (sp_data_room(context, 0) < 0)
        return SP_OK;
    for (uint32_t input = 0; input < node->input_count; input++) {
        if (sp_data_available(context, input))
            has_any = true;
        else if (is_real && sp_has_input(context, input))
            return SP_OK;
    }
    struct sp_data *data = has_any ? sp_data_new(context, 0, is_real) : NULL;
    int64_t length = data != NULL ? row_length(&node->outputs[0]->type.shape, axis) : 0;
    if (length <= 0)
        return SP_OK;
    uint32_t offset = 0, rows = data->count / (uint32_t)length;
    for (uint32_t input = 0; input < node->input_count; input++) {
        if (!sp_has_input(context, input))
            continue;
        int64_t own = row_length(&node->inputs[input]->type.shape, axis);
        const struct sp_data *from = sp_in_data(context, input);
        if (own < 0 || offset + own > length || (is_real && (from == NULL || from->reals == NULL)))
            return SP_OK;
        bool is_usable = from != NULL && (from->reals != NULL) == is_real && from->count == rows * (uint64_t)own;
        for (uint32_t row = 0; is_usable && row < rows; row++) {
            for (uint32_t i = 0; i < own; i++)
                sp_data_copy(data, row * (uint32_t)length + offset + i, from, row * (uint32_t)own + i);
        }
        offset += (uint32_t)own;
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

static enum sp_status shapes_concat(struct sp_op_context *context)
{
    const struct sp_shape *shape = NULL;
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    int64_t given = 0;
    uint32_t axis = 0;
    enum sp_status status = concat_axis(context, &given);
    for (uint32_t input = 0; shape == NULL && input < context->node->input_count; input++)
        shape = sp_in_shape(context, input);
    if (status != SP_OK || shape == NULL)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    status = sp_normalize_axis(context, given, shape->rank, &axis);
    if (status == SP_OK)
        status = concat_dims(context, axis, shape->rank, dims);
    if (status == SP_OK)
        status = sp_set_output(context, 0, sp_in_dtype(context, 0), shape->rank, dims);
    return status != SP_OK ? status : concat_elements(context, axis);
}

/* Whether the pieces have one extent along the joined axis. */
static bool has_even_pieces(const struct sp_op_context *context, uint32_t joined)
{
    struct sp_dim first = sp_dim_unknown();
    for (uint32_t input = 0; input < context->node->input_count; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (shape == NULL)
            return false;
        if (input == 0)
            first = shape->dims[joined];
        if (!sp_dim_equal(shape->dims[joined], first))
            return false;
    }
    return true;
}

/* Pieces of one extent make the compound [piece, place]: cut along the places, they need not move. The shards of others
   do not line up with those of the result. */
static void map_joined(struct sp_op_context *context, struct sp_rule *rule, uint32_t joined)
{
    uint32_t pieces = context->node->input_count;
    if (has_even_pieces(context, joined)) {
        uint8_t piece = sp_rule_factor(rule, "piece", SP_FACTOR_REPLICATE, sp_dim_known(pieces));
        uint8_t place = sp_rule_input_axis(context, rule, 'd', 0, joined, SP_FACTOR_PARALLEL);
        if (pieces > 1)
            sp_rule_map_output(rule, 0, joined, piece);
        sp_rule_map_output(rule, 0, joined, place);
        for (uint32_t input = 1; input < pieces; input++)
            sp_rule_map_input(rule, input, joined, place);
        return;
    }
    uint8_t all = sp_factor_resized(rule, "j", SP_FACTOR_REPLICATE, context->node->outputs[0]->type.shape.dims[joined]);
    sp_rule_map_output(rule, 0, joined, all);
    for (uint32_t input = 0; input < pieces; input++) {
        if (context->node->inputs[input] != NULL)
            sp_rule_map_input(rule, input, joined, all);
    }
}

static enum sp_status rule_concat(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t rank = rule->outputs[0].rank, joined = 0;
    int64_t given = 0;
    enum sp_status status = concat_axis(context, &given);
    if (status == SP_OK)
        status = sp_normalize_axis(context, given, rank, &joined);
    for (uint32_t axis = 0; status == SP_OK && axis < rank; axis++) {
        if (axis == joined) {
            map_joined(context, rule, axis);
            continue;
        }
        uint8_t factor = sp_rule_output_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
        for (uint32_t input = 0; input < rule->input_count; input++) {
            if (context->node->inputs[input] != NULL)
                sp_rule_map_input(rule, input, axis, factor);
        }
    }
    const struct sp_shape *first = sp_in_shape(context, 0);
    if (status == SP_OK && first != NULL && rule->input_count > 1 && joined < first->rank) {
        /* The first piece with others behind it: a cache that grows. */
        sp_rule_use_input(rule, 0, 0, NULL);
        sp_rule_use_output(
            rule, 0, 1 - sp_dim_share(first->dims[joined], context->node->outputs[0]->type.shape.dims[joined]), NULL);
        sp_rule_past(context, rule, 0, 0);
    }
    return status;
}

/* ---- Split --------------------------------------------------------------------------------------------------- */

/* Extents of the outputs along the axis when no list gives them: equal parts, since opset 18 the last may be smaller.
 */
static enum sp_status split_evenly(struct sp_op_context *context, struct sp_dim extent, struct sp_dim *sizes)
{
    uint32_t outputs = context->node->output_count;
    int64_t parts = outputs;
    const struct sp_attribute *given = sp_node_attribute(context->node, "num_outputs");
    if (context->version >= 18 && given != NULL && given->type == SP_ATTR_INT) {
        parts = given->i;
        if (parts < outputs)
            return sp_op_fail(context, "CANNOT_SPLIT", "it has %u outputs but num_outputs is %lld", outputs,
                              (long long)parts);
    } else if (sp_dim_is_known(extent) && extent.value % parts != 0) {
        return sp_op_fail(context, "CANNOT_SPLIT", "%lld elements cannot be split into %lld equal parts",
                          (long long)extent.value, (long long)parts);
    }
    struct sp_dim chunk = sp_dim_exact_div(context->dims, extent, sp_dim_known(parts));
    bool is_even = context->version < 18 || chunk.kind != SP_DIM_UNKNOWN;
    if (chunk.kind == SP_DIM_UNKNOWN)
        chunk = is_even ? sp_dim_floordiv(context->dims, extent, sp_dim_known(parts))
                        : sp_dim_ceildiv(context->dims, extent, sp_dim_known(parts));
    for (uint32_t i = 0; i < outputs; i++)
        sizes[i] = chunk;
    if (!is_even && parts == outputs) {
        struct sp_dim before = sp_dim_mul(context->dims, chunk, sp_dim_known(parts - 1));
        sizes[outputs - 1] = sp_dim_sub(context->dims, extent, before);
    }
    return SP_OK;
}

static enum sp_status split_by_list(struct sp_op_context *context, struct sp_dim extent, const struct sp_list *list,
                                    struct sp_dim *sizes)
{
    struct sp_dim sum = sp_dim_known(0);
    if (list->has_count && list->count != context->node->output_count)
        return sp_op_fail(context, "CANNOT_SPLIT", "it has %u outputs but %u split sizes", context->node->output_count,
                          list->count);
    for (uint32_t i = 0; list->has_values && i < list->count; i++) {
        sizes[i] = list->values[i];
        if (sp_dim_is_known(sizes[i]) && sizes[i].value < 0)
            return sp_op_fail(context, "CANNOT_SPLIT", "a split size is %lld", (long long)sizes[i].value);
        sum = sp_dim_add(context->dims, sum, sizes[i]);
    }
    if (list->has_values && sp_dim_is_known(sum) && sp_dim_is_known(extent) && sum.value != extent.value)
        return sp_op_fail(context, "CANNOT_SPLIT", "the split sizes add up to %lld where the axis has %lld elements",
                          (long long)sum.value, (long long)extent.value);
    return SP_OK;
}

/* Split-1 takes the sizes either way; Split-2 and -11 as an attribute; since 13 they are an input. */
static enum sp_status get_split_list(struct sp_op_context *context, struct sp_list *ret_list)
{
    bool is_input = context->version >= 13 || (context->version == 1 && sp_has_input(context, 1));
    return sp_get_list(context, "split", is_input ? 1 : INT64_MAX, 1, ret_list);
}

static enum sp_status split_elements(struct sp_op_context *context, uint32_t axis)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    int64_t length = row_length(from, axis), offset = 0;
    if (length <= 0 || !sp_data_available(context, 0) || sp_in_data(context, 0) == NULL)
        return SP_OK;
    for (uint32_t output = 0; output < context->node->output_count; output++) {
        int64_t count = sp_data_room(context, output);
        if (count < 0)
            return SP_OK; /* an omitted output hides where the next one starts */
        int64_t own = row_length(&context->node->outputs[output]->type.shape, axis);
        uint32_t *index = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
        if (index == NULL)
            return sp_fail_memory(context->err);
        for (int64_t i = 0; i < count; i++)
            index[i] = (uint32_t)(i / own * length + offset + i % own);
        enum sp_status status = sp_data_pick(context, output, index, NULL);
        if (status != SP_OK)
            return status;
        offset += own;
    }
    return SP_OK;
}

static enum sp_status shapes_split(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    uint32_t outputs = context->node->output_count, axis = 0;
    struct sp_dim dims[SP_MAX_RANK];
    struct sp_list list = {0};
    enum sp_status status = get_split_list(context, &list);
    for (uint32_t output = 0; status == SP_OK && from == NULL && output < outputs; output++)
        status = sp_set_output_unranked(context, output, sp_in_dtype(context, 0));
    if (status != SP_OK || from == NULL)
        return status;
    status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), from->rank, &axis);
    if (status != SP_OK)
        return status;
    struct sp_dim *sizes = sp_new_dims(context, outputs);
    if (sizes == NULL)
        return sp_fail_memory(context->err);
    status = list.is_given ? split_by_list(context, from->dims[axis], &list, sizes)
                           : split_evenly(context, from->dims[axis], sizes);
    memcpy(dims, from->dims, from->rank * sizeof *dims);
    for (uint32_t output = 0; status == SP_OK && output < outputs; output++) {
        dims[axis] = sizes[output];
        status = sp_set_output(context, output, sp_in_dtype(context, 0), from->rank, dims);
    }
    return status != SP_OK ? status : split_elements(context, axis);
}

/* Parts of one extent are the compound [part, place] of the input: cut along the places, nothing moves. What is left of
   other parts does not line up with the shards of the input. */
static void map_parts(struct sp_op_context *context, struct sp_rule *rule, uint32_t cut)
{
    const struct sp_node *node = context->node;
    struct sp_dim whole = node->inputs[0]->type.shape.dims[cut], part = sp_dim_unknown(), sum = sp_dim_known(0);
    bool is_even = true;
    for (uint32_t output = 0; output < rule->output_count; output++) {
        struct sp_dim own = node->outputs[output] != NULL ? node->outputs[output]->type.shape.dims[cut] : part;
        part = output == 0 || part.kind == SP_DIM_UNKNOWN ? own : part;
        sum = sp_dim_add(context->dims, sum, own);
        is_even = is_even && sp_dim_equal(own, part);
    }
    if (!is_even || !sp_dim_equal(sum, whole)) {
        (void)sp_rule_input_axis(context, rule, 'j', 0, cut, SP_FACTOR_REPLICATE);
        return;
    }
    uint8_t piece = sp_rule_factor(rule, "piece", SP_FACTOR_REPLICATE, sp_dim_known(rule->output_count));
    char name[SP_FACTOR_NAME_SIZE];
    (void)snprintf(name, sizeof name, "d%u", cut);
    uint8_t place = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, part);
    if (rule->output_count > 1)
        sp_rule_map_input(rule, 0, cut, piece);
    sp_rule_map_input(rule, 0, cut, place);
    for (uint32_t output = 0; output < rule->output_count; output++) {
        if (node->outputs[output] != NULL)
            sp_rule_map_output(rule, output, cut, place);
    }
}

static enum sp_status rule_split(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t cut = 0;
    enum sp_status status =
        sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), rule->inputs[0].rank, &cut);
    bool is_ranked = true; /* a declaration may give a part that nothing is known of another rank */
    for (uint32_t output = 0; output < rule->output_count; output++)
        is_ranked =
            is_ranked && (context->node->outputs[output] == NULL || rule->outputs[output].rank == rule->inputs[0].rank);
    for (uint32_t axis = 0; status == SP_OK && is_ranked && axis < rule->inputs[0].rank; axis++) {
        if (axis == cut) {
            map_parts(context, rule, axis);
            continue;
        }
        uint8_t factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
        for (uint32_t output = 0; output < rule->output_count; output++) {
            if (context->node->outputs[output] != NULL)
                sp_rule_map_output(rule, output, axis, factor);
        }
    }
    rule->bytes = 2 * sp_input_bytes(context, 0); /* each element once; together the outputs are the input */
    return status;
}

/* ---- Transpose ----------------------------------------------------------------------------------------------- */

/* perm[i] is the input axis that becomes output axis i. */
static enum sp_status get_permutation(struct sp_op_context *context, uint32_t rank, uint32_t perm[SP_MAX_RANK])
{
    uint32_t count = 0;
    uint64_t seen = 0;
    bool is_given = sp_node_attribute(context->node, "perm") != NULL;
    const int64_t *given = sp_node_ints(context->node, "perm", &count);
    if (is_given && count != rank)
        return sp_op_fail(context, "WRONG_PERMUTATION", "perm has %u entries for a tensor with %u axes", count, rank);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t axis = is_given ? given[i] : (int64_t)(rank - 1 - i);
        if (axis < 0 || axis >= (int64_t)rank || (seen >> axis & 1))
            return sp_op_fail(context, "WRONG_PERMUTATION", "perm is no permutation of the %u axes", rank);
        seen |= (uint64_t)1 << axis;
        perm[i] = (uint32_t)axis;
    }
    return SP_OK;
}

static enum sp_status transpose_elements(struct sp_op_context *context, const uint32_t *perm)
{
    int64_t count = sp_data_room(context, 0);
    if (count < 0 || !sp_data_available(context, 0))
        return SP_OK;
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    struct sp_walk walk;
    uint64_t strides[SP_MAX_RANK], stride = 1;
    for (uint32_t axis = from->rank; axis-- > 0; stride *= (uint64_t)from->dims[axis].value)
        strides[axis] = stride;
    sp_walk_init(&walk, to);
    for (uint32_t axis = 0; axis < to->rank; axis++)
        walk.strides[axis] = strides[perm[axis]];
    const uint32_t *index = sp_walk_indices(context, &walk, count);
    return index == NULL ? sp_fail_memory(context->err) : sp_data_pick(context, 0, index, NULL);
}

static enum sp_status shapes_transpose(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    uint32_t perm[SP_MAX_RANK], count = 0;
    if (from == NULL) {
        (void)sp_node_ints(context->node, "perm", &count);
        if (count == 0 || count > SP_MAX_RANK)
            return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
        return sp_set_output(context, 0, sp_in_dtype(context, 0), count, dims);
    }
    enum sp_status status = get_permutation(context, from->rank, perm);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < from->rank; i++)
        dims[i] = from->dims[perm[i]];
    status = sp_set_output(context, 0, sp_in_dtype(context, 0), from->rank, dims);
    return status != SP_OK ? status : transpose_elements(context, perm);
}

static enum sp_status rule_transpose(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t perm[SP_MAX_RANK] = {0};
    enum sp_status status = get_permutation(context, rule->inputs[0].rank, perm);
    uint32_t rank = rule->inputs[0].rank;
    for (uint32_t axis = 0; status == SP_OK && axis < rank; axis++)
        (void)sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
    for (uint32_t i = 0; status == SP_OK && i < rank; i++)
        sp_rule_map_output(rule, 0, i, (uint8_t)perm[i]); /* factor k is input axis k */
    return status;
}

/* ---- Tile ---------------------------------------------------------------------------------------------------- */

/* Tile-1 repeats one axis, given by two scalar inputs; Tile-6 has a repeat for each axis. */
static enum sp_status get_repeats(struct sp_op_context *context, uint32_t rank, struct sp_dim *repeats)
{
    if (context->version < 6) {
        struct sp_list tiles = {0}, axis = {0};
        uint32_t index = 0;
        enum sp_status status = sp_get_list(context, "tiles", 1, 1, &tiles);
        if (status == SP_OK)
            status = sp_get_list(context, "axis", 1, 2, &axis);
        if (status != SP_OK || !tiles.is_known || !axis.is_known || tiles.count != 1 || axis.count != 1)
            return status; /* then only the rank is known */
        status = sp_normalize_axis(context, axis.values[0].value, rank, &index);
        if (status != SP_OK)
            return status;
        for (uint32_t i = 0; i < rank; i++)
            repeats[i] = i == index ? tiles.values[0] : sp_dim_known(1);
        return SP_OK;
    }
    struct sp_list list = {0};
    enum sp_status status = sp_get_list(context, "repeats", 6, 1, &list);
    if (status != SP_OK)
        return status;
    if (list.has_count && list.count != rank)
        return sp_op_fail(context, "SHAPES_DISAGREE", "it has %u repeats for a tensor with %u axes", list.count, rank);
    for (uint32_t i = 0; list.has_values && i < rank; i++)
        repeats[i] = list.values[i];
    return SP_OK;
}

static enum sp_status tile_elements(struct sp_op_context *context)
{
    int64_t count = sp_data_room(context, 0);
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    if (count < 0 || !sp_data_available(context, 0) || sp_shape_elements(from) < 0)
        return SP_OK;
    uint32_t *index = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
    if (index == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t rest = i, position = 0, stride = 1;
        for (uint32_t axis = to->rank; axis-- > 0;) {
            uint64_t extent = (uint64_t)to->dims[axis].value, own = (uint64_t)from->dims[axis].value;
            position += rest % extent % own * stride;
            rest /= extent;
            stride *= own;
        }
        index[i] = (uint32_t)position;
    }
    return sp_data_pick(context, 0, index, NULL);
}

static enum sp_status shapes_tile(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    if (from == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    enum sp_status status = get_repeats(context, from->rank, dims);
    for (uint32_t i = 0; i < from->rank; i++)
        dims[i] = sp_dim_mul(context->dims, from->dims[i], dims[i]);
    if (status == SP_OK)
        status = sp_set_output(context, 0, sp_in_dtype(context, 0), from->rank, dims);
    return status != SP_OK ? status : tile_elements(context);
}

/* A repeated axis is the compound [copy, place]: the copies may be anywhere, and the places follow the input. */
static enum sp_status rule_tile(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    struct sp_dim repeats[SP_MAX_RANK] = {{0}};
    enum sp_status status = get_repeats(context, from->rank, repeats);
    for (uint32_t axis = 0; status == SP_OK && axis < to->rank; axis++) {
        bool is_same = sp_dim_equal(from->dims[axis], to->dims[axis]);
        struct sp_dim product = sp_dim_mul(context->dims, from->dims[axis], repeats[axis]);
        if (!is_same && !(sp_dim_equal(product, to->dims[axis]) && product.kind != SP_DIM_UNKNOWN)) {
            (void)sp_rule_input_axis(context, rule, 'i', 0, axis, SP_FACTOR_REPLICATE);
            (void)sp_rule_output_axis(context, rule, 'o', 0, axis, SP_FACTOR_REPLICATE);
            continue;
        }
        uint8_t place = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
        if (!is_same) {
            char name[SP_FACTOR_NAME_SIZE];
            (void)snprintf(name, sizeof name, "r%u", axis);
            sp_rule_map_output(rule, 0, axis, sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, repeats[axis]));
        }
        sp_rule_map_output(rule, 0, axis, place);
    }
    return status;
}

const struct sp_op sp_ops_movement[] = {
    SP_ENTRY("", "Concat", 1, 0, 1, UINT32_MAX, 1, 1,
             "[d.., i] [d.., i].. -> [d.., piece*i]; pieces whole, of other extents i too",
             "ONNX Operators.md, Concat-1 to Concat-13", .shapes = shapes_concat, .rule = rule_concat),
    SP_ENTRY("", "Split", 1, 1, 1, 2, 1, UINT32_MAX,
             "[d.., piece*i] -> [d.., i] [d.., i]..; pieces whole, of other extents i too",
             "ONNX Operators.md, Split-1", .shapes = shapes_split, .rule = rule_split, .lower = sp_lower_node_split),
    SP_ENTRY("", "Split", 2, 12, 1, 1, 1, UINT32_MAX,
             "[d.., piece*i] -> [d.., i] [d.., i]..; pieces whole, of other extents i too",
             "ONNX Operators.md, Split-2, Split-11", .shapes = shapes_split, .rule = rule_split,
             .lower = sp_lower_node_split),
    SP_ENTRY("", "Split", 13, 0, 1, 2, 1, UINT32_MAX,
             "[d.., piece*i] [_] -> [d.., i] [d.., i]..; pieces whole, of other extents i too",
             "ONNX Operators.md, Split-13, Split-18", .shapes = shapes_split, .rule = rule_split,
             .lower = sp_lower_node_split),
    SP_ENTRY("", "Transpose", 1, 0, 1, 1, 1, 1, "[a, b, c] -> [c, b, a]",
             "ONNX Operators.md, Transpose-1 to Transpose-25", .flags = SP_OP_PERMUTES, .shapes = shapes_transpose,
             .rule = rule_transpose),
    SP_ENTRY("", "Tile", 1, 5, 3, 3, 1, 1, "[d.., i] [] [] -> [d.., r*i]; i whole where r is not known",
             "ONNX Operators.md, Tile-1", .shapes = shapes_tile, .rule = rule_tile, .lower = sp_lower_node_tile),
    SP_ENTRY("", "Tile", 6, 0, 2, 2, 1, 1, "[d.., i] [_] -> [d.., r*i]; i whole where r is not known",
             "ONNX Operators.md, Tile-6, Tile-13", .shapes = shapes_tile, .rule = rule_tile,
             .lower = sp_lower_node_tile),
    {.name = NULL},
};
