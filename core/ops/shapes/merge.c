#include "ops/shapes/merge.h"

#include <string.h>

#include "base/limits.h"

/* What the dims of the shape of no element point to; nobody looks at the dims of a tensor without a rank. */
static struct sp_dim no_element;

struct sp_type sp_type_of_no_element(enum sp_dtype dtype)
{
    return (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype, .shape = {.dims = &no_element}};
}

static bool is_no_element(const struct sp_shape *shape)
{
    return !shape->has_rank && shape->dims == &no_element;
}

static bool same_dim(struct sp_dim a, struct sp_dim b)
{
    return sp_dim_equal(a, b) || (a.kind == SP_DIM_UNKNOWN && b.kind == SP_DIM_UNKNOWN);
}

static bool same_shape(const struct sp_shape *a, const struct sp_shape *b)
{
    if (a->has_rank != b->has_rank || (a->has_rank && a->rank != b->rank) || is_no_element(a) != is_no_element(b))
        return false;
    for (uint32_t axis = 0; a->has_rank && axis < a->rank; axis++) {
        if (!same_dim(a->dims[axis], b->dims[axis]))
            return false;
    }
    return true;
}

bool sp_type_same(const struct sp_type *a, const struct sp_type *b)
{
    while (a != NULL && b != NULL && a != b) {
        bool is_tensor = a->kind == SP_TYPE_TENSOR || a->kind == SP_TYPE_SPARSE_TENSOR;
        if (a->kind != b->kind || a->dtype != b->dtype || (is_tensor && !same_shape(&a->shape, &b->shape)))
            return false;
        if (is_tensor)
            return true;
        a = a->elem;
        b = b->elem;
    }
    return a == b;
}

static bool merge_shape(struct sp_arena *arena, const struct sp_shape *a, const struct sp_shape *b,
                        struct sp_shape *ret_shape)
{
    if (is_no_element(a) || is_no_element(b)) {
        *ret_shape = is_no_element(a) ? *b : *a;
        return true;
    }
    if (!a->has_rank || !b->has_rank || a->rank != b->rank) {
        *ret_shape = (struct sp_shape){0};
        return true;
    }
    if (same_shape(a, b)) {
        *ret_shape = *a;
        return true;
    }
    struct sp_dim *dims = SP_NEW_ARRAY(arena, a->rank, struct sp_dim);
    if (dims == NULL)
        return false;
    for (uint32_t axis = 0; axis < a->rank; axis++)
        dims[axis] = sp_dim_equal(a->dims[axis], b->dims[axis]) ? a->dims[axis] : sp_dim_unknown();
    *ret_shape = (struct sp_shape){true, a->rank, dims};
    return true;
}

enum sp_status sp_merge_types(struct sp_arena *arena, const struct sp_type *a, const struct sp_type *b,
                              struct sp_type *ret_type, struct sp_error *err)
{
    struct sp_type result = {0}, *to = &result;
    while (a != NULL && b != NULL && a->kind != SP_TYPE_NONE && b->kind != SP_TYPE_NONE) {
        if (a->kind != b->kind)
            return SP_ERR_MODEL;
        if (a->dtype != b->dtype && a->dtype != SP_DTYPE_UNDEFINED && b->dtype != SP_DTYPE_UNDEFINED)
            return SP_ERR_MODEL;
        to->kind = a->kind;
        to->dtype = a->dtype != SP_DTYPE_UNDEFINED ? a->dtype : b->dtype;
        if (a->kind == SP_TYPE_TENSOR || a->kind == SP_TYPE_SPARSE_TENSOR) {
            if (!merge_shape(arena, &a->shape, &b->shape, &to->shape))
                return sp_fail_memory(err);
            break;
        }
        a = a->elem;
        b = b->elem;
        if (a == NULL || b == NULL)
            break;
        struct sp_type *elem = SP_NEW(arena, struct sp_type);
        if (elem == NULL)
            return sp_fail_memory(err);
        to->elem = elem;
        to = elem;
    }
    *ret_type = result;
    return SP_OK;
}

bool sp_elements_same(const struct sp_data *a, const struct sp_data *b)
{
    if (a == NULL || b == NULL || a == b)
        return a == b;
    if (a->count != b->count || (a->reals != NULL) != (b->reals != NULL))
        return false;
    if (a->reals != NULL)
        return a->count == 0 || memcmp(a->reals, b->reals, a->count * sizeof *a->reals) == 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (!same_dim(a->ints[i], b->ints[i]))
            return false;
    }
    return true;
}

struct sp_data *sp_merge_data(struct sp_arena *arena, const struct sp_data *a, const struct sp_data *b)
{
    bool has_any = false;
    if (a == NULL || b == NULL || a->count != b->count || (a->reals != NULL) != (b->reals != NULL))
        return NULL;
    if (sp_elements_same(a, b))
        return (struct sp_data *)a;
    if (a->reals != NULL)
        return NULL; /* reals are known or not as a whole */
    struct sp_data *data = SP_NEW(arena, struct sp_data);
    struct sp_dim *ints = SP_NEW_ARRAY(arena, a->count, struct sp_dim);
    if (data == NULL || ints == NULL)
        return NULL;
    for (uint32_t i = 0; i < a->count; i++) {
        ints[i] = sp_dim_equal(a->ints[i], b->ints[i]) ? a->ints[i] : sp_dim_unknown();
        has_any = has_any || ints[i].kind != SP_DIM_UNKNOWN;
    }
    *data = (struct sp_data){a->count, ints, NULL};
    return has_any ? data : NULL;
}

/* What an axis of either type never exceeds, or unknown. */
static struct sp_dim upper_of(struct sp_model *model, const struct sp_type *a, const struct sp_type *b, uint32_t axis)
{
    if (a == NULL || b == NULL || axis >= a->shape.rank || axis >= b->shape.rank)
        return sp_dim_unknown();
    return sp_dim_max(model->dims, a->shape.dims[axis], b->shape.dims[axis]);
}

static bool name_axes(struct sp_model *model, struct sp_type *type, const char *name, const struct sp_type *const of[2],
                      uint64_t *ret_mask)
{
    struct sp_dim *dims = NULL;
    if (type->kind != SP_TYPE_TENSOR || !type->shape.has_rank)
        return true;
    for (uint32_t axis = 0; axis < type->shape.rank && axis < SP_MAX_RANK; axis++) {
        if (type->shape.dims[axis].kind != SP_DIM_UNKNOWN)
            continue;
        if (dims == NULL) {
            dims = SP_NEW_ARRAY(model->arena, type->shape.rank, struct sp_dim);
            if (dims == NULL)
                return false;
            memcpy(dims, type->shape.dims, type->shape.rank * sizeof *dims);
        }
        dims[axis] = sp_dim_of_axis(model->dims, name, axis, upper_of(model, of[0], of[1], axis));
        *ret_mask |= (uint64_t)1 << axis;
    }
    if (dims != NULL)
        type->shape.dims = dims;
    return true;
}

bool sp_name_open_axes(struct sp_model *model, struct sp_type *type, const char *name, uint64_t *ret_mask)
{
    uint64_t mask = 0;
    const bool ok = name_axes(model, type, name, (const struct sp_type *const[2]){NULL, NULL}, &mask);
    if (ok && ret_mask != NULL)
        *ret_mask = mask;
    return ok;
}

bool sp_name_merged_axes(struct sp_model *model, struct sp_type *type, const char *name, const struct sp_type *a,
                         const struct sp_type *b)
{
    uint64_t mask = 0;
    const bool have_ranks = a->kind == SP_TYPE_TENSOR && b->kind == SP_TYPE_TENSOR;
    return name_axes(model, type, name, (const struct sp_type *const[2]){have_ranks ? a : NULL, have_ranks ? b : NULL},
                     &mask);
}
