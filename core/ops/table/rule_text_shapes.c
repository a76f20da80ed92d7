/* Extents of factors from the inputs of a node, and the types of outputs that follow from a text. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/table/rule_text_internal.h"
#include "ops/table/shape_helpers.h"

#define MAX_FORM_TEXT 1024

/* What the inputs say of the factors. */
struct extents {
    struct sp_op_context *context;
    const struct sp_rule_text *text;
    struct {
        bool is_held, is_missing; /* some input has an axis for it; one lacks it */
        bool is_hidden;           /* an input that has it is of unknown rank */
        struct sp_dim extent;
        uint32_t length; /* of a group */
        struct sp_dim *members;
    } factors[SP_TEXT_MAX_FACTORS];
};

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* Joins an axis to what is known of its factor; 1 gives way, as in broadcasts. */
static enum sp_status join(struct extents *extents, const char *name, struct sp_dim axis, struct sp_dim *known)
{
    if (axis.kind == SP_DIM_UNKNOWN || sp_dim_is(axis, 1)) {
        if (known->kind == SP_DIM_UNKNOWN)
            *known = axis;
        return SP_OK;
    }
    if (known->kind == SP_DIM_UNKNOWN || sp_dim_is(*known, 1)) {
        *known = axis;
        return SP_OK;
    }
    if (sp_dim_is_known(axis) && sp_dim_is_known(*known) && axis.value != known->value)
        return sp_op_fail(extents->context, "OPERAND_SHAPE", "its inputs give '%s' %lld and %lld elements", name,
                          (long long)known->value, (long long)axis.value);
    if (sp_dim_is_known(axis))
        *known = axis;
    return SP_OK;
}

static enum sp_status join_group(struct extents *extents, uint8_t factor, uint32_t length, const struct sp_dim *dims)
{
    uint32_t old = extents->factors[factor].length;
    if (length == 0)
        return SP_OK;
    if (length > old) { /* aligned at the right */
        struct sp_dim *members = sp_new_dims(extents->context, length);
        if (members == NULL)
            return sp_fail_memory(extents->context->err);
        if (old > 0)
            memcpy(members + length - old, extents->factors[factor].members, old * sizeof *members);
        extents->factors[factor].members = members;
        extents->factors[factor].length = length;
    }
    struct sp_dim *members = extents->factors[factor].members + (extents->factors[factor].length - length);
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < length; i++)
        status = join(extents, extents->text->factors[factor].name, dims[i], &members[i]);
    return status;
}

static enum sp_status take_axis(struct extents *extents, const struct sp_text_axis *axis, uint32_t width,
                                const struct sp_dim *dims)
{
    for (uint32_t k = 0; k < axis->count; k++)
        extents->factors[axis->factors[k]].is_held = true;
    if (axis->is_group)
        return axis->count == 0 ? SP_OK : join_group(extents, axis->factors[0], width, dims);
    if (axis->count == 0 && axis->extent > 0 && sp_dim_is_known(dims[0]) && dims[0].value != axis->extent)
        return sp_op_fail(extents->context, "OPERAND_SHAPE", "it has an axis of %lld elements that must have %lld",
                          (long long)dims[0].value, (long long)axis->extent);
    if (axis->count != 1)
        return SP_OK;
    uint8_t factor = axis->factors[0];
    return join(extents, extents->text->factors[factor].name, dims[0], &extents->factors[factor].extent);
}

typedef enum sp_status take(struct extents *extents, const struct sp_text_axis *axis, uint32_t width,
                            const struct sp_dim *dims);

static enum sp_status walk_input(struct extents *extents, uint32_t input, take *visit)
{
    const struct sp_text_operand *operand = sp_text_operand_of(extents->text, false, input);
    const struct sp_shape *shape = sp_in_shape(extents->context, input);
    bool is_left_out[SP_TEXT_MAX_AXES] = {false};
    uint32_t axes = 0, groups = 0, at = 0;
    enum sp_status status = SP_OK;
    if (operand == NULL || !sp_has_input(extents->context, input))
        return SP_OK;
    for (uint32_t i = 0; shape == NULL && i < operand->count; i++)
        for (uint32_t k = 0; k < operand->axes[i].count; k++)
            extents->factors[operand->axes[i].factors[k]].is_hidden = true;
    if (shape == NULL)
        return SP_OK;
    uint32_t length = sp_text_lay_out(extents->text, operand, shape->rank, is_left_out);
    for (uint32_t i = 0; i < operand->count; i++) {
        groups += operand->axes[i].is_group;
        axes += !operand->axes[i].is_group && !is_left_out[i];
    }
    if (groups == 0 && operand->count > 0 && axes != shape->rank)
        return sp_op_fail(extents->context, "OPERAND_SHAPE", "its input %u has rank %u instead of %u", input,
                          shape->rank, axes);
    for (uint32_t i = 0; status == SP_OK && i < operand->count; i++) {
        uint32_t width = is_left_out[i] ? 0 : operand->axes[i].is_group ? length : 1;
        if (is_left_out[i] && operand->axes[i].count == 1)
            extents->factors[operand->axes[i].factors[0]].is_missing = true;
        if (!is_left_out[i])
            status = visit(extents, &operand->axes[i], width, shape->dims + at);
        at += width;
    }
    return status;
}

/* Of an axis of several factors the one whose extent is open has what the others leave. */
static enum sp_status divide_axis(struct extents *extents, const struct sp_text_axis *axis, uint32_t width,
                                  const struct sp_dim *dims)
{
    uint32_t open = SP_TEXT_MAX_FACTORS, opens = 0;
    if (axis->is_group || axis->count < 2 || width == 0 || sp_dim_is(dims[0], 1)) /* 1 is broadcast */
        return SP_OK;
    struct sp_dim rest = dims[0];
    for (uint32_t k = 0; k < axis->count; k++) {
        struct sp_dim extent = extents->factors[axis->factors[k]].extent;
        if (extent.kind == SP_DIM_UNKNOWN) {
            open = axis->factors[k];
            opens++;
            continue;
        }
        if (sp_dim_is_known(rest) && sp_dim_is_known(extent) && (extent.value == 0 || rest.value % extent.value != 0))
            return sp_op_fail(extents->context, "OPERAND_SHAPE", "%lld elements do not divide into %lld of '%s'",
                              (long long)rest.value, (long long)extent.value,
                              extents->text->factors[axis->factors[k]].name);
        rest = sp_dim_exact_div(extents->context->dims, rest, extent);
    }
    if (opens == 1)
        extents->factors[open].extent = rest;
    else if (opens == 0 && sp_dim_is_known(rest) && rest.value != 1)
        return sp_op_fail(extents->context, "OPERAND_SHAPE", "it has an axis of %lld elements that does not fit",
                          (long long)dims[0].value);
    return SP_OK;
}

/* ---- equations -------------------------------------------------------------------------------------------------- */

static enum sp_status resolve(void *context, const char *name, int64_t index, struct sp_dim otherwise,
                              struct sp_dim *ret_extent)
{
    struct extents *extents = context;
    for (uint8_t i = 0; i < extents->text->factor_count; i++) {
        if (strcmp(extents->text->factors[i].name, name) == 0) {
            *ret_extent = extents->factors[i].extent;
            return SP_OK;
        }
    }
    const struct sp_node *node = extents->context->node;
    const struct sp_attribute *attribute = sp_node_attribute(node, name);
    uint32_t count = 0;
    const int64_t *list = index < 0 ? NULL : sp_node_ints(node, name, &count);
    if (list != NULL && index < (int64_t)count)
        *ret_extent = sp_dim_known(list[index]);
    else if (index < 0 && attribute != NULL && attribute->type == SP_ATTR_INT)
        *ret_extent = sp_dim_known(sp_node_int(node, name, 0));
    else if (attribute == NULL && otherwise.kind != SP_DIM_UNKNOWN)
        *ret_extent = otherwise;
    else
        return sp_op_fail(extents->context, "ATTRIBUTE_MISSING", "attribute '%s' must give an integer", name);
    return SP_OK;
}

/* What an equation says of the factor of its left side that is open; a single one is joined. */
static enum sp_status take_equation(struct extents *extents, const struct sp_text_equation *equation)
{
    struct sp_text_axis left = {.count = equation->count};
    struct sp_dim value = sp_dim_unknown();
    const char *name = extents->text->factors[equation->factors[0]].name;
    memcpy(left.factors, equation->factors, sizeof left.factors);
    enum sp_status status = sp_text_evaluate(equation->expression, extents->context->dims, resolve, extents, &value);
    if (status == SP_OK && sp_dim_is_known(value) && value.value < 0)
        return sp_op_fail(extents->context, "OPERAND_SHAPE", "'%s' would have %lld elements", name,
                          (long long)value.value);
    if (status != SP_OK)
        return status;
    return equation->count == 1 ? join(extents, name, value, &extents->factors[equation->factors[0]].extent)
                                : divide_axis(extents, &left, 1, &value);
}

static enum sp_status solve(struct extents *extents)
{
    uint32_t inputs = extents->context->node->input_count;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < inputs; i++)
        status = walk_input(extents, i, take_axis);
    for (uint32_t round = 0; round < 2; round++) { /* what one leaves open another one may tell */
        for (uint32_t i = 0; status == SP_OK && i < extents->text->equation_count; i++)
            status = take_equation(extents, &extents->text->equations[i]);
        for (uint32_t i = 0; status == SP_OK && i < inputs; i++)
            status = walk_input(extents, i, divide_axis);
    }
    return status;
}

/* Whether an operand that may be there has the factor. */
static bool is_wanted(const struct extents *extents, uint32_t factor)
{
    const struct sp_rule_text *text = extents->text;
    bool is_found = extents->factors[factor].is_held;
    for (uint32_t i = 0; i < text->output_count; i++)
        for (uint32_t axis = 0; axis < text->outputs[i].count; axis++)
            for (uint32_t k = 0; k < text->outputs[i].axes[axis].count; k++)
                is_found = is_found || text->outputs[i].axes[axis].factors[k] == factor;
    return is_found;
}

enum sp_status sp_text_extents(struct sp_op_context *context, const struct sp_rule_text *text,
                               struct sp_text_size ret_sizes[SP_TEXT_MAX_FACTORS], uint32_t *ret_count)
{
    struct extents extents = {.context = context, .text = text};
    enum sp_status status = solve(&extents);
    uint32_t count = 0;
    for (uint32_t i = 0; status == SP_OK && i < text->factor_count; i++)
        if (!text->factors[i].is_group && extents.factors[i].extent.kind != SP_DIM_UNKNOWN && is_wanted(&extents, i))
            ret_sizes[count++] = (struct sp_text_size){text->factors[i].name, extents.factors[i].extent};
    *ret_count = count;
    return status;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

/* The word of this number in the list, or the last one. */
static const char *word_of(const char *words, uint32_t number, size_t *ret_length)
{
    for (;;) {
        size_t length = strcspn(words, " ");
        if (number-- == 0 || words[length] == '\0') {
            *ret_length = length;
            return words;
        }
        words += length + 1;
    }
}

static enum sp_status element_type(struct sp_op_context *context, uint32_t output, enum sp_dtype *ret_dtype)
{
    const char *types = context->node->op->types;
    char word[64];
    size_t length;
    if (types == NULL)
        types = "0";
    types = word_of(types, output, &length);
    if (length >= sizeof word)
        length = sizeof word - 1;
    memcpy(word, types, length);
    word[length] = '\0';
    if (word[0] == '=')
        return sp_get_dtype(context, word + 1, SP_DTYPE_FLOAT, ret_dtype);
    *ret_dtype = word[0] >= '0' && word[0] <= '9' ? sp_in_dtype(context, (uint32_t)strtoul(word, NULL, 10))
                                                  : sp_dtype_parse(word);
    return SP_OK;
}

/* The extent of a factor; one that nothing tells depends on the data, and gets a symbol that its outputs share. */
static struct sp_dim extent_of(struct extents *extents, uint8_t factor)
{
    const struct sp_rule_text *text = extents->text;
    bool is_told = extents->factors[factor].is_held || extents->factors[factor].is_hidden;
    for (uint32_t i = 0; i < text->equation_count; i++)
        for (uint32_t k = 0; k < text->equations[i].count; k++)
            is_told = is_told || text->equations[i].factors[k] == factor;
    if (!is_told && extents->factors[factor].extent.kind == SP_DIM_UNKNOWN)
        extents->factors[factor].extent =
            sp_dim_fresh(extents->context->dims, extents->context->node->op_type, sp_dim_unknown());
    return extents->factors[factor].extent;
}

static struct sp_dim axis_extent(struct extents *extents, const struct sp_text_axis *axis)
{
    struct sp_dims *dims = extents->context->dims;
    if (axis->count == 0)
        return axis->is_open ? sp_dim_fresh(dims, extents->context->node->op_type, sp_dim_unknown())
                             : sp_dim_known(axis->extent);
    struct sp_dim product = extent_of(extents, axis->factors[0]);
    for (uint32_t k = 1; k < axis->count; k++)
        product = sp_dim_mul(dims, product, extent_of(extents, axis->factors[k]));
    return product;
}

static enum sp_status set_output(struct extents *extents, uint32_t output)
{
    struct sp_op_context *context = extents->context;
    const struct sp_text_operand *operand = sp_text_operand_of(extents->text, true, output);
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    uint32_t rank = 0;
    enum sp_status status = element_type(context, output, &dtype);
    if (status != SP_OK || operand == NULL)
        return status;
    for (uint32_t i = 0; i < operand->count; i++) {
        const struct sp_text_axis *axis = &operand->axes[i];
        if (axis->is_group && (axis->count == 0 || extents->factors[axis->factors[0]].is_hidden))
            return sp_set_output_unranked(context, output, dtype);
        rank += axis->is_group ? extents->factors[axis->factors[0]].length : 1;
    }
    struct sp_dim *dims = sp_new_dims(context, rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    rank = 0;
    for (uint32_t i = 0; i < operand->count; i++) {
        const struct sp_text_axis *axis = &operand->axes[i];
        for (uint32_t k = 0; axis->is_group && k < extents->factors[axis->factors[0]].length; k++)
            dims[rank++] = extents->factors[axis->factors[0]].members[k];
        bool is_left_out = axis->count == 1 && extents->factors[axis->factors[0]].is_missing &&
                           !extents->factors[axis->factors[0]].is_held;
        if (!axis->is_group && !is_left_out)
            dims[rank++] = axis_extent(extents, axis);
    }
    return sp_set_output(context, output, dtype, rank, dims);
}

static enum sp_status set_outputs(struct sp_op_context *context, const struct sp_rule_text *text)
{
    struct extents extents = {.context = context, .text = text};
    enum sp_status status = solve(&extents);
    for (uint32_t i = 0; status == SP_OK && i < context->node->output_count; i++)
        status = set_output(&extents, i);
    return status;
}

enum sp_status sp_shapes_from_text(struct sp_op_context *context)
{
    struct sp_rule_text room;
    const struct sp_rule_text *text = sp_rule_text_of(context, context->node->op, &room);
    if (text == NULL)
        return sp_fail(context->err, SP_ERR_INTERNAL, "BROKEN_RULE", "The text of %s is not a rule.",
                       context->node->op->name);
    return set_outputs(context, text);
}

enum sp_status sp_shapes_by_text(struct sp_op_context *context, const char *text)
{
    struct sp_rule_text read;
    if (!sp_rule_text_parse(text, &read))
        return sp_fail(context->err, SP_ERR_INTERNAL, "BROKEN_RULE", "The text '%s' is not a rule.", text);
    return set_outputs(context, &read);
}

const char *sp_form_text(struct sp_op_context *context, const char *format, ...)
{
    char text[MAX_FORM_TEXT];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(length > 0 && (size_t)length < sizeof text);
    return sp_arena_string(context->arena, text, (size_t)length);
}
