#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "ops/lowering/internal.h"

/* ---- extents ---------------------------------------------------------------------------------------------------- */

/* Of the extents of two axes: -1 where not known; false where they do not broadcast. */
static bool broadcast_extent(int64_t a, int64_t b, int64_t *ret_extent)
{
    if (a > 1 && b > 1 && a != b)
        return false;
    if (a == b || b == 1)
        *ret_extent = a;
    else if (a == 1)
        *ret_extent = b;
    else
        *ret_extent = a == -1 ? b : a; /* one is not known and can only be the other, or 1 */
    return true;
}

void sp_lower_set_broadcast(struct sp_lowering *lower, struct sp_piece *piece, const struct sp_piece *a,
                            const struct sp_piece *b)
{
    int64_t dims[SP_MAX_RANK];
    if (!sp_lower_has(lower, a, b) || piece == NULL || a->dims == NULL || b->dims == NULL)
        return;
    const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t from_a = i < rank - a->rank ? 1 : a->dims[i - (rank - a->rank)];
        const int64_t from_b = i < rank - b->rank ? 1 : b->dims[i - (rank - b->rank)];
        if (!broadcast_extent(from_a, from_b, &dims[i])) {
            sp_lower_misuse(lower, "broadcasts %" PRId64 " and %" PRId64 " elements on axis %" PRIu32, from_a, from_b,
                            i);
            return;
        }
    }
    sp_piece_set_dims(lower, piece, rank, dims);
}

static bool same_dims(const struct sp_piece *a, const struct sp_piece *b)
{
    if (a->dims == NULL || b->dims == NULL || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------ */

struct sp_piece *sp_lower_unary(struct sp_lowering *lower, const char *op_type, struct sp_piece *x)
{
    if (!sp_lower_has(lower, x, x))
        return NULL;
    const bool is_test = strcmp(op_type, "IsNaN") == 0 || strcmp(op_type, "IsInf") == 0;
    struct sp_piece *piece = sp_lower_op(lower, op_type, is_test ? SP_DTYPE_BOOL : x->dtype, 1, &x, 0, NULL);
    if (x->dims != NULL)
        sp_piece_set_dims(lower, piece, x->rank, x->dims);
    return piece;
}

#define BROADCASTS_SINCE         7 /* before, an attribute says so, and only the second operand is repeated */
#define EXTREMES_BROADCAST_SINCE 8

/* Whether b, the last axes of a or a scalar, can be repeated as the operators before version 7 do. */
static bool is_suffix(const struct sp_piece *a, const struct sp_piece *b)
{
    if (a->dims == NULL || b->dims == NULL || b->rank > a->rank)
        return false;
    for (uint32_t i = 0; i < b->rank; i++)
        if (b->dims[i] != a->dims[a->rank - b->rank + i])
            return false;
    return true;
}

static bool is_commutative(const char *op_type)
{
    static const char *const names[] = {"Add", "Mul", "And", "Or", "Xor", "Equal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op_type, names[i]) == 0)
            return true;
    return false;
}

/* An operator of two operands in the form of the opset; dims are those of the broadcast. */
static struct sp_piece *two(struct sp_lowering *lower, const char *op_type, enum sp_dtype dtype, struct sp_piece *a,
                            struct sp_piece *b)
{
    const struct sp_lower_attribute broadcast = SP_INT_ATTR("broadcast", 1);
    const bool is_extreme = strcmp(op_type, "Max") == 0 || strcmp(op_type, "Min") == 0;
    uint32_t attributes = 0;
    struct sp_piece *inputs[] = {a, b};
    if (!sp_lower_has(lower, a, b))
        return NULL;
    if (is_extreme && lower->opset < EXTREMES_BROADCAST_SINCE && !same_dims(a, b))
        sp_lower_fail_opset(lower, op_type, EXTREMES_BROADCAST_SINCE);
    if (!is_extreme && lower->opset < BROADCASTS_SINCE && !same_dims(a, b)) {
        const bool is_swapped = !is_suffix(a, b) && is_suffix(b, a) && is_commutative(op_type);
        if (!is_suffix(a, b) && !is_swapped)
            sp_lower_fail_opset(lower, op_type, BROADCASTS_SINCE);
        inputs[0] = is_swapped ? b : a;
        inputs[1] = is_swapped ? a : b;
        attributes = 1;
    }
    struct sp_piece *piece = sp_lower_op(lower, op_type, dtype, 2, inputs, attributes, &broadcast);
    sp_lower_set_broadcast(lower, piece, a, b);
    return piece;
}

static bool check_types(struct sp_lowering *lower, const char *op_type, const struct sp_piece *a,
                        const struct sp_piece *b)
{
    if (!sp_lower_has(lower, a, b))
        return false;
    if (a->dtype != b->dtype)
        sp_lower_misuse(lower, "gives %s elements of %s and %s", op_type, sp_dtype_name(a->dtype),
                        sp_dtype_name(b->dtype));
    return a->dtype == b->dtype;
}

struct sp_piece *sp_lower_binary(struct sp_lowering *lower, const char *op_type, struct sp_piece *a, struct sp_piece *b)
{
    const bool is_extreme = strcmp(op_type, "Max") == 0 || strcmp(op_type, "Min") == 0;
    if (!sp_lower_has(lower, a, b) || (strcmp(op_type, "Pow") != 0 && !check_types(lower, op_type, a, b)))
        return NULL;
    const enum sp_dtype carrier = sp_lower_carrier(lower, op_type, a->dtype);
    /* Max and Min of 64-bit integers by comparing, where they have no kernel; that takes Where. */
    if (is_extreme && sp_dtype_is_integer(carrier) && lower->opset < 12)
        return sp_lower_where(lower, sp_lower_compare(lower, strcmp(op_type, "Max") == 0 ? "Greater" : "Less", a, b), a,
                              b);
    if (carrier == a->dtype)
        return two(lower, op_type, a->dtype, a, b);
    struct sp_piece *wide_a = sp_lower_cast(lower, a, carrier), *wide_b = sp_lower_cast(lower, b, carrier);
    struct sp_piece *piece = two(lower, op_type, carrier, wide_a, wide_b);
    return sp_lower_cast(lower, piece, a->dtype);
}

#define OR_EQUAL_SINCE       12
#define EQUAL_OF_REALS_SINCE 11
#define IS_NAN_SINCE         9

/* Neither less nor greater, and no NaN. */
static struct sp_piece *equal_reals(struct sp_lowering *lower, struct sp_piece *a, struct sp_piece *b)
{
    if (lower->opset < IS_NAN_SINCE)
        sp_lower_fail_opset(lower, "IsNaN", IS_NAN_SINCE);
    struct sp_piece *less = two(lower, "Less", SP_DTYPE_BOOL, a, b), *more = two(lower, "Greater", SP_DTYPE_BOOL, a, b);
    struct sp_piece *differ = two(lower, "Or", SP_DTYPE_BOOL, less, more);
    struct sp_piece *no_a = sp_lower_unary(lower, "IsNaN", a), *no_b = sp_lower_unary(lower, "IsNaN", b);
    struct sp_piece *no_number = two(lower, "Or", SP_DTYPE_BOOL, no_a, no_b);
    return sp_lower_unary(lower, "Not", two(lower, "Or", SP_DTYPE_BOOL, differ, no_number));
}

static struct sp_piece *equal(struct sp_lowering *lower, struct sp_piece *a, struct sp_piece *b)
{
    if (lower->opset < EQUAL_OF_REALS_SINCE && sp_dtype_is_float(a->dtype))
        return equal_reals(lower, a, b);
    return two(lower, "Equal", SP_DTYPE_BOOL, a, b);
}

struct sp_piece *sp_lower_compare(struct sp_lowering *lower, const char *op_type, struct sp_piece *a,
                                  struct sp_piece *b)
{
    if (!check_types(lower, op_type, a, b))
        return NULL;
    const enum sp_dtype dtype = a->dtype, carrier = sp_lower_carrier(lower, op_type, dtype);
    a = sp_lower_cast(lower, a, carrier);
    b = sp_lower_cast(lower, b, carrier);
    if (a == NULL || b == NULL)
        return NULL;
    const bool is_less = strcmp(op_type, "LessOrEqual") == 0;
    if ((is_less || strcmp(op_type, "GreaterOrEqual") == 0) && lower->opset < OR_EQUAL_SINCE) {
        if (sp_dtype_is_integer(dtype))
            return sp_lower_unary(lower, "Not", two(lower, is_less ? "Greater" : "Less", SP_DTYPE_BOOL, a, b));
        struct sp_piece *beyond = two(lower, is_less ? "Less" : "Greater", SP_DTYPE_BOOL, a, b);
        return two(lower, "Or", SP_DTYPE_BOOL, beyond, equal(lower, a, b));
    }
    return strcmp(op_type, "Equal") == 0 ? equal(lower, a, b) : two(lower, op_type, SP_DTYPE_BOOL, a, b);
}

#define WHERE_SINCE 9

/* b + condition * (a - b): exact for integers. */
static struct sp_piece *where_by_product(struct sp_lowering *lower, struct sp_piece *condition, struct sp_piece *a,
                                         struct sp_piece *b)
{
    const enum sp_dtype dtype = a->dtype, carrier = sp_lower_carrier(lower, "Mul", dtype);
    a = sp_lower_cast(lower, a, carrier);
    b = sp_lower_cast(lower, b, carrier);
    struct sp_piece *difference = two(lower, "Sub", carrier, a, b);
    difference = two(lower, "Mul", carrier, sp_lower_cast(lower, condition, carrier), difference);
    return sp_lower_cast(lower, two(lower, "Add", carrier, difference, b), dtype);
}

struct sp_piece *sp_lower_where(struct sp_lowering *lower, struct sp_piece *condition, struct sp_piece *a,
                                struct sp_piece *b)
{
    if (!check_types(lower, "Where", a, b) || condition == NULL)
        return NULL;
    if (condition->dtype != SP_DTYPE_BOOL) {
        sp_lower_misuse(lower, "chooses by a piece of type %s", sp_dtype_name(condition->dtype));
        return NULL;
    }
    if (lower->opset < WHERE_SINCE && sp_dtype_is_integer(a->dtype))
        return where_by_product(lower, condition, a, b);
    if (lower->opset < WHERE_SINCE)
        sp_lower_fail_opset(lower, "Where", WHERE_SINCE);
    const enum sp_dtype dtype = a->dtype, carrier = sp_lower_carrier(lower, "Where", dtype);
    struct sp_piece *const inputs[] = {condition, sp_lower_cast(lower, a, carrier), sp_lower_cast(lower, b, carrier)};
    struct sp_piece *piece = sp_lower_op(lower, "Where", carrier, 3, inputs, 0, NULL);
    sp_lower_set_broadcast(lower, piece, a, b);
    if (piece != NULL && piece->dims != NULL && condition->dims != NULL) {
        const struct sp_piece values = *piece;
        sp_lower_set_broadcast(lower, piece, &values, condition);
    } else if (piece != NULL) {
        piece->rank = 0;
        piece->dims = NULL;
    }
    return sp_lower_cast(lower, piece, dtype);
}

#define CAST_TO_NUMBER_SINCE 6

struct sp_piece *sp_lower_cast(struct sp_lowering *lower, struct sp_piece *x, enum sp_dtype dtype)
{
    /* TensorProto.DataType's names, as the first version of Cast has them. */
    static const char *const names[] = {"UNDEFINED", "FLOAT",  "UINT8",     "INT8",      "UINT16",  "INT16",
                                        "INT32",     "INT64",  "STRING",    "BOOL",      "FLOAT16", "DOUBLE",
                                        "UINT32",    "UINT64", "COMPLEX64", "COMPLEX128"};
    if (!sp_lower_is_fine(lower) || x == NULL)
        return NULL;
    if (x->dtype == dtype)
        return x;
    struct sp_lower_attribute to = SP_INT_ATTR("to", dtype);
    if (lower->opset < CAST_TO_NUMBER_SINCE && (size_t)dtype < sizeof names / sizeof *names)
        to = (struct sp_lower_attribute){.name = "to", .type = SP_ATTR_STRING, .s = names[dtype]};
    struct sp_piece *piece = sp_lower_op(lower, "Cast", dtype, 1, &x, 1, &to);
    if (x->dims != NULL)
        sp_piece_set_dims(lower, piece, x->rank, x->dims);
    return piece;
}

/* ---- reductions and products ------------------------------------------------------------------------------------ */

#define SUM_AXES_INPUT_SINCE    13
#define REDUCE_AXES_INPUT_SINCE 18

static void set_reduced(struct sp_lowering *lower, struct sp_piece *piece, const struct sp_piece *x, uint64_t axes,
                        bool keep_dims)
{
    int64_t dims[SP_MAX_RANK];
    uint32_t rank = 0;
    if (x->dims == NULL)
        return;
    for (uint32_t i = 0; i < x->rank; i++) {
        const bool is_reduced = (axes >> i & 1) != 0;
        if (!is_reduced || keep_dims)
            dims[rank++] = is_reduced ? 1 : x->dims[i];
    }
    sp_piece_set_dims(lower, piece, rank, dims);
}

struct sp_piece *sp_lower_reduce(struct sp_lowering *lower, const char *op_type, struct sp_piece *x, uint64_t axes,
                                 bool keep_dims)
{
    int64_t list[SP_MAX_RANK];
    uint32_t count = 0;
    if (!sp_lower_has(lower, x, x) || axes == 0)
        return sp_lower_is_fine(lower) ? x : NULL;
    for (uint32_t i = 0; i < SP_MAX_RANK; i++)
        if ((axes >> i & 1) != 0)
            list[count++] = i;
    if (x->dims != NULL && list[count - 1] >= x->rank) {
        sp_lower_misuse(lower, "reduces axis %" PRId64 " of %" PRIu32, list[count - 1], x->rank);
        return NULL;
    }
    const enum sp_dtype dtype = x->dtype, carrier = sp_lower_carrier(lower, op_type, dtype);
    const int64_t since = strcmp(op_type, "ReduceSum") == 0 ? SUM_AXES_INPUT_SINCE : REDUCE_AXES_INPUT_SINCE;
    const bool is_input = lower->opset >= since;
    const struct sp_lower_attribute attributes[] = {SP_INT_ATTR("keepdims", keep_dims),
                                                    SP_INTS_ATTR("axes", count, list)};
    struct sp_piece *const inputs[] = {sp_lower_cast(lower, x, carrier),
                                       is_input ? sp_lower_ints(lower, count, list) : NULL};
    struct sp_piece *piece =
        sp_lower_op(lower, op_type, carrier, is_input ? 2 : 1, inputs, is_input ? 1 : 2, attributes);
    set_reduced(lower, piece, x, axes, keep_dims);
    return sp_lower_cast(lower, piece, dtype);
}

/* The extents of a matrix product: [m, k] [k, n], leading axes broadcast, a vector is a row on the left and a column on
   the right. */
static void set_product(struct sp_lowering *lower, struct sp_piece *piece, const struct sp_piece *a,
                        const struct sp_piece *b)
{
    int64_t dims[SP_MAX_RANK];
    if (a->dims == NULL || b->dims == NULL)
        return;
    if (a->rank == 0 || b->rank == 0) {
        sp_lower_misuse(lower, "multiplies a number as a matrix");
        return;
    }
    const int64_t k_a = a->dims[a->rank - 1], k_b = b->dims[b->rank == 1 ? 0 : b->rank - 2];
    if (k_a >= 0 && k_b >= 0 && k_a != k_b) {
        sp_lower_misuse(lower, "multiplies matrices along %" PRId64 " and %" PRId64 " elements", k_a, k_b);
        return;
    }
    const struct sp_piece batch_a = {.rank = a->rank < 2 ? 0 : a->rank - 2, .dims = a->dims};
    const struct sp_piece batch_b = {.rank = b->rank < 2 ? 0 : b->rank - 2, .dims = b->dims};
    sp_lower_set_broadcast(lower, piece, &batch_a, &batch_b);
    if (!sp_lower_is_fine(lower))
        return;
    uint32_t rank = piece->rank;
    if (rank > 0)
        memcpy(dims, piece->dims, rank * sizeof *dims);
    if (a->rank > 1)
        dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        dims[rank++] = b->dims[b->rank - 1];
    sp_piece_set_dims(lower, piece, rank, dims);
}

struct sp_piece *sp_lower_matmul(struct sp_lowering *lower, struct sp_piece *a, struct sp_piece *b)
{
    if (!check_types(lower, "MatMul", a, b))
        return NULL;
    struct sp_piece *const inputs[] = {a, b};
    struct sp_piece *piece = sp_lower_op(lower, "MatMul", a->dtype, 2, inputs, 0, NULL);
    if (piece != NULL)
        set_product(lower, piece, a, b);
    return sp_lower_is_fine(lower) ? piece : NULL;
}
