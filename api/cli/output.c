#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define COPY_BYTES ((size_t)256 << 10)

static enum sp_status unwritable(const char *path, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%s': %s.", path, strerrordesc_np(errno));
}

/* A temporary file beside the target, so that renaming it is atomic. */
static enum sp_status open_beside(struct output *output, struct sp_error *err)
{
    static const char suffix[] = ".XXXXXX";
    size_t size = strlen(output->path) + sizeof suffix;
    output->temporary = malloc(size);
    if (output->temporary == NULL)
        return sp_fail_memory(err);
    (void)snprintf(output->temporary, size, "%s%s", output->path, suffix);
    output->fd = mkstemp(output->temporary);
    if (output->fd < 0) {
        enum sp_status status = unwritable(output->path, err);
        free(output->temporary);
        output->temporary = NULL;
        return status;
    }
    mode_t mask = umask(0);
    (void)umask(mask);
    (void)fchmod(output->fd, 0666 & ~mask);
    return SP_OK;
}

enum sp_status output_open(const char *path, const struct input *input, struct output *ret_output, struct sp_error *err)
{
    struct output output = {.fd = -1, .input = input};
    struct stat info;
    enum sp_status status = SP_OK;
    if (strcmp(path, "-") == 0) {
        (void)fflush(stdout);
        output.fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        output.path = strdup("standard output");
        output.is_standard = true;
    } else {
        /* Through a symbolic link to what it means, or the link would be replaced. */
        output.path = realpath(path, NULL);
        if (output.path == NULL)
            output.path = strdup(path);
        if (output.path == NULL)
            return sp_fail_memory(err);
        if (stat(output.path, &info) == 0 && S_ISDIR(info.st_mode)) {
            errno = EISDIR;
            status = unwritable(path, err);
        } else if (stat(output.path, &info) == 0 && !S_ISREG(info.st_mode)) {
            output.fd = open(output.path, O_WRONLY | O_CLOEXEC);
        } else {
            status = open_beside(&output, err);
        }
    }
    if (status == SP_OK && output.fd < 0)
        status = unwritable(path, err);
    if (status == SP_OK && output.path == NULL)
        status = sp_fail_memory(err);
    if (status != SP_OK) {
        output_close(&output);
        return status;
    }
    *ret_output = output;
    return SP_OK;
}

bool output_write(void *context, const void *bytes, size_t size)
{
    struct output *output = context;
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = write(output->fd, at, size);
        if (written < 0 && errno == EINTR && !interrupted)
            continue;
        if (written <= 0)
            return false;
        at += written;
        size -= (size_t)written;
    }
    return !interrupted;
}

/* Ranges of the original are copied inside the kernel where the file system can do that, through a buffer elsewhere. */
static bool copy_range(void *context, uint64_t offset, uint64_t size)
{
    struct output *output = context;
    off_t from = (off_t)offset;
    while (size > 0) {
        ssize_t copied = copy_file_range(output->input->fd, &from, output->fd, NULL, size, 0);
        if (copied <= 0)
            break;
        size -= (uint64_t)copied;
        if (interrupted)
            return false;
    }
    char *buffer = size > 0 ? malloc(COPY_BYTES) : NULL;
    if (size > 0 && buffer == NULL)
        return false;
    while (size > 0) {
        ssize_t got = pread(output->input->fd, buffer, size < COPY_BYTES ? (size_t)size : COPY_BYTES, from);
        if (got < 0 && errno == EINTR && !interrupted)
            continue;
        if (got <= 0 || !output_write(output, buffer, (size_t)got))
            break;
        from += got;
        size -= (uint64_t)got;
    }
    free(buffer);
    return size == 0;
}

/* For what writes by itself: `copy` takes ranges of the input. */
static struct sp_sink output_sink(struct output *output)
{
    return (struct sp_sink){.write = output_write, .copy = copy_range, .context = output};
}

enum sp_status output_splice(struct output *output, const struct sp_splice *splice, struct sp_error *err)
{
    const struct sp_sink sink = output_sink(output);
    errno = 0;
    if (sp_splice_stream(splice, NULL, &sink, NULL) == SP_OK)
        return SP_OK;
    return errno != 0 ? unwritable(output->path, err)
                      : sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%s' to its end.", output->path);
}

bool output_restart(struct output *output)
{
    return output->temporary != NULL && lseek(output->fd, 0, SEEK_SET) == 0 && ftruncate(output->fd, 0) == 0;
}

enum sp_status output_commit(struct output *output, struct sp_error *err)
{
    int fd = output->fd;
    output->fd = -1;
    if (close(fd) != 0)
        return unwritable(output->path, err);
    if (output->temporary != NULL && rename(output->temporary, output->path) != 0)
        return unwritable(output->path, err);
    free(output->temporary);
    output->temporary = NULL;
    return SP_OK;
}

/* Where weights of the main graph lie that are not in the model's file, or NULL. */
static const char *first_location(const struct sp_model *model)
{
    for (uint32_t i = 0; i < model->graph->initializer_count; i++) {
        const struct sp_tensor *tensor = model->graph->initializers[i]->tensor;
        if (tensor != NULL && tensor->storage == SP_STORAGE_EXTERNAL)
            return tensor->external.location;
    }
    return NULL;
}

static bool has_more_locations(const struct sp_model *model, const char *location)
{
    for (uint32_t i = 0; i < model->graph->initializer_count; i++) {
        const struct sp_tensor *tensor = model->graph->initializers[i]->tensor;
        if (tensor != NULL && tensor->storage == SP_STORAGE_EXTERNAL &&
            strcmp(tensor->external.location, location) != 0)
            return true;
    }
    return false;
}

static bool is_beside_input(const struct output *output)
{
    const char *slash = strrchr(output->path, '/');
    struct stat input, own;
    if (output->input->folder == NULL || stat(output->input->folder, &input) != 0)
        return false;
    char *folder = slash == NULL ? strdup(".") : strndup(output->path, (size_t)(slash - output->path) + 1);
    const bool is_same =
        folder != NULL && stat(folder, &own) == 0 && own.st_dev == input.st_dev && own.st_ino == input.st_ino;
    free(folder);
    return is_same;
}

void output_tell_weights(const struct output *output, const struct sp_model *model)
{
    const char *location = first_location(model);
    if (location != NULL && !output->is_standard && !is_beside_input(output))
        print_note(
            "%s refers to the files that the model's weights lie in ('%.200s'%s); they must come to lie beside it",
            output->path, location, has_more_locations(model, location) ? " and others" : "");
}

void output_close(struct output *output)
{
    if (output->fd >= 0)
        (void)close(output->fd);
    if (output->temporary != NULL)
        (void)unlink(output->temporary);
    free(output->temporary);
    free(output->path);
    *output = (struct output){.fd = -1};
}

/* ---- standard output ---- */

bool write_stdout(void *context, const char *bytes, size_t size)
{
    (void)context;
    return fwrite(bytes, 1, size, stdout) == size;
}

enum sp_status finish_stdout(struct sp_error *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return SP_OK;
    return sp_fail(err, SP_ERR_IO, "OUTPUT_LOST", "Cannot write to standard output: %s.",
                   errno != 0 ? strerrordesc_np(errno) : "an earlier write failed");
}

enum sp_status print_buf(const struct sp_buf *buf, struct sp_error *err)
{
    if (sp_buf_failed(buf))
        return sp_fail_memory(err);
    if (buf->size > 0)
        (void)write_stdout(NULL, buf->data, buf->size);
    return finish_stdout(err);
}
