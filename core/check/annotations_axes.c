/* How a spec cuts the axes of its tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "check/annotations.h"

/* One sharded_dim at work. */
struct axis_check {
    struct sp_annotation_check *check;
    struct sp_spec_check *spec;
    const struct sp_sharded_axis *from;
    int64_t axis;   /* as written */
    bool is_known;  /* `index` is the tensor axis */
    uint32_t index; /* counted from the front */
    int64_t extent; /* -1: unknown */
};

static const char *tensor_of(const struct axis_check *axis)
{
    return axis->spec->tensor;
}

/* ---- which axis ----------------------------------------------------------------------------------------------- */

static enum sp_status check_axis_range(struct axis_check *axis)
{
    const int64_t rank = axis->spec->rank, most = rank >= 0 ? rank : SP_MAX_RANK;
    axis->is_known = false;
    axis->extent = -1;
    if (rank == 0)
        return sp_annotation_report(axis->check, "SCALAR_SHARDED", tensor_of(axis), NULL,
                                    "A sharding spec splits axis %" PRId64
                                    " of '%.120s', which is a scalar: it has rank 0 and no axis.",
                                    axis->axis, tensor_of(axis));
    if (axis->axis < -most || axis->axis >= most)
        return sp_annotation_report(axis->check, "AXIS_OUT_OF_RANGE", tensor_of(axis), NULL,
                                    rank >= 0 ? "A sharding spec splits axis %" PRId64
                                                " of '%.120s', which has rank %" PRId64
                                                "; its axes are numbered from -rank to rank - 1."
                                              : "A sharding spec splits axis %" PRId64
                                                " of '%.120s', but no tensor may have more than %" PRId64 " axes.",
                                    axis->axis, tensor_of(axis), most);
    axis->is_known = rank >= 0 || axis->axis >= 0;
    axis->index = (uint32_t)(axis->axis < 0 ? axis->axis + most : axis->axis);
    if (axis->spec->dims != NULL && sp_dim_is_known(axis->spec->dims[axis->index]) &&
        axis->spec->dims[axis->index].value >= 0)
        axis->extent = axis->spec->dims[axis->index].value;
    return SP_OK;
}

/* ---- how it is cut -------------------------------------------------------------------------------------------- */

/* "axis 1 of 'X'" */
static const char *place(const struct axis_check *axis, char *text, size_t size)
{
    (void)snprintf(text, size, "axis %" PRId64 " of '%.120s'", axis->axis, tensor_of(axis));
    return text;
}

/* The number of shards and the dim of one simple_sharding on their own. */
static enum sp_status check_part(struct axis_check *axis, const struct sp_sharded_dim_part *part, bool *ret_sound)
{
    char where[192];
    (void)place(axis, where, sizeof where);
    *ret_sound = false;
    if (!part->has_shards)
        return sp_annotation_report(axis->check, "NUM_SHARDS_MISSING", tensor_of(axis), NULL,
                                    "A simple_sharding of %s has no num_shards: it is absent.", where);
    if (part->num_shards < 1)
        return sp_annotation_report(axis->check, "NUM_SHARDS_INVALID", tensor_of(axis), NULL,
                                    "A simple_sharding of %s has num_shards %" PRId64
                                    ", but the number must be 1 or more.",
                                    where, part->num_shards);
    if (part->has_value && (part->dim_value < 0 || (part->dim_value == 0 && axis->from->part_count > 1)))
        return sp_annotation_report(axis->check, "DIM_VALUE_INVALID", tensor_of(axis), NULL,
                                    "A simple_sharding of %s has dim_value %" PRId64
                                    ", but an extent must be positive.",
                                    where, part->dim_value);
    *ret_sound = true;
    return SP_OK;
}

/* The symbol of one simple_sharding against what the model calls the axis. */
static enum sp_status check_param(struct axis_check *axis, const struct sp_sharded_dim_part *part)
{
    struct sp_dims *symbols = axis->check->model->dims;
    char where[192];
    if (part->dim_param == NULL || part->dim_param[0] == '\0' || symbols == NULL)
        return SP_OK;
    (void)place(axis, where, sizeof where);
    const uint32_t before = sp_dims_symbol_count(symbols);
    const struct sp_dim named = sp_dim_symbol(symbols, part->dim_param);
    if (sp_dims_symbol_count(symbols) != before)
        return sp_annotation_report(
            axis->check, "DIM_PARAM_UNKNOWN", tensor_of(axis), NULL,
            "A simple_sharding of %s has dim_param '%.80s', a symbol that no shape of the model "
            "uses.",
            where, part->dim_param);
    if (axis->from->part_count > 1 || axis->spec->dims == NULL || !axis->is_known)
        return SP_OK;
    const struct sp_dim extent = axis->spec->dims[axis->index];
    if (extent.kind == SP_DIM_UNKNOWN || named.kind == SP_DIM_UNKNOWN || sp_dim_equal(extent, named))
        return SP_OK;
    struct sp_buf text;
    sp_buf_init(&text, 256);
    sp_dim_print(extent, &text);
    const bool differs = sp_dim_differs(symbols, extent, named);
    enum sp_status status = sp_annotation_report(
        axis->check, differs ? "DIM_PARAM_MISMATCH" : "DIM_PARAM_OTHER", tensor_of(axis), NULL,
        "A simple_sharding of %s has dim_param '%.80s', but the extent of the axis is %s%s.", where, part->dim_param,
        text.data == NULL ? "another" : text.data, differs ? ", which is surely another number" : "");
    sp_buf_release(&text);
    return status;
}

/* The dim_values of all parts against the extent of the axis. *ret_open is the extent of the part that leaves it open,
   or -1; *ret_sound: the parts' extents are known to fit. */
static enum sp_status check_product(struct axis_check *axis, int64_t *ret_open, bool *ret_sound)
{
    const struct sp_sharded_axis *from = axis->from;
    int64_t product = 1;
    uint32_t open = 0;
    char where[192];
    (void)place(axis, where, sizeof where);
    *ret_open = -1;
    *ret_sound = false;
    for (uint32_t i = 0; i < from->part_count; i++) {
        if (!from->parts[i].has_value)
            open++;
        else if (!sp_mul_i64(product, from->parts[i].dim_value, &product))
            return sp_annotation_report(axis->check, "DIM_PRODUCT_MISMATCH", tensor_of(axis), NULL,
                                        "The dim_values of %s multiply to more than 2^63 - 1.", where);
    }
    if (open > 1)
        return sp_annotation_report(axis->check, "DIMS_OPEN", tensor_of(axis), NULL,
                                    "%" PRIu32 " of the %" PRIu32 " simple_shardings of %s have no dim_value, but only "
                                    "one can be worked out from the extent of the axis.",
                                    open, from->part_count, where);
    *ret_sound = true;
    if (axis->extent < 0)
        return SP_OK;
    if (open == 1 && from->part_count == 1) {
        *ret_open = axis->extent;
        return SP_OK;
    }
    const bool fits = open == 1 ? product > 0 && axis->extent % product == 0 : axis->extent == product;
    if (fits) {
        *ret_open = open == 1 ? axis->extent / product : -1;
        return SP_OK;
    }
    *ret_sound = false;
    if (from->part_count == 1)
        return sp_annotation_report(axis->check, "DIM_VALUE_MISMATCH", tensor_of(axis),
                                    product == 0
                                        ? "Leave dim_value away: some writers store the number 0 where nothing "
                                          "was given."
                                        : NULL,
                                    "A simple_sharding says dim_value %" PRId64 " for %s, whose extent is %" PRId64 ".",
                                    product, where, axis->extent);
    return sp_annotation_report(axis->check, "DIM_PRODUCT_MISMATCH", tensor_of(axis), NULL,
                                "The dim_values of %s multiply to %" PRId64 ", which %s its extent of %" PRId64 ".",
                                where, product, open == 1 ? "does not divide" : "is not", axis->extent);
}

/* Blocks of ceil(extent / shards): whether the last are shorter or empty. */
static enum sp_status check_even(struct axis_check *axis, int64_t extent, int64_t shards)
{
    char where[192];
    if (extent < 0 || shards <= 1 || extent % shards == 0)
        return SP_OK;
    (void)place(axis, where, sizeof where);
    const int64_t block = extent / shards + 1, full = extent / block, rest = extent % block,
                  empty = shards - full - (rest > 0);
    if (empty > 0)
        return sp_annotation_report(axis->check, "SHARDS_EMPTY", tensor_of(axis), NULL,
                                    "%" PRId64 " elements along %s are split in %" PRId64 " shards, blocks of %" PRId64
                                    ": %" PRId64 " of the shards are empty.",
                                    extent, where, shards, block, empty);
    return sp_annotation_report(axis->check, "SHARDS_UNEVEN", tensor_of(axis), NULL,
                                "%" PRId64 " elements along %s are split in %" PRId64 " shards, which does not divide "
                                "them: all but the last hold %" PRId64 ", the last holds %" PRId64 ".",
                                extent, where, shards, block, rest);
}

/* One sharded_dim's parts; *ret_shards is their number of shards, -1 when something is wrong with them. */
static enum sp_status check_parts(struct axis_check *axis, int64_t *ret_shards)
{
    const struct sp_sharded_axis *from = axis->from;
    char where[192];
    int64_t shards = 1, open = -1;
    bool sound = true, fits = false;
    enum sp_status status = SP_OK;
    (void)place(axis, where, sizeof where);
    *ret_shards = -1;
    if (from->part_count == 0)
        return sp_annotation_report(axis->check, "SIMPLE_SHARDING_MISSING", tensor_of(axis), NULL,
                                    "The sharded_dim for %s has no simple_sharding, so it does not say how the axis is "
                                    "split.",
                                    where);
    for (uint32_t i = 0; status == SP_OK && i < from->part_count; i++) {
        bool is_sound = false;
        status = check_part(axis, &from->parts[i], &is_sound);
        if (status == SP_OK && is_sound)
            status = check_param(axis, &from->parts[i]);
        sound = sound && is_sound;
        if (sound && shards >= 0 && !sp_mul_i64(shards, from->parts[i].num_shards, &shards))
            shards = -1;
    }
    if (status != SP_OK || !sound)
        return status;
    if (shards < 0)
        return sp_annotation_report(axis->check, "SHARDS_TOO_MANY", tensor_of(axis), NULL,
                                    "The numbers of shards of %s multiply to more than 2^63 - 1.", where);
    *ret_shards = shards;
    status = check_product(axis, &open, &fits);
    for (uint32_t i = 0; status == SP_OK && fits && i < from->part_count; i++) {
        const struct sp_sharded_dim_part *part = &from->parts[i];
        status = check_even(axis, part->has_value ? part->dim_value : open, part->num_shards);
    }
    return status;
}

/* ---- all axes of a spec --------------------------------------------------------------------------------------- */

/* `seen` has a mark for each tensor axis, and behind them for each axis counted from the back of an unknown rank. */
static enum sp_status check_once(struct axis_check *axis, int64_t *seen, int64_t *last, bool *ret_twice)
{
    const uint32_t slot = axis->is_known ? axis->index : axis->index + SP_MAX_RANK;
    *ret_twice = seen[slot] != 0;
    if (*ret_twice) {
        const int64_t first = seen[slot] > 0 ? seen[slot] - 1 : seen[slot];
        return first == axis->axis
                   ? sp_annotation_report(axis->check, "AXIS_TWICE", tensor_of(axis), NULL,
                                          "A sharding spec splits axis %" PRId64 " of '%.120s' twice.", axis->axis,
                                          tensor_of(axis))
                   : sp_annotation_report(axis->check, "AXIS_TWICE", tensor_of(axis), NULL,
                                          "A sharding spec splits the same axis of '%.120s' twice: axis %" PRId64
                                          " and axis %" PRId64 ".",
                                          tensor_of(axis), first, axis->axis);
    }
    seen[slot] = axis->axis >= 0 ? axis->axis + 1 : axis->axis;
    if (!axis->is_known)
        return SP_OK;
    const bool is_before = *last > (int64_t)axis->index;
    *last = *last >= 0 && is_before ? INT64_MAX : (int64_t)axis->index; /* told once for a spec */
    return SP_OK;
}

enum sp_status sp_check_spec_axes(struct sp_annotation_check *check, struct sp_spec_check *spec)
{
    int64_t seen[2 * SP_MAX_RANK] = {0}, last = -1;
    int64_t total = 1;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < spec->spec->axis_count; i++) {
        struct axis_check axis = {.check = check, .spec = spec, .from = &spec->spec->axes[i]};
        int64_t shards = -1;
        bool twice = false;
        axis.axis = axis.from->axis;
        const int64_t rank = spec->rank, most = rank >= 0 ? rank : SP_MAX_RANK;
        if (!axis.from->has_axis && rank != 0)
            status = sp_annotation_report(check, "AXIS_ABSENT", spec->tensor, NULL,
                                          "A sharded_dim for '%.120s' has no axis; proto3 writers leave the number 0 "
                                          "away, so it is axis 0.",
                                          spec->tensor);
        if (status == SP_OK)
            status = check_axis_range(&axis);
        const bool in_range = rank != 0 && axis.axis >= -most && axis.axis < most;
        if (status == SP_OK && in_range)
            status = check_once(&axis, seen, &last, &twice);
        if (status == SP_OK)
            status = check_parts(&axis, &shards);
        if (!in_range || twice || shards < 0 || total < 0)
            total = -1;
        else if (!sp_mul_i64(total, shards, &total)) {
            total = -1;
            status = status != SP_OK ? status
                                     : sp_annotation_report(check, "SHARDS_TOO_MANY", spec->tensor, NULL,
                                                            "The numbers of shards of '%.120s' multiply to more than "
                                                            "2^63 - 1.",
                                                            spec->tensor);
        }
    }
    spec->shards = total;
    if (status == SP_OK && last == INT64_MAX)
        status = sp_annotation_report(check, "AXES_NOT_ASCENDING", spec->tensor, NULL,
                                      "The axes of '%.120s' are not listed in ascending order; shards are numbered in "
                                      "the order of the list, its first axis outermost.",
                                      spec->tensor);
    return status;
}
