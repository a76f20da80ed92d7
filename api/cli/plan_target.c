/* What `plan` plans for: one cluster, or several that are compared. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Adds the parts of a list like "1,2,4" to an array; false for an empty part, or one that is not wanted. */
static bool add_parts(json_t *array, const char *list, json_t *(*make)(const char *part))
{
    char *copy = strdup(list), *rest = copy, *part;
    bool ok = copy != NULL;
    while (ok && (part = strsep(&rest, ",")) != NULL)
        ok = part[0] != '\0' && json_array_append_new(array, make(part)) == 0;
    free(copy);
    return ok;
}

static json_t *make_count(const char *part)
{
    int64_t value;
    return parse_integer(part, 1, &value) ? json_integer(value) : NULL;
}

static json_t *make_name(const char *part)
{
    return json_string(part);
}

bool is_count_list(const char *text)
{
    json_t *counts = json_array();
    const bool ok = counts != NULL && add_parts(counts, text, make_count);
    json_decref(counts);
    return ok;
}

static bool is_list(const char *text)
{
    return text != NULL && strchr(text, ',') != NULL;
}

bool is_sweep(const struct plan_devices *devices)
{
    return is_list(devices->devices) || is_list(devices->device) || devices->choose != NULL ||
           (devices->cluster != NULL && devices->devices != NULL);
}

static enum sp_status load_file(const char *path, json_t **ret_json, struct sp_error *err)
{
    struct sp_buf text = {0};
    json_error_t where;
    enum sp_status status = read_small_file(path, CLI_MAX_CLUSTER_BYTES, "CLI_MAX_CLUSTER_BYTES", &text, err);
    if (status == SP_OK) {
        *ret_json = json_loadb(text.data != NULL ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &where);
        if (*ret_json == NULL) {
            (void)sp_fail(err, SP_ERR_MALFORMED, "CLUSTER_NOT_JSON", "The cluster is not valid JSON: %s.", where.text);
            status = sp_error_at(err, "line %d, column %d of '%s'", where.line, where.column, path);
        }
    }
    sp_buf_release(&text);
    return status;
}

/* {"device": NAME, "count": N} */
static json_t *make_uniform(const struct plan_devices *devices)
{
    json_t *cluster = json_object();
    if (cluster == NULL || json_object_set_new(cluster, "device", json_string(devices->device)) != 0 ||
        json_object_set_new(cluster, "count", make_count(devices->devices)) != 0) {
        json_decref(cluster);
        return NULL;
    }
    return cluster;
}

/* {"devices": [..], "types": [..] or "cluster": {..}, "choose": ..}; takes the cluster. */
static json_t *make_sweep(const struct plan_devices *devices, json_t *cluster)
{
    json_t *sweep = json_object(), *counts = json_array(), *types = json_array();
    bool ok = sweep != NULL && counts != NULL && types != NULL && add_parts(counts, devices->devices, make_count);
    if (ok && cluster == NULL)
        ok = add_parts(types, devices->device, make_name) && json_object_set(sweep, "types", types) == 0;
    if (ok && cluster != NULL)
        ok = json_object_set(sweep, "cluster", cluster) == 0;
    ok = ok && json_object_set(sweep, "devices", counts) == 0;
    if (ok && devices->choose != NULL)
        ok = json_object_set_new(sweep, "choose", json_string(devices->choose)) == 0;
    json_decref(cluster);
    json_decref(counts);
    json_decref(types);
    if (!ok) {
        json_decref(sweep);
        return NULL;
    }
    return sweep;
}

enum sp_status load_target(const struct plan_devices *given, json_t **ret_target, struct sp_error *err)
{
    struct plan_devices devices = *given;
    json_t *cluster = NULL;
    enum sp_status status = SP_OK;
    if (devices.device == NULL)
        devices.device = CLI_DEFAULT_DEVICE;
    if (devices.cluster != NULL)
        status = load_file(devices.cluster, &cluster, err);
    if (status != SP_OK)
        return status;
    if (is_sweep(given))
        *ret_target = make_sweep(&devices, cluster);
    else
        *ret_target = cluster != NULL ? cluster : make_uniform(&devices);
    if (*ret_target != NULL)
        return SP_OK;
    if (!is_list(devices.device))
        return sp_fail_memory(err);
    return sp_fail(err, SP_ERR_REQUEST, "DEVICE_LIST",
                   "--device takes one name or several, like h100-sxm-80gb,l4-24gb; a part of this list is empty or no "
                   "UTF-8.");
}
