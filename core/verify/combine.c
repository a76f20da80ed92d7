#include "verify/combine.h"

#include <string.h>

#include "base/limits.h"
#include "verify/rearrange.h"

/* ---- of two tensors, element by element ---------------------------------------------------------------------------------------------------- */

enum sp_status sp_numbers_broadcast(struct sp_arena *arena, const struct sp_numbers *a, const struct sp_numbers *b,
                                    uint32_t *ret_rank, struct sp_index_axis *ret_axes, struct sp_error *err)
{
    const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    const struct sp_index_axis one = sp_index_all(1);
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < rank; i++) {
        const struct sp_index_axis *x = i + a->rank >= rank ? &a->axes[i + a->rank - rank] : &one;
        const struct sp_index_axis *y = i + b->rank >= rank ? &b->axes[i + b->rank - rank] : &one;
        if (x->extent == 1)
            ret_axes[i] = *y;
        else if (y->extent == 1)
            ret_axes[i] = *x;
        else if (x->extent != y->extent)
            status =
                sp_fail(err, SP_ERR_MODEL, "SHAPES_DIFFER", "Its operands have %lld and %lld elements on one axis.",
                        (long long)x->extent, (long long)y->extent);
        else
            status = sp_index_common(arena, x, y, &ret_axes[i], err);
    }
    *ret_rank = rank;
    return status;
}

/* Where each index of an axis is in another one of the same extent, of one element, or absent. */
static enum sp_status places_of(struct sp_arena *arena, const struct sp_index_axis *axis,
                                const struct sp_index_axis *own, uint32_t **ret, struct sp_error *err)
{
    uint32_t *places = SP_NEW_ARRAY(arena, axis->count, uint32_t);
    if (places == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < axis->count; i++)
        places[i] = own->extent == 1 ? 0 : (uint32_t)sp_index_find(own, sp_index_at(axis, i));
    *ret = places;
    return SP_OK;
}

/* The tensor with the indices of these axes on each axis of more than one element. */
static enum sp_status restrict_to(struct sp_arena *arena, const struct sp_numbers *x, uint32_t rank,
                                  const struct sp_index_axis *axes, const struct sp_numbers **ret, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < x->rank; i++) {
        const struct sp_index_axis *axis = &axes[i + rank - x->rank];
        uint32_t *places = NULL;
        struct sp_numbers *next;
        if (x->axes[i].extent == 1 || sp_index_equal(&x->axes[i], axis))
            continue;
        status = places_of(arena, axis, &x->axes[i], &places, err);
        if (status == SP_OK)
            status = sp_numbers_take(arena, x, i, axis, places, &next, err);
        if (status == SP_OK)
            x = next;
    }
    *ret = x;
    return status;
}

static void aim(struct sp_strides *walk, uint32_t k, const struct sp_numbers *x, uint32_t rank)
{
    int64_t strides[SP_MAX_RANK];
    sp_numbers_strides(x, strides);
    for (uint32_t i = 0; i < rank; i++)
        walk->steps[k][i] =
            i + x->rank < rank || x->axes[i + x->rank - rank].extent == 1 ? 0 : strides[i + x->rank - rank];
}

/* The inverse of each number in the field that has one, 0 for the others: with a single inversion for all of them. */
static enum sp_status invert_all(struct sp_arena *arena, const struct sp_numbers *x, uint64_t **ret,
                                 struct sp_error *err)
{
    uint64_t *inverses = SP_NEW_ARRAY(arena, x->count, uint64_t), product = 1;
    if (inverses == NULL)
        return sp_fail_memory(err);
    for (uint64_t i = 0; i < x->count; i++) { /* the product of all before it */
        const uint64_t own = x->items[i].field;
        inverses[i] = product;
        product = sp_field_is_finite(own) && own != 0 ? sp_field_multiply(product, own) : product;
    }
    product = sp_field_inverse(product);
    for (uint64_t i = x->count; i-- > 0;) { /* the inverse of the product of all up to it */
        const uint64_t own = x->items[i].field;
        const bool has_inverse = sp_field_is_finite(own) && own != 0;
        inverses[i] = has_inverse ? sp_field_multiply(inverses[i], product) : 0;
        product = has_inverse ? sp_field_multiply(product, own) : product;
    }
    *ret = inverses;
    return SP_OK;
}

/* Along the last axis without the walk, which takes the other ones. */
static void combine_rows(struct sp_strides *walk, const struct sp_number *a, const struct sp_number *b,
                         sp_number2 function, const uint64_t *inverses, struct sp_numbers *out)
{
    const uint32_t last = walk->rank > 0 ? --walk->rank : 0;
    const uint64_t count = walk->rank < out->rank ? walk->counts[last] : 1;
    const int64_t step_a = walk->rank < out->rank ? walk->steps[0][last] : 0,
                  step_b = walk->rank < out->rank ? walk->steps[1][last] : 0;
    for (uint64_t i = 0; i < out->count; sp_strides_step(walk)) {
        int64_t at_a = walk->index[0], at_b = walk->index[1];
        for (uint64_t k = 0; k < count; k++, at_a += step_a, at_b += step_b)
            out->items[i++] =
                inverses != NULL ? sp_number_divide_by(a[at_a], b[at_b], inverses[at_b]) : function(a[at_a], b[at_b]);
    }
}

enum sp_status sp_numbers_binary(struct sp_arena *arena, const struct sp_numbers *a, const struct sp_numbers *b,
                                 enum sp_dtype dtype, sp_number2 function, struct sp_numbers **ret,
                                 struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    struct sp_strides walk = {.tensors = 2};
    const struct sp_numbers *const whole[] = {a, b};
    struct sp_numbers *out;
    uint32_t rank;
    enum sp_status status = sp_numbers_broadcast(arena, a, b, &rank, axes, err);
    if (status == SP_OK)
        status = restrict_to(arena, a, rank, axes, &a, err);
    if (status == SP_OK)
        status = restrict_to(arena, b, rank, axes, &b, err);
    if (status == SP_OK)
        status = sp_numbers_create(arena, dtype, rank, axes, &out, err);
    if (status != SP_OK)
        return status;
    walk.rank = rank;
    for (uint32_t i = 0; i < rank; i++)
        walk.counts[i] = axes[i].count;
    aim(&walk, 0, a, rank);
    aim(&walk, 1, b, rank);
    uint64_t *inverses = NULL;
    if (function == sp_number_divide)
        status = invert_all(arena, b, &inverses, err);
    if (status == SP_OK)
        combine_rows(&walk, a->items, b->items, function, inverses, out);
    if (status != SP_OK)
        return status;
    out->is_known = a->is_known && b->is_known;
    if (function == sp_number_subtract && !out->is_known) {
        out->minuend = whole[0];
        out->subtrahend = whole[1];
    }
    *ret = out;
    return SP_OK;
}

enum sp_status sp_numbers_choose(struct sp_arena *arena, const struct sp_numbers *const *operands,
                                 struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    const struct sp_numbers *fitted[3];
    struct sp_strides walk = {.tensors = 3};
    struct sp_numbers *both, *out;
    enum sp_status status =
        sp_numbers_binary(arena, operands[1], operands[2], operands[1]->dtype, sp_number_max, &both, err);
    if (status == SP_OK)
        status = sp_numbers_broadcast(arena, operands[0], both, &walk.rank, axes, err);
    for (uint32_t k = 0; status == SP_OK && k < 3; k++) {
        status = restrict_to(arena, operands[k], walk.rank, axes, &fitted[k], err);
        if (status == SP_OK)
            aim(&walk, k, fitted[k], walk.rank);
    }
    if (status == SP_OK)
        status = sp_numbers_create(arena, operands[1]->dtype, walk.rank, axes, &out, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < walk.rank; i++)
        walk.counts[i] = axes[i].count;
    for (uint64_t i = 0; i < out->count; i++, sp_strides_step(&walk)) {
        const struct sp_number which = fitted[0]->items[walk.index[0]], a = fitted[1]->items[walk.index[1]],
                               b = fitted[2]->items[walk.index[2]];
        out->items[i] = (struct sp_number){which.field != 0 ? a.field : b.field, which.real != 0 ? a.real : b.real};
    }
    out->is_known = operands[0]->is_known && operands[1]->is_known && operands[2]->is_known;
    *ret = out;
    return SP_OK;
}

/* ---- folds --------------------------------------------------------------------------------------------------- */

enum sp_status sp_numbers_fold(struct sp_arena *arena, const struct sp_numbers *x, uint64_t mask, sp_number2 function,
                               struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    struct sp_strides walk = {.rank = x->rank, .tensors = 1};
    int64_t strides[SP_MAX_RANK];
    struct sp_numbers *out;
    for (uint32_t i = 0; i < x->rank; i++)
        axes[i] = (mask >> i & 1) != 0 ? sp_index_all(1) : x->axes[i];
    enum sp_status status = sp_numbers_create(arena, x->dtype, x->rank, axes, &out, err);
    bool *is_begun = status == SP_OK ? SP_NEW_ARRAY(arena, out->count, bool) : NULL;
    if (status != SP_OK || is_begun == NULL)
        return status != SP_OK ? status : sp_fail_memory(err);
    sp_numbers_strides(out, strides);
    for (uint32_t i = 0; i < x->rank; i++) {
        walk.counts[i] = x->axes[i].count;
        walk.steps[0][i] = (mask >> i & 1) != 0 ? 0 : strides[i];
    }
    for (uint64_t i = 0; i < x->count; i++, sp_strides_step(&walk)) {
        struct sp_number *to = &out->items[walk.index[0]];
        *to = is_begun[walk.index[0]] ? function(*to, x->items[i]) : x->items[i];
        is_begun[walk.index[0]] = true;
    }
    out->is_known = x->is_known;
    *ret = out;
    return SP_OK;
}
