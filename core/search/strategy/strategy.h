#pragma once
/*
 * strategy - the ways in which one operator can run on a mesh of devices, read off its rule.
 *
 * A strategy lays each axis of the mesh on one factor of the operator's rule, or on none (then the devices along it do
 * the same). Everything else follows from the factors:
 *
 *   operands      each tensor axis is cut by the mesh axes of its factors, major to minor in the factors' order and,
 *                 within one factor, in the mesh's order
 *   local work    FLOPs, bytes and functions of the shard: terms and operands with the split factors divided
 *   reductions    a split reduction factor leaves partial values: all-reduce, or reduce-scatter to an axis of output 0
 *                 that divides (a strategy of its own)
 *   halo          neighbours exchange their borders
 *   memory        local bytes of weights, outputs, workspace
 *   gathering     a weight may lie in more shards than the operator reads it in, and be gathered before (below)
 *
 * Which factors may be split: those that partition/ really runs on shards, in multiples of their block, and evenly on
 * every axis of every operand. What that means is not said twice: each way is tried by calling the operator's own
 * lowering (ops/lowering/lowering.h), as the partition does, on a device at the border of the mesh and, where elements
 * come from neighbours, on one in its middle. A way that the function refuses is no strategy; the collectives, borders
 * and further operators that it asks for are timed. Of a compound axis only the major factors are cut, since a layout
 * gives whole mesh axes to tensor axes; but of weights also one behind factors that are whole (scales of quantised
 * weights that lie in one row), and of all tensors one behind a major part, where a weight holds several in one and
 * something takes them apart (queries, keys and values of one product: strategy_inner.c). All mesh axes of one partial
 * output are reduced, or all scattered to one axis: so the partition does it in one step. Weights that are quantised
 * are cut before they are dequantised: where the operators in between do not run on the part, in whole blocks, it is no
 * strategy.
 *
 * A rule with more ways than SP_MAX_STRATEGIES keeps the best by local time and memory; the one in which
 * nothing is split is always there. Dominated ways (the same operand layouts at no better time and memory) are dropped.
 *
 * Gathered weights. Where the axes of a mesh cut activations and not the node's largest weight, each device along them
 * has the same of it. It may as well have a part, and gather the others' for each request: a way of its own, of the same
 * layouts, with the weight stored in those shards. Like the layers of fully sharded models it is gathered while the
 * devices compute, and what it takes longer than the node itself is what it costs. There are two buffers for what is
 * gathered, one being read while the other is filled; they are the node's workspace. Such a way saves memory and nothing
 * else, so there are none where devices have room for twice the model (`gathers`), nor where gathering takes more than
 * twice as long as the node: few rows read a weight faster than links bring it. Nor of weights that several nodes or
 * phases take, that are quantised or made by other nodes, nor of a millionth of the model, nor on unequal devices.
 *
 * Sources: Pope et al., Efficiently Scaling Transformer Inference, MLSys 2023 (weight-gathered layouts); Zhao et al.,
 * PyTorch FSDP, VLDB 2023; Wang et al., Overlap Communication with Dependent Computation via Decomposition, ASPLOS 2023.
 *
 * Nodes of the same rule, types and weights share their strategies: a model of a hundred equal layers has those of one.
 *
 * Folded nodes have none: they follow the nodes that use what they make. A node with graphs inside, and one without a
 * rule, has one: all of it on every device.
 */
#include "cost/workload.h"
#include "infer/dataflow.h"
#include "sharding/reshard/reshard.h"

#define SP_STRATEGY_AXES      4 /* axes of a mesh, at most */
#define SP_MAX_STRATEGIES     512
#define SP_STRATEGY_LAYOUTS   (1 << 20) /* of all tensors on one mesh */
#define SP_STRATEGY_NO_FACTOR 255

/* A device of a stage whose devices are unequal, and its share of what is cut. */
struct sp_strategy_member {
    uint32_t share; /* blocks of the mesh's one axis, which follow those of the members before it */
    uint32_t kind;  /* of workload->nodes[].seconds */
    const struct sp_device *device;
    double capacity; /* bytes */
};
#define SP_STRATEGY_MEMBERS 8

/* The devices of one stage: equal ones, in a grid. Or unequal ones: then the mesh has one axis of as many equal blocks as
   the members' shares are together, a member does what its blocks are of each cut, and an operator takes as long as the
   slowest member does. Bytes of memory are those of the member `counted`. */
struct sp_strategy_mesh {
    uint32_t axis_count;              /* 0: one device */
    uint32_t size[SP_STRATEGY_AXES];  /* 2 or more each; axes major to minor; devices are numbered row-major */
    struct sp_links links;            /* of these devices, numbered from 0 (sp_cluster_prefix() of an aligned block) */
    const struct sp_cluster *cluster; /* efficiency and launch */
    const struct sp_device *device;
    uint32_t kind;         /* of workload->nodes[].seconds */
    uint32_t member_count; /* 0: equal devices */
    struct sp_strategy_member members[SP_STRATEGY_MEMBERS];
    uint32_t counted;
    bool gathers; /* weights may be gathered: what devices have room for may be too little for all of them */
};

struct sp_strategy {
    uint8_t factor_of[SP_STRATEGY_AXES];  /* per mesh axis: the factor that it splits, or SP_STRATEGY_NO_FACTOR */
    uint8_t scatter_of[SP_STRATEGY_AXES]; /* where that is a reduction: the axis of output 0 that its reduce-scatter
                                             cuts, or SP_STRATEGY_NO_FACTOR: all-reduce */
    bool is_inner;                        /* it cuts some activation behind the major part of an axis */
    double flops, bytes;                  /* of one device */
    double compute_seconds, communication_seconds;
    double communication_bytes; /* sent by one device for what communication_seconds are */
    double output_bytes;        /* of one device: activations that it makes, aliases not counted */
    double weight_bytes;        /* of one device: weights that only this node uses, and those inside it */
    double workspace_bytes;
    double resident_bytes;   /* of one device: its part of the keys and values that the node keeps (cost/cache.h) */
    const uint32_t *layouts; /* per operand (inputs, then outputs): a layout of the table (sp_strategy_layout()) */
    uint8_t gathered;        /* the input that is gathered for the node, or SP_STRATEGY_NO_FACTOR */
    uint8_t gathered_axis;   /* along this axis of it */
    uint32_t stored;         /* the layout in which it lies; layouts[gathered] is what the node reads */
    double gather_seconds;   /* all of it; communication_seconds have what computing leaves of it */
    double gather_bytes;     /* a part of communication_bytes */
};

struct sp_strategies {
    const struct sp_rule *rule; /* NULL: none */
    uint32_t count, operand_count;
    const struct sp_strategy *items; /* item 0: nothing is split */
};

/* Whether two strategies of one node, of tables of equal meshes, are the same way. */
bool sp_strategy_is_same(const struct sp_strategy *a, const struct sp_strategy *b);

/* The layout in which an operand is where it lies: of a gathered weight not the one that the node reads. */
static inline uint32_t sp_strategy_lies(const struct sp_strategy *strategy, uint32_t operand)
{
    return operand == strategy->gathered ? strategy->stored : strategy->layouts[operand];
}

/* What of gathering is not beside the node's computing: a part of communication_seconds. */
double sp_strategy_waits(const struct sp_strategy *strategy);

/* Whether a factor is of a kind and an extent that shards behind `before` of its elements can be, in whole blocks. */
bool sp_strategy_may_cut(const struct sp_factor *factor, int64_t before, int64_t shards);

/* The numbers of shards up to 64 in which some factor of a rule may be cut, or with `of` some factor of this operand: bit
   n - 1 for n. */
uint64_t sp_strategy_divisors(const struct sp_rule *rule, const struct sp_operand_rule *of);

/* The largest constant that a node takes, by its input, where it has more elements than every device may as well have:
   UINT32_MAX for none. */
uint32_t sp_strategy_weight_of(const struct sp_node *node);

/* One mesh's strategies of all nodes of a workload. */
struct sp_strategy_table;

/* `dataflow` must be of the workload's model. */
enum sp_status sp_strategy_table_create(struct sp_arena *arena, const struct sp_workload *workload,
                                        const struct sp_dataflow *dataflow, const struct sp_strategy_mesh *mesh,
                                        const struct sp_watch *watch, struct sp_strategy_table **ret_table,
                                        struct sp_error *err);
/* The mesh that it was made for; it lives as long as the table. */
const struct sp_strategy_mesh *sp_strategy_table_mesh(const struct sp_strategy_table *table);
/* Whether some strategies are inner ones. */
bool sp_strategy_takes_apart(const struct sp_strategy_table *table);
/* Whether some node has ways that gather a weight. */
bool sp_strategy_gathers(const struct sp_strategy_table *table);
/* Bytes are those of another member from now on, but for what strategies say: the next two tell those of the member. */
void sp_strategy_count_member(struct sp_strategy_table *table, uint32_t member);
/* Of the counted member: weights that only this node uses, and what it keeps, under one of its strategies. */
double sp_strategy_weight_bytes(const struct sp_strategy_table *table, uint32_t node, uint32_t strategy);
double sp_strategy_resident_bytes(const struct sp_strategy_table *table, uint32_t node, uint32_t strategy);
void sp_strategy_table_destroy(struct sp_strategy_table *table); /* the reshard costs; NULL is allowed */

/* In how many shards more a gathered weight lies than the node reads it in; 1 where none is gathered. */
uint32_t sp_strategy_joins(const struct sp_strategy_table *table, const struct sp_strategy *strategy);

/* The strategies of a work node; NULL for a folded one. Equal pointers: nodes that share them. */
const struct sp_strategies *sp_strategy_of(const struct sp_strategy_table *table, uint32_t node);

/*
 * The layouts of the operands (inputs, then outputs) of a folded node with one output, so that this comes in `layout`:
 * the parts of its inputs that the part of the output needs. All are whole where the operator does not run on such
 * parts. `ret_layouts` has room for every operand.
 */
enum sp_status sp_strategy_folded_layouts(struct sp_strategy_table *table, uint32_t node, uint32_t layout,
                                          uint32_t *ret_layouts, struct sp_error *err);

/* A layout of the table, by the number that strategies have. Equal numbers are equal layouts; layout 0 is whole on
   every device. Layouts are of tensor axes, so one number serves tensors of any shape; what is cut behind the major
   part of an axis is one more axis, numbered from SP_MAX_RANK on. */
const struct sp_layout *sp_strategy_layout(const struct sp_strategy_table *table, uint32_t layout);

/* Whether a layout cuts this axis of tensors. */
bool sp_strategy_cuts(const struct sp_strategy_table *table, uint32_t layout, uint32_t axis);

/* Bytes that a device has of a work tensor under a layout. */
double sp_strategy_local_bytes(const struct sp_strategy_table *table, uint32_t tensor, uint32_t layout);

/* Seconds to bring a work tensor from one layout to another; 0 for equal ones and for slices. Of sequences of
   collectives that move whole mesh axes, up to where links change (sp_reshard_costs_create_axes()): the planner, which
   may move parts of axes and send pieces one by one, is at least as fast. INFINITY for a tensor of unknown extents. */
double sp_strategy_reshard_seconds(struct sp_strategy_table *table, uint32_t tensor, uint32_t from, uint32_t to);

/* Where a tensor is brought from and to: layouts of the table on the devices from a first one on, or one device. */
struct sp_strategy_ends {
    uint32_t from_layout, from_device, to_layout, to_device;
    uint32_t single; /* 1: from one device, 2: to one */
};
struct sp_strategy_transfer {
    bool is_known; /* false at first: whoever asks finds the figures, and notes them for the next */
    double seconds, bytes;
};
/* What is noted of tensors like this one between these ends; NULL without memory or where its extents are not known. */
struct sp_strategy_transfer *sp_strategy_transfer_of(struct sp_strategy_table *table, uint32_t tensor,
                                                     const struct sp_strategy_ends *ends);

/* The operand of a node that is this work tensor: its index in inputs + outputs of the rule, the first one where there
   are several; UINT32_MAX: none (a graph inside uses it by name). */
uint32_t sp_strategy_operand(const struct sp_strategy_table *table, uint32_t node, uint32_t tensor);

/* The axes of the mesh that cut each axis of the tensor, on real devices: mesh position i is device `first_device` + i.
   In `arena`. */
enum sp_status sp_strategy_axes(struct sp_strategy_table *table, struct sp_arena *arena, uint32_t rank, uint32_t layout,
                                int64_t first_device, const struct sp_sharding **ret_sharding, struct sp_error *err);

/* *sharding, made of a layout's axes, as blocks where it cuts an axis behind the major part of it. */
enum sp_status sp_strategy_refine(const struct sp_strategy_table *table, struct sp_arena *arena, uint32_t layout,
                                  const struct sp_sharding **sharding, struct sp_error *err);

/* The sharding that a layout is on real devices: both of the above. For annotations and the partition. */
enum sp_status sp_strategy_sharding(struct sp_strategy_table *table, struct sp_arena *arena, uint32_t rank,
                                    uint32_t layout, int64_t first_device, const struct sp_sharding **ret_sharding,
                                    struct sp_error *err);
