#pragma once
/*
 * complete - a configuration's annotations, completed as everything that is made of an annotated model reads them: by
 * propagation (propagate/propagate.h), or from node to node (forward.h) where no mesh explains all specs together.
 * Inputs that contradict each other are restated where they may be (settle.h).
 */
#include "infer/assignment.h"

/* Errors as sp_assignment_create(). */
enum sp_status sp_assignment_completed(struct sp_arena *arena, const struct sp_dataflow *dataflow,
                                       const char *configuration, int64_t device_count,
                                       struct sp_assignment **ret_assignment, struct sp_error *err);
