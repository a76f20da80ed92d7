/*
 * Operators of ai.onnx and ai.onnx.preview.training that no published case has. Shapes and factors follow the section
 * of each operator in ONNX's docs/Operators.md (docs/Changelog.md for older versions).
 */
#include "own_cases.h"

const struct own_case own_cases_tensors[] = {
    /* Elementwise: the output has the shape and the element type of the input. */
    {"Acos", 22, "float32[2,n]", "", "float32[2,n]", NULL},
    {"Cosh", 22, "float32[2,3]", "", "float32[2,3]", NULL},
    {"Celu", 12, "float32[2,3]", "alpha=2.0", "float32[2,3]", NULL},
    {"Celu", 28, "float16[2,3]", "", "float16[2,3]", NULL},
    {"HardSwish", 14, "double[2,3]", "", "float64[2,3]", NULL},
    {"Mish", 18, "float32[2,3]", "", "float32[2,3]", NULL},
    {"SwiGLU", 28, "float32[2,3] float32[2,3]", "", "float32[2,3]", "[d0,d1] [d0,d1] -> [d0,d1]"},

    /* Windows: `size` is a scalar and the result has so many elements of `output_datatype`, float by default. */
    {"BlackmanWindow", 17, "int64:=10", "", "float32[10]", "[] -> [d0]"},
    {"BlackmanWindow", 17, "int64[]", "output_datatype=11", "float64[o0:0]", "[] -> [d0]"},

    /* Global pools: spatial axes become 1. */
    {"GlobalLpPool", 1, "float32[1,3,5,7]", "p=2.0", "float32[1,3,1,1]",
     "[n,c,h,w] -> [n,c,_,_]  h: sum reduction; w: sum reduction"},
    {"GlobalLpPool", 22, "float32[n,3,5]", "p=1", "float32[n,3,1]", "[n,c,w] -> [n,c,_]  w: sum reduction"},

    /* MaxRoiPool: [rois, C, pooled height, pooled width]; each roi names its picture, so X is whole but for C. */
    {"MaxRoiPool", 1, "float32[2,3,8,8] float32[5,5]", "pooled_shape=[2,4]", "float32[5,3,2,4]",
     "[b,c,y,x] [n,r] -> [n,c,h,w]  b: replicate; y: replicate; x: replicate; r: replicate"},

    /* MaxUnpool: (in - 1) * stride + kernel - pads; the indices are flat over the whole tensor. */
    {"MaxUnpool", 9, "float32[1,1,2,2] int64[1,1,2,2]", "kernel_shape=[2,2] strides=[2,2]", "float32[1,1,4,4]",
     "[i0,i1,i2,i3] [i0,i1,i2,i3]@o0*o1*o2*o3 -> [o0,o1,o2,o3]  i0: sum reduction; i1: sum reduction; i2: sum "
     "reduction; i3: sum reduction"},
    {"MaxUnpool", 11, "float32[1,1,2,2] int64[1,1,2,2] int64=1,1,5,5", "kernel_shape=[2,2] strides=[2,2]",
     "float32[1,1,5,5]",
     "[i0,i1,i2,i3] [i0,i1,i2,i3]@o0*o1*o2*o3 [_] -> [o0,o1,o2,o3]  i0: sum reduction; i1: sum reduction; i2: sum "
     "reduction; i3: sum reduction"},
    {"MaxUnpool", 22, "float32[2,3,4] int64[2,3,4]", "kernel_shape=[3] pads=[1,1]", "float32[2,3,4]",
     "[i0,i1,i2] [i0,i1,i2]@o0*o1*o2 -> [o0,o1,o2]  i0: sum reduction; i1: sum reduction; i2: sum reduction"},

    /* MeanVarianceNormalization: over `axes`, [0, 2, 3] by default. */
    {"MeanVarianceNormalization", 9, "float32[2,3,4,5]", "", "float32[2,3,4,5]",
     "[d0,d1,d2,d3] -> [d0,d1,d2,d3]  d0: moments reduction; d2: moments reduction; d3: moments reduction"},
    {"MeanVarianceNormalization", 13, "float32[2,3,4]", "axes=[-1]", "float32[2,3,4]",
     "[d0,d1,d2] -> [d0,d1,d2]  d2: moments reduction"},

    /* Random tensors: `shape` or the input's, of `dtype`. */
    {"Multinomial", 7, "float32[2,10]", "sample_size=5", "int32[2,5]", "[b,c] -> [b,s]  c: replicate"},
    {"Multinomial", 22, "float32[n,10]", "dtype=7", "int64[n,1]", "[b,c] -> [b,s]  c: replicate"},
    {"RandomNormal", 1, "", "shape=[2,3]", "float32[2,3]", NULL},
    {"RandomNormal", 22, "", "shape=[4] dtype=10", "float16[4]", NULL},
    {"RandomNormalLike", 1, "float32[2,n]", "", "float32[2,n]", "[d0,d1] -> [d0,d1]"},
    {"RandomNormalLike", 22, "int32[2,n]", "dtype=1", "float32[2,n]", "[d0,d1] -> [d0,d1]"},
    {"RandomUniform", 1, "", "shape=[2,3] dtype=11", "float64[2,3]", NULL},

    /* QLinearConv: as Conv, of the type of y_zero_point. */
    {"QLinearConv", 10, "uint8[1,4,7,7] float32[] uint8[] int8[6,4,3,3] float32[6] int8[6] float32[] uint8[] int32[6]",
     "", "uint8[1,6,5,5]",
     "[n,c,h,w] [] [] [m,c,kh,kw] [m] [m] [] [] [m] -> [n,m,h,w]  c: sum reduction; h: halo 0+2; kh: replicate; "
     "w: halo 0+2; kw: replicate"},
    {"QLinearConv", 10, "uint8[1,4,7,7] float32[] uint8[] int8[8,2,1,1] float32[] int8[] float32[] int8[]",
     "group=2 strides=[2,2]", "int8[1,8,4,4]",
     "[n,g*c,h,w] [] [] [g*m,c,_,_] [] [] [] [] -> [n,g*m,h,w]  c: sum reduction; h: halo 0+0; w: halo 0+0"},

    /* RNN: X [s, b, i], W [d, h, i], R [d, h, h]; Y [s, d, b, h], Y_h [d, b, h]; with layout 1 the batch is first. */
    {"RNN", 7, "float32[4,2,3] float32[1,5,3] float32[1,5,5]", "hidden_size=5", "float32[4,1,2,5] float32[1,2,5]",
     "[t,b,i] [d,gate*h,i] [d,gate*h,k] -> [t,d,b,h] [d,b,h]  t: sequential; i: sum reduction; gate: replicate; h: "
     "replicate; k: "
     "replicate"},
    {"RNN", 14, "float32[2,4,3] float32[2,5,3] float32[2,5,5] float32[2,10] - float32[2,2,5]",
     "hidden_size=5 layout=1 direction='bidirectional'", "float32[2,4,2,5] float32[2,2,5]",
     "[b,t,i] [d,gate*h,i] [d,gate*h,k] [d,wr*gate*h] [] [b,d,h] -> [b,t,d,h] [b,d,h]  t: sequential; i: sum "
     "reduction; gate: "
     "replicate; h: replicate; k: replicate; wr: replicate"},
    {"RNN", 22, "float32[4,2,3] float32[1,5,3] float32[1,5,5]", "hidden_size=5 direction='reverse'", "- float32[1,2,5]",
     "[t,b,i] [d,gate*h,i] [d,gate*h,k] -> [] [d,b,h]  t: sequential; i: sum reduction; gate: replicate; h: replicate; "
     "k: "
     "replicate"},

    /* ReverseSequence: time is reversed in each sequence of the batch. */
    {"ReverseSequence", 10, "float32[4,3,2] int64[3]", "", "float32[4,3,2]",
     "[t0,d1,d2] [d1] -> [t0,d1,d2]  t0: replicate"},
    {"ReverseSequence", 10, "float32[3,4] int64[3]", "time_axis=1 batch_axis=0", "float32[3,4]",
     "[d0,t1] [d0] -> [d0,t1]  t1: replicate"},

    /* SpaceToDepth: [N, C*bs*bs, H/bs, W/bs], the channel innermost. */
    {"SpaceToDepth", 1, "float32[1,2,4,6]", "blocksize=2", "float32[1,8,2,3]", "[n,c,h*b1,w*b2] -> [n,b1*b2*c,h,w]"},
    {"SpaceToDepth", 13, "float32[n,2,4,6]", "blocksize=2", "float32[n,8,2,3]", "[n,c,h*b1,w*b2] -> [n,b1*b2*c,h,w]"},
    {"SpaceToDepth", 28, "float32[1,2,4,6]", "blocksize=2 mode='CRD'", "float32[1,8,2,3]",
     "[n,c,h*b1,w*b2] -> [n,c*b1*b2,h,w]"},

    /* Tile: every extent times its number of repeats. */
    {"Tile", 6, "float32[2,3] int64=1,4", "", "float32[2,12]", "[d0,d1] [_] -> [d0,r1*d1]"},
    {"Tile", 13, "float32[2,n] int64=2,1", "", "float32[4,n]", "[d0,d1] [_] -> [r0*d0,d1]"},

    /* Momentum: R T, then X.. G.. V..; X.. V.. after the step. */
    {"ai.onnx.preview.training.Momentum", 1, "float32[] int64[] float32[2,3] float32[2,3] float32[2,3]",
     "alpha=0.9 beta=1.0 mode='standard' norm_coefficient=0.1", "float32[2,3] float32[2,3]",
     "[] [] [x0d0,x0d1] [x0d0,x0d1] [x0d0,x0d1] -> [x0d0,x0d1] [x0d0,x0d1]"},
    {"ai.onnx.preview.training.Momentum", 1,
     "float32[] int64[] float32[2] double[3] float32[2] double[3] float32[2] double[3]",
     "alpha=0.9 beta=1.0 mode='nesterov' norm_coefficient=0.1", "float32[2] float64[3] float32[2] float64[3]",
     "[] [] [x0d0] [x1d0] [x0d0] [x1d0] [x0d0] [x1d0] -> [x0d0] [x1d0] [x0d0] [x1d0]"},
    {.op = NULL},
};
