#include "store/objects/stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/log.h"
#include "server_limits.h"
#include "store/s3/parts.h"
#include "store/store.h"
#include "util/times.h"

#define KEY_SIZE 128
#define FOLDER   "staged/"

struct stage {
    struct stages *stages;
    struct s3_parts *parts;
    char key[KEY_SIZE];
    int file;
    atomic_uint holders; /* whoever made it, and its helpers */
    struct transfer end;
};

/* A transfer that sends parts. */
struct helper {
    struct transfer transfer;
    struct stage *stage;
};

static bool is_staged(const char *key)
{
    return strncmp(key, FOLDER, strlen(FOLDER)) == 0;
}

/* ---- life ---- */

static struct stage *create(struct stages *stages, int file, const char *key, uint64_t size)
{
    struct stage *stage = calloc(1, sizeof *stage);
    if (stage == NULL)
        return NULL;
    stage->stages = stages;
    stage->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
    (void)snprintf(stage->key, sizeof stage->key, "%s", key);
    stage->parts = stage->file >= 0 ? s3_parts_create(stages->s3, stage->key, stage->file, size) : NULL;
    atomic_init(&stage->holders, 1);
    if (stage->parts != NULL)
        return stage;
    if (stage->file >= 0)
        (void)close(stage->file);
    free(stage);
    return NULL;
}

static bool abort_one(void *context, const struct s3_unfinished *unfinished)
{
    const struct stage *stage = context;
    struct problem unused = {0};
    (void)s3_abort_upload(stage->stages->s3, unfinished->key, unfinished->upload, &unused);
    return true;
}

/* Network, for the last one. Where the answer to its begin was lost and it was begun again, the bucket has an upload that
   nobody has the id of. A staged key is of this stage alone. */
static void let_go(struct stage *stage)
{
    struct problem unused = {0};
    if (atomic_fetch_sub(&stage->holders, 1) != 1)
        return;
    s3_parts_abort(stage->parts);
    if (s3_parts_begun(stage->parts) && is_staged(stage->key))
        (void)s3_list_unfinished(stage->stages->s3, stage->key, abort_one, stage, &unused);
    s3_parts_destroy(stage->parts);
    (void)close(stage->file);
    free(stage);
}

static void run_end(struct transfer *transfer)
{
    let_go(transfer->context);
}

void stage_drop(struct stage *stage)
{
    if (stage == NULL)
        return;
    s3_parts_stop(stage->parts);
    stage->end = (struct transfer){.run = run_end, .context = stage};
    transfers_send(stage->stages->transfers, &stage->end);
}

static void name_stage(struct stages *stages, char ret_key[KEY_SIZE])
{
    (void)snprintf(ret_key, KEY_SIZE, FOLDER "%s/%llu", stages->owner,
                   (unsigned long long)atomic_fetch_add(&stages->counter, 1));
}

struct stage *stage_create(struct stages *stages, int file)
{
    char key[KEY_SIZE];
    name_stage(stages, key);
    return create(stages, file, key, 0);
}

/* ---- sending ---- */

static void run_helper(struct transfer *transfer)
{
    struct helper *helper = transfer->context;
    struct stage *stage = helper->stage;
    struct problem unused = {0};
    if (blobs_own(stage->stages->prefix, &unused))
        s3_parts_send(stage->parts);
    (void)atomic_fetch_sub(&stage->stages->helpers, 1);
    let_go(stage);
    free(helper);
}

/* One more thread sends parts, when not too many do. */
static bool ask_for_help(struct stage *stage)
{
    struct stages *stages = stage->stages;
    struct helper *helper = NULL;
    if (atomic_fetch_add(&stages->helpers, 1) < SPD_S3_PARTS_AT_ONCE)
        helper = calloc(1, sizeof *helper);
    if (helper == NULL) {
        (void)atomic_fetch_sub(&stages->helpers, 1);
        return false;
    }
    (void)atomic_fetch_add(&stage->holders, 1);
    helper->stage = stage;
    helper->transfer = (struct transfer){.run = run_helper, .context = helper};
    transfers_send(stages->transfers, &helper->transfer);
    return true;
}

void stage_grow(struct stage *stage, uint64_t size)
{
    if (size > SPD_S3_MAX_COPY)
        s3_parts_stop(stage->parts);
    s3_parts_grow(stage->parts, size);
    if (s3_parts_due(stage->parts) > 0)
        (void)ask_for_help(stage);
}

static bool put_in_place(struct stage *stage, const char *key, struct problem *problem)
{
    struct problem unused = {0};
    if (strcmp(stage->key, key) == 0)
        return true;
    bool ok = s3_copy(stage->stages->s3, stage->key, key, problem);
    (void)s3_delete(stage->stages->s3, stage->key, &unused); /* swept some time when that fails */
    return ok;
}

bool stage_works(struct stage *stage)
{
    return !s3_parts_failed(stage->parts);
}

bool stage_store(struct stage *stage, uint64_t size, const char *key, struct problem *problem)
{
    if (!blobs_own(stage->stages->prefix, problem))
        return false;
    s3_parts_end(stage->parts, size);
    for (unsigned n = s3_parts_due(stage->parts); n > 1 && ask_for_help(stage); n--)
        ;
    return s3_parts_complete(stage->parts, problem) && put_in_place(stage, key, problem);
}

bool stage_send(struct stages *stages, int file, uint64_t size, const char *key, struct problem *problem)
{
    char staged[KEY_SIZE];
    name_stage(stages, staged);
    struct stage *stage = create(stages, file, size > SPD_S3_MAX_COPY ? key : staged, size);
    if (stage == NULL)
        return problem_no_memory(problem);
    bool ok = stage_store(stage, size, key, problem);
    s3_parts_stop(stage->parts);
    let_go(stage);
    return ok;
}

/* ---- what others left ---- */

struct sweep {
    struct stages *stages;
    struct store *store;
    const atomic_bool *stop;
    int64_t now_ms;
};

/* Whether the daemon whose object this is lives. */
static bool has_owner(const struct sweep *sweep, const char *key)
{
    char owner[STORE_OWNER_SIZE];
    const char *from = key + strlen(FOLDER);
    const size_t length = strcspn(from, "/");
    if (length >= sizeof owner)
        return true; /* nothing of ours */
    (void)snprintf(owner, sizeof owner, "%.*s", (int)length, from);
    return store_owner_lives(sweep->store, owner);
}

static bool sweep_object(void *context, const char *key)
{
    const struct sweep *sweep = context;
    struct problem unused = {0};
    if (!has_owner(sweep, key) && s3_delete(sweep->stages->s3, key, &unused))
        LOG(LOG_INFO, "orphan removed", log_s("object", key));
    return !atomic_load(sweep->stop);
}

static bool sweep_staged(void *context, const struct s3_unfinished *unfinished)
{
    const struct sweep *sweep = context;
    struct problem unused = {0};
    if (!has_owner(sweep, unfinished->key) &&
        s3_abort_upload(sweep->stages->s3, unfinished->key, unfinished->upload, &unused))
        LOG(LOG_INFO, "orphan removed", log_s("upload", unfinished->key));
    return !atomic_load(sweep->stop);
}

/* One that is sent to its place: whose it is does not show. */
static bool sweep_direct(void *context, const struct s3_unfinished *unfinished)
{
    const struct sweep *sweep = context;
    struct problem unused = {0};
    if (unfinished->begun_ms < sweep->now_ms - SPD_S3_FORGOTTEN_MS &&
        s3_abort_upload(sweep->stages->s3, unfinished->key, unfinished->upload, &unused))
        LOG(LOG_INFO, "orphan removed", log_s("upload", unfinished->key));
    return !atomic_load(sweep->stop);
}

bool stages_sweep(struct stages *stages, struct store *store, const atomic_bool *stop, struct problem *problem)
{
    struct sweep sweep = {.stages = stages, .store = store, .stop = stop, .now_ms = times_now()};
    return s3_list_unfinished(stages->s3, FOLDER, sweep_staged, &sweep, problem) &&
           s3_list(stages->s3, FOLDER, sweep_object, &sweep, problem) &&
           s3_list_unfinished(stages->s3, "blobs/", sweep_direct, &sweep, problem);
}
