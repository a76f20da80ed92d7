#pragma once
/*
 * holdings - which device holds which part of which weight, and what two plans have of it in common.
 *
 * A *weight* is an initializer of the model that nodes which run need, directly or through folded nodes, or what lies
 * inside a node: constants of its graphs, the memory_bytes of a graph of costs. A placement says which *parts* of it
 * its devices hold: boxes, one or several on a device, as the model of the device has them. Weights that a folded node
 * is made of are held in the parts that it needs to make its own part (sp_strategy_folded_layouts()).
 *
 * Two placements cut a weight in different boxes. Its *atoms* are the cells of the grid that the borders of all boxes
 * make: what any device of either placement holds is a set of atoms, so what is kept, missing and moved is counted in
 * them, to the byte.
 *
 *     before   [0, 4) [4, 8)            on 2 devices
 *     now      [0, 3) [3, 6) [6, 8)     on 3
 *     atoms    [0, 3) [3, 4) [4, 6) [6, 8)
 */
#include "search/joint/joint.h"

/* A plan as far as weights go. */
struct sp_placed {
    const struct sp_workload *workload;
    const struct sp_placement *placement;
    const struct sp_sharded_stage *sharded; /* per stage, or NULL */
    const struct sp_routed *routes;         /* in place of both, where requests take several; or NULL */
};

/* The weights of a workload: tensor t is weight t, what is inside node n is weight tensor_count + n. */
static inline const char *sp_weight_name(const struct sp_workload *workload, uint32_t weight)
{
    return weight < workload->tensor_count ? workload->tensors[weight].name
                                           : workload->nodes[weight - workload->tensor_count].name;
}

/* A box of a weight on a device. */
struct sp_weight_part {
    uint32_t weight, device;
    const struct sp_axis_ranges *axes; /* per axis of the tensor; NULL: all of it */
};

struct sp_weight_parts {
    uint32_t count, capacity;
    struct sp_weight_part *items; /* by weight, then device */
};

/* Boxes of shardings that have been looked at; placements of one search share them. In a child of `arena`, which is
   none itself. */
struct sp_box_memory;
struct sp_box_memory *sp_box_memory_create(struct sp_arena *arena); /* NULL without memory */

/* What all devices hold under a placement, in `arena`. `memory` is that of the same workload and its tables. */
enum sp_status sp_weight_parts(struct sp_arena *arena, struct sp_box_memory *memory, const struct sp_placed *placed,
                               struct sp_weight_parts *ret_parts, struct sp_error *err);

/* Gives the weights of `parts` the numbers that they have in another workload of the same model; those that it does not
   have are left out. */
enum sp_status sp_weight_parts_renumber(struct sp_arena *arena, const struct sp_workload *from,
                                        const struct sp_workload *to, struct sp_weight_parts *parts,
                                        struct sp_error *err);

/* ---- atoms ------------------------------------------------------------------------------------------------------ */

#define SP_MAX_ATOMS (1u << 22) /* of all weights: what is cut finer is refused */

struct sp_weight_atom {
    uint32_t weight;
    double bytes;
    const struct sp_range *box; /* per axis; NULL: the weight is one atom */
    uint64_t *has, *needs;      /* bits: holders that have it, devices that need it */
};

struct sp_weight_atoms {
    uint32_t holder_count, device_count; /* bits of `has`, of `needs` */
    uint32_t count, capacity;
    struct sp_weight_atom *items; /* by weight, row-major */
};

/* The atoms of what some device needs now, in `arena`; parts have weights of `workload`. SP_ERR_LIMIT
   "REPLAN_TOO_FINE". */
enum sp_status sp_weight_atoms_make(struct sp_arena *arena, const struct sp_workload *workload,
                                    const struct sp_weight_parts *before, const struct sp_weight_parts *now,
                                    struct sp_weight_atoms *atoms, struct sp_error *err);

static inline bool sp_weight_atom_bit(const uint64_t *bits, uint32_t index)
{
    return (bits[index / 64] >> (index % 64) & 1) != 0;
}
