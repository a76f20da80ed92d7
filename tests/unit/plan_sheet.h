#pragma once
/*
 * plan_sheet - the sheet of a plan in memory, and the plan's JSON that it refers to.
 *
 *     struct plan_sheet made;
 *     plan_sheet_make(&made, plan);
 *     ... made.sheet ...
 *     plan_sheet_release(&made);
 */
#include "index/write.h"
#include "plan/plan.h"

#define PLAN_SHEET_SECONDS 1.25 /* of the search, as the JSON says */

struct plan_sheet {
    struct sp_buf json; /* the plan's */
    void *file;         /* of the sheet, from malloc */
    size_t size;
    struct sp_index sheet; /* of the file */
};

void plan_sheet_make(struct plan_sheet *ret_made, const struct sp_plan *plan);
void plan_sheet_release(struct plan_sheet *made);

/* Opens a copy of these bytes, which is as large as they are. */
enum sp_status plan_sheet_open(const void *bytes, size_t size, struct sp_index *ret_sheet, void **ret_copy);
