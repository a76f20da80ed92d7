/* Model-local functions. */
#include "check/graph_internal.h"

static const char *place_of(struct sp_graph_check *check, const struct sp_function *function)
{
    return sp_arena_printf(check->scratch, "function %.120s", function->name);
}

static enum sp_status check_outputs(struct sp_graph_check *check, const struct sp_function *function, const char *place)
{
    const char **names = SP_NEW_ARRAY(check->scratch, function->output_count, const char *);
    if (names == NULL)
        return sp_fail_memory(check->err);
    for (uint32_t i = 0; i < function->output_count; i++)
        names[i] = function->outputs[i];
    const char *twice = sp_first_duplicate(names, function->output_count);
    if (twice == NULL)
        return SP_OK;
    struct sp_finding finding = {.code = "DUPLICATE_FUNCTION_OUTPUT", .place = place, .tensor = twice};
    return sp_diagnose(check->list, &finding, check->err, "Function '%.80s' has several outputs named '%.120s'.",
                       function->name, twice);
}

enum sp_status sp_check_function(struct sp_graph_check *check, const struct sp_function *function)
{
    const struct sp_model *model = check->model;
    struct sp_arena_mark mark = sp_arena_mark(check->scratch);
    struct sp_finding finding = {.place = place_of(check, function)};
    enum sp_status status = finding.place == NULL ? sp_fail_memory(check->err) : SP_OK;
    if (status == SP_OK && function == model->functions && model->has_ir_version && model->ir_version < 8) {
        finding.code = "FUNCTIONS_BEFORE_IR_8";
        status = sp_diagnose(check->list, &finding, check->err, "The model has functions, but its ir_version is %lld.",
                             (long long)model->ir_version);
    }
    if (status == SP_OK && function->domain[0] == '\0') {
        finding.code = "NO_FUNCTION_DOMAIN";
        status = sp_diagnose(check->list, &finding, check->err, "Function '%.80s' has no domain.", function->name);
    }
    if (status == SP_OK && function->opset_count == 0) {
        finding.code = "NO_FUNCTION_OPSET";
        status =
            sp_diagnose(check->list, &finding, check->err, "Function '%.80s' imports no operator set.", function->name);
    }
    if (status == SP_OK)
        status = check_outputs(check, function, finding.place);
    sp_arena_rewind(check->scratch, mark);
    return status;
}

/* The model's imports may differ from the function's as long as the operator means the same under both. */
enum sp_status sp_check_function_node(struct sp_graph_check *check, const struct sp_node *node)
{
    const struct sp_known_operator *known = sp_known_operator(check, node);
    if (known == NULL)
        return sp_fail_memory(check->err);
    const int64_t outside = sp_graph_import(check->model->graph, node->domain);
    if (known->function != NULL || known->version == 0 || outside == 0 || outside == known->version)
        return SP_OK;
    const struct sp_signature *other = sp_signature_find(node->domain, node->op_type, outside);
    if (other == known->signature)
        return SP_OK;
    struct sp_finding finding = {.code = "FUNCTION_OPSET_CONFLICT", .node = node};
    return sp_diagnose(check->list, &finding, check->err,
                       "The function imports version %lld of '%.80s' and the model version %lld, and %.80s differs "
                       "between them.",
                       (long long)known->version, node->domain[0] == '\0' ? "ai.onnx" : node->domain,
                       (long long)outside, node->op_type);
}
