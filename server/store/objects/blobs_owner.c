#include "store/objects/blobs_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/s3/request.h"

struct owners {
    char own[IDENTITY_SIZE + 8];
    bool has_own;
    char other[IDENTITY_SIZE + 8]; /* "": none */
};

static bool see_owner(void *context, const char *key)
{
    struct owners *owners = context;
    if (strcmp(key, owners->own) == 0)
        owners->has_own = true;
    else
        (void)snprintf(owners->other, sizeof owners->other, "%s", key);
    return true;
}

/* An empty object: its name says all. */
static bool put_name(struct s3 *s3, const char *key, struct problem *problem)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return problem_from_errno(problem, errno, "Opening /dev/null");
    bool ok = s3_put(s3, key, fd, 0, S3_EMPTY_SHA256, problem);
    (void)close(fd);
    return ok;
}

static bool take_prefix(struct blobs_owner *owner, struct problem *problem)
{
    struct s3 *s3 = owner->s3;
    struct store *store = owner->store;
    char name[IDENTITY_SIZE], kept[STORE_SETTING_SIZE], used[STORE_SETTING_SIZE];
    struct owners owners = {0};
    if (!identity_name(owner->data, name, problem) || !store_setting(store, "blobs", name, kept, problem) ||
        !store_setting(store, "blobs_used", NULL, used, problem))
        return false;
    (void)snprintf(owners.own, sizeof owners.own, "owner/%.*s", IDENTITY_SIZE - 1, kept);
    memcpy(owner->name, owners.own, sizeof owner->name);
    if (!s3_list(s3, "owner/", see_owner, &owners, problem))
        return false;
    if (owners.other[0] == '\0' && !owners.has_own && used[0] != '\0')
        return problem_set(
            problem, 500, "OTHER_BLOBS",
            "The database has its files in another object store than that of --blobs: the object %s is "
            "not there. Give the bucket and prefix that it was first used with, or a database of its own.",
            owners.own);
    bool put = owners.other[0] == '\0' && !owners.has_own;
    /* Two that begin at the same time see each other, since each looks again behind its own name. */
    if (put && (!put_name(s3, owners.own, problem) || !s3_list(s3, "owner/", see_owner, &owners, problem)))
        return false;
    if (owners.other[0] == '\0')
        return store_setting(store, "blobs_used", kept, used, problem);
    struct problem unused = {0};
    if (put)
        (void)s3_delete(s3, owners.own, &unused);
    return problem_set(problem, 503, "BLOBS_IN_USE",
                       "The prefix of --blobs belongs to another database; give another prefix, or remove the object "
                       "%s below it if nobody uses that database any more.",
                       owners.other);
}

void blobs_owner_init(struct blobs_owner *owner, struct s3 *s3, const char *data, struct store *store)
{
    *owner = (struct blobs_owner){.s3 = s3, .data = data, .store = store};
    (void)pthread_mutex_init(&owner->asking, NULL);
}

bool blobs_own(struct blobs_owner *owner, struct problem *problem)
{
    if (atomic_load(&owner->is_own))
        return true;
    (void)pthread_mutex_lock(&owner->asking);
    bool ok = atomic_load(&owner->is_own) || take_prefix(owner, problem);
    atomic_store(&owner->is_own, ok);
    (void)pthread_mutex_unlock(&owner->asking);
    return ok;
}

bool blobs_still_own(struct blobs_owner *owner, struct problem *problem)
{
    if (!blobs_own(owner, problem))
        return false;
    const enum s3_found found = s3_head(owner->s3, owner->name, problem);
    if (found == S3_MISSING)
        (void)problem_set(problem, 503, "BLOBS_UNAVAILABLE",
                          "The object store does not have the object %s below the prefix of --blobs, which says whose "
                          "it is; try again later.",
                          owner->name);
    return found == S3_FOUND;
}

bool blobs_owner_start(struct blobs_owner *owner, struct problem *ret_seen, struct problem *problem)
{
    static const char away[] = "BLOBS_UNAVAILABLE";
    struct problem why = {0};
    if (s3_ready(owner->s3, &why) || strcmp(why.code, away) != 0) { /* whose refusal has no reason */
        why = (struct problem){0};
        if (blobs_own(owner, &why))
            return true;
    }
    if (strcmp(why.code, away) != 0) {
        *problem = why;
        return false;
    }
    *ret_seen = why;
    LOG(LOG_WARNING, "object store is away", log_s("code", why.code), log_s("detail", why.detail));
    return true;
}

bool blobs_are_in_folder(struct store *store, struct problem *problem)
{
    char used[STORE_SETTING_SIZE];
    if (!store_setting(store, "blobs_used", NULL, used, problem))
        return false;
    return used[0] == '\0' ||
           problem_set(problem, 500, "OTHER_BLOBS",
                       "The database has its files in an object store; start the daemon with --blobs, as before.");
}
