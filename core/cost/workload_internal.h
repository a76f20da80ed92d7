#pragma once
/*
 * workload_internal - what the files that make a workload share.
 */
#include "cost/workload.h"

#define SP_WORKLOAD_TEXT_SIZE 256 /* what messages and made-up names show of a name, its NUL included */

/* Copies as much of a name as fits, whole UTF-8 characters only; returns `text`. */
const char *sp_workload_shorten(const char *name, char *text, size_t size);

/*
 * Sets the bytes of every tensor and the workload's weight bytes; consumers and aliases are known. Tensors are looked
 * at in the order of the graph, so that the first value that cannot be told is named, not one made from it.
 */
enum sp_status sp_workload_size_tensors(struct sp_workload *workload, const struct sp_model *model,
                                        struct sp_error *err);
