#pragma once
/*
 * gathered - what a plan says of weights that lie in more shards than nodes read them in (search/strategy/strategy.h).
 */
#include "plan/internal.h"

/* The member "gathered" of a stage: bytes, buffers, seconds and the weights; none where it gathers nothing. */
void sp_gathered_write_json(const struct sp_plan *plan, uint32_t stage, struct sp_json *json);

/* The member "gathered" of a manifest: for each stage that gathers its devices, numbered as their models are, and the
   same figures; `devices` has the device of the cluster of each. None where the plan gathers nothing. */
void sp_gathered_write_manifest(const struct sp_plan *plan, int64_t count, const uint32_t *devices,
                                struct sp_json *json);

/* "; 12 GB of its weights are gathered for each request, in 480 ms beside computing" */
void sp_gathered_say(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf);

/* Adds the note WEIGHTS_GATHERED where any stage gathers. False without memory. */
bool sp_note_gathered(const struct sp_plan *plan, struct sp_bindings *bindings);
