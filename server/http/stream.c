#include "http/compress.h"

#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/conditional.h"
#include "http/respond.h"
#include "observe/log.h"
#include "store/files.h"
#include "util/text.h"

/* ---- as it is ---- */

struct sending {
    struct stream stream;
    uint64_t offset;         /* of the first byte sent */
    struct encoder *encoder; /* or NULL; then also: */
    unsigned char *block;    /* read and not coded yet: `held` bytes from `at` on */
    size_t at, held;
};

static void release_sending(void *context)
{
    struct sending *sending = context;
    sending->stream.release(sending->stream.context);
    encoder_destroy(sending->encoder);
    free(sending->block);
    free(sending);
}

static bool read_stream(const struct sending *sending, uint64_t at, void *bytes, size_t size)
{
    if (sending->stream.read(sending->stream.context, at, bytes, size))
        return true;
    LOG(LOG_ERROR, "answer broken off: a stored file could not be read");
    return false;
}

static ssize_t read_sending(void *context, uint64_t position, char *bytes, size_t size)
{
    const struct sending *sending = context;
    uint64_t at = sending->offset + position, left = sending->stream.size > at ? sending->stream.size - at : 0;
    if (left == 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (size > left)
        size = (size_t)left;
    return read_stream(sending, at, bytes, size) ? (ssize_t)size : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* ---- compressed ---- */

/* Reads the next block when the last one is used up. */
static bool fill(struct sending *sending)
{
    uint64_t left = sending->stream.size - sending->offset;
    if (sending->held > 0 || left == 0)
        return true;
    sending->at = 0;
    sending->held = left < SPD_CODING_BLOCK ? (size_t)left : SPD_CODING_BLOCK;
    if (!read_stream(sending, sending->offset, sending->block, sending->held))
        return false;
    sending->offset += sending->held;
    return true;
}

/* The library asks for bytes in order, from the first on. */
static ssize_t read_coded(void *context, uint64_t position, char *bytes, size_t size)
{
    (void)position;
    struct sending *sending = context;
    struct coding_step step = {.out_size = size, .ended = sending->encoder == NULL};
    step.out = bytes;
    while (!step.ended && step.written == 0) {
        if (!fill(sending))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        step.in = sending->block + sending->at;
        step.in_size = sending->held;
        step.last = sending->offset == sending->stream.size;
        if (!encoder_step(sending->encoder, &step))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        sending->at += step.taken;
        sending->held -= step.taken;
    }
    if (step.ended) { /* nothing is to come any more, also when this was the last piece */
        encoder_destroy(sending->encoder);
        sending->encoder = NULL;
    }
    return step.written > 0 ? (ssize_t)step.written : MHD_CONTENT_READER_END_OF_STREAM;
}

/* ---- ranges ---- */

/*
 * "bytes=A-B", "bytes=A-" or "bytes=-N" of a body of `size` bytes. 1: a range, 0: none that we serve (the whole is
 * sent, which is always allowed), -1: outside.
 */
static int parse_range(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_count)
{
    char spec[64];
    if (header == NULL || strncmp(header, "bytes=", 6) != 0 || strlen(header + 6) >= sizeof spec)
        return 0;
    (void)snprintf(spec, sizeof spec, "%s", header + 6);
    char *dash = strchr(spec, '-');
    if (dash == NULL || strchr(spec, ',') != NULL)
        return 0;
    *dash = '\0';
    int64_t first = 0, last = INT64_MAX;
    bool has_first = spec[0] != '\0', has_last = dash[1] != '\0';
    if ((!has_first && !has_last) || (has_first && !text_to_int(spec, 0, INT64_MAX, &first)) ||
        (has_last && !text_to_int(dash + 1, 0, INT64_MAX, &last)) || (has_first && last < first))
        return 0;
    if (!has_first) {
        uint64_t count = (uint64_t)last < size ? (uint64_t)last : size;
        *ret_first = size - count;
        *ret_count = count;
        return count > 0 ? 1 : -1;
    }
    if ((uint64_t)first >= size)
        return -1;
    *ret_first = (uint64_t)first;
    *ret_count = ((uint64_t)last < size ? (uint64_t)last + 1 : size) - (uint64_t)first;
    return 1;
}

/* ---- the answer ---- */

/* A stream on its way: what of it goes out, and how. */
struct answer {
    int status;
    enum coding coding;
    char etag[160]; /* "": none */
    uint64_t first, count;
};

/* The ETag of an answer with this coding. */
static void write_etag(struct answer *answer, const char *etag)
{
    bool coded = answer->coding != CODING_NONE;
    (void)snprintf(answer->etag, sizeof answer->etag, "%s%s%s", etag, coded ? "-" : "",
                   coded ? coding_name(answer->coding) : "");
}

static void add_validators(struct request *request, const struct answer *answer)
{
    char date[CONDITIONAL_DATE_SIZE];
    request_add_header(request, "ETag", "\"%s\"", answer->etag);
    if (request->modified > 0) {
        conditional_date(request->modified, date);
        request_add_header(request, "Last-Modified", "%s", date);
    }
}

/* Says what the ETag and the date are, and looks at the preconditions. VERDICT_GO_ON when the stream is to be sent. */
static enum verdict check_preconditions(struct request *request, struct answer *answer, const char *etag)
{
    if (etag == NULL)
        return VERDICT_GO_ON;
    write_etag(answer, etag);
    enum precondition precondition = conditional_read(request, answer->etag, request->modified);
    if (precondition == PRECONDITION_FAILS)
        return respond_error(request, 412, "PRECONDITION_FAILED",
                             "The answer is not one that the request's conditions allow.");
    add_validators(request, answer);
    return precondition == PRECONDITION_UNCHANGED ? respond_empty(request, MHD_HTTP_NOT_MODIFIED) : VERDICT_GO_ON;
}

/* Only who was sent the answer knows its ETag, so it is there; "*" says nothing of that. Small answers are not
   compressed: either ETag may be the one. */
enum verdict respond_if_known(struct request *request, const char *type, const char *etag)
{
    const char *known = request_header(request, "If-None-Match");
    struct answer coded = {.coding = coding_wanted(request_header(request, "Accept-Encoding"))}, plain = {0};
    if (known == NULL || strchr(known, '*') != NULL)
        return VERDICT_GO_ON;
    write_etag(&coded, etag);
    write_etag(&plain, etag);
    bool is_coded = conditional_read(request, coded.etag, request->modified) == PRECONDITION_UNCHANGED;
    if (!is_coded && conditional_read(request, plain.etag, request->modified) != PRECONDITION_UNCHANGED)
        return VERDICT_GO_ON;
    (void)compress_coding(request, type, 0); /* says what the answer depends on */
    add_validators(request, is_coded ? &coded : &plain);
    return respond_empty(request, MHD_HTTP_NOT_MODIFIED);
}

/* VERDICT_GO_ON, or an answer when the range lies outside. */
static enum verdict take_range(struct request *request, struct answer *answer, uint64_t size)
{
    if (answer->etag[0] == '\0' || answer->coding != CODING_NONE)
        return VERDICT_GO_ON;
    request_add_header(request, "Accept-Ranges", "bytes");
    if (!conditional_range(request, answer->etag, request->modified))
        return VERDICT_GO_ON;
    int range = parse_range(request_header(request, "Range"), size, &answer->first, &answer->count);
    if (range < 0) {
        request_add_header(request, "Content-Range", "bytes */%" PRIu64, size);
        return respond_error(request, 416, "RANGE_NOT_SATISFIABLE", "The range lies outside the %" PRIu64 " bytes.",
                             size);
    }
    if (range > 0) {
        answer->status = MHD_HTTP_PARTIAL_CONTENT;
        request_add_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, answer->first,
                           answer->first + answer->count - 1, size);
    }
    return VERDICT_GO_ON;
}

/* Takes the stream. The size of what is compressed is not known before. */
static struct MHD_Response *make_response(const struct stream *stream, const struct answer *answer,
                                          struct encoder *encoder)
{
    if (encoder == NULL && stream->bytes != NULL) {
        /* The library sends it from where it is. */
        struct MHD_Response *whole = MHD_create_response_from_buffer_with_free_callback_cls(
            answer->count, (void *)(uintptr_t)(stream->bytes + answer->first), stream->release, stream->context);
        if (whole == NULL)
            stream->release(stream->context);
        return whole;
    }
    struct sending *sending = calloc(1, sizeof *sending);
    unsigned char *block = encoder != NULL ? malloc(SPD_CODING_BLOCK) : NULL;
    if (sending == NULL || (encoder != NULL && block == NULL)) {
        stream->release(stream->context);
        encoder_destroy(encoder);
        free(block);
        free(sending);
        return NULL;
    }
    *sending = (struct sending){.stream = *stream, .offset = answer->first, .encoder = encoder, .block = block};
    struct MHD_Response *response =
        encoder != NULL
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, SPD_READ_BLOCK, read_coded, sending, release_sending)
            : MHD_create_response_from_callback(answer->count, SPD_READ_BLOCK, read_sending, sending, release_sending);
    if (response == NULL)
        release_sending(sending);
    return response;
}

enum verdict respond_stream(struct request *request, int status, const char *type, const struct stream *stream,
                            const char *etag)
{
    struct answer answer = {.status = status, .count = stream->size};
    answer.coding = status == 200 ? compress_coding(request, type, stream->size) : CODING_NONE;
    struct problem none = {0}; /* who has no share left gets the answer as it is */
    const bool coded = answer.coding != CODING_NONE && request_charge(request, ACCOUNT_ENCODERS, 1, &none);
    struct encoder *encoder = coded ? encoder_create(answer.coding) : NULL;
    if (encoder == NULL)
        answer.coding = CODING_NONE;
    enum verdict verdict = check_preconditions(request, &answer, etag);
    if (verdict == VERDICT_GO_ON)
        verdict = take_range(request, &answer, stream->size);
    if (verdict != VERDICT_GO_ON) {
        stream->release(stream->context);
        encoder_destroy(encoder);
        return verdict;
    }
    if (encoder != NULL)
        request_add_header(request, "Content-Encoding", "%s", coding_name(answer.coding));
    return respond_with(request, answer.status, type, make_response(stream, &answer, encoder));
}

static bool read_file(void *context, uint64_t offset, void *bytes, size_t size)
{
    return files_read_at((int)(intptr_t)context, offset, bytes, size);
}

static void close_file(void *context)
{
    (void)close((int)(intptr_t)context);
}

enum verdict respond_file(struct request *request, int status, const char *type, int fd, uint64_t size,
                          const char *etag)
{
    struct stream stream = {.size = size, .read = read_file, .release = close_file, .context = (void *)(intptr_t)fd};
    struct problem problem = {0};
    if (!request_charge(request, ACCOUNT_FILES, 1, &problem)) {
        close_file(stream.context);
        return respond_problem(request, &problem);
    }
    return respond_stream(request, status, type, &stream, etag);
}

static bool read_memory(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_buf *buf = context;
    memcpy(bytes, buf->data + offset, size);
    return true;
}

static void free_memory(void *context)
{
    sp_buf_release(context);
    free(context);
}

enum verdict respond_tagged(struct request *request, int status, const char *type, struct sp_buf *buf, const char *etag)
{
    struct sp_buf *kept = etag != NULL && !sp_buf_failed(buf) && buf->data != NULL ? malloc(sizeof *kept) : NULL;
    if (kept == NULL)
        return respond_buf(request, status, type, buf);
    struct problem problem = {0};
    if (buf->size >= SPD_MIN_SENT_BYTES && !request_charge(request, ACCOUNT_ANSWER_BYTES, buf->size, &problem)) {
        free(kept);
        sp_buf_release(buf);
        return respond_problem(request, &problem);
    }
    *kept = *buf;
    memset(buf, 0, sizeof *buf);
    struct stream stream = {
        .size = kept->size, .read = read_memory, .release = free_memory, .context = kept, .bytes = kept->data};
    return respond_stream(request, status, type, &stream, etag);
}

enum verdict respond_fixed(struct request *request, const char *type, struct sp_buf *buf)
{
    unsigned char digest[32];
    char etag[33];
    if (sp_buf_failed(buf) || gnutls_hash_fast(GNUTLS_DIG_SHA256, buf->data, buf->size, digest) != 0)
        return respond_buf(request, 200, type, buf);
    text_to_hex(digest, 16, etag);
    return respond_tagged(request, 200, type, buf, etag);
}

enum verdict respond_program(struct request *request, const char *type, const struct fixed *fixed)
{
    bool coded = fixed->gzip_size > 0 && coding_takes_gzip(request_header(request, "Accept-Encoding"));
    struct answer answer = {.status = 200, .coding = coded ? CODING_GZIP : CODING_NONE};
    enum verdict verdict = check_preconditions(request, &answer, fixed->etag);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (coded)
        request_add_header(request, "Content-Encoding", "%s", coding_name(CODING_GZIP));
    void *bytes =
        (void *)(uintptr_t)(coded ? fixed->gzip : fixed->bytes); /* the library takes non-const and only reads */
    return respond_with(
        request, 200, type,
        MHD_create_response_from_buffer(coded ? fixed->gzip_size : fixed->size, bytes, MHD_RESPMEM_PERSISTENT));
}

enum verdict respond_table(struct request *request, const char *name,
                           enum sp_status (*write_text)(const char *name, struct sp_buf *buf, struct sp_error *err),
                           enum sp_status (*write_json)(const char *name, struct sp_json *json, struct sp_error *err))
{
    const bool as_text = request_accepts(request, "text/plain") > request_accepts(request, "application/json");
    struct problem problem = {0};
    struct sp_error err = {0};
    enum sp_status status;
    struct sp_buf buf;
    sp_buf_init(&buf, SPD_MAX_TABLE_BYTES);
    if (as_text) {
        status = write_text(name, &buf, &err);
    } else {
        struct sp_json json;
        sp_json_init_buf(&json, false, &buf);
        status = write_json(name, &json, &err);
        if (status == SP_OK)
            status = sp_json_finish(&json, &err);
    }
    if (status == SP_OK)
        return respond_fixed(request, as_text ? "text/plain; charset=utf-8" : "application/json", &buf);
    sp_buf_release(&buf);
    problem_from_error(&problem, &err);
    return respond_problem(request, &problem);
}
