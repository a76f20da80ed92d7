#include "check/check.h"

#include <string.h>

#include "onnx/reader.h"
#include "ops/shapes/shapes.h"

struct shape_faults {
    struct sp_diagnostics *list;
    struct sp_error *err;
};

static enum sp_status add_fault(void *context, const struct sp_node *node, const struct sp_error *fault)
{
    const struct shape_faults *faults = context;
    return sp_check_add_error(faults->list, node, fault, faults->err);
}

/* What runtimes take is an error under the standard. Imports are looked at with the graph. */
static enum sp_status add_accepted(void *context, const struct sp_node *node, const struct sp_error *fault)
{
    return strcmp(fault->code, "DOMAIN_NOT_IMPORTED") == 0 ? SP_OK : add_fault(context, node, fault);
}

/* Errors that are findings about the model; the others (not a model at all, limits, memory) end the check. */
static bool is_finding(enum sp_status status)
{
    return status == SP_ERR_MODEL || status == SP_ERR_UNSUPPORTED;
}

static bool configuration_is_sound(const struct sp_diagnostics *list, uint32_t from, const char *configuration)
{
    for (uint32_t i = from; i < list->count; i++) {
        const struct sp_diagnostic *item = &list->items[i];
        if (item->severity == SP_SEVERITY_ERROR &&
            (item->configuration == NULL || strcmp(item->configuration, configuration) == 0))
            return false;
    }
    return true;
}

static enum sp_status check_configurations(struct sp_model *model, const struct sp_check_options *options,
                                           struct sp_diagnostics *list, struct sp_error *err)
{
    uint32_t from = list->count;
    enum sp_status status = sp_check_annotations(model, options->configuration, list, err);
    uint32_t to = list->count;
    if (list->errors > 0 && to == SP_MAX_DIAGNOSTICS)
        return status; /* what is wrong is not all listed, so nobody knows which configurations are sound */
    for (uint32_t i = 0; status == SP_OK && i < model->configuration_count; i++) {
        const char *name = model->configurations[i].name;
        bool is_asked = options->configuration == NULL || strcmp(options->configuration, name) == 0;
        if (!is_asked || !configuration_is_sound(list, from, name))
            continue;
        status = options->configuration != NULL
                     ? sp_check_meaning(model, name, options->memory_bytes, list, err)
                     : sp_check_meaning_of(model, &model->configurations[i], options->memory_bytes, list, err);
    }
    return status;
}

static bool has_configuration(const struct sp_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->configuration_count; i++) {
        if (strcmp(model->configurations[i].name, name) == 0)
            return true;
    }
    return false;
}

static enum sp_status check_model(struct sp_model *model, const struct sp_check_options *options,
                                  struct sp_diagnostics *list, struct sp_error *err)
{
    struct sp_shape_summary summary;
    struct shape_faults faults = {list, err};
    const struct sp_shape_options shapes = {options->read.watch, add_fault, &faults, add_accepted};
    if (options->configuration != NULL && !has_configuration(model, options->configuration))
        return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_CONFIGURATION", "The model has no configuration '%.200s'.",
                       options->configuration);
    enum sp_status status = sp_check_graph(model, list, err);
    if (status == SP_OK)
        status = sp_infer_shapes_with(model, &shapes, &summary, err);
    if (status == SP_OK)
        status = sp_model_verify_given(model, err);
    if (status == SP_OK)
        status = check_configurations(model, options, list, err);
    if (status == SP_OK)
        status = sp_check_foreign(model, list, err);
    return status;
}

enum sp_status sp_check_run(struct sp_arena *arena, const void *bytes, uint64_t size,
                            const struct sp_check_options *options, struct sp_diagnostics *ret_list,
                            struct sp_model **ret_model, struct sp_error *err)
{
    struct sp_error what = {0};
    struct sp_model *model = NULL;
    *ret_list = (struct sp_diagnostics){.arena = arena};
    *ret_model = NULL;
    enum sp_status status = sp_onnx_read(arena, bytes, size, &options->read, &model, &what);
    if (is_finding(status))
        return sp_check_add_error(ret_list, NULL, &what, err);
    if (status != SP_OK) {
        if (err != NULL)
            *err = what;
        return status;
    }
    status = check_model(model, options, ret_list, err);
    if (status == SP_OK)
        *ret_model = model;
    return status;
}
