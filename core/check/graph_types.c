/*
 * Element types of a node's inputs against its signature: more than onnx.checker looks at by default, and only where
 * types are known and the signature bounds them.
 */
#include <string.h>

#include "check/graph_internal.h"

#define MAX_PARAMETERS 8 /* type parameters of one operator; no signature has more */

/* The type parameters that inputs have determined so far. */
struct bindings {
    uint32_t count;
    const char *parameters[MAX_PARAMETERS];
    enum sp_dtype dtypes[MAX_PARAMETERS];
    uint32_t inputs[MAX_PARAMETERS];
};

static const struct sp_type *known_type(const struct sp_value *value)
{
    return value->type.kind != SP_TYPE_NONE ? &value->type : &value->declared;
}

static const char *kind_name(enum sp_type_kind kind)
{
    return kind == SP_TYPE_SEQUENCE ? "a sequence" : kind == SP_TYPE_OPTIONAL ? "an optional value" : "a map";
}

static enum sp_status check_bound(struct sp_graph_check *check, const struct sp_node *node, uint32_t i,
                                  const struct sp_signature *signature, const struct sp_signature_operand *operand,
                                  const struct sp_type *type)
{
    struct sp_finding finding = {.code = "WRONG_DATA_TYPE", .node = node, .tensor = node->inputs[i]->name};
    if (type->kind == SP_TYPE_TENSOR) {
        if (type->dtype == SP_DTYPE_UNDEFINED || (operand->dtypes & 1u << type->dtype) != 0)
            return SP_OK;
        if (operand->dtypes == 0)
            finding.code = "WRONG_TYPE"; /* a sequence or map is wanted */
        return sp_diagnose(check->list, &finding, check->err,
                           "Its input %u, '%.80s', is %s, which '%.40s' of %.80s-%lld cannot be.", i,
                           node->inputs[i]->name, sp_dtype_name(type->dtype), operand->name, signature->name,
                           (long long)signature->since);
    }
    if ((type->kind != SP_TYPE_SEQUENCE && type->kind != SP_TYPE_OPTIONAL && type->kind != SP_TYPE_MAP) ||
        (operand->kinds & 1u << type->kind) != 0)
        return SP_OK;
    finding.code = "WRONG_TYPE";
    return sp_diagnose(check->list, &finding, check->err,
                       "Its input %u, '%.80s', is %s, which '%.40s' of %.80s-%lld cannot be.", i, node->inputs[i]->name,
                       kind_name(type->kind), operand->name, signature->name, (long long)signature->since);
}

static enum sp_status check_parameter(struct sp_graph_check *check, const struct sp_node *node, uint32_t i,
                                      const struct sp_signature_operand *operand, enum sp_dtype dtype,
                                      struct bindings *bindings)
{
    uint32_t k = 0;
    while (k < bindings->count && strcmp(bindings->parameters[k], operand->type) != 0)
        k++;
    if (k == bindings->count) {
        if (k < MAX_PARAMETERS) {
            bindings->parameters[k] = operand->type;
            bindings->dtypes[k] = dtype;
            bindings->inputs[k] = i;
            bindings->count++;
        }
        return SP_OK;
    }
    if (bindings->dtypes[k] == dtype)
        return SP_OK;
    struct sp_finding finding = {.code = "TYPES_DISAGREE", .node = node, .tensor = node->inputs[i]->name};
    return sp_diagnose(check->list, &finding, check->err, "Its inputs %u (%s) and %u (%s) must have one element type.",
                       bindings->inputs[k], sp_dtype_name(bindings->dtypes[k]), i, sp_dtype_name(dtype));
}

enum sp_status sp_check_node_types(struct sp_graph_check *check, const struct sp_node *node,
                                   const struct sp_signature *signature)
{
    struct bindings bindings = {.count = 0};
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->input_count && signature->input_count > 0; i++) {
        const uint32_t last = signature->input_count - 1;
        const struct sp_signature_operand *operand = &signature->inputs[i < last ? i : last];
        if (node->inputs[i] == NULL || operand->type == NULL)
            continue;
        const struct sp_type *type = known_type(node->inputs[i]);
        status = check_bound(check, node, i, signature, operand, type);
        if (status == SP_OK && operand->is_parameter && type->kind == SP_TYPE_TENSOR &&
            type->dtype != SP_DTYPE_UNDEFINED && (!operand->is_variadic || operand->is_homogeneous))
            status = check_parameter(check, node, i, operand, type->dtype, &bindings);
    }
    return status;
}
