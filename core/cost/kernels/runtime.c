#include "cost/kernels/runtime.h"

#include <string.h>

/*
 * kernel_seconds: NVIDIA, "Getting Started with CUDA Graphs", https://developer.nvidia.com/blog/cuda-graphs: kernels of
 * 2.9 us that are launched one behind the other on a stream take 3.8 us each, in a graph 3.4 us.
 * collective_seconds: 39 us to start a collective with nccl-tests on DGX A100 without graphs, 8 us in a graph; both from
 * https://github.com/ai-dynamo/aiconfigurator, tables of the same machine.
 * rounds_products: ONNX Runtime's CUDA provider has use_tf32 on by default, for products and convolutions
 * (onnxruntime/core/providers/cuda/cuda_execution_provider_info.h), TensorRT BuilderFlag::kTF32 (NvInfer.h: "Enabled by
 * default"). PyTorch, and so vLLM, has it off for products and on for convolutions, of which its models have few
 * (pytorch.org/docs/stable/notes/cuda.html, TensorFloat-32).
 * context_bytes: 0.72 GB measured on an H100 with the libraries for products, convolutions and attention loaded, and no
 * allocator.
 * request_seconds: what HTTP, tokenizing, scheduling and the first answer of the stream take. Nobody states it; fitted to
 * half of the published times to first token of Llama 3.1 70B at up to 16 sequences in flight (aiconfigurator,
 * silicon_sample.csv), of vLLM and TensorRT-LLM alike.
 * What serving runtimes take for communication, graphs and workspaces on each device is stated by none of them: 4 GB
 * are an assumption. (vLLM's gpu_memory_utilization, 0.9 by default, is a limit that its users raise:
 * https://docs.vllm.ai/en/latest/configuration/engine_args.html.)
 */
#define REQUEST_SECONDS          0.04
#define LAUNCH_SECONDS           3.8e-6
#define EAGER_COLLECTIVE_SECONDS 30e-6
#define CONTEXT_BYTES            0.72e9
#define SERVING_CONTEXT_BYTES    4e9

static const struct sp_runtime runtimes[SP_RUNTIME_COUNT] = {
    [SP_RUNTIME_ONNXRUNTIME] = {.name = "onnxruntime",
                                .joins_functions = true,
                                .epilogue = SP_EPILOGUE_CONSTANTS,
                                .caches = SP_CACHES_APART,
                                .rounds_products = true,
                                .kernel_seconds = LAUNCH_SECONDS,
                                .collective_seconds = EAGER_COLLECTIVE_SECONDS,
                                .context_bytes = CONTEXT_BYTES,
                                .source =
                                    "onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html: "
                                    "LayerNormalization, GELU and bias fusions, activations of Conv and Gemm; "
                                    "the caller gives inputs and outputs memory, graphs are captured on demand only"},
    [SP_RUNTIME_TENSORRT] = {.name = "tensorrt",
                             .joins_chains = true,
                             .joins_functions = true,
                             .joins_attention = true,
                             .joins_products = true,
                             .epilogue = SP_EPILOGUE_ANY,
                             .joins_collectives = true,
                             .caches = SP_CACHES_IN_ONE_BUFFER,
                             .narrows_in_passes = true,
                             .narrows_in_attention = true,
                             .rounds_products = true,
                             .request_seconds = REQUEST_SECONDS,
                             .context_bytes = SERVING_CONTEXT_BYTES,
                             .library = "tensorrt_llm",
                             .source = "docs.nvidia.com/deeplearning/tensorrt, Types of Fusions: pointwise, reduce, "
                                       "GELU, softmax and multi-head attention fusions, products of one input; "
                                       "TensorRT-LLM's paged cache and all-reduce kernels, and its attention's "
                                       "attention_output_orig_quant_scale with FP8 context FMHA"},
    [SP_RUNTIME_VLLM] = {.name = "vllm",
                         .joins_chains = true,
                         .joins_functions = true,
                         .joins_attention = true,
                         .joins_products = true,
                         .caches = SP_CACHES_IN_ONE_BUFFER,
                         .narrows_in_passes = true,
                         .request_seconds = REQUEST_SECONDS,
                         .context_bytes = SERVING_CONTEXT_BYTES,
                         .library = "vllm",
                         .source =
                             "docs.vllm.ai, design/torch_compile, cuda_graphs and attention backends: elementwise "
                             "chains and normalisations by the compiler, fused attention kernels, paged caches, "
                             "QKVParallelLinear and MergedColumnParallelLinear, its own all-reduce; design/fusions: "
                             "quantisation joins RMSNorm and SiLU by default, attention's output not"},
    [SP_RUNTIME_GENERIC] = {.name = "generic",
                            .caches = SP_CACHES_APART,
                            .context_bytes = CONTEXT_BYTES,
                            .source = "each operator is a kernel of its own, and nothing else is known"},
};

const struct sp_runtime *sp_runtime(enum sp_runtime_id id)
{
    return &runtimes[id];
}

bool sp_runtime_has_library(const struct sp_runtime *runtime, const char *library)
{
    for (int id = 0; id < SP_RUNTIME_COUNT; id++)
        if (&runtimes[id] != runtime && runtimes[id].library != NULL && strcmp(runtimes[id].library, library) == 0)
            return false;
    return true;
}

enum sp_runtime_id sp_runtime_find(const char *name)
{
    enum sp_runtime_id id = 0;
    while (id < SP_RUNTIME_COUNT && strcmp(runtimes[id].name, name) != 0)
        id++;
    return id;
}
