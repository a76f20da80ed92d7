#include "simulate_strategies.h"

#include <stddef.h>

#define SPLIT(what_, axis_, mesh_axis_)                                                                                \
    {                                                                                                                  \
        .what = (what_), .axis = (axis_), .mesh_axis = (mesh_axis_)                                                    \
    }
#define SPLIT_PARTS(what_, axis_, mesh_axis_, parts_)                                                                  \
    {                                                                                                                  \
        .what = (what_), .axis = (axis_), .mesh_axis = (mesh_axis_), .parts = (parts_)                                 \
    }
#define SPLIT_ON(mesh_, what_, axis_, mesh_axis_)                                                                      \
    {                                                                                                                  \
        .what = (what_), .axis = (axis_), .mesh_axis = (mesh_axis_), .mesh = (mesh_)                                   \
    }
#define WHOLE_ON(mesh_, what_)                                                                                         \
    {                                                                                                                  \
        .what = (what_), .axis = -1, .mesh = (mesh_)                                                                   \
    }

#define ONE_OF_2                                                                                                       \
    {                                                                                                                  \
        "<[\"t\"=2]>"                                                                                                  \
    }
#define ONE_OF_4                                                                                                       \
    {                                                                                                                  \
        "<[\"t\"=4]>"                                                                                                  \
    }
#define TWO_BY_TWO                                                                                                     \
    {                                                                                                                  \
        "<[\"d\"=2, \"t\"=2]>"                                                                                         \
    }
/* Layer 0 on devices 0 and 1, layer 1 on 2 and 3. */
#define STAGES                                                                                                         \
    {                                                                                                                  \
        "<[\"t\"=2]>", "<[\"t\"=2]>"                                                                                   \
    }

/* As Megatron-LM splits them: the first product of attention and of the MLP by columns, the second by rows. */
#define LLAMA_WEIGHTS SPLIT("/[qkvgu]/MatMul$", 1, "t"), SPLIT("/[od]/MatMul$", 0, "t")
#define GPT2_WEIGHTS  SPLIT_PARTS("/c/MatMul$", 1, "t", 3), SPLIT("/f/MatMul$", 1, "t"), SPLIT("/[pg]/MatMul$", 0, "t")
#define BERT_WEIGHTS  SPLIT("^/L\\.[0-9]+\\.[0125]/MatMul$", 1, "t"), SPLIT("^/L\\.[0-9]+\\.[36]/MatMul$", 0, "t")
#define MOE_WEIGHTS   SPLIT("/[qkv]/MatMul$", 1, "t"), SPLIT("/o/MatMul$", 0, "t"), SPLIT("/m/Einsum", 0, "t")
#define LLAMA_STAGE(layer, mesh)                                                                                       \
    SPLIT_ON(mesh, "^/b\\." layer "/.*/[qkvgu]/MatMul$", 1, "t"),                                                      \
        SPLIT_ON(mesh, "^/b\\." layer "/.*/[od]/MatMul$", 0, "t")
#define BERT_INPUTS(axis, mesh_axis)                                                                                   \
    SPLIT("@ids", axis, mesh_axis), SPLIT("@tt", axis, mesh_axis), SPLIT("@mask", axis, mesh_axis)

const struct simulate_strategy simulate_strategies[] = {
    /* The library's own plans: whole operators in stages. */
    {.file = "bert_tiny.onnx", .what = "stages", .devices = 2, .limit = "400000"},
    {.file = "bert_tiny.onnx", .what = "stages", .devices = 4, .limit = "300000"},
    {.file = "gpt2_tiny.onnx", .what = "stages", .devices = 2, .limit = "600000"},
    {.file = "gpt2_tiny.onnx", .what = "stages", .devices = 4, .limit = "400000"},
    {.file = "llama_tiny.onnx", .what = "stages", .devices = 2, .limit = "400000"},
    {.file = "llama_tiny.onnx", .what = "stages", .devices = 4, .limit = "250000"},
    {.file = "llama_tiny_dyn.onnx", .what = "stages", .devices = 2, .limit = "400000", .dims = "batch=2,seq=8"},
    {.file = "moe_tiny.onnx", .what = "stages", .devices = 4, .limit = "600000"},
    {.file = "lstm_tiny.onnx", .what = "stages", .devices = 2, .limit = "180000"},
    {.file = "unet_tiny.onnx", .what = "stages", .devices = 2, .limit = "600000"},
    {.file = "unet_tiny.onnx", .what = "stages", .devices = 4, .limit = "490000"},

    /* Tensors in parts. */
    {.file = "bert_tiny.onnx", .what = "tensor", .devices = 2, .meshes = ONE_OF_2, .splits = {BERT_WEIGHTS}},
    {.file = "bert_tiny.onnx", .what = "tensor", .devices = 4, .meshes = ONE_OF_4, .splits = {BERT_WEIGHTS}},
    {.file = "gpt2_tiny.onnx", .what = "tensor", .devices = 2, .meshes = ONE_OF_2, .splits = {GPT2_WEIGHTS}},
    {.file = "gpt2_tiny.onnx", .what = "tensor", .devices = 4, .meshes = ONE_OF_4, .splits = {GPT2_WEIGHTS}},
    {.file = "llama_tiny.onnx", .what = "tensor", .devices = 2, .meshes = ONE_OF_2, .splits = {LLAMA_WEIGHTS}},
    {.file = "llama_tiny.onnx",
     .what = "tensor, more devices than heads of k and v",
     .devices = 4,
     .meshes = ONE_OF_4,
     .splits = {LLAMA_WEIGHTS}},
    {.file = "llama_tiny_dyn.onnx",
     .what = "tensor",
     .devices = 2,
     .meshes = ONE_OF_2,
     .dims = "batch=2,seq=8",
     .splits = {LLAMA_WEIGHTS}},
    {.file = "moe_tiny.onnx", .what = "tensor and experts", .devices = 2, .meshes = ONE_OF_2, .splits = {MOE_WEIGHTS}},
    {.file = "llama_tiny.onnx",
     .what = "tensor, devices in another order",
     .devices = 2,
     .meshes = {"<[\"t\"=2], device_ids=[1,0]>"},
     .splits = {LLAMA_WEIGHTS}},
    {.file = "gpt2_tiny.onnx",
     .what = "tensor, devices in another order",
     .devices = 4,
     .meshes = {"<[\"t\"=4], device_ids=[2,0,3,1]>"},
     .splits = {GPT2_WEIGHTS}},
    {.file = "gpt2_tiny.onnx",
     .what = "tensor and vocabulary",
     .devices = 4,
     .meshes = ONE_OF_4,
     .splits = {GPT2_WEIGHTS, SPLIT("^/w/Gather$", 0, "t"), SPLIT("^/MatMul$", 1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "vocabulary of embedding and head",
     .devices = 2,
     .meshes = ONE_OF_2,
     .splits = {SPLIT("^/e/Gather$", 0, "t"), SPLIT("^/l/MatMul$", 1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "vocabulary of embedding and head",
     .devices = 4,
     .meshes = ONE_OF_4,
     .splits = {SPLIT("^/e/Gather$", 0, "t"), SPLIT("^/l/MatMul$", 1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "hidden size",
     .devices = 4,
     .meshes = ONE_OF_4,
     .splits = {SPLIT("^/e/Gather$", 1, "t")}},
    {.file = "gpt2_tiny.onnx",
     .what = "hidden size",
     .devices = 2,
     .meshes = ONE_OF_2,
     .splits = {SPLIT("^/w/Gather$", 1, "t")}},

    /* Inputs in parts. */
    {.file = "bert_tiny.onnx", .what = "batch", .devices = 2, .meshes = ONE_OF_2, .splits = {BERT_INPUTS(0, "t")}},
    {.file = "gpt2_tiny.onnx", .what = "batch", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@ids", 0, "t")}},
    {.file = "llama_tiny.onnx", .what = "batch", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@ids", 0, "t")}},
    {.file = "llama_tiny_dyn.onnx",
     .what = "batch",
     .devices = 4,
     .meshes = ONE_OF_4,
     .dims = "batch=4,seq=8",
     .splits = {SPLIT("@ids", 0, "t")}},
    {.file = "moe_tiny.onnx", .what = "batch", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@ids", 0, "t")}},
    {.file = "lstm_tiny.onnx", .what = "batch", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@ids", 0, "t")}},
    {.file = "unet_tiny.onnx", .what = "batch", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@x", 0, "t")}},
    {.file = "bert_tiny.onnx", .what = "sequence", .devices = 2, .meshes = ONE_OF_2, .splits = {BERT_INPUTS(1, "t")}},
    {.file = "gpt2_tiny.onnx", .what = "sequence", .devices = 4, .meshes = ONE_OF_4, .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "sequence",
     .devices = 2,
     .meshes = ONE_OF_2,
     .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "sequence",
     .devices = 4,
     .meshes = ONE_OF_4,
     .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "llama_tiny_dyn.onnx",
     .what = "sequence",
     .devices = 4,
     .meshes = ONE_OF_4,
     .dims = "batch=2,seq=8",
     .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "moe_tiny.onnx", .what = "sequence", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "lstm_tiny.onnx", .what = "sequence", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "sequence in uneven parts",
     .devices = 3,
     .meshes = {"<[\"t\"=3]>"},
     .is_forward = true,
     .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "gpt2_tiny.onnx",
     .what = "sequence in uneven parts",
     .devices = 3,
     .meshes = {"<[\"t\"=3]>"},
     .is_forward = true,
     .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "lstm_tiny.onnx",
     .what = "sequence in uneven parts",
     .devices = 3,
     .meshes = {"<[\"t\"=3]>"},
     .is_forward = true,
     .splits = {SPLIT("@ids", 1, "t")}},
    {.file = "bert_tiny.onnx",
     .what = "sequence in uneven parts",
     .devices = 3,
     .meshes = {"<[\"t\"=3]>"},
     .is_forward = true,
     .splits = {BERT_INPUTS(1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "vocabulary in uneven parts",
     .devices = 3,
     .meshes = {"<[\"t\"=3]>"},
     .is_forward = true,
     .splits = {SPLIT("^/e/Gather$", 0, "t"), SPLIT("^/l/MatMul$", 1, "t")}},
    {.file = "unet_tiny.onnx",
     .what = "height in uneven parts",
     .devices = 3,
     .meshes = {"<[\"t\"=3]>"},
     .is_forward = true,
     .splits = {SPLIT("@x", 2, "t")}},
    {.file = "unet_tiny.onnx", .what = "height", .devices = 2, .meshes = ONE_OF_2, .splits = {SPLIT("@x", 2, "t")}},
    {.file = "unet_tiny.onnx", .what = "width", .devices = 4, .meshes = ONE_OF_4, .splits = {SPLIT("@x", 3, "t")}},
    {.file = "unet_tiny.onnx",
     .what = "height and width",
     .devices = 4,
     .meshes = TWO_BY_TWO,
     .splits = {SPLIT("@x", 2, "d"), SPLIT("@x", 3, "t")}},
    {.file = "unet_tiny.onnx",
     .what = "channels",
     .devices = 4,
     .meshes = ONE_OF_4,
     .splits = {SPLIT("/c2?/Conv$", 0, "t")}},
    {.file = "lstm_tiny.onnx",
     .what = "directions",
     .devices = 2,
     .meshes = ONE_OF_2,
     .splits = {SPLIT("/LSTM", 0, "t")}},

    /* Experts. */
    {.file = "moe_tiny.onnx",
     .what = "experts",
     .devices = 2,
     .meshes = ONE_OF_2,
     .splits = {SPLIT("/m/Einsum", 0, "t")}},
    {.file = "moe_tiny.onnx",
     .what = "experts",
     .devices = 4,
     .meshes = ONE_OF_4,
     .splits = {SPLIT("/m/Einsum", 0, "t")}},

    /* Several at once. */
    {.file = "llama_tiny.onnx",
     .what = "batch by tensor",
     .devices = 4,
     .meshes = TWO_BY_TWO,
     .splits = {SPLIT("@ids", 0, "d"), LLAMA_WEIGHTS}},
    {.file = "bert_tiny.onnx",
     .what = "batch by tensor, devices in another order",
     .devices = 4,
     .meshes = {"<[\"d\"=2, \"t\"=2], device_ids=[3,1,0,2]>"},
     .splits = {BERT_INPUTS(0, "d"), BERT_WEIGHTS}},
    {.file = "gpt2_tiny.onnx",
     .what = "sequence by tensor and vocabulary",
     .devices = 4,
     .meshes = TWO_BY_TWO,
     .splits = {SPLIT("@ids", 1, "d"), GPT2_WEIGHTS, SPLIT("^/w/Gather$", 0, "t"), SPLIT("^/MatMul$", 1, "t")}},
    {.file = "moe_tiny.onnx",
     .what = "batch by experts",
     .devices = 4,
     .meshes = TWO_BY_TWO,
     .splits = {SPLIT("@ids", 0, "d"), MOE_WEIGHTS}},
    {.file = "moe_tiny.onnx",
     .what = "experts by their columns",
     .devices = 4,
     .meshes = TWO_BY_TWO,
     .splits = {SPLIT("/m/Einsum", 0, "d"), SPLIT("/m/Einsum(_1)?$", 2, "t"), SPLIT("/m/Einsum_2$", 1, "t")}},
    {.file = "llama_tiny.onnx",
     .what = "stages by tensor",
     .devices = 4,
     .meshes = STAGES,
     .splits = {WHOLE_ON(0, "^/e/Gather$"), LLAMA_STAGE("0", 0), LLAMA_STAGE("1", 1), WHOLE_ON(1, "^/l/MatMul$")}},
    {.file = "moe_tiny.onnx",
     .what = "stages by tensor and experts",
     .devices = 4,
     .meshes = STAGES,
     .splits = {WHOLE_ON(0, "^/e/Gather$"), LLAMA_STAGE("0", 0), LLAMA_STAGE("1", 1),
                SPLIT_ON(0, "^/b\\.0/m/Einsum", 0, "t"), SPLIT_ON(1, "^/b\\.1/m/Einsum", 0, "t"),
                SPLIT_ON(1, "^/l/MatMul$", 1, "t")}},
    {.file = NULL},
};
