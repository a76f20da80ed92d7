#pragma once
/*
 * sums - sums of products of two numbers each, which is what matrix products and convolutions are made of.
 *
 * In the field, products of finite numbers are added up in 128 bits and reduced now and then: the sum is the same number
 * as with a reduction after each step. The reals are added up in the order of the products.
 */
#include "verify/combine.h"

enum sp_factors_kind { SP_FACTORS_ANY = 0, SP_FACTORS_FINITE, SP_FACTORS_INTEGER };

struct sp_factors {
    const struct sp_number *a, *b;
    enum sp_factors_kind kind;
};

/* The factors of sums of a type; the tensors must outlive them. */
struct sp_factors sp_factors_of(const struct sp_numbers *a, const struct sp_numbers *b, enum sp_dtype dtype);

/* Adds to *sum the products of a's item a_at + a_offsets[i] and b's item b_at + b_offsets[i] for each i below count. */
void sp_sum_products(const struct sp_factors *factors, size_t a_at, size_t b_at, size_t count, const size_t *a_offsets,
                     const size_t *b_offsets, struct sp_number *sum);
