#include "simulated_objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "server_limits.h"
#include "store/objects/blobs_owner.h"
#include "store/objects/transfers.h"

#define MOST_OBJECTS 1024
#define MOST_LATE    16
#define DAEMONS      8
#define KEY_SIZE     128

struct s3 {
    int daemon;
};

struct transfers {
    struct transfer *first, *last;
};

struct late {
    bool deletes;
    char key[KEY_SIZE];
};

static const struct objects_world *world;
static char keys[MOST_OBJECTS][KEY_SIZE]; /* in order */
static unsigned count, late_count;
static struct late late[MOST_LATE];
static struct transfers *threads[DAEMONS];
static int opened; /* whose object store was opened last: its threads come next */

static unsigned place_of(const char *key)
{
    unsigned at = 0;
    while (at < count && strcmp(keys[at], key) < 0)
        at++;
    return at;
}

bool objects_have(const char *key)
{
    const unsigned at = place_of(key);
    return at < count && strcmp(keys[at], key) == 0;
}

static void add(const char *key)
{
    const unsigned at = place_of(key);
    if (objects_have(key))
        return;
    cr_assert(count < MOST_OBJECTS && strlen(key) < KEY_SIZE);
    memmove(keys[at + 1], keys[at], (size_t)(count++ - at) * KEY_SIZE);
    (void)snprintf(keys[at], KEY_SIZE, "%s", key);
}

void objects_lose(const char *key)
{
    const unsigned at = place_of(key);
    if (!objects_have(key))
        return;
    memmove(keys[at], keys[at + 1], (size_t)(--count - at) * KEY_SIZE);
}

static void apply(bool deletes, const char *key)
{
    if (deletes)
        objects_lose(key);
    else
        add(key);
    world->changed(world->context);
}

void objects_be_late(void)
{
    if (late_count == 0)
        return;
    const struct late one = late[--late_count];
    apply(one.deletes, one.key);
}

void objects_each(void (*each)(void *context, const char *key), void *context)
{
    for (unsigned i = 0; i < count; i++)
        each(context, keys[i]);
}

void objects_begin(const struct objects_world *new_world)
{
    world = new_world;
    count = late_count = 0;
}

void objects_end(void)
{
    world = NULL;
}

/* ---- requests ---- */

static bool fails(struct problem *problem)
{
    return problem_set(problem, 503, "BLOBS_UNAVAILABLE", "The simulated object store does not answer.");
}

static bool request(const struct s3 *s3, bool deletes, const char *key, struct problem *problem)
{
    if (!world->before(world->context, s3->daemon)) {
        if (late_count < MOST_LATE && world->comes_late(world->context)) {
            late[late_count].deletes = deletes;
            (void)snprintf(late[late_count++].key, KEY_SIZE, "%s", key);
        }
        return fails(problem);
    }
    apply(deletes, key);
    return world->after(world->context, s3->daemon) || fails(problem);
}

bool __wrap_s3_open(const struct s3_options *options, struct s3 **ret_s3, struct problem *problem);
bool __wrap_s3_open(const struct s3_options *options, struct s3 **ret_s3, struct problem *problem)
{
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (s3 == NULL)
        return problem_no_memory(problem);
    s3->daemon = options->endpoint[0] - '0'; /* how the simulation names its daemons */
    *ret_s3 = s3;
    opened = s3->daemon;
    return true;
}

void __wrap_s3_close(struct s3 *s3);
void __wrap_s3_close(struct s3 *s3)
{
    free(s3);
}

bool __wrap_s3_put(struct s3 *s3, const char *key, int file, uint64_t size, const char *sha256,
                   struct problem *problem);
bool __wrap_s3_put(struct s3 *s3, const char *key, int file, uint64_t size, const char *sha256, struct problem *problem)
{
    (void)file;
    (void)size;
    (void)sha256;
    return request(s3, false, key, problem);
}

bool __wrap_s3_delete(struct s3 *s3, const char *key, struct problem *problem);
bool __wrap_s3_delete(struct s3 *s3, const char *key, struct problem *problem)
{
    return request(s3, true, key, problem);
}

enum s3_found __wrap_s3_head(struct s3 *s3, const char *key, struct problem *problem);
enum s3_found __wrap_s3_head(struct s3 *s3, const char *key, struct problem *problem)
{
    if (!world->before(world->context, s3->daemon)) {
        (void)fails(problem);
        return S3_FAILED;
    }
    const bool have = objects_have(key);
    if (world->after(world->context, s3->daemon))
        return have ? S3_FOUND : S3_MISSING;
    (void)fails(problem);
    return S3_FAILED;
}

/* Pages of two keys, each a request: what comes and goes between them is told or not. */
bool __wrap_s3_list(struct s3 *s3, const char *folder, bool (*each)(void *context, const char *key), void *context,
                    struct problem *problem);
bool __wrap_s3_list(struct s3 *s3, const char *folder, bool (*each)(void *context, const char *key), void *context,
                    struct problem *problem)
{
    char last[KEY_SIZE] = "";
    for (bool more = true; more;) {
        char page[2][KEY_SIZE];
        unsigned found = 0;
        if (!world->before(world->context, s3->daemon))
            return fails(problem);
        for (unsigned i = 0; i < count && found < 2; i++) {
            if (strncmp(keys[i], folder, strlen(folder)) == 0 && strcmp(keys[i], last) > 0)
                memcpy(page[found++], keys[i], KEY_SIZE);
        }
        if (!world->after(world->context, s3->daemon))
            return fails(problem);
        more = found == 2;
        for (unsigned i = 0; i < found; i++) {
            memcpy(last, page[i], KEY_SIZE);
            if (!each(context, page[i]))
                return true;
        }
    }
    return true;
}

/* No file of the simulation is so large that it is sent in parts. */
bool __wrap_s3_list_unfinished(struct s3 *s3, const char *folder,
                               bool (*each)(void *context, const struct s3_unfinished *unfinished), void *context,
                               struct problem *problem);
bool __wrap_s3_list_unfinished(struct s3 *s3, const char *folder,
                               bool (*each)(void *context, const struct s3_unfinished *unfinished), void *context,
                               struct problem *problem)
{
    (void)folder;
    (void)each;
    (void)context;
    return world->before(world->context, s3->daemon) || fails(problem);
}

/* Whose prefix it is, is not simulated: the mutex that it holds would stop the only thread. */
bool __wrap_blobs_own(struct blobs_owner *owner, struct problem *problem);
bool __wrap_blobs_own(struct blobs_owner *owner, struct problem *problem)
{
    (void)owner;
    (void)problem;
    return true;
}

bool __wrap_blobs_owner_start(struct blobs_owner *owner, struct problem *ret_seen, struct problem *problem);
bool __wrap_blobs_owner_start(struct blobs_owner *owner, struct problem *ret_seen, struct problem *problem)
{
    (void)ret_seen;
    return __wrap_blobs_own(owner, problem);
}

/* ---- threads ---- */

struct transfers *__wrap_transfers_create(unsigned thread_count);
struct transfers *__wrap_transfers_create(unsigned thread_count)
{
    (void)thread_count;
    struct transfers *transfers = calloc(1, sizeof *transfers);
    threads[opened] = transfers;
    return transfers;
}

void __wrap_transfers_send(struct transfers *transfers, struct transfer *transfer);
void __wrap_transfers_send(struct transfers *transfers, struct transfer *transfer)
{
    transfer->next = NULL;
    if (transfers->last != NULL)
        transfers->last->next = transfer;
    else
        transfers->first = transfer;
    transfers->last = transfer;
}

static bool run_one(struct transfers *transfers)
{
    struct transfer *transfer = transfers->first;
    if (transfer == NULL)
        return false;
    transfers->first = transfer->next;
    if (transfers->first == NULL)
        transfers->last = NULL;
    transfer->run(transfer);
    return true;
}

void __wrap_transfers_destroy(struct transfers *transfers);
void __wrap_transfers_destroy(struct transfers *transfers)
{
    while (transfers != NULL && run_one(transfers)) {
    }
    for (int i = 0; i < DAEMONS; i++)
        threads[i] = threads[i] == transfers ? NULL : threads[i];
    free(transfers);
}

bool objects_work(int daemon)
{
    return threads[daemon] != NULL && run_one(threads[daemon]);
}
