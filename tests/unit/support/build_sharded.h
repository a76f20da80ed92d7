#pragma once
/*
 * build_sharded - plans whose stages split their operators, made without a search: the nodes in order are cut into
 * stages of equal length, each on a block of devices, and every node takes the strategy that `choose` says.
 *
 *     struct sharded_model model;
 *     sharded_make(&model, file, &(struct sharded_options){.stages = 2, .axis_count = 1, .sizes = {2}});
 *     json_t *json = planned_json(&model.planned);
 *     sharded_release(&model);
 */
#include "build_export.h"
#include "search/joint/joint.h"

struct sharded_options {
    uint32_t stages;   /* 0: one */
    uint32_t replicas; /* of each stage; 0: one */
    uint32_t axis_count, sizes[SP_STRATEGY_AXES];
    bool is_first_whole; /* the first stage is one device */
    /* Which strategy a node takes; NULL: the one of least time, collectives included. */
    uint32_t (*choose)(const void *context, uint32_t node, const struct sp_strategies *strategies);
    const void *context;
};

struct sharded_model {
    struct planned_model planned; /* plan and subject are those of the strategies */
    struct sp_plan *plan;
    struct sp_strategy_table *table; /* or, of a search, NULL: */
    struct sp_search_result *found;
};

/* Takes the file's bytes over. */
void sharded_make(struct sharded_model *ret_model, struct sp_buf file, const struct sharded_options *options);
/* The plan of the joint search instead, on so many A100s that may use `memory_limit` bytes each (0: all). */
void sharded_search(struct sharded_model *ret_model, struct sp_buf file, int64_t devices, int64_t memory_limit,
                    const struct sp_joint_options *options);
void sharded_release(struct sharded_model *model);

/* Any strategy of a node, the same for the same seed; `context` is a uint64_t. */
uint32_t sharded_choose_any(const void *context, uint32_t node, const struct sp_strategies *strategies);
