#pragma once
/*
 * streamed - what a plan says of weights that stay in the memory of hosts (cost/streaming.h).
 */
#include "plan/internal.h"

static inline bool sp_plan_streams(const struct sp_plan *plan, uint32_t stage)
{
    return stage != SP_NO_STAGE && plan->result->evaluation->stages[stage].streamed_count > 0;
}

/* The member "streamed" of a stage: bytes, seconds, buffers, nodes and their weights; none where it streams nothing. */
void sp_streamed_write_json(const struct sp_plan *plan, uint32_t stage, struct sp_json *json);

/* The member "streamed" of a manifest: for each device that streams, numbered as its models are, what a runtime has to
   copy; `devices` has the device of the cluster of each. None where the plan streams nothing. */
void sp_streamed_write_manifest(const struct sp_plan *plan, int64_t count, const uint32_t *devices,
                                struct sp_json *json);

/* "; 12 GB of its weights stay in host memory and are copied for each request, in 480 ms" */
void sp_streamed_say(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf);

/* Adds the note WEIGHTS_STREAMED where any stage streams. False without memory. */
bool sp_note_streamed(const struct sp_plan *plan, struct sp_bindings *bindings);
