#pragma once
/*
 * strategy_internal - what the files that make strategies share.
 */
#include "base/hash_map.h"
#include "search/strategy/strategy.h"

/* Ways of one rule that are looked at: with more factors than that allows, those that cut the least are left whole. */
#define SP_STRATEGY_MOST_TRIED 4096

/* Operators between a quantised constant and the node that uses it, at most: behind more of them it is not looked. */
#define SP_STRATEGY_MOST_FOLDED 16

/* A tensor axis of which not the major part is cut, but what is behind that: the axis is [before, rest], and the rest
   is cut. In layouts and cuts it is an axis of its own, with a number from SP_STRATEGY_INNER on. */
struct sp_strategy_inner {
    int64_t before;
    uint32_t axis;
};
#define SP_STRATEGY_INNER      SP_MAX_RANK
#define SP_STRATEGY_MOST_INNER (SP_LAYOUT_PARTIAL - SP_STRATEGY_INNER) /* in one table */

/* An axis of an operand that may be cut behind a major part of `before` elements, because something takes it apart. */
struct sp_strategy_apart {
    uint32_t operand, axis;
    int64_t before;
};
#define SP_STRATEGY_MOST_APART 32 /* of one node; what more there are are not cut so */

struct sp_strategy_layout {
    struct sp_layout layout;
    uint32_t number;
    uint32_t cut_count; /* axes that are cut, ascending, and in how many shards */
    uint8_t axes[SP_STRATEGY_AXES];
    uint32_t shards[SP_STRATEGY_AXES];
};

/* Extents and element size of tensors, once for all that are alike: what a reshard's cost depends on. */
struct sp_strategy_shape {
    uint32_t number, rank;
    const int64_t *extents; /* NULL: not known, only whole */
    double element_bytes;
};

struct sp_strategy_reshard {
    double seconds, bytes;
};

struct sp_strategy_class {
    struct sp_strategies strategies; /* the rule from the start, items when it is filled */
    uint32_t node;                   /* the first of its nodes */
    uint32_t apart_count;
    const struct sp_strategy_apart *apart;
};

struct sp_strategy_table {
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow;
    struct sp_strategy_mesh mesh;
    struct sp_mesh_level levels[SP_MAX_MESH_AXES];
    uint32_t device_count;
    struct sp_arena *arena, *scratch; /* its own */
    struct sp_mesh *axes;             /* the mesh as shardings have it; NULL: one device */
    struct sp_mesh *placed;           /* the same on the devices that were asked for last */
    int64_t placed_first;
    struct sp_reshard_costs *costs;                    /* NULL: one device */
    uint32_t first_digit[SP_STRATEGY_AXES + 1];        /* of each mesh axis; at last how many there are */
    uint32_t span[SP_STRATEGY_AXES][SP_MAX_MESH_AXES]; /* of each mesh axis: its devices at each level of links */

    struct sp_hash_map layout_set, shape_set, class_set, answer_set;
    struct sp_hash_map reshards;  /* by shape and layouts: struct sp_strategy_reshard */
    struct sp_hash_map arrivals;  /* by shape and layout, as the planner of reshards shares them */
    struct sp_hash_map transfers; /* a set, of shapes and ends */
    uint32_t layout_count, layout_capacity;
    struct sp_strategy_layout **layouts;
    uint32_t shape_count;
    const struct sp_strategy_shape **shape_of; /* per tensor */
    bool is_taken_apart;                       /* some node has ways that cut activations behind major parts */
    bool has_gathered;                         /* some node has ways that gather a weight */
    uint32_t inner_count;
    struct sp_strategy_inner inner[SP_STRATEGY_MOST_INNER];
    bool *is_own_weight;                 /* per tensor: a weight that one node alone uses, under any name */
    struct sp_strategy_class **class_of; /* per node */
};

/* How one operand is cut: tensor axes and the mesh axes on them; those of one tensor axis stand major to minor. */
struct sp_strategy_cut {
    uint32_t count;
    uint8_t tensor_axis[SP_STRATEGY_AXES], mesh_axis[SP_STRATEGY_AXES];
};

/* ---- strategy_layout.c ---- */

/* Digits, levels and costs of the table's mesh; layout 0. */
enum sp_status sp_strategy_mesh_prepare(struct sp_strategy_table *table, struct sp_error *err);

/* The layout of a cut. `partial`: mesh axes, a bit each, along which the values are partial; then it is not numbered.
 */
void sp_strategy_cut_layout(const struct sp_strategy_table *table, const struct sp_strategy_cut *cut, uint32_t partial,
                            struct sp_layout *ret_layout);
enum sp_status sp_strategy_layout_number(struct sp_strategy_table *table, const struct sp_layout *layout,
                                         uint32_t *ret_number, struct sp_error *err);

/* The number that an axis has behind `before` of its elements: its own behind one; false beyond
   SP_STRATEGY_MOST_INNER. */
bool sp_strategy_inner_axis(struct sp_strategy_table *table, uint32_t axis, int64_t before, uint8_t *ret_number);

/* The other way round: an axis of layouts as the tensor's. */
struct sp_strategy_inner sp_strategy_tensor_axis(const struct sp_strategy_table *table, uint8_t number);

/* Whether some axis is cut behind a major part. */
bool sp_strategy_has_inner(const struct sp_strategy_layout *layout);

/* The share of a tensor's elements that a device has: the largest piece where shards are uneven. */
double sp_strategy_layout_share(const struct sp_strategy_table *table, const struct sp_value *value, uint32_t layout);

/* ---- strategy_reshard.c ---- */

enum sp_status sp_strategy_shape_of(struct sp_strategy_table *table, uint32_t tensor,
                                    const struct sp_strategy_shape **ret_shape, struct sp_error *err);

/* Seconds and bytes of a reshard; INFINITY without memory. */
double sp_strategy_reshard(struct sp_strategy_table *table, uint32_t tensor, uint32_t from, uint32_t to,
                           double *ret_bytes);

/* What a kernel takes more that is split at a tensor: before it, to write it as it is in the layout; behind it, to start
   again and read it. A collective may split it, with both in one stage, or a border. */
enum sp_cut_side { SP_CUT_BEFORE = 1, SP_CUT_BEHIND, SP_CUT_BOTH };
double sp_strategy_cut_seconds(struct sp_strategy_table *table, uint32_t tensor, uint32_t layout,
                               enum sp_cut_side side);

/* Seconds of a collective among the devices that differ along these mesh axes (a bit each); `*ret_bytes` is added to.
 */
double sp_strategy_collective(const struct sp_strategy_table *table, enum sp_collective kind, uint32_t mesh_axes,
                              double bytes, double *ret_bytes);

/* ---- strategy_class.c ---- */

/* The class of nodes that are equal to this one in all that strategies follow from, and of which these axes may be
   taken apart. A new one has its rule, and no items yet. */
enum sp_status sp_strategy_class_find(struct sp_strategy_table *table, uint32_t node, uint32_t apart_count,
                                      const struct sp_strategy_apart *apart, struct sp_strategy_class **ret_class,
                                      struct sp_error *err);

/* Whether graphs of its own are inside the node. */
bool sp_strategy_has_inside(const struct sp_node *node);

/* ---- strategy_inner.c ---- */

/* Finds the axes that may be cut behind a major part, and gives their nodes classes that know it. All nodes must have
   classes. */
enum sp_status sp_strategy_take_apart(struct sp_strategy_table *table, struct sp_error *err);

/* Whether a rule has compound axes with something that can be cut behind a small major part. */
bool sp_strategy_is_compound(const struct sp_strategy_table *table, const struct sp_rule *rule);

/* Whether some axis of the mesh can cut a factor behind `before` of its elements. */
bool sp_strategy_is_cuttable(const struct sp_strategy_table *table, const struct sp_factor *factor, int64_t before);

/* The one factor of an axis that is more than one element, or SP_STRATEGY_NO_FACTOR. */
uint8_t sp_strategy_only_factor(const struct sp_rule *rule, const struct sp_axis_factors *list);

/* ---- strategy_enumerate.c ---- */

/* Fills in the strategies of a new class. */
enum sp_status sp_strategy_enumerate(struct sp_strategy_table *table, struct sp_strategy_class *class,
                                     struct sp_error *err);

/* ---- ways ---- */

/* One way to cut a node: what is given, and what follows. */
struct sp_strategy_way {
    struct sp_strategy_table *table;
    uint32_t node;
    struct sp_node *model_node;
    const struct sp_rule *rule; /* with terms */
    uint32_t operand_count;
    uint8_t factor_of[SP_STRATEGY_AXES];
    int64_t *shards; /* per factor */
    int64_t *before; /* per factor: so much of it is whole, and what is behind that is cut */
    uint32_t apart_count;
    const struct sp_strategy_apart *apart;
    const struct sp_strategy_cut *cuts; /* per operand of the rule */
    const uint32_t *layouts;            /* likewise */
    /* what follows */
    bool is_refused;
    double flops, bytes, compute_seconds, communication_seconds, communication_bytes, weight_bytes;
    uint32_t *partial; /* per output: mesh axes along which it is still to be combined; room for the rule's outputs */
};

/* ---- strategy_cut.c ---- */

/* The extent of an operand's axis, -1 where it is not known or no tensor's. */
int64_t sp_strategy_axis_extent(const struct sp_value *value, uint32_t axis);

/* The cuts and layouts of all operands, from the way's factor_of, shards and before; *ret_ok is false where one cannot
   be. */
enum sp_status sp_strategy_cut_operands(const struct sp_strategy_way *way, struct sp_strategy_cut *cuts,
                                        uint32_t *layouts, bool *ret_ok, struct sp_error *err);

/* Whether devices can have the parts of quantised weights that the way's layouts say. */
enum sp_status sp_strategy_has_parts(const struct sp_strategy_way *way, bool *ret_has, struct sp_error *err);

/* ---- strategy_probe.c ---- */

/* The operator, or NULL: the value of an operand. */
const struct sp_value *sp_strategy_operand_value(const struct sp_node *node, const struct sp_rule *rule,
                                                 uint32_t operand);

enum sp_status sp_strategy_probe(struct sp_strategy_way *way, struct sp_error *err);

/* ---- strategy_gather.c ---- */

/* *strategy, which is the way with its cuts and layouts, with a weight gathered; *ret_gathers is false where none can
   be, or where that takes too long. */
enum sp_status sp_strategy_gather(const struct sp_strategy_way *way, const struct sp_strategy *strategy,
                                  struct sp_strategy *ret_strategy, bool *ret_gathers, struct sp_error *err);
