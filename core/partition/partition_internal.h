#pragma once
/*
 * partition_internal - what the files of core/partition share.
 */
#include "base/cancel.h"
#include "infer/view/axis_cuts.h"
#include "ops/lowering/recorder.h"
#include "partition/partition.h"

/* Who runs a node, and which shard of every factor each has. */
struct sp_node_cut {
    uint32_t device_count;
    const int64_t *devices; /* ascending */
    uint32_t factor_count;
    struct sp_block_dim *cuts; /* per factor; part_count 0: whole */
    int64_t *shards;           /* per factor; 1: whole */
    int32_t **coordinates;     /* per factor: per device; NULL: whole */
};

/* One way in which a tensor is there: pieces on devices. */
struct sp_part_held {
    struct sp_part_held *next;
    const struct sp_sharding *sharding; /* NULL: none says it */
    uint32_t count;
    const int64_t *devices; /* ascending */
    const struct sp_piece **pieces;
    const struct sp_box *boxes;
};

struct sp_part_tensor {
    uint32_t same_as; /* the tensor that this is another name of (an operand of an expanded call), or itself */
    bool is_needed;
    bool is_told;                      /* RESULT: it was told */
    struct sp_part_held *first, *last; /* as it was made, then as it was brought */
};

/* What a tensor was held as when the graph was entered. */
struct sp_part_undo {
    struct sp_part_tensor *tensor;
    struct sp_part_held *last;
};

struct sp_partitioner {
    const struct sp_partition_request *request;
    const struct sp_part_sink *sink;
    struct sp_error *err;
    struct sp_arena *arena, *scratch; /* of the partition, of the node at work */
    struct sp_model *model;
    const struct sp_dataflow *dataflow;
    struct sp_assignment assignment;    /* with specs of its own, which the node at work may change */
    const struct sp_assignment *stated; /* the request's */
    struct sp_part_tensor *tensors;
    uint32_t *relation_of; /* by node of the dataflow: its NODE relation, or SP_NO_TENSOR */
    const char *marker;
    uint64_t next; /* number of the next piece */
    struct sp_links links;
    struct sp_mesh_level near;
    const struct sp_node_cut *branch; /* not NULL: in the branch of an If that runs in its place, where the If is */
    bool *is_cut_inside; /* by node of the dataflow: something in its graphs is cut; NULL: nobody asked yet */
    uint32_t body_depth; /* graphs of control flow around the node at work */
    uint32_t undo_count, undo_capacity;
    struct sp_part_undo *undo; /* what came to be held in them */
};

/* What is asked of a tensor: boxes on devices. */
struct sp_part_target {
    const struct sp_sharding *sharding; /* NULL: none says it */
    const struct sp_sharding *goal;     /* of the steps to it; set by sp_part_bring() */
    uint32_t count;
    const int64_t *devices;
    const struct sp_box *boxes;
    const struct sp_node *node; /* that needs it; NULL: a result */
    enum sp_communication_kind purpose;
};

/* ---- place.c ---- */

/* Where the node runs and how it is cut, from the specs of its operands. What cannot be is whole, with a note. */
enum sp_status sp_part_place(struct sp_partitioner *part, const struct sp_relation *relation,
                             const struct sp_rule *rule, struct sp_node_cut *ret_placement);

/* A placement on the same devices in which nothing is cut. */
enum sp_status sp_placement_whole(struct sp_partitioner *part, uint32_t factor_count, uint32_t device_count,
                                  const int64_t *devices, struct sp_node_cut *ret_placement);

void sp_placement_make_whole(struct sp_node_cut *placement, uint8_t factor);
/* How an axis is cut that is no product of its factors: for itself, and where one factor of it is cut, in that factor's
   shares. */
struct sp_block_part sp_placement_own_cut(const struct sp_node_cut *placement, const struct sp_axis_factors *list);

bool sp_placement_is_whole(const struct sp_node_cut *placement);

/* The indices of a factor that device number `at` of the placement has. */
enum sp_status sp_placement_factor(struct sp_partitioner *part, const struct sp_node_cut *placement,
                                   const struct sp_rule *rule, uint8_t factor, uint32_t at,
                                   struct sp_lower_factor *ret_factor);

/* The part of an operand that it has, `rank` axes. */
enum sp_status sp_placement_part(struct sp_partitioner *part, const struct sp_node_cut *placement,
                                 const struct sp_rule *rule, const struct sp_operand_rule *operand,
                                 const struct sp_value *value, uint32_t at, struct sp_lower_axis *ret_axes);

/* The operand's sharding that these parts are, BLOCKS kept by the assignment's cache; NULL where none says it. */
enum sp_status sp_placement_sharding(struct sp_partitioner *part, const struct sp_node_cut *placement,
                                     const struct sp_rule *rule, const struct sp_operand_rule *operand,
                                     const struct sp_value *value, const struct sp_sharding **ret_sharding);

/* ---- tensor_pieces.c ---- */

/* The tensor that others are names of: the argument of a call for its body's input. */
uint32_t sp_part_root(const struct sp_partitioner *part, const struct sp_value *value);
/* What the value is there as, through names of the same. */
struct sp_part_tensor *sp_part_tensor(struct sp_partitioner *part, const struct sp_value *value);

/* Extent of an axis, -1 where it is not known. */
int64_t sp_part_extent(const struct sp_value *value, uint32_t axis);

/* Its rank for boxes: 0 for what is no tensor of known rank. */
uint32_t sp_part_rank(const struct sp_value *value);
/* The whole of a value as a box, in the partition's memory. */
enum sp_status sp_part_whole_box(struct sp_partitioner *part, const struct sp_value *value, struct sp_box *ret_box);
/* Whether these indices are all of it. */
bool sp_part_is_whole(const struct sp_value *value, const struct sp_axis_ranges *axes, uint32_t rank);
/* The boxes of a sharding's devices. */
enum sp_status sp_part_boxes(struct sp_partitioner *part, const struct sp_value *value,
                             const struct sp_sharding *sharding, uint32_t count, const int64_t *devices,
                             struct sp_box *ret_boxes);
bool sp_box_equal(const struct sp_box *a, const struct sp_box *b);
bool sp_box_is_empty(const struct sp_box *box);
/* Whether it is no part of a tensor that has elements: all of an empty tensor is still that tensor. */
static inline bool sp_box_is_nothing(const struct sp_box *box)
{
    return sp_box_is_empty(box) && !box->is_whole;
}

/* A new piece of a value, or of what `name` says. */
struct sp_piece *sp_part_piece(struct sp_partitioner *part, const char *name, int64_t device, enum sp_dtype dtype,
                               const struct sp_box *box);

/* Remembers that a value is there in this way; arrays stay the caller's, in the partition's memory. */
enum sp_status sp_part_hold(struct sp_partitioner *part, const struct sp_value *value,
                            const struct sp_sharding *sharding, uint32_t count, const int64_t *devices,
                            const struct sp_piece **pieces, const struct sp_box *boxes);

/* ---- sources.c ---- */

/* The bytes of a weight: an initializer, or what a Constant holds; NULL for what is none. */
const struct sp_tensor *sp_part_weight(const struct sp_value *value);

/* Whether all integers of what a node makes are known: every device has them as a constant. */
bool sp_part_is_constant(const struct sp_value *value);

/* Whether every device can have any part of it without asking others: model inputs, weights, what is known. */
bool sp_part_is_outside(const struct sp_partitioner *part, const struct sp_value *value);

/* The pieces that are missing of such a value, cut to measure and told. */
enum sp_status sp_part_cut_outside(struct sp_partitioner *part, const struct sp_value *value,
                                   const struct sp_part_target *target, const struct sp_piece **pieces);

/* ---- reshard_tensor.c ---- */

/* Makes the pieces be there; `ret_pieces` gets one for each device of the target. */
enum sp_status sp_part_bring(struct sp_partitioner *part, const struct sp_value *value,
                             const struct sp_part_target *target, const struct sp_piece **ret_pieces);

/* ---- exchange_kind.c ---- */

/* Sets is_regular, axis and other_axis where the exchange is what its kind says, on one axis. */
void sp_exchange_classify(struct sp_exchange *exchange);

enum sp_status sp_part_exchange(struct sp_partitioner *part, struct sp_exchange *exchange);

/* ---- node.c ---- */

/* Where a node runs that no relation speaks of: where its inputs are, else everywhere. */
enum sp_status sp_part_place_apart(struct sp_partitioner *part, const struct sp_node *node,
                                   struct sp_node_cut *ret_placement);

/* Runs one node that is no call of an expanded function. */
enum sp_status sp_part_node(struct sp_partitioner *part, struct sp_node *node);

/* A note, if the sink wants any. */
__attribute__((format(printf, 5, 6))) enum sp_status sp_part_tell(struct sp_partitioner *part, const char *code,
                                                                  const struct sp_node *node, const char *tensor,
                                                                  const char *format, ...);
