/*
 * DeformConv: a convolution that reads its input at places which another input moves.
 *
 *     x [n, g*o*c, i..]  w [g*m, o*c, kh, kw]  offset [n, g*o*kh*kw*2, h..]  b [g*m]  mask [n, g*o*kh*kw, h..]
 *         -> y [n, g*m, h..]                                                o, c, kh, kw sum; i.. whole
 *
 * The offset groups o divide the input channels as the groups g do. Where one number divides the other, the channels
 * are [g, o, c] or (more groups than offset groups) g is [o, g]; else the channels stay whole.
 *
 * FLOPs, 1 multiply-add = 2: 2 * n * g*m * places * o*c * taps as Conv, and 8 for each element that is read between
 * four others (n * channels * places * taps), 1 more with a mask; 1 for each output element with a bias.
 */

#include "base/limits.h"
#include "ops/families/neural/window.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

enum { IN_X, IN_W, IN_OFFSET, IN_B, IN_MASK };

struct groups {
    int64_t group, offset_group;
};

static enum sp_status read_groups(struct sp_op_context *context, struct groups *ret_groups)
{
    struct groups groups = {sp_node_int(context->node, "group", 1), sp_node_int(context->node, "offset_group", 1)};
    if (groups.group < 1 || groups.offset_group < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attributes 'group' and 'offset_group' must be positive");
    *ret_groups = groups;
    return SP_OK;
}

/* ---- shapes --------------------------------------------------------------------------------------------------- */

static enum sp_status check_divides(struct sp_op_context *context, const char *what, struct sp_dim extent,
                                    int64_t divisor)
{
    if (sp_dim_is_known(extent) && extent.value % divisor != 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its %lld %s do not divide into %lld groups",
                          (long long)extent.value, what, (long long)divisor);
    return SP_OK;
}

static enum sp_status check_channels(struct sp_op_context *context, const struct groups *groups)
{
    const struct sp_shape *x = sp_in_shape(context, IN_X), *w = sp_in_shape(context, IN_W);
    struct sp_dim ignored;
    enum sp_status status = SP_OK;
    if (x != NULL)
        status = check_divides(context, "channels", x->dims[1], groups->group);
    if (status == SP_OK && x != NULL)
        status = check_divides(context, "channels", x->dims[1], groups->offset_group);
    if (status == SP_OK && w != NULL)
        status = check_divides(context, "output channels", w->dims[0], groups->group);
    if (status == SP_OK && x != NULL && w != NULL)
        status = sp_join_dims(context, sp_dim_mul(context->dims, w->dims[1], sp_dim_known(groups->group)), x->dims[1],
                              &ignored);
    return status;
}

/* The moved places are those of the output: an extent that either of them tells. */
static enum sp_status join_places(struct sp_op_context *context, uint32_t rank, struct sp_dim *dims)
{
    static const uint32_t inputs[] = {IN_OFFSET, IN_MASK};
    for (uint32_t i = 0; i < 2; i++) {
        const struct sp_shape *shape = sp_in_shape(context, inputs[i]);
        for (uint32_t axis = 2; shape != NULL && axis < rank; axis++) {
            enum sp_status status = sp_join_dims(context, dims[axis], shape->dims[axis], &dims[axis]);
            if (status != SP_OK)
                return status;
        }
    }
    return SP_OK;
}

static enum sp_status shapes_deform_conv(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, IN_X), *w = sp_in_shape(context, IN_W);
    const struct sp_shape *ranked = x != NULL ? x : w;
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    struct sp_window window;
    struct groups groups = {1, 1};
    enum sp_status status = read_groups(context, &groups);
    if (status != SP_OK)
        return status;
    if (ranked == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, IN_X));
    if (ranked->rank < 3)
        return sp_op_fail(context, "OPERAND_SHAPE", "the input has rank %u, and a convolution needs at least 3",
                          ranked->rank);
    static const uint32_t inputs[] = {IN_W, IN_OFFSET, IN_MASK};
    for (uint32_t i = 0; status == SP_OK && i < 3; i++)
        status = sp_check_rank(context, inputs[i], ranked->rank);
    if (status == SP_OK)
        status = sp_check_rank(context, IN_B, 1);
    if (status == SP_OK)
        status = check_channels(context, &groups);
    if (status == SP_OK)
        status = sp_window_read(context, ranked->rank - 2, w, &window);
    if (status != SP_OK)
        return status;
    dims[0] = x != NULL ? x->dims[0] : sp_dim_unknown();
    dims[1] = w != NULL ? w->dims[0] : sp_dim_unknown();
    for (uint32_t i = 0; status == SP_OK && x != NULL && i < window.rank; i++)
        status = sp_window_extent(context, &window, i, x->dims[2 + i], &dims[2 + i]);
    if (status == SP_OK)
        status = join_places(context, ranked->rank, dims);
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, IN_X), ranked->rank, dims);
}

/* ---- the rule ------------------------------------------------------------------------------------------------- */

/* The factors of the channels: up to two for the groups and two within one, and which of them are the offset groups. */
struct channels {
    bool is_aligned;
    uint32_t group_count, inner_count, offset_count;
    uint8_t group[2], inner[2], offset[2], outer;
};

static uint8_t group_factor(struct sp_rule *rule, const char *name, int64_t extent, struct channels *channels)
{
    uint8_t factor = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, sp_dim_known(extent));
    channels->group[channels->group_count++] = factor;
    return factor;
}

static void add_offset(struct channels *channels, uint8_t factor)
{
    channels->offset[channels->offset_count++] = factor;
}

static struct channels channel_factors(struct sp_op_context *context, struct sp_rule *rule, const struct groups *groups)
{
    const struct sp_shape *w = sp_in_shape(context, IN_W);
    int64_t group = groups->group, offset = groups->offset_group;
    struct channels channels = {.is_aligned = group % offset == 0 || offset % group == 0};
    struct sp_dim inner = w->dims[1];
    if (!channels.is_aligned) {
        add_offset(&channels, sp_rule_factor(rule, "o", SP_FACTOR_REPLICATE, sp_dim_known(offset)));
        channels.inner[channels.inner_count++] = sp_rule_factor(rule, "c", SP_FACTOR_REPLICATE, inner);
        channels.outer = sp_rule_factor(rule, "m", SP_FACTOR_REPLICATE, w->dims[0]);
        return channels;
    }
    if (offset > 1 && group % offset == 0) /* some groups share their offsets: [o, g] */
        add_offset(&channels, group_factor(rule, "o", offset, &channels));
    if (group > offset) {
        (void)group_factor(rule, "g", group / offset, &channels);
    } else if (offset > group) { /* a group has several offset groups: [g, o] */
        int64_t share = offset / group;
        if (group > 1)
            add_offset(&channels, group_factor(rule, "g", group, &channels));
        uint8_t factor = sp_factor_reduction(rule, "o", sp_dim_known(share), SP_COMBINE_SUM);
        add_offset(&channels, factor);
        channels.inner[channels.inner_count++] = factor;
        inner = sp_dim_exact_div(context->dims, inner, sp_dim_known(share));
    }
    channels.inner[channels.inner_count++] = sp_factor_reduction(rule, "c", inner, SP_COMBINE_SUM);
    channels.outer =
        sp_rule_factor(rule, "m", SP_FACTOR_PARALLEL, sp_dim_exact_div(context->dims, w->dims[0], sp_dim_known(group)));
    return channels;
}

static void map_list(struct sp_rule *rule, bool is_input, uint32_t operand, uint32_t axis, uint32_t count,
                     const uint8_t *factors)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_input)
            sp_rule_map_input(rule, operand, axis, factors[i]);
        else
            sp_rule_map_output(rule, operand, axis, factors[i]);
    }
}

static void map_channels(struct sp_op_context *context, struct sp_rule *rule, const struct channels *channels)
{
    if (channels->is_aligned) {
        map_list(rule, true, IN_X, 1, channels->group_count, channels->group);
        map_list(rule, true, IN_X, 1, channels->inner_count, channels->inner);
    } else {
        (void)sp_rule_input_axis(context, rule, 'x', IN_X, 1, SP_FACTOR_REPLICATE);
    }
    map_list(rule, true, IN_W, 0, channels->group_count, channels->group);
    sp_rule_map_input(rule, IN_W, 0, channels->outer);
    map_list(rule, true, IN_W, 1, channels->inner_count, channels->inner);
    map_list(rule, false, 0, 1, channels->group_count, channels->group);
    sp_rule_map_output(rule, 0, 1, channels->outer);
    if (sp_has_input(context, IN_B)) {
        map_list(rule, true, IN_B, 0, channels->group_count, channels->group);
        sp_rule_map_input(rule, IN_B, 0, channels->outer);
    }
}

/* The factors of the spatial axes: places of the output and taps of the weight. */
struct places {
    struct sp_factor_list place, tap;
};

static void map_places(struct sp_op_context *context, struct sp_rule *rule, struct places *places)
{
    const struct sp_shape *w = sp_in_shape(context, IN_W), *y = &context->node->outputs[0]->type.shape;
    for (uint32_t axis = 2; axis < y->rank; axis++) {
        char name[SP_FACTOR_NAME_SIZE];
        (void)sp_rule_input_axis(context, rule, 'i', IN_X, axis, SP_FACTOR_REPLICATE);
        sp_window_axis_name(name, "", y->rank - 2, axis - 2);
        uint8_t place = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, y->dims[axis]);
        sp_window_axis_name(name, "k", y->rank - 2, axis - 2);
        uint8_t tap = sp_factor_reduction(rule, name, w->dims[axis], SP_COMBINE_SUM);
        sp_rule_map_input(rule, IN_W, axis, tap);
        sp_rule_map_output(rule, 0, axis, place);
        sp_factor_list_add(&places->place, place);
        sp_factor_list_add(&places->tap, tap);
    }
}

/* Offset or mask: [n, groups*taps.., places..], the offset with a coordinate for each spatial axis behind the taps. */
static void map_moved(struct sp_op_context *context, struct sp_rule *rule, uint32_t input, uint8_t n,
                      const struct channels *channels, const struct places *places)
{
    if (!sp_has_input(context, input))
        return;
    sp_rule_map_input(rule, input, 0, n);
    map_list(rule, true, input, 1, channels->offset_count, channels->offset);
    map_list(rule, true, input, 1, places->tap.count, places->tap.items);
    if (input == IN_OFFSET)
        sp_rule_map_input(rule, input, 1,
                          sp_rule_factor(rule, "xy", SP_FACTOR_REPLICATE, sp_dim_known(places->tap.count)));
    for (uint32_t i = 0; i < places->place.count; i++)
        sp_rule_map_input(rule, input, 2 + i, places->place.items[i]);
}

static enum sp_status rule_deform_conv(struct sp_op_context *context, struct sp_rule *rule)
{
    struct sp_factor_list work, reads = {0};
    struct places places = {0};
    struct groups groups = {1, 1};
    enum sp_status status = read_groups(context, &groups);
    if (status != SP_OK)
        return status;
    uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, sp_in_shape(context, IN_X)->dims[0]);
    struct channels channels = channel_factors(context, rule, &groups);
    sp_rule_map_input(rule, IN_X, 0, n);
    sp_rule_map_output(rule, 0, 0, n);
    map_channels(context, rule, &channels);
    map_places(context, rule, &places);
    map_moved(context, rule, IN_OFFSET, n, &channels, &places);
    map_moved(context, rule, IN_MASK, n, &channels, &places);
    sp_factor_list_add(&reads, n);
    for (uint32_t i = 0; i < places.place.count; i++) {
        sp_factor_list_add(&reads, places.place.items[i]);
        sp_factor_list_add(&reads, places.tap.items[i]);
    }
    for (uint32_t i = 0; i < channels.group_count; i++)
        sp_factor_list_add(&reads, channels.group[i]);
    for (uint32_t i = 0; i < channels.inner_count; i++)
        sp_factor_list_add(&reads, channels.inner[i]);
    work = reads;
    sp_factor_list_add(&work, channels.outer);
    sp_rule_term_list(rule, 2, &work);
    sp_rule_term_list(rule, sp_has_input(context, IN_MASK) ? 9 : 8, &reads);
    if (sp_has_input(context, IN_B))
        sp_rule_term_output(rule, 1);
    return SP_OK;
}

const struct sp_op sp_ops_deformable[] = {
    SP_ENTRY("", "DeformConv", 19, 0, 3, 5, 1, 1,
             "[n, g*o*c, i..] [g*m, o*c, kh..] [n, o*t, h..] [g*m] [n, o*t, h..] -> [n, g*m, h..]; o, c, kh.. sum, i.. "
             "whole",
             "ONNX operator DeformConv (19, 22)", .shapes = shapes_deform_conv, .rule = rule_deform_conv,
             .lower = sp_lower_deform_conv),
    {.name = NULL},
};
