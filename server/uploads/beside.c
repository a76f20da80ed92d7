#include "uploads/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/upload.h"
#include "jobs/jobs.h"
#include "server.h"
#include "store/blobs.h"
#include "store/integrity/stored.h"
#include "uploads/uploads.h"
#include "util/text.h"

static void take(void *context, const struct file_row *row)
{
    struct beside *beside = context;
    struct beside_file *files = NULL;
    char *location = strdup(row->location);
    if (location != NULL)
        files = reallocarray(beside->files, beside->count + 1, sizeof *files);
    if (files == NULL) {
        free(location);
        beside->failed = true;
        return;
    }
    beside->files = files;
    files[beside->count] = (struct beside_file){.location = location, .bytes = row->bytes};
    memcpy(files[beside->count++].blob, row->blob, sizeof row->blob);
}

bool beside_load(struct server *server, const char *tenant, const char *model, struct beside *ret_beside,
                 struct problem *problem)
{
    *ret_beside = (struct beside){0};
    if (!store_list_files(server->store, tenant, model, take, ret_beside))
        return problem_set(problem, 503, "STORE_UNAVAILABLE",
                           "The store does not answer at the moment; try again later.");
    return !ret_beside->failed || problem_no_memory(problem);
}

void beside_release(struct beside *beside)
{
    for (size_t i = 0; i < beside->count; i++)
        free(beside->files[i].location);
    free(beside->files);
    *beside = (struct beside){0};
}

const struct beside_file *beside_find(const struct beside *beside, const char *location)
{
    for (size_t i = 0; i < beside->count; i++) {
        if (strcmp(beside->files[i].location, location) == 0)
            return &beside->files[i];
    }
    return NULL;
}

enum store_found beside_delete_model(struct server *server, const char *tenant, const char *id, struct problem *problem)
{
    struct beside beside;
    enum store_found found = STORE_ERROR;
    if (beside_load(server, tenant, id, &beside, problem))
        found = store_delete_model(server->store, tenant, id);
    if (found == STORE_DONE)
        blobs_tidy(server->blobs, id);
    for (size_t i = 0; found == STORE_DONE && i < beside.count; i++) {
        char sha256[65];
        (void)snprintf(sha256, sizeof sha256, "%.64s", beside.files[i].blob);
        blobs_tidy(server->blobs, sha256);
    }
    beside_release(&beside);
    return found;
}

bool beside_is_location(const char *location)
{
    const size_t length = strlen(location);
    if (length == 0 || length > SPD_MAX_LOCATION || location[0] == '/' || !text_is_printable(location))
        return false;
    for (const char *at = location; *at != '\0';) {
        const size_t step = strcspn(at, "/");
        if (step == 2 && at[0] == '.' && at[1] == '.')
            return false;
        at += step + strspn(at + step, "/");
    }
    return true;
}

/* ---- placing ---- */

/* Whether rows with these bytes name a blob that is not there, or not whole. */
static bool look_at_blob(struct server *server, const struct file_row *row, bool *ret_replaces, struct problem *problem)
{
    char blob[STORE_BLOB_SIZE];
    bool have = true;
    const enum store_found found = store_find_file(server->store, row->blob, blob);
    if (found == STORE_ERROR)
        return problem_set(problem, 503, "STORE_UNAVAILABLE",
                           "The store does not answer at the moment; try again later.");
    const bool ok = found != STORE_DONE || blobs_have(server->blobs, blob, (uint64_t)row->bytes, &have, problem);
    *ret_replaces =
        !have || (found == STORE_DONE && !blobs_are_remote(server->blobs) && !stored_is_right(server->stored, blob));
    return ok;
}

/* Moves the file to its place, under a number that nobody else has, and adds the row that names it. */
static enum store_added add_file(struct server *server, struct upload *upload, struct file_row *row, const char *sha256,
                                 struct problem *problem)
{
    const struct store_quota quota = {.model_files = SPD_MAX_MODEL_FILES,
                                      .tenant_bytes = (int64_t)server->config->tenant_bytes};
    char none[65]; /* of an inspection */
    bool replaces = false;
    if (!look_at_blob(server, row, &replaces, problem))
        return STORE_FAILED;
    store_blob_name(sha256, row->number, row->blob);
    if (!blobs_publish(server->blobs, row->blob, upload_path(upload), upload_stage(upload), NULL, none, problem))
        return STORE_FAILED;
    upload_keep(upload);
    return store_add_file(server->store, row, replaces, &quota, problem);
}

enum store_added beside_place(struct server *server, struct upload *upload, struct file_row *row,
                              struct problem *problem)
{
    char sha256[65];
    (void)snprintf(sha256, sizeof sha256, "%.64s", row->blob);
    if (!store_reserve(server->store, sha256, &row->number, problem))
        return STORE_FAILED;
    const enum store_added added = add_file(server, upload, row, sha256, problem);
    if (added == STORE_ADDED || added == STORE_EXISTS)
        uploads_remove_file(server->uploads, row->upload);
    else if (!store_unreserve(server->store, row->number))
        jobs_unreserve(server->jobs, sha256, row->number);
    blobs_tidy(server->blobs, sha256);
    return added;
}
