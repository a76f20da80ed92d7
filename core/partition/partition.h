#pragma once
/*
 * partition - a model and a complete assignment of shardings as what each device runs.
 *
 * The model's nodes are gone through in order. Each is seen through its rule (infer/view/view.h): who takes part, which
 * shard of every factor each has. Its operator writes every device's part (ops/lowering/lowering.h). Inputs are brought
 * from where they are to where they are needed (resharded, exchanged at shard borders, sent between stages), partial
 * results are combined, and what comes out is told to a sink in order: sources, operators, exchanges, results. Nothing
 * is kept but who holds what, so a model of a hundred thousand nodes on many devices needs little memory.
 *
 * What cannot be split is whole: the factor's operands are gathered, every device that takes part computes the node on
 * all of it, and keeps its part of the outputs. A note says so. This is always right, so there is no model and no
 * assignment that cannot be partitioned; a plan that is worth its price has few such notes.
 *
 * Values whose integers are known (shapes, axes, sizes: ops/shapes/shapes.h) are constants in every device's program, so the
 * nodes that compute them from global shapes are not run. Nodes that nothing needs are left out. An If whose condition is
 * known is not run either: its branch is, in its place.
 *
 * Glossary
 *  piece     a tensor of one device's program
 *  box       a part of a tensor: for each axis the indices
 *  source    a piece that comes from outside: part of a model input, or of a weight
 *  exchange  pieces of several devices become other pieces of several devices
 *  result    a model output: who has which box of it
 *
 * The order of calls is one that every device can follow: what a device does is the calls that name it, in order.
 * The same assignment gives the same calls.
 */
#include "infer/view/view.h"
#include "ops/lowering/lowering.h"
#include "sharding/reshard/reshard.h"

/* For each axis the indices; axes[i].ranges[0].limit is -1 where the axis is whole and its extent not known. */
struct sp_box {
    uint32_t rank;
    const struct sp_axis_ranges *axes;
    bool is_whole; /* all there is; always true for what is no tensor of known rank (then rank is 0) */
};

/* A device's part of a model input (fed for every request) or of a weight. Told before its first use. Pieces of the
   same box of the same value on several devices are told one by one. */
struct sp_part_source {
    const struct sp_value *value; /* INPUT without a default, or a weight */
    bool is_weight;
    const struct sp_tensor *tensor; /* of a weight: an initializer's, or a Constant's; NULL: value->sparse is it */
    int64_t device;
    const struct sp_piece *piece;
    struct sp_box box;
};

/* A small constant that a local program needs. */
struct sp_part_constant {
    int64_t device;
    const struct sp_piece *piece;
    enum sp_dtype dtype;
    uint32_t rank;
    const int64_t *dims;
    bool is_filled; /* `bytes` is one element, of which there are as many as dims say */
    const void *bytes;
    size_t size;
};

/* In a subgraph: the name of a value of an outer graph, and the piece that it is here. */
struct sp_part_capture {
    const struct sp_value *value;
    const struct sp_piece *piece;
};

struct sp_part_op {
    int64_t device;
    const struct sp_node *node; /* that this is a part of */
    bool is_same;               /* the node's own operator: its attributes are the node's but for `attributes` */
    const char *domain, *op_type, *name;
    uint32_t input_count, output_count, attribute_count, capture_count;
    const struct sp_piece *const *inputs;  /* NULL: omitted */
    const struct sp_piece *const *outputs; /* NULL: omitted */
    const struct sp_lower_attribute *attributes;
    const struct sp_part_capture *captures; /* what subgraphs among the attributes use by name */
};

/* One device in an exchange. */
struct sp_exchange_member {
    int64_t device;
    uint32_t group;                /* devices of one group talk to each other only */
    const struct sp_piece *before; /* NULL: it gives nothing */
    struct sp_box held;
    const struct sp_piece *after; /* NULL: it gets nothing */
    struct sp_box needed;
};

/*
 * Pieces before, pieces after.
 *
 *   ALL_SLICE           every device cuts its piece out of its own
 *   ALL_GATHER          after: the pieces of the group, which differ along `axis`, one after the other in member order
 *   ALL_TO_ALL          after: from every device of the group the part along `axis` that is needed, put together
 *                       along `other_axis` in member order
 *   ALL_REDUCE          all of a group hold the same box; after: combined
 *   REDUCE_SCATTER      the same, and each keeps its part along `axis`, in member order
 *   COLLECTIVE_PERMUTE  after: the whole piece of one other device
 *   SEND_RECEIVE        each takes what it needs from whom sp_exchange_cells() says
 *
 * What each kind says holds for the members of one group, and sp_exchange_cells() gives the same for every kind: which
 * boxes of which devices make a piece. An exchange that is none of the regular kinds (several axes at once, unequal
 * pieces) is told as SEND_RECEIVE, or as ALL_GATHER, .. with is_regular false where the kind is what it does.
 */
struct sp_exchange {
    enum sp_collective kind;
    enum sp_combiner combiner; /* ALL_REDUCE, REDUCE_SCATTER */
    bool is_regular;           /* one axis, pieces of equal extents, members in order of the parts */
    uint32_t axis, other_axis;
    enum sp_dtype dtype;
    uint32_t rank;
    const int64_t *shape;         /* of what the boxes are boxes of; -1 not known */
    const struct sp_value *value; /* whose pieces these are; NULL: a statistic of `node` */
    const struct sp_node *node;   /* that needs or made it; NULL: a result */
    enum sp_communication_kind purpose;
    const struct sp_sharding *from,
        *goal;                  /* how the value was held, and how it is wanted in the end; NULL: none says it */
    const struct sp_rule *rule; /* of a collective that the node itself asks for: over these factors of its rule */
    uint32_t factor_count;
    const uint8_t *factors;
    uint32_t group_count, member_count;
    const struct sp_exchange_member *members; /* by group, then in the group's order */
};

/* Where a piece comes from: a grid of cells, cut along each axis where sources change. Cell (i_0, .., i_r) row-major;
   its extent along axis a is sizes[a][i_a]. */
struct sp_exchange_cell {
    uint32_t source_count;      /* 1, or the group's members for reductions */
    const uint32_t *sources;    /* members */
    const struct sp_range *box; /* `rank` ranges of indices into the sources' pieces `before` (all hold the same box) */
};
struct sp_exchange_grid {
    uint32_t rank;
    const uint32_t *counts; /* cells along each axis; rank 0: one cell, box NULL */
    uint64_t cell_count;
    const struct sp_exchange_cell *cells;
};

/* The cells of one member's piece `after`. A device takes from itself where it can, else from the first member of its
   group that has it. SP_ERR_LIMIT above SP_MAX_EXCHANGE_CELLS. */
enum sp_status sp_exchange_cells(struct sp_arena *arena, const struct sp_exchange *exchange, uint32_t member,
                                 struct sp_exchange_grid *ret_grid, struct sp_error *err);

/* What an exchange is called: its kind, or where devices have unequal shares of one axis "all-gather-v" and
   "all-to-all-v", whatever kind tells it. Pieces that differ in the last one's padding alone are even. */
const char *sp_exchange_name(const struct sp_exchange *exchange);
/* A collective's name on pieces of unequal sizes, after MPI's: "all-gather-v", "all-to-all-v", "reduce-scatter-v"; the
   other kinds keep theirs. Static. */
const char *sp_uneven_collective_name(enum sp_collective kind);

/*
 * Control flow (an If of two branches, Loop, Scan) whose graphs are split: one node on all its devices, which take the
 * same branches and turns. It is told as: begin; for each graph body, what is in it, body end; end. Whatever is told
 * between a body and its end happens in that graph; pieces made there are not seen outside, pieces made before are. The
 * control lives until its end, a body until its own.
 *
 * A port is an operand on the devices: for each device of the node its piece, or NULL where it has none. Inputs of the
 * node are there before it begins. Of a body's inputs the turn's number and its condition are the same on every device.
 */
struct sp_part_port {
    const struct sp_value *value;         /* NULL: omitted */
    const struct sp_piece *const *pieces; /* per device */
};
struct sp_part_control {
    const struct sp_node *node;
    const char *name;
    uint32_t device_count, input_count, output_count;
    const int64_t *devices;
    const struct sp_part_port *inputs, *outputs; /* as the node's */
};
struct sp_part_body {
    const struct sp_graph *graph;
    const char *attribute; /* "body", "then_branch", .. */
    uint32_t input_count, output_count;
    const struct sp_part_port *inputs, *outputs; /* as the graph's; outputs' pieces are known at its end */
};

struct sp_part_note {
    const char *code;           /* stable, e.g. "FACTOR_WHOLE" */
    const struct sp_node *node; /* or NULL */
    const char *tensor;         /* or NULL */
    const char *message;        /* a full sentence */
};

/* What a device has of a model output in the end; the value of member.before is the piece. */
struct sp_part_result {
    uint32_t output; /* of the model */
    const struct sp_value *value;
    uint32_t rank;
    const int64_t *shape; /* -1 not known */
    uint32_t holder_count;
    const struct sp_exchange_member *holders; /* `after` is NULL */
};

/* Callbacks may be NULL. What they are given lives until they return, pieces until the partition is destroyed. */
struct sp_part_sink {
    void *context;
    enum sp_status (*source)(void *context, const struct sp_part_source *source, struct sp_error *err);
    enum sp_status (*constant)(void *context, const struct sp_part_constant *constant, struct sp_error *err);
    enum sp_status (*op)(void *context, const struct sp_part_op *op, struct sp_error *err);
    enum sp_status (*exchange)(void *context, const struct sp_exchange *exchange, struct sp_error *err);
    enum sp_status (*result)(void *context, const struct sp_part_result *result, struct sp_error *err);
    /* All four or none: without them control flow is not split. */
    enum sp_status (*control_begin)(void *context, const struct sp_part_control *control, struct sp_error *err);
    enum sp_status (*body_begin)(void *context, const struct sp_part_body *body, struct sp_error *err);
    enum sp_status (*body_end)(void *context, const struct sp_part_body *body, struct sp_error *err);
    enum sp_status (*control_end)(void *context, const struct sp_part_control *control, struct sp_error *err);
    enum sp_status (*note)(void *context, const struct sp_part_note *note, struct sp_error *err);
};

/* Who has a model output in the end. */
enum sp_part_results {
    SP_RESULTS_AS_HELD,    /* each device what the assignment says */
    SP_RESULTS_WHOLE,      /* the first device that has some of it has all of it */
    SP_RESULTS_EVERYWHERE, /* every device has all of it */
};

struct sp_partition_request {
    enum sp_part_results results;
    struct sp_model *model;
    const struct sp_assignment *assignment;
    const struct sp_links *links; /* for choosing ways of resharding; NULL: all devices equally near */
    const struct sp_watch *watch; /* or NULL */
};

/* What stands between a value's name and a device in names of pieces: one '@' more than follow each other in any name
   of the model. NULL without memory. */
const char *sp_part_marker(struct sp_arena *arena, const struct sp_model *model);

/*
 * Tells the sink everything. Memory grows with values and devices. Errors: what a callback returned; SP_ERR_LIMIT;
 * SP_ERR_MODEL for annotations that contradict the model; SP_ERR_CANCELLED.
 */
enum sp_status sp_partition_run(struct sp_arena *arena, const struct sp_partition_request *request,
                                const struct sp_part_sink *sink, struct sp_error *err);
