#pragma once
/*
 * tensor_elements - the elements of a tensor that is not kept as plain bytes, and boxes of elements in memory; private
 * to core/realize.
 */
#include "base/ranges.h"
#include "graph/model.h"

/* The elements as raw_data has them, into sp_dtype_bytes() zeroed bytes. Not for strings. SP_ERR_MODEL for fewer items
   than elements. */
enum sp_status sp_unpack_typed(const struct sp_model *model, const struct sp_tensor *tensor, unsigned char *bytes,
                               struct sp_error *err);

/* The spans of the elements of a tensor of strings, `tensor->elements` of them. */
enum sp_status sp_unpack_strings(const struct sp_model *model, const struct sp_tensor *tensor, struct sp_span *spans,
                                 struct sp_error *err);

/* Where all its bytes lie in one run, as raw_data would have them; false when they do not. */
bool sp_unpack_run(const struct sp_model *model, const struct sp_tensor *tensor, uint64_t *ret_offset);

/* Elements of a box; each axis has at least one range unless nothing is taken. */
int64_t sp_box_elements(uint32_t rank, const struct sp_axis_ranges *axes);

/* Calls for each run of elements along the last axis, in order: `first` of the whole, `count` of them. */
void sp_box_each_run(uint32_t rank, const int64_t *dims, const struct sp_axis_ranges *axes,
                     void (*run)(void *context, int64_t first, int64_t count), void *context);

/* The elements of a box, packed, into zeroed bytes. */
void sp_box_pick(uint32_t rank, const int64_t *dims, const struct sp_axis_ranges *axes, uint32_t element_bits,
                 const unsigned char *bytes, unsigned char *out);
