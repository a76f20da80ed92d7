/* What `plan` plans for: one cluster, or several that are compared. */
#include <libgen.h>
#include <string.h>

#include "cli.h"
#include "plan/variants/variants.h"

/* A device that ends so is a file with its figures: no name of the catalog does. */
#define DEVICE_FILE_END ".json"

static enum sp_status load_file(const char *path, const char *what, json_t **ret_json, struct sp_error *err)
{
    struct sp_buf text = {0};
    json_error_t where;
    enum sp_status status = read_small_file(path, CLI_MAX_CLUSTER_BYTES, "CLI_MAX_CLUSTER_BYTES", &text, err);
    if (status == SP_OK) {
        *ret_json = json_loadb(text.data != NULL ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &where);
        if (*ret_json == NULL) {
            (void)sp_fail(err, SP_ERR_MALFORMED, "CLUSTER_NOT_JSON", "The %s is not valid JSON: %s.", what, where.text);
            status = sp_error_at(err, "line %d, column %d of '%s'", where.line, where.column, path);
        }
    }
    sp_buf_release(&text);
    return status;
}

static bool is_file(const char *name)
{
    const size_t size = strlen(name), end = strlen(DEVICE_FILE_END);
    return size > end && strcmp(name + size - end, DEVICE_FILE_END) == 0;
}

/* What stands for a device: the figures of a file below `folder` in place of its path, anything else as it is. Takes
   and gives a reference; NULL after an error. */
static json_t *filled_in(json_t *device, const char *folder, struct sp_error *err)
{
    struct sp_buf path;
    json_t *figures = NULL;

    if (!json_is_string(device) || !is_file(json_string_value(device)))
        return device;
    sp_buf_init(&path, CLI_MAX_TEXT_BYTES);
    if (json_string_value(device)[0] != '/')
        sp_buf_printf(&path, "%s/", folder);
    sp_buf_text(&path, json_string_value(device));
    if (sp_buf_failed(&path))
        (void)sp_fail_memory(err);
    else
        (void)load_file(path.data, "device", &figures, err);
    sp_buf_release(&path);
    json_decref(device);
    return figures;
}

static enum sp_status fill_in_member(json_t *object, const char *folder, struct sp_error *err)
{
    json_t *device = json_object_get(object, "device");
    json_t *figures = device != NULL ? filled_in(json_incref(device), folder, err) : NULL;
    if (device == NULL)
        return SP_OK;
    if (figures == NULL)
        return SP_ERR_REQUEST;
    return json_object_set_new(object, "device", figures) == 0 ? SP_OK : sp_fail_memory(err);
}

enum sp_status fill_in_devices(json_t *target, const char *folder, struct sp_error *err)
{
    json_t *groups = json_object_get(target, "groups"), *types = json_object_get(target, "types");
    enum sp_status status = fill_in_member(target, folder, err);

    for (size_t i = 0; status == SP_OK && i < json_array_size(groups); i++)
        status = fill_in_member(json_array_get(groups, i), folder, err);
    for (size_t i = 0; status == SP_OK && i < json_array_size(types); i++) {
        json_t *figures = filled_in(json_incref(json_array_get(types, i)), folder, err);
        if (figures == NULL)
            status = SP_ERR_REQUEST;
        else if (json_array_set_new(types, i, figures) != 0)
            status = sp_fail_memory(err);
    }
    return status;
}

enum sp_status load_cluster(const char *path, json_t **ret_cluster, struct sp_error *err)
{
    enum sp_status status = load_file(path, "cluster", ret_cluster, err);
    char *copy = status == SP_OK ? strdup(path) : NULL;
    if (status == SP_OK && copy == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = fill_in_devices(*ret_cluster, dirname(copy), err);
    free(copy);
    return status;
}

/* All devices of a cluster, or of a sweep, run this. */
static enum sp_status name_runtime(json_t *target, const char *name, struct sp_error *err)
{
    json_t *within = json_object_get(target, "cluster"), *groups, *group;
    size_t i;
    within = within != NULL ? within : target;
    groups = json_object_get(within, "groups");
    json_array_foreach(groups, i, group)(void) json_object_del(group, "runtime");
    return json_object_set_new(within, "runtime", json_string(name)) == 0 ? SP_OK : sp_fail_memory(err);
}

enum sp_status load_target(const struct plan_devices *given, json_t **ret_target, bool *ret_is_sweep,
                           struct sp_error *err)
{
    struct sp_plan_lists lists = {.devices = given->devices,
                                  .types = given->device != NULL ? given->device : CLI_DEFAULT_DEVICE,
                                  .choose = given->choose};
    enum sp_status status = SP_OK;
    if (given->cluster != NULL)
        status = load_cluster(given->cluster, &lists.cluster, err);
    if (status == SP_OK) {
        *ret_is_sweep = sp_plan_lists_sweep(&lists);
        *ret_target = sp_plan_lists_json(&lists);
        if (*ret_target != NULL && given->cluster == NULL)
            status = fill_in_devices(*ret_target, ".", err);
        if (status == SP_OK && *ret_target != NULL && given->runtime != NULL)
            status = name_runtime(*ret_target, given->runtime, err);
    }
    json_decref(lists.cluster);
    if (status != SP_OK || *ret_target != NULL)
        return status;
    if (strchr(lists.types, ',') == NULL)
        return sp_fail_memory(err);
    return sp_fail(err, SP_ERR_REQUEST, "DEVICE_LIST",
                   "--device takes one name or several, like h100-sxm-80gb,l4-24gb; a part of this list is empty or no "
                   "UTF-8.");
}
