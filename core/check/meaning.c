/* Shardings against the operators' rules. */
#include "check/meaning.h"

#include <string.h>

#include "base/limits.h"
#include "infer/forward.h"

/* ---- model inputs and outputs --------------------------------------------------------------------------------- */

/* A sharding that cuts its tensor, in words; NULL for one that leaves it whole. */
static const char *cut_text(const struct sp_value *value, const struct sp_sharding *sharding, char *text, size_t size)
{
    for (uint32_t axis = 0; axis < value->type.shape.rank; axis++) {
        if (sp_sharding_shards(sharding, axis) > 1)
            return sp_spec_text(sharding, text, size);
    }
    return NULL;
}

/* The first use of a model input by a node that takes it in pieces. */
static enum sp_status check_input(struct sp_meaning *meaning, const struct sp_value *input)
{
    const struct sp_dataflow *dataflow = meaning->assignment->dataflow;
    char text[SP_SPEC_TEXT_SIZE], label[SP_ERROR_WHERE_SIZE];
    for (uint32_t i = 0; i < input->use_count; i++) {
        const struct sp_use *use = &input->uses[i];
        const uint32_t id = use->input == UINT32_MAX ? UINT32_MAX : sp_dataflow_node(dataflow, use->node);
        if (id == UINT32_MAX || use->node->body != NULL)
            continue;
        const struct sp_spec_entry *entry = sp_spec_of(meaning->assignment, id, use->input);
        if (entry->origin != SP_SPEC_GIVEN || cut_text(input, entry->sharding, text, sizeof text) == NULL)
            continue;
        return sp_meaning_report(meaning, "INPUT_SHARDED", use->node, input->name, NULL, 0,
                                 "Model input '%.120s' is used in pieces (%s) by %s, but arrives whole: the runtime "
                                 "distributes it.",
                                 input->name, text, sp_node_label(use->node, label, sizeof label));
    }
    return SP_OK;
}

static enum sp_status check_output(struct sp_meaning *meaning, const struct sp_value *output)
{
    const struct sp_dataflow *dataflow = meaning->assignment->dataflow;
    const struct sp_node *node = output->producer;
    char text[SP_SPEC_TEXT_SIZE], label[SP_ERROR_WHERE_SIZE];
    const uint32_t id = node == NULL ? UINT32_MAX : sp_dataflow_node(dataflow, node);
    if (id == UINT32_MAX || node->body != NULL)
        return SP_OK;
    const struct sp_spec_entry *entry =
        sp_spec_of(meaning->assignment, id, node->input_count + output->producer_output);
    if (!sp_meaning_is_said(entry) || cut_text(output, entry->sharding, text, sizeof text) == NULL)
        return SP_OK;
    return sp_meaning_report(meaning, "OUTPUT_SHARDED", node, output->name, NULL, 0,
                             "Model output '%.120s' comes out of %s in pieces (%s): the runtime gathers it, or hands "
                             "out pieces.",
                             output->name, sp_node_label(node, label, sizeof label), text);
}

static enum sp_status check_borders(struct sp_meaning *meaning)
{
    const struct sp_graph *graph = meaning->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        const struct sp_value *input = graph->inputs[i];
        if (input->kind == SP_VALUE_INPUT && input->type.kind == SP_TYPE_TENSOR && input->type.shape.has_rank)
            status = check_input(meaning, input);
    }
    for (uint32_t i = 0; status == SP_OK && i < graph->output_count; i++) {
        const struct sp_value *output = graph->outputs[i];
        if (output->graph == graph && output->type.kind == SP_TYPE_TENSOR && output->type.shape.has_rank)
            status = check_output(meaning, output);
    }
    return status;
}

/* ---- one configuration ---------------------------------------------------------------------------------------- */

/* Where the engine could not look: what contradicts is told from the nodes' views. */
static enum sp_status report_stops(struct sp_meaning *meaning)
{
    const struct sp_assignment *assignment = meaning->assignment;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < assignment->stop_count; i++) {
        const struct sp_stop *stop = &assignment->stops[i];
        if (strcmp(stop->code, "RANK_UNKNOWN") == 0 || strcmp(stop->code, "NO_RULE") == 0 ||
            strcmp(stop->code, "TOO_LARGE") == 0)
            status =
                sp_meaning_report(meaning, "NOT_LOOKED_AT", stop->node, stop->tensor, NULL, 0, "%s", stop->message);
    }
    return status;
}

/* What is wrong with the structure was told by the check of annotations; what is too large is told here. */
static enum sp_status not_checked(struct sp_meaning *meaning, enum sp_status status, const struct sp_error *why)
{
    if (status != SP_ERR_MODEL && status != SP_ERR_LIMIT)
        return sp_fail(meaning->err, status, why->code, "%s", why->message);
    return sp_meaning_report(meaning, "NOT_LOOKED_AT", NULL, NULL, NULL, 0,
                             "What the annotations for configuration '%.120s' mean was not looked at: %s",
                             meaning->configuration, why->message);
}

/* Completes the specs, and looks at each node. In an arena of its own: a model may have thousands of configurations. */
static enum sp_status check_nodes(struct sp_meaning *meaning, struct sp_arena *arena, int64_t device_count,
                                  bool *ret_looked_at)
{
    struct sp_error why;
    struct sp_dataflow *dataflow = NULL;
    sp_error_clear(&why);
    enum sp_status status = sp_dataflow_create(arena, meaning->model, &dataflow, &why);
    if (status == SP_OK)
        status = sp_assignment_create(arena, dataflow, meaning->configuration, device_count, NULL, &meaning->assignment,
                                      &why);
    if (status == SP_OK)
        status = sp_infer_forward(meaning->assignment, &why);
    *ret_looked_at = status == SP_OK;
    if (status != SP_OK)
        return not_checked(meaning, status, &why);
    status = report_stops(meaning);
    return status == SP_OK ? sp_check_meaning_nodes(meaning) : status;
}

static enum sp_status check_all(struct sp_meaning *meaning, struct sp_arena *arena, int64_t device_count)
{
    bool is_looked_at = false;
    enum sp_status status = check_nodes(meaning, arena, device_count, &is_looked_at);
    if (status != SP_OK || !is_looked_at)
        return status;
    status = sp_check_meaning_communication(meaning);
    if (status == SP_OK)
        status = sp_check_meaning_stages(meaning);
    if (status == SP_OK)
        status = check_borders(meaning);
    if (status == SP_OK)
        status = sp_check_meaning_states(meaning);
    if (status == SP_OK && meaning->memory_bytes > 0)
        status = sp_check_meaning_memory(meaning);
    return status;
}

static enum sp_status check_configuration(struct sp_model *model, const struct sp_device_configuration *configuration,
                                          bool is_looked_at, double memory_bytes, struct sp_diagnostics *list,
                                          struct sp_error *err)
{
    if (!configuration->has_num_devices || configuration->num_devices < 1)
        return SP_OK; /* an error of the annotations */
    struct sp_meaning meaning = {.model = model,
                                 .list = list,
                                 .err = err,
                                 .configuration = configuration->name,
                                 .memory_bytes = memory_bytes,
                                 .scratch = sp_arena_create(sp_arena_budget(list->arena))};
    if (!is_looked_at) {
        sp_arena_destroy(meaning.scratch);
        return sp_meaning_report(
            &meaning, "NOT_LOOKED_AT", NULL, NULL, NULL, 0,
            "What the annotations for configuration '%.120s' mean was not looked at: the model has "
            "too many nodes for so many configurations. Ask for this one alone.",
            configuration->name);
    }
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(list->arena));
    enum sp_status status = meaning.scratch != NULL && arena != NULL
                                ? check_all(&meaning, arena, configuration->num_devices)
                                : sp_fail_memory(err);
    sp_arena_destroy(arena);
    sp_arena_destroy(meaning.scratch);
    return status;
}

enum sp_status sp_check_meaning_of(struct sp_model *model, const struct sp_device_configuration *configuration,
                                   double memory_bytes, struct sp_diagnostics *list, struct sp_error *err)
{
    /* Every configuration passes over every node. */
    const uint64_t before = (uint64_t)(configuration - model->configurations);
    const bool is_looked_at =
        before * model->counts.nodes <= SP_FREE_CONFIGURED_NODES + model->size / SP_CONFIGURED_NODE_BYTES;
    return check_configuration(model, configuration, is_looked_at, memory_bytes, list, err);
}

enum sp_status sp_check_contradictions(struct sp_model *model, const char *configuration, int64_t device_count,
                                       struct sp_diagnostics *list, struct sp_error *err)
{
    struct sp_budget *budget = sp_arena_budget(list->arena);
    struct sp_arena *arena = sp_arena_create(budget);
    bool is_looked_at = false;
    struct sp_meaning meaning = {
        .model = model, .list = list, .err = err, .configuration = configuration, .scratch = sp_arena_create(budget)};
    enum sp_status status = arena != NULL && meaning.scratch != NULL
                                ? check_nodes(&meaning, arena, device_count, &is_looked_at)
                                : sp_fail_memory(err);
    sp_arena_destroy(meaning.scratch);
    sp_arena_destroy(arena);
    return status;
}

enum sp_status sp_check_meaning(struct sp_model *model, const char *configuration, double memory_bytes,
                                struct sp_diagnostics *list, struct sp_error *err)
{
    for (uint32_t i = 0; i < model->configuration_count; i++) {
        if (strcmp(model->configurations[i].name, configuration) == 0)
            return check_configuration(model, &model->configurations[i], true, memory_bytes, list, err);
    }
    return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_CONFIGURATION",
                   "The model has no device configuration named '%.120s'.", configuration);
}
