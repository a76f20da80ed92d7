/* Storing an object at once, and what uploads in parts leave. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/s3/client.h"
#include "store/s3/encode.h"
#include "store/s3/xml.h"

bool s3_put(struct s3 *s3, const char *key, int file, uint64_t size, const char *sha256, struct problem *problem)
{
    struct s3_answer answer;
    struct s3_call call = {
        .request = {.method = "PUT", .sha256 = sha256, .headers = {"If-None-Match: *"}, .file = file, .size = size},
        .key = key,
        .retries = SPD_S3_RETRIES};
    bool ok = s3_do(s3, &call, &answer, problem);
    if (ok && answer.status != 200 && answer.status != 412)
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    return ok;
}

bool s3_copy(struct s3 *s3, const char *from, const char *to, struct problem *problem)
{
    char source[SPD_MAX_S3_URL];
    struct s3_answer answer;
    (void)snprintf(source, sizeof source, "x-amz-copy-source: /%s/%s%s", s3->bucket, s3->prefix, from);
    struct s3_call call = {
        .request =
            {.method = "PUT", .sha256 = S3_EMPTY_SHA256, .headers = {source}, .text = "", .file = -1, .is_slow = true},
        .key = to,
        .retries = SPD_S3_RETRIES};
    bool ok = s3_do(s3, &call, &answer, problem);
    if (ok && answer.status != 200)
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    return ok;
}

bool s3_abort_upload(struct s3 *s3, const char *key, const char *upload, struct problem *problem)
{
    char query[SPD_MAX_S3_URL / 2];
    struct s3_answer answer;
    (void)snprintf(query, sizeof query, "uploadId=%s", upload);
    struct s3_call call = {.request = {.method = "DELETE", .sha256 = S3_EMPTY_SHA256, .file = -1},
                           .key = key,
                           .query = query,
                           .retries = 1};
    bool ok = s3_do(s3, &call, &answer, problem);
    sp_buf_release(&answer.body);
    return ok;
}

/* ---- uploads in parts that are not completed ---- */

struct listing {
    struct s3 *s3;
    char prefix[SPD_MAX_S3_URL / 4];
    char key[SPD_MAX_S3_URL / 4], upload[SPD_MAX_S3_URL / 4]; /* of the page's last one, encoded; "" at the start */
    bool (*each)(void *context, const struct s3_unfinished *unfinished);
    void *context;
};

static int64_t time_of(const char *text)
{
    struct tm at = {0};
    return strptime(text, "%Y-%m-%dT%H:%M:%S", &at) != NULL ? (int64_t)timegm(&at) * 1000 : INT64_MAX;
}

static bool tell_each(const struct listing *listing, const char *document)
{
    char key[SPD_MAX_S3_URL / 4], id[SPD_MAX_S3_URL / 4], upload[SPD_MAX_S3_URL / 4], begun[64];
    const size_t skip = strlen(listing->s3->prefix);
    for (const char *at = document; xml_next(&at, "Key", key, sizeof key);) {
        const char *from = at;
        if (!xml_next(&from, "UploadId", id, sizeof id) || !s3_encode(id, upload, sizeof upload))
            continue;
        bool has_begun = xml_next(&from, "Initiated", begun, sizeof begun);
        struct s3_unfinished unfinished = {
            .key = key + skip, .upload = upload, .begun_ms = has_begun ? time_of(begun) : INT64_MAX};
        if (strncmp(key, listing->s3->prefix, skip) == 0 && !listing->each(listing->context, &unfinished))
            return false;
    }
    return true;
}

static bool has_more(struct listing *listing, const char *document)
{
    char truncated[8] = "", key[SPD_MAX_S3_URL / 4], id[SPD_MAX_S3_URL / 4];
    return xml_text(document, "IsTruncated", truncated, sizeof truncated) && strcmp(truncated, "true") == 0 &&
           xml_text(document, "NextKeyMarker", key, sizeof key) &&
           xml_text(document, "NextUploadIdMarker", id, sizeof id) &&
           s3_encode(key, listing->key, sizeof listing->key) && s3_encode(id, listing->upload, sizeof listing->upload);
}

static bool list_page(struct listing *listing, bool *ret_more, struct problem *problem)
{
    char query[SPD_MAX_S3_URL];
    struct s3_answer answer;
    if (listing->key[0] != '\0')
        (void)snprintf(query, sizeof query, "key-marker=%s&prefix=%s&upload-id-marker=%s&uploads=", listing->key,
                       listing->prefix, listing->upload);
    else
        (void)snprintf(query, sizeof query, "prefix=%s&uploads=", listing->prefix);
    struct s3_call call = {
        .request = {.method = "GET", .sha256 = S3_EMPTY_SHA256, .file = -1}, .query = query, .retries = SPD_S3_RETRIES};
    bool ok = s3_do(listing->s3, &call, &answer, problem);
    if (ok && (answer.status != 200 || answer.body.data == NULL))
        ok = s3_refused(problem, &answer);
    *ret_more = ok && tell_each(listing, answer.body.data) && has_more(listing, answer.body.data);
    sp_buf_release(&answer.body);
    return ok;
}

bool s3_list_unfinished(struct s3 *s3, const char *folder,
                        bool (*each)(void *context, const struct s3_unfinished *unfinished), void *context,
                        struct problem *problem)
{
    struct listing listing = {.s3 = s3, .each = each, .context = context};
    char prefix[SPD_MAX_S3_URL / 4];
    bool more = true, ok = true;
    (void)snprintf(prefix, sizeof prefix, "%s%s", s3->prefix, folder);
    if (!s3_encode(prefix, listing.prefix, sizeof listing.prefix))
        return problem_set(problem, 500, "INTERNAL", "A query to the object store is too long.");
    while (ok && more)
        ok = list_page(&listing, &more, problem);
    return ok;
}
