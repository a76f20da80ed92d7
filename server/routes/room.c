#include "routes/room.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth.h"
#include "observe/log.h"
#include "server.h"
#include "server_limits.h"
#include "store/files.h"
#include "store/store.h"
#include "uploads/beside.h"

struct room {
    struct room *next;
    char tenant[SPD_MAX_PRINCIPAL + 1], id[65];
    uint64_t bytes; /* that the store does not count, unless there is a row */
    bool has_row;   /* at the last look: the tenant has the model */
};

/* All that are taken; the lock is held over an eviction, too, so that two do not evict for the same need. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct room *rooms;

/* ---- who has how much ---- */

struct usage {
    char tenant[SPD_MAX_PRINCIPAL + 1];
    uint64_t bytes;
};

/* Each tenant's share of --max-store is its own whatever others do; what a tenant has beyond it is in the common part. */
struct usages {
    struct usage *items;
    size_t count, capacity;
    bool failed; /* no memory */
    uint64_t share, common;
};

static struct usage *find_usage(const struct usages *usages, const char *tenant)
{
    for (size_t i = 0; i < usages->count; i++) {
        if (strcmp(usages->items[i].tenant, tenant) == 0)
            return &usages->items[i];
    }
    return NULL;
}

/* What was returned before may lie elsewhere then. */
static struct usage *usage_of(struct usages *usages, const char *tenant)
{
    struct usage *usage = find_usage(usages, tenant);
    if (usage != NULL)
        return usage;
    if (usages->count == usages->capacity) {
        const size_t capacity = usages->capacity > 0 ? 2 * usages->capacity : 64;
        struct usage *items = reallocarray(usages->items, capacity, sizeof *items);
        usages->failed = items == NULL;
        if (items == NULL)
            return NULL;
        usages->items = items;
        usages->capacity = capacity;
    }
    usage = &usages->items[usages->count++];
    *usage = (struct usage){0};
    (void)snprintf(usage->tenant, sizeof usage->tenant, "%s", tenant);
    return usage;
}

static void add_usage(void *context, const char *tenant, int64_t bytes)
{
    struct usage *usage = usage_of(context, tenant);
    if (usage != NULL)
        usage->bytes += (uint64_t)bytes;
}

static uint64_t beyond(const struct usages *usages, const struct usage *usage)
{
    return usage->bytes > usages->share ? usage->bytes - usages->share : 0;
}

/* How much of the common part this tenant has to give back or others have to, so that what it has now fits. */
static uint64_t find_need(const struct usages *usages, const struct usage *own)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < usages->count; i++)
        taken += &usages->items[i] != own ? beyond(usages, &usages->items[i]) : 0;
    const uint64_t left = usages->common > taken ? usages->common - taken : 0, wanted = beyond(usages, own);
    return wanted > left ? wanted - left : 0;
}

/* Half of the store is shares, where there are several tenants. Those of the file of tokens have theirs before they store
   anything; certificates name their tenants when they come. */
static void divide(const struct server *server, struct usages *usages)
{
    const uint64_t most = server->config->max_store, told = auth_tenants(server->auth);
    const uint64_t tenants = told > usages->count ? told : usages->count;
    usages->share = tenants > 1 ? most / 2 / tenants : most;
    usages->common = most - usages->share * (tenants > 1 ? tenants : 1);
}

/* ---- evicting ---- */

/* What would be evicted: the first models, so many that they are enough. */
struct candidates {
    struct usages *usages; /* of which what is on the list is taken off */
    const struct usage *own;
    bool of_others;
    uint64_t need, have;
    size_t count;
    struct candidate {
        char tenant[SPD_MAX_PRINCIPAL + 1], id[65];
        int64_t bytes;
        uint64_t gain; /* of the common part */
    } * models;        /* of SPD_MAX_EVICTED */
};

static bool is_held(const struct model_row *row)
{
    for (const struct room *room = rooms; room != NULL; room = room->next) {
        if (strcmp(room->id, row->id) == 0 && strcmp(room->tenant, row->tenant) == 0)
            return true;
    }
    return false;
}

static void add_candidate(void *context, const struct model_row *row)
{
    struct candidates *candidates = context;
    if (candidates->have >= candidates->need || candidates->count == SPD_MAX_EVICTED || is_held(row))
        return;
    struct usage *usage = find_usage(candidates->usages, row->tenant);
    const uint64_t bytes = (uint64_t)row->bytes, over = usage != NULL ? beyond(candidates->usages, usage) : 0;
    if (usage == NULL || over == 0 || (candidates->of_others && usage == candidates->own))
        return;
    struct candidate *candidate = &candidates->models[candidates->count++];
    *candidate = (struct candidate){.bytes = row->bytes, .gain = bytes < over ? bytes : over};
    (void)snprintf(candidate->tenant, sizeof candidate->tenant, "%s", row->tenant);
    (void)snprintf(candidate->id, sizeof candidate->id, "%s", row->id);
    candidates->have += candidate->gain;
    usage->bytes -= bytes;
}

/* Removes the tenant's model; false when a plan came to refer to it, or it is gone. */
static bool evict(struct server *server, const struct candidate *candidate)
{
    struct problem problem = {0};
    if (beside_delete_model(server, candidate->tenant, candidate->id, &problem) != STORE_DONE)
        return false;
    LOG(LOG_INFO, "model evicted", log_s("model", candidate->id), log_i("bytes", candidate->bytes));
    return true;
}

/* The tenant's own models first, and only then those of others who have more than their share. */
static bool list_candidates(struct server *server, struct candidates *candidates)
{
    bool ok = store_unused_models(server->store, candidates->own->tenant, SPD_MAX_EVICTED, add_candidate, candidates);
    candidates->of_others = true;
    if (ok && candidates->have < candidates->need)
        ok = store_unused_models(server->store, NULL, SPD_MAX_EVICTED, add_candidate, candidates);
    return ok && candidates->have >= candidates->need;
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

/* Adds what is reserved, and not in the store. */
static void add_reserved(struct usages *usages)
{
    for (const struct room *room = rooms; room != NULL; room = room->next) {
        if (!room->has_row && !is_double(room) && room->bytes > 0)
            add_usage(usages, room->tenant, (int64_t)room->bytes);
    }
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

/* What each tenant has, stored and reserved, and what is needed for this one. Rows come while others count, so what does
   not fit is counted until the rows were the same before and after; where they never are, it is rather too much. */
static bool count_usages(struct server *server, const char *tenant, struct usages *usages, struct usage **ret_own,
                         uint64_t *ret_need)
{
    for (struct room *room = rooms; room != NULL; room = room->next)
        room->has_row = false;
    bool changed = true;
    for (unsigned look = 0; changed && look < SPD_MAX_ROOM_LOOKS; look++) {
        usages->count = 0;
        if (!store_tenant_bytes(server->store, add_usage, usages))
            return false;
        add_reserved(usages);
        *ret_own = usage_of(usages, tenant);
        if (usages->failed)
            return false;
        divide(server, usages);
        *ret_need = find_need(usages, *ret_own);
        if (look == 0 && *ret_need == 0)
            return true;
        if (!look_for_rows(server, &changed))
            return false;
    }
    return true;
}

static bool no_answer(struct problem *problem)
{
    return problem_set(problem, 503, "STORE_UNAVAILABLE", "The store does not answer at the moment; try again later.");
}

/* Names what this tenant has, and nothing of others. */
static bool no_room(const struct server *server, uint64_t own, struct problem *problem)
{
    const uint64_t most = server->config->max_store;
    return problem_set_limit(problem, 507, "STORE_FULL", "--max-store", (int64_t)most, (int64_t)own,
                             "The service may have %" PRIu64 " bytes of models, this tenant would have %" PRIu64
                             ", and what no plan needs is too little to make room; delete plans first.",
                             most, own);
}

/* For all rooms, the new one of the tenant among them. What a plan comes to need while models are evicted is passed over,
   so there are several looks. False, and nothing is lost, when that much cannot be freed. */
static bool make_room(struct server *server, const char *tenant, struct problem *problem)
{
    struct usages usages = {0};
    struct usage *own = NULL;
    uint64_t need = 0;
    struct candidates candidates = {.usages = &usages, .models = malloc(SPD_MAX_EVICTED * sizeof *candidates.models)};
    bool ok = candidates.models != NULL || problem_no_memory(problem), fits = false;
    for (int look = 0; ok && !fits && look < SPD_MAX_EVICTIONS; look++) {
        ok = count_usages(server, tenant, &usages, &own, &need) || no_answer(problem);
        fits = ok && need == 0;
        if (!ok || fits)
            break;
        const uint64_t bytes = own->bytes;
        candidates.own = own;
        candidates.need = need;
        candidates.have = candidates.count = 0;
        candidates.of_others = false;
        ok = list_candidates(server, &candidates) || no_room(server, bytes, problem);
        for (size_t i = 0; ok && i < candidates.count; i++)
            (void)evict(server, &candidates.models[i]);
    }
    if (ok && !fits)
        ok = no_room(server, own != NULL ? own->bytes : 0, problem);
    free(candidates.models);
    free(usages.items);
    return ok;
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
    bool ok = make_room(server, room->tenant, problem);
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
