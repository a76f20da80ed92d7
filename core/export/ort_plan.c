#include "export/ort_plan.h"

#include <string.h>

#include "infer/view/view.h"

/* Operators that do on pieces what they do on the whole, as long as no factor is cut but parallel ones: their
   attributes and small inputs hold no extents of what may be cut. */
static const char *const piecewise[] = {"Abs",
                                        "Add",
                                        "And",
                                        "BiasGelu",
                                        "BitShift",
                                        "BitwiseAnd",
                                        "BitwiseNot",
                                        "BitwiseOr",
                                        "BitwiseXor",
                                        "Cast",
                                        "Ceil",
                                        "Celu",
                                        "Clip",
                                        "Cos",
                                        "Div",
                                        "Elu",
                                        "Equal",
                                        "Erf",
                                        "Exp",
                                        "FastGelu",
                                        "Floor",
                                        "Gather",
                                        "Gelu",
                                        "Gemm",
                                        "Greater",
                                        "GreaterOrEqual",
                                        "HardSigmoid",
                                        "HardSwish",
                                        "Identity",
                                        "IsInf",
                                        "IsNaN",
                                        "LayerNormalization",
                                        "LeakyRelu",
                                        "Less",
                                        "LessOrEqual",
                                        "Log",
                                        "LogSoftmax",
                                        "MatMul",
                                        "Max",
                                        "Mean",
                                        "Min",
                                        "Mish",
                                        "Mod",
                                        "Mul",
                                        "Neg",
                                        "Not",
                                        "Or",
                                        "PRelu",
                                        "Pow",
                                        "QuickGelu",
                                        "RMSNormalization",
                                        "Reciprocal",
                                        "ReduceMax",
                                        "ReduceMean",
                                        "ReduceMin",
                                        "ReduceProd",
                                        "ReduceSum",
                                        "Relu",
                                        "Round",
                                        "Selu",
                                        "Sigmoid",
                                        "Sign",
                                        "SimplifiedLayerNormalization",
                                        "Sin",
                                        "SkipLayerNormalization",
                                        "Softmax",
                                        "Softplus",
                                        "Softsign",
                                        "Sqrt",
                                        "Squeeze",
                                        "Sub",
                                        "Sum",
                                        "Tan",
                                        "Tanh",
                                        "ThresholdedRelu",
                                        "Transpose",
                                        "Unsqueeze",
                                        "Where",
                                        "Xor"};

static bool is_piecewise(const struct sp_node *node)
{
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0 && strcmp(node->domain, "com.microsoft") != 0)
        return false;
    for (size_t i = 0; i < sizeof piecewise / sizeof piecewise[0]; i++) {
        if (strcmp(piecewise[i], node->op_type) == 0)
            return true;
    }
    return false;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

int64_t *sp_ort_shape(struct sp_arena *arena, const struct sp_type *type)
{
    const struct sp_shape *shape = &type->shape;
    if (type->kind != SP_TYPE_TENSOR || !shape->has_rank || shape->rank > SP_MAX_RANK)
        return NULL;
    int64_t *extents = SP_NEW_ARRAY(arena, shape->rank + 1, int64_t);
    for (uint32_t i = 0; extents != NULL && i < shape->rank; i++)
        extents[i] = sp_dim_is_known(shape->dims[i]) ? shape->dims[i].value : -1;
    return extents;
}

bool sp_ort_is_split(const struct sp_sharding *sharding, const struct sp_type *type)
{
    const uint32_t rank = type->kind == SP_TYPE_TENSOR && type->shape.has_rank ? type->shape.rank : 0;
    for (uint32_t i = 0; sharding != NULL && i < rank; i++) {
        if (sp_sharding_shards(sharding, i) > 1)
            return true;
    }
    return false;
}

static bool is_everywhere(struct sp_ort_plan *plan, const struct sp_sharding *sharding, struct sp_arena *scratch)
{
    if (sharding == plan->everywhere)
        return true;
    const int64_t world = plan->out->subject->device_count, *devices;
    int64_t count = 0;
    if (sp_sharding_devices(scratch, sharding, world, &count, &devices, NULL) != SP_OK || count != world)
        return false;
    plan->everywhere = sharding;
    return true;
}

enum sp_status sp_ort_plan_spec(struct sp_arena *arena, const struct sp_sharding *sharding, const struct sp_type *type,
                                int64_t device_count, struct sp_ort_spec *ret_spec, struct sp_error *err)
{
    struct sp_dialect_context context = {.rank = type->shape.rank, .device_count = device_count};
    struct sp_losses losses = {0};
    struct sp_ort_spec spec = {.rank = type->shape.rank, .mesh_rank = 1, .element_count = device_count};
    context.shape = sp_ort_shape(arena, type);
    if (sharding != NULL && sp_ort_is_split(sharding, type))
        return sp_ort_from_sharding(arena, sharding, &context, ret_spec, &losses, err);
    spec.mesh_axes = SP_NEW_ARRAY(arena, spec.rank + 1, int64_t);
    spec.mesh_shape = SP_NEW_ARRAY(arena, 1, int64_t);
    spec.mesh_elements = SP_NEW_ARRAY(arena, (size_t)device_count, int64_t);
    if (spec.mesh_axes == NULL || spec.mesh_shape == NULL || spec.mesh_elements == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < spec.rank; i++)
        spec.mesh_axes[i] = -1;
    for (int64_t i = 0; i < device_count; i++)
        spec.mesh_elements[i] = i;
    spec.mesh_shape[0] = device_count;
    *ret_spec = spec;
    return SP_OK;
}

static const struct sp_sharding *taken(const struct sp_ort_plan *plan, const struct sp_node *node, uint32_t operand)
{
    const struct sp_subject *subject = plan->out->subject;
    const struct sp_node_specs *specs = &subject->assignment->nodes[sp_dataflow_node(subject->dataflow, node)];
    return specs->operands != NULL ? specs->operands[operand].sharding : NULL;
}

const struct sp_sharding *sp_ort_input(const struct sp_ort_plan *plan, const struct sp_node *node, uint32_t input)
{
    const struct sp_value *value = node->inputs[input];
    if (value == NULL)
        return NULL;
    return sp_ort_is_weight(value) || value->graph != plan->out->subject->model->graph ? taken(plan, node, input)
                                                                                       : plan->held[value->id];
}

const struct sp_sharding *sp_ort_output(const struct sp_ort_plan *plan, const struct sp_node *node, uint32_t output)
{
    return taken(plan, node, node->input_count + output);
}

/* ---- problems -------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 5, 6))) static enum sp_status problem(struct sp_ort_plan *plan,
                                                                    const struct sp_node *node, const char *code,
                                                                    struct sp_error *err, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE], label[264];
    SP_FORMAT(text, format);
    (void)sp_node_label(node, label, sizeof label);
    if (plan->problem_count++ == 0)
        (void)sp_fail(&plan->first, SP_ERR_UNSUPPORTED, code, "%s: %s", label, text);
    return sp_export_note(plan->out, code, node, err, "%s: %s", label, text);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* Everything whole, on every device; a node with subgraphs or a body also where nothing is known of what is inside. */
static bool is_whole(const struct sp_ort_plan *plan, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != NULL && sp_ort_is_split(sp_ort_input(plan, node, i), &node->inputs[i]->type))
            return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL && sp_ort_is_split(sp_ort_output(plan, node, i), &node->outputs[i]->type))
            return false;
    }
    return true;
}

/* Each operand's axes are cut as the node's factors are: then a device has just the pieces that go together. */
static bool fits(const struct sp_ort_plan *plan, const struct sp_node *node, const struct sp_view *view)
{
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const bool is_input = i < node->input_count;
        const struct sp_sharding *sharding =
            is_input ? sp_ort_input(plan, node, i) : sp_ort_output(plan, node, i - node->input_count);
        const struct sp_operand_rule *operand = sp_rule_operand(view->rule, i);
        const struct sp_value *value = is_input ? node->inputs[i] : node->outputs[i - node->input_count];
        for (uint32_t axis = 0; value != NULL && axis < operand->rank; axis++) {
            const struct sp_axis_factors *factors = &operand->axes[axis];
            int64_t shards = 1;
            for (uint8_t k = 0; k < factors->count; k++) {
                const struct sp_block_dim *split = &view->splits[factors->factors[k]];
                for (uint32_t p = 0; p < split->part_count; p++)
                    shards *= split->parts[p].shards;
            }
            if (sharding == NULL ? shards > 1 : sp_sharding_shards(sharding, axis) != shards)
                return false;
        }
    }
    return true;
}

/* Whether no input has to be resharded. */
static enum sp_status comes_as_taken(const struct sp_ort_plan *plan, const struct sp_node *node, bool *ret_does,
                                     struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *ret_does = true;
    for (uint32_t i = 0; status == SP_OK && *ret_does && i < node->input_count; i++) {
        const struct sp_sharding *held = sp_ort_input(plan, node, i), *wanted = taken(plan, node, i);
        if (node->inputs[i] == NULL || held == wanted)
            continue;
        const struct sp_type *type = &node->inputs[i]->type;
        const int64_t *shape = sp_ort_shape(plan->out->scratch, type);
        *ret_does = held != NULL && wanted != NULL && shape != NULL;
        if (*ret_does)
            status = sp_sharding_equal(plan->out->scratch, held, wanted, type->shape.rank,
                                       sp_export_known(shape, type->shape.rank), ret_does, err);
    }
    return status;
}

/* Whether the operator can run on the pieces as it is: nothing is reduced, exchanged or resharded. */
static enum sp_status is_local(const struct sp_ort_plan *plan, const struct sp_node *node, bool *ret_is,
                               struct sp_error *err)
{
    const struct sp_subject *subject = plan->out->subject;
    const uint32_t id = sp_dataflow_node(subject->dataflow, node), relation = plan->relation_of[id];
    struct sp_view *view;
    bool is_right = true;
    *ret_is = false;
    if (!is_piecewise(node) || relation == 0)
        return SP_OK;
    enum sp_status status = comes_as_taken(plan, node, &is_right, err);
    if (status != SP_OK || !is_right)
        return status;
    status = sp_view_create(plan->out->scratch, subject->assignment, &subject->dataflow->relations[relation - 1], &view,
                            err);
    if (status != SP_OK || view->is_too_large || view->conflict_count > 0)
        return status;
    for (uint32_t f = 0; f < view->rule->factor_count; f++) {
        if (view->splits[f].part_count > 0 && view->rule->factors[f].kind != SP_FACTOR_PARALLEL)
            return SP_OK;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        bool is_equal = node->outputs[i] == NULL;
        const struct sp_sharding *stated = sp_ort_output(plan, node, i);
        if (view->is_partial[i])
            return SP_OK;
        if (!is_equal && stated != NULL && view->results[i] != NULL) {
            const struct sp_type *type = &node->outputs[i]->type;
            status = sp_sharding_equal(plan->out->scratch, stated, view->results[i], type->shape.rank,
                                       sp_export_known(sp_ort_shape(plan->out->scratch, type), type->shape.rank),
                                       &is_equal, err);
        }
        if (status != SP_OK || !is_equal)
            return status;
    }
    *ret_is = fits(plan, node, view);
    return SP_OK;
}

/* ---- Distributed operators ------------------------------------------------------------------------------------- */

/* The integers of an axes input or attribute, where they are known. */
static void read_axes(const struct sp_node *node, struct sp_ort_case *it, struct sp_arena *scratch)
{
    const bool is_slice = strcmp(node->op_type, "Slice") == 0;
    const uint32_t input = is_slice ? 3 : 1;
    const struct sp_data *data =
        input < node->input_count && node->inputs[input] != NULL ? node->inputs[input]->data : NULL;
    if (strcmp(node->op_type, "MatMul") == 0 || strcmp(node->op_type, "Reshape") == 0 ||
        strcmp(node->op_type, "Expand") == 0 || data == NULL || data->ints == NULL)
        return; /* axes as an attribute: the Distributed forms have an input */
    int64_t *axes = SP_NEW_ARRAY(scratch, (size_t)data->count + 1, int64_t);
    for (uint32_t i = 0; axes != NULL && i < data->count; i++) {
        if (!sp_dim_is_known(data->ints[i]))
            return;
        axes[i] = data->ints[i].value;
    }
    it->has_axes = axes != NULL;
    it->axis_count = data->count;
    it->axes = axes;
}

static enum sp_status fill_tensor(const struct sp_ort_plan *plan, const struct sp_sharding *sharding,
                                  const struct sp_value *value, struct sp_ort_tensor *ret_tensor, struct sp_error *err)
{
    struct sp_arena *scratch = plan->out->scratch;
    struct sp_ort_spec *spec = SP_NEW(scratch, struct sp_ort_spec);
    ret_tensor->shape = sp_ort_shape(scratch, &value->type);
    if (spec == NULL)
        return sp_fail_memory(err);
    if (ret_tensor->shape == NULL)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "RANK_UNKNOWN", "The number of axes of '%.200s' is not known.",
                       value->name);
    ret_tensor->spec = spec;
    return sp_ort_plan_spec(scratch, sharding, &value->type, plan->out->subject->device_count, spec, err);
}

/* SP_ERR_UNSUPPORTED where a tensor cannot be said in ONNX Runtime's notation. */
static enum sp_status judge(const struct sp_ort_plan *plan, const struct sp_node *node,
                            enum sp_ort_verdict *ret_verdict, const char **ret_why, struct sp_error *err)
{
    struct sp_ort_case it = {.op_type = node->op_type,
                             .world = plan->out->subject->device_count,
                             .keeps_dims = sp_node_int(node, "keepdims", 1) != 0};
    enum sp_status status = SP_OK;
    *ret_verdict = SP_ORT_REFUSED;
    *ret_why = "ONNX Runtime has no Distributed form of this operator.";
    if (!sp_ort_has_distributed(node->op_type) || node->domain[0] != '\0' || node->input_count == 0 ||
        node->input_count > SP_ORT_MAX_INPUTS || node->inputs[0] == NULL || node->outputs[0] == NULL)
        return SP_OK;
    it.dtype = node->inputs[0]->type.dtype;
    for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++) {
        if (node->inputs[i] != NULL)
            status = fill_tensor(plan, sp_ort_input(plan, node, i), node->inputs[i], &it.inputs[i], err);
    }
    if (status == SP_OK)
        status = fill_tensor(plan, sp_ort_output(plan, node, 0), node->outputs[0], &it.output, err);
    read_axes(node, &it, plan->out->scratch);
    if (status == SP_OK)
        *ret_verdict = sp_ort_judge(&it, plan->out->scratch, ret_why);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

/* Whether all that is known of the node is on all devices. */
static bool is_on_all(struct sp_ort_plan *plan, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const struct sp_sharding *sharding = taken(plan, node, i);
        if (sharding != NULL && !is_everywhere(plan, sharding, plan->out->scratch))
            return false;
    }
    return true;
}

static enum sp_status choose(struct sp_ort_plan *plan, const struct sp_node *node, struct sp_error *err)
{
    struct sp_error why_not = {0};
    const char *why = NULL;
    enum sp_ort_verdict verdict;
    bool is = false;
    if (!is_on_all(plan, node))
        return problem(plan, node, "PART_OF_THE_DEVICES", err,
                       "It runs on a part of the devices; in such a model every rank runs every node.");
    if (is_whole(plan, node))
        return SP_OK;
    enum sp_status status = judge(plan, node, &verdict, &why, &why_not);
    if (status == SP_ERR_UNSUPPORTED) {
        verdict = SP_ORT_REFUSED;
        why = why_not.message;
    } else if (status != SP_OK) {
        if (err != NULL)
            *err = why_not;
        return status;
    }
    plan->forms[node->index] = SP_ORT_DISTRIBUTED;
    if (verdict == SP_ORT_ACCEPTED)
        return SP_OK;
    status = is_local(plan, node, &is, err);
    if (status == SP_OK && is) {
        plan->forms[node->index] = SP_ORT_LOCAL;
        return SP_OK;
    }
    if (status != SP_OK)
        return status;
    if (verdict == SP_ORT_UNTESTED)
        return sp_export_note(plan->out, "ORT_UNTESTED", node, err, "%.200s (Distributed%.60s): %s", node->name,
                              node->op_type, why);
    return problem(plan, node, verdict == SP_ORT_WRONG ? "ORT_WRONG" : "ORT_REFUSED", err, "%s", why);
}

/* How the ranks have each value: as it is made; inputs as their first use takes them. */
static void find_held(struct sp_ort_plan *plan)
{
    const struct sp_graph *graph = plan->out->subject->model->graph;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        if (value->producer != NULL)
            plan->held[i] = sp_ort_output(plan, value->producer, value->producer_output);
        for (uint32_t u = 0; value->producer == NULL && plan->held[i] == NULL && u < value->use_count; u++) {
            if (value->uses[u].input != UINT32_MAX)
                plan->held[i] = taken(plan, value->uses[u].node, value->uses[u].input);
        }
    }
}

/* Values that subgraphs use by name must be whole: what is inside is written as it is. */
static enum sp_status check_captures(struct sp_ort_plan *plan, struct sp_error *err)
{
    const struct sp_graph *graph = plan->out->subject->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        for (uint32_t u = 0; status == SP_OK && u < value->use_count; u++) {
            if (value->uses[u].input == UINT32_MAX && sp_ort_is_split(plan->held[i], &value->type))
                status = problem(plan, value->uses[u].node, "ORT_REFUSED", err,
                                 "A subgraph uses '%.200s', which is split.", value->name);
        }
    }
    return status;
}

enum sp_status sp_ort_plan_make(struct sp_export *out, struct sp_arena *arena, struct sp_ort_plan *ret_plan,
                                struct sp_error *err)
{
    const struct sp_dataflow *dataflow = out->subject->dataflow;
    const struct sp_graph *graph = out->subject->model->graph;
    uint32_t *relation_of = SP_NEW_ARRAY(arena, dataflow->node_count, uint32_t);
    struct sp_ort_plan plan = {.out = out, .arena = arena, .relation_of = relation_of};
    plan.held = SP_NEW_ARRAY(arena, graph->value_count, const struct sp_sharding *);
    plan.forms = SP_NEW_ARRAY(arena, graph->node_count, enum sp_ort_form);
    if (relation_of == NULL || plan.held == NULL || plan.forms == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < dataflow->relation_count; i++) {
        if (dataflow->relations[i].kind == SP_RELATION_NODE)
            relation_of[dataflow->relations[i].node_id] = i + 1;
    }
    find_held(&plan);
    enum sp_status status = check_captures(&plan, err);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        struct sp_arena_mark mark = sp_arena_mark(out->scratch);
        status = choose(&plan, &graph->nodes[i], err);
        sp_arena_rewind(out->scratch, mark);
    }
    *ret_plan = plan;
    return status;
}
