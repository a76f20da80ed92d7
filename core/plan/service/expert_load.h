#pragma once
/*
 * expert_load - the members "expert_load" and "expert_order" of a workload (cost/kernels/expert_loads.h says what they mean).
 *
 *     LOAD           [S, S, ..], a share for each expert, of any sum, or {"zipf": A}, shares 1, 1/2^A, 1/3^A, ..
 *     expert_load    LOAD of all layers, or {NODE: LOAD, ..} by the name of the layer's node; layers that are not
 *                    named are asked evenly
 *     expert_order   "model" (when not given), experts lie on devices in the model's order; "balanced", the server
 *                    places them so that devices are sent equally much
 */
#include "base/json_reader.h"
#include "cost/kernels/expert_loads.h"

/* *ret_loads is NULL where there is no load. SP_ERR_REQUEST with a JSON pointer; SP_ERR_LIMIT TOO_MANY_EXPERTS. */
enum sp_status sp_expert_load_parse(struct sp_members_reader *r, const json_t *workload, const char *pointer,
                                    const struct sp_given_loads **ret_loads);
