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
    struct coding_step step = {.in = buf->data, .in_size = buf->size, .out_size = buf->size - 1, .last = true};
    step.out = malloc(step.out_size);
    if (encoder != NULL && step.out != NULL)
        (void)encoder_step(encoder, &step);
    encoder_destroy(encoder);
    if (!step.ended) { /* as large as before, or no memory */
        free(step.out);
        return;
    }
    sp_buf_release(buf);
    buf->data = step.out;
    buf->size = buf->capacity = step.written;
    request_add_header(request, "Content-Encoding", "%s", coding_name(coding));
}
