#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "log.h"
#include "store.h"
#include "text.h"

__attribute__((format(printf, 1, 2))) static char *path_of(const char *format, ...)
{
    char *path = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&path, format, args);
    va_end(args);
    return length < 0 ? NULL : path;
}

char *files_blob(const char *data, const char *id)
{
    return path_of("%s/blobs/%.2s/%s", data, id, id + 2);
}

char *files_inspection(const char *data, const char *id)
{
    return path_of("%s/blobs/%.2s/%s.json", data, id, id + 2);
}

char *files_plan_folder(const char *data, const char *id)
{
    return path_of("%s/plans/%s", data, id);
}

char *files_plan_file(const char *data, const char *id, const char *name)
{
    return path_of("%s/plans/%s/%s", data, id, name);
}

char *files_temporary(const char *data)
{
    static atomic_uint_fast64_t counter;
    return path_of("%s/tmp/%ld-%llu", data, (long)getpid(), (unsigned long long)atomic_fetch_add(&counter, 1));
}

/* mkdir -p with mode 0700. */
static bool make_folders(const char *path)
{
    char *copy = strdup(path);
    bool ok = copy != NULL;
    for (char *slash = copy; ok && slash != NULL;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL)
            *slash = '\0';
        ok = mkdir(copy, 0700) == 0 || errno == EEXIST;
        if (slash != NULL)
            *slash = '/';
    }
    free(copy);
    return ok;
}

static bool make_sub_folder(const char *data, const char *name, struct problem *problem)
{
    char *path = path_of("%s/%s", data, name);
    bool ok = path != NULL && make_folders(path);
    if (!ok)
        (void)problem_from_errno(problem, errno, "Creating the data folder");
    free(path);
    return ok;
}

bool files_open(const char *data, int *ret_lock, struct problem *problem)
{
    if (!make_sub_folder(data, "tmp", problem) || !make_sub_folder(data, "blobs", problem) ||
        !make_sub_folder(data, "plans", problem))
        return false;
    char *path = path_of("%s/lock", data);
    if (path == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = errno;
    free(path);
    if (fd < 0)
        return problem_from_errno(problem, error, "Opening the lock file of the data folder");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        error = errno;
        (void)close(fd);
        if (error == EWOULDBLOCK)
            return problem_set(problem, 409, "DATA_FOLDER_IN_USE",
                               "Another daemon uses the data folder %s; stop it or give another folder with --data.",
                               data);
        return problem_from_errno(problem, error, "Locking the data folder");
    }
    *ret_lock = fd;
    return true;
}

void files_remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder != NULL) {
        const struct dirent *entry;
        while ((entry = readdir(folder)) != NULL) {
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                (void)unlinkat(dirfd(folder), entry->d_name, 0);
        }
        (void)closedir(folder);
    }
    if (rmdir(path) != 0 && errno != ENOENT)
        LOG(LOG_WARNING, "folder not removed", log_s("path", path), log_s("error", strerrordesc_np(errno)));
}

/* Empties tmp: plain files, and folders of plain files. */
static void sweep_temporary(const char *data)
{
    char *path = path_of("%s/tmp", data);
    DIR *folder = path != NULL ? opendir(path) : NULL;
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) == 0)
            continue;
        char *inner = path_of("%s/%s", path, entry->d_name);
        if (inner != NULL)
            files_remove_folder(inner);
        free(inner);
    }
    if (folder != NULL)
        (void)closedir(folder);
    free(path);
}

static void sweep_plans(const char *data, struct store *store)
{
    char *path = path_of("%s/plans", data);
    DIR *folder = path != NULL ? opendir(path) : NULL;
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.' || store_has_plan(store, entry->d_name))
            continue;
        char *inner = path_of("%s/%s", path, entry->d_name);
        LOG(LOG_INFO, "orphan removed", log_s("plan", entry->d_name));
        if (inner != NULL)
            files_remove_folder(inner);
        free(inner);
    }
    if (folder != NULL)
        (void)closedir(folder);
    free(path);
}

/* One of the 256 folders of blobs; `prefix` is its name, two digits. */
static void sweep_blob_folder(const char *path, const char *prefix, struct store *store)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        char id[65] = "";
        if (strlen(entry->d_name) >= 62) { /* the blob, or its inspection with a suffix */
            memcpy(id, prefix, 2);
            memcpy(id + 2, entry->d_name, 62);
        }
        if (text_is_hex(id, 64) && store_has_model(store, id))
            continue;
        LOG(LOG_INFO, "orphan removed", log_s("blob", entry->d_name));
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

void files_sweep(const char *data, struct store *store)
{
    sweep_temporary(data);
    sweep_plans(data, store);
    char *path = path_of("%s/blobs", data);
    DIR *folder = path != NULL ? opendir(path) : NULL;
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char *inner = text_is_hex(entry->d_name, 2) ? path_of("%s/%s", path, entry->d_name) : NULL;
        if (inner != NULL)
            sweep_blob_folder(inner, entry->d_name, store);
        free(inner);
    }
    if (folder != NULL)
        (void)closedir(folder);
    free(path);
}

bool files_sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = fsync(fd) == 0;
    int error = errno;
    (void)close(fd);
    errno = error;
    return ok;
}

bool files_publish(const char *data, const char *id, const char *upload, const char *inspection,
                   struct problem *problem)
{
    char *folder = path_of("%s/blobs/%.2s", data, id);
    char *blobs = path_of("%s/blobs", data);
    char *blob = files_blob(data, id);
    char *described = files_inspection(data, id);
    bool ok = folder != NULL && blobs != NULL && blob != NULL && described != NULL;
    if (!ok)
        errno = ENOMEM;
    ok = ok && make_folders(folder) && rename(inspection, described) == 0 && rename(upload, blob) == 0 &&
         files_sync_folder(folder) && files_sync_folder(blobs);
    if (!ok)
        (void)problem_from_errno(problem, errno, "Storing the model");
    free(folder);
    free(blobs);
    free(blob);
    free(described);
    return ok;
}

void files_remove_blob(const char *data, const char *id)
{
    char *blob = files_blob(data, id);
    char *inspection = files_inspection(data, id);
    if (blob != NULL)
        (void)unlink(blob);
    if (inspection != NULL)
        (void)unlink(inspection);
    free(blob);
    free(inspection);
}

int files_open_read(const char *path, uint64_t *ret_size)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(fd);
        errno = EINVAL;
        return -1;
    }
    *ret_size = (uint64_t)info.st_size;
    return fd;
}

bool files_read_at(int fd, uint64_t offset, void *bytes, size_t size)
{
    char *to = bytes;
    while (size > 0) {
        ssize_t got = pread(fd, to, size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

uint64_t files_free_bytes(const char *data)
{
    struct statvfs info;
    if (statvfs(data, &info) != 0)
        return UINT64_MAX;
    return (uint64_t)info.f_bavail * info.f_frsize;
}
