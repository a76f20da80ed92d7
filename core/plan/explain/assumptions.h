#pragma once
/*
 * assumptions - what a plan's figures rest on, and what changes it.
 *
 * For each type of device in the cluster: the runtime whose kernels are counted and what its process takes of the
 * memory; the shares of peak and bandwidth that products reach, of the element type that most of the model's FLOPs
 * have; what starting a kernel takes; whether products of float32 are rounded to TF32; where the figures come from.
 * Then the links, where the cluster states none. Of a graph of costs only the links: its times are in the file.
 *
 * Each names the member of the cluster that changes it, as a path: "runtime", "efficiency", "launch_seconds",
 * "device.flops.float32", "device", "mesh".
 */
#include "plan/internal.h"

/* "assumptions": an array of {"device", "text", "member"}; `device` is null where the whole cluster is meant. */
void sp_assumptions_write_json(const struct sp_plan *plan, struct sp_json *json);

/* A paragraph for each type of device, and one for the links. Nothing where nothing is assumed. */
void sp_assumptions_write_text(const struct sp_plan *plan, struct sp_buf *buf);

/* Adds the note LINKS_ASSUMED where nobody would expect what is taken for links: between devices of several types, and
   beyond the devices that a scale-up link joins. False without memory. */
bool sp_note_links(const struct sp_cluster *cluster, struct sp_bindings *bindings);
