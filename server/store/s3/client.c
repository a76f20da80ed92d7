#include "store/s3/client.h"

#include <stdio.h>
#include <string.h>

/* ---- handles ---- */

static CURL *take_handle(struct s3 *s3)
{
    CURL *curl = NULL;
    (void)pthread_mutex_lock(&s3->mutex);
    if (s3->idle_count > 0)
        curl = s3->idle[--s3->idle_count];
    (void)pthread_mutex_unlock(&s3->mutex);
    return curl != NULL ? curl : curl_easy_init();
}

/* After a failure the next request gets a new connection, and looks the name up again. */
static void give_handle(struct s3 *s3, CURL *curl, bool worked)
{
    (void)pthread_mutex_lock(&s3->mutex);
    if (worked && s3->idle_count < SPD_S3_HANDLES) {
        s3->idle[s3->idle_count++] = curl;
        curl = NULL;
    }
    (void)pthread_mutex_unlock(&s3->mutex);
    curl_easy_cleanup(curl);
}

/* ---- problems ---- */

bool s3_refused(struct problem *problem, const struct s3_answer *answer)
{
    char code[64];
    (void)s3_classify(answer, code);
    return problem_set(problem, 503, "BLOBS_REFUSED", "The object store refused a request: %d%s%s.", answer->status,
                       code[0] != '\0' ? " " : "", code);
}

static bool fail(const struct s3 *s3, const struct s3_answer *answer, enum s3_class class, struct problem *problem)
{
    char code[64];
    if (atomic_load(s3->stop))
        return problem_set(problem, 503, "STOPPING", "The service is stopping; send the request again.");
    if (answer->result == CURLE_OUT_OF_MEMORY)
        return problem_no_memory(problem);
    if (answer->result != CURLE_OK)
        return problem_set(problem, 503, "BLOBS_UNAVAILABLE",
                           "The object store does not answer at the moment (%s); try again later.",
                           curl_easy_strerror(answer->result));
    (void)s3_classify(answer, code);
    if (class == S3_AGAIN)
        return problem_set(problem, 503, "BLOBS_UNAVAILABLE",
                           "The object store does not serve at the moment (%d%s%s); try again later.", answer->status,
                           code[0] != '\0' ? " " : "", code);
    if (strcmp(code, "RequestTimeTooSkewed") == 0)
        return problem_set(problem, 503, "BLOBS_REFUSED",
                           "The object store refused a request since the clock of this machine is wrong.");
    return s3_refused(problem, answer);
}

/* ---- calls ---- */

/* Sends it once, with the keys of the moment. False with a problem when there are none. */
static bool send_once(struct s3 *s3, struct s3_call *call, struct s3_keys *keys, struct s3_answer *answer,
                      struct problem *problem)
{
    char url[SPD_MAX_S3_URL];
    *answer = (struct s3_answer){0};
    int length = snprintf(url, sizeof url, "%s%s%s%s%s", s3->base, call->key != NULL ? s3->prefix : "",
                          call->key != NULL ? call->key : "", call->query != NULL ? "?" : "",
                          call->query != NULL ? call->query : "");
    if (length < 0 || (size_t)length >= sizeof url)
        return problem_set(problem, 500, "INTERNAL", "An address of the object store is too long.");
    if (!credentials_get(s3->credentials, keys, problem))
        return false;
    CURL *curl = take_handle(s3);
    if (curl == NULL)
        return problem_no_memory(problem);
    call->request.url = url;
    call->request.keys = keys;
    call->request.signing = s3->signing;
    s3_send(curl, &call->request, s3->stop, answer);
    call->request.url = NULL;
    call->request.keys = NULL;
    give_handle(s3, curl, answer->result == CURLE_OK && answer->status < 500);
    (void)atomic_fetch_add(&s3->requests, 1);
    return true;
}

static bool may_retry(struct s3 *s3, const struct s3_call *call, unsigned n)
{
    if (n >= call->retries || !s3_budget_take(&s3->budget) || !s3_pause(n, s3->stop))
        return false;
    if (call->rewind != NULL && !call->rewind(call->request.context))
        return false;
    (void)atomic_fetch_add(&s3->retries, 1);
    return true;
}

bool s3_do(struct s3 *s3, struct s3_call *call, struct s3_answer *ret_answer, struct problem *problem)
{
    struct s3_keys keys;
    char code[64];
    bool renewed = false, ok = false;
    for (unsigned n = 0;;) {
        if (!send_once(s3, call, &keys, ret_answer, problem))
            break;
        enum s3_class class = s3_classify(ret_answer, code);
        ok = class == S3_ANSWERED;
        if (class == S3_NEW_KEYS && !renewed) {
            renewed = true;
            credentials_refused(s3->credentials, &keys);
        } else if (class == S3_AGAIN && may_retry(s3, call, n)) {
            n++;
        } else {
            if (!ok)
                (void)fail(s3, ret_answer, class, problem);
            break;
        }
        sp_buf_release(&ret_answer->body);
    }
    explicit_bzero(&keys, sizeof keys);
    if (ok)
        s3_budget_give(&s3->budget);
    else
        (void)atomic_fetch_add(&s3->failures, 1);
    return ok;
}
