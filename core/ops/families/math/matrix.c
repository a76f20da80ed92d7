/*
 * Operators on matrices that are not contractions.
 *
 *     Trilu     [b.., i, j] [] -> [b.., i, j]      every axis parallel; what is kept depends on the place in the whole
 *     EyeLike   [p, q]         -> [i, j]           only the shape is read; any axis of the result may be cut
 *     Det       [b.., m, n]    -> [b..]            the matrices are whole
 *
 * FLOPs: Trilu and EyeLike none; Det 2/3 * m^3 (an LU factorisation).
 */
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/shape_helpers.h"

static enum sp_status check_matrix(struct sp_op_context *context, const struct sp_shape *x)
{
    if (x->rank < 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u, and a matrix has 2 axes", x->rank);
    return SP_OK;
}

/* ---- Trilu ---------------------------------------------------------------------------------------------------- */

/* Which diagonal is the border; false when it is not known. */
static bool read_diagonal(struct sp_op_context *context, int64_t *ret_k)
{
    *ret_k = 0;
    if (!sp_has_input(context, 1))
        return true;
    const struct sp_data *data = sp_in_known_ints(context, 1);
    if (data == NULL || data->count != 1)
        return false;
    *ret_k = data->ints[0].value;
    return true;
}

static enum sp_status trilu_elements(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t count = sp_data_room(context, 0), k = 0;
    bool is_upper = sp_node_int(context->node, "upper", 1) != 0;
    if (count < 0 || !sp_data_available(context, 0) || !read_diagonal(context, &k))
        return SP_OK;
    uint32_t *index = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
    if (index == NULL)
        return sp_fail_memory(context->err);
    for (int64_t i = 0; i < count; i++) {
        int64_t columns = x->dims[x->rank - 1].value, rows = x->dims[x->rank - 2].value;
        int64_t distance = i % columns - i / columns % rows; /* from the main diagonal, upwards */
        bool is_kept = is_upper ? distance >= k : distance <= k;
        index[i] = is_kept ? (uint32_t)i : UINT32_MAX;
    }
    return sp_data_pick(context, 0, index, NULL);
}

static enum sp_status shapes_trilu(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_status status = x != NULL ? check_matrix(context, x) : SP_OK;
    if (status == SP_OK)
        status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
    return status != SP_OK || x == NULL ? status : trilu_elements(context);
}

/* ---- EyeLike -------------------------------------------------------------------------------------------------- */

static enum sp_status eye_elements(struct sp_op_context *context, enum sp_dtype dtype)
{
    int64_t k = sp_node_int(context->node, "k", 0);
    bool is_real = sp_dtype_is_float(dtype);
    struct sp_data *data = sp_data_new(context, 0, is_real);
    if (data == NULL)
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        int64_t columns = sp_in_shape(context, 0)->dims[1].value, row = i / columns, column = i % columns;
        bool is_one = column - row == k;
        if (data->reals != NULL)
            data->reals[i] = is_one;
        else
            data->ints[i] = sp_dim_known(is_one);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

static enum sp_status shapes_eye_like(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = sp_get_dtype(context, "dtype", sp_in_dtype(context, 0), &dtype);
    if (status != SP_OK)
        return status;
    if (x != NULL && x->rank != 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u instead of 2", x->rank);
    status = sp_set_output_shape(context, 0, dtype, x);
    return status != SP_OK || x == NULL ? status : eye_elements(context, dtype);
}

static enum sp_status rule_eye_like(struct sp_op_context *context, struct sp_rule *rule)
{
    for (uint32_t axis = 0; axis < 2; axis++) {
        (void)sp_rule_input_axis(context, rule, 'i', 0, axis, SP_FACTOR_PARALLEL);
        (void)sp_rule_output_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
    }
    rule->bytes = sp_output_bytes(context, 0);
    return SP_OK;
}

/* ---- Det ------------------------------------------------------------------------------------------------------ */

static enum sp_status shapes_det(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim ignored;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    enum sp_status status = check_matrix(context, x);
    if (status == SP_OK)
        status = sp_join_dims(context, x->dims[x->rank - 2], x->dims[x->rank - 1], &ignored);
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), x->rank - 2, x->dims);
}

static enum sp_status rule_det(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    struct sp_factor_list work = {0};
    for (uint32_t i = 0; i < rule->factor_count; i++)
        sp_factor_list_add(&work, (uint8_t)i);
    sp_factor_list_add(&work, sp_rule_named(rule, "n"));
    sp_rule_term_list(rule, 2.0 / 3.0, &work);
    return status;
}

const struct sp_op sp_ops_matrix[] = {
    SP_ENTRY("", "Trilu", 14, 0, 1, 2, 1, 1, "[d..] [] -> [d..]", "ONNX operator Trilu", .shapes = shapes_trilu,
             .lower = sp_lower_node_trilu),
    SP_ENTRY("", "EyeLike", 9, 0, 1, 1, 1, 1, "[p, q] -> [i, j]; only the shape is read", "ONNX operator EyeLike",
             .shapes = shapes_eye_like, .rule = rule_eye_like, .lower = sp_lower_node_eye_like),
    SP_ENTRY("", "Det", 11, 0, 1, 1, 1, 1, "[b.., m, n] -> [b..]; m, n whole", "ONNX operator Det",
             .shapes = shapes_det, .rule = rule_det),
    {.name = NULL},
};
