#pragma once
/*
 * merge - what is true of a value that comes from one of two places: from either branch of an If, from before a loop or
 * from its last turn, from any element of a sequence.
 *
 *   number        the same number       the number
 *   expression    the same expression   the expression
 *   anything      something else        unknown
 *
 * Tensors of different rank have no known rank together; where one side is not known at all, nothing is. The elements
 * of a sequence that is empty contradict nothing: what is put into it later says what they are.
 */
#include "graph/model.h"

/* SP_ERR_MODEL, without an error recorded, for kinds or element types that differ: the caller knows what to say. Parts
   may be shared with `a`. */
enum sp_status sp_merge_types(struct sp_arena *arena, const struct sp_type *a, const struct sp_type *b,
                              struct sp_type *ret_type, struct sp_error *err);

/* The element type of an empty sequence. To everybody else it is a tensor of unknown rank. */
struct sp_type sp_type_of_no_element(enum sp_dtype dtype);

/* Whether both say the same. Two unknown extents are the same here: nothing is known of either. */
bool sp_type_same(const struct sp_type *a, const struct sp_type *b);

/* The elements that both have: those that differ are unknown. NULL when nothing is left, or without memory. */
struct sp_data *sp_merge_data(struct sp_arena *arena, const struct sp_data *a, const struct sp_data *b);
bool sp_elements_same(const struct sp_data *a, const struct sp_data *b);

/* Gives every unknown extent of the type of tensor `name` a symbol of its own ("NAME:AXIS"), so that what follows from
   it stays connected; false without memory. `ret_mask` (or NULL): the axes that got one. */
bool sp_name_open_axes(struct sp_model *model, struct sp_type *type, const char *name, uint64_t *ret_mask);
/* The same for what was merged of two types: none of them is exceeded by both. */
bool sp_name_merged_axes(struct sp_model *model, struct sp_type *type, const char *name, const struct sp_type *a,
                         const struct sp_type *b);
