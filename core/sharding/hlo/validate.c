/* HloSharding::Validate: a sharding against a shape and a number of devices. */
#include <inttypes.h>
#include <stdio.h>

#include "sharding/hlo/internal.h"

#define SHOWN_SHARDING 300 /* bytes of a sharding's text in messages */
#define SHOWN_SHAPE    200

/* A shape's leaves in pre-order; the way down to the current tuple is an explicit stack. */
struct leaves {
    struct {
        const struct sp_hlo_shape *tuple;
        uint32_t next;
    } stack[SP_MAX_NESTING];
    uint32_t depth;
};

static enum sp_status enter(struct leaves *leaves, const struct sp_hlo_shape *tuple, struct sp_error *err)
{
    if (leaves->depth == SP_MAX_NESTING)
        return sp_fail_limit(err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, SP_MAX_NESTING + 1,
                             "The shape has tuples nested deeper than %d.", SP_MAX_NESTING);
    leaves->stack[leaves->depth].tuple = tuple;
    leaves->stack[leaves->depth++].next = 0;
    return SP_OK;
}

/* The next array or token; NULL at the end. */
static enum sp_status next_leaf(struct leaves *leaves, const struct sp_hlo_shape **ret_leaf, struct sp_error *err)
{
    while (leaves->depth > 0) {
        uint32_t top = leaves->depth - 1;
        if (leaves->stack[top].next == leaves->stack[top].tuple->element_count) {
            leaves->depth--;
            continue;
        }
        const struct sp_hlo_shape *element = &leaves->stack[top].tuple->elements[leaves->stack[top].next++];
        if (!element->is_tuple) {
            *ret_leaf = element;
            return SP_OK;
        }
        enum sp_status status = enter(leaves, element, err);
        if (status != SP_OK)
            return status;
    }
    *ret_leaf = NULL;
    return SP_OK;
}

static enum sp_status count_leaves(const struct sp_hlo_shape *shape, uint64_t *ret_count, struct sp_error *err)
{
    struct leaves leaves = {0};
    const struct sp_hlo_shape *leaf;
    uint64_t count = 0;
    enum sp_status status = enter(&leaves, shape, err);
    while (status == SP_OK) {
        status = next_leaf(&leaves, &leaf, err);
        if (status == SP_OK && leaf == NULL)
            break;
        count++;
    }
    *ret_count = count;
    return status;
}

static enum sp_status check_device(int64_t device, int64_t device_count, struct sp_error *err)
{
    if (device_count == 0 || device < device_count)
        return SP_OK;
    return sp_fail(err, SP_ERR_REQUEST, "DEVICE_OUT_OF_RANGE",
                   "There is a device %" PRId64 " >= num_devices (%" PRId64 ") in tile assignment.", device,
                   device_count);
}

static enum sp_status check_rank(const struct sp_hlo *hlo, const struct sp_hlo_shape *shape, struct sp_error *err)
{
    char dims[SHOWN_SHAPE] = "";
    struct sp_buf text;
    uint32_t rank = hlo->is_named ? hlo->named->rank : hlo->dim_count - sp_hlo_group_dims(hlo);
    if (rank == shape->rank)
        return SP_OK;
    for (size_t i = 0, at = 0; i < shape->rank && at < sizeof dims - 24; i++)
        at += (size_t)snprintf(dims + at, sizeof dims - at, "%s%" PRId64, i > 0 ? "," : "", shape->dims[i]);
    sp_buf_init(&text, SP_MAX_SHARDING_BYTES * (size_t)4);
    sp_hlo_write_text(hlo, false, &text);
    enum sp_status status =
        sp_fail(err, SP_ERR_REQUEST, "RANK_MISMATCH",
                "Number of tile assignment dimensions (excluding subgroups) is different than the input rank: %" PRIu32
                " and %" PRIu32 ". sharding=%.*s, input_shape=[%s].",
                rank, shape->rank, SHOWN_SHARDING, text.data != NULL ? text.data : "", dims);
    sp_buf_release(&text);
    return status;
}

/* A named sharding that splits nothing and holds no summands, or is all manual or unreduced, fits every shape. */
static bool fits_any_shape(const struct sp_hlo *hlo)
{
    if (!hlo->is_named)
        return hlo->type != SP_HLO_OTHER && hlo->type != SP_HLO_MAXIMAL;
    const struct sp_sharding *named = hlo->named;
    if (named->kind != SP_SHARDING_AXES)
        return named->kind != SP_SHARDING_SINGLE;
    uint32_t used = 0;
    for (uint32_t i = 0; i < named->rank; i++)
        used += named->dims[i].axes.count;
    if (used > 0)
        return false;
    if (named->partial.count + named->manual.count == 0)
        return true;
    const struct sp_axis_list *list = named->partial.count > 0 ? &named->partial : &named->manual;
    bool is_whole = list->count == named->mesh->axis_count;
    for (uint32_t i = 0; i < list->count && is_whole; i++)
        is_whole = sp_axis_is_full(named->mesh, list->refs[i]);
    return is_whole;
}

static enum sp_status validate_leaf(const struct sp_hlo *hlo, const struct sp_hlo_shape *shape, int64_t device_count,
                                    struct sp_error *err)
{
    if (shape->is_token || fits_any_shape(hlo))
        return SP_OK;
    if (hlo->is_named && hlo->named->kind == SP_SHARDING_SINGLE)
        return check_device(hlo->named->device, device_count, err);
    if (!hlo->is_named && hlo->type == SP_HLO_MAXIMAL)
        return check_device(sp_device_order_at(&hlo->order, 0), device_count, err);
    const struct sp_device_order *order = hlo->is_named ? &hlo->named->mesh->order : &hlo->order;
    if (order->count == 1)
        return sp_fail(err, SP_ERR_REQUEST, "ONE_DEVICE",
                       "Tile assignment only contains a single device. If a replicated sharding was intended, write "
                       "{replicated}; if a device placement was intended, write {maximal device=%" PRId64 "}.",
                       sp_device_order_at(order, 0));
    enum sp_status status = check_rank(hlo, shape, err);
    for (int64_t i = 0; order->ids != NULL && !hlo->is_named && status == SP_OK && i < order->count; i++)
        status = check_device(order->ids[i], device_count, err);
    if (status == SP_OK && device_count != 0 && order->count != device_count)
        return sp_fail(err, SP_ERR_REQUEST, "DEVICE_COUNT_MISMATCH",
                       "The %s should have %" PRId64 " devices but has %" PRId64 ".",
                       hlo->is_named ? "sharding" : "tile_assignment", device_count, order->count);
    return status;
}

static enum sp_status validate_tuple(const struct sp_hlo *hlo, const struct sp_hlo_shape *shape, int64_t device_count,
                                     struct sp_error *err)
{
    struct leaves leaves = {0};
    const struct sp_hlo_shape *leaf;
    uint64_t count;
    enum sp_status status = count_leaves(shape, &count, err);
    if (status != SP_OK)
        return status;
    if (count == 0 && hlo->element_count <= 1)
        return SP_OK;
    if (count != hlo->element_count)
        return sp_fail(err, SP_ERR_REQUEST, "TUPLE_MISMATCH",
                       "The shape has %" PRIu64 " leaf nodes while this sharding has %" PRIu32 ".", count,
                       hlo->element_count);
    status = enter(&leaves, shape, err);
    for (uint32_t i = 0; i < hlo->element_count && status == SP_OK; i++) {
        status = next_leaf(&leaves, &leaf, err);
        if (status == SP_OK)
            status = validate_leaf(&hlo->elements[i], leaf, device_count, err);
        if (status == SP_ERR_REQUEST)
            sp_error_at(err, "element %" PRIu32, i);
    }
    return status;
}

enum sp_status sp_hlo_validate(const struct sp_hlo *hlo, const struct sp_hlo_shape *shape, int64_t device_count,
                               struct sp_error *err)
{
    bool is_tuple = !hlo->is_named && hlo->type == SP_HLO_TUPLE;
    if (shape->is_token)
        return SP_OK;
    if (is_tuple && !shape->is_tuple)
        return sp_fail(err, SP_ERR_REQUEST, "TUPLE_MISMATCH", "Sharding is tuple-shaped but validation shape is not.");
    if (is_tuple)
        return validate_tuple(hlo, shape, device_count, err);
    if (shape->is_tuple)
        return sp_fail(err, SP_ERR_REQUEST, "TUPLE_MISMATCH", "Validation shape is a tuple but sharding is not.");
    return validate_leaf(hlo, shape, device_count, err);
}
