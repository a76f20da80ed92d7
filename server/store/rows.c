/* What both stores share: rows, states, refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

static const char *const state_names[PLAN_STATE_COUNT] = {"queued", "running", "succeeded", "failed", "cancelled"};

const char *store_state_name(enum plan_state state)
{
    return state < PLAN_STATE_COUNT ? state_names[state] : "unknown";
}

enum plan_state store_state_of(const char *name)
{
    for (int i = 0; i < PLAN_STATE_COUNT; i++) {
        if (name != NULL && strcmp(name, state_names[i]) == 0)
            return (enum plan_state)i;
    }
    return PLAN_FAILED;
}

void store_blob_name(const char *id, int64_t number, char ret_name[STORE_BLOB_SIZE])
{
    if (number == 0)
        (void)snprintf(ret_name, STORE_BLOB_SIZE, "%.64s", id);
    else
        (void)snprintf(ret_name, STORE_BLOB_SIZE, "%.64s.%lld", id, (long long)number);
}

void store_release_model(struct model_row *row)
{
    free(row->name);
    row->name = NULL;
}

void store_release_plan(struct plan_row *row)
{
    free(row->request);
    free(row->error);
    free(row->files);
    row->request = row->error = row->files = NULL;
}

enum store_added store_overtaken(struct problem *problem)
{
    (void)problem_set(problem, 503, "UPLOAD_OVERTAKEN",
                      "This daemon was away for so long that others ended the upload; send the model again.");
    return STORE_FAILED;
}

enum store_added store_over_models(struct problem *problem, const struct store_quota *quota, int64_t have)
{
    (void)problem_set_limit(problem, 429, "QUOTA_MODELS", "--tenant-models", quota->tenant_models, have + 1,
                            "This tenant may store %lld models and has %lld; delete some first.",
                            (long long)quota->tenant_models, (long long)have);
    return STORE_QUOTA;
}

enum store_added store_over_files(struct problem *problem, const struct store_quota *quota, int64_t have)
{
    (void)problem_set_limit(problem, 429, "QUOTA_MODEL_FILES", "SPD_MAX_MODEL_FILES", quota->model_files, have + 1,
                            "A model may have %lld files beside it and has %lld.", (long long)quota->model_files,
                            (long long)have);
    return STORE_QUOTA;
}

enum store_added store_over_uploads(struct problem *problem, const struct store_quota *quota, int64_t have)
{
    (void)problem_set_limit(problem, 429, "QUOTA_UPLOADS", "SPD_MAX_TENANT_UPLOADS", quota->tenant_uploads, have + 1,
                            "This tenant may have %lld uploads by parts and has %lld; finish or delete some first, GET "
                            "/v1/uploads has them.",
                            (long long)quota->tenant_uploads, (long long)have);
    return STORE_QUOTA;
}

enum store_added store_over_bytes(struct problem *problem, const struct store_quota *quota, int64_t would_have)
{
    (void)problem_set_limit(problem, 429, "QUOTA_BYTES", "--tenant-bytes", quota->tenant_bytes, would_have,
                            "This tenant may store %lld bytes of models and would have %lld; delete some first.",
                            (long long)quota->tenant_bytes, (long long)would_have);
    return STORE_QUOTA;
}

enum store_added store_over_plans(struct problem *problem, const struct store_quota *quota, int64_t have)
{
    (void)problem_set_limit(problem, 429, "QUOTA_PLANS", "--tenant-plans", quota->tenant_plans, have + 1,
                            "This tenant may have %lld plans queued or running and has %lld; wait for some to finish.",
                            (long long)quota->tenant_plans, (long long)have);
    return STORE_QUOTA;
}

void store_init(struct store *store, const struct store_ops *ops, const struct store_options *options)
{
    *store = (struct store){.ops = ops,
                            .lease_seconds = options->lease_seconds,
                            .changed = options->changed,
                            .called = options->called,
                            .context = options->context};
    memcpy(store->owner, options->owner, sizeof store->owner);
}

/* ---- the queue ---- */

int64_t store_queue_share(const struct store_quota *quota, int64_t tenants)
{
    return tenants > 1 ? quota->queued_plans / 2 / tenants : quota->queued_plans;
}

bool store_queue_has_room(const struct store_quota *quota, const struct store_queue_use *use)
{
    const int64_t share = store_queue_share(quota, use->tenants), common = quota->queued_plans - share * use->tenants;
    return use->own < share || use->own + 1 - share + use->beyond <= common;
}
