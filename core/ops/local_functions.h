#pragma once
/*
 * local_functions - the `local` functions of the operator families (ops/local.h), for the table's entries.
 *
 * They stand in files of their own, local_FAMILY.c, beside the family's rules: local_reduction.c beside reduction.c.
 */
#include "ops/local.h"

/* attention: local_attention.c, local_contrib_attention.c */
enum sp_status sp_local_attention(struct sp_local *local);
enum sp_status sp_local_group_attention(struct sp_local *local);
enum sp_status sp_local_multi_head_attention(struct sp_local *local);
enum sp_status sp_local_projected_attention(struct sp_local *local);

/* rotary, linear_attention: local_rotary.c */
enum sp_status sp_local_causal_conv(struct sp_local *local);
enum sp_status sp_local_linear_attention(struct sp_local *local);
enum sp_status sp_local_rotary(struct sp_local *local);

/* moe, distributed: local_moe.c, local_distributed.c */
enum sp_status sp_local_moe(struct sp_local *local);
enum sp_status sp_local_one_of_many(struct sp_local *local);

/* reduction: local_reduction.c */
enum sp_status sp_local_arg_max(struct sp_local *local);
enum sp_status sp_local_arg_min(struct sp_local *local);
enum sp_status sp_local_reduce_l2(struct sp_local *local);
enum sp_status sp_local_reduce_log_sum(struct sp_local *local);
enum sp_status sp_local_reduce_log_sum_exp(struct sp_local *local);
enum sp_status sp_local_reduce_mean(struct sp_local *local);

/* normalization: local_normalization.c, local_softmax.c */
enum sp_status sp_local_batch_norm(struct sp_local *local);
enum sp_status sp_local_group_norm(struct sp_local *local);
enum sp_status sp_local_hardmax(struct sp_local *local);
enum sp_status sp_local_instance_norm(struct sp_local *local);
enum sp_status sp_local_layer_norm(struct sp_local *local);
enum sp_status sp_local_log_softmax(struct sp_local *local);
enum sp_status sp_local_lp_norm(struct sp_local *local);
enum sp_status sp_local_lrn(struct sp_local *local);
enum sp_status sp_local_mean_variance_norm(struct sp_local *local);
enum sp_status sp_local_rms_norm(struct sp_local *local);
enum sp_status sp_local_softmax(struct sp_local *local);

/* contrib_normalization: local_contrib_normalization.c */
enum sp_status sp_local_embed_layer_norm(struct sp_local *local);
enum sp_status sp_local_skip_layer_norm(struct sp_local *local);
enum sp_status sp_local_skip_rms_norm(struct sp_local *local);

/* pooling: local_pooling.c, local_unpool.c */
enum sp_status sp_local_average_pool(struct sp_local *local);
enum sp_status sp_local_global_average_pool(struct sp_local *local);
enum sp_status sp_local_global_lp_pool(struct sp_local *local);
enum sp_status sp_local_lp_pool(struct sp_local *local);
enum sp_status sp_local_max_pool(struct sp_local *local);
enum sp_status sp_local_max_unpool(struct sp_local *local);

/* selection, quantization: local_selection.c, local_quantization.c */
enum sp_status sp_local_dynamic_quantize(struct sp_local *local);
enum sp_status sp_local_one_hot(struct sp_local *local);
enum sp_status sp_local_top_k(struct sp_local *local);

/* random, unary: local_random.c */
enum sp_status sp_local_dropout(struct sp_local *local);
enum sp_status sp_local_multinomial(struct sp_local *local);
enum sp_status sp_local_random_like(struct sp_local *local);
enum sp_status sp_local_random_shaped(struct sp_local *local);

/* shape, reshape, movement, spatial, casting: local_shape.c, local_reshape.c, local_movement.c */
enum sp_status sp_local_node_cast_like(struct sp_local *local);
enum sp_status sp_local_node_constant(struct sp_local *local);
enum sp_status sp_local_node_constant_of_shape(struct sp_local *local);
enum sp_status sp_local_node_depth_to_space(struct sp_local *local);
enum sp_status sp_local_node_expand(struct sp_local *local);
enum sp_status sp_local_node_range(struct sp_local *local);
enum sp_status sp_local_node_reshape(struct sp_local *local);
enum sp_status sp_local_node_shape(struct sp_local *local);
enum sp_status sp_local_node_size(struct sp_local *local);
enum sp_status sp_local_node_space_to_depth(struct sp_local *local);
enum sp_status sp_local_node_split(struct sp_local *local);
enum sp_status sp_local_node_squeeze(struct sp_local *local);
enum sp_status sp_local_node_tile(struct sp_local *local);

/* slice, pad: local_slice.c, local_pad.c */
enum sp_status sp_local_node_center_crop_pad(struct sp_local *local);
enum sp_status sp_local_node_pad(struct sp_local *local);
enum sp_status sp_local_node_slice(struct sp_local *local);

/* indexing, scatter: local_indexing.c, local_scatter.c */
enum sp_status sp_local_node_gather(struct sp_local *local);
enum sp_status sp_local_node_gather_elements(struct sp_local *local);
enum sp_status sp_local_node_gather_nd(struct sp_local *local);
enum sp_status sp_local_node_scatter_elements(struct sp_local *local);
enum sp_status sp_local_node_scatter_nd(struct sp_local *local);

/* matrix: local_matrix.c */
enum sp_status sp_local_node_eye_like(struct sp_local *local);
enum sp_status sp_local_node_trilu(struct sp_local *local);

/* contraction, contrib_matmul, convolution, deformable: local_contraction.c, local_convolution.c, local_deformable.c */
enum sp_status sp_local_conv(struct sp_local *local);
enum sp_status sp_local_conv_integer(struct sp_local *local);
enum sp_status sp_local_conv_transpose(struct sp_local *local);
enum sp_status sp_local_deform_conv(struct sp_local *local);
enum sp_status sp_local_gemm(struct sp_local *local);
enum sp_status sp_local_matmul_nbits(struct sp_local *local);
enum sp_status sp_local_qlinear_conv(struct sp_local *local);

/* recurrent: local_recurrent.c */
enum sp_status sp_local_gru(struct sp_local *local);
enum sp_status sp_local_lstm(struct sp_local *local);
enum sp_status sp_local_rnn(struct sp_local *local);

/* image, sampling, spatial: local_image.c, local_sampling.c, local_spatial.c */
enum sp_status sp_local_affine_grid(struct sp_local *local);
enum sp_status sp_local_col2im(struct sp_local *local);
enum sp_status sp_local_regions(struct sp_local *local);
enum sp_status sp_local_resize(struct sp_local *local);

/* loss: local_loss.c */
enum sp_status sp_local_negative_log_likelihood(struct sp_local *local);
enum sp_status sp_local_softmax_cross_entropy(struct sp_local *local);

/* ml_features, ml_models: local_ml.c */
enum sp_status sp_local_feature_extractor(struct sp_local *local);
enum sp_status sp_local_imputer(struct sp_local *local);
enum sp_status sp_local_linear_model(struct sp_local *local);
enum sp_status sp_local_ml_normalizer(struct sp_local *local);
enum sp_status sp_local_scaler(struct sp_local *local);

/* signal, time, and what is made whole and cut: local_signal.c, local_time.c */
enum sp_status sp_local_made_whole(struct sp_local *local);
enum sp_status sp_local_stft(struct sp_local *local);
enum sp_status sp_local_tensor_scatter(struct sp_local *local);
