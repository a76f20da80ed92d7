/*
 * ai.onnx.ml: operators of maps.
 *
 *     CastMap         map -> [1, k]
 *     DictVectorizer  map -> [1, k]
 *     ZipMap          [n, c] -> sequence of n maps
 *
 * A map has no axes: it is whole on every device, and so are the other operands.
 *
 * The specification does not say how many axes the tensor made of a map has, and runtimes give it a first axis of one
 * element. A vector is assumed only where the file declares one.
 */
#include <string.h>

#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define ML "ai.onnx.ml"

/* ---- types ---------------------------------------------------------------------------------------------------- */

/* A type in the model's arena; NULL without memory. */
static const struct sp_type *keep_type(struct sp_op_context *context, struct sp_type type)
{
    struct sp_type *copy = SP_NEW(context->arena, struct sp_type);
    if (copy != NULL)
        *copy = type;
    return copy;
}

static enum sp_status set_row(struct sp_op_context *context, enum sp_dtype dtype, struct sp_dim count)
{
    const struct sp_value *output = context->node->outputs[0];
    const struct sp_dim dims[2] = {sp_dim_known(1), count};
    bool is_vector = output != NULL && output->declared.kind == SP_TYPE_TENSOR && output->declared.shape.has_rank &&
                     output->declared.shape.rank == 1;
    return is_vector ? sp_set_output(context, 0, dtype, 1, &count) : sp_set_output(context, 0, dtype, 2, dims);
}

/* The input's type when it is a map, NULL when nothing is known of it. */
static enum sp_status get_map(struct sp_op_context *context, const struct sp_type **ret_map)
{
    const struct sp_type *type = &context->node->inputs[0]->type;
    *ret_map = type->kind == SP_TYPE_MAP ? type : NULL;
    if (type->kind != SP_TYPE_MAP && type->kind != SP_TYPE_NONE)
        return sp_op_fail(context, "WRONG_TYPE", "its input is not a map");
    return SP_OK;
}

/* ---- CastMap -------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_cast_map(struct sp_op_context *context)
{
    static const struct {
        const char *name;
        enum sp_dtype dtype;
    } targets[] = {{"TO_FLOAT", SP_DTYPE_FLOAT}, {"TO_STRING", SP_DTYPE_STRING}, {"TO_INT64", SP_DTYPE_INT64}};
    const char *to = sp_node_string(context->node, "cast_to", "TO_FLOAT");
    const char *form = sp_node_string(context->node, "map_form", "DENSE");
    const struct sp_type *map;
    size_t target = 0;
    while (target < sizeof targets / sizeof targets[0] && strcmp(to, targets[target].name) != 0)
        target++;
    if (target == sizeof targets / sizeof targets[0])
        return sp_op_fail(context, "ATTRIBUTE_VALUE",
                          "attribute 'cast_to' is '%.40s' instead of TO_FLOAT, TO_STRING or TO_INT64", to);
    bool is_sparse = strcmp(form, "SPARSE") == 0;
    if (!is_sparse && strcmp(form, "DENSE") != 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'map_form' is '%.40s' instead of DENSE or SPARSE",
                          form);
    enum sp_status status = get_map(context, &map);
    if (status != SP_OK)
        return status;
    /* A sparse map names positions below max_map; a dense one has as many elements as entries. */
    struct sp_dim count = is_sparse ? sp_dim_known(sp_node_int(context->node, "max_map", 1))
                                    : sp_dim_fresh(context->dims, "CastMap", sp_dim_unknown());
    return set_row(context, targets[target].dtype, count);
}

/* ---- DictVectorizer ------------------------------------------------------------------------------------------- */

/* One element for each word of the vocabulary, of the type of the map's values. */
static enum sp_status shapes_dict(struct sp_op_context *context)
{
    const struct sp_attribute *words = sp_node_attribute(context->node, "string_vocabulary");
    const struct sp_attribute *numbers = sp_node_attribute(context->node, "int64_vocabulary");
    uint32_t word_count = words != NULL ? words->count : 0, number_count = numbers != NULL ? numbers->count : 0;
    const struct sp_type *map;
    enum sp_status status = get_map(context, &map);
    if (status != SP_OK)
        return status;
    if ((word_count == 0) == (number_count == 0))
        return sp_op_fail(
            context, "ATTRIBUTE_VALUE",
            "exactly one of the attributes 'string_vocabulary' and 'int64_vocabulary' must hold the vocabulary");
    return set_row(context, map != NULL && map->elem != NULL ? map->elem->dtype : SP_DTYPE_UNDEFINED,
                   sp_dim_known((int64_t)word_count + number_count));
}

/* ---- ZipMap --------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_zip_map(struct sp_op_context *context)
{
    const struct sp_attribute *words = sp_node_attribute(context->node, "classlabels_strings");
    const struct sp_attribute *numbers = sp_node_attribute(context->node, "classlabels_int64s");
    bool is_text = words != NULL && words->count > 0, is_number = numbers != NULL && numbers->count > 0;
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_value *output = context->node->outputs[0];
    if (is_text == is_number)
        return sp_op_fail(
            context, "ATTRIBUTE_VALUE",
            "exactly one of the attributes 'classlabels_strings' and 'classlabels_int64s' must hold the keys");
    if (x != NULL && x->rank != 1 && x->rank != 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u instead of 1 or 2", x->rank);
    const struct sp_type scalar = {.kind = SP_TYPE_TENSOR, .dtype = SP_DTYPE_FLOAT, .shape = {.has_rank = true}};
    const struct sp_type *elem = keep_type(context, scalar);
    const struct sp_type *map = keep_type(
        context,
        (struct sp_type){.kind = SP_TYPE_MAP, .dtype = is_text ? SP_DTYPE_STRING : SP_DTYPE_INT64, .elem = elem});
    if (elem == NULL || map == NULL)
        return sp_fail_memory(context->err);
    if (output != NULL)
        output->type = (struct sp_type){.kind = SP_TYPE_SEQUENCE, .elem = map};
    return SP_OK;
}

const struct sp_op sp_ops_ml_maps[] = {
    SP_ENTRY(ML, "CastMap", 1, 0, 1, 1, 1, 1, "map -> [1, k]; all whole", ML " operator CastMap (1)",
             .shapes = shapes_cast_map),
    SP_ENTRY(ML, "DictVectorizer", 1, 0, 1, 1, 1, 1, "map -> [1, k]; all whole", ML " operator DictVectorizer (1)",
             .shapes = shapes_dict),
    SP_ENTRY(ML, "ZipMap", 1, 0, 1, 1, 1, 1, "[n, c] -> sequence(map); all whole", ML " operator ZipMap (1)",
             .shapes = shapes_zip_map),
    {.name = NULL},
};
