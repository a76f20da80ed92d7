#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "worker/internal.h"

void output_open(struct output *output, int fd)
{
    output->fd = fd;
    output->error = fd < 0 ? EBADF : 0;
    output->is_scratch = false;
    output->used = 0;
}

static void flush(struct output *output)
{
    const char *from = output->buffer;
    size_t left = output->used;
    output->used = 0;
    while (left > 0 && output->error == 0) {
        ssize_t written = write(output->fd, from, left);
        if (written < 0 && errno != EINTR) {
            output->error = errno;
        } else if (written > 0) {
            from += written;
            left -= (size_t)written;
        }
    }
}

bool output_write(void *context, const char *bytes, size_t size)
{
    struct output *output = context;
    while (size > 0 && output->error == 0) {
        size_t room = sizeof output->buffer - output->used;
        size_t take = size < room ? size : room;
        memcpy(output->buffer + output->used, bytes, take);
        output->used += take;
        bytes += take;
        size -= take;
        if (output->used == sizeof output->buffer)
            flush(output);
    }
    return output->error == 0;
}

bool output_close(struct output *output, bool keep, struct problem *problem)
{
    if (output->fd >= 0) {
        flush(output);
        if (keep && output->error == 0 && !output->is_scratch && fsync(output->fd) != 0)
            output->error = errno;
        if (close(output->fd) != 0 && output->error == 0)
            output->error = errno;
    }
    if (output->error != 0)
        return problem_from_errno(problem, output->error, "Writing a result");
    return true;
}

static bool sink_write(void *context, const void *bytes, size_t size)
{
    return output_write(context, bytes, size);
}

struct sp_sink work_sink(struct output *output)
{
    return (struct sp_sink){.write = sink_write, .context = output};
}

enum sp_status work_write_text(struct output *output, struct sp_buf *buf, enum sp_status status, struct sp_error *err)
{
    if (status == SP_OK && sp_buf_failed(buf))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        (void)output_write(output, buf->data != NULL ? buf->data : "", buf->size);
    sp_buf_release(buf);
    return status;
}
