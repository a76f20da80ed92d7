#pragma once
/*
 * scalar - numbers and bytes out of a JSON text, exactly.
 *
 * A number may stand as a JSON number or, as protobuf's mapping has it, as text. Integers are exact over their whole
 * range; 1.0 and 1e3 are integers too, 1.5 is not. What does not fit is refused, never rounded to something else.
 */
#include "json/tree.h"

/* An integer from `low` to `high`. */
enum sp_status sp_scalar_int(const struct sp_tree *tree, uint32_t value, int64_t low, int64_t high,
                             int64_t *ret_number);

/* An integer from 0 to `high`. */
enum sp_status sp_scalar_uint(const struct sp_tree *tree, uint32_t value, uint64_t high, uint64_t *ret_number);

/* A number, "NaN", "Infinity" or "-Infinity"; the float is the nearest one to the text. */
enum sp_status sp_scalar_double(const struct sp_tree *tree, uint32_t value, double *ret_number);
enum sp_status sp_scalar_float(const struct sp_tree *tree, uint32_t value, float *ret_number);

/* Whether a number is written as an integer: without fraction and exponent. */
bool sp_scalar_is_integer(const struct sp_tree *tree, uint32_t value);

/* base64 in either alphabet, padded or not, resolved into the tree's arena. */
enum sp_status sp_scalar_base64(const struct sp_tree *tree, uint32_t value, struct sp_tree_text *ret_bytes);
