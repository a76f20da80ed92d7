#pragma once
/*
 * shardy_function - the main graph as a function that Shardy's passes read:
 *
 *   func.func @main(%v0: tensor<3x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"axis_0"}]>}, ..)
 *       -> (tensor<3x2xf32> {sdy.sharding = ..}) {
 *     %v2 = stablehlo.custom_call @MatMul(%v0, %v1) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}
 *         : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
 *     return %v2 : tensor<3x2xf32>
 *   }
 *
 * Inputs come first, then weights, as arguments. An operator of ONNX is a custom call of its name, behind its domain where
 * it has one; of an operand that is taken in another sharding a sdy.sharding_constraint stands before it. Graphs inside of
 * nodes are not written.
 */
#include "export/internal.h"

/* The text of a use's sharding, "#sdy.sharding<..>". */
struct sp_shardy_use {
    uint32_t node, operand;
    const char *text;
};

struct sp_shardy_function {
    const char **of; /* by value: the text of its sharding, or NULL */
    uint32_t use_count, use_capacity;
    struct sp_shardy_use *uses; /* in the order of nodes, then of operands */
};

/* A note where a value has no type that MLIR's tensors have: then there is no function. */
enum sp_status sp_shardy_write_function(struct sp_export *out, const struct sp_shardy_function *function,
                                        struct sp_error *err);
