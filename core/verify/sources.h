#pragma once
/*
 * sources - the numbers that come from outside a graph: inputs, weights, constants.
 *
 * A weight's element stands for any number: its field part is a hash of the bits in the file, so that equal elements
 * are equal wherever a file has them, and a slice of a weight needs no declaration. A literal is the number itself:
 * integers, scalars, constants of nodes, what operators read as sizes, and what a rank has as one number throughout where
 * the original has not.
 *
 * An element of an input follows from the input's name and the element's place in the whole tensor. Integer inputs are
 * small: what their consumers look up with them is there.
 */
#include "base/ranges.h"
#include "graph/model.h"
#include "verify/index_sets.h"
#include "verify/tensor_data.h"

enum sp_source_kind { SP_SOURCE_LITERAL, SP_SOURCE_WEIGHT };

/* All elements of a tensor. SP_ERR_UNSUPPORTED for data that is not in the file, and for types that have no numbers. */
enum sp_status sp_numbers_of_tensor(struct sp_arena *arena, const struct sp_model *model,
                                    const struct sp_tensor *tensor, enum sp_source_kind kind, struct sp_numbers **ret,
                                    struct sp_error *err);
/* The same with data that may be in another file. */
enum sp_status sp_numbers_of_data(struct sp_arena *arena, struct sp_tensor_data *data, enum sp_source_kind kind,
                                  struct sp_numbers **ret, struct sp_error *err);

/* A weight of the original at the indices of its axes. Without data an element follows from the tensor's name and the
   element's place. */
enum sp_status sp_numbers_of_weight(struct sp_index_sets *sets, struct sp_tensor_data *data, struct sp_numbers **ret,
                                    struct sp_error *err);

/* The elements of a tensor's data at the indices of x, which has the tensor's extents: put into x, or with `sets` false
   compared with what it has. False where there are no such data, or others. */
bool sp_numbers_read_weight(struct sp_numbers *x, struct sp_tensor_data *data, bool sets);

/* The box that a tensor's metadata declare, "0:4,8:16+24:32"; *ret NULL where there is none. */
enum sp_status sp_source_box(struct sp_arena *arena, const struct sp_model *model, const struct sp_tensor *tensor,
                             struct sp_axis_ranges **ret, struct sp_error *err);

/* Whether the elements are in the file, or can be read from another one. */
bool sp_source_has_data(struct sp_tensor_data *data);

/* What an initializer is, a value of the original or of what a rank has. */
enum sp_source_kind sp_source_kind_of(const struct sp_value *value);

/* An input of the model at the indices of its axes; its shape is known, or estimated. */
enum sp_status sp_numbers_of_input(struct sp_index_sets *sets, const struct sp_value *input, struct sp_numbers **ret,
                                   struct sp_error *err);

/* A box of a tensor; `ranges` has one list for each axis. */
enum sp_status sp_numbers_of_box(struct sp_arena *arena, const struct sp_numbers *x, const struct sp_axis_ranges *box,
                                 struct sp_numbers **ret, struct sp_error *err);
