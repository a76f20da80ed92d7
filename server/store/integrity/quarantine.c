#include "store/integrity/quarantine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/files.h"

#define LEAST_SIZE 4096u /* that an entry counts with */

struct kept {
    char *path;
    uint64_t bytes;
    struct timespec came;
    bool is_folder;
};

struct list {
    struct kept *kept;
    size_t count, room;
    uint64_t bytes;
};

static pthread_mutex_t trimming = PTHREAD_MUTEX_INITIALIZER;

/* The size of what lies directly in a folder. */
static uint64_t folder_bytes(const char *path)
{
    uint64_t bytes = 0;
    struct stat info;
    const struct dirent *entry;
    DIR *folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
            bytes += (uint64_t)info.st_size;
    }
    if (folder != NULL)
        (void)closedir(folder);
    return bytes;
}

static void add(struct list *list, const char *quarantine, const char *name)
{
    struct stat info;
    char *path = NULL;
    if (list->count == list->room) {
        const size_t room = list->room > 0 ? 2 * list->room : 64;
        struct kept *kept = reallocarray(list->kept, room, sizeof *kept);
        if (kept == NULL)
            return;
        list->kept = kept;
        list->room = room;
    }
    if (asprintf(&path, "%s/%s", quarantine, name) < 0 || lstat(path, &info) != 0) {
        free(path);
        return;
    }
    const bool is_folder = S_ISDIR(info.st_mode);
    uint64_t bytes = is_folder ? folder_bytes(path) : (uint64_t)info.st_size;
    bytes = bytes > LEAST_SIZE ? bytes : LEAST_SIZE;
    list->kept[list->count++] = (struct kept){path, bytes, info.st_ctim, is_folder};
    list->bytes += bytes;
}

static int oldest_first(const void *a, const void *b)
{
    const struct kept *first = a, *second = b;
    if (first->came.tv_sec != second->came.tv_sec)
        return first->came.tv_sec < second->came.tv_sec ? -1 : 1;
    if (first->came.tv_nsec != second->came.tv_nsec)
        return first->came.tv_nsec < second->came.tv_nsec ? -1 : 1;
    return strcmp(first->path, second->path);
}

static void trim(const char *quarantine, uint64_t most)
{
    struct list list = {0};
    const struct dirent *entry;
    DIR *folder = opendir(quarantine);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.')
            add(&list, quarantine, entry->d_name);
    }
    if (folder != NULL)
        (void)closedir(folder);
    if (list.count > 0)
        qsort(list.kept, list.count, sizeof *list.kept, oldest_first);
    for (size_t i = 0; i < list.count; i++) {
        if (list.bytes > most) {
            if (list.kept[i].is_folder)
                files_remove_folder(list.kept[i].path);
            else
                (void)unlink(list.kept[i].path);
            list.bytes -= list.kept[i].bytes;
        }
        free(list.kept[i].path);
    }
    free(list.kept);
}

static void write_reason(const char *place, const struct quarantined *quarantined)
{
    char *path = NULL;
    if (asprintf(&path, "%s.json", place) < 0)
        return;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        (void)dprintf(fd, "{\"what\":\"%s\",\"id\":\"%s\",\"how\":\"%s\",\"at\":%lld}\n", quarantined->what,
                      quarantined->id, quarantined->how, (long long)quarantined->at);
        (void)close(fd);
    }
    free(path);
}

bool quarantine_take(const char *data, const struct quarantined *quarantined, uint64_t most)
{
    char *folder = NULL, *place = NULL;
    bool ok =
        asprintf(&folder, "%s/quarantine", data) >= 0 &&
        asprintf(&place, "%s/%s-%s-%lld", folder, quarantined->what, quarantined->id, (long long)quarantined->at) >= 0;
    if (!ok)
        errno = ENOMEM;
    ok = ok && (mkdir(folder, 0700) == 0 || errno == EEXIST) && rename(quarantined->path, place) == 0;
    const int error = errno;
    if (ok) {
        write_reason(place, quarantined);
        (void)pthread_mutex_lock(&trimming);
        trim(folder, most);
        (void)pthread_mutex_unlock(&trimming);
    }
    free(folder);
    free(place);
    errno = error;
    return ok;
}
