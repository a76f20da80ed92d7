#include "uploads/announce.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "routes/room.h"
#include "server.h"
#include "server_limits.h"
#include "store/files.h"
#include "uploads/uploads.h"

static bool check_size(const struct server *server, const struct upload_row *row, struct problem *problem)
{
    const uint64_t bytes = (uint64_t)row->bytes, most = server->config->max_upload;
    if (bytes > most)
        return problem_set_limit(problem, 413, "UPLOAD_TOO_LARGE", "--max-upload", (int64_t)most, row->bytes,
                                 "The upload is larger than the %" PRIu64 " bytes that this service accepts.", most);
    if (bytes > files_free_bytes(server->config->data))
        return problem_set(problem, 507, "DISK_FULL", "The disk of the data folder has no room for %" PRIu64 " bytes.",
                           bytes);
    return true;
}

bool announce_upload(struct server *server, struct upload_row *row, int64_t keep_ms, struct problem *problem)
{
    const struct store_quota quota = {.tenant_uploads = SPD_MAX_TENANT_UPLOADS,
                                      .tenant_bytes = (int64_t)server->config->tenant_bytes};
    struct model_row place = {.bytes = row->bytes};
    struct room *room = NULL;
    if (!check_size(server, row, problem))
        return false;
    if (!uploads_name(server->uploads, row->id))
        return problem_set(problem, 500, "INTERNAL", "There are no random numbers.");
    memcpy(place.tenant, row->tenant, sizeof place.tenant);
    (void)snprintf(place.id, sizeof place.id, "%s", row->id);
    const bool ok = room_take(server, &place, &room, problem) &&
                    store_add_upload(server->store, row, keep_ms, &quota, problem) == STORE_ADDED;
    room_release(room);
    return ok;
}
