#pragma once
/* What attention operators with rules by text attend to, and what they move of their caches: for sp_op.traffic. They
   add the terms of scores and values (4 FLOPs for each pair and element of a head), where an entry has none. */
#include "ops/table/op.h"

void sp_traffic_decoder_attention(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_masked_self(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_masked_heads(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_packed(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_paged(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_sparse(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_quantized(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_ordered(struct sp_op_context *context, struct sp_rule *rule);
void sp_traffic_longformer(struct sp_op_context *context, struct sp_rule *rule);
