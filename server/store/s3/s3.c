#include "store/s3/s3.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/s3/client.h"
#include "store/s3/encode.h"
#include "store/s3/xml.h"

/* ---- opening ---- */

static bool is_wrong(struct problem *problem, const char *what)
{
    return problem_set(problem, 422, "BLOBS_OPTION", "%s", what);
}

static bool is_plain(const char *text, const char *more)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    for (; *text != '\0'; text++) {
        if (strchr(letters, *text) == NULL && strchr(more, *text) == NULL)
            return false;
    }
    return true;
}

static bool is_private(const char *url)
{
    static const char *const begins[] = {"https://",          "http://localhost:", "http://localhost/",
                                         "http://127.0.0.1:", "http://127.0.0.1/", "http://[::1]"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        if (strncmp(url, begins[i], strlen(begins[i])) == 0)
            return true;
    }
    return false;
}

/* Of the bucket: s3->base. */
static bool make_base(struct s3 *s3, const char *endpoint, const char *bucket, struct problem *problem)
{
    static const char mark[] = "{bucket}";
    const char *at = strstr(endpoint, mark);
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    int size;
    if (length == 0)
        size = snprintf(s3->base, sizeof s3->base, "https://%s.s3.%s.amazonaws.com/", bucket, s3->region);
    else if (at == NULL)
        size = snprintf(s3->base, sizeof s3->base, "%.*s/%s/", (int)length, endpoint, bucket);
    else
        size = snprintf(s3->base, sizeof s3->base, "%.*s%s%.*s/", (int)(at - endpoint), endpoint, bucket,
                        (int)(endpoint + length - at - sizeof mark + 1), at + sizeof mark - 1);
    if (size < 0 || (size_t)size >= sizeof s3->base)
        return is_wrong(problem, "--blobs and --blobs-endpoint are too long.");
    s3->is_private = is_private(s3->base);
    return true;
}

static bool set_up(struct s3 *s3, const struct s3_options *options, struct problem *problem)
{
    static const char scheme[] = "s3://";
    char *const bucket = s3->bucket;
    const char *region = options->region[0] != '\0' ? options->region : getenv("AWS_REGION");
    if (strncmp(options->url, scheme, sizeof scheme - 1) != 0)
        return is_wrong(problem, "--blobs must be s3://BUCKET or s3://BUCKET/PREFIX.");
    const char *name = options->url + sizeof scheme - 1;
    size_t length = strcspn(name, "/");
    (void)snprintf(bucket, sizeof s3->bucket, "%.*s", (int)length, name);
    if (length < 3 || length >= sizeof s3->bucket || !is_plain(bucket, ""))
        return is_wrong(problem, "The bucket of --blobs must have 3 to 63 letters, digits, '-' and '.'.");
    const char *prefix = name + length + (name[length] == '/');
    size_t size = strlen(prefix);
    if (size + 2 > sizeof s3->prefix || !is_plain(prefix, "/_"))
        return is_wrong(problem, "The prefix of --blobs must be letters, digits, '-', '.', '_' and '/', and not long.");
    (void)snprintf(s3->prefix, sizeof s3->prefix, "%s%s", prefix, size > 0 && prefix[size - 1] != '/' ? "/" : "");
    (void)snprintf(s3->region, sizeof s3->region, "%s", region != NULL && *region != '\0' ? region : "us-east-1");
    if (!is_plain(s3->region, ""))
        return is_wrong(problem, "--blobs-region must be letters, digits and '-'.");
    (void)snprintf(s3->signing, sizeof s3->signing, "aws:amz:%s:s3", s3->region);
    return make_base(s3, options->endpoint, bucket, problem);
}

bool s3_open(const struct s3_options *options, struct s3 **ret_s3, struct problem *problem)
{
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (s3 == NULL)
        return problem_no_memory(problem);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(s3);
        return problem_no_memory(problem);
    }
    s3->stop = options->stop;
    (void)pthread_mutex_init(&s3->mutex, NULL);
    s3_budget_init(&s3->budget);
    if (set_up(s3, options, problem) &&
        credentials_open(options->credentials_file, s3->region, options->stop, &s3->credentials, problem)) {
        *ret_s3 = s3;
        return true;
    }
    s3_close(s3);
    return false;
}

void s3_close(struct s3 *s3)
{
    if (s3 == NULL)
        return;
    for (unsigned i = 0; i < s3->idle_count; i++)
        curl_easy_cleanup(s3->idle[i]);
    credentials_close(s3->credentials);
    s3_budget_release(&s3->budget);
    (void)pthread_mutex_destroy(&s3->mutex);
    curl_global_cleanup();
    free(s3);
}

void s3_count(const struct s3 *s3, struct s3_counts *ret_counts)
{
    *ret_counts = (struct s3_counts){.requests = atomic_load(&s3->requests),
                                     .retries = atomic_load(&s3->retries),
                                     .failures = atomic_load(&s3->failures)};
}

/* ---- calls ---- */

/* A call without a body whose answer is only a status. */
static bool ask_status(struct s3 *s3, const char *method, const char *key, unsigned retries, int *ret_status,
                       struct problem *problem)
{
    struct s3_answer answer;
    struct s3_call call = {
        .request = {.method = method, .sha256 = S3_EMPTY_SHA256, .file = -1}, .key = key, .retries = retries};
    bool ok = s3_do(s3, &call, &answer, problem);
    *ret_status = answer.status;
    if (ok && answer.status / 100 != 2 && answer.status != 404)
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    return ok;
}

enum s3_found s3_head(struct s3 *s3, const char *key, struct problem *problem)
{
    int status;
    if (!ask_status(s3, "HEAD", key, SPD_S3_RETRIES, &status, problem))
        return S3_FAILED;
    return status == 404 ? S3_MISSING : S3_FOUND;
}

bool s3_delete(struct s3 *s3, const char *key, struct problem *problem)
{
    int status;
    return ask_status(s3, "DELETE", key, SPD_S3_RETRIES, &status, problem);
}

bool s3_ready(struct s3 *s3, struct problem *problem)
{
    int status;
    if (!ask_status(s3, "HEAD", NULL, 0, &status, problem))
        return false;
    return status != 404 || problem_set(problem, 503, "BLOBS_REFUSED", "The bucket of the object store is not there.");
}

/* ---- lists ---- */

struct listing {
    struct s3 *s3;
    char prefix[SPD_MAX_S3_URL / 2], token[SPD_MAX_S3_URL / 2];
    bool (*each)(void *context, const char *key);
    void *context;
};

/* One page; *ret_more when there are more. */
static bool list_page(struct listing *listing, bool *ret_more, struct problem *problem)
{
    char query[SPD_MAX_S3_URL] = "", key[SPD_MAX_S3_URL], truncated[8] = "";
    struct s3_answer answer;
    if (listing->token[0] != '\0')
        (void)snprintf(query, sizeof query, "continuation-token=");
    bool fits = s3_encode_more(query, sizeof query, listing->token);
    size_t used = strlen(query);
    (void)snprintf(query + used, sizeof query - used, "%slist-type=2&prefix=", used > 0 ? "&" : "");
    if (!fits || !s3_encode_more(query, sizeof query, listing->prefix))
        return problem_set(problem, 500, "INTERNAL", "A query to the object store is too long.");
    struct s3_call call = {
        .request = {.method = "GET", .sha256 = S3_EMPTY_SHA256, .file = -1}, .query = query, .retries = SPD_S3_RETRIES};
    bool ok = s3_do(listing->s3, &call, &answer, problem);
    if (ok && answer.status != 200)
        ok = s3_refused(problem, &answer);
    bool goes_on = ok;
    const char *at = answer.body.data != NULL ? answer.body.data : "";
    while (goes_on && xml_next(&at, "Key", key, sizeof key)) {
        size_t skip = strlen(listing->s3->prefix);
        if (strncmp(key, listing->s3->prefix, skip) == 0)
            goes_on = listing->each(listing->context, key + skip);
    }
    *ret_more = goes_on && xml_text(answer.body.data, "IsTruncated", truncated, sizeof truncated) &&
                strcmp(truncated, "true") == 0 &&
                xml_text(answer.body.data, "NextContinuationToken", listing->token, sizeof listing->token);
    sp_buf_release(&answer.body);
    return ok;
}

bool s3_list(struct s3 *s3, const char *folder, bool (*each)(void *context, const char *key), void *context,
             struct problem *problem)
{
    struct listing listing = {.s3 = s3, .each = each, .context = context};
    bool more = true, ok = true;
    (void)snprintf(listing.prefix, sizeof listing.prefix, "%s%s", s3->prefix, folder);
    while (ok && more)
        ok = list_page(&listing, &more, problem);
    return ok;
}
