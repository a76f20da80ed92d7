#pragma once
/*
 * stage_strategies - what a plan's strategies say of its nodes and tensors, stage by stage.
 *
 * A stage has a *block* of devices, once for each of its replicas; all of them have neighbouring numbers. Where the
 * block has several devices, each node has a strategy and each of its operands a layout; everywhere else all is whole,
 * which is layout 0. A tensor may be made in one layout and used in others, so that layouts are those of operands.
 *
 * Glossary
 *  place     a stage and a layout in which it has a tensor
 *  block     the devices of one replica of a stage
 */
#include "plan/plan.h"

/* The stage's strategies; NULL where its block is one device. */
const struct sp_sharded_stage *sp_plan_sharded(const struct sp_plan *plan, uint32_t stage);

/* Devices of all replicas of a stage; of all stages and copies; of all stages of one copy. */
uint32_t sp_plan_stage_devices(const struct sp_plan *plan, uint32_t stage);
uint32_t sp_plan_devices_used(const struct sp_plan *plan);
uint32_t sp_plan_copy_devices(const struct sp_plan *plan);

/* The device that does in a copy what `device`, of one of the stages, does in the first one. */
uint32_t sp_plan_copied(const struct sp_plan *plan, uint32_t device, uint32_t copy);

/* How the devices of its stage share a node; NULL for a folded node, and where the block is one device. */
const struct sp_strategies *sp_plan_strategies(const struct sp_plan *plan, uint32_t node);
const struct sp_strategy *sp_plan_strategy(const struct sp_plan *plan, uint32_t node);

/* The layout in which a node has one of its operands. */
uint32_t sp_plan_layout(const struct sp_plan *plan, uint32_t node, uint32_t tensor);
/* The layout in which it is where it lies: another one for a weight that is gathered (sp_strategy_lies()). */
uint32_t sp_plan_lies(const struct sp_plan *plan, uint32_t node, uint32_t tensor);

/* What one device of the stage has of a tensor, in bytes; of unequal ones the one with the largest share. */
double sp_plan_local_bytes(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t tensor);

/* What one device does of a node: seconds without collectives, with what it takes more where its kernel is cut. 0 for a
   folded node. */
double sp_plan_node_seconds(const struct sp_plan *plan, uint32_t node);
/* Sets plan->cut_seconds. */
enum sp_status sp_plan_find_cuts(struct sp_plan *plan, struct sp_error *err);

/* What one device moves for a node, in bytes, and what all of its block do together. */
double sp_plan_node_bytes(const struct sp_plan *plan, uint32_t node);
double sp_plan_node_all_bytes(const struct sp_plan *plan, uint32_t node);
/* Seconds of the collectives that are a part of the node: reductions, halos. */
double sp_plan_node_collective_seconds(const struct sp_plan *plan, uint32_t node);

/* ---- shardings ---- */

/* A layout on the devices first_device, first_device + 1, .. of all replicas: replicas are the first axis of the mesh,
   where there are several. It lives in the plan's arena. */
enum sp_status sp_plan_sharding(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                                int64_t first_device, const struct sp_sharding **ret_sharding, struct sp_error *err);

/* The same as ONNX's record, without a tensor's name and extents. */
enum sp_status sp_plan_spec(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                            int64_t first_device, struct sp_sharding_spec *ret_spec, struct sp_error *err);

/* "S[0]R": for each tensor axis the axes of the stage's mesh that cut it, R for none; "S[0,1]" for two. Appended. */
enum sp_status sp_plan_spec_text(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                                 struct sp_buf *buf, struct sp_error *err);

/* In how many pieces a layout cuts each of `rank` tensor axes, and how many elements of a major part are cut so each: 1
   where the axis is cut as it is. */
enum sp_status sp_plan_shards(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                              int64_t *ret_shards, int64_t *ret_before, struct sp_error *err);

/* The mesh of one block of a stage: axes major to minor; *ret_mesh NULL where that is one device. */
enum sp_status sp_plan_mesh(const struct sp_plan *plan, struct sp_arena *arena, uint32_t stage,
                            const struct sp_mesh **ret_mesh, struct sp_error *err);

/* ---- where tensors are ---- */

struct sp_plan_place {
    uint32_t stage, layout;
    uint32_t node; /* the first one that has the tensor so: its producer, or a user */
    uint32_t next; /* another place of the same stage, or SP_NO_PLACE */
};
#define SP_NO_PLACE UINT32_MAX

/* Where one tensor is: where it is made, then where it is used, in order; and the stages alone, ascending. */
struct sp_places {
    uint32_t count, place_count, place_capacity;
    uint32_t *stages;
    struct sp_plan_place *places;
    uint32_t stamp;   /* of the tensor at hand */
    uint32_t *seen;   /* per stage: the stamp of the tensor that was there last */
    uint32_t *latest; /* per stage: its latest place, while `seen` says so */
    struct sp_arena *arena;
};

/* Scratch for sp_plan_places(), in the plan's arena; false without memory. */
bool sp_places_init(const struct sp_plan *plan, struct sp_places *places);

/* The places in which `tensor` is held: where it is made (activations) and where running nodes use it. None for
   constants that only folded nodes use. False without memory. */
bool sp_plan_places(const struct sp_plan *plan, uint32_t tensor, struct sp_places *places);

/* ---- collectives within stages ---- */

/* One exchange between the devices of a block. */
struct sp_plan_collective {
    const char *kind; /* "all-reduce", "reduce-scatter", "halo", "exchange", or a reshard's step: "all-gather", ..; of
                            unequal shares "all-gather-v", .. (sp_uneven_collective_name()) */
    uint32_t tensor;  /* what is joined or brought; of a node with several outputs, the first */
    uint32_t node;    /* that it is done for: after it, or before it */
    bool is_before;   /* a reshard of one of the node's inputs */
    uint32_t group_size; /* devices of one group, of which the block has block / group_size; 0: not groups */
    double bytes;        /* sent by one device */
    double seconds;
    double overlapped_seconds; /* more of it, which is beside computing and in no stage's time */
};

/* Tells each exchange of a stage, in the order in which they happen. Those that are a part of one node are one. What
   `tell` takes of the plan's arena is given back afterwards. */
enum sp_status sp_plan_collectives(const struct sp_plan *plan, uint32_t stage,
                                   enum sp_status (*tell)(void *context, const struct sp_plan_collective *collective,
                                                          struct sp_error *err),
                                   void *context, struct sp_error *err);
