#pragma once
/*
 * internal - what the files of sp_infer_propagate() (propagate.h) share.
 *
 * Shardings are computed on positions 0..N-1 of one mesh. Which devices stand on these positions may differ from node
 * to node (stages of a pipeline): a place is a list of N devices in the order of positions. A device that has more of
 * an axis than another stands on several positions, each of which is an equal shard.
 */
#include "base/limits.h"
#include "infer/interned_shardings.h"
#include "infer/propagate/recent.h"
#include "infer/propagate/refine.h"

/* How one tensor dim is cut, in positions: its shard number has a digit (position / stride) % size for each entry,
   major to minor. */
struct sp_mesh_digit {
    int64_t stride, size;
};
struct sp_digits {
    uint32_t count;
    struct sp_mesh_digit *digits;
};

/* A stated sharding in positions. */
struct sp_position_layout {
    uint32_t rank;
    struct sp_digits *dims;
    int64_t count;          /* devices */
    const int64_t *devices; /* by position */
};

/*
 * The layout of an AXES sharding. Positions are the order of `base`, where it has these devices, else of ascending
 * device numbers. *ret_ok is false where its shards are no digits of the positions.
 */
enum sp_status sp_layout_create(struct sp_arena *arena, const struct sp_sharding *axes, const struct sp_mesh *base,
                                struct sp_position_layout *ret_layout, bool *ret_ok, struct sp_error *err);

/* Collects where layouts cut the positions. */
#define SP_LAYOUT_MAX_CUTS 64
struct sp_cuts {
    int64_t positions;
    uint32_t count;
    int64_t cuts[SP_LAYOUT_MAX_CUTS]; /* ascending */
    uint32_t owners[SP_LAYOUT_MAX_CUTS];
};
/* Adds the cuts of one layout; false where a cut neither divides nor is divided by one there, of *ret_opponent. */
bool sp_cuts_add(struct sp_cuts *cuts, const struct sp_position_layout *layout, uint32_t owner, uint32_t *ret_opponent);

/* The mesh of positions with an axis from cut to cut. */
enum sp_status sp_cuts_mesh(struct sp_arena *arena, const struct sp_cuts *cuts, struct sp_mesh **ret_mesh,
                            struct sp_error *err);

/* The layout as closed AXES on a mesh of positions; *ret_ok is false where no parts of its axes say it. */
enum sp_status sp_layout_to_axes(struct sp_arena *arena, const struct sp_position_layout *layout,
                                 const struct sp_mesh *mesh, struct sp_sharding **ret_sharding, bool *ret_ok,
                                 struct sp_error *err);

/* ---- one node --------------------------------------------------------------------------------------------------- */

struct sp_resolve_operand {
    const struct sp_sharding *sharding; /* as it is there, or was propagated; NULL: whole, or not known */
    const int64_t *shape;
    bool is_absent; /* omitted, or of unknown rank */
    bool is_stated; /* its cuts count as they are, else as far as they divide the extents */
    bool is_fixed;  /* stays as it is: the file states it, or it is set where it is made */
    bool is_constant;
    double bytes; /* of the whole tensor */
    /* Out: what the node takes or makes; NULL: whole. The same pointer where nothing changes. */
    const struct sp_sharding *result;
    uint8_t factor;   /* for the reason: one that is split, or SP_RULE_MAX_FACTORS */
    bool is_combined; /* an output that is joined over a split reduction factor, `factor` */
};

/*
 * Makes the operands of a node agree with its rule. Results are kept in `kept`, the rest is left in scratch memory.
 * Each factor is cut in one way: as fixed inputs cut it; else as some operand does, so that devices receive as little
 * as possible. A constant yields to an activation of which as much is stated. Factors that the operator needs
 * whole are not cut. Outputs are what follows from that, and keep a finer cut that the combining of partial results can
 * leave behind (reduce-scatter).
 */
enum sp_status sp_resolve_node(struct sp_interned *kept, struct sp_arena *scratch, const struct sp_rule *rule,
                               const struct sp_mesh *mesh, struct sp_resolve_operand *operands, struct sp_error *err);

/* ---- all nodes -------------------------------------------------------------------------------------------------- */

struct sp_infer_place {
    int64_t count;
    const int64_t *devices;     /* by position */
    bool has_shares;            /* a device stands on several positions */
    const struct sp_mesh *mesh; /* with these devices, or positions where one has shares; NULL: not made yet */
};

enum sp_infer_reason {
    SP_REASON_NONE = 0,
    SP_REASON_ASSUMED,
    SP_REASON_WHOLE,
    SP_REASON_ORIGIN,
    SP_REASON_MADE_WHOLE,
    SP_REASON_NEEDED_WHOLE,
    SP_REASON_CUT,
    SP_REASON_COMBINED,
    SP_REASON_SCATTERED
};

/* The sentence that was written last about a value: operands in the same case share it. */
struct sp_infer_told {
    const char *text;
    uint32_t tensor, flow;
    uint8_t reason, factor; /* enum sp_infer_reason */
};

/* A spec that was stated: of one tensor, or of several alike. */
struct sp_statement {
    const struct sp_sharding *source; /* the entry's */
    const struct sp_sharding *equal;  /* the same with a device of its own for each shard and replica */
    const int64_t *devices;           /* which these are; NULL: `equal` is `source` */
    const int64_t *shape;             /* of the tensor */
    const struct sp_refined *parts;   /* what the layout's axes are; NULL: the tensor's own */
    struct sp_position_layout layout;
    uint32_t place;
    struct sp_sharding *axes; /* on positions; NULL: it says nothing about them */
    const char *mute;         /* why no mesh can say it; NULL: one can */
};

struct sp_stated {
    uint32_t node, operand;
    uint32_t tensor; /* that stands for this operand */
    struct sp_statement *says;
};

/* How operands of a node were made to agree, for the next node of which the same is to be said. */
struct sp_infer_resolved {
    const struct sp_sharding *result;
    uint8_t factor;
    bool is_combined;
};

/* What was worked out last, by what it follows from. */
struct sp_infer_recent {
    struct sp_recent refined, resolved;
    const struct sp_rule *rules[SP_RECENT_SLOTS]; /* of `refined` */
    struct sp_infer_resolved operands[SP_RECENT_SLOTS][SP_RECENT_OPERANDS];
};

/* What the file and the request state. */
struct sp_infer_given {
    struct sp_hash_map statements, placed; /* what was read; places by their devices */
    uint32_t stated_count, place_count;
    struct sp_stated *stated;
    struct sp_infer_place *places;  /* SP_MAX_SPEC_PLACES; NULL: nothing is stated */
    uint32_t first_place;           /* that has as many positions as the mesh */
    const struct sp_mesh *base;     /* on which specs are read */
    const struct sp_mesh *odd_mesh; /* of the spec that was read last, */
    uint32_t odd_node, odd_operand; /* which is this one */
};

/* The tensors that splits are carried between, in arrays by tensor. */
struct sp_infer_tensors {
    uint32_t count, capacity;
    uint32_t *ranks;
    const int64_t **shapes;
    const struct sp_value **values;
    const struct sp_sharding **shardings;  /* while nodes are finished: as they are made */
    const struct sp_sharding **propagated; /* as they were propagated; of what is stated, what is stated */
    struct sp_flow_origin **origins;
    uint32_t *statement_of;            /* 1 + the entry in given.stated that it starts with, or 0 */
    const struct sp_refined **refined; /* the pieces that shapes and shardings are of, or NULL */
    bool *yields;                      /* constants */
    struct sp_infer_told *told;        /* by tensor of the dataflow */
};

struct sp_infer_flows {
    uint32_t count;
    struct sp_flow *items;
    uint32_t *relation_of;
    bool *is_copy; /* from a constant to one of its uses, at the relation that uses it */
};

struct sp_inference {
    struct sp_assignment *assignment;
    struct sp_arena *arena;   /* the assignment's: what is in its entries */
    struct sp_arena *scratch; /* until the end */
    struct sp_arena *passing; /* of one step */
    struct sp_error *err;
    struct sp_interned extents, pieces, shardings; /* what tensors have, in scratch memory */
    struct sp_hash_map realized;                   /* shardings on the devices of nodes */
    struct sp_infer_recent *recent;
    struct sp_infer_given given;
    int64_t positions;
    struct sp_mesh *mesh;    /* of positions; NULL: nothing is stated */
    uint32_t *first_operand; /* per node, into stated_of */
    uint32_t *stated_of;     /* per operand 1 + its entry in given.stated, or 0 */
    uint32_t *place_of;      /* per node 1 + its place, or 0 */
    struct sp_infer_tensors tensor;
    struct sp_infer_flows flow;
    uint32_t constant_uses, copies; /* at most so many tensors of uses, and copies to them */
    enum sp_status stop_status;
};

/* Sets origin and reason of an entry. */
enum sp_status sp_infer_reason(struct sp_inference *all, uint32_t flow_id, uint32_t operand,
                               const struct sp_resolve_operand *resolved, struct sp_spec_entry *entry);

/* A stop for a node whose rule is not kept. */
enum sp_status sp_infer_leave_out(struct sp_inference *all, const struct sp_node *node);

/* on_stop of the propagation; the context is the inference. */
void sp_infer_stop(void *context, uint32_t flow, uint8_t factor, uint32_t tensor, uint32_t opponent, const char *code);

/* Reads all stated specs and finds the mesh; `all->mesh` stays NULL where nothing is stated. */
enum sp_status sp_infer_collect(struct sp_inference *all, const struct sp_mesh *mesh);

/* The extents of a value of known rank, -1 where they are not known; equal ones are the same pointer. */
enum sp_status sp_infer_extents(struct sp_inference *all, const struct sp_value *value, const int64_t **ret_shape);

/* ---- pieces of axes --------------------------------------------------------------------------------------------- */

/* BLOCKS that cut an axis in a way that no mesh axes can say, as BLOCKS in which each part of an axis is an axis of its
   own. *ret_parts is NULL where that cannot be done. */
enum sp_status sp_infer_parts(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                              const int64_t *shape, struct sp_sharding **ret_blocks,
                              const struct sp_refined **ret_parts, struct sp_error *err);

/* Cuts tensors and rules where rules and stated specs do. What is stated becomes what the tensors start with. */
enum sp_status sp_infer_refine(struct sp_inference *all);

/* A sharding of a tensor's pieces as one of its axes, on a mesh of the same axes: AXES where each axis is in one
   contiguous split, else BLOCKS. */
enum sp_status sp_infer_join(struct sp_arena *arena, const struct sp_refined *refined, uint32_t rank,
                             const struct sp_sharding *sharding, const struct sp_mesh *mesh,
                             const struct sp_sharding **ret_sharding, struct sp_error *err);

static inline bool sp_infer_is_stated(const struct sp_spec_entry *entry)
{
    return entry->sharding != NULL && (entry->origin == SP_SPEC_GIVEN || entry->origin == SP_SPEC_SET);
}

static inline uint32_t sp_infer_operand_count(const struct sp_node *node)
{
    return node->input_count + node->output_count;
}

static inline const struct sp_value *sp_infer_operand(const struct sp_node *node, uint32_t operand)
{
    return operand < node->input_count ? node->inputs[operand] : node->outputs[operand - node->input_count];
}

static inline bool sp_infer_has_rank(const struct sp_value *value)
{
    return value != NULL && value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank &&
           value->type.shape.rank <= SP_MAX_RANK;
}
