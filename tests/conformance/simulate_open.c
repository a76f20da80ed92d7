/*
 * Operators whose operands have extents that are not known before the run: batches and lengths, beside axes that can be
 * cut. Inputs and attributes follow ONNX's docs/Operators.md; what comes out is what the runtime computes for the
 * whole.
 */
#include "simulate_own.h"

const struct simulate_own simulate_open_cases[] = {
    /* Shapes. */
    {"Shape", 18, "float32[n3,6,4]", "", "o"},
    {"Shape", 18, "float32[8,n3,4,6]", "start=1 end=-1", "o"},
    {"Shape", 13, "float32[6,n3]", "", "o"},
    {"Size", 18, "float32[n3,6,4]", "", "o"},
    {"Reshape", 13, "float32[n3,s5,8] int64=-1,2,4", "", "o"},
    {"Reshape", 14, "float32[n3,s5,8] int64=0,0,4,2", "", "o"},
    {"Reshape", 14, "float32[n3,6,8] int64=0,-1", "", "o"},
    {"Flatten", 13, "float32[n3,6,8]", "", "o"},
    {"Squeeze", 13, "float32[n3,1,6] int64=1", "", "o"},
    {"Unsqueeze", 13, "float32[n3,6] int64=1", "", "o"},
    {"Expand", 13, "float32[n3,1,4] int64=1,6,4", "", "o"},
    {"Tile", 13, "float32[n3,4] int64=2,3", "", "o"},
    {"EyeLike", 22, "float32[n3,6]", "k=1", "o"},
    {"EyeLike", 22, "float32[6,n3]", "k=-1", "o"},
    {"Trilu", 14, "float32[n3,6,6]", "", "o"},
    {"Trilu", 14, "float32[n5,6] int64:=1", "upper=0", "o"},

    /* Blocks and borders. */
    {"Concat", 13, "float32[n3,4] float32[n3,4]", "axis=1", "o"},
    {"Split", 13, "float32[n3,6] int64=3,3", "axis=1", "o o"},
    {"Split", 18, "float32[n3,6]", "axis=1 num_outputs=2", "o o"},
    {"Transpose", 13, "float32[n3,6,4]", "perm=[1,2,0]", "o"},
    {"DepthToSpace", 13, "float32[n3,8,4,6]", "blocksize=2", "o"},
    {"DepthToSpace", 13, "float32[2,8,h3,6]", "blocksize=2 mode='CRD'", "o"},
    {"SpaceToDepth", 13, "float32[n3,8,4,6]", "blocksize=2", "o"},
    {"Slice", 13, "float32[n5,10] int64=1,2 int64=1000000,9 int64=0,1", "", "o"},
    {"Slice", 13, "float32[n5,10] int64=-1,8 int64=-9000000000000000000,0 int64=0,1 int64=-1,-2", "", "o"},
    {"Slice", 9, "float32[n5,10]", "starts=[1,4] ends=[4,10]", "o"},
    {"Pad", 18, "float32[n5,6] int64=1,3,2,1", "", "o"},
    {"Pad", 18, "float32[n5,6] int64=1,3,2,1 float32:=7", "mode='constant'", "o"},
    {"Pad", 18, "float32[n5,6] int64=1,3,2,1", "mode='reflect'", "o"},
    {"Pad", 19, "float32[n5,6] int64=3,2 - int64=1", "mode='wrap'", "o"},
    {"CenterCropPad", 18, "float32[n5,6] int64=3,9", "", "o"},
    {"ReverseSequence", 10, "float32[t5,4,6] int64[4]+1", "", "o"},

    /* Indices. */
    {"Gather", 13, "float32[10,n3] int64[m4,2]<10", "", "o"},
    {"Gather", 13, "float32[n3,10,4] int32[6]<10", "axis=1", "o"},
    {"GatherElements", 13, "float32[n3,8] int64[n3,4]<8", "axis=1", "o"},
    {"GatherND", 13, "float32[4,10,n3] int64[m4,2]<4", "", "o"},
    {"ScatterElements", 18, "float32[n3,8] int64[n3,4]<8 float32[n3,4]", "axis=1 reduction='add'", "o"},
    {"ScatterElements", 18, "float32[n3,8] int64[n3,4]+1 float32[n3,4]", "axis=0 reduction='max'", "o"},
    {"ScatterND", 18, "float32[8,n3] int64[6,1]<8 float32[6,n3]", "reduction='add'", "o"},
    {"OneHot", 11, "int64[n3,4]<6 int64:=6 float32=0,1", "", "o"},
    {"Compress", 11, "float32[n3,6] bool[n3]", "axis=0", "o"},
    {"TopK", 11, "float32[n3,8] int64=3", "", "o o"},

    /* Contractions and what is around them in a transformer. */
    {"MatMul", 13, "float32[n3,s5,8] float32[8,6]", "", "o"},
    {"MatMul", 13, "float32[n3,4,s5,8] float32[n3,4,8,s5]", "", "o"},
    {"Gemm", 13, "float32[m5,8] float32[6,8] float32[6]", "transB=1", "o"},
    {"Einsum", 12, "float32[n3,s5,8] float32[8,6]", "equation='nsk,kd->nsd'", "o"},
    {"Add", 13, "float32[n3,s5,8] float32[8]", "", "o"},
    {"Where", 16, "bool[n3,1,1] float32[n3,6,s5] float32[1]", "", "o"},
    {"Softmax", 13, "float32[n3,4,6]", "", "o"},
    {"Softmax", 13, "float32[4,n3]", "", "o"},
    {"LayerNormalization", 17, "float32[n3,s5,8] float32[8] float32[8]", "", "o"},
    {"RMSNormalization", 23, "float32[n3,s5,8] float32[8]", "", "o"},
    {"BatchNormalization", 15, "float32[n3,6,h4,5] float32[6] float32[6] float32[6] float32[6]>0", "", "o"},
    {"ReduceMean", 18, "float32[n3,s5,8] int64=-1", "", "o"},
    {"ReduceSum", 13, "float32[n3,s5,8] int64=0,2", "keepdims=0", "o"},
    {"ReduceMax", 18, "float32[8,n3] int64=0", "", "o"},
    {"ArgMax", 13, "float32[n3,8]", "axis=1", "o"},
    {"CumSum", 14, "float32[n3,6] int64:=0", "", "o"},

    /* Windows. */
    {"Conv", 11, "float32[n3,4,8,w7] float32[6,4,3,3]", "pads=[1,1,1,1]", "o"},
    {"Conv", 11, "float32[n3,6,9] float32[6,1,3]", "group=6 strides=[2]", "o"},
    {"MaxPool", 12, "float32[n3,4,8,w7]", "kernel_shape=[2,2] strides=[2,1]", "o"},
    {"AveragePool", 11, "float32[n3,4,8,w7]", "kernel_shape=[3,3] pads=[1,1,1,1]", "o"},
    {"GlobalAveragePool", 22, "float32[n3,4,8,w7]", "", "o"},
    {NULL, 0, NULL, NULL, NULL},
};
