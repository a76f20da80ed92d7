#include "http/send.h"

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

enum verdict send_stored(struct request *request, int status, const char *type, struct stored_file *file,
                         const char *etag)
{
    const struct stream stream = send_stream(file);
    return respond_stream(request, status, type, &stream, etag);
}
