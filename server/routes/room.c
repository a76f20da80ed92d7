#include "routes/room.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "observe/log.h"
#include "server.h"
#include "server_limits.h"
#include "store/files.h"
#include "store/store.h"

struct room {
    struct room *next;
    char tenant[SPD_MAX_PRINCIPAL + 1], id[65];
    uint64_t bytes; /* that the store does not count, unless there is a row */
    bool has_row;   /* at the last look: the tenant has the model */
};

/* All that are taken; the lock is held over an eviction, too, so that two do not evict for the same need. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct room *rooms;

/* What would be evicted: the first models, so many that they are enough. */
struct candidates {
    uint64_t need, have;
    size_t count;
    struct candidate {
        char id[65];
        int64_t bytes;
    } * models; /* of SPD_MAX_EVICTED */
};

static bool is_held(const char *id)
{
    for (const struct room *room = rooms; room != NULL; room = room->next) {
        if (strcmp(room->id, id) == 0)
            return true;
    }
    return false;
}

static bool is_listed(const struct candidates *candidates, const char *id)
{
    for (size_t i = 0; i < candidates->count; i++) {
        if (strcmp(candidates->models[i].id, id) == 0)
            return true;
    }
    return false;
}

/* A model has a row for each tenant that has it, but one file. */
static void add_candidate(void *context, const struct model_row *row)
{
    struct candidates *candidates = context;
    if (candidates->have >= candidates->need || candidates->count == SPD_MAX_EVICTED || is_held(row->id) ||
        is_listed(candidates, row->id))
        return;
    struct candidate *candidate = &candidates->models[candidates->count++];
    (void)snprintf(candidate->id, sizeof candidate->id, "%s", row->id);
    candidate->bytes = row->bytes;
    candidates->have += (uint64_t)row->bytes;
}

/* Bytes of the model that are free now; 0 when a plan came to refer to it, or it is gone. */
static uint64_t evict(struct server *server, const char *id, int64_t bytes)
{
    struct problem problem = {0};
    bool is_last = false;
    if (!store_lock_model(server->store, id, &problem))
        return 0;
    bool removed = store_delete_model(server->store, NULL, id, &is_last) == STORE_DONE && is_last;
    if (removed)
        files_remove_blob(server->config->data, id);
    store_unlock_model(server->store, id);
    if (removed)
        LOG(LOG_INFO, "model evicted", log_s("model", id), log_i("bytes", bytes));
    return removed ? (uint64_t)bytes : 0;
}

/* Evicts until `need` bytes are free; false, and nothing is lost, when that much cannot be freed. What a plan comes to
   need meanwhile is passed over, so there is another look. */
static bool evict_unused(struct server *server, uint64_t need)
{
    struct candidates candidates = {.models = malloc(SPD_MAX_EVICTED * sizeof *candidates.models)};
    uint64_t freed = 0;
    bool enough = candidates.models != NULL;
    for (int look = 0; enough && freed < need && look < 3; look++) {
        candidates.need = need - freed;
        candidates.have = candidates.count = 0;
        enough = store_unused_models(server->store, SPD_MAX_EVICTED, add_candidate, &candidates) &&
                 candidates.have >= candidates.need;
        for (size_t i = 0; enough && i < candidates.count; i++)
            freed += evict(server, candidates.models[i].id, candidates.models[i].bytes);
    }
    free(candidates.models);
    return freed >= need;
}

/* Somebody before it in the list takes the same room. */
static bool is_double(const struct room *of)
{
    for (const struct room *room = rooms; room != of; room = room->next) {
        if (room->bytes > 0 && strcmp(room->id, of->id) == 0 && strcmp(room->tenant, of->tenant) == 0)
            return true;
    }
    return false;
}

static uint64_t reserved(void)
{
    uint64_t bytes = 0;
    for (const struct room *room = rooms; room != NULL; room = room->next)
        bytes += room->has_row || is_double(room) ? 0 : room->bytes;
    return bytes;
}

/* Looks which of the models that room is taken for have their row, with which the store counts them. */
static bool look_for_rows(struct server *server, bool *ret_changed)
{
    *ret_changed = false;
    for (struct room *room = rooms; room != NULL; room = room->next) {
        enum store_found found =
            room->bytes > 0 ? store_find_model(server->store, room->tenant, room->id) : STORE_NOT_FOUND;
        if (found == STORE_ERROR)
            return false;
        *ret_changed = *ret_changed || room->has_row != (found == STORE_DONE);
        room->has_row = found == STORE_DONE;
    }
    return true;
}

/* All that is stored and reserved. Rows come while others count, so what does not fit is counted until the rows were
   the same before and after; where they never are, it is rather too much. */
static bool count_taken(struct server *server, uint64_t most, uint64_t *ret_taken)
{
    for (struct room *room = rooms; room != NULL; room = room->next)
        room->has_row = false;
    bool changed = true;
    for (unsigned look = 0; changed && look < SPD_MAX_ROOM_LOOKS; look++) {
        struct store_counts counts;
        if (!store_count(server->store, &counts))
            return false;
        *ret_taken = (uint64_t)counts.blob_bytes + reserved();
        if (look == 0 && *ret_taken <= most)
            return true;
        if (!look_for_rows(server, &changed))
            return false;
    }
    return true;
}

/* For all rooms, the new one among them. */
static bool make_room(struct server *server, uint64_t bytes, struct problem *problem)
{
    uint64_t most = server->config->max_store, taken = 0;
    if (!count_taken(server, most, &taken))
        return problem_set(problem, 503, "STORE_UNAVAILABLE",
                           "The store does not answer at the moment; try again later.");
    if (taken <= most || (bytes <= most && evict_unused(server, taken - most)))
        return true;
    return problem_set_limit(problem, 507, "STORE_FULL", "--max-store", (int64_t)most, (int64_t)taken,
                             "The store may have %" PRIu64 " bytes of models, and what no plan needs is too little to "
                             "make room; delete plans first.",
                             most);
}

bool room_take(struct server *server, const struct model_row *row, struct room **ret_room, struct problem *problem)
{
    *ret_room = NULL;
    if (server->config->max_store == 0)
        return true;
    struct room *room = calloc(1, sizeof *room);
    if (room == NULL)
        return problem_no_memory(problem);
    (void)snprintf(room->tenant, sizeof room->tenant, "%s", row->tenant);
    (void)snprintf(room->id, sizeof room->id, "%s", row->id);
    room->bytes = (uint64_t)row->bytes;
    (void)pthread_mutex_lock(&lock);
    room->next = rooms; /* held already while others go */
    rooms = room;
    bool ok = make_room(server, room->bytes, problem);
    if (!ok)
        room->bytes = 0;
    (void)pthread_mutex_unlock(&lock);
    if (!ok) {
        room_release(room);
        return false;
    }
    *ret_room = room;
    return true;
}

void room_stop_counting(struct room *room)
{
    if (room == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    room->bytes = 0;
    (void)pthread_mutex_unlock(&lock);
}

void room_release(struct room *room)
{
    if (room == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    struct room **link = &rooms;
    while (*link != NULL && *link != room)
        link = &(*link)->next;
    if (*link == room)
        *link = room->next;
    (void)pthread_mutex_unlock(&lock);
    free(room);
}
