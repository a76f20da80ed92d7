/* What `plan` plans for: one cluster, or several that are compared. */
#include <string.h>

#include "cli.h"
#include "plan/variants/variants.h"

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

enum sp_status load_target(const struct plan_devices *given, json_t **ret_target, bool *ret_is_sweep,
                           struct sp_error *err)
{
    struct sp_plan_lists lists = {.devices = given->devices,
                                  .types = given->device != NULL ? given->device : CLI_DEFAULT_DEVICE,
                                  .choose = given->choose};
    if (given->cluster != NULL) {
        enum sp_status status = load_file(given->cluster, &lists.cluster, err);
        if (status != SP_OK)
            return status;
    }
    *ret_is_sweep = sp_plan_lists_sweep(&lists);
    *ret_target = sp_plan_lists_json(&lists);
    json_decref(lists.cluster);
    if (*ret_target != NULL)
        return SP_OK;
    if (strchr(lists.types, ',') == NULL)
        return sp_fail_memory(err);
    return sp_fail(err, SP_ERR_REQUEST, "DEVICE_LIST",
                   "--device takes one name or several, like h100-sxm-80gb,l4-24gb; a part of this list is empty or no "
                   "UTF-8.");
}
