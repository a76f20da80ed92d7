#pragma once
/*
 * undivided - operators that the number of devices does not divide.
 *
 * An operator is split evenly over d devices where d divides one of its loops, in whole blocks; one that uses a weight,
 * where d divides an axis of that, as else each device would have all of it. What of the model's FLOPs is in operators
 * of which neither holds is counted for each d.
 */
#include "infer/dataflow.h"
#include "plan/internal.h"

/*
 * Adds the note AXIS_NOT_DIVISIBLE where a tenth of the FLOPs or more cannot be split evenly over the largest group of
 * equal devices, or in the blocks that a stage of unequal devices shares: which axes of what that are, and which numbers
 * of devices, or blocks, would divide them. Nothing where the strategy splits no operators. Only memory is an error.
 */
enum sp_status sp_note_undivided(const struct sp_plan *plan, const struct sp_dataflow *dataflow,
                                 struct sp_bindings *bindings, struct sp_error *err);
