#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define COPY_BYTES ((size_t)1 << 20)

static enum sp_status unreadable(const char *path, int error, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_REQUEST, "FILE_NOT_READABLE", "Cannot read '%s': %s.", path, strerrordesc_np(error));
}

/* A pipe has no size and cannot be mapped: its bytes go to a file without a name. Replaces *fd. */
static enum sp_status spool(const char *path, int *fd, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    FILE *file = tmpfile();
    char *buffer = malloc(COPY_BYTES);
    if (file == NULL || buffer == NULL) {
        status = sp_fail(err, SP_ERR_IO, "NO_TEMPORARY_FILE", "Cannot make a temporary file for '%s': %s.", path,
                         strerrordesc_np(errno));
        goto out;
    }
    for (;;) {
        ssize_t got = read(*fd, buffer, COPY_BYTES);
        if (got < 0 && errno == EINTR && !interrupted)
            continue;
        if (got < 0) {
            status = unreadable(path, errno, err);
            goto out;
        }
        if (got == 0)
            break;
        if (fwrite(buffer, 1, (size_t)got, file) != (size_t)got)
            break;
    }
    int copy;
    if (ferror(file) || fflush(file) != 0 || (copy = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0)) < 0) {
        status = sp_fail(err, SP_ERR_IO, "NO_TEMPORARY_FILE", "Cannot keep '%s' in a temporary file: %s.", path,
                         strerrordesc_np(errno));
        goto out;
    }
    (void)close(*fd);
    *fd = copy;
out:
    free(buffer);
    if (file != NULL)
        (void)fclose(file);
    return status;
}

static enum sp_status map(const char *path, struct input *input, struct sp_error *err)
{
    struct stat info;
    if (fstat(input->fd, &info) != 0)
        return unreadable(path, errno, err);
    if (S_ISDIR(info.st_mode))
        return unreadable(path, EISDIR, err);
    if (!S_ISREG(info.st_mode)) {
        enum sp_status status = spool(path, &input->fd, err);
        if (status != SP_OK)
            return status;
        if (fstat(input->fd, &info) != 0)
            return unreadable(path, errno, err);
    }
    input->size = (uint64_t)info.st_size;
    if (input->size == 0) {
        input->bytes = "";
        return SP_OK;
    }
    void *bytes = mmap(NULL, (size_t)input->size, PROT_READ, MAP_PRIVATE, input->fd, 0);
    if (bytes == MAP_FAILED)
        return unreadable(path, errno, err);
    /* Weights lie between the records that are read: reading ahead would only make them resident. */
    (void)madvise(bytes, (size_t)input->size, MADV_RANDOM);
    input->bytes = bytes;
    return SP_OK;
}

enum sp_status input_open(const char *path, struct input *ret_input, struct sp_error *err)
{
    struct input input = {.fd = -1};
    const char *slash = strrchr(path, '/');
    bool from_stdin = strcmp(path, "-") == 0;
    (void)snprintf(input.name, sizeof input.name, "%s", from_stdin ? "stdin" : slash != NULL ? slash + 1 : path);
    make_utf8(input.name);
    if (!from_stdin) {
        input.folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
        if (input.folder == NULL)
            return sp_fail_memory(err);
    }
    input.fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (input.fd < 0) {
        const int reason = errno;
        input_close(&input);
        return unreadable(path, reason, err);
    }
    enum sp_status status = map(path, &input, err);
    if (status != SP_OK) {
        input_close(&input);
        return status;
    }
    *ret_input = input;
    return SP_OK;
}

void input_close(struct input *input)
{
    if (input->size > 0 && input->bytes != NULL)
        (void)munmap((void *)input->bytes, (size_t)input->size);
    if (input->fd >= 0)
        (void)close(input->fd);
    free(input->folder);
    *input = (struct input){.fd = -1};
}

enum sp_status input_hash(struct input *input, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    unsigned char digest[32];
    gnutls_hash_hd_t hash;
    unsigned char *buffer = malloc(COPY_BYTES);
    if (buffer == NULL)
        return sp_fail_memory(err);
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0) {
        free(buffer);
        return sp_fail(err, SP_ERR_INTERNAL, "NO_SHA256", "The cryptographic library has no SHA-256.");
    }
    for (uint64_t at = 0; at < input->size && status == SP_OK;) {
        ssize_t got = pread(input->fd, buffer, COPY_BYTES, (off_t)at);
        if (got > 0 && gnutls_hash(hash, buffer, (size_t)got) == 0)
            at += (uint64_t)got;
        else if (got >= 0 || errno != EINTR || interrupted)
            status = sp_fail(err, SP_ERR_IO, "FILE_CHANGED", "'%s' could not be read to its end.", input->name);
    }
    gnutls_hash_deinit(hash, digest);
    for (size_t i = 0; i < sizeof digest && status == SP_OK; i++)
        (void)snprintf(input->sha256 + 2 * i, 3, "%02x", digest[i]);
    free(buffer);
    return status;
}

enum sp_status read_small_file(const char *path, size_t ceiling, const char *limit, struct sp_buf *buf,
                               struct sp_error *err)
{
    char piece[4096];
    bool from_stdin = strcmp(path, "-") == 0;
    sp_buf_init(buf, ceiling);
    int fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return unreadable(path, errno, err);
    ssize_t got;
    while ((got = read(fd, piece, sizeof piece)) > 0 && !sp_buf_failed(buf))
        sp_buf_append(buf, piece, (size_t)got);
    int error = errno;
    (void)close(fd);
    if (got < 0)
        return unreadable(path, error, err);
    if (sp_buf_failed(buf))
        return sp_fail_limit(err, "FILE_TOO_LARGE", limit, (int64_t)ceiling, (int64_t)ceiling + 1,
                             "'%s' is larger than such a file may be.", path);
    return SP_OK;
}
