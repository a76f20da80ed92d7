/* --replay: a job whose worker died, once more. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/crashes.h"
#include "server_limits.h"
#include "store/files.h"
#include "worker/internal.h"

static int fail(const char *path, const char *why)
{
    (void)fprintf(stderr, "shardpland: %s: %s\n", path, why);
    return 2;
}

/* A whole file, or NULL with errno; one that is not there is empty. */
static char *read_all(const char *folder, const char *name, size_t *ret_size)
{
    char *path = NULL, *bytes = NULL;
    uint64_t size = 0;
    *ret_size = 0;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return NULL;
    int fd = files_open_read(path, &size);
    int error = errno;
    free(path);
    if (fd < 0)
        return error == ENOENT ? calloc(1, 1) : NULL;
    if (size <= SPD_MAX_LINE_BYTES + SPD_MAX_SHARDING_BODY)
        bytes = calloc(1, size + 1);
    if (bytes != NULL && !files_read_at(fd, 0, bytes, size)) {
        free(bytes);
        bytes = NULL;
    }
    (void)close(fd);
    *ret_size = size;
    return bytes;
}

/* A kept file for reading, or a new one for a result. -1 with errno. */
static int open_in(int folder, const char *name)
{
    static const char *const results[] = {"annotated.splice", "plan.txt", "plan.sheet", "plan.json", "result"};
    char path[128];
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (strcmp(name, results[i]) == 0) {
            (void)snprintf(path, sizeof path, "replay/%s", name);
            return openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        }
    }
    if (strchr(name, '/') != NULL)
        errno = EINVAL;
    return strchr(name, '/') != NULL ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* What the line names, in its order. False with errno. */
static bool open_files(const char *folder, const char *line, struct job_files *ret_files)
{
    json_t *job = json_loads(line, 0, NULL), *names = json_object_get(job, "files");
    const int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = at >= 0 && json_array_size(names) <= SPD_MAX_JOB_FILES;
    for (size_t i = 0; ok && i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const int fd = open_in(at, name != NULL ? name : "");
        ok = fd >= 0;
        if (ok)
            ret_files->fds[ret_files->count++] = fd;
    }
    const int error = errno;
    if (at >= 0)
        (void)close(at);
    json_decref(job);
    errno = error;
    return ok;
}

/* Gives them the numbers after 2, which stay open when the process is locked up. False with errno. */
static bool line_up(struct job_files *files)
{
    const int first = STDERR_FILENO + 1, free_of_all = first + (int)files->count;
    bool ok = true;
    for (unsigned i = 0; ok && i < files->count; i++) {
        files->fds[i] = fcntl(files->fds[i], F_DUPFD_CLOEXEC, free_of_all);
        ok = files->fds[i] >= 0;
    }
    for (unsigned i = 0; ok && i < files->count; i++) {
        ok = dup2(files->fds[i], first + (int)i) >= 0;
        files->fds[i] = first + (int)i;
    }
    return ok;
}

static bool make_output(const char *folder)
{
    char *path = NULL;
    if (asprintf(&path, "%s/replay", folder) < 0)
        return false;
    files_remove_folder(path);
    bool ok = mkdir(path, 0700) == 0;
    free(path);
    return ok;
}

int worker_replay(const char *data, const char *job)
{
    size_t size, body_size;
    int status = 2;
    struct job_files files = {0};
    char *folder = crashes_folder(data, job);
    if (folder == NULL)
        return fail(job, "out of memory");
    char *line = read_all(folder, "line.json", &size), *body = read_all(folder, "body", &body_size);
    if (line == NULL || size == 0 || body == NULL)
        (void)fail(folder, line != NULL && size == 0 ? "there is no report of a job with this id" : "cannot be read");
    else if (!make_output(folder) || !open_files(folder, line, &files) || !line_up(&files))
        (void)fail(folder, strerrordesc_np(errno));
    else
        status = work_again(line, body, body_size, &files);
    free(body);
    free(line);
    free(folder);
    return status;
}
