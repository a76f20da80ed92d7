/* --replay: a job whose worker died, once more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/crashes.h"
#include "server_limits.h"
#include "store/files.h"
#include "util/json_memory.h"
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

static bool set_path(json_t *object, const char *member, const char *folder, const char *name)
{
    char *path = NULL;
    bool ok =
        asprintf(&path, "%s/%s", folder, name) >= 0 && json_object_set_new(object, member, json_string(path)) == 0;
    free(path);
    return ok;
}

/* What the client's bytes, which the daemon wrote for this kind of job, name: the plan, or the models to verify. */
static bool name_kept(json_t *request, const char *kind, const char *folder)
{
    json_t *files = json_object_get(request, "files"), *path;
    const char *id;
    bool ok = true;
    if (strcmp(kind, "verify") != 0)
        return set_path(request, "plan", folder, "plan.json");
    json_object_foreach(files, id, path)
    {
        ok = ok && set_path(files, id, folder, id);
    }
    return ok;
}

/* The same job about the files that were kept; `body` is replaced when it names one. */
static char *line_of(const char *folder, char *text, char **body, size_t *body_size)
{
    char *line = NULL;
    json_t *job = json_loads(text, 0, NULL);
    const char *kind = json_string_value(json_object_get(job, "kind")),
               *model = json_string_value(json_object_get(job, "model"));
    bool ok = kind != NULL && model != NULL && (*model == '\0' || set_path(job, "model", folder, "model")) &&
              set_path(job, "out", folder, strcmp(kind, "plan") == 0 ? "replay/1" : "replay/result");
    if (ok && json_object_get(job, "past") != NULL)
        ok = set_path(job, "past", folder, "plan.json");
    if (ok && (strcmp(kind, "export") == 0 || strcmp(kind, "sheet") == 0 || strcmp(kind, "verify") == 0)) {
        json_t *request = json_loadb(*body, *body_size, 0, NULL);
        char *changed = name_kept(request, kind, folder) ? json_memory_text(request, JSON_COMPACT) : NULL;
        json_decref(request);
        free(*body);
        *body = changed;
        *body_size = changed != NULL ? strlen(changed) : 0;
        ok = changed != NULL && json_object_set_new(job, "body", json_integer((json_int_t)*body_size)) == 0;
    }
    if (ok)
        line = json_memory_text(job, JSON_COMPACT);
    json_decref(job);
    return line;
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
    char *folder = crashes_folder(data, job), *line = NULL;
    if (folder == NULL)
        return fail(job, "out of memory");
    char *text = read_all(folder, "line.json", &size), *body = read_all(folder, "body", &body_size);
    if (text == NULL || size == 0 || body == NULL)
        (void)fail(folder, text != NULL && size == 0 ? "there is no report of a job with this id" : "cannot be read");
    else if ((line = line_of(folder, text, &body, &body_size)) == NULL)
        (void)fail(folder, "the report is damaged");
    else if (!make_output(folder))
        (void)fail(folder, strerrordesc_np(errno));
    else
        status = work_again(folder, line, body, body_size);
    free(text);
    free(body);
    free(line);
    free(folder);
    return status;
}
