#pragma once
/*
 * runtime - what a runtime does to a graph before and while it runs, as far as times and memory depend on it.
 *
 * Costs are those of kernels, and a runtime decides which operators become one kernel, how a kernel is started, in
 * which form constants and caches lie in memory, and what its process takes of a device. The table has the runtimes
 * that people name; `generic` joins nothing, so that each operator is a kernel of its own.
 *
 * Joining is a cost only: nodes keep their names, their devices and their shardings in plans.
 */
#include <stdbool.h>
#include <stdint.h>

enum sp_runtime_id {
    SP_RUNTIME_ONNXRUNTIME = 0, /* the default: annotated models are its format */
    SP_RUNTIME_TENSORRT,
    SP_RUNTIME_VLLM,
    SP_RUNTIME_GENERIC,
    SP_RUNTIME_COUNT
};

/* What joins the kernel of a product of matrices or a convolution. */
enum sp_epilogue {
    SP_EPILOGUE_NONE = 0,
    SP_EPILOGUE_CONSTANTS, /* a bias or a scale; behind a convolution activations, too */
    SP_EPILOGUE_ANY        /* residuals and gates, too */
};

/*
 * How a runtime has the past of a cache and what a step adds to it (ops/table/traffic.h). Apart: the caller gives
 * memory for both, and a kernel copies the one into the other, as ONNX Runtime does with inputs and outputs of a model.
 * In one buffer: what is new is written behind, or into, what is there (vLLM, TensorRT-LLM; ONNX Runtime where its
 * caller binds both to the same memory).
 */
enum sp_cache_binding { SP_CACHES_APART, SP_CACHES_IN_ONE_BUFFER };

struct sp_runtime {
    const char *name;
    bool joins_chains;    /* elementwise operators and normalisations one behind the other are one kernel */
    bool joins_functions; /* those that compute a function of one tensor: a GELU, a normalisation written out */
    bool joins_attention; /* product, softmax, product is one kernel: the scores are never in memory */
    bool joins_products;  /* of one value, by constants of one shape: queries, keys and values; gate and up */
    enum sp_epilogue epilogue;
    bool joins_collectives; /* what joins a product joins a collective behind it, too */
    enum sp_cache_binding caches;
    bool narrows_in_passes;    /* activations of narrow products are quantised by a kernel where no chain of elementwise
                                 operators and normalisations does it (sp_device_narrowing) */
    bool narrows_in_attention; /* attention writes its result narrow */
    bool rounds_products;      /* factors of float32 products are rounded to TF32 where a device has it */
    double kernel_seconds;     /* each kernel on a GPU takes at least this: the host starts one after the other */
    double collective_seconds; /* what the host adds to the start of each collective of a GPU */
    double request_seconds;    /* that a server of it adds to each request before its first token */
    double context_bytes;      /* of a GPU's memory, that the process takes beside the model's tensors */
    const char *library;       /* of collectives, that this runtime has and others lack; NULL: it has none */
    const char *source;        /* where this is documented */
};

/* The table's entry. */
const struct sp_runtime *sp_runtime(enum sp_runtime_id id);

/* Whether it may use a library of collectives: none that is another runtime's own. */
bool sp_runtime_has_library(const struct sp_runtime *runtime, const char *library);

/* The runtime of this name, or SP_RUNTIME_COUNT. */
enum sp_runtime_id sp_runtime_find(const char *name);
