#include "uploads/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "store/blobs.h"

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
