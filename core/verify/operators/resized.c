/*
 * Operators on places of an image by their coordinates: Resize and AffineGrid.
 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

/* An axis that is resized. */
struct resized {
    uint32_t axis;
    int64_t in, out;
    float scale;
};

/* The coordinate of a place in the input, in float32, as runtimes compute it: which element is nearest, and the weights of
   those around, hang on its rounding. */
static float coordinate(const struct sp_call *call, const struct resized *to, int64_t place)
{
    const char *mode =
        call->version < 11 ? "asymmetric" : sp_node_string(call->node, "coordinate_transformation_mode", "half_pixel");
    const float x = (float)place, in = (float)to->in, out = (float)to->out;
    if (strcmp(mode, "asymmetric") == 0)
        return x / to->scale;
    if (strcmp(mode, "align_corners") == 0)
        return to->out <= 1 ? 0 : x * (in - 1) / (out - 1);
    if (strcmp(mode, "pytorch_half_pixel") == 0 && to->out <= 1)
        return 0;
    if (strcmp(mode, "tf_half_pixel_for_nn") == 0)
        return (x + 0.5F) / to->scale;
    const float shift = strcmp(mode, "half_pixel_symmetric") == 0 ? in / 2 * (1 - out / (to->scale * in)) : 0;
    return shift + (x + 0.5F) / to->scale - 0.5F;
}

/* Before operator set 11 the next element when fewer are made, else the last one. */
static double nearest(const struct sp_call *call, const struct resized *to, double x)
{
    const char *mode = sp_node_string(call->node, "nearest_mode", "round_prefer_floor");
    if (call->version < 11)
        return to->scale < 1 ? ceil(x) : floor(x);
    if (strcmp(mode, "floor") == 0)
        return floor(x);
    if (strcmp(mode, "ceil") == 0)
        return ceil(x);
    if (strcmp(mode, "round_prefer_ceil") == 0)
        return floor(x + 0.5);
    return ceil(x - 0.5);
}

#define MAX_TAPS 4

/* The items that a place is made of, and their weights. */
struct taps {
    uint32_t count;
    double first; /* of the items; those outside are the nearest one inside */
    double weights[MAX_TAPS];
};

static struct taps cubic(double point, double a)
{
    const double first = floor(point) - 1, d = point - floor(point);
    const double far = d + 1, other = 1 - d, last = 2 - d;
    return (struct taps){4,
                         first,
                         {((a * far - 5 * a) * far + 8 * a) * far - 4 * a, ((a + 2) * d - (a + 3)) * d * d + 1,
                          ((a + 2) * other - (a + 3)) * other * other + 1,
                          ((a * last - 5 * a) * last + 8 * a) * last - 4 * a}};
}

static struct taps taps_at(const struct sp_call *call, const struct resized *to, float point)
{
    const char *mode = sp_node_string(call->node, "mode", "nearest");
    if (strcmp(mode, "cubic") == 0)
        return cubic((double)point, (float)sp_node_float(call->node, "cubic_coeff_a", -0.75));
    if (strcmp(mode, "linear") != 0)
        return (struct taps){1, nearest(call, to, (double)point), {1}};
    point = point < 0 ? 0 : point > (float)(to->in - 1) ? (float)(to->in - 1) : point;
    const double weight = (double)point - floor((double)point);
    return (struct taps){2, floor((double)point), {1 - weight, weight}};
}

/* Takes the items outside of an axis out of what a place is made of. */
static void leave_out(struct taps *taps, int64_t extent)
{
    double sum = 0;
    for (uint32_t k = 0; k < taps->count; k++) {
        if (taps->first + k < 0 || taps->first + k >= (double)extent)
            taps->weights[k] = 0;
        sum += taps->weights[k];
    }
    for (uint32_t k = 0; k < taps->count && sum != 0; k++)
        taps->weights[k] /= sum;
}

/* Where the taps of a place are among the indices that are looked at; false where one is not. */
static bool find_taps(const struct sp_index_axis *own, const struct taps *taps, uint32_t *ret)
{
    for (uint32_t k = 0; k < taps->count; k++) {
        const double index = fmax(0, fmin((double)own->extent - 1, taps->first + k));
        const int64_t at = sp_index_find(own, (int64_t)index);
        if (at < 0)
            return false;
        ret[k] = (uint32_t)at;
    }
    return true;
}

static enum sp_status resize_axis(struct sp_call *call, const struct sp_numbers *x, const struct resized *to,
                                  struct sp_numbers **ret)
{
    const uint32_t axis = to->axis;
    const int64_t extent = to->out;
    const struct sp_index_axis *own = &x->axes[axis];
    struct sp_steps steps = {call, SP_OK};
    uint32_t *from[MAX_TAPS], count = 0;
    struct taps *taps = SP_NEW_ARRAY(call->arena, (size_t)extent, struct taps);
    int64_t *at = SP_NEW_ARRAY(call->arena, (size_t)extent, int64_t);
    struct sp_index_axis axes = {extent, 0, at};
    bool has_room = taps != NULL && at != NULL;
    for (int k = 0; k < MAX_TAPS; k++)
        has_room = (from[k] = SP_NEW_ARRAY(call->arena, (size_t)extent, uint32_t)) != NULL && has_room;
    if (!has_room)
        return sp_fail_memory(call->err);
    for (int64_t place = 0; place < extent; place++) {
        uint32_t found[MAX_TAPS];
        taps[axes.count] = taps_at(call, to, coordinate(call, to, place));
        if (sp_node_int(call->node, "exclude_outside", 0) != 0)
            leave_out(&taps[axes.count], own->extent);
        if (!find_taps(own, &taps[axes.count], found))
            continue;
        count = taps[axes.count].count;
        for (uint32_t k = 0; k < count; k++)
            from[k][axes.count] = found[k];
        at[axes.count++] = place;
    }
    if (axes.count == extent)
        axes.at = NULL;
    struct sp_numbers *sum = NULL;
    for (uint32_t k = 0; steps.status == SP_OK && k < count; k++) {
        struct sp_numbers *part, *weights;
        steps.status = sp_numbers_take(call->arena, x, axis, &axes, from[k], &part, call->err);
        if (steps.status == SP_OK && count > 1)
            steps.status = sp_numbers_create(call->arena, x->dtype, 1, &axes, &weights, call->err);
        for (uint32_t i = 0; steps.status == SP_OK && count > 1 && i < axes.count; i++)
            weights->items[i] = sp_number_of_real((float)taps[i].weights[k]);
        if (count > 1)
            part = sp_step(&steps, part, sp_step_along(&steps, weights, x->rank, axis), sp_number_multiply);
        sum = sum == NULL ? part : sp_step(&steps, sum, part, sp_number_add);
    }
    if (count == 0)
        return sp_numbers_take(call->arena, x, axis, &axes, from[0], ret, call->err);
    *ret = sum;
    return steps.status;
}

/* The factors that operator set 7 has as an attribute. */
static const struct sp_numbers *listed_scales(struct sp_call *call)
{
    const struct sp_attribute *list = sp_node_attribute(call->node, "scales");
    const int64_t count = list != NULL && list->floats != NULL ? list->count : 0;
    struct sp_numbers *out = NULL;
    if (count == 0 || sp_numbers_create_full(call->arena, SP_DTYPE_FLOAT, 1, &count, &out, call->err) != SP_OK)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        out->items[i] = sp_number_of_real(list->floats[i]);
    out->is_known = true;
    return out;
}

static enum sp_status evaluate_resize(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const bool is_old = call->version < 11;
    const struct sp_numbers *scales = call->in_count == 1 ? listed_scales(call) : sp_call_in(call, is_old ? 1 : 2);
    const char *places = sp_node_string(call->node, "coordinate_transformation_mode", "half_pixel"),
               *policy = sp_node_string(call->node, "keep_aspect_ratio_policy", "stretch");
    const struct sp_attribute *axes = sp_node_attribute(call->node, "axes");
    const int64_t *sizes = NULL;
    struct sp_numbers *out;
    uint32_t count = 0;
    enum sp_status status = SP_OK;
    if (x == NULL || strcmp(places, "tf_crop_and_resize") == 0 || strcmp(policy, "stretch") != 0 ||
        sp_node_int(call->node, "antialias", 0) != 0)
        return sp_evaluate_by_rule(call);
    const uint32_t listed = axes != NULL && axes->ints != NULL ? axes->count : x->rank;
    if (sp_call_in(call, 3) != NULL)
        status = sp_call_ints(call, 3, &count, &sizes);
    else if (scales == NULL || !scales->is_known || scales->count != listed)
        return sp_call_refuse(call, "its sizes are not known");
    if (status != SP_OK || (sizes != NULL && count != listed))
        return status != SP_OK ? status : sp_call_refuse(call, "its sizes are for other axes");
    status = sp_numbers_view(call->arena, x, x->rank, x->axes, &out, call->err);
    for (uint32_t i = 0; status == SP_OK && i < listed; i++) {
        struct resized to = {.axis = i};
        if (listed != x->rank || axes != NULL)
            status = sp_call_axis(call, axes->ints[i], x->rank, &to.axis);
        if (status != SP_OK)
            return status;
        to.in = x->axes[to.axis].extent;
        to.scale = sizes != NULL ? (float)sizes[i] / (float)to.in : (float)scales->items[i].real;
        to.out = sizes != NULL ? sizes[i] : (int64_t)floorf((float)to.in * to.scale);
        if (to.in == 0 || to.out < 0 || to.out > SP_MAX_EVALUATED_NUMBERS || to.scale <= 0)
            return sp_call_refuse(call, "its sizes are too large");
        if (to.out != to.in || to.scale != 1)
            status = resize_axis(call, out, &to, &out);
    }
    if (status == SP_OK)
        call->out[0] = out;
    return status;
}

/* ---- AffineGrid ------------------------------------------------------------------------------------------------- */

static double grid_at(int64_t place, int64_t extent, bool aligns)
{
    if (aligns)
        return extent > 1 ? -1 + 2 * (double)place / (double)(extent - 1) : 0;
    return (2 * (double)place + 1) / (double)extent - 1;
}

/* (theta [n, k, k + 1], sizes [n, c, ..k]): the matrix by the coordinates of each place, those of the last axis first. */
static enum sp_status evaluate_grid(struct sp_call *call)
{
    const struct sp_numbers *theta = sp_call_in(call, 0);
    const int64_t *sizes;
    uint32_t count;
    enum sp_status status = theta != NULL ? sp_call_ints(call, 1, &count, &sizes) : SP_ERR_UNSUPPORTED;
    if (status != SP_OK || theta->rank != 3 || count < 4 || count > 5 || theta->axes[1].extent != count - 2 ||
        theta->axes[2].extent != count - 1 || !sp_numbers_is_complete(theta))
        return sp_call_refuse(call, "its matrices do not fit its sizes");
    const bool aligns = sp_node_int(call->node, "align_corners", 0) != 0;
    const uint32_t places = count - 2;
    int64_t extents[5] = {theta->axes[0].extent};
    for (uint32_t i = 0; i < places; i++)
        extents[i + 1] = sizes[i + 2];
    extents[places + 1] = places;
    status = sp_numbers_create_full(call->arena, theta->dtype, places + 2, extents, &call->out[0], call->err);
    struct sp_strides walk = {.rank = places + 2};
    for (uint32_t i = 0; i < places + 2; i++)
        walk.counts[i] = (uint64_t)extents[i];
    for (uint64_t i = 0; status == SP_OK && i < call->out[0]->count; i++, sp_strides_step(&walk)) {
        const struct sp_number *row =
            &theta->items[(walk.positions[0] * places + walk.positions[places + 1]) * (places + 1)];
        struct sp_number sum = row[places];
        for (uint32_t k = 0; k < places; k++) {
            const uint32_t axis = places - k;
            const double at = (float)grid_at((int64_t)walk.positions[axis], extents[axis], aligns);
            sum = sp_number_add(sum, sp_number_multiply(row[k], sp_number_of_real(at)));
        }
        call->out[0]->items[i] = sum;
    }
    return status;
}

const struct sp_evaluator_entry sp_evaluators_resized[] = {
    {"Resize", evaluate_resize},
    {"Upsample", evaluate_resize},
    {"AffineGrid", evaluate_grid},
    {NULL, NULL},
};
