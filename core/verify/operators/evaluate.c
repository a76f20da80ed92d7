#include "verify/operators/evaluate.h"

#include <string.h>

static const struct sp_evaluator_entry *const tables[] = {
    sp_evaluators_elements,   sp_evaluators_movement,  sp_evaluators_places,    sp_evaluators_products,
    sp_evaluators_reductions, sp_evaluators_windows,   sp_evaluators_constants, sp_evaluators_recurrent,
    sp_evaluators_norms,      sp_evaluators_attention, sp_evaluators_losses,    sp_evaluators_quantised,
    sp_evaluators_scattered,
};

static const struct sp_evaluator_entry *find_in(const struct sp_evaluator_entry *table, const char *name)
{
    while (table->name != NULL && strcmp(table->name, name) != 0)
        table++;
    return table->name != NULL ? table : NULL;
}

/* Operators of other domains that are ai.onnx's under their name. */
static bool is_standard(const struct sp_node *node)
{
    static const char *const same[] = {"FusedMatMul",
                                       "Gelu",
                                       "Trilu",
                                       "SimplifiedLayerNormalization",
                                       "SkipLayerNormalization",
                                       "SkipSimplifiedLayerNormalization",
                                       "QuantizeLinear",
                                       "DequantizeLinear",
                                       "MatMulIntegerToFloat",
                                       "DynamicQuantizeMatMul",
                                       "QGemm",
                                       NULL};
    if (node->domain[0] == '\0')
        return true;
    for (const char *const *name = same; strcmp(node->domain, "com.microsoft") == 0 && *name != NULL; name++) {
        if (strcmp(*name, node->op_type) == 0)
            return true;
    }
    return false;
}

enum sp_status sp_evaluate_node(struct sp_call *call)
{
    for (uint32_t i = 0; is_standard(call->node) && i < sizeof tables / sizeof *tables; i++) {
        const struct sp_evaluator_entry *entry = find_in(tables[i], call->node->op_type);
        if (entry != NULL)
            return entry->evaluate(call);
    }
    return sp_evaluate_by_rule(call);
}

bool sp_evaluate_is_movement(const struct sp_node *node)
{
    return node->domain[0] == '\0' &&
           (find_in(sp_evaluators_movement, node->op_type) != NULL || strcmp(node->op_type, "Identity") == 0 ||
            strncmp(node->op_type, "Gather", 6) == 0 || strcmp(node->op_type, "Cast") == 0);
}
