#pragma once
/*
 * buffer_reuse - the memory of activations in a runtime that plans it before it runs.
 *
 * The live bytes of evaluate.h are what is needed at least: memory that can be cut and joined at will. A runtime such
 * as ONNX Runtime gives the memory of a tensor that is dead only to tensors of the same extents and element size, and
 * keeps it until the last of them is dead. So what it takes can be more, and where operators write over their inputs,
 * less:
 *   - an activation function (SP_OP_IN_PLACE) takes the memory of its input, where that ends with it
 *   - any other output takes memory that became free, the latest first, of a tensor with its extents; else new memory
 *   - what is sent, and results of the model, keep their memory to the end
 *   - views are their root's memory; weights, model inputs and what is received are not the runtime's
 * and of what it does to a graph before it plans:
 *   - what follows from weights alone is a weight (as everywhere in a workload)
 *   - a product by a matrix and the bias that is added to it are one operator (Gemm), which makes a matrix: its leading
 *     axes are one while its memory is looked for
 *   - a Dropout that drops nothing is its input
 *
 * That is ONNX Runtime with its basic optimisations. With more of them it needs less: normalisations and activations of
 * many operators become one. Without any it needs more, and computes from weights in every run.
 *
 * Sources: ONNX Runtime, onnxruntime/core/framework/allocation_planner.cc (in-place, then free list, then allocate),
 * core/optimizer/matmul_add_fusion.cc, core/optimizer/dropout_elimination.cc.
 */
#include "cost/evaluate.h"

/* The largest sum in the course of one request, in bytes, in a stage; -1 without memory. `scratch` is as it was
   afterwards. */
double sp_reuse_peak(struct sp_arena *scratch, const struct sp_workload *workload, const struct sp_placed_stage *stage);
