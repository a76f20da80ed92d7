/* casting - operators that change the element type only. */
#include <ctype.h>
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"

/* Cast-1 names the type by its TensorProto name, "FLOAT"; since Cast-6 it is the number. */
static enum sp_status target_type(struct sp_op_context *context, enum sp_dtype *ret_dtype)
{
    const struct sp_attribute *to = sp_node_attribute(context->node, "to");
    if (to == NULL || (to->type != SP_ATTR_INT && to->type != SP_ATTR_STRING))
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "the attribute 'to' is missing");
    if (to->type == SP_ATTR_INT) {
        if (to->i <= SP_DTYPE_UNDEFINED || to->i >= SP_DTYPE_COUNT)
            return sp_op_fail(context, "UNKNOWN_DATA_TYPE", "%lld is not a data type", (long long)to->i);
        *ret_dtype = (enum sp_dtype)to->i;
        return SP_OK;
    }
    char name[32] = "";
    for (size_t i = 0; i < to->s.size && i + 1 < sizeof name; i++)
        name[i] = (char)tolower((unsigned char)to->s.bytes[i]);
    enum sp_dtype dtype = sp_dtype_parse(name);
    if (dtype == SP_DTYPE_UNDEFINED)
        return sp_op_fail(context, "UNKNOWN_DATA_TYPE", "'%.40s' is not a data type", to->s.bytes);
    *ret_dtype = dtype;
    return SP_OK;
}

static enum sp_status shapes_cast(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = target_type(context, &dtype);
    if (status == SP_OK)
        status = sp_set_output_shape(context, 0, dtype, sp_in_shape(context, 0));
    return status != SP_OK ? status : sp_data_cast(context);
}

static enum sp_status shapes_cast_like(struct sp_op_context *context)
{
    enum sp_status status = sp_set_output_shape(context, 0, sp_in_dtype(context, 1), sp_in_shape(context, 0));
    return status != SP_OK ? status : sp_data_cast(context);
}

/* The bits stay, so the numbers do not: no elements are carried. */
static enum sp_status shapes_bit_cast(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = target_type(context, &dtype);
    if (status != SP_OK)
        return status;
    int from = sp_dtype_bits(sp_in_dtype(context, 0)), to = sp_dtype_bits(dtype);
    if (from != 0 && to != 0 && from != to)
        return sp_op_fail(context, "WRONG_DATA_TYPE", "elements of %d bits cannot be read as elements of %d bits", from,
                          to);
    return sp_set_output_shape(context, 0, dtype, sp_in_shape(context, 0));
}

/* CastLike takes only the type of its second input, so that one stays unmapped. */
static enum sp_status rule_cast_like(struct sp_op_context *context, struct sp_rule *rule)
{
    rule->bytes = sp_input_bytes(context, 0) + sp_output_bytes(context, 0);
    rule->inputs[1].is_unread = true;
    return sp_rule_from_entry(context, rule, context->node->op);
}

const struct sp_op sp_ops_casting[] = {
    SP_ENTRY("", "Cast", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]", "ONNX Operators.md, Cast-1 to Cast-25",
             .shapes = shapes_cast),
    SP_ENTRY("", "CastLike", 15, 0, 2, 2, 1, 1, "[d..] [_..] -> [d..]; of the second only the type is read",
             "ONNX Operators.md, CastLike-15 to CastLike-25", .shapes = shapes_cast_like, .rule = rule_cast_like,
             .lower = sp_lower_node_cast_like),
    SP_ENTRY("", "BitCast", 26, 0, 1, 1, 1, 1, "[d..] -> [d..]", "ONNX Operators.md, BitCast-26",
             .shapes = shapes_bit_cast),
    {.name = NULL},
};
