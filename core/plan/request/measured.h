#pragma once
/*
 * measured - measured times as requests and files give them (cost/profile.h says what becomes of them).
 *
 *   {"nodes": {NAME: SECONDS or {DEVICE: SECONDS}}, "device": DEVICE}
 *   {"events": [EVENT], "device": DEVICE}       what ONNX Runtime's profiler writes; such a file is the array alone
 *
 * "device" is optional: what the times without a device were measured on. Of the events those of kernels count
 * ("cat": "Node", "name": "NAME_kernel_time", "dur" in microseconds), run by run ("model_run"): what a node takes in a
 * run is the sum of its kernels, the first run is left out if there are others, and the median counts. Without runs
 * each event is one.
 */
#include <jansson.h>

#include "base/json_writer.h"
#include "cost/profile.h"

/* `pointer` is the JSON pointer of `json` in the request, for errors: SP_ERR_REQUEST, SP_ERR_LIMIT. Everything is
   copied into `arena`; names are in the order of the text, of events in that of their first kernel. */
enum sp_status sp_profile_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_profile **ret_profile, struct sp_error *err);

/* Writes the first form; sp_profile_parse() makes the same profile of it. */
void sp_profile_write(const struct sp_profile *profile, struct sp_json *json);
