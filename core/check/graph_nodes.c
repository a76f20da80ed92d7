/* Nodes and their attributes against the signatures of their operators. */
#include <string.h>

#include "check/graph_internal.h"
#include "ops/table/private.h"

static const char *const attribute_type_names[] = {
    "undefined", "float",   "int",    "string",        "tensor",         "graph",      "floats",      "ints",
    "strings",   "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto", "type_protos",
};

static const char *type_name(enum sp_attr_type type)
{
    return attribute_type_names[type];
}

static const char *domain_name(const char *domain)
{
    return domain[0] == '\0' ? "ai.onnx" : domain;
}

/* Experimental operators of the first releases: the schemas went, and models that have them still load. */
static bool was_removed(const struct sp_node *node)
{
    static const char *const names[] = {
        "ATen",
        "Affine",
        "ConstantFill",
        "Crop",
        "DynamicSlice",
        "GRUUnit",
        "GivenTensorFill",
        "ImageScaler",
        "ParametricSoftplus",
        "Scale",
        "ScaledTanh",
    };
    for (size_t i = 0; node->domain[0] == '\0' && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(node->op_type, names[i]) == 0)
            return true;
    }
    return false;
}

/* ---- attributes by themselves --------------------------------------------------------------------------------- */

static bool has_parameter(const struct sp_function *function, const char *name)
{
    for (uint32_t i = 0; i < function->attribute_count; i++) {
        if (strcmp(function->attributes[i], name) == 0)
            return true;
    }
    for (uint32_t i = 0; i < function->default_count; i++) {
        if (strcmp(function->defaults[i].name, name) == 0)
            return true;
    }
    return false;
}

static enum sp_status check_attribute(struct sp_graph_check *check, const struct sp_node *node,
                                      const struct sp_attribute *attribute)
{
    struct sp_finding finding = {.code = "NO_ATTRIBUTE_TYPE", .node = node};
    enum sp_status status = SP_OK;
    if (attribute->is_untyped && check->model->ir_version >= 2)
        status = sp_diagnose(check->list, &finding, check->err, "Attribute '%.80s' does not state its type.",
                             attribute->name);
    if (status == SP_OK && attribute->ref != NULL && check->function != NULL &&
        !has_parameter(check->function, attribute->ref)) {
        finding.code = "UNKNOWN_REFERENCE";
        status = sp_diagnose(check->list, &finding, check->err,
                             "Attribute '%.80s' refers to '%.80s', which function '%.80s' does not have.",
                             attribute->name, attribute->ref, check->function->name);
    }
    for (uint32_t i = 0; status == SP_OK && attribute->tensors != NULL && i < attribute->count; i++)
        status = sp_check_tensor(check, node->graph, node, attribute->tensors[i]);
    for (uint32_t i = 0; status == SP_OK && attribute->sparse_tensors != NULL && i < attribute->count; i++)
        status = sp_check_sparse(check, node->graph, node, attribute->sparse_tensors[i]);
    return status;
}

/* ---- against the signature ------------------------------------------------------------------------------------ */

static const struct sp_signature_attribute *find_attribute(const struct sp_signature *signature, const char *name)
{
    for (uint32_t i = 0; i < signature->attribute_count; i++) {
        if (signature->attributes[i].name[0] == name[0] && strcmp(signature->attributes[i].name, name) == 0)
            return &signature->attributes[i];
    }
    return NULL;
}

static enum sp_status unknown_attribute(struct sp_graph_check *check, const struct sp_node *node,
                                        const struct sp_signature *signature, const char *name)
{
    const bool is_published = sp_signature_domain(signature->domain);
    struct sp_finding finding = {.code = is_published ? "UNKNOWN_ATTRIBUTE" : "UNKNOWN_CUSTOM_ATTRIBUTE", .node = node};
    return sp_diagnose(check->list, &finding, check->err, "%.80s-%lld has no attribute '%.80s'.", signature->name,
                       (long long)signature->since, name);
}

static enum sp_status check_attributes(struct sp_graph_check *check, const struct sp_node *node,
                                       const struct sp_signature *signature)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->attribute_count; i++) {
        const struct sp_attribute *attribute = &node->attributes[i];
        const struct sp_signature_attribute *wanted = find_attribute(signature, attribute->name);
        if (wanted == NULL) {
            /* Names that begin so are for programs' own use. */
            if (strncmp(attribute->name, "__", 2) != 0)
                status = unknown_attribute(check, node, signature, attribute->name);
        } else if (attribute->type != wanted->type && attribute->type != SP_ATTR_UNDEFINED) {
            struct sp_finding finding = {.code = "WRONG_ATTRIBUTE_TYPE", .node = node};
            status = sp_diagnose(check->list, &finding, check->err, "Attribute '%.80s' is %s, but %.80s-%lld wants %s.",
                                 attribute->name, type_name(attribute->type), signature->name,
                                 (long long)signature->since, type_name(wanted->type));
        }
    }
    for (uint32_t i = 0; status == SP_OK && i < signature->attribute_count; i++) {
        const struct sp_signature_attribute *wanted = &signature->attributes[i];
        if (!wanted->is_required || sp_node_attribute(node, wanted->name) != NULL)
            continue;
        struct sp_finding finding = {.code = "MISSING_ATTRIBUTE", .node = node};
        status = sp_diagnose(check->list, &finding, check->err, "%.80s-%lld requires the attribute '%.80s'.",
                             signature->name, (long long)signature->since, wanted->name);
    }
    return status;
}

/* One side of a node: its inputs, or its outputs. */
struct side {
    const char *what, *missing, *too_many;
    struct sp_value *const *values;
    uint32_t count, least, most, operand_count;
    const struct sp_signature_operand *operands;
};

static enum sp_status check_side(struct sp_graph_check *check, const struct sp_node *node,
                                 const struct sp_signature *signature, const struct side *side)
{
    struct sp_finding finding = {.code = side->missing, .node = node};
    enum sp_status status = SP_OK;
    if (side->count < side->least)
        return sp_diagnose(check->list, &finding, check->err, "It has %u %ss where %.80s-%lld has at least %u.",
                           side->count, side->what, signature->name, (long long)signature->since, side->least);
    if (side->count > side->most) {
        finding.code = side->too_many;
        return sp_diagnose(check->list, &finding, check->err, "It has %u %ss where %.80s-%lld has at most %u.",
                           side->count, side->what, signature->name, (long long)signature->since, side->most);
    }
    for (uint32_t i = 0; status == SP_OK && i < side->count && i < side->operand_count; i++) {
        const struct sp_signature_operand *operand = &side->operands[i];
        if (side->values[i] != NULL || operand->is_optional || operand->is_variadic)
            continue;
        status = sp_diagnose(check->list, &finding, check->err,
                             "Its %s %u is left out, but '%.80s' of %.80s-%lld is not optional.", side->what, i,
                             operand->name, signature->name, (long long)signature->since);
    }
    return status;
}

static enum sp_status check_signature(struct sp_graph_check *check, const struct sp_node *node,
                                      const struct sp_signature *signature)
{
    const struct side inputs = {.what = "input",
                                .missing = "MISSING_INPUT",
                                .too_many = "TOO_MANY_INPUTS",
                                .values = node->inputs,
                                .count = node->input_count,
                                .least = signature->min_inputs,
                                .most = signature->max_inputs,
                                .operand_count = signature->input_count,
                                .operands = signature->inputs};
    const struct side outputs = {.what = "output",
                                 .missing = "MISSING_OUTPUT",
                                 .too_many = "TOO_MANY_OUTPUTS",
                                 .values = node->outputs,
                                 .count = node->output_count,
                                 .least = signature->min_outputs,
                                 .most = signature->max_outputs,
                                 .operand_count = signature->output_count,
                                 .operands = signature->outputs};
    if (signature->is_deprecated) {
        struct sp_finding finding = {.code = "DEPRECATED_OPERATOR", .node = node};
        return sp_diagnose(check->list, &finding, check->err, "%.80s is deprecated since version %lld of %.80s.",
                           signature->name, (long long)signature->since, domain_name(signature->domain));
    }
    enum sp_status status = check_side(check, node, signature, &inputs);
    if (status == SP_OK)
        status = check_side(check, node, signature, &outputs);
    if (status == SP_OK)
        status = check_attributes(check, node, signature);
    return status == SP_OK ? sp_check_node_types(check, node, signature) : status;
}

/* ---- which operator ------------------------------------------------------------------------------------------- */

static enum sp_status check_call(struct sp_graph_check *check, const struct sp_node *node,
                                 const struct sp_function *function)
{
    struct sp_finding finding = {.code = "WRONG_CALL", .node = node};
    if (node->input_count <= function->input_count && node->output_count <= function->output_count)
        return SP_OK;
    return sp_diagnose(check->list, &finding, check->err,
                       "The call has %u inputs and %u outputs, but function '%.80s' has %u and %u.", node->input_count,
                       node->output_count, function->name, function->input_count, function->output_count);
}

static enum sp_status check_unknown(struct sp_graph_check *check, const struct sp_node *node,
                                    struct sp_known_operator *known)
{
    struct sp_finding finding = {.code = "UNKNOWN_OPERATOR", .node = node};
    if (was_removed(node)) {
        finding.code = "REMOVED_OPERATOR";
        return sp_diagnose(check->list, &finding, check->err, "%.80s was experimental and has been removed from ONNX.",
                           node->op_type);
    }
    if (known->is_published && sp_op_find(node->domain, node->op_type, known->version) != NULL) {
        finding.code = "RUNTIME_OPERATOR";
        return sp_diagnose(check->list, &finding, check->err,
                           "%.80s %lld has no operator '%.120s'; ONNX Runtime has one of its own under that name.",
                           domain_name(node->domain), (long long)known->version, node->op_type);
    }
    if (known->is_published && known->first > 0)
        return sp_diagnose(check->list, &finding, check->err,
                           "%.80s has the operator '%.120s' since version %lld, but version %lld is imported.",
                           domain_name(node->domain), node->op_type, (long long)known->first,
                           (long long)known->version);
    if (known->is_published)
        return sp_diagnose(check->list, &finding, check->err, "%.80s has no operator '%.120s'.",
                           domain_name(node->domain), node->op_type);
    if (known->is_noted ||
        sp_private_find(check->model->operators, node->domain, node->op_type, known->version) != NULL)
        return SP_OK;
    known->is_noted = true; /* once for each operator: nothing is wrong */
    finding.code = "UNKNOWN_CUSTOM_OPERATOR";
    return sp_diagnose(check->list, &finding, check->err,
                       "The operator '%.120s' of '%.80s' is not known here and is not checked.", node->op_type,
                       node->domain);
}

enum sp_status sp_check_node(struct sp_graph_check *check, const struct sp_node *node)
{
    struct sp_known_operator *known = sp_known_operator(check, node);
    enum sp_status status = SP_OK;
    if (known == NULL)
        return sp_fail_memory(check->err);
    for (uint32_t i = 0; status == SP_OK && i < node->attribute_count; i++)
        status = check_attribute(check, node, &node->attributes[i]);
    if (status != SP_OK)
        return status;
    if (known->version == 0) {
        struct sp_finding finding = {.code = "DOMAIN_NOT_IMPORTED", .node = node};
        return sp_diagnose(check->list, &finding, check->err,
                           "The node is of domain '%.80s', of which no version is imported.",
                           domain_name(node->domain));
    }
    if (known->function != NULL)
        return check_call(check, node, known->function);
    return known->signature != NULL ? check_signature(check, node, known->signature)
                                    : check_unknown(check, node, known);
}
