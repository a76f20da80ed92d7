/* The structure of multi-device data: configurations, and the walk to every node that may be annotated. */
#include "check/annotations.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "onnx/reader.h"
#include "onnx/writer.h"

#define MAX_SEARCHES     1000 /* a file with more wrong names than that needs no hint for each */
#define MAX_LISTED_NAMES 8

/* ---- configurations ------------------------------------------------------------------------------------------- */

/* "'c0', 'c1'": what the model has, for messages about what it has not. */
static const char *configuration_names(const struct sp_model *model, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < model->configuration_count && i < MAX_LISTED_NAMES && used + 100 < size; i++) {
        int length = snprintf(text + used, size - used, "%s'%.80s'", i == 0 ? "" : ", ", model->configurations[i].name);
        used += length > 0 ? (size_t)length : 0;
    }
    if (model->configuration_count > MAX_LISTED_NAMES && used + 8 < size)
        (void)snprintf(text + used, size - used, ", ..");
    return text;
}

static enum sp_status check_device_names(struct sp_annotation_check *check)
{
    const struct sp_device_configuration *device = check->device;
    enum sp_status status = SP_OK;
    if (device->device_count > 0 && device->has_num_devices && device->num_devices >= 1 &&
        device->device_count != (uint32_t)device->num_devices)
        status =
            sp_annotation_report(check, "DEVICE_NAMES_COUNT", NULL, NULL,
                                 "Configuration '%.120s' has %" PRIu32 " names of devices for num_devices %" PRId32 ".",
                                 device->name, device->device_count, device->num_devices);
    check->entry_stamp++;
    for (uint32_t i = 0; status == SP_OK && i < device->device_count; i++) {
        struct sp_name_stamp *stamp = sp_annotation_stamp(check, device->devices[i]);
        if (stamp == NULL)
            return sp_fail_memory(check->err);
        if (stamp->spec == check->entry_stamp)
            status = sp_annotation_report(check, "DEVICE_NAME_TWICE", NULL, NULL,
                                          "Configuration '%.120s' gives the name '%.120s' to two devices.",
                                          device->name, device->devices[i]);
        stamp->spec = check->entry_stamp;
    }
    return status;
}

static enum sp_status check_configuration(struct sp_annotation_check *check, uint32_t index)
{
    const struct sp_device_configuration *device = &check->model->configurations[index];
    struct sp_name_stamp *stamp = sp_annotation_stamp(check, device->name);
    enum sp_status status = SP_OK;
    if (stamp == NULL)
        return sp_fail_memory(check->err);
    if (stamp->configuration == 0)
        stamp->configuration = index + 1;
    if (check->configuration != NULL && strcmp(device->name, check->configuration) != 0)
        return SP_OK;
    check->device = device;
    if (device->name[0] == '\0')
        status = sp_annotation_report(check, "CONFIGURATION_UNNAMED", NULL, NULL,
                                      "Configuration %" PRIu32 " of the model has no name: its name is absent or "
                                      "empty, so no node can refer to it.",
                                      index);
    else if (stamp->configuration != index + 1)
        status = sp_annotation_report(check, "CONFIGURATION_TWICE", NULL, NULL,
                                      "The model has two configurations named '%.120s' (%" PRIu32 " and %" PRIu32
                                      "), so annotations do not say which one they mean.",
                                      device->name, stamp->configuration - 1, index);
    if (status == SP_OK && !device->has_num_devices)
        status = sp_annotation_report(check, "NUM_DEVICES_MISSING", NULL, NULL,
                                      "Configuration '%.120s' does not say its num_devices.", device->name);
    else if (status == SP_OK && device->num_devices < 1)
        status = sp_annotation_report(check, "NUM_DEVICES_INVALID", NULL, NULL,
                                      "Configuration '%.120s' has num_devices %" PRId32 ", but the number must be 1 or "
                                      "more.",
                                      device->name, device->num_devices);
    if (status == SP_OK)
        status = check_device_names(check);
    check->device = NULL;
    return status;
}

/* Which configurations nothing refers to; a duplicate or unnamed one was told already. */
static enum sp_status check_unused(struct sp_annotation_check *check)
{
    enum sp_status status = SP_OK;
    check->entry = NULL;
    check->node = NULL;
    for (uint32_t i = 0; status == SP_OK && i < check->model->configuration_count; i++) {
        const struct sp_device_configuration *device = &check->model->configurations[i];
        const struct sp_name_stamp *stamp = sp_annotation_stamp(check, device->name);
        if (stamp == NULL)
            return sp_fail_memory(check->err);
        if (check->entry_counts[i] > 0 || device->name[0] == '\0' || stamp->configuration != i + 1 ||
            (check->configuration != NULL && strcmp(device->name, check->configuration) != 0))
            continue;
        check->device = device;
        status = sp_annotation_report(check, "CONFIGURATION_UNUSED", NULL, NULL,
                                      "No node says a sharding or a pipeline stage for configuration '%.120s'.",
                                      device->name);
    }
    check->device = NULL;
    return status;
}

static enum sp_status check_ir_version(struct sp_annotation_check *check)
{
    const struct sp_model *model = check->model;
    if (model->configuration_count == 0 && !check->has_annotations)
        return SP_OK;
    if (model->ir_version >= SP_MULTI_DEVICE_IR_VERSION)
        return SP_OK;
    check->node = NULL;
    check->entry = NULL;
    check->is_in_call = false;
    return sp_annotation_report(check, "IR_VERSION_TOO_LOW", NULL, NULL,
                                "The model has multi-device data but is of ir_version %" PRId64
                                "; multi-device fields need ir_version %d or above.",
                                model->ir_version, SP_MULTI_DEVICE_IR_VERSION);
}

/* ---- the walk ------------------------------------------------------------------------------------------------- */

/* One open graph. Frames are linked, and used again when their graph is done. */
struct frame {
    struct frame *below;
    const struct sp_graph *graph;
    uint32_t next, attribute, item; /* the next node; the next subgraph of the one before */
    bool is_body_done;              /* of the node before */
    bool is_in_call;
};

struct walk {
    struct sp_annotation_check *check;
    struct frame *top, *spare;
};

static enum sp_status open_graph(struct walk *walk, const struct sp_graph *graph, bool is_in_call)
{
    struct frame *frame = walk->spare;
    if (frame != NULL)
        walk->spare = frame->below;
    else if ((frame = SP_NEW(walk->check->list->arena, struct frame)) == NULL)
        return sp_fail_memory(walk->check->err);
    *frame = (struct frame){.below = walk->top, .graph = graph, .is_body_done = true, .is_in_call = is_in_call};
    walk->top = frame;
    return SP_OK;
}

static void close_graph(struct walk *walk)
{
    struct frame *frame = walk->top;
    walk->top = frame->below;
    frame->below = walk->spare;
    walk->spare = frame;
}

/* The next graph inside the node that was visited last: its subgraphs, then its expanded body; NULL after the last. */
static const struct sp_graph *inner_graph(struct frame *frame)
{
    if (frame->next == 0)
        return NULL;
    const struct sp_node *node = &frame->graph->nodes[frame->next - 1];
    for (; frame->attribute < node->attribute_count; frame->attribute++, frame->item = 0) {
        const struct sp_attribute *attribute = &node->attributes[frame->attribute];
        while (attribute->graphs != NULL && frame->item < attribute->count) {
            const struct sp_graph *graph = attribute->graphs[frame->item++];
            /* What a call passed in by reference is walked where it stands. */
            if (graph->owner == node)
                return graph;
        }
    }
    if (frame->is_body_done || node->body == NULL)
        return NULL;
    frame->is_body_done = true;
    return node->body;
}

static enum sp_status walk_graph(struct sp_annotation_check *check, const struct sp_graph *root, bool is_in_call)
{
    struct walk walk = {.check = check};
    enum sp_status status = open_graph(&walk, root, is_in_call);
    while (status == SP_OK && walk.top != NULL) {
        struct frame *frame = walk.top;
        const struct sp_graph *inner = inner_graph(frame);
        if (inner != NULL) {
            status = open_graph(&walk, inner, frame->is_in_call || inner->parent == NULL);
        } else if (frame->next == frame->graph->node_count) {
            close_graph(&walk);
        } else {
            const struct sp_node *node = &frame->graph->nodes[frame->next++];
            frame->attribute = frame->item = 0;
            frame->is_body_done = false;
            check->is_in_call = frame->is_in_call;
            if (node->body != NULL && sp_onnx_function(check->model, node) != NULL)
                check->functions_seen[sp_onnx_function(check->model, node) - check->model->functions] = true;
            status = sp_check_node_annotations(check, node);
        }
    }
    return status;
}

/*
 * A function that no call of the main graph expands is looked at as its text stands: as if it were called with values
 * that nothing is known of, and without attributes.
 */
static enum sp_status walk_function(struct sp_annotation_check *check, const struct sp_function *function)
{
    struct sp_arena *arena = check->list->arena;
    struct sp_node *call = SP_NEW(arena, struct sp_node);
    struct sp_value *actual = SP_NEW(arena, struct sp_value);
    struct sp_error ignored;
    struct sp_graph *body = NULL;
    sp_error_clear(&ignored);
    if (call == NULL || actual == NULL)
        return sp_fail_memory(check->err);
    actual->name = "";
    *call = (struct sp_node){.name = function->name,
                             .op_type = function->name,
                             .domain = function->domain,
                             .overload = function->overload,
                             .graph = check->model->graph,
                             .input_count = function->input_count,
                             .inputs = SP_NEW_ARRAY(arena, function->input_count, struct sp_value *)};
    if (call->inputs == NULL)
        return sp_fail_memory(check->err);
    for (uint32_t i = 0; i < function->input_count; i++)
        call->inputs[i] = actual;
    enum sp_status status = sp_onnx_expand(check->model, call, function, &body, &ignored);
    if (status == SP_OK)
        return walk_graph(check, body, true);
    /* What is wrong with the function itself is the graph check's to say. */
    return status == SP_ERR_MODEL ? SP_OK : sp_fail(check->err, status, ignored.code, "%s", ignored.message);
}

static enum sp_status check_filter(const struct sp_annotation_check *check)
{
    const struct sp_model *model = check->model;
    char names[1024];
    if (check->configuration == NULL)
        return SP_OK;
    for (uint32_t i = 0; i < model->configuration_count; i++) {
        if (strcmp(model->configurations[i].name, check->configuration) == 0)
            return SP_OK;
    }
    if (model->configuration_count == 0)
        return sp_fail(check->err, SP_ERR_REQUEST, "UNKNOWN_CONFIGURATION",
                       "The model has no device configuration, so it has none named '%.120s'.", check->configuration);
    return sp_fail(check->err, SP_ERR_REQUEST, "UNKNOWN_CONFIGURATION",
                   "The model has no device configuration named '%.120s'; it has %s.", check->configuration,
                   configuration_names(model, names, sizeof names));
}

enum sp_status sp_check_annotations(struct sp_model *model, const char *configuration, struct sp_diagnostics *list,
                                    struct sp_error *err)
{
    struct sp_annotation_check check = {.model = model,
                                        .list = list,
                                        .err = err,
                                        .configuration = configuration,
                                        .searches_left = MAX_SEARCHES,
                                        .scratch = sp_arena_create(sp_arena_budget(list->arena)),
                                        .told = sp_intern_create(list->arena, 0),
                                        .entry_counts = SP_NEW_ARRAY(list->arena, model->configuration_count, uint64_t),
                                        .functions_seen = SP_NEW_ARRAY(list->arena, model->function_count, bool)};
    if (check.scratch == NULL || check.told == NULL || check.entry_counts == NULL || check.functions_seen == NULL) {
        sp_arena_destroy(check.scratch);
        return sp_fail_memory(err);
    }
    enum sp_status status = check_filter(&check);
    for (uint32_t i = 0; status == SP_OK && i < model->configuration_count; i++)
        status = check_configuration(&check, i);
    if (status == SP_OK)
        status = walk_graph(&check, model->graph, false);
    for (uint32_t i = 0; status == SP_OK && i < model->function_count; i++) {
        if (!check.functions_seen[i])
            status = walk_function(&check, &model->functions[i]);
    }
    if (status == SP_OK)
        status = check_unused(&check);
    if (status == SP_OK)
        status = check_ir_version(&check);
    sp_arena_destroy(check.scratch);
    return status;
}
