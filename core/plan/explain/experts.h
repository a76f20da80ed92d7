#pragma once
/*
 * experts - what a plan says of experts that are not chosen alike (ops/table/load.h), layer by layer: what the device that
 * is sent most is sent, over the mean of the devices, in the model's order of experts and in the one that balances it.
 *
 * ONNX says of experts on devices that their axis is cut in blocks, so files always have the model's order. Times are of
 * that, unless the workload says that the server places experts in the balanced order; then the notes say so, too.
 */
#include "plan/internal.h"

/* The member "experts" of a stage; none where no layer of the stage has such experts on several devices. */
void sp_experts_write_json(const struct sp_plan *plan, uint32_t stage, struct sp_json *json);

/* The same of a manifest, for all stages: its estimate is of the order that the times count. */
void sp_experts_write_manifest(const struct sp_plan *plan, struct sp_json *json);

/* "; of 32 layers of experts the device with most is sent 2.4 times the mean" */
void sp_experts_say(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf);

/* Adds the note EXPERTS_UNEQUAL, or EXPERTS_ORDERED where times are of the balanced order. False without memory. */
bool sp_note_experts(const struct sp_plan *plan, struct sp_bindings *bindings);
