#pragma once
/*
 * plan_index - the index of a plan in memory, and the plan's JSON that it refers to.
 *
 *     struct plan_index made;
 *     plan_index_make(&made, plan);
 *     ... made.index ...
 *     plan_index_release(&made);
 */
#include "index/write.h"
#include "plan/plan.h"

#define PLAN_INDEX_SECONDS 1.25 /* of the search, as the JSON says */

struct plan_index {
    struct sp_buf json; /* the plan's */
    void *file;         /* of the index, from malloc */
    size_t size;
    struct sp_index index; /* of the file */
};

void plan_index_make(struct plan_index *ret_made, const struct sp_plan *plan);
void plan_index_release(struct plan_index *made);

/* Opens a copy of these bytes, which is as large as they are. */
enum sp_status plan_index_open(const void *bytes, size_t size, struct sp_index *ret_index, void **ret_copy);
