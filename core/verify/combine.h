#pragma once
/*
 * combine - arithmetic of numbers, and of tensors of them: element by element, folds over axes, sums of products.
 *
 * Where operands are looked at at different indices of an axis, the result is looked at where all of them are.
 */
#include "verify/numbers.h"

/* Two tensors by one function of two numbers, broadcast. */
typedef struct sp_number (*sp_number2)(struct sp_number a, struct sp_number b);
enum sp_status sp_numbers_binary(struct sp_arena *arena, const struct sp_numbers *a, const struct sp_numbers *b,
                                 enum sp_dtype dtype, sp_number2 function, struct sp_numbers **ret,
                                 struct sp_error *err);
enum sp_status sp_numbers_broadcast(struct sp_arena *arena, const struct sp_numbers *a, const struct sp_numbers *b,
                                    uint32_t *ret_rank, struct sp_index_axis *ret_axes, struct sp_error *err);
struct sp_number sp_number_add(struct sp_number a, struct sp_number b);
struct sp_number sp_number_subtract(struct sp_number a, struct sp_number b);
struct sp_number sp_number_multiply(struct sp_number a, struct sp_number b);
struct sp_number sp_number_divide(struct sp_number a, struct sp_number b);
/* The same where the inverse of b in the field is known. */
struct sp_number sp_number_divide_by(struct sp_number a, struct sp_number b, uint64_t inverse);
struct sp_number sp_number_max(struct sp_number a, struct sp_number b);
struct sp_number sp_number_min(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_add(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_multiply(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_divide(struct sp_number a, struct sp_number b); /* towards zero; by 0 it is 0 */
struct sp_number sp_integer_max(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_min(struct sp_number a, struct sp_number b);

/* A function of one number: `tag` is its name in the field; `real` may be NULL. */
struct sp_number sp_number_function(uint64_t tag, double (*real)(double), bool is_known, struct sp_number a);
uint64_t sp_tag(const char *name);
/* exp of each number, by its law: that of a difference is the quotient of two (exponential.c). */
enum sp_status sp_numbers_exp(struct sp_arena *arena, const struct sp_numbers *x, struct sp_numbers **ret,
                              struct sp_error *err);
struct sp_number sp_number_negate(struct sp_number a);
double sp_real_exp(double x);
double sp_real_sigmoid(double x);

/* Sums of products: each operand has a label for each axis (an operand's label of an axis of one element that is to be
   repeated has no index); labels that the result lacks are summed over. */
#define SP_LABELS 64
struct sp_labelled {
    const struct sp_numbers *x;
    uint8_t labels[SP_LABELS];
};
enum sp_status sp_numbers_contract(struct sp_arena *arena, uint32_t count, const struct sp_labelled *operands,
                                   uint32_t rank, const uint8_t *labels, struct sp_numbers **ret, struct sp_error *err);

/* Where operand 0 is true operand 1, else operand 2, broadcast: each part of the numbers by its own condition. */
enum sp_status sp_numbers_choose(struct sp_arena *arena, const struct sp_numbers *const *operands,
                                 struct sp_numbers **ret, struct sp_error *err);

/* The sum (or another fold) over the axes in the mask, which keep one element. */
enum sp_status sp_numbers_fold(struct sp_arena *arena, const struct sp_numbers *x, uint64_t mask, sp_number2 function,
                               struct sp_numbers **ret, struct sp_error *err);
