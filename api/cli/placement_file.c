/* --placement-file: what a file of another tool says of where nodes run, for `check` and for `plan`. */
#include "base/limits.h"
#include "cli.h"
#include "cost/cluster/cluster.h"
#include "plan/request/placed.h"

static enum sp_status read_text(const char *path, json_t **ret_text, struct sp_error *err)
{
    struct sp_buf buf = {0};
    enum sp_status status = read_small_file(path, SP_MAX_PLACEMENT_BYTES, "SP_MAX_PLACEMENT_BYTES", &buf, err);
    if (status == SP_OK && (*ret_text = json_stringn(buf.data != NULL ? buf.data : "", buf.size)) == NULL)
        status = sp_fail(err, SP_ERR_MALFORMED, "PLACEMENT_FILE", "'%.200s' is no text in UTF-8.", path);
    if (status == SP_OK && buf.size == 0)
        status = sp_fail(err, SP_ERR_MALFORMED, "PLACEMENT_FILE", "'%.200s' is empty: it places no node.", path);
    if (status != SP_OK) {
        json_decref(*ret_text);
        *ret_text = NULL;
    }
    sp_buf_release(&buf);
    return status;
}

enum sp_status put_placement(json_t *request, char *path, struct sp_error *err)
{
    json_t *text = NULL;
    if (json_object_get(request, "placement") != NULL)
        return sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE", "One --placement-file is enough.");
    enum sp_status status = read_text(path, &text, err);
    if (status == SP_OK && json_object_set_new(request, "placement", text) != 0)
        status = sp_fail_memory(err);
    return status;
}

enum sp_status add_placed_constraints(struct plan_request *request, json_t *constraints, struct sp_error *err)
{
    const struct sp_job_options options = {
        .bytes = request->input.bytes,
        .size = request->input.size,
        .name = request->input.name,
    };
    struct sp_cluster *cluster = NULL;
    json_t *text = NULL;
    if (request->is_sweep || request->workload_path != NULL)
        return sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                       "--placement-file is for one plan: give one number and type of devices, and no workload.");
    enum sp_status status = read_text(request->placement_path, &text, err);
    if (status == SP_OK)
        status = sp_cluster_parse(request->arena, request->target, "", &cluster, err);
    if (status == SP_OK)
        status = sp_placed_constraints(&options, cluster, &request->options, json_string_value(text),
                                       json_string_length(text), constraints, err);
    json_decref(text);
    return status;
}
