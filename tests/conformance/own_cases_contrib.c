/*
 * Operators of com.microsoft but those of language models. Shapes follow ONNX Runtime's docs/ContribOperators.md;
 * the collectives and Distributed* operators are of builds with NCCL, where docs have no section, and follow their
 * schemas: a device's own operands for the collectives, the whole tensors for Distributed*.
 */
#include "own_cases.h"

/* Two devices; the operands' specs. */
#define SPLIT(inputs, meshes, shapes, output)                                                                          \
    " input_shard_specs=[" inputs "] input_device_mesh_elements=[" meshes "] input_device_mesh_shapes=[" shapes "]"    \
    " output_shard_specs=['" output "'] output_device_mesh_elements=['[0,1]'] output_device_mesh_shapes=['[2]']"

const struct own_case own_cases_contrib[] = {
    /* Activations; the bias runs along the last axis. */
    {"com.microsoft.Gelu", 1, "float32[2,n]", "", "float32[2,n]", NULL},
    {"com.microsoft.QuickGelu", 1, "float16[2,3]", "alpha=1.7", "float16[2,3]", NULL},
    {"com.microsoft.FastGelu", 1, "float32[2,3,4] float32[4]", "", "float32[2,3,4]", "[d0,d1,d2] [d2] -> [d0,d1,d2]"},
    {"com.microsoft.FastGelu", 1, "float32[2,3,4]", "", "float32[2,3,4]", NULL},
    {"com.microsoft.BiasGelu", 1, "float32[2,3,4] float32[4]", "", "float32[2,3,4]", "[d0,d1,d2] [d2] -> [d0,d1,d2]"},
    {"com.microsoft.BiasAdd", 1, "float16[2,64,320] float16[320] float16[2,64,320]", "", "float16[2,64,320]",
     "[d0,d1,d2] [d2] [d0,d1,d2] -> [d0,d1,d2]"},
    {"com.microsoft.BiasSplitGelu", 1, "float16[2,64,2560] float16[2560]", "", "float16[2,64,1280]",
     "[d0,d1,two*d2] [two*d2] -> [d0,d1,d2]  two: replicate"},

    /* Normalisations over the last axis (SimplifiedLayerNormalization from `axis` on). */
    {"SimplifiedLayerNormalization", 1, "float32[2,3,8] float32[8]", "", "float32[2,3,8] float32[2,3,1]",
     "[d0,d1,d2] [d2] -> [d0,d1,d2] [d0,d1,_]  d2: moments reduction"},
    {"com.microsoft.SimplifiedLayerNormalization", 1, "float16[2,3,8] float16[8]", "axis=1", "float16[2,3,8]",
     "[d0,d1,d2] [d2] -> [d0,d1,d2]  d1: moments reduction; d2: moments reduction"},
    {"com.microsoft.SkipLayerNormalization", 1, "float16[2,3,8] float16[2,3,8] float16[8] float16[8] float16[8]", "",
     "float16[2,3,8] - - float16[2,3,8]",
     "[d0,d1,d2] [d0,d1,d2] [d2] [d2] [d2] -> [d0,d1,d2] [] [] [d0,d1,d2]  d2: moments reduction"},
    {"com.microsoft.SkipLayerNormalization", 1, "float32[2,3,8] float32[3,8] float32[8]", "",
     "float32[2,3,8] float32[2,3,1] float32[2,3,1]",
     "[d0,d1,d2] [d1,d2] [d2] -> [d0,d1,d2] [d0,d1,_] [d0,d1,_]  d2: moments reduction"},
    {"com.microsoft.SkipSimplifiedLayerNormalization", 1, "float16[2,3,8] float16[2,3,8] float16[8]", "",
     "float16[2,3,8] - - float16[2,3,8]",
     "[d0,d1,d2] [d0,d1,d2] [d2] -> [d0,d1,d2] [] [] [d0,d1,d2]  d2: moments reduction"},
    {"com.microsoft.EmbedLayerNormalization", 1,
     "int32[2,4] int32[2,4] float32[100,8] float32[16,8] float32[2,8] float32[8] float32[8] int32[2,4]", "",
     "float32[2,4,8] int32[2] float32[2,4,8]",
     "[b,s] [b,s] [v,h] [p,h] [u,h] [h] [h] [b,s] -> [b,s,h] [b] [b,s,h]  s: replicate; h: moments reduction; v: "
     "replicate; p: replicate; u: replicate"},
    {"com.microsoft.EmbedLayerNormalization", 1, "int32[2,4] - float32[100,8] float32[16,8] - float32[8] float32[8]",
     "", "float32[2,4,8] int32[2]",
     "[b,s] [] [v,h] [p,h] [] [h] [h] -> [b,s,h] [b]  s: replicate; h: moments reduction; v: replicate; p: replicate"},

    /* Products of matrices; transBatch takes the batch axes from behind the first matrix axis. */
    {"com.microsoft.FusedMatMul", 1, "float32[2,4,3] float32[2,5,4]", "transA=1 transB=1 alpha=0.5", "float32[2,3,5]",
     "[b0,k,m] [b0,n,k] -> [b0,m,n]  k: sum reduction"},
    {"com.microsoft.FusedMatMul", 1, "float32[3,2,4] float32[2,4,5]", "transBatchA=1", "float32[2,3,5]",
     "[m,b0,k] [b0,k,n] -> [b0,m,n]  k: sum reduction"},
    {"com.microsoft.TransposeMatMul", 1, "float32[3,4] float32[5,4]", "transB=1", "float32[3,5]",
     "[m,k] [n,k] -> [m,n]  k: sum reduction"},

    /* Collectives: shapes of one device. */
    {"com.microsoft.AllReduce", 1, "float32[4,n]", "", "float32[4,n]", "[d0,d1] -> [d0,d1]"},
    {"com.microsoft.AllGather", 1, "float32[4,6]", "axis=1 group_size=2", "float32[4,12]",
     "[d0,d1] -> [d0,group*d1]  group: replicate; d1: replicate"},
    {"com.microsoft.AllGather", 1, "float32[4,6]", "axis=0 group_size=4", "float32[16,6]",
     "[d0,d1] -> [group*d0,d1]  group: replicate; d0: replicate"},
    {"com.microsoft.AllToAll", 1, "float32[4,6]", "group_size=2", "float32[4,6]", "[a,d1] -> [a,d1]  a: replicate"},

    /* Distributed*: as the operator of ai.onnx. */
    {"com.microsoft.DistributedMatMul", 1, "float32[4,6] float32[6,8]",
     SPLIT("'RS[0]','S[0]R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "RR"), "float32[4,8]",
     "[m,k] [k,n] -> [m,n]  k: sum reduction"},
    {"com.microsoft.DistributedSlice", 1, "float32[4,6] int64=1 int64=3 int64=1",
     SPLIT("'S[0]R','R','R','R'", "'[0,1]','[0,1]','[0,1]','[0,1]'", "'[2]','[2]','[2]','[2]'", "S[0]R"),
     "float32[4,2]", "[d0,d1] [_] [_] [_] -> [d0,d1]  d1: permutation, resized"},
    {"com.microsoft.DistributedReshape", 1, "float32[4,6] int64=24",
     SPLIT("'S[0]R','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "S[0]"), "float32[24]", "[r0,r1] [_] -> [r0*r1]"},
    {"com.microsoft.DistributedReshape", 1, "float32[2,3] int64=3,2",
     SPLIT("'RR','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "RR"), "float32[3,2]",
     "[r0,r1] [_] -> [r2,r3]  r0: replicate; r1: replicate; r2: replicate; r3: replicate"},
    {"com.microsoft.DistributedExpand", 1, "float32[4,1] int64=4,6",
     SPLIT("'S[0]R','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "S[0]R"), "float32[4,6]", "[d0,_] [_] -> [d0,d1]"},
    {"com.microsoft.DistributedReduceSum", 1, "float32[4,6] int64=1",
     SPLIT("'S[0]R','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "S[0]R"), "float32[4,1]",
     "[d0,d1] [_] -> [d0,_]  d1: sum reduction"},
    {"com.microsoft.DistributedReduceMax", 1, "float32[4,6] int64=0",
     "keepdims=0" SPLIT("'RS[0]','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "S[0]"), "float32[6]",
     "[d0,d1] [_] -> [d1]  d0: max reduction"},
    {"com.microsoft.DistributedReduceMean", 1, "float32[4,6] int64=1",
     SPLIT("'S[0]R','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "S[0]R"), "float32[4,1]",
     "[d0,d1] [_] -> [d0,_]  d1: sum reduction"},
    {"com.microsoft.DistributedUnsqueeze", 1, "float32[4,6] int64=1",
     SPLIT("'S[0]R','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "S[0]RR"), "float32[4,1,6]", "[r0,r1] [_] -> [r0,_,r1]"},
    {"com.microsoft.DistributedSqueeze", 1, "float32[4,1,6] int64=1",
     SPLIT("'S[0]RR','R'", "'[0,1]','[0,1]'", "'[2]','[2]'", "S[0]R"), "float32[4,6]", "[r0,_,r1] [_] -> [r0,r1]"},
    {.op = NULL},
};
