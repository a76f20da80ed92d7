#pragma once
/*
 * write - the sheet of a plan, as a file.
 *
 *     struct sp_sheet_scan *scan = sp_sheet_scan_create(arena);
 *     sp_sheet_scan_take(scan, ...)             each byte of the plan's JSON, as it is written or read
 *     sp_sheet_write(&source, &sink, err)
 *
 * Where an entry stands in the plan's JSON, and what of it the summary repeats, is always found in its text. So a plan
 * that is kept gets its sheet in the same way as one that was just made, and refers to the bytes that are kept,
 * whichever version wrote them; positions that the writer of the JSON told would serve new plans only.
 */
#include "onnx/splice.h"
#include "plan/plan.h"
#include "sheet/scan.h"

struct sp_sheet_source {
    const struct sp_plan *plan;
    const struct sp_sheet_scan *scan; /* all of the plan's JSON */
    double search_seconds;            /* as in the JSON, whose estimate is repeated, too */
    uint64_t hash_seed;               /* base/intern.h; what is written does not depend on it */
};

/*
 * Writes the file. SP_ERR_REQUEST "OTHER_PLAN": the JSON is not that of this plan, or no JSON. SP_ERR_LIMIT
 * "SHEET_TOO_LARGE": the plan has more texts or slices than a sheet can number. SP_ERR_MEMORY, SP_ERR_IO. What it needs
 * meanwhile counts against the budget of the plan's arena.
 */
enum sp_status sp_sheet_write(const struct sp_sheet_source *source, const struct sp_sink *sink, struct sp_error *err);
