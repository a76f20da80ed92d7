#pragma once
/* simulate_weights - the weights that each device has by the shardings of an assignment, for what a partition is to
 * tell. */
#include "infer/assignment.h"

/* Adds up bytes of initializers of floats by device, each part once: of operands whose sharding is stated or inferred,
   and of those that are assumed to be whole, of which a device may take only what it needs. */
enum sp_status simulate_count_weights(const struct sp_assignment *assignment, double *stated, double *assumed,
                                      struct sp_error *err);
