#include "cost/kernels/runtime.h"

#include <string.h>

static const struct sp_runtime runtimes[SP_RUNTIME_COUNT] = {
    [SP_RUNTIME_ONNXRUNTIME] = {.name = "onnxruntime",
                                .joins_functions = true,
                                .epilogue = SP_EPILOGUE_CONSTANTS,
                                .source =
                                    "onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html: "
                                    "LayerNormalization, GELU and bias fusions, activations of Conv and Gemm"},
    [SP_RUNTIME_TENSORRT] = {.name = "tensorrt",
                             .joins_chains = true,
                             .joins_functions = true,
                             .joins_attention = true,
                             .epilogue = SP_EPILOGUE_ANY,
                             .source = "docs.nvidia.com/deeplearning/tensorrt, Types of Fusions: pointwise, reduce, "
                                       "GELU, softmax and multi-head attention fusions"},
    [SP_RUNTIME_VLLM] = {.name = "vllm",
                         .joins_chains = true,
                         .joins_functions = true,
                         .joins_attention = true,
                         .source = "docs.vllm.ai, design/torch_compile and attention backends: elementwise chains and "
                                   "normalisations by the compiler, fused attention kernels, products by cuBLAS"},
    [SP_RUNTIME_GENERIC] = {.name = "generic", .source = "each operator is a kernel of its own"},
};

const struct sp_runtime *sp_runtime(enum sp_runtime_id id)
{
    return &runtimes[id];
}

enum sp_runtime_id sp_runtime_find(const char *name)
{
    enum sp_runtime_id id = 0;
    while (id < SP_RUNTIME_COUNT && strcmp(runtimes[id].name, name) != 0)
        id++;
    return id;
}
