#pragma once
/*
 * functions - how operators are lowered (ops/lowering/lowering.h): the functions that the table's entries name.
 *
 * Each family of operators has a file of its own in lowering/families, as its rules have in families.
 */
#include "ops/lowering/lowering.h"

/* attention: attention.c, contrib_attention.c */
enum sp_status sp_lower_attention(struct sp_lowering *lower);
enum sp_status sp_lower_group_attention(struct sp_lowering *lower);
enum sp_status sp_lower_multi_head_attention(struct sp_lowering *lower);
enum sp_status sp_lower_projected_attention(struct sp_lowering *lower);

/* rotary, linear_attention: rotary.c */
enum sp_status sp_lower_causal_conv(struct sp_lowering *lower);
enum sp_status sp_lower_linear_attention(struct sp_lowering *lower);
enum sp_status sp_lower_rotary(struct sp_lowering *lower);

/* moe, distributed: moe.c, distributed.c */
enum sp_status sp_lower_moe(struct sp_lowering *lower);
enum sp_status sp_lower_one_of_many(struct sp_lowering *lower);

/* reduction: reduction.c */
enum sp_status sp_lower_arg_max(struct sp_lowering *lower);
enum sp_status sp_lower_arg_min(struct sp_lowering *lower);
enum sp_status sp_lower_reduce_l2(struct sp_lowering *lower);
enum sp_status sp_lower_reduce_log_sum(struct sp_lowering *lower);
enum sp_status sp_lower_reduce_log_sum_exp(struct sp_lowering *lower);
enum sp_status sp_lower_reduce_mean(struct sp_lowering *lower);

/* normalization: normalization.c, softmax.c */
enum sp_status sp_lower_batch_norm(struct sp_lowering *lower);
enum sp_status sp_lower_group_norm(struct sp_lowering *lower);
enum sp_status sp_lower_hardmax(struct sp_lowering *lower);
enum sp_status sp_lower_instance_norm(struct sp_lowering *lower);
enum sp_status sp_lower_layer_norm(struct sp_lowering *lower);
enum sp_status sp_lower_log_softmax(struct sp_lowering *lower);
enum sp_status sp_lower_lp_norm(struct sp_lowering *lower);
enum sp_status sp_lower_lrn(struct sp_lowering *lower);
enum sp_status sp_lower_mean_variance_norm(struct sp_lowering *lower);
enum sp_status sp_lower_rms_norm(struct sp_lowering *lower);
enum sp_status sp_lower_softmax(struct sp_lowering *lower);

/* contrib_normalization: contrib_normalization.c */
enum sp_status sp_lower_embed_layer_norm(struct sp_lowering *lower);
enum sp_status sp_lower_skip_layer_norm(struct sp_lowering *lower);
enum sp_status sp_lower_skip_rms_norm(struct sp_lowering *lower);

/* pooling: pooling.c, unpool.c */
enum sp_status sp_lower_average_pool(struct sp_lowering *lower);
enum sp_status sp_lower_global_average_pool(struct sp_lowering *lower);
enum sp_status sp_lower_global_lp_pool(struct sp_lowering *lower);
enum sp_status sp_lower_lp_pool(struct sp_lowering *lower);
enum sp_status sp_lower_max_pool(struct sp_lowering *lower);
enum sp_status sp_lower_max_unpool(struct sp_lowering *lower);

/* selection, quantization, contrib_quantization: selection.c, quantization.c */
enum sp_status sp_lower_dynamic_matmul(struct sp_lowering *lower);
enum sp_status sp_lower_qlinear_matmul(struct sp_lowering *lower);
enum sp_status sp_lower_qgemm(struct sp_lowering *lower);
enum sp_status sp_lower_dynamic_quantize(struct sp_lowering *lower);
enum sp_status sp_lower_matmul_to_float(struct sp_lowering *lower);
enum sp_status sp_lower_one_hot(struct sp_lowering *lower);
enum sp_status sp_lower_top_k(struct sp_lowering *lower);

/* random, unary: random.c */
enum sp_status sp_lower_dropout(struct sp_lowering *lower);
enum sp_status sp_lower_multinomial(struct sp_lowering *lower);
enum sp_status sp_lower_random_like(struct sp_lowering *lower);
enum sp_status sp_lower_random_shaped(struct sp_lowering *lower);

/* shape, reshape, movement, spatial, casting: shape.c, reshape.c, movement.c */
enum sp_status sp_lower_node_cast_like(struct sp_lowering *lower);
enum sp_status sp_lower_node_constant(struct sp_lowering *lower);
enum sp_status sp_lower_node_constant_of_shape(struct sp_lowering *lower);
enum sp_status sp_lower_node_depth_to_space(struct sp_lowering *lower);
enum sp_status sp_lower_node_expand(struct sp_lowering *lower);
enum sp_status sp_lower_node_range(struct sp_lowering *lower);
enum sp_status sp_lower_node_reshape(struct sp_lowering *lower);
enum sp_status sp_lower_node_shape(struct sp_lowering *lower);
enum sp_status sp_lower_node_size(struct sp_lowering *lower);
enum sp_status sp_lower_node_space_to_depth(struct sp_lowering *lower);
enum sp_status sp_lower_node_split(struct sp_lowering *lower);
enum sp_status sp_lower_node_squeeze(struct sp_lowering *lower);
enum sp_status sp_lower_node_tile(struct sp_lowering *lower);

/* slice, pad: slice.c, pad.c */
enum sp_status sp_lower_node_center_crop_pad(struct sp_lowering *lower);
enum sp_status sp_lower_node_pad(struct sp_lowering *lower);
enum sp_status sp_lower_node_slice(struct sp_lowering *lower);

/* indexing, scatter: indexing.c, scatter.c */
enum sp_status sp_lower_gather_quantized(struct sp_lowering *lower);
enum sp_status sp_lower_node_gather(struct sp_lowering *lower);
enum sp_status sp_lower_node_gather_elements(struct sp_lowering *lower);
enum sp_status sp_lower_node_gather_nd(struct sp_lowering *lower);
enum sp_status sp_lower_node_scatter_elements(struct sp_lowering *lower);
enum sp_status sp_lower_node_scatter_nd(struct sp_lowering *lower);

/* matrix: matrix.c */
enum sp_status sp_lower_node_eye_like(struct sp_lowering *lower);
enum sp_status sp_lower_node_trilu(struct sp_lowering *lower);

/* contraction, contrib_matmul, convolution, deformable: matmul.c, convolution.c, deformable.c */
enum sp_status sp_lower_conv(struct sp_lowering *lower);
enum sp_status sp_lower_conv_integer(struct sp_lowering *lower);
enum sp_status sp_lower_conv_transpose(struct sp_lowering *lower);
enum sp_status sp_lower_nchwc(struct sp_lowering *lower);
enum sp_status sp_lower_deform_conv(struct sp_lowering *lower);
enum sp_status sp_lower_gemm(struct sp_lowering *lower);
enum sp_status sp_lower_matmul_nbits(struct sp_lowering *lower);
enum sp_status sp_lower_qlinear_conv(struct sp_lowering *lower);

/* what is another operator on operands that lie elsewhere: like.c */
enum sp_status sp_lower_like(struct sp_lowering *lower);

/* recurrent: recurrent.c */
enum sp_status sp_lower_gru(struct sp_lowering *lower);
enum sp_status sp_lower_lstm(struct sp_lowering *lower);
enum sp_status sp_lower_rnn(struct sp_lowering *lower);

/* image, sampling, spatial: image.c, sampling.c, spatial.c */
enum sp_status sp_lower_affine_grid(struct sp_lowering *lower);
enum sp_status sp_lower_col2im(struct sp_lowering *lower);
enum sp_status sp_lower_regions(struct sp_lowering *lower);
enum sp_status sp_lower_resize(struct sp_lowering *lower);

/* loss: loss.c */
enum sp_status sp_lower_negative_log_likelihood(struct sp_lowering *lower);
enum sp_status sp_lower_softmax_cross_entropy(struct sp_lowering *lower);

/* ml_features, ml_models: ml.c */
enum sp_status sp_lower_feature_extractor(struct sp_lowering *lower);
enum sp_status sp_lower_imputer(struct sp_lowering *lower);
enum sp_status sp_lower_linear_model(struct sp_lowering *lower);
enum sp_status sp_lower_ml_normalizer(struct sp_lowering *lower);
enum sp_status sp_lower_scaler(struct sp_lowering *lower);

/* signal, time, and what is made whole and cut: signal.c, time.c */
enum sp_status sp_lower_made_whole(struct sp_lowering *lower);
enum sp_status sp_lower_stft(struct sp_lowering *lower);
enum sp_status sp_lower_tensor_scatter(struct sp_lowering *lower);
