#pragma once
/*
 * placement_record - the member "outline" of a plan's JSON: what the plan is made of (search/joint/placement_record.h),
 * so that files can be made of it without another search.
 *
 *   {"stages": [{"device": 0, "size": 4, "replicas": 1, "axes": [2, 2]}], "copies": [[4], ..], "nodes": [[STAGE, STRATEGY, COUNT], ..],
 *    "routes": [{"share": 0.6, "devices": [0, 2], "ends": [40, 100]}, ..]}
 *
 * `nodes` are runs of nodes in the order of the main graph; `ends` count them. `routes` is there where there are several
 * (search/routes/routed.h).
 */
#include <jansson.h>

#include "plan/plan.h"
#include "search/joint/placement_record.h"

void sp_placement_record_write(const struct sp_plan *plan, struct sp_json *json);

/* In `arena`. SP_ERR_REQUEST "OTHER_PLAN" for what is none of a workload with so many nodes. */
enum sp_status sp_placement_record_parse(struct sp_arena *arena, const json_t *json, uint32_t node_count,
                                         struct sp_placement_record *ret_record, struct sp_error *err);
