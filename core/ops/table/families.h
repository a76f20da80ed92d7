#pragma once
/*
 * families - the operator entries, one array per family file, each ended by an entry whose name is NULL.
 *
 * Adding a family: its array here, its line in table.c, its file in meson.build.
 */
#include "ops/table/rule_text.h"

/*
 * One entry: the domain ("" is ai.onnx), the name, the first and the last opset version (0: up to the newest), the
 * least and the most inputs and outputs, the rule's text and the source of the semantics. The other members of struct
 * sp_op follow by name:
 *
 *     SP_ENTRY("", "Softmax", 1, 0, 1, 1, 1, 1, "[i.., j..] -> [i.., j..]; j.. softmax", "ONNX operator Softmax",
 *              .shapes = shapes_softmax, .axes = softmax_axes, .flops = 5, .lower = sp_lower_softmax),
 */
#define SP_ENTRY(domain_, name_, since_, last_, least_inputs_, most_inputs_, least_outputs_, most_outputs_, text_,     \
                 source_, ...)                                                                                         \
    {                                                                                                                  \
        .domain = domain_, .name = name_, .since = since_, .last = last_, .min_inputs = least_inputs_,                 \
        .max_inputs = most_inputs_, .min_outputs = least_outputs_, .max_outputs = most_outputs_, .text = text_,        \
        .source = source_, .read = &(struct sp_rule_text){0}, __VA_ARGS__                                              \
    }

extern const struct sp_op sp_ops_shape[];
extern const struct sp_op sp_ops_reshape[];
extern const struct sp_op sp_ops_movement[];
extern const struct sp_op sp_ops_pad[];
extern const struct sp_op sp_ops_slice[];
extern const struct sp_op sp_ops_indexing[];
extern const struct sp_op sp_ops_scatter[];
extern const struct sp_op sp_ops_casting[];
extern const struct sp_op sp_ops_elementwise[];
extern const struct sp_op sp_ops_unary[];
extern const struct sp_op sp_ops_contraction[];
extern const struct sp_op sp_ops_einsum[];
extern const struct sp_op sp_ops_convolution[];
extern const struct sp_op sp_ops_pooling[];
extern const struct sp_op sp_ops_normalization[];
extern const struct sp_op sp_ops_reduction[];
extern const struct sp_op sp_ops_recurrent[];
extern const struct sp_op sp_ops_selection[];
extern const struct sp_op sp_ops_image[];
extern const struct sp_op sp_ops_attention[];
extern const struct sp_op sp_ops_rotary[];
extern const struct sp_op sp_ops_quantization[];
extern const struct sp_op sp_ops_loss[];
extern const struct sp_op sp_ops_random[];
extern const struct sp_op sp_ops_string[];
extern const struct sp_op sp_ops_ml_features[];
extern const struct sp_op sp_ops_ml_models[];
extern const struct sp_op sp_ops_ml_maps[];
extern const struct sp_op sp_ops_training[];
extern const struct sp_op sp_ops_linear_attention[];
extern const struct sp_op sp_ops_contrib_attention[];
extern const struct sp_op sp_ops_contrib_group_attention[];
extern const struct sp_op sp_ops_contrib_decoding[];
extern const struct sp_op sp_ops_contrib_gates[];
extern const struct sp_op sp_ops_contrib_quantized_matmul[];
extern const struct sp_op sp_ops_contrib_gather[];
extern const struct sp_op sp_ops_contrib_text[];
extern const struct sp_op sp_ops_searches[];
extern const struct sp_op sp_ops_moe[];
extern const struct sp_op sp_ops_contrib_matmul[];
extern const struct sp_op sp_ops_contrib_quantization[];
extern const struct sp_op sp_ops_contrib_tensors[];
extern const struct sp_op sp_ops_qonnx[];
extern const struct sp_op sp_ops_experimental[];
extern const struct sp_op sp_ops_contrib_convolution[];
extern const struct sp_op sp_ops_nchwc[];
extern const struct sp_op sp_ops_contrib_normalization[];
extern const struct sp_op sp_ops_contrib_activation[];
extern const struct sp_op sp_ops_distributed[];
extern const struct sp_op sp_ops_control[];
extern const struct sp_op sp_ops_sequence[];
extern const struct sp_op sp_ops_optional[];
extern const struct sp_op sp_ops_spatial[];
extern const struct sp_op sp_ops_sampling[];
extern const struct sp_op sp_ops_deformable[];
extern const struct sp_op sp_ops_signal[];
extern const struct sp_op sp_ops_matrix[];
extern const struct sp_op sp_ops_dynamic[];
extern const struct sp_op sp_ops_time[];
