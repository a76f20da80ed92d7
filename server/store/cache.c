#include "store/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/files.h"
#include "util/text.h"

struct copy {
    char blob[STORE_BLOB_SIZE];
    uint64_t bytes;
    struct timespec used;
};

struct copies {
    struct copy *list;
    size_t count, room;
    uint64_t bytes;
};

static void add_copy(struct copies *copies, const struct files_name *of, const struct stat *info)
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
    store_blob_name(of->id, of->number, copy->blob);
    copy->bytes = (uint64_t)info->st_size;
    copy->used = info->st_mtim;
    copies->bytes += copy->bytes;
}

static void look_into(struct copies *copies, int blobs, const char *prefix)
{
    struct stat info;
    const struct dirent *entry;
    int fd = openat(blobs, prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        struct files_name of;
        if (files_read_blob_name(prefix, entry->d_name, &of) && of.file == FILE_BLOB &&
            fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
            add_copy(copies, &of, &info);
    }
    (void)closedir(folder);
}

static void find_copies(const struct cache *cache, struct copies *copies)
{
    char *path = NULL;
    const struct dirent *entry;
    DIR *blobs = asprintf(&path, "%s/blobs", cache->data) >= 0 ? opendir(path) : NULL;
    while (blobs != NULL && (entry = readdir(blobs)) != NULL) {
        if (text_is_hex(entry->d_name, 2))
            look_into(copies, dirfd(blobs), entry->d_name);
    }
    if (blobs != NULL)
        (void)closedir(blobs);
    free(path);
}

static int oldest_first(const void *a, const void *b)
{
    const struct copy *first = a, *second = b;
    if (first->used.tv_sec != second->used.tv_sec)
        return first->used.tv_sec < second->used.tv_sec ? -1 : 1;
    if (first->used.tv_nsec != second->used.tv_nsec)
        return first->used.tv_nsec < second->used.tv_nsec ? -1 : 1;
    return strcmp(first->blob, second->blob);
}

/* Opens it as long as nobody has the other kind of lock on it. */
static int open_locked(const struct cache *cache, const char *blob, int operation)
{
    struct stat info;
    char *path = files_blob(cache->data, blob);
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
    int fd = open_locked(cache, copy->blob, LOCK_EX);
    if (fd < 0)
        return false;
    char *path = cache->may_go(cache->context, copy->blob) ? files_blob(cache->data, copy->blob) : NULL;
    bool gone = path != NULL && unlink(path) == 0;
    free(path);
    (void)close(fd);
    if (gone)
        LOG(LOG_DEBUG, "copy of a model removed", log_s("model", copy->blob), log_i("bytes", (int64_t)copy->bytes));
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

int cache_hold(const struct cache *cache, const char *blob)
{
    int fd = open_locked(cache, blob, LOCK_SH);
    if (fd >= 0)
        (void)futimens(fd, NULL);
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
