#pragma once
/*
 * stored - how devices hold inputs and weights before the first node, where no node's spec says it: in the metadata entry
 * of an annotated model (onnx/writer.h).
 */
#include <jansson.h>

#include "infer/assignment.h"

/* Sets how a value of the main graph is stored. */
enum sp_status sp_assignment_store(struct sp_assignment *assignment, uint32_t value, const struct sp_sharding *sharding,
                                   struct sp_error *err);

/* How values of the main graph are stored, by name: {TENSOR: SPEC}. What makes no sense is left out. */
enum sp_status sp_assignment_take_stored(struct sp_assignment *assignment, json_t *tensors, struct sp_error *err);

/* A spec as an entry says it; NULL without memory. The caller releases it. */
json_t *sp_stored_spec(const struct sp_sharding_spec *spec);

/* What the model's entry says of the assignment's configuration; what makes no sense there is left out. */
enum sp_status sp_assignment_read_stored(struct sp_assignment *assignment, struct sp_error *err);

/* Of a completed assignment: forgets how values are stored that all nodes take so, since their specs say it. */
enum sp_status sp_assignment_drop_stored(struct sp_assignment *assignment, struct sp_error *err);

/* {TENSOR: SPEC} of all that is stored; NULL in *ret_stored where nothing is. The caller releases it. */
enum sp_status sp_assignment_write_stored(const struct sp_assignment *assignment, json_t **ret_stored,
                                          struct sp_error *err);
