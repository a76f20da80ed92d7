#include "verify/evaluate.h"

#include <string.h>

static const struct sp_evaluator_entry *const tables[] = {
    sp_evaluators_elements,   sp_evaluators_movement, sp_evaluators_places,    sp_evaluators_products,
    sp_evaluators_reductions, sp_evaluators_windows,  sp_evaluators_constants, sp_evaluators_recurrent,
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
    static const char *const same[] = {"FusedMatMul", "Gelu", "Trilu", "SimplifiedLayerNormalization", NULL};
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

enum sp_status sp_call_refuse(struct sp_call *call, const char *why)
{
    return sp_fail(call->err, SP_ERR_UNSUPPORTED, "NOT_EVALUATED", "%s", why);
}

enum sp_status sp_call_ints(struct sp_call *call, uint32_t i, uint32_t *ret_count, const int64_t **ret_ints)
{
    const struct sp_numbers *x = sp_call_in(call, i);
    if (x == NULL || !x->is_known || !sp_numbers_is_complete(x) || x->rank > 1)
        return sp_call_refuse(call, "its shape or axes are not known");
    int64_t *ints = SP_NEW_ARRAY(call->arena, x->count, int64_t);
    if (ints == NULL)
        return sp_fail_memory(call->err);
    for (uint64_t k = 0; k < x->count; k++)
        ints[k] = sp_numbers_int(x, k);
    *ret_count = (uint32_t)x->count;
    *ret_ints = ints;
    return SP_OK;
}

enum sp_status sp_call_attribute_or_ints(struct sp_call *call, const char *name, uint32_t i, uint32_t *ret_count,
                                         const int64_t **ret_ints)
{
    const struct sp_attribute *attribute = sp_node_attribute(call->node, name);
    if (attribute != NULL && (attribute->type == SP_ATTR_INTS || attribute->type == SP_ATTR_INT)) {
        *ret_count = attribute->type == SP_ATTR_INTS ? attribute->count : 1;
        *ret_ints = attribute->type == SP_ATTR_INTS ? attribute->ints : &attribute->i;
        return SP_OK;
    }
    *ret_count = 0;
    *ret_ints = NULL;
    return sp_call_in(call, i) != NULL ? sp_call_ints(call, i, ret_count, ret_ints) : SP_OK;
}

enum sp_status sp_call_axis(struct sp_call *call, int64_t axis, uint32_t rank, uint32_t *ret_axis)
{
    const int64_t index = axis < 0 ? axis + rank : axis;
    if (index < 0 || index >= rank)
        return sp_fail(call->err, SP_ERR_MODEL, "AXIS_MISSING", "It names axis %lld of %u.", (long long)axis, rank);
    *ret_axis = (uint32_t)index;
    return SP_OK;
}
