#include "uploads/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_limits.h"
#include "store/files.h"

struct part {
    int fd;
    uint64_t start, end, flushed; /* where it begins, and what is there now */
    uint64_t bytes;               /* of the whole upload */
};

static bool take_file(struct part *part, const char *path, struct problem *problem)
{
    struct stat info;
    part->fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (part->fd < 0)
        return path == NULL ? problem_no_memory(problem)
                            : problem_from_errno(problem, errno, "Opening the file of the upload");
    if (flock(part->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? problem_set(problem, 409, "UPLOAD_BUSY",
                                 "Another request is bringing bytes of this upload; ask with HEAD how far it has come "
                                 "when that has ended.")
                   : problem_from_errno(problem, errno, "Locking the file of the upload");
    if (fstat(part->fd, &info) != 0)
        return problem_from_errno(problem, errno, "Opening the file of the upload");
    part->end = (uint64_t)info.st_size;
    return true;
}

struct part *part_open(const char *data, const char *id, uint64_t bytes, uint64_t offset, uint64_t *ret_offset,
                       struct problem *problem)
{
    struct part *part = calloc(1, sizeof *part);
    char *path = files_upload(data, id);
    bool ok = false;
    if (part == NULL) {
        (void)problem_no_memory(problem);
    } else {
        part->bytes = bytes;
        part->fd = -1;
        ok = take_file(part, path, problem);
        *ret_offset = part->end;
    }
    free(path);
    if (ok && offset != part->end)
        ok = problem_set(problem, 409, "OFFSET_MISMATCH",
                         "Upload-Offset says %" PRIu64 ", and the upload has %" PRIu64 " bytes; go on from there.",
                         offset, part->end);
    if (!ok) {
        part_close(part);
        return NULL;
    }
    part->start = part->flushed = part->end;
    return part;
}

bool part_write(struct part *part, const void *bytes, size_t size, struct problem *problem)
{
    if (part->end > part->bytes || size > part->bytes - part->end)
        return problem_set(problem, 413, "UPLOAD_TOO_LARGE",
                           "The upload was announced with %" PRIu64 " bytes, and this part goes beyond them.",
                           part->bytes);
    const char *from = bytes;
    while (size > 0) {
        const ssize_t written = pwrite(part->fd, from, size, (off_t)part->end);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return problem_from_errno(problem, errno, "Writing the upload");
        from += written;
        part->end += (uint64_t)written;
        size -= (size_t)written;
    }
    /* Starts the disk early, so that making the file durable at the end does not take long. */
    if (part->end - part->flushed >= SPD_WRITEBACK_BYTES) {
        (void)sync_file_range(part->fd, (off_t)part->flushed, (off_t)(part->end - part->flushed),
                              SYNC_FILE_RANGE_WRITE);
        part->flushed = part->end;
    }
    return true;
}

void part_undo(struct part *part)
{
    if (ftruncate(part->fd, (off_t)part->start) == 0)
        part->end = part->start;
}

uint64_t part_offset(const struct part *part)
{
    return part->end;
}

int part_file(const struct part *part)
{
    return part->fd;
}

void part_close(struct part *part)
{
    if (part == NULL)
        return;
    if (part->fd >= 0)
        (void)close(part->fd);
    free(part);
}
