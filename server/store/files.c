#include "store/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/store.h"
#include "util/text.h"

__attribute__((format(printf, 1, 2))) static char *path_of(const char *format, ...)
{
    char *path = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&path, format, args);
    va_end(args);
    return length < 0 ? NULL : path;
}

char *files_at(const char *data, const char *name)
{
    return path_of("%s/%s", data, name);
}

char *files_blob(const char *data, const char *blob)
{
    return path_of("%s/blobs/%.2s/%s", data, blob, blob + 2);
}

/* Of files without a number the tenant's hash tells whose they are, as tenants' names are not for file names; the tenant
   "" has none. */
char *files_inspection(const char *data, const char *tenant, const char *inspection)
{
    unsigned char digest[32];
    char print[65] = "";
    if (inspection[64] == '.')
        return path_of("%s/blobs/%.2s/%s.json", data, inspection, inspection + 2);
    if (*tenant != '\0') {
        if (gnutls_hash_fast(GNUTLS_DIG_SHA256, tenant, strlen(tenant), digest) != 0)
            return NULL;
        text_to_hex(digest, 8, print);
    }
    return path_of("%s/blobs/%.2s/%s%s%s.json", data, inspection, inspection + 2, *tenant != '\0' ? "-" : "", print);
}

char *files_upload(const char *data, const char *id)
{
    return path_of("%s/uploads/%s", data, id);
}

char *files_plan_folder(const char *data, const char *id)
{
    return path_of("%s/plans/%s", data, id);
}

char *files_attempt_folder(const char *data, const char *id, int64_t attempt)
{
    return path_of("%s/plans/%s/%lld", data, id, (long long)attempt);
}

char *files_plan_file(const char *data, const char *id, int64_t attempt, const char *name)
{
    return path_of("%s/plans/%s/%lld/%s", data, id, (long long)attempt, name);
}

char *files_sums(const char *path)
{
    return path != NULL ? path_of("%s.sums", path) : NULL;
}

char *files_temporary(const char *data, const char *owner)
{
    static atomic_uint_fast64_t counter;
    return path_of("%s/tmp/%s/%llu", data, owner, (unsigned long long)atomic_fetch_add(&counter, 1));
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

bool files_make_temporary(const char *data, const char *owner, struct problem *problem)
{
    char own[128];
    (void)snprintf(own, sizeof own, "tmp/%s", owner);
    return make_sub_folder(data, own, problem);
}

bool files_open(const char *data, bool is_shared, int *ret_lock, struct problem *problem)
{
    if (!make_sub_folder(data, "tmp", problem) || !make_sub_folder(data, "blobs", problem) ||
        !make_sub_folder(data, "plans", problem) || !make_sub_folder(data, "uploads", problem))
        return false;
    char *path = path_of("%s/lock", data);
    if (path == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = errno;
    free(path);
    if (fd < 0)
        return problem_from_errno(problem, error, "Opening the lock file of the data folder");
    if (flock(fd, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
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

/* ---- removing ---- */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Calls `each` with the name and the path of every entry of a folder. */
static void for_each_entry(const char *path, void (*each)(void *context, const char *path, const char *name),
                           void *context)
{
    DIR *folder = path != NULL ? opendir(path) : NULL;
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char *inner = is_dots(entry->d_name) ? NULL : path_of("%s/%s", path, entry->d_name);
        if (inner != NULL)
            each(context, inner, entry->d_name);
        free(inner);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

static void remove_file(void *context, const char *path, const char *name)
{
    (void)context;
    (void)name;
    (void)unlink(path);
}

/* Removes a folder of plain files, or a plain file. */
static void remove_flat(void *context, const char *path, const char *name)
{
    (void)context;
    (void)name;
    if (unlink(path) == 0 || errno == ENOENT)
        return;
    for_each_entry(path, remove_file, NULL);
    if (rmdir(path) != 0 && errno != ENOENT)
        LOG(LOG_WARNING, "folder not removed", log_s("path", path), log_s("error", strerrordesc_np(errno)));
}

void files_remove_folder(const char *path)
{
    for_each_entry(path, remove_flat, NULL);
    if (rmdir(path) != 0 && errno != ENOENT)
        LOG(LOG_WARNING, "folder not removed", log_s("path", path), log_s("error", strerrordesc_np(errno)));
}

static void remove_older_attempt(void *context, const char *path, const char *name)
{
    const int64_t *before = context;
    int64_t attempt;
    if (text_to_int(name, 0, INT64_MAX, &attempt) && attempt < *before)
        remove_flat(NULL, path, name);
}

void files_remove_attempts(const char *data, const char *id, int64_t before)
{
    char *path = files_plan_folder(data, id);
    for_each_entry(path, remove_older_attempt, &before);
    free(path);
}

/* ---- sweeping ---- */

struct sweep {
    const char *data;
    struct store *store;
    const char *prefix; /* of the ids in a folder of blobs */
    const char *id;     /* of the only model that matters, or NULL */
    const atomic_bool *stop;
};

static bool is_stopped(const struct sweep *sweep)
{
    return sweep->stop != NULL && atomic_load(sweep->stop);
}

static void sweep_temporary(void *context, const char *path, const char *name)
{
    const struct sweep *sweep = context;
    if (!is_stopped(sweep) && !store_owner_lives(sweep->store, name) && unlink(path) != 0)
        files_remove_folder(path);
}

static void sweep_plan(void *context, const char *path, const char *name)
{
    const struct sweep *sweep = context;
    struct plan_row row;
    if (is_stopped(sweep))
        return;
    switch (store_get_plan(sweep->store, NULL, name, &row)) {
    case STORE_DONE:
        if (row.finished_at != 0 && !row.has_result)
            files_remove_folder(path);
        else
            files_remove_attempts(sweep->data, name, row.attempts);
        store_release_plan(&row);
        break;
    case STORE_NOT_FOUND:
        LOG(LOG_INFO, "orphan removed", log_s("plan", name));
        files_remove_folder(path);
        break;
    default:
        break;
    }
}

static void sweep_upload(void *context, const char *path, const char *name)
{
    const struct sweep *sweep = context;
    struct upload_row row;
    if (is_stopped(sweep) || store_get_upload(sweep->store, NULL, name, &row) != STORE_NOT_FOUND)
        return;
    LOG(LOG_INFO, "orphan removed", log_s("upload", name));
    (void)unlink(path);
}

bool files_read_blob_name(const char *prefix, const char *name, struct files_name *ret)
{
    char number[24] = "";
    *ret = (struct files_name){.file = FILE_BLOB};
    if (strlen(prefix) != 2 || strlen(name) < 62)
        return false;
    memcpy(ret->id, prefix, 2);
    memcpy(ret->id + 2, name, 62);
    const char *rest = name + 62;
    if (rest[0] == '.' && rest[1] >= '1' && rest[1] <= '9') {
        const size_t digits = strspn(rest + 1, "0123456789");
        if (digits >= sizeof number)
            return false;
        memcpy(number, rest + 1, digits);
        rest += 1 + digits;
    }
    const size_t length = strlen(rest), end = sizeof ".sums" - 1;
    ret->is_sums = length >= end && strcmp(rest + length - end, ".sums") == 0;
    if (length > (ret->is_sums ? end : 0)) /* ".json", or a tenant's hash before it */
        ret->file = FILE_INSPECTION;
    return text_is_hex(ret->id, 64) && (number[0] == '\0' || text_to_int(number, 1, INT64_MAX, &ret->number));
}

/* Whether these are sums of a file that is not there. It comes before them and goes before them. */
static bool is_alone(const struct files_name *of, const char *path)
{
    char *file = of->is_sums ? path_of("%.*s", (int)(strlen(path) - (sizeof ".sums" - 1)), path) : NULL;
    const bool alone = file != NULL && access(file, F_OK) != 0 && errno == ENOENT;
    free(file);
    return alone;
}

static void sweep_blob(void *context, const char *path, const char *name)
{
    const struct sweep *sweep = context;
    struct files_name of;
    if (is_stopped(sweep) || !files_read_blob_name(sweep->prefix, name, &of) ||
        (sweep->id != NULL && strcmp(sweep->id, of.id) != 0) ||
        (!is_alone(&of, path) && store_names(sweep->store, of.id, of.number, of.file) != STORE_NOT_FOUND))
        return;
    if (sweep->id == NULL)
        LOG(LOG_INFO, "orphan removed", log_s("blob", name));
    (void)unlink(path);
}

void files_tidy_model(const char *data, struct store *store, const char *id)
{
    char prefix[3];
    char *folder = path_of("%s/blobs/%.2s", data, id);
    (void)snprintf(prefix, sizeof prefix, "%.2s", id);
    struct sweep sweep = {.data = data, .store = store, .prefix = prefix, .id = id};
    for_each_entry(folder, sweep_blob, &sweep);
    free(folder);
}

static void sweep_blob_folder(void *context, const char *path, const char *name)
{
    struct sweep sweep = *(struct sweep *)context;
    sweep.prefix = name;
    if (text_is_hex(name, 2))
        for_each_entry(path, sweep_blob, &sweep);
}

void files_sweep(const char *data, struct store *store, const atomic_bool *stop)
{
    struct sweep sweep = {.data = data, .store = store, .stop = stop};
    char *tmp = path_of("%s/tmp", data), *plans = path_of("%s/plans", data), *blobs = path_of("%s/blobs", data);
    char *uploads = path_of("%s/uploads", data);
    (void)store_end_reservations(store);
    for_each_entry(tmp, sweep_temporary, &sweep);
    for_each_entry(uploads, sweep_upload, &sweep);
    for_each_entry(plans, sweep_plan, &sweep);
    for_each_entry(blobs, sweep_blob_folder, &sweep);
    free(tmp);
    free(uploads);
    free(plans);
    free(blobs);
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

bool files_rename(const char *path, const char *to, int file)
{
    struct stat mine, there;
    if (rename(path, to) != 0 || fstat(file, &mine) != 0 || stat(to, &there) != 0)
        return false;
    if (mine.st_dev == there.st_dev && mine.st_ino == there.st_ino)
        return true;
    (void)unlink(to);
    errno = ESTALE;
    return false;
}

/* A worker has flushed them already, or says so. */
static bool sync_file(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const bool ok = fd >= 0 && fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = error;
    return ok;
}

/* PATH.sums, when there is such a file: else they are made when they are needed. */
static void move_sums(const char *from, const char *to)
{
    char *old = files_sums(from), *new = files_sums(to);
    if (old != NULL && new != NULL)
        (void)rename(old, new);
    free(old);
    free(new);
}

bool files_publish(const char *data, const char *name, const char *upload, const char *inspection,
                   struct problem *problem)
{
    char *folder = path_of("%s/blobs/%.2s", data, name);
    char *blobs = path_of("%s/blobs", data);
    char *blob = files_blob(data, name);
    char *described = files_inspection(data, "", name);
    bool ok = folder != NULL && blobs != NULL && blob != NULL && described != NULL;
    if (!ok)
        errno = ENOMEM;
    /* One level: where the data folder itself is away, nothing is made in its place. */
    ok = ok && sync_file(upload) && (inspection == NULL || sync_file(inspection)) &&
         (mkdir(folder, 0700) == 0 || errno == EEXIST) && (inspection == NULL || rename(inspection, described) == 0) &&
         rename(upload, blob) == 0;
    if (ok) {
        move_sums(inspection, described);
        move_sums(upload, blob);
    }
    ok = ok && files_sync_folder(folder) && files_sync_folder(blobs);
    if (!ok)
        (void)problem_from_errno(problem, errno, "Storing the model");
    free(folder);
    free(blobs);
    free(blob);
    free(described);
    return ok;
}

/* The folders in which DATA/NAME lies, but for DATA and the one in it: where these are away, nothing is made in their
   place. */
static bool make_folders_below(const char *data, char *path)
{
    bool ok = true;
    char *slash = strchr(path + strlen(data) + 1, '/');
    if (slash != NULL)
        slash = strchr(slash + 1, '/');
    for (; ok && slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ok = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
    }
    return ok;
}

bool files_place(const char *data, const char *name, const char *path)
{
    char *place = files_at(data, name);
    const bool ok = place != NULL && make_folders_below(data, place) && rename(path, place) == 0;
    const int error = place != NULL ? errno : ENOMEM;
    free(place);
    errno = error;
    return ok;
}

int files_open_read(const char *path, uint64_t *ret_size)
{
    struct stat info;
    if (path == NULL) {
        errno = ENOMEM;
        return -1;
    }
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
        if (got == 0)
            errno = ENODATA;
        if (got <= 0)
            return false;
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

bool files_hash(int fd, uint64_t size, char ret_sha256[65])
{
    unsigned char block[64 * 1024], digest[32];
    gnutls_hash_hd_t hash;
    bool ok = true;
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0) {
        errno = ENOMEM;
        return false;
    }
    for (uint64_t at = 0; ok && at < size;) {
        const size_t part = size - at < sizeof block ? (size_t)(size - at) : sizeof block;
        ok = files_read_at(fd, at, block, part) && gnutls_hash(hash, block, part) == 0;
        at += part;
    }
    const int error = errno;
    gnutls_hash_deinit(hash, digest);
    text_to_hex(digest, sizeof digest, ret_sha256);
    errno = error;
    return ok;
}

uint64_t files_free_bytes(const char *data)
{
    struct statvfs info;
    if (statvfs(data, &info) != 0)
        return UINT64_MAX;
    return (uint64_t)info.f_bavail * info.f_frsize;
}
