#pragma once
/*
 * steps - operators whose definition is a chain of simpler ones.
 *
 * Each step is skipped after an error, and its result, and so a later one's operand, is NULL then: a chain is written
 * down as its definition is, and looks at `status` once, at its end.
 */
#include "verify/operators/evaluate.h"

struct sp_steps {
    struct sp_call *call;
    enum sp_status status;
};

/* Two tensors by a function of two numbers, broadcast; the result has the type of the first. */
struct sp_numbers *sp_step(struct sp_steps *steps, const struct sp_numbers *a, const struct sp_numbers *b,
                           sp_number2 function);
struct sp_numbers *sp_step_number(struct sp_steps *steps, enum sp_dtype dtype, double value);
struct sp_numbers *sp_step_fold(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask, sp_number2 function);
/* The sum over the axes by how many elements they have. */
struct sp_numbers *sp_step_mean(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask);
/* A function of one number: the operator of this name computes the same. */
struct sp_numbers *sp_step_apply(struct sp_steps *steps, const struct sp_numbers *x, const char *name,
                                 double (*real)(double));
/* A vector along one axis of a tensor of this rank. */
struct sp_numbers *sp_step_along(struct sp_steps *steps, const struct sp_numbers *x, uint32_t rank, uint32_t axis);
struct sp_numbers *sp_step_reshape(struct sp_steps *steps, const struct sp_numbers *x, uint32_t rank,
                                   const int64_t *extents);
struct sp_numbers *sp_step_transpose(struct sp_steps *steps, const struct sp_numbers *x, const uint32_t *perm);
/* With the axis of channels moved to axis 1 from the end, or to the end from axis 1. */
struct sp_numbers *sp_step_channels(struct sp_steps *steps, const struct sp_numbers *x, uint32_t to);
/* The sum of products of two tensors, by labels of their axes (verify/combine.h). */
struct sp_numbers *sp_step_product(struct sp_steps *steps, const struct sp_labelled *a, const struct sp_labelled *b,
                                   uint32_t rank, const uint8_t *labels);
/* exp(x - the largest) by its sum, over the axes in the mask. */
struct sp_numbers *sp_step_softmax(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask);
struct sp_numbers *sp_step_choose(struct sp_steps *steps, const struct sp_numbers *which, const struct sp_numbers *a,
                                  const struct sp_numbers *b);
