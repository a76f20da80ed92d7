#pragma once
/* step_costs - what one collective takes on a mesh, from looking at every group of devices. */
#include "sharding/reshard/reshard.h"

#define STEP_COSTS_MAX_SPANS 64 /* differently shaped groups of one set of axes */

/*
 * How many devices of a group differ at each link level, once for each shape that occurs among the groups of these
 * axes: the numbers of different coordinates where the group is a grid of them; otherwise all of its devices at the
 * outermost level that tells any two apart.
 */
uint32_t step_spans(const struct sp_links *links, const struct sp_mesh *mesh, const struct sp_axis_list *axes,
                    uint32_t spans[STEP_COSTS_MAX_SPANS][SP_MAX_MESH_AXES]);

/* Seconds of the slowest group; `bytes` as sp_collective_seconds() takes them. */
double step_seconds(const struct sp_links *links, const struct sp_mesh *mesh, const struct sp_axis_list *axes,
                    enum sp_collective kind, double bytes);
