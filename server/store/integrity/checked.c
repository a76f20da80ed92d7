#include "store/integrity/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/files.h"

struct checked {
    int fd;
    struct sums *sums;
    const struct sums_file *file;
    unsigned char *chunk; /* NULL until a part of one was wanted */
    uint64_t held;        /* which one it is */
};

struct checked *checked_create(int fd, uint64_t size, struct sums *sums, const char *name)
{
    struct checked *checked = calloc(1, sizeof *checked);
    int error = ENOMEM;
    if (checked != NULL) {
        *checked = (struct checked){.fd = fd, .sums = sums, .file = sums_find(sums, name), .held = UINT64_MAX};
        if (checked->file != NULL && checked->file->size == size)
            return checked;
        error = EBADMSG;
    }
    free(checked);
    sums_destroy(sums);
    (void)close(fd);
    errno = error;
    return NULL;
}

void checked_destroy(struct checked *checked)
{
    if (checked == NULL)
        return;
    (void)close(checked->fd);
    sums_destroy(checked->sums);
    free(checked->chunk);
    free(checked);
}

uint64_t checked_size(const struct checked *checked)
{
    return checked->file->size;
}

static size_t size_of(const struct checked *checked, uint64_t chunk)
{
    const uint64_t left = checked->file->size - chunk * SUMS_CHUNK;
    return left < SUMS_CHUNK ? (size_t)left : SUMS_CHUNK;
}

static bool read_chunk(const struct checked *checked, uint64_t chunk, void *bytes)
{
    const size_t size = size_of(checked, chunk);
    if (!files_read_at(checked->fd, chunk * SUMS_CHUNK, bytes, size)) {
        if (errno == ENODATA)
            errno = EBADMSG; /* it was that long when it was opened */
        return false;
    }
    if (sums_fit(checked->sums, checked->file, chunk, bytes, size))
        return true;
    errno = EBADMSG;
    return false;
}

/* The chunk in memory. */
static bool hold(struct checked *checked, uint64_t chunk)
{
    if (checked->held == chunk)
        return true;
    if (checked->chunk == NULL)
        checked->chunk = malloc(SUMS_CHUNK);
    if (checked->chunk == NULL) {
        errno = ENOMEM;
        return false;
    }
    checked->held = UINT64_MAX;
    if (!read_chunk(checked, chunk, checked->chunk))
        return false;
    checked->held = chunk;
    return true;
}

bool checked_read(struct checked *checked, uint64_t offset, void *bytes, size_t size)
{
    unsigned char *to = bytes;
    if (offset > checked->file->size || size > checked->file->size - offset) {
        errno = ENODATA;
        return false;
    }
    while (size > 0) {
        const uint64_t chunk = offset / SUMS_CHUNK;
        const size_t from = (size_t)(offset % SUMS_CHUNK), whole = size_of(checked, chunk);
        const size_t part = size < whole - from ? size : whole - from;
        if (part == whole && checked->held != chunk) { /* no copy */
            if (!read_chunk(checked, chunk, to))
                return false;
        } else {
            if (!hold(checked, chunk))
                return false;
            memcpy(to, checked->chunk + from, part);
        }
        to += part;
        offset += part;
        size -= part;
    }
    return true;
}

bool checked_read_all(struct checked *checked, bool (*pace)(void *context, size_t bytes), void *context)
{
    for (uint64_t at = 0; at < checked->file->size; at += SUMS_CHUNK) {
        const uint64_t chunk = at / SUMS_CHUNK;
        if (pace != NULL && !pace(context, size_of(checked, chunk))) {
            errno = ECANCELED;
            return false;
        }
        if (!hold(checked, chunk))
            return false;
    }
    return true;
}
