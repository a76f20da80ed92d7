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
