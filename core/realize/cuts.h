#pragma once
/*
 * cuts - requests that are cut along their batch in equal parts (cost/micro_batches.h), each of which the model runs.
 *
 * A model that is realised is bound to one part. Its devices run their models once for each part, which a manifest says.
 * The simulation is of a whole request: a function of the file is what all devices do for one part, the inputs are cut,
 * the function is called for each part, and what it gives is put together again:
 *
 *     x [8, ..]  ->  Slice  ->  micro_batch  ->  Concat  ->  y [8, ..]
 *                ->  Slice  ->  micro_batch  ->
 */
#include "base/json_writer.h"

#define SP_CUT_WHOLE UINT32_MAX /* an axis: all parts have the same */

struct sp_cut_tensor {
    const char *name;
    uint32_t axis;  /* along which it is cut, or SP_CUT_WHOLE */
    int64_t extent; /* of the axis, of one part */
};

struct sp_request_cuts {
    uint32_t count; /* of parts, 1 or more */
    uint32_t input_count, output_count;
    const struct sp_cut_tensor *inputs, *outputs; /* those of the model that requests bring, and all outputs */
};

/* The member "micro_batches": {"count": 4, "inputs": [{"tensor": "x", "axis": 0, "extent": 2}], "outputs": [..]}: part i has
   the elements from i * extent on; without an axis all parts have the whole tensor. */
void sp_cuts_write(const struct sp_request_cuts *cuts, struct sp_json *json);
