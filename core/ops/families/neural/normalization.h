#pragma once
/* normalization - shapes that the normalizations of ONNX and of ONNX Runtime share. */
#include "ops/table/op.h"

/* Of LayerNormalization and RMSNormalization: the result has the shape of input 0, the statistics have 1 from `axis` on;
   scale and bias broadcast to input 0. */
enum sp_status sp_shapes_layer_norm(struct sp_op_context *context);
