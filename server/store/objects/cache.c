#include "store/objects/cache.h"

#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "server_limits.h"
#include "store/files.h"

struct copy {
    char key[SPD_MAX_OBJECT_KEY + 1];
    uint64_t bytes;
    struct timespec used;
};

struct copies {
    struct copy *list;
    size_t count, room;
    uint64_t bytes;
};

static void add_copy(struct copies *copies, const char *key, const struct stat *info)
{
    if (copies->count == copies->room) {
        size_t room = copies->room > 0 ? 2 * copies->room : 64;
        struct copy *list = reallocarray(copies->list, room, sizeof *list);
        if (list == NULL)
            return; /* it stays another time */
        copies->list = list;
        copies->room = room;
    }
    struct copy *copy = &copies->list[copies->count++];
    (void)snprintf(copy->key, sizeof copy->key, "%s", key);
    copy->bytes = (uint64_t)info->st_size;
    copy->used = info->st_atim;
    copies->bytes += copy->bytes;
}

/* In DATA/blobs there may be other files. */
static bool may_be_copy(const FTSENT *entry)
{
    struct files_name of;
    const size_t length = strlen(entry->fts_name);
    if (length > 4 && strcmp(entry->fts_name + length - 4, "sums") == 0)
        return false;
    return strcmp(entry->fts_parent->fts_parent->fts_name, "blobs") != 0 ||
           (files_read_blob_name(entry->fts_parent->fts_name, entry->fts_name, &of));
}

/* Files so many levels below DATA/NAME. */
static void find_below(const struct cache *cache, struct copies *copies, const char *name, short levels)
{
    char *path = files_at(cache->data, name);
    char *const paths[] = {path, NULL};
    const size_t skip = strlen(cache->data) + 1;
    FTS *tree = path != NULL ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    FTSENT *entry;
    while (tree != NULL && (entry = fts_read(tree)) != NULL) {
        if (entry->fts_info == FTS_D && entry->fts_level >= levels)
            (void)fts_set(tree, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_F && entry->fts_level == levels && may_be_copy(entry))
            add_copy(copies, entry->fts_path + skip, entry->fts_statp);
    }
    if (tree != NULL)
        (void)fts_close(tree);
    free(path);
}

static void find_copies(const struct cache *cache, struct copies *copies)
{
    find_below(cache, copies, "blobs", 2);
    find_below(cache, copies, "plans", 3);
}

static int oldest_first(const void *a, const void *b)
{
    const struct copy *first = a, *second = b;
    if (first->used.tv_sec != second->used.tv_sec)
        return first->used.tv_sec < second->used.tv_sec ? -1 : 1;
    if (first->used.tv_nsec != second->used.tv_nsec)
        return first->used.tv_nsec < second->used.tv_nsec ? -1 : 1;
    return strcmp(first->key, second->key);
}

/* Opens it as long as nobody has the other kind of lock on it. */
static int open_locked(const struct cache *cache, const char *key, int operation)
{
    struct stat info;
    char *path = files_at(cache->data, key);
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    free(path);
    if (fd >= 0 && (flock(fd, operation | LOCK_NB) != 0 || fstat(fd, &info) != 0 || info.st_nlink == 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Whether it has gone. */
static bool evict(const struct cache *cache, const struct copy *copy)
{
    int fd = open_locked(cache, copy->key, LOCK_EX);
    if (fd < 0)
        return false;
    char *path = cache->may_go(cache->context, copy->key) ? files_at(cache->data, copy->key) : NULL;
    bool gone = path != NULL && unlink(path) == 0;
    char *sums = gone ? files_sums(path) : NULL;
    if (sums != NULL)
        (void)unlink(sums);
    free(sums);
    free(path);
    (void)close(fd);
    if (gone)
        LOG(LOG_DEBUG, "copy of an object removed", log_s("object", copy->key), log_i("bytes", (int64_t)copy->bytes));
    return gone;
}

static void trim(struct cache *cache)
{
    struct copies copies = {0};
    find_copies(cache, &copies);
    if (copies.count > 0)
        qsort(copies.list, copies.count, sizeof *copies.list, oldest_first);
    for (size_t i = 0; i < copies.count && copies.bytes > cache->most; i++) {
        if (evict(cache, &copies.list[i]))
            copies.bytes -= copies.list[i].bytes;
    }
    atomic_store(&cache->bytes, copies.bytes);
    free(copies.list);
}

void cache_added(struct cache *cache, uint64_t bytes)
{
    uint64_t have = atomic_fetch_add(&cache->bytes, bytes) + bytes;
    if (cache->most == 0 || have <= cache->most || pthread_mutex_trylock(&cache->trimming) != 0)
        return;
    trim(cache);
    (void)pthread_mutex_unlock(&cache->trimming);
}

int cache_hold(const struct cache *cache, const char *key, uint64_t size)
{
    struct stat info;
    const struct timespec used[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    int fd = open_locked(cache, key, LOCK_SH);
    if (fd >= 0 && size != UINT64_MAX && (fstat(fd, &info) != 0 || (uint64_t)info.st_size != size)) {
        (void)close(fd);
        fd = -1;
    }
    if (fd >= 0)
        (void)futimens(fd, used);
    return fd;
}

void cache_open(struct cache *cache)
{
    struct copies copies = {0};
    (void)pthread_mutex_init(&cache->trimming, NULL);
    find_copies(cache, &copies);
    atomic_store(&cache->bytes, copies.bytes);
    free(copies.list);
}

void cache_close(struct cache *cache)
{
    (void)pthread_mutex_destroy(&cache->trimming);
}
