#include "jobs/heard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server_limits.h"

struct entry {
    char plan[STORE_ID_SIZE];
    char tenant[SPD_MAX_PRINCIPAL + 1];
    uint64_t due_ms, number;
};

struct heard {
    char owner[STORE_OWNER_SIZE];
    uint64_t number; /* of the last one */
    unsigned count;
    struct entry entries[SPD_MAX_HEARD]; /* in no order */
};

struct heard *heard_create(const char *owner)
{
    struct heard *heard = calloc(1, sizeof *heard);
    if (heard != NULL)
        (void)snprintf(heard->owner, sizeof heard->owner, "%s", owner);
    return heard;
}

void heard_destroy(struct heard *heard)
{
    free(heard);
}

static uint32_t hash(uint32_t start, const char *text)
{
    for (; *text != '\0'; text++)
        start = (start ^ (unsigned char)*text) * 16777619u;
    return start;
}

/* For each plan another daemon is the first. */
static uint64_t delay(const struct heard *heard, const char *plan)
{
    return SPD_HEARD_MS + hash(hash(2166136261u, heard->owner), plan) % SPD_HEARD_SPREAD_MS;
}

static struct entry *find(struct heard *heard, const char *plan)
{
    for (unsigned i = 0; i < heard->count; i++) {
        if (strcmp(heard->entries[i].plan, plan) == 0)
            return &heard->entries[i];
    }
    return NULL;
}

/* The last one takes its place. */
static void drop(struct heard *heard, struct entry *entry)
{
    *entry = heard->entries[--heard->count];
}

bool heard_add(struct heard *heard, const char *plan, const char *tenant, bool is_own, uint64_t now_ms)
{
    heard_remove(heard, plan);
    if (heard->count == SPD_MAX_HEARD)
        return false;
    struct entry *entry = &heard->entries[heard->count++];
    (void)snprintf(entry->plan, sizeof entry->plan, "%s", plan);
    (void)snprintf(entry->tenant, sizeof entry->tenant, "%s", tenant);
    entry->due_ms = is_own ? now_ms : now_ms + delay(heard, plan);
    entry->number = ++heard->number;
    return true;
}

void heard_remove(struct heard *heard, const char *plan)
{
    struct entry *entry = find(heard, plan);
    if (entry != NULL)
        drop(heard, entry);
}

bool heard_take(struct heard *heard, uint64_t now_ms, char ret_tenant[SPD_MAX_PRINCIPAL + 1])
{
    for (unsigned i = 0; i < heard->count; i++) {
        struct entry *entry = &heard->entries[i];
        if (entry->due_ms > now_ms)
            continue;
        memcpy(ret_tenant, entry->tenant, sizeof entry->tenant);
        drop(heard, entry);
        return true;
    }
    return false;
}

uint64_t heard_due(const struct heard *heard)
{
    uint64_t due = UINT64_MAX;
    for (unsigned i = 0; i < heard->count; i++) {
        if (heard->entries[i].due_ms < due)
            due = heard->entries[i].due_ms;
    }
    return due;
}

uint64_t heard_mark(const struct heard *heard)
{
    return heard->number;
}

void heard_forget(struct heard *heard, uint64_t mark)
{
    for (unsigned i = heard->count; i > 0; i--) {
        if (heard->entries[i - 1].number <= mark)
            drop(heard, &heard->entries[i - 1]);
    }
}
