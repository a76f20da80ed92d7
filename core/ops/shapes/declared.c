#include "ops/shapes/declared.h"

#include <string.h>

#include "graph/given.h"

#define MAX_DIM_TEXT 256

static bool is_new_symbol(const struct sp_dims *dims, struct sp_dim dim, uint32_t symbols_before)
{
    uint32_t symbol;
    return sp_dim_is_symbol(dims, dim, &symbol) && symbol >= symbols_before && sp_dims_symbol_is_fresh(dims, symbol);
}

/* Whether such a symbol is in the text of an expression. A name inside another name counts too: then less is kept. */
static bool mentions_new_symbol(const struct sp_dims *dims, struct sp_dim dim, uint32_t symbols_before)
{
    bool result = false;
    if (dim.kind != SP_DIM_SYMBOLIC)
        return false;
    struct sp_buf text;
    sp_buf_init(&text, MAX_DIM_TEXT);
    sp_dim_print(dim, &text);
    for (uint32_t i = symbols_before; !sp_buf_failed(&text) && !result && i < sp_dims_symbol_count(dims); i++)
        result = sp_dims_symbol_is_fresh(dims, i) && strstr(text.data, sp_dims_symbol_name(dims, i)) != NULL;
    result = result || sp_buf_failed(&text);
    sp_buf_release(&text);
    return result;
}

bool sp_forget_new_symbols(struct sp_model *model, struct sp_type *type, uint32_t symbols_before)
{
    struct sp_dim *dims = NULL;
    if (type->kind != SP_TYPE_TENSOR || !type->shape.has_rank)
        return true;
    for (uint32_t axis = 0; axis < type->shape.rank; axis++) {
        if (!mentions_new_symbol(model->dims, type->shape.dims[axis], symbols_before))
            continue;
        if (dims == NULL) {
            dims = SP_NEW_ARRAY(model->arena, type->shape.rank, struct sp_dim);
            if (dims == NULL)
                return false;
            memcpy(dims, type->shape.dims, type->shape.rank * sizeof *dims);
        }
        dims[axis] = sp_dim_unknown();
    }
    if (dims != NULL)
        type->shape.dims = dims;
    return true;
}

static void accept_dim(const struct sp_value *value, uint32_t axis, struct sp_dim inferred, struct sp_dim declared,
                       struct sp_error *accepted)
{
    struct sp_buf left, right;
    sp_buf_init(&left, MAX_DIM_TEXT);
    sp_buf_init(&right, MAX_DIM_TEXT);
    sp_dim_print(inferred, &left);
    sp_dim_print(declared, &right);
    (void)sp_fail(accepted, SP_ERR_MODEL, "SHAPE_CONTRADICTS_DECLARATION",
                  "Axis %u of '%.200s' is declared to have %s elements, but its operators give it %s.", axis,
                  value->name, sp_buf_failed(&right) ? "other" : right.data,
                  sp_buf_failed(&left) ? "a different number" : left.data);
    sp_buf_release(&left);
    sp_buf_release(&right);
    (void)sp_error_at(accepted, "value '%.200s'", value->name);
}

/* A symbol and what is made of it alone, n and 2*n: whether no size, or 0 alone, makes them equal. */
static bool is_for_nothing(struct sp_dims *dims, struct sp_dim own, struct sp_dim other)
{
    uint32_t symbol, solved;
    int64_t value;
    if (own.kind != SP_DIM_SYMBOLIC || !sp_dim_is_symbol(dims, other, &symbol))
        return false;
    const enum sp_dim_solution found = sp_dim_solve(dims, own, other, &solved, &value);
    return found == SP_DIM_CONTRADICTS || (found == SP_DIM_SOLVED && solved == symbol && value <= 0);
}

/* Whether no extent is both. */
static bool contradicts(struct sp_dims *dims, struct sp_dim own, struct sp_dim other)
{
    if (own.kind == SP_DIM_UNKNOWN || sp_dim_equal(own, other))
        return false;
    if (!sp_dim_is_known(other))
        return is_for_nothing(dims, own, other);
    return sp_dim_is_known(own) || sp_dim_differs(dims, own, other);
}

/* Notes what contradicts; whether anything does. */
static bool accept_shape(const struct sp_model *model, const struct sp_value *value, uint32_t symbols_before,
                         struct sp_error *accepted)
{
    const struct sp_shape *shape = &value->type.shape, *declared = &value->declared.shape;
    if (shape->rank != declared->rank) {
        (void)sp_fail(accepted, SP_ERR_MODEL, "RANK_CONTRADICTS_DECLARATION",
                      "'%.200s' is declared to have %u axes, but its operators give it %u.", value->name,
                      declared->rank, shape->rank);
        (void)sp_error_at(accepted, "value '%.200s'", value->name);
        return true;
    }
    for (uint32_t axis = 0; axis < shape->rank; axis++) {
        const struct sp_dim own = shape->dims[axis], other = declared->dims[axis];
        if (is_new_symbol(model->dims, own, symbols_before) || !contradicts(model->dims, own, other))
            continue;
        accept_dim(value, axis, own, other, accepted);
        return true;
    }
    return false;
}

static enum sp_status join_shape(struct sp_model *model, struct sp_value *value, uint32_t symbols_before,
                                 struct sp_error *accepted, struct sp_error *err)
{
    struct sp_shape *shape = &value->type.shape;
    const struct sp_shape *declared = &value->declared.shape;
    if (!declared->has_rank)
        return SP_OK;
    if (!shape->has_rank) {
        *shape = *declared;
        return SP_OK;
    }
    if (accept_shape(model, value, symbols_before, accepted))
        return SP_OK;
    struct sp_dim *dims = NULL; /* a copy, made when something changes: shapes are shared between values */
    for (uint32_t axis = 0; axis < shape->rank; axis++) {
        struct sp_dim own = shape->dims[axis], other = declared->dims[axis];
        if (other.kind == SP_DIM_UNKNOWN || sp_dim_equal(own, other))
            continue;
        if (own.kind != SP_DIM_UNKNOWN && !is_new_symbol(model->dims, own, symbols_before)) {
            sp_dims_tie(model->dims, own, other);
            continue;
        }
        if (dims == NULL) {
            dims = SP_NEW_ARRAY(model->arena, shape->rank, struct sp_dim);
            if (dims == NULL)
                return sp_fail_memory(err);
            memcpy(dims, shape->dims, shape->rank * sizeof *dims);
        }
        dims[axis] = other;
    }
    if (dims != NULL)
        shape->dims = dims;
    return SP_OK;
}

enum sp_status sp_join_declared(struct sp_model *model, struct sp_value *value, uint32_t symbols_before,
                                struct sp_error *accepted, struct sp_error *err)
{
    struct sp_type *type = &value->type;
    const struct sp_type *given = sp_given_type(model, value), *declared = &value->declared;
    if (given != NULL)
        value->declared = *given;
    if (declared->kind == SP_TYPE_NONE)
        return SP_OK;
    if (type->kind == SP_TYPE_NONE) {
        *type = *declared;
        return SP_OK;
    }
    bool is_tensor = type->kind == SP_TYPE_TENSOR || type->kind == SP_TYPE_SPARSE_TENSOR;
    bool is_other_dtype =
        type->dtype != SP_DTYPE_UNDEFINED && declared->dtype != SP_DTYPE_UNDEFINED && type->dtype != declared->dtype;
    if (type->kind != declared->kind || (is_tensor && is_other_dtype)) {
        const char *name = sp_dtype_name(type->dtype), *other = sp_dtype_name(declared->dtype);
        if (type->kind != declared->kind)
            (void)sp_fail(err, SP_ERR_MODEL, "TYPE_CONTRADICTS_DECLARATION",
                          "'%.200s' is declared to be of another kind (tensor, sequence, optional, map) than its "
                          "operators give it.",
                          value->name);
        else
            (void)sp_fail(err, SP_ERR_MODEL, "TYPE_CONTRADICTS_DECLARATION",
                          "'%.200s' is declared to hold %s elements, but its operators give it %s.", value->name,
                          other != NULL ? other : "unknown", name != NULL ? name : "unknown");
        (void)sp_error_at(err, "value '%.200s'", value->name);
        return SP_ERR_MODEL;
    }
    if (!is_tensor) {
        if (type->elem == NULL)
            type->elem = declared->elem;
        return SP_OK;
    }
    if (type->dtype == SP_DTYPE_UNDEFINED)
        type->dtype = declared->dtype;
    return join_shape(model, value, symbols_before, accepted, err);
}
