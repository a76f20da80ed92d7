#include "http/body.h"

#include "http/coding.h"
#include "http/digest.h"
#include "http/upload.h"
#include "uploads/part.h"

static const char *limit_name(const struct request *request)
{
    return request->body_kind == BODY_MODEL      ? "--max-upload"
           : request->body_kind == BODY_SHARDING ? "SPD_MAX_SHARDING_BODY"
                                                 : "SPD_MAX_JSON_BYTES";
}

bool body_too_large(const struct request *request, uint64_t actual, struct problem *problem)
{
    size_t most = request->body.ceiling;
    return problem_set_limit(problem, 413, "BODY_TOO_LARGE", limit_name(request), (int64_t)most, (int64_t)actual,
                             "This request may have %zu bytes.", most);
}

/* What the body is going to take, as far as the headers say. Of a compressed one its size says nothing. */
static bool charge(struct request *request, const char *coding, struct problem *problem)
{
    const bool in_memory = request->body_kind == BODY_JSON || request->body_kind == BODY_SHARDING;
    if (coding != NULL)
        return request_charge(request, ACCOUNT_DECODERS, 1, problem);
    return !in_memory || !request->has_length ||
           request_charge(request, ACCOUNT_BODY_BYTES, request->content_length, problem);
}

bool body_begin(struct request *request, struct problem *problem)
{
    bool model = request->body_kind == BODY_MODEL;
    const char *coding = request_header(request, "Content-Encoding");
    if (!request->has_body || request->body_kind == BODY_IGNORED)
        return true;
    if (!charge(request, coding, problem))
        return false;
    if (!decoder_create(coding, model ? request->server->config->max_upload : request->body.ceiling,
                        limit_name(request), &request->decoder, problem)) {
        if (problem->status == 415)
            request_add_header(request, "Accept-Encoding", "%s", CODING_ACCEPTED);
        return false;
    }
    if (request->decoder == NULL) /* "identity" */
        request_give_back(request, ACCOUNT_DECODERS);
    return digest_create(request_header(request, "Repr-Digest"), request_header(request, "Content-Digest"),
                         &request->digest, problem);
}

/* Keeps what is decoded. */
static bool keep(void *context, const void *bytes, size_t size, struct problem *problem)
{
    struct request *request = context;
    if (request->body_kind == BODY_MODEL)
        return upload_write(request->upload, bytes, size, problem);
    if (request->body_kind == BODY_PART)
        return part_write(request->part, bytes, size, problem);
    uint64_t would_be = request->body.size + size, charged = request->charged[ACCOUNT_BODY_BYTES];
    if (would_be > charged && would_be <= request->body.ceiling &&
        !request_charge(request, ACCOUNT_BODY_BYTES, would_be - charged, problem))
        return false;
    sp_buf_append(&request->body, bytes, size);
    if (!sp_buf_failed(&request->body))
        return true;
    if (would_be > request->body.ceiling)
        return body_too_large(request, would_be, problem);
    return problem_no_memory(problem);
}

bool body_take(struct request *request, const char *bytes, size_t size, struct problem *problem)
{
    if (request->body_kind == BODY_IGNORED) {
        if (request->received > SPD_MAX_IGNORED_BODY)
            return problem_set_limit(problem, 413, "BODY_TOO_LARGE", "SPD_MAX_IGNORED_BODY", SPD_MAX_IGNORED_BODY,
                                     (int64_t)request->received, "This request has no use for a body.");
        return true;
    }
    if (request->digest != NULL && !digest_update(request->digest, bytes, size))
        return problem_set(problem, 500, "INTERNAL", "Hashing the body failed.");
    if (request->decoder != NULL)
        return decoder_push(request->decoder, bytes, size, keep, request, problem);
    return keep(request, bytes, size, problem);
}

bool body_end(struct request *request, struct problem *problem)
{
    if (request->decoder != NULL && !decoder_finish(request->decoder, problem))
        return false;
    bool ok = request->digest == NULL || digest_finish(request->digest, problem);
    if (!ok && request->part != NULL) {
        part_undo(request->part);
        body_end_part(request);
    }
    body_release(request); /* megabytes, and the answer may take long */
    return ok;
}

void body_end_part(struct request *request)
{
    part_close(request->part);
    request->part = NULL;
}

void body_release(struct request *request)
{
    decoder_destroy(request->decoder);
    digest_destroy(request->digest);
    request_give_back(request, ACCOUNT_DECODERS);
    request->decoder = NULL;
    request->digest = NULL;
}
