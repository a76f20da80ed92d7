#include "http/compress.h"

#include <stdlib.h>

#include "server_limits.h"

enum coding compress_coding(struct request *request, const char *type, uint64_t size)
{
    if (!coding_pays(type))
        return CODING_NONE;
    request_add_header(request, "Vary", "Accept, Accept-Encoding");
    bool whole = request_header(request, "Range") == NULL; /* parts are those of the answer as it is */
    return whole && size >= SPD_MIN_CODED_BYTES ? coding_wanted(request_header(request, "Accept-Encoding"))
                                                : CODING_NONE;
}

void compress_buf(struct request *request, enum coding coding, struct sp_buf *buf)
{
    struct encoder *encoder = encoder_create(coding);
    size_t room = buf->size - 1, taken = 0, written = 0;
    char *out = malloc(room);
    bool ended = false;
    if (encoder != NULL && out != NULL)
        (void)encoder_step(encoder, buf->data, buf->size, &taken, out, room, &written, true, &ended);
    encoder_destroy(encoder);
    if (!ended) { /* as large as before, or no memory */
        free(out);
        return;
    }
    sp_buf_release(buf);
    buf->data = out;
    buf->size = buf->capacity = written;
    request_add_header(request, "Content-Encoding", "%s", coding_name(coding));
}
