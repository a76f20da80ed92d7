#include "http/send.h"

#include <unistd.h>

#include "store/files.h"

static bool read_stored(void *context, uint64_t offset, void *bytes, size_t size)
{
    return stored_read(context, offset, bytes, size);
}

static void close_stored(void *context)
{
    stored_close(context);
}

struct stream send_stream(struct stored_file *file)
{
    return (struct stream){.size = stored_size(file), .read = read_stored, .release = close_stored, .context = file};
}

static bool read_file(void *context, uint64_t offset, void *bytes, size_t size)
{
    return files_read_at((int)(intptr_t)context, offset, bytes, size);
}

static void close_file(void *context)
{
    (void)close((int)(intptr_t)context);
}

bool send_open(const char *path, struct stream *ret_stream)
{
    uint64_t size;
    const int fd = files_open_read(path, &size);
    if (fd < 0)
        return false;
    *ret_stream =
        (struct stream){.size = size, .read = read_file, .release = close_file, .context = (void *)(intptr_t)fd};
    return true;
}

enum verdict send_stored(struct request *request, int status, const char *type, struct stored_file *file,
                         const char *etag)
{
    const struct stream stream = send_stream(file);
    return respond_stream(request, status, type, &stream, etag);
}
