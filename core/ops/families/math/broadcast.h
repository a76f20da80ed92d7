#pragma once
/*
 * broadcast - unidirectional broadcasting: an operand that takes the shape of another and never widens it.
 *
 * ONNX uses it for the bias of Gemm, the slope of PRelu and the scales of LayerNormalization and RMSNormalization. (For
 * broadcasting in both directions see sp_broadcast() in ops/table/shape_helpers.h.)
 */
#include "ops/table/op.h"

/* SP_ERR_MODEL when input `input` surely does not broadcast to `to`; SP_OK when it does, may, or is not there. */
enum sp_status sp_check_broadcasts_to(struct sp_op_context *context, uint32_t input, const struct sp_shape *to);
