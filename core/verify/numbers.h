#pragma once
/*
 * numbers - tensors of the numbers of field.h, as a graph is evaluated in them.
 *
 * An axis may be evaluated at some of its indices only: `at` lists them. An operator that works element by element
 * along an axis, or sums over it, works on the listed indices as on all; one that has to see all of them is
 * SP_ERR_UNSUPPORTED where some are missing.
 *
 * A tensor is known where its numbers do not stand for any others: integers, constants, and what is computed of them.
 * Its field parts follow from its real parts, so functions without a meaning in the field are computed on these.
 *
 * Everything lives in the arena of the evaluation and is immutable once made.
 */
#include "base/arena.h"
#include "graph/dtype.h"
#include "verify/field.h"

struct sp_index_axis {
    int64_t extent;
    uint32_t count;
    const int64_t *at; /* `count` indices, ascending; NULL: all */
};

struct sp_numbers {
    enum sp_dtype dtype;
    bool is_known;
    uint32_t rank;
    struct sp_index_axis *axes;
    uint64_t count; /* product of the axes' counts */
    struct sp_number *items;
    /* Of roots that a reduction takes: what they are roots of, by item, and which roots. Else NULL. */
    const struct sp_number *radicands;
    int64_t degree;
    /* Of a difference of two tensors: these (verify/exponential.c). Else NULL. */
    const struct sp_numbers *minuend, *subtrahend;
};

/* A tensor to be filled in; SP_ERR_LIMIT beyond SP_MAX_EVALUATED_NUMBERS. The axes are copied. */
enum sp_status sp_numbers_create(struct sp_arena *arena, enum sp_dtype dtype, uint32_t rank,
                                 const struct sp_index_axis *axes, struct sp_numbers **ret, struct sp_error *err);
/* The same where every axis has all its indices. */
enum sp_status sp_numbers_create_full(struct sp_arena *arena, enum sp_dtype dtype, uint32_t rank,
                                      const int64_t *extents, struct sp_numbers **ret, struct sp_error *err);
/* The tensor's numbers under other axes with as many items. */
enum sp_status sp_numbers_view(struct sp_arena *arena, const struct sp_numbers *x, uint32_t rank,
                               const struct sp_index_axis *axes, struct sp_numbers **ret, struct sp_error *err);

static inline struct sp_index_axis sp_index_all(int64_t extent)
{
    return (struct sp_index_axis){extent, (uint32_t)extent, NULL};
}

static inline int64_t sp_index_at(const struct sp_index_axis *axis, uint32_t i)
{
    return axis->at != NULL ? axis->at[i] : (int64_t)i;
}

/* Where an index is among those of an axis, or -1. */
int64_t sp_index_find(const struct sp_index_axis *axis, int64_t index);
bool sp_index_equal(const struct sp_index_axis *a, const struct sp_index_axis *b);
/* The indices that both have; both have the same extent. */
enum sp_status sp_index_common(struct sp_arena *arena, const struct sp_index_axis *a, const struct sp_index_axis *b,
                               struct sp_index_axis *ret, struct sp_error *err);

/*
 * A walk over a product of counts with an index of each of several tensors, moved by strides.
 *
 *     sp_strides_begin(&walk, rank, counts, 2);  walk.steps[k][axis] = ..;
 *     for (uint64_t i = 0; i < total; i++, sp_strides_step(&walk)) use(walk.index[0], walk.index[1]);
 */
#define SP_STRIDES_MAX  4
#define SP_STRIDES_AXES 72
struct sp_strides {
    uint32_t rank, tensors;
    uint64_t counts[SP_STRIDES_AXES], positions[SP_STRIDES_AXES];
    int64_t steps[SP_STRIDES_MAX][SP_STRIDES_AXES];
    int64_t index[SP_STRIDES_MAX];
};

static inline void sp_strides_step(struct sp_strides *walk)
{
    for (uint32_t axis = walk->rank; axis-- > 0;) {
        for (uint32_t k = 0; k < walk->tensors; k++)
            walk->index[k] += walk->steps[k][axis];
        if (++walk->positions[axis] < walk->counts[axis])
            return;
        for (uint32_t k = 0; k < walk->tensors; k++)
            walk->index[k] -= walk->steps[k][axis] * (int64_t)walk->counts[axis];
        walk->positions[axis] = 0;
    }
}

/* The stride of each axis in items. */
void sp_numbers_strides(const struct sp_numbers *x, int64_t *ret_strides);

/* Whether all axes have all their indices. */
bool sp_numbers_is_complete(const struct sp_numbers *x);

/* An item of a known tensor as an integer. */
static inline int64_t sp_numbers_int(const struct sp_numbers *x, uint64_t i)
{
    return sp_dtype_is_float(x->dtype) ? (int64_t)x->items[i].real : (int64_t)x->items[i].field;
}

static inline struct sp_number sp_number_of_int(int64_t value)
{
    return (struct sp_number){(uint64_t)value, (double)value};
}

/* The number that a real of a type stands for, rounded to the type's digits. */
uint64_t sp_field_of_type(double value, enum sp_dtype dtype);

static inline struct sp_number sp_number_of_real(double value)
{
    return (struct sp_number){sp_field_of_real(value), value};
}
