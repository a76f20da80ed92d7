#pragma once
/*
 * memory_peak - what is in the memory of a stage's devices when most is.
 */
#include "search/joint/joint.h"

struct sp_memory_peak_tensor {
    uint32_t tensor;
    double bytes; /* of one device; in all layouts in which it is there */
};

struct sp_memory_peak {
    uint32_t stage;
    uint32_t node;          /* that runs then; SP_NO_WORK: none of the stage runs */
    double workspace_bytes; /* inside it */
    double alive_bytes;     /* of the tensors: with the workspace, the stage's activations_peak_bytes */
    uint32_t tensor_count;  /* activations and model inputs, the largest first, each once */
    struct sp_memory_peak_tensor *tensors;
};

struct sp_evaluated_plan {
    const struct sp_placement *placement;
    const struct sp_sharded_stage *sharded; /* per stage; NULL: no operator is split */
    const struct sp_evaluation *evaluation;
};

/* The lists are in `arena`. */
enum sp_status sp_memory_peak_of_stage(struct sp_arena *arena, const struct sp_workload *workload,
                                       const struct sp_cluster *cluster, const struct sp_evaluated_plan *plan,
                                       uint32_t stage, struct sp_memory_peak *ret_peak, struct sp_error *err);
