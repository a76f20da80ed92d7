#pragma once
/*
 * internal - what the files of infer/view share.
 */
#include "infer/view/axis_cuts.h"
#include "infer/view/cache.h"
#include "infer/view/view.h"

#define SP_NOT_THERE UINT32_MAX

/* One level of an operand's numbering of shards: row-major over its levels. */
struct sp_view_level {
    uint8_t factor; /* SP_NO_FACTOR: an axis without one */
    int64_t shards;
};

/* One input. Its arrays are there when `is_seen`. */
struct sp_view_operand {
    bool is_seen; /* it has a spec that counts */
    bool is_cut;  /* some factor of it is cut */
    enum sp_spec_origin origin;
    const struct sp_sharding *spec; /* as it was given */
    const struct sp_sharding *same; /* the one of the cache */
    struct sp_block_dim *cuts;      /* per factor */
    bool *has;                      /* per factor: it is a factor of some axis */
    uint8_t *axis_of;               /* per factor: the first such axis */
    uint32_t level_count;
    struct sp_view_level *levels;
    int64_t count; /* devices that hold a shard, ascending, and which */
    const int64_t *devices;
    const uint32_t *shards;
    uint32_t *of_participant; /* per participant: its shard, or SP_NOT_THERE */
};

struct sp_viewer {
    struct sp_arena *arena; /* of the view */
    const struct sp_assignment *assignment;
    const struct sp_relation *relation;
    struct sp_rule *rule;
    struct sp_view *view;
    struct sp_view_cache *cache;
    struct sp_error *err;
    uint32_t conflict_capacity;
    struct sp_view_operand *operands; /* inputs */
    uint32_t *owners;                 /* per factor: the first input that cuts it, or SP_NO_TENSOR */
    int64_t participant_count;
    int64_t *participants;
    int32_t **coordinates; /* per cut factor: per participant; NULL for others */
    bool is_broken;        /* results cannot be told */
};

/* ---- conflict.c ---- */

/* The value of an input; NULL for one that is left out. */
const struct sp_value *sp_viewer_input(const struct sp_viewer *viewer, uint32_t operand);

/* Adds a conflict, but for its message, that of `format`. `format` gets no trailing specs: they are in the sentence
   already. Operands stand in it as sp_viewer_operand_text() marks them, so that the sentence is good for every node
   that looks the same; the view gets their names and specs when it is told. */
__attribute__((format(printf, 3, 4))) enum sp_status
sp_viewer_conflict(struct sp_viewer *viewer, const struct sp_conflict *what, const char *format, ...);

/* The mark of an input in a conflict's sentence; it becomes "'X' (axis 0 in 2 on devices 0, 1)". */
#define SP_OPERAND_TEXT_SIZE 16
const char *sp_viewer_operand_text(uint32_t operand, char text[SP_OPERAND_TEXT_SIZE]);

/* Puts this node's names and specs in place of the marks. */
enum sp_status sp_viewer_tell_conflicts(struct sp_viewer *viewer);

/* ---- the other files ---- */

/* What was seen of a node like this one: *ret_found says whether it was, and the view is filled then, but for the rule
   and with sentences that have marks. `key` is filled for sp_viewer_remember(). */
enum sp_status sp_viewer_recall(struct sp_viewer *viewer, struct sp_view_cache_key *key, bool *ret_found);
enum sp_status sp_viewer_remember(struct sp_viewer *viewer, const struct sp_view_cache_key *key);

/* Devices: who takes part, their coordinates, what contradicts. */
enum sp_status sp_viewer_place(struct sp_viewer *viewer);

/* The results, from splits, participants and coordinates. */
enum sp_status sp_viewer_results(struct sp_viewer *viewer);
