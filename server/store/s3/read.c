/* Reading an object that others wrote: its size first, then its bytes, over as many requests as it takes. */
#include <stdio.h>
#include <string.h>

#include "store/s3/client.h"

struct reading {
    const struct s3_sink *sink;
    uint64_t offset, before, size; /* bytes that were given on; at the start of the request; of the whole */
    bool was_refused;              /* by the sink */
};

static bool take(void *context, int status, const void *bytes, size_t size)
{
    struct reading *reading = context;
    /* More than it has, or the whole though a part was asked for. */
    if (size > reading->size - reading->offset || (status == 200 && reading->before > 0))
        return false;
    if (!reading->sink->take(reading->sink->context, bytes, size)) {
        reading->was_refused = true;
        return false;
    }
    reading->offset += size;
    return true;
}

static bool brought_nothing(void *context)
{
    const struct reading *reading = context;
    return reading->offset == reading->before && !reading->was_refused;
}

/* What the bucket says to somebody who may not read; an object that is not there is refused, too, where the keys may not
   list the bucket. */
static enum s3_found refused(const struct s3_answer *answer, const struct problem *why, struct problem *problem)
{
    if (answer->status == 403)
        (void)problem_set(
            problem, 422, "SOURCE_REFUSED",
            "The object store refuses this service access to the object (403), or has none of this name.");
    else if (problem->status == 0)
        *problem = *why;
    return S3_FAILED;
}

/* One request for what is left. */
static enum s3_found read_rest(struct s3 *s3, const char *key, const char *etag, struct reading *reading,
                               struct problem *problem)
{
    char range[64], match[160];
    struct s3_answer answer = {0};
    struct s3_call call = {
        .request = {.method = "GET", .sha256 = S3_EMPTY_SHA256, .file = -1, .take = take, .context = reading},
        .key = key,
        .retries = SPD_S3_RETRIES,
        .rewind = brought_nothing};
    reading->before = reading->offset;
    (void)snprintf(match, sizeof match, "If-Match: %s", etag);
    (void)snprintf(range, sizeof range, "Range: bytes=%llu-", (unsigned long long)reading->before);
    call.request.headers[0] = match;
    if (reading->before > 0)
        call.request.headers[1] = range;
    struct problem why = {0};
    const bool ok = s3_do(s3, &call, &answer, &why);
    const int status = answer.status;
    const enum s3_found found = ok ? S3_FOUND : refused(&answer, &why, problem);
    sp_buf_release(&answer.body);
    if (!ok || status == 200 || status == 206)
        return found;
    if (status == 404)
        return S3_MISSING;
    (void)problem_set(problem, 422, "SOURCE_CHANGED", "The object was changed while it was read; try again.");
    return S3_FAILED;
}

/* The size and the entity tag. */
static enum s3_found look(struct s3 *s3, const char *key, struct s3_answer *ret_answer, struct problem *problem)
{
    struct s3_call call = {
        .request = {.method = "HEAD", .sha256 = S3_EMPTY_SHA256, .file = -1}, .key = key, .retries = SPD_S3_RETRIES};
    struct problem why = {0};
    *ret_answer = (struct s3_answer){0};
    const bool ok = s3_do(s3, &call, ret_answer, &why);
    sp_buf_release(&ret_answer->body);
    if (!ok)
        return refused(ret_answer, &why, problem);
    if (ret_answer->status != 200)
        return S3_MISSING;
    if (ret_answer->length >= 0 && ret_answer->etag[0] != '\0')
        return S3_FOUND;
    (void)problem_set(problem, 422, "SOURCE_REFUSED", "The object store does not say how large the object is.");
    return S3_FAILED;
}

enum s3_found s3_read(struct s3 *s3, const char *key, const struct s3_sink *sink, struct problem *problem)
{
    struct s3_answer answer;
    enum s3_found found = look(s3, key, &answer, problem);
    if (found != S3_FOUND)
        return found;
    struct reading reading = {.sink = sink, .size = (uint64_t)answer.length};
    if (!sink->begin(sink->context, reading.size))
        return S3_FAILED;
    for (unsigned n = 0; n < SPD_S3_RESUMES && reading.offset < reading.size; n++) {
        struct problem why = {0};
        found = read_rest(s3, key, answer.etag, &reading, &why);
        if (found == S3_MISSING || reading.was_refused)
            return found == S3_MISSING ? S3_MISSING : S3_FAILED;
        if (reading.offset < reading.size && (brought_nothing(&reading) || atomic_load(s3->stop))) {
            if (problem->status == 0 && why.status != 0)
                *problem = why;
            break;
        }
    }
    if (reading.offset == reading.size)
        return S3_FOUND;
    (void)problem_set(
        problem, 503, "BLOBS_UNAVAILABLE",
        "The object store broke off again and again before all of the object was there; try again later.");
    return S3_FAILED;
}
