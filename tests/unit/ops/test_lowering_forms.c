/*
 * The helpers of the builder of one device's part of a node: the form of each in every version of the operator set, the
 * types they work in, and what is refused. Expected texts follow from the signatures of the operators
 * (core/ops/signatures) and the contracts of ops/lowering/lowering.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_forms);

/* ---- forms of the versions -------------------------------------------------------------------------------------- */

/* By a function, over x[4,6] of a type, with axis 0 cut in two; the first line, which is the input's, is left out. */
static const char *form(int64_t opset, enum sp_dtype dtype, build_lowering_function function)
{
    build_init(&build, opset);
    build_input(&build, "x", dtype, "4,6");
    struct sp_node *node = build_node(&build, "Transpose", "x", "y");
    infer();
    const char *text = build_lowering_with(&build, node, "d0=0/2", function);
    const char *line = strstr(text, "]\n");
    return strncmp(text, "%0 = part", 9) == 0 && line != NULL ? line + 2 : text;
}

static char *kept; /* of form(): the model is gone before the text is compared */

static const char *form_once(int64_t opset, enum sp_dtype dtype, build_lowering_function function)
{
    free(kept);
    kept = strdup(form(opset, dtype, function));
    stop();
    return kept;
}

static enum sp_status slices(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    sp_lower_slice(lower, x, 1, 2, 5);
    return sp_lower_status(lower);
}

static enum sp_status steps(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    sp_lower_slice_step(lower, x, 1, 5, INT64_MIN, -2);
    return sp_lower_status(lower);
}

static enum sp_status squeezes(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_unsqueeze(lower, sp_lower_input(lower, 0), 1);
    sp_lower_squeeze(lower, x, 1);
    return sp_lower_status(lower);
}

static enum sp_status sums(struct sp_lowering *lower)
{
    sp_lower_reduce(lower, "ReduceSum", sp_lower_input(lower, 0), 2, true);
    return sp_lower_status(lower);
}

static enum sp_status maxima(struct sp_lowering *lower)
{
    sp_lower_reduce(lower, "ReduceMax", sp_lower_input(lower, 0), 3, false);
    return sp_lower_status(lower);
}

static enum sp_status pads(struct sp_lowering *lower)
{
    sp_lower_pad(lower, sp_lower_input(lower, 0), 2, (const int64_t[]){0, 1}, (const int64_t[]){0, 2}, -1);
    return sp_lower_status(lower);
}

static enum sp_status reshapes(struct sp_lowering *lower)
{
    sp_lower_reshape(lower, sp_lower_input(lower, 0), 2, (const int64_t[]){3, -1});
    return sp_lower_status(lower);
}

static enum sp_status expands(struct sp_lowering *lower)
{
    sp_lower_expand(lower, sp_lower_input(lower, 0), 3, (const int64_t[]){5, -1, 6});
    return sp_lower_status(lower);
}

static enum sp_status casts(struct sp_lowering *lower)
{
    sp_lower_cast(lower, sp_lower_input(lower, 0), SP_DTYPE_FLOAT16);
    return sp_lower_status(lower);
}

Test(lowering_forms, shape_helpers_follow_the_version)
{
    EXPECT_LOWERING(form_once(9, SP_DTYPE_FLOAT, slices),
                    "%1 = .Slice(%0) {axes=[1], starts=[2], ends=[5]} float32[2,3]\n");
    EXPECT_LOWERING(form_once(10, SP_DTYPE_FLOAT, slices), "%1 = int64[1] {2}\n"
                                                           "%2 = int64[1] {5}\n"
                                                           "%3 = int64[1] {1}\n"
                                                           "%4 = .Slice(%0, %1, %2, %3) float32[2,3]\n");
    EXPECT_LOWERING(form_once(9, SP_DTYPE_FLOAT, steps), "%1 = int64[3] {5,3,1}\n"
                                                         "%2 = .Gather(%0, %1) {axis=1} float32[2,3]\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_FLOAT, steps), "%1 = int64[1] {5}\n"
                                                          "%2 = int64[1] {-9223372036854775808}\n"
                                                          "%3 = int64[1] {1}\n"
                                                          "%4 = int64[1] {-2}\n"
                                                          "%5 = .Slice(%0, %1, %2, %3, %4) float32[2,3]\n");
    EXPECT_LOWERING(form_once(12, SP_DTYPE_FLOAT, squeezes), "%1 = .Unsqueeze(%0) {axes=[1]} float32[2,1,6]\n"
                                                             "%2 = .Squeeze(%1) {axes=[1]} float32[2,6]\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_FLOAT, squeezes), "%1 = int64[1] {1}\n"
                                                             "%2 = .Unsqueeze(%0, %1) float32[2,1,6]\n"
                                                             "%3 = int64[1] {1}\n"
                                                             "%4 = .Squeeze(%2, %3) float32[2,6]\n");
    EXPECT_LOWERING(form_once(4, SP_DTYPE_FLOAT, reshapes), "%1 = .Reshape(%0) {shape=[3,4]} float32[3,4]\n");
    EXPECT_LOWERING(form_once(5, SP_DTYPE_FLOAT, reshapes), "%1 = int64[2] {3,4}\n"
                                                            "%2 = .Reshape(%0, %1) float32[3,4]\n");
    EXPECT_LOWERING(form_once(7, SP_DTYPE_FLOAT, expands),
                    "again d0: Node 0 (Transpose) is computed with factor d0 whole "
                    "on every device: with version 7 of the operator set its parts "
                    "would need operator 'Expand' as it is since version 8, so "
                    "convert the model to that.");
    EXPECT_LOWERING(form_once(8, SP_DTYPE_FLOAT, expands), "%1 = int64[3] {5,1,6}\n"
                                                           "%2 = .Expand(%0, %1) float32[5,2,6]\n");
    EXPECT_LOWERING(form_once(5, SP_DTYPE_FLOAT, casts), "%1 = .Cast(%0) {to='FLOAT16'} float16[2,6]\n");
    EXPECT_LOWERING(form_once(6, SP_DTYPE_FLOAT, casts), "%1 = .Cast(%0) {to=10} float16[2,6]\n");
}

Test(lowering_forms, reductions_follow_the_version_and_the_type)
{
    EXPECT_LOWERING(form_once(12, SP_DTYPE_FLOAT, sums), "%1 = .ReduceSum(%0) {keepdims=1, axes=[1]} float32[2,1]\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_FLOAT, sums), "%1 = int64[1] {1}\n"
                                                         "%2 = .ReduceSum(%0, %1) {keepdims=1} float32[2,1]\n");
    EXPECT_LOWERING(form_once(17, SP_DTYPE_FLOAT, maxima), "%1 = .ReduceMax(%0) {keepdims=0, axes=[0,1]} float32[]\n");
    EXPECT_LOWERING(form_once(18, SP_DTYPE_FLOAT, maxima), "%1 = int64[2] {0,1}\n"
                                                           "%2 = .ReduceMax(%0, %1) {keepdims=0} float32[]\n");
    /* ReduceSum has integers of 32 and 64 bits. */
    EXPECT_LOWERING(form_once(12, SP_DTYPE_UINT8, sums), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                         "%2 = .ReduceSum(%1) {keepdims=1, axes=[1]} int32[2,1]\n"
                                                         "%3 = .Cast(%2) {to=2} uint8[2,1]\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_UINT8, maxima), "%1 = .ReduceMax(%0) {keepdims=0, axes=[0,1]} uint8[]\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_BOOL, maxima), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                          "%2 = .ReduceMax(%1) {keepdims=0, axes=[0,1]} int32[]\n"
                                                          "%3 = .Cast(%2) {to=9} bool[]\n");
}

Test(lowering_forms, pads_follow_the_version_and_the_type)
{
    EXPECT_LOWERING(form_once(1, SP_DTYPE_FLOAT, pads), "%1 = .Pad(%0) {paddings=[0,1,0,2], value=-1} float32[2,9]\n");
    EXPECT_LOWERING(form_once(10, SP_DTYPE_FLOAT, pads), "%1 = .Pad(%0) {pads=[0,1,0,2], value=-1} float32[2,9]\n");
    EXPECT_LOWERING(form_once(11, SP_DTYPE_FLOAT, pads), "%1 = int64[4] {0,1,0,2}\n"
                                                         "%2 = float32[] {-1}\n"
                                                         "%3 = .Pad(%0, %1, %2) float32[2,9]\n");
    EXPECT_LOWERING(form_once(10, SP_DTYPE_INT64, pads), "%1 = filled int64[2,1] {-1}\n"
                                                         "%2 = filled int64[2,2] {-1}\n"
                                                         "%3 = .Concat(%1, %0, %2) {axis=1} int64[2,9]\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_INT16, pads), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                         "%2 = int64[4] {0,1,0,2}\n"
                                                         "%3 = int32[] {-1}\n"
                                                         "%4 = .Pad(%1, %2, %3) int32[2,9]\n"
                                                         "%5 = .Cast(%4) {to=5} int16[2,9]\n");
}

static enum sp_status adds_a_number(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    END_AFTER_ERROR(lower);
    sp_lower_binary(lower, "Add", sp_lower_int(lower, x->dtype, 2), x);
    return sp_lower_status(lower);
}

static enum sp_status subtracts_from_a_number(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    END_AFTER_ERROR(lower);
    sp_lower_binary(lower, "Sub", sp_lower_int(lower, x->dtype, 2), x);
    return sp_lower_status(lower);
}

static enum sp_status bounds_from_below(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    END_AFTER_ERROR(lower);
    sp_lower_binary(lower, "Max", x, sp_lower_int(lower, x->dtype, 0));
    return sp_lower_status(lower);
}

static enum sp_status compares(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    END_AFTER_ERROR(lower);
    sp_lower_compare(lower, "GreaterOrEqual", x, sp_lower_int(lower, x->dtype, 0));
    return sp_lower_status(lower);
}

static enum sp_status equals(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    sp_lower_compare(lower, "Equal", x, x);
    return sp_lower_status(lower);
}

static enum sp_status chooses(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    struct sp_piece *yes = sp_lower_tensor(lower, SP_DTYPE_BOOL, 1, (const int64_t[]){1}, "\1", 1);
    END_AFTER_ERROR(lower);
    sp_lower_where(lower, yes, x, sp_lower_int(lower, x->dtype, 0));
    return sp_lower_status(lower);
}

Test(lowering_forms, elementwise_helpers_follow_the_version_and_the_type)
{
    EXPECT_LOWERING(form_once(7, SP_DTYPE_FLOAT, adds_a_number), "%1 = float32[] {2}\n"
                                                                 "%2 = .Add(%1, %0) float32[2,6]\n");
    /* The second operand is the one that is repeated. */
    EXPECT_LOWERING(form_once(6, SP_DTYPE_FLOAT, adds_a_number), "%1 = float32[] {2}\n"
                                                                 "%2 = .Add(%0, %1) {broadcast=1} float32[2,6]\n");
    cr_expect(strncmp(form_once(6, SP_DTYPE_FLOAT, subtracts_from_a_number), "again d0: ", 10) == 0, "%s", kept);
    EXPECT_LOWERING(form_once(14, SP_DTYPE_INT8, adds_a_number), "%1 = int8[] {2}\n"
                                                                 "%2 = .Cast(%1) {to=6} int32[]\n"
                                                                 "%3 = .Cast(%0) {to=6} int32[2,6]\n"
                                                                 "%4 = .Add(%2, %3) int32[2,6]\n"
                                                                 "%5 = .Cast(%4) {to=3} int8[2,6]\n");
    EXPECT_LOWERING(form_once(12, SP_DTYPE_INT64, bounds_from_below), "%1 = int64[] {0}\n"
                                                                      "%2 = .Max(%0, %1) int64[2,6]\n");
    EXPECT_LOWERING(form_once(11, SP_DTYPE_INT64, bounds_from_below), "%1 = int64[] {0}\n"
                                                                      "%2 = .Greater(%0, %1) bool[2,6]\n"
                                                                      "%3 = .Where(%2, %0, %1) int64[2,6]\n");
    EXPECT_LOWERING(form_once(11, SP_DTYPE_INT32, bounds_from_below), "%1 = int32[] {0}\n"
                                                                      "%2 = .Cast(%0) {to=11} float64[2,6]\n"
                                                                      "%3 = .Cast(%1) {to=11} float64[]\n"
                                                                      "%4 = .Max(%2, %3) float64[2,6]\n"
                                                                      "%5 = .Cast(%4) {to=6} int32[2,6]\n");
    EXPECT_LOWERING(form_once(12, SP_DTYPE_INT64, compares), "%1 = int64[] {0}\n"
                                                             "%2 = .GreaterOrEqual(%0, %1) bool[2,6]\n");
    EXPECT_LOWERING(form_once(11, SP_DTYPE_INT64, compares), "%1 = int64[] {0}\n"
                                                             "%2 = .Less(%0, %1) bool[2,6]\n"
                                                             "%3 = .Not(%2) bool[2,6]\n");
    EXPECT_LOWERING(form_once(11, SP_DTYPE_FLOAT, compares), "%1 = float32[] {0}\n"
                                                             "%2 = .Greater(%0, %1) bool[2,6]\n"
                                                             "%3 = .Equal(%0, %1) bool[2,6]\n"
                                                             "%4 = .Or(%2, %3) bool[2,6]\n");
    EXPECT_LOWERING(form_once(11, SP_DTYPE_FLOAT, equals), "%1 = .Equal(%0, %0) bool[2,6]\n");
    EXPECT_LOWERING(form_once(10, SP_DTYPE_FLOAT, equals), "%1 = .Less(%0, %0) bool[2,6]\n"
                                                           "%2 = .Greater(%0, %0) bool[2,6]\n"
                                                           "%3 = .Or(%1, %2) bool[2,6]\n"
                                                           "%4 = .IsNaN(%0) bool[2,6]\n"
                                                           "%5 = .IsNaN(%0) bool[2,6]\n"
                                                           "%6 = .Or(%4, %5) bool[2,6]\n"
                                                           "%7 = .Or(%3, %6) bool[2,6]\n"
                                                           "%8 = .Not(%7) bool[2,6]\n");
    EXPECT_LOWERING(form_once(9, SP_DTYPE_FLOAT, chooses), "%1 = bool[1] {1}\n"
                                                           "%2 = float32[] {0}\n"
                                                           "%3 = .Where(%1, %0, %2) float32[2,6]\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_UINT16, chooses), "%1 = bool[1] {1}\n"
                                                             "%2 = uint16[] {0}\n"
                                                             "%3 = .Cast(%0) {to=6} int32[2,6]\n"
                                                             "%4 = .Cast(%2) {to=6} int32[]\n"
                                                             "%5 = .Where(%1, %3, %4) int32[2,6]\n"
                                                             "%6 = .Cast(%5) {to=4} uint16[2,6]\n");
    cr_expect(strncmp(form_once(8, SP_DTYPE_FLOAT, chooses), "again d0: ", 10) == 0, "%s", kept);
}

/* ---- nothing to do, and nothing that contradicts ---------------------------------------------------------------- */

static enum sp_status do_nothing(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0), *y = x;
    y = sp_lower_slice(lower, y, 1, 0, 6);
    y = sp_lower_slice(lower, y, 1, 0, INT64_MAX);
    y = sp_lower_cast(lower, y, SP_DTYPE_FLOAT);
    y = sp_lower_reshape(lower, y, 2, (const int64_t[]){2, -1});
    y = sp_lower_transpose(lower, y, 2, (const int64_t[]){0, 1});
    y = sp_lower_expand(lower, y, 2, (const int64_t[]){-1, 6});
    y = sp_lower_concat(lower, 1, 1, &y);
    y = sp_lower_pad(lower, y, 2, (const int64_t[]){0, 0}, (const int64_t[]){0, 0}, 3);
    y = sp_lower_reduce(lower, "ReduceSum", y, 0, true);
    /* Nothing along axis 1 is split: nobody differs in it. */
    y = sp_lower_all_reduce(lower, y, SP_COMBINE_SUM, 1, (const uint8_t[]){1});
    y = sp_lower_all_gather(lower, y, 1, 1);
    END_AFTER_ERROR(lower);
    cr_expect_eq(x, y);
    return sp_lower_status(lower);
}

Test(lowering_forms, nothing_is_written_where_nothing_is_to_be_done)
{
    EXPECT_LOWERING(form_once(13, SP_DTYPE_FLOAT, do_nothing), "");
}

static enum sp_status follow_dims(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    struct sp_piece *column = sp_lower_slice(lower, x, 1, 2, 3), *row = sp_lower_slice(lower, x, 0, 0, 1);
    struct sp_piece *indices =
        sp_lower_tensor(lower, SP_DTYPE_INT64, 2, (const int64_t[]){1, 2}, (int64_t[]){0, 1}, 16);
    const struct sp_piece *both = sp_lower_binary(lower, "Mul", column, row);
    const struct sp_piece *taken = sp_lower_gather(lower, x, indices, 1);
    END_AFTER_ERROR(lower);
    cr_expect_eq(both->dims[1], 6);
    cr_expect(taken->rank == 3 && taken->dims[0] == 2 && taken->dims[1] == 1 && taken->dims[2] == 2);
    const struct sp_piece *turned = sp_lower_transpose(lower, x, 2, (const int64_t[]){1, 0});
    struct sp_piece *batch = sp_lower_reshape(lower, x, 4, (const int64_t[]){1, 2, 2, 3});
    struct sp_piece *other = sp_lower_reshape(lower, x, 3, (const int64_t[]){1, 3, 4});
    const struct sp_piece *product = sp_lower_matmul(lower, batch, other);
    struct sp_piece *vector = sp_lower_reshape(lower, other, 1, (const int64_t[]){12});
    const struct sp_piece *number = sp_lower_matmul(lower, vector, vector);
    struct sp_piece *unknown = sp_lower_op(lower, "Any", SP_DTYPE_FLOAT, 1, &x, 0, NULL);
    const struct sp_piece *sum = sp_lower_binary(lower, "Add", unknown, x);
    const struct sp_piece *open = sp_lower_concat(lower, 0, 2, (struct sp_piece *const[]){x, unknown});
    const struct sp_piece *longer = sp_lower_concat(lower, 0, 2, (struct sp_piece *const[]){x, row});
    END_AFTER_ERROR(lower);
    cr_expect(turned->dims[0] == 6 && turned->dims[1] == 2);
    cr_expect(product->rank == 4 && product->dims[1] == 2 && product->dims[2] == 2 && product->dims[3] == 4);
    cr_expect(number->rank == 0 && number->dims != NULL);
    cr_expect_null(sum->dims);
    cr_expect_null(open->dims);
    cr_expect_eq(longer->dims[0], 3);
    return sp_lower_status(lower);
}

Test(lowering_forms, extents_follow_where_they_are_known)
{
    cr_expect(strstr(form_once(13, SP_DTYPE_FLOAT, follow_dims), "LOCAL_PROGRAM") == NULL, "%s", kept);
}

#define WRONG(name, call)                                                                                              \
    static enum sp_status name(struct sp_lowering *lower)                                                              \
    {                                                                                                                  \
        struct sp_piece *x = sp_lower_input(lower, 0);                                                                 \
        (void)x;                                                                                                       \
        (void)(call);                                                                                                  \
        return sp_lower_status(lower);                                                                                 \
    }
WRONG(wrong_slice, sp_lower_slice(lower, x, 1, 2, 7))
WRONG(wrong_step, sp_lower_slice_step(lower, x, 1, 6, 0, -1))
WRONG(wrong_axis, sp_lower_slice(lower, x, 2, 0, 1))
WRONG(wrong_types, sp_lower_binary(lower, "Add", x, sp_lower_int(lower, SP_DTYPE_INT64, 1)))
WRONG(wrong_shapes, sp_lower_binary(lower, "Add", x, sp_lower_transpose(lower, x, 2, (const int64_t[]){1, 0})))
WRONG(wrong_perm, sp_lower_transpose(lower, x, 2, (const int64_t[]){1, 1}))
WRONG(wrong_count, sp_lower_reshape(lower, x, 1, (const int64_t[]){13}))
WRONG(wrong_rest, sp_lower_reshape(lower, x, 2, (const int64_t[]){5, -1}))
WRONG(wrong_squeeze, sp_lower_squeeze(lower, x, 1))
WRONG(wrong_expand, sp_lower_expand(lower, x, 2, (const int64_t[]){2, 12}))
WRONG(wrong_pad, sp_lower_pad(lower, x, 2, (const int64_t[]){0, -1}, (const int64_t[]){0, 0}, 0))
WRONG(wrong_condition, sp_lower_where(lower, x, x, x))
WRONG(wrong_product, sp_lower_matmul(lower, x, x))
WRONG(wrong_combiner, sp_lower_all_reduce(lower, x, SP_COMBINE_SOFTMAX, 1, (const uint8_t[]){0}))
WRONG(wrong_factor, sp_lower_all_reduce(lower, x, SP_COMBINE_SUM, 1, (const uint8_t[]){9}))
WRONG(wrong_size, sp_lower_tensor(lower, SP_DTYPE_FLOAT, 1, (const int64_t[]){2}, "1234", 4))

Test(lowering_forms, what_contradicts_is_our_fault)
{
    static const build_lowering_function wrong[] = {wrong_slice,   wrong_step,     wrong_axis,   wrong_types,
                                                    wrong_shapes,  wrong_perm,     wrong_count,  wrong_rest,
                                                    wrong_squeeze, wrong_expand,   wrong_pad,    wrong_condition,
                                                    wrong_product, wrong_combiner, wrong_factor, wrong_size};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(strncmp(form_once(13, SP_DTYPE_FLOAT, wrong[i]), "LOCAL_PROGRAM: ", 15) == 0, "%zu: %s", i, kept);
}

/* ---- collectives and outputs ------------------------------------------------------------------------------------ */

static enum sp_status reduce_largest(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    sp_lower_all_reduce(lower, x, SP_COMBINE_MAX, 2, (const uint8_t[]){1, 0});
    return sp_lower_status(lower);
}

static enum sp_status add_up(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    sp_lower_all_reduce(lower, x, SP_COMBINE_SUM, 1, (const uint8_t[]){0});
    return sp_lower_status(lower);
}

/* Type, version, and the type that is carried; UNDEFINED: the factor is made whole. */
static const struct {
    enum sp_dtype dtype;
    int64_t opset;
    enum sp_dtype sum, max;
} carriers[] = {
    {SP_DTYPE_FLOAT, 7, SP_DTYPE_FLOAT, SP_DTYPE_FLOAT},
    {SP_DTYPE_FLOAT16, 13, SP_DTYPE_FLOAT16, SP_DTYPE_FLOAT16},
    {SP_DTYPE_BFLOAT16, 13, SP_DTYPE_BFLOAT16, SP_DTYPE_BFLOAT16},
    {SP_DTYPE_DOUBLE, 9, SP_DTYPE_DOUBLE, SP_DTYPE_DOUBLE},
    {SP_DTYPE_INT8, 14, SP_DTYPE_INT32, SP_DTYPE_INT32},
    {SP_DTYPE_UINT16, 9, SP_DTYPE_INT32, SP_DTYPE_DOUBLE},
    {SP_DTYPE_INT32, 13, SP_DTYPE_INT32, SP_DTYPE_INT32},
    {SP_DTYPE_INT32, 11, SP_DTYPE_INT32, SP_DTYPE_DOUBLE},
    {SP_DTYPE_INT64, 12, SP_DTYPE_INT64, SP_DTYPE_INT64},
    {SP_DTYPE_INT64, 11, SP_DTYPE_INT64, SP_DTYPE_UNDEFINED},
    {SP_DTYPE_UINT32, 13, SP_DTYPE_INT64, SP_DTYPE_INT64},
    {SP_DTYPE_UINT64, 13, SP_DTYPE_INT64, SP_DTYPE_UINT64},
    {SP_DTYPE_BOOL, 13, SP_DTYPE_INT32, SP_DTYPE_INT32},
    {SP_DTYPE_BOOL, 9, SP_DTYPE_DOUBLE, SP_DTYPE_DOUBLE},
    {SP_DTYPE_FLOAT8E4M3FN, 19, SP_DTYPE_FLOAT, SP_DTYPE_FLOAT},
    {SP_DTYPE_STRING, 13, SP_DTYPE_UNDEFINED, SP_DTYPE_UNDEFINED},
};

static void expect_carried(size_t i, enum sp_dtype carrier, const char *text, const char *combiner)
{
    char want[120];
    if (carrier == SP_DTYPE_UNDEFINED)
        (void)snprintf(want, sizeof want, "again d0: ");
    else
        (void)snprintf(want, sizeof want, "%%%d = all-reduce(%%%d), %s over d0 %s[2,6]\n",
                       1 + (carrier != carriers[i].dtype), carrier != carriers[i].dtype, combiner,
                       sp_dtype_name(carrier));
    cr_expect(strstr(text, want) != NULL, "case %zu, %s: %s", i, want, text);
    const bool is_back = strstr(text, "Cast") == NULL || strstr(strrchr(text, '='), sp_dtype_name(carriers[i].dtype));
    cr_expect(carrier == SP_DTYPE_UNDEFINED || is_back || strstr(text, "{to="), "%s", text);
}

Test(lowering_forms, collectives_have_types_that_can_be_combined)
{
    for (size_t i = 0; i < sizeof carriers / sizeof *carriers; i++) {
        const bool is_bool = carriers[i].dtype == SP_DTYPE_BOOL;
        expect_carried(i, carriers[i].max, form_once(carriers[i].opset, carriers[i].dtype, reduce_largest), "max");
        expect_carried(i, carriers[i].sum, form_once(carriers[i].opset, carriers[i].dtype, add_up),
                       is_bool ? "max" : "sum");
    }
    EXPECT_LOWERING(form_once(13, SP_DTYPE_BOOL, reduce_largest), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                                  "%2 = all-reduce(%1), max over d0 int32[2,6]\n"
                                                                  "%3 = .Cast(%2) {to=9} bool[2,6]\n");
}

static enum sp_status gather_all(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_all_gather(lower, sp_lower_input(lower, 0), 0, 0);
    END_AFTER_ERROR(lower);
    cr_expect_eq(x->dims[0], -1);
    sp_lower_output_whole(lower, 0, sp_lower_transpose(lower, x, 2, (const int64_t[]){1, 0}));
    return sp_lower_status(lower);
}

static enum sp_status output_sum(struct sp_lowering *lower)
{
    sp_lower_output_partial(lower, 0, sp_lower_input(lower, 0), SP_COMBINE_SUM, 2, (const uint8_t[]){1, 0});
    return sp_lower_status(lower);
}

static enum sp_status output_unsplit(struct sp_lowering *lower)
{
    sp_lower_output_partial(lower, 0, sp_lower_input(lower, 0), SP_COMBINE_SUM, 1, (const uint8_t[]){1});
    return sp_lower_status(lower);
}

Test(lowering_forms, outputs_are_parts_wholes_and_partial)
{
    EXPECT_LOWERING(form_once(13, SP_DTYPE_FLOAT, gather_all), "%1 = all-gather(%0) on axis 0 over d0 float32[?,6]\n"
                                                               "%2 = .Transpose(%1) {perm=[1,0]} float32[6,?]\n"
                                                               "output 0 = %2, whole\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_FLOAT, output_sum), "output 0 = %0, sum over d0\n");
    EXPECT_LOWERING(form_once(13, SP_DTYPE_FLOAT, output_unsplit), "output 0 = %0\n");
    /* An output of 8 bits cannot be added up as it is: it is combined before. */
    EXPECT_LOWERING(form_once(13, SP_DTYPE_INT8, output_sum), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                              "%2 = all-reduce(%1), sum over d0 int32[2,6]\n"
                                                              "%3 = .Cast(%2) {to=3} int8[2,6]\n"
                                                              "output 0 = %3\n");
}
