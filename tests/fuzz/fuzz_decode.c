/*
 * Compressed bodies: what comes out is the same however the body is cut into pieces, never more than is allowed, and
 * whatever the encoders write comes back.
 *
 * An input is a Content-Encoding, a line feed, a byte that says how the body is cut, and the body.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "http/coding.h"

#define MAX_DECODED ((size_t)1 << 20)

static bool keep(void *context, const void *bytes, size_t size, struct problem *problem)
{
    struct sp_buf *buf = context;
    (void)problem;
    sp_buf_append(buf, bytes, size);
    if (sp_buf_failed(buf))
        abort(); /* more than was allowed */
    return true;
}

/* False with a problem. `piece`: how many bytes at a time. */
static bool decode(const char *header, const uint8_t *bytes, size_t size, size_t piece, struct sp_buf *buf,
                   struct problem *problem)
{
    struct decoder *decoder;
    sp_buf_init(buf, MAX_DECODED);
    *problem = (struct problem){0};
    if (!decoder_create(header, MAX_DECODED, "limit", &decoder, problem))
        return false;
    bool ok = true;
    for (size_t at = 0; ok && decoder != NULL && at < size; at += piece) {
        size_t left = size - at, part = piece < left ? piece : left;
        /* A copy that is exactly so large: reading beyond it is caught. */
        void *copy = malloc(part);
        memcpy(copy, bytes + at, part);
        ok = decoder_push(decoder, copy, part, keep, buf, problem);
        free(copy);
    }
    ok = ok && (decoder == NULL || decoder_finish(decoder, problem));
    decoder_destroy(decoder);
    if (ok != (problem->status == 0) || (!ok && (problem->code[0] == '\0' || problem->detail[0] == '\0')))
        abort();
    return ok;
}

static bool is_window(const struct problem *problem)
{
    return strcmp(problem->code, "WINDOW_TOO_LARGE") == 0;
}

static void check_pieces(const char *header, const uint8_t *bytes, size_t size, size_t piece)
{
    struct sp_buf whole, cut;
    struct problem first, second;
    bool ok = decode(header, bytes, size, SIZE_MAX / 2, &whole, &first);
    bool same = decode(header, bytes, size, piece, &cut, &second) == ok;
    /* A frame that is there as a whole needs no window. */
    if (!is_window(&first) && !is_window(&second) &&
        (!same || (ok && (whole.size != cut.size || (cut.size > 0 && memcmp(whole.data, cut.data, cut.size) != 0))))) {
        (void)fprintf(stderr, "%zu bytes, '%s', and %zu, '%s'\n", whole.size, first.detail, cut.size, second.detail);
        abort();
    }
    sp_buf_release(&whole);
    sp_buf_release(&cut);
}

/* Through the encoder in small steps, and back. */
static void check_round_trip(enum coding coding, const uint8_t *bytes, size_t size, size_t piece)
{
    struct encoder *encoder = encoder_create(coding);
    struct sp_buf coded, back;
    struct problem problem;
    unsigned char out[64];
    struct coding_step step = {.out = out, .out_size = sizeof out};
    sp_buf_init(&coded, MAX_DECODED * 2);
    for (size_t at = 0; encoder != NULL && !step.ended; at += step.taken) {
        size_t left = size - at;
        step.in = bytes + at;
        step.in_size = piece < left ? piece : left;
        step.last = step.in_size == left;
        if (!encoder_step(encoder, &step) || step.taken > step.in_size || step.written > sizeof out)
            abort();
        sp_buf_append(&coded, out, step.written);
    }
    encoder_destroy(encoder);
    if (!decode(coding_name(coding), (const uint8_t *)coded.data, coded.size, piece, &back, &problem) ||
        back.size != size || (size > 0 && memcmp(back.data, bytes, size) != 0))
        abort();
    sp_buf_release(&coded);
    sp_buf_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char header[128];
    const uint8_t *end = size > 0 ? memchr(bytes, '\n', size) : NULL;
    size_t length = end != NULL ? (size_t)(end - bytes) : 0;
    if (end == NULL || length >= sizeof header || size - length < 2 || size > MAX_DECODED / 2)
        return 0;
    memcpy(header, bytes, length);
    header[length] = '\0';
    size_t piece = (size_t)bytes[length + 1] + 1;
    bytes += length + 2;
    size -= length + 2;
    check_pieces(header, bytes, size, piece);
    check_round_trip(piece % 2 == 0 ? CODING_GZIP : CODING_ZSTD, bytes, size, piece);
    (void)coding_wanted(header);
    return 0;
}
