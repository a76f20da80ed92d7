#pragma once
/*
 * ort_rules - which shardings ONNX Runtime's Distributed operators take, and what they make of them.
 *
 * Their kernels have one fixed path for each pattern of shardings. What they do with a pattern is one of four things,
 * and only the first two are of use. Sources: onnxruntime/contrib_ops/cuda/collective of January 2025 and its tests;
 * the case numbers are those of distributed_matmul.cc.
 *
 * All of them share these limits: one split axis for each tensor, a mesh of one axis (which may repeat devices), pieces
 * of one size, and collectives over all ranks of the program, numbered by rank.
 */
#include "sharding/dialect.h"

enum sp_ort_verdict {
    SP_ORT_ACCEPTED = 0, /* one of its tests does this */
    SP_ORT_UNTESTED,     /* by its code it works, but nothing tests it */
    SP_ORT_WRONG,        /* it runs, and the result is wrong or missing */
    SP_ORT_REFUSED       /* an error when it runs */
};

/* A tensor as the program has it; `spec` NULL: the operand is left out. */
struct sp_ort_tensor {
    const struct sp_ort_spec *spec;
    const int64_t *shape; /* of the whole: spec->rank extents */
};

#define SP_ORT_MAX_INPUTS 5

struct sp_ort_case {
    const char *op_type; /* without "Distributed" */
    enum sp_dtype dtype; /* of input 0 */
    int64_t world;       /* ranks of the program */
    struct sp_ort_tensor inputs[SP_ORT_MAX_INPUTS], output;
    bool has_axes; /* of Slice, Reduce.., Squeeze, Unsqueeze, as they are written: negative ones count */
    uint32_t axis_count;
    const int64_t *axes;
    bool keeps_dims; /* Reduce.. */
};

/* Whether there is a Distributed form of this operator of ai.onnx. */
bool sp_ort_has_distributed(const char *op_type);

/* *ret_why is a full sentence where the verdict is not SP_ORT_ACCEPTED; static. `scratch` is for native specs and is
   rewound; without memory the verdict is SP_ORT_REFUSED. */
enum sp_ort_verdict sp_ort_judge(const struct sp_ort_case *it, struct sp_arena *scratch, const char **ret_why);
