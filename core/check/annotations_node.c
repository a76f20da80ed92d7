/* What a node says for one configuration: which configuration, which stage, which tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/annotations.h"
#include "onnx/reader.h"

#define HINT_SIZE       512
#define MAX_CANDIDATES  64 /* operands that a wrong name is compared with */
#define MAX_TYPO_LENGTH 48 /* names up to this long are compared letter by letter */

/* ---- the likely cause of a name that is none of the node's ---------------------------------------------------- */

/* Insertions, deletions and changes of one letter between two short names. */
static size_t distance(const char *a, const char *b)
{
    size_t row[MAX_TYPO_LENGTH + 1];
    const size_t rows = strlen(a), columns = strlen(b);
    if (rows > MAX_TYPO_LENGTH || columns > MAX_TYPO_LENGTH)
        return SIZE_MAX;
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            const size_t above = row[j];
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
        }
    }
    return row[columns];
}

static bool ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), tail = strlen(end);
    return size > tail && tail > 0 && strcmp(text + size - tail, end) == 0;
}

/* "t__1" is what inlining makes of the name "t". */
static bool is_inlined(const char *name, const char *formal)
{
    const size_t size = strlen(formal);
    if (strncmp(name, formal, size) != 0 || strncmp(name + size, "__", 2) != 0)
        return false;
    return name[size + 2] != '\0' && name[size + 2 + strspn(name + size + 2, "0123456789")] == '\0';
}

static const struct sp_value *operand(const struct sp_node *node, uint32_t index)
{
    return index < node->input_count ? node->inputs[index] : node->outputs[index - node->input_count];
}

/* The operand that was probably meant, and in `hint` why. */
static bool explain_by_operand(const struct sp_node *node, const char *name, char *hint)
{
    const uint32_t count = node->input_count + node->output_count;
    for (uint32_t i = 0; i < count && i < MAX_CANDIDATES; i++) {
        const struct sp_value *value = operand(node, i);
        if (value == NULL || value->name[0] == '\0')
            continue;
        if (is_inlined(value->name, name)) {
            (void)snprintf(hint, HINT_SIZE,
                           "The node's '%.120s' looks like '%.120s' after its function was inlined: inlining renames "
                           "tensors, but leaves the names in specs. Name '%.120s' here.",
                           value->name, name, value->name);
            return true;
        }
        if (ends_with(value->name, name) || ends_with(name, value->name)) {
            (void)snprintf(
                hint, HINT_SIZE,
                "The node has '%.120s', which differs in a prefix: merging models or adding a prefix renames "
                "tensors, but leaves the names in specs. Name '%.120s' here.",
                value->name, value->name);
            return true;
        }
    }
    for (uint32_t i = 0; i < count && i < MAX_CANDIDATES; i++) {
        const struct sp_value *value = operand(node, i);
        const size_t length = strlen(name);
        if (value == NULL || length < 3 || distance(name, value->name) > (length < 6 ? 1 : 2))
            continue;
        (void)snprintf(hint, HINT_SIZE,
                       "Did you mean '%.120s'? The tensor may have been renamed since it was annotated.", value->name);
        return true;
    }
    return false;
}

static bool explain_by_function(const struct sp_model *model, const char *name, char *hint)
{
    for (uint32_t f = 0; f < model->function_count; f++) {
        const struct sp_function *function = &model->functions[f];
        for (uint32_t i = 0; i < function->input_count + function->output_count; i++) {
            const char *formal =
                i < function->input_count ? function->inputs[i] : function->outputs[i - function->input_count];
            if (strcmp(formal, name) != 0)
                continue;
            (void)snprintf(
                hint, HINT_SIZE,
                "'%.120s' is a formal name of function '%.120s': a node that was copied out of its body keeps "
                "such names in its specs. Name the tensor that stands here for it.",
                name, function->name);
            return true;
        }
    }
    return false;
}

static const char *likely_cause(struct sp_annotation_check *check, const char *name, char *hint)
{
    const struct sp_node *node = check->node;
    if (check->searches_left == 0)
        return NULL;
    check->searches_left--;
    if (explain_by_operand(node, name, hint))
        return hint;
    for (const struct sp_graph *graph = node->graph; graph != NULL; graph = graph->parent) {
        if (sp_graph_value(graph, name) == NULL)
            continue;
        (void)snprintf(hint, HINT_SIZE,
                       "The graph has a tensor '%.120s', but it is neither input nor output of this node: annotate the "
                       "nodes that make and use it.",
                       name);
        return hint;
    }
    return explain_by_function(check->model, name, hint) ? hint : NULL;
}

/* A formal input of the function whose body this is, which the call at hand leaves out. */
static bool is_left_out(const struct sp_annotation_check *check, const char *name)
{
    const struct sp_graph *graph = check->node->graph;
    while (graph->parent != NULL)
        graph = graph->parent;
    if (graph->owner == NULL)
        return false;
    const struct sp_function *function = sp_onnx_function(check->model, graph->owner);
    for (uint32_t i = 0; function != NULL && i < function->input_count; i++) {
        if (strcmp(function->inputs[i], name) == 0)
            return i >= graph->owner->input_count || graph->owner->inputs[i] == NULL;
    }
    return false;
}

/* ---- specs ---------------------------------------------------------------------------------------------------- */

static void find_shape(struct sp_spec_check *spec)
{
    const struct sp_value *value = spec->value;
    const struct sp_type *type = value == NULL ? NULL : &value->type;
    spec->rank = -1;
    if (type != NULL && (type->kind != SP_TYPE_TENSOR || !type->shape.has_rank))
        type = &value->declared;
    if (type == NULL || type->kind != SP_TYPE_TENSOR || !type->shape.has_rank)
        return;
    spec->rank = type->shape.rank;
    spec->dims = type->shape.dims;
}

/* Which tensor a spec is of. *ret_skip: nothing more can be said of it. */
static enum sp_status check_tensor(struct sp_annotation_check *check, struct sp_spec_check *spec, bool *ret_skip)
{
    const struct sp_node *node = check->node;
    const char *name = spec->spec->tensor_name;
    char label[SP_ERROR_WHERE_SIZE], hint[HINT_SIZE];
    *ret_skip = false;
    (void)sp_node_label(node, label, sizeof label);
    if (name[0] == '\0')
        return sp_annotation_report(check, "TENSOR_NAME_MISSING", NULL, NULL,
                                    "A sharding spec of %s has no tensor_name: it is absent or empty.", label);
    struct sp_name_stamp *stamp = sp_annotation_stamp(check, name);
    if (stamp == NULL)
        return sp_fail_memory(check->err);
    if (stamp->operand != check->node_stamp) {
        if (is_left_out(check, name)) {
            *ret_skip = true;
            return SP_OK;
        }
        return sp_annotation_report(check, "TENSOR_NOT_OF_NODE", name, likely_cause(check, name, hint),
                                    "A sharding spec of %s is for tensor '%.120s', which is neither an input nor an "
                                    "output of this node.",
                                    label, name);
    }
    if (stamp->spec == check->entry_stamp)
        return sp_annotation_report(check, "SPEC_TWICE", name, NULL,
                                    "%s has two sharding specs for tensor '%.120s' in one configuration.", label, name);
    stamp->spec = check->entry_stamp;
    spec->tensor = name;
    spec->value = operand(node, stamp->position);
    return SP_OK;
}

static enum sp_status check_spec(struct sp_annotation_check *check, const struct sp_sharding_spec *from)
{
    struct sp_spec_check spec = {.spec = from, .tensor = from->tensor_name, .shards = -1};
    bool skip = false;
    if (check->device != NULL && check->device->has_num_devices && check->device->num_devices >= 1)
        spec.device_count = check->device->num_devices;
    enum sp_status status = check_tensor(check, &spec, &skip);
    if (status != SP_OK || skip)
        return status;
    find_shape(&spec);
    if (spec.value != NULL && spec.rank < 0 && spec.value->type.kind != SP_TYPE_TENSOR &&
        spec.value->type.kind != SP_TYPE_SPARSE_TENSOR && spec.value->type.kind != SP_TYPE_NONE)
        return sp_annotation_report(check, "NOT_A_TENSOR", spec.tensor, NULL,
                                    "A sharding spec is for '%.120s', which is a sequence, map or optional; only "
                                    "tensors can be sharded.",
                                    spec.tensor);
    struct sp_arena_mark mark = sp_arena_mark(check->scratch);
    status = sp_check_spec_axes(check, &spec);
    if (status == SP_OK)
        status = sp_check_spec_devices(check, &spec);
    sp_arena_rewind(check->scratch, mark);
    return status;
}

/* ---- entries -------------------------------------------------------------------------------------------------- */

/* Which configuration an entry is for; check->device is set where that can be told. */
static enum sp_status check_identity(struct sp_annotation_check *check, const char *label, bool *ret_skip)
{
    const struct sp_model *model = check->model;
    const char *id = check->entry->configuration_id;
    check->device = NULL;
    *ret_skip = check->configuration != NULL && id[0] != '\0' && strcmp(id, check->configuration) != 0;
    if (*ret_skip)
        return SP_OK;
    if (id[0] == '\0')
        return sp_annotation_report(check, "CONFIGURATION_ID_MISSING", NULL, NULL,
                                    "A device configuration of %s has no configuration_id: it is absent or empty.",
                                    label);
    struct sp_name_stamp *stamp = sp_annotation_stamp(check, id);
    if (stamp == NULL)
        return sp_fail_memory(check->err);
    if (stamp->entry == check->node_stamp) {
        *ret_skip = true;
        return sp_annotation_report(check, "ENTRY_TWICE", NULL, NULL,
                                    "%s has two device configurations with configuration_id '%.120s'.", label, id);
    }
    stamp->entry = check->node_stamp;
    if (stamp->configuration != 0) {
        check->device = &model->configurations[stamp->configuration - 1];
        if (check->entry->has_stage || check->entry->spec_count > 0)
            check->entry_counts[stamp->configuration - 1]++;
        return SP_OK;
    }
    if (model->configuration_count > 0)
        return sp_annotation_report(check, "CONFIGURATION_UNKNOWN", NULL, NULL,
                                    "%s is annotated for configuration '%.120s', which the model does not have; its "
                                    "first is '%.120s'.",
                                    label, id, model->configurations[0].name);
    if (stamp->is_reported)
        return SP_OK;
    stamp->is_reported = true;
    return sp_annotation_report(check, "CONFIGURATIONS_LOST", NULL, NULL,
                                "%s is annotated for configuration '%.120s', but the model has no device configuration "
                                "at all; the same holds for all nodes that name it.",
                                label, id);
}

static enum sp_status check_entry(struct sp_annotation_check *check)
{
    const struct sp_node_configuration *entry = check->entry;
    char label[SP_ERROR_WHERE_SIZE];
    bool skip = false;
    (void)sp_node_label(check->node, label, sizeof label);
    enum sp_status status = check_identity(check, label, &skip);
    if (status != SP_OK || skip)
        return status;
    check->entry_stamp++;
    if (entry->has_stage && entry->stage < 0)
        status = sp_annotation_report(check, "STAGE_NEGATIVE", NULL, NULL,
                                      "%s has pipeline_stage %" PRId32 ", but stages are numbered from 0.", label,
                                      entry->stage);
    else if (!entry->has_stage && entry->spec_count == 0)
        status = sp_annotation_report(
            check, "ENTRY_EMPTY", NULL, NULL,
            "%s has a device configuration that says neither a pipeline stage nor a sharding.", label);
    for (uint32_t i = 0; status == SP_OK && i < entry->spec_count; i++)
        status = check_spec(check, &entry->specs[i]);
    return status;
}

enum sp_status sp_check_node_annotations(struct sp_annotation_check *check, const struct sp_node *node)
{
    enum sp_status status = SP_OK;
    if (node->configuration_count == 0)
        return SP_OK;
    check->has_annotations = true;
    check->node = node;
    check->node_stamp++;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const struct sp_value *value = operand(node, i);
        struct sp_name_stamp *stamp = value == NULL ? NULL : sp_annotation_stamp(check, value->name);
        if (value != NULL && stamp == NULL)
            return sp_fail_memory(check->err);
        if (stamp != NULL) {
            stamp->operand = check->node_stamp;
            stamp->position = i;
        }
    }
    for (uint32_t i = 0; status == SP_OK && i < node->configuration_count; i++) {
        check->entry = &node->configurations[i];
        status = check_entry(check);
    }
    check->node = NULL;
    check->entry = NULL;
    check->device = NULL;
    return status;
}
