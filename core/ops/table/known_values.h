#pragma once
/*
 * known_values - computing with the known elements of shape tensors.
 *
 * Exporters compute shapes with ordinary operators, so elementwise operators also have to work on values. The functions
 * here run the loop over the elements of output 0, whose type and shape must be set first; an operator says only what
 * happens to one element. None of them fails for want of knowledge: where an input's elements are not known, the
 * output's shape is not a list of numbers, or there are more than SP_MAX_DATA_ELEMENTS, the output simply stays without
 * data. An integer that does not fit the output's element type becomes unknown; reals are rounded to the element type
 * (float32), and are not carried for the narrow float types.
 */
#include <assert.h>

#include "base/limits.h"
#include "ops/table/shape_helpers.h"

typedef struct sp_dim (*sp_data_int1)(struct sp_dims *dims, struct sp_dim a);
typedef struct sp_dim (*sp_data_int2)(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
typedef double (*sp_data_real1)(double a);
typedef double (*sp_data_real2)(double a, double b);
typedef bool (*sp_data_test)(double a, double b);

/* Output 0 = f(input 0). Either function may be NULL: then that kind of elements is not carried. The int functions see
   known, symbolic and unknown elements (and may return unknown); all sp_dim_...() binary functions fit as they are. */
enum sp_status sp_data_unary(struct sp_op_context *context, sp_data_int1 on_ints, sp_data_real1 on_reals);

/* Output 0 = f(input 0, input 1) with broadcasting. */
enum sp_status sp_data_binary(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_real2 on_reals);

/* As sp_data_binary() over reals, but with a boolean result (Less on floats); ints give ints (0, 1, or unknown). */
enum sp_status sp_data_compare(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_test on_reals);

/* Output 0 = f(... f(input 0, input 1) ..., last input) with broadcasting (Max, Min, Sum). */
enum sp_status sp_data_nary(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_real2 on_reals);

/* Output 0 = input 0 ? input 1 : input 2, with broadcasting. */
enum sp_status sp_data_where(struct sp_op_context *context);

/* Output 0 = input 0 converted to the output's element type (Cast): truncation towards zero, bool by != 0. */
enum sp_status sp_data_cast(struct sp_op_context *context);

/* Output 0 has the elements of input 0, in the same order (Reshape, Identity). */
enum sp_status sp_data_same(struct sp_op_context *context);

/* Output `output` picks elements of input 0: element i is input 0's element from[i], or `fill`'s only element (NULL: 0)
   where from[i] is UINT32_MAX. `from` has one entry per element of the output, sp_data_room() of them. */
enum sp_status sp_data_pick(struct sp_op_context *context, uint32_t output, const uint32_t *from,
                            const struct sp_data *fill);

/* Goes over the elements of a shape of numbers, row-major, with an index that moves by a stride on each axis: where the
   element lies in a tensor that is laid out in another way. Strides are modulo 2^64, so negative ones work; 0 repeats.
   Only an index of an element that is there means anything. */
struct sp_walk {
    uint32_t rank;
    uint64_t index; /* at the present element */
    uint64_t extents[SP_MAX_RANK], positions[SP_MAX_RANK], strides[SP_MAX_RANK];
};

/* At the first element of `over`, with index 0 and all strides 0. Both may be set before the first step. */
void sp_walk_init(struct sp_walk *walk, const struct sp_shape *over);

/* Over `over`, with the index of what broadcasts from a tensor of shape `from`. */
void sp_walk_broadcast(struct sp_walk *walk, const struct sp_shape *over, const struct sp_shape *from);

/* To the next element; behind the last comes the first. */
static inline void sp_walk_step(struct sp_walk *walk)
{
    for (uint32_t axis = walk->rank; axis-- > 0;) {
        walk->index += walk->strides[axis];
        if (++walk->positions[axis] < walk->extents[axis])
            return;
        walk->index -= walk->strides[axis] * walk->extents[axis];
        walk->positions[axis] = 0;
    }
}

/* The indices of the first `count` elements, from the job's memory; NULL without memory. */
uint32_t *sp_walk_indices(struct sp_op_context *context, struct sp_walk *walk, int64_t count);

/* Elements of output `output` when that is a number of at most SP_MAX_DATA_ELEMENTS, else -1. */
int64_t sp_data_room(const struct sp_op_context *context, uint32_t output);

/* Whether the elements of an input are known or can be read, without reading them. */
bool sp_data_available(const struct sp_op_context *context, uint32_t input);

/* ---- building data element by element ---- */

/* Whether the model may carry so many elements more (SP_MAX_MODEL_DATA). */
bool sp_data_is_affordable(const struct sp_model *model, int64_t elements);

/* Zeroed data for output `output`, not yet attached; NULL without room (sp_data_room()) or memory. */
struct sp_data *sp_data_new(struct sp_op_context *context, uint32_t output, bool is_real);

/* to[i] = from[j]; both hold the same kind. */
static inline void sp_data_copy(struct sp_data *to, uint32_t i, const struct sp_data *from, uint32_t j)
{
    if (to->reals != NULL) {
        assert(from->reals != NULL);
        to->reals[i] = from->reals[j];
    } else {
        assert(to->ints != NULL && from->ints != NULL);
        to->ints[i] = from->ints[j];
    }
}

/* Makes `data` the elements of an output, after bringing them into the range of its element type. */
void sp_data_attach(struct sp_op_context *context, uint32_t output, struct sp_data *data);
