#include "verify/operators/steps.h"

#include <string.h>

static const struct sp_evaluator_entry *const tables[] = {
    sp_evaluators_elements,   sp_evaluators_movement,  sp_evaluators_places,    sp_evaluators_products,
    sp_evaluators_reductions, sp_evaluators_windows,   sp_evaluators_constants, sp_evaluators_recurrent,
    sp_evaluators_norms,      sp_evaluators_attention, sp_evaluators_losses,    sp_evaluators_quantised,
    sp_evaluators_scattered,  sp_evaluators_resized,   sp_evaluators_selected,  sp_evaluators_linear_attention,
    sp_evaluators_experts,    sp_evaluators_signal,
};

static const struct sp_evaluator_entry *find_in(const struct sp_evaluator_entry *table, const char *name)
{
    while (table->name != NULL && (table->name[0] != name[0] || strcmp(table->name, name) != 0))
        table++;
    return table->name != NULL ? table : NULL;
}

#define CHANNELS_LAST_DOMAIN "com.ms.internal.nhwc"

static bool has_channels_last(const struct sp_node *node)
{
    return strcmp(node->domain, CHANNELS_LAST_DOMAIN) == 0 || strncmp(node->op_type, "Nhwc", 4) == 0;
}

/* Operators of other domains that are ai.onnx's under their name, and those of com.microsoft that are evaluated. */
static bool is_evaluated(const struct sp_node *node)
{
    static const char *const contrib[] = {"CausalConvWithState",
                                          "DequantizeLinear",
                                          "DynamicQuantizeMatMul",
                                          "FusedConv",
                                          "FusedMatMul",
                                          "GatherBlockQuantized",
                                          "GatherND",
                                          "Gelu",
                                          "LinearAttention",
                                          "MatMulInteger16",
                                          "MatMulIntegerToFloat",
                                          "MoE",
                                          "MultiHeadAttention",
                                          "NhwcConv",
                                          "NhwcFusedConv",
                                          "Pad",
                                          "QGemm",
                                          "QLinearAveragePool",
                                          "QLinearConv",
                                          "QMoE",
                                          "QuantizeLinear",
                                          "Range",
                                          "ReduceSumInteger",
                                          "SimplifiedLayerNormalization",
                                          "SkipLayerNormalization",
                                          "SkipSimplifiedLayerNormalization",
                                          "TorchEmbedding",
                                          "TransposeMatMul",
                                          "Trilu",
                                          NULL};
    if (node->domain[0] == '\0' || has_channels_last(node))
        return true;
    if (strcmp(node->domain, "ai.onnx.ml") == 0)
        return strcmp(node->op_type, "LinearRegressor") == 0 || strcmp(node->op_type, "LinearClassifier") == 0 ||
               strcmp(node->op_type, "Scaler") == 0 || strcmp(node->op_type, "Normalizer") == 0;
    if (strcmp(node->domain, "ai.onnx.preview") == 0)
        return strcmp(node->op_type, "FlexAttention") == 0;
    for (const char *const *name = contrib; strcmp(node->domain, "com.microsoft") == 0 && *name != NULL; name++) {
        if (strcmp(*name, node->op_type) == 0)
            return true;
    }
    return false;
}

/* An operator whose channels are the last axis, by the one whose channels are axis 1. */
static enum sp_status evaluate_channels_last(struct sp_call *call, sp_evaluator evaluate)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers **in = SP_NEW_ARRAY(call->arena, call->in_count, const struct sp_numbers *);
    struct sp_call inner = *call;
    if (in == NULL)
        return sp_fail_memory(call->err);
    const bool is_plain_conv = strcmp(call->node->op_type, "NhwcConv") == 0; /* its weights are written so, too */
    for (uint32_t i = 0; i < call->in_count; i++)
        in[i] = (i == 0 || i == 3 || (i == 1 && is_plain_conv)) && call->in[i] != NULL
                    ? sp_step_channels(&steps, call->in[i], 1)
                    : call->in[i];
    inner.in = in;
    if (steps.status == SP_OK)
        steps.status = evaluate(&inner);
    if (steps.status == SP_OK && call->out_count > 0 && call->out[0] != NULL)
        call->out[0] = sp_step_channels(&steps, call->out[0], call->out[0]->rank - 1);
    return steps.status;
}

enum sp_status sp_evaluate_node(struct sp_call *call)
{
    const char *name = sp_evaluated_name(call->node);
    for (uint32_t i = 0; is_evaluated(call->node) && i < sizeof tables / sizeof *tables; i++) {
        const struct sp_evaluator_entry *entry = find_in(tables[i], name);
        if (entry != NULL)
            return has_channels_last(call->node) && call->out_count == 1 ? evaluate_channels_last(call, entry->evaluate)
                   : has_channels_last(call->node)                       ? sp_evaluate_by_rule(call)
                                                                         : entry->evaluate(call);
    }
    return sp_evaluate_by_rule(call);
}

bool sp_evaluate_is_movement(const struct sp_node *node)
{
    return node->domain[0] == '\0' &&
           (find_in(sp_evaluators_movement, node->op_type) != NULL || strcmp(node->op_type, "Identity") == 0 ||
            strncmp(node->op_type, "Gather", 6) == 0 || strcmp(node->op_type, "Cast") == 0);
}
