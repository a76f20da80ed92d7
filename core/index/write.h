#pragma once
/*
 * write - the index of a plan, as a file.
 *
 *     struct sp_index_scan *scan = sp_index_scan_create(arena);
 *     sp_index_scan_take(scan, ...)             each byte of the plan's JSON, as it is written or read
 *     sp_index_write(&source, &sink, err)
 *
 * Where an entry stands in the plan's JSON, and what of it the summary repeats, is always found in its text. So a plan
 * that is kept gets its index in the same way as one that was just made, and refers to the bytes that are kept,
 * whichever version wrote them; positions that the writer of the JSON told would serve new plans only.
 */
#include "index/scan.h"
#include "onnx/splice.h"
#include "plan/plan.h"

struct sp_index_source {
    const struct sp_plan *plan;
    const struct sp_index_scan *scan; /* all of the plan's JSON */
    double search_seconds;            /* as in the JSON, whose estimate is repeated, too */
    uint64_t hash_seed;               /* base/intern.h; what is written does not depend on it */
};

/*
 * Writes the file. SP_ERR_REQUEST "OTHER_PLAN": the JSON is not that of this plan, or no JSON. SP_ERR_LIMIT
 * "SHEET_TOO_LARGE": the plan has more texts or slices than an index can number. SP_ERR_MEMORY, SP_ERR_IO. What it
 * needs meanwhile counts against the budget of the plan's arena.
 */
enum sp_status sp_index_write(const struct sp_index_source *source, const struct sp_sink *sink, struct sp_error *err);
