#include "jobs/crashes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "server_limits.h"
#include "store/files.h"
#include "util/json_memory.h"
#include "util/text.h"
#include "util/times.h"
#include "version.h"

char *crashes_folder(const char *data, const char *job)
{
    char *path = NULL;
    if (asprintf(&path, "%s/crashes/%s", data, job) < 0)
        return NULL;
    for (char *c = path + strlen(data) + strlen("/crashes/"); *c != '\0'; c++) {
        bool is_plain =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-' || *c == '_';
        if (!is_plain)
            *c = '_';
    }
    return path;
}

/* ---- room ---- */

/* How many reports there are, and which is the oldest (malloc'ed path or NULL). */
static unsigned count_reports(const char *folder, char **ret_oldest)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    struct timespec oldest = {0};
    unsigned count = 0;
    *ret_oldest = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        struct stat status;
        if (entry->d_name[0] == '.' || fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool is_older = status.st_mtim.tv_sec < oldest.tv_sec ||
                        (status.st_mtim.tv_sec == oldest.tv_sec && status.st_mtim.tv_nsec < oldest.tv_nsec);
        if (count++ > 0 && !is_older)
            continue;
        oldest = status.st_mtim;
        free(*ret_oldest);
        if (asprintf(ret_oldest, "%s/%s", folder, entry->d_name) < 0)
            *ret_oldest = NULL;
    }
    if (entries != NULL)
        (void)closedir(entries);
    return count;
}

/* Leaves room for one more. */
static void make_room(const char *folder)
{
    char *oldest;
    for (unsigned turn = 0; turn < SPD_MAX_CRASH_REPORTS; turn++) {
        bool is_full = count_reports(folder, &oldest) >= SPD_MAX_CRASH_REPORTS;
        if (is_full && oldest != NULL)
            files_remove_folder(oldest);
        free(oldest);
        if (!is_full)
            return;
    }
}

/* ---- writing ---- */

static bool write_file(int folder, const char *name, const char *bytes, size_t size)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0;
    while (ok && size > 0) {
        ssize_t written = write(fd, bytes, size);
        ok = written > 0 || (written < 0 && errno == EINTR);
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
    return fd >= 0 && close(fd) == 0 && ok;
}

static bool write_report(int folder, const struct crash *crash)
{
    char time_text[TIMES_SIZE];
    char *clean = strdup(crash->words);
    if (clean != NULL)
        text_clean(clean);
    json_t *words = json_string(clean);
    free(clean);
    json_t *report = json_pack("{s:s, s:s, s:s*, s:i, s:s, s:s, s:I, s:s, s:s, s:o*}", "job", crash->job, "kind",
                               crash->kind, "model", crash->model_id, "signal", crash->signal_number, "signal_name",
                               crash->signal_number != 0 ? sigabbrev_np(crash->signal_number) : "", "phase",
                               crash->phase, "attempt", (json_int_t)crash->attempt, "time",
                               times_format(times_now(), time_text), "version", SPD_VERSION, "words", words);
    char *text = report != NULL ? json_memory_text(report, JSON_INDENT(2)) : NULL;
    bool ok = text != NULL && write_file(folder, "report.json", text, strlen(text));
    free(text);
    json_decref(report);
    return ok;
}

/* What the job reads, each file under the name that the job has for it. */
static void keep_inputs(int folder, const struct handover *files)
{
    for (unsigned i = 0; files != NULL && i < files->input_count; i++) {
        const struct input *input = &files->inputs[i];
        if (linkat(AT_FDCWD, input->path, folder, input->name, 0) != 0 && errno != EEXIST)
            LOG(LOG_WARNING, "file of a crash not kept", log_s("name", input->name),
                log_s("error", strerrordesc_np(errno)));
    }
}

static bool write_all(const char *path, const struct crash *crash)
{
    int folder = mkdir(path, 0700) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (folder < 0)
        return false;
    bool ok = write_file(folder, "line.json", crash->line, strlen(crash->line)) &&
              (crash->body == NULL || write_file(folder, "body", crash->body, crash->body_size));
    if (ok)
        keep_inputs(folder, crash->files);
    ok = ok && write_report(folder, crash);
    int error = errno;
    (void)close(folder);
    errno = error;
    return ok;
}

void crashes_keep(const char *data, const struct crash *crash)
{
    char *folder = NULL, *path = crashes_folder(data, crash->job);
    bool ok = path != NULL && asprintf(&folder, "%s/crashes", data) >= 0;
    if (ok && (mkdir(folder, 0700) == 0 || errno == EEXIST)) {
        files_remove_folder(path); /* of the attempt before */
        make_room(folder);
        ok = write_all(path, crash);
    }
    LOG(LOG_ERROR, "worker died over a job", log_s("job", crash->job), log_s("kind", crash->kind),
        log_s("model", crash->model_id), log_i("signal", crash->signal_number), log_s("phase", crash->phase),
        log_i("attempt", crash->attempt), log_s("report", ok ? path : strerrordesc_np(errno)));
    free(folder);
    free(path);
}
