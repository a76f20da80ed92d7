#pragma once
/*
 * view - the shardings of one node's operands seen through its rule: what each device computes, what contradicts, and
 * what must be communicated. The checker, the forward inference and the list of communication all read it.
 *
 * Model. Each factor of the rule is cut in parts as sharding.h cuts an axis (struct sp_block_dim): an axis' cut is
 * dealt to its factors, major to minor. A device has a coordinate in every cut factor: the shard that it holds in the
 * operands that have the factor. The node is consistent when
 *   - operands that have a factor in common cut it in the same way, and each device has the same coordinate in all of
 *     them (proposal 0007: identical splits on axes that are not broadcast);
 *   - every operand is there on every device that takes part: where an operand does not have a factor it must be
 *     replicated on the devices that the factor is split over (0007: broadcast axes);
 *   - the devices' coordinates cover every combination of shards, so that each part of the result has a device (0007:
 *     the intersection of the devices is not empty).
 * An operand that nothing was stated of (SP_SPEC_ASSUMED) contradicts nobody: a device slices what it needs from it.
 *
 * The result's sharding follows: an output axis is cut as its factors are; a device holds its coordinates' shard; where
 * a reduction factor is split, the devices that differ in it alone hold partial values, and after the reduction all of
 * them hold the result (0007: the default of reductions).
 */
#include "infer/assignment.h"
#include "sharding/reshard/collective_cost.h"

enum sp_conflict_kind {
    SP_CONFLICT_SPLIT = 0,   /* two operands cut one factor differently, or place its shards differently */
    SP_CONFLICT_WHOLE,       /* one operand cuts a factor, another that has it is stated whole */
    SP_CONFLICT_DEVICES,     /* an operand is not on a device that takes part */
    SP_CONFLICT_COVERAGE,    /* some combination of shards is on no device: the intersection is empty */
    SP_CONFLICT_NEEDS_WHOLE, /* a factor is cut that the operator needs whole (replicate, sequential) */
    SP_CONFLICT_BLOCK,       /* a cut that is no multiple of the factor's block */
    SP_CONFLICT_FACTORS,     /* a cut of a compound axis that does not fall between its factors */
    SP_CONFLICT_SEVERAL      /* a device holds several shards that are no regular part: not looked at further */
};

#define SP_NO_FACTOR 255

struct sp_conflict {
    enum sp_conflict_kind kind;
    uint32_t operand, other; /* `other` is SP_NO_TENSOR where one operand is enough */
    uint32_t axis;           /* of `operand`, 0 where it is about devices */
    uint8_t factor;          /* SP_NO_FACTOR: of an axis without one, or of devices */
    int64_t device;          /* an example, or -1 */
    const char *message;     /* a full sentence with both operands' specs in it */
};

enum sp_communication_kind {
    SP_COMMUNICATE_RESHARD = 0, /* an operand arrives in another sharding than the node takes */
    SP_COMMUNICATE_REDUCE,      /* partial results: all-reduce, or reduce-scatter where the output is split further */
    SP_COMMUNICATE_HALO,        /* neighbours' elements */
    SP_COMMUNICATE_GATHER,      /* the operator needs an axis whole that is cut */
    SP_COMMUNICATE_PERMUTE      /* elements change their places along a cut axis (a reversed slice) */
};

struct sp_communication {
    enum sp_communication_kind kind;
    const struct sp_node *node;     /* that needs or makes it; NULL: a result of the model */
    const struct sp_node *producer; /* of a RESHARD: who made it, or NULL */
    const char *tensor;
    const char *steps;   /* "all-reduce", "reduce-scatter", or a reshard's: "all-gather, all-to-all" */
    int64_t group_size;  /* devices of one group; 0 where steps have several or none */
    int64_t group_count; /* groups that do this at once; 0: not known */
    double bytes;        /* sent by the busiest device, -1 where it is not known */
    double total_bytes;  /* sent by all, -1 likewise */
    const char *because; /* a full sentence */
};

struct sp_view {
    struct sp_rule *rule;
    int64_t participant_count;
    const int64_t *participants; /* devices, ascending */
    struct sp_block_dim *splits; /* per factor: how it is cut; part_count 0: whole */
    int32_t **coordinates;       /* per factor: which shard each participant has; NULL: it is not cut */
    uint32_t conflict_count;     /* at most SP_MAX_VIEW_CONFLICTS, the first ones */
    struct sp_conflict *conflicts;
    /* Per output: what the node computes from its inputs' shardings, after its own reductions; NULL where a conflict
       or an unknown shape leaves it open. */
    const struct sp_sharding **results;
    bool *is_partial;  /* per output: a split reduction factor was combined for it */
    bool is_too_large; /* beyond SP_MAX_VIEW_POINTS, or what may be spent on one model: nothing was looked at */
    const void *known; /* the same for all nodes of one assignment that look the same; NULL: not remembered */
};

/* Looks at one NODE relation with the given specs of its operands. Only memory and limits are errors: what contradicts
   is in the view. With symbolic extents, numbers of shards that divide them are assumed. */
enum sp_status sp_view_create(struct sp_arena *arena, const struct sp_assignment *assignment,
                              const struct sp_relation *relation, struct sp_view **ret_view, struct sp_error *err);

/* What each participant has of an operand, as the node's factors are cut: BLOCKS. *ret_part is NULL where no cut of axes
   says it. Of a view in which nothing contradicts. */
enum sp_status sp_view_part(struct sp_arena *arena, const struct sp_view *view, const struct sp_operand_rule *operand,
                            struct sp_sharding **ret_part, struct sp_error *err);

/* What one node must communicate: reshards of its inputs from where they were made, its reductions, halos, and its
   stated outputs against what it computes. Appended to a list in the assignment's arena. Beyond SP_FREE_WAYS_WORK for
   all nodes of an assignment, reshards are told without steps and bytes. */
struct sp_communications {
    uint32_t count, capacity;
    struct sp_communication *items;
};
enum sp_status sp_view_communications(const struct sp_assignment *assignment, const struct sp_relation *relation,
                                      const struct sp_view *view, struct sp_communications *list, struct sp_error *err);

/* Of every node, in order. */
enum sp_status sp_assignment_communications(const struct sp_assignment *assignment, struct sp_communications *list,
                                            struct sp_error *err);
