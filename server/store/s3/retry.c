#include "store/s3/retry.h"

#include <gnutls/crypto.h>
#include <string.h>
#include <time.h>

#include "store/s3/xml.h"

#define STEP_MS 50 /* between looks whether it was stopped */

static bool is_one_of(const char *code, const char *const *codes)
{
    for (; *codes != NULL; codes++) {
        if (strcmp(code, *codes) == 0)
            return true;
    }
    return false;
}

/* Transfers that another try may bring through. */
static enum s3_class classify_transfer(CURLcode result)
{
    switch (result) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_NOT_BUILT_IN:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_WRITE_ERROR: /* the caller's */
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_OUT_OF_MEMORY:
        return S3_REFUSED;
    default:
        return S3_AGAIN;
    }
}

enum s3_class s3_classify(const struct s3_answer *answer, char ret_code[64])
{
    static const char *const again[] = {
        "RequestTimeout",   "SlowDown", "ServiceUnavailable", "InternalError", "ConditionalRequestConflict",
        "OperationAborted", NULL};
    ret_code[0] = '\0';
    if (answer->result != CURLE_OK)
        return classify_transfer(answer->result);
    int status = answer->status;
    bool has_error = answer->body.data != NULL && strstr(answer->body.data, "<Error>") != NULL;
    if (has_error && !xml_text(answer->body.data, "Code", ret_code, 64))
        ret_code[0] = '\0';
    if (is_one_of(ret_code, again) || status == 408 || status == 409 || status == 429 || status == 500 ||
        status == 502 || status == 503 || status == 504)
        return S3_AGAIN;
    if (strcmp(ret_code, "ExpiredToken") == 0 || strcmp(ret_code, "InvalidAccessKeyId") == 0 ||
        strcmp(ret_code, "SignatureDoesNotMatch") == 0)
        return S3_NEW_KEYS;
    if (status / 100 == 2)
        return has_error ? S3_REFUSED : S3_ANSWERED; /* completing an upload may fail behind a 200 */
    return status == 404 || status == 412 || status == 416 ? S3_ANSWERED : S3_REFUSED;
}

void s3_budget_init(struct s3_budget *budget)
{
    (void)pthread_mutex_init(&budget->mutex, NULL);
    budget->left = SPD_S3_RETRY_BUDGET;
}

void s3_budget_release(struct s3_budget *budget)
{
    (void)pthread_mutex_destroy(&budget->mutex);
}

void s3_budget_give(struct s3_budget *budget)
{
    (void)pthread_mutex_lock(&budget->mutex);
    budget->left += budget->left < SPD_S3_RETRY_BUDGET;
    (void)pthread_mutex_unlock(&budget->mutex);
}

bool s3_budget_take(struct s3_budget *budget)
{
    (void)pthread_mutex_lock(&budget->mutex);
    bool ok = budget->left >= SPD_S3_RETRY_COST;
    if (ok)
        budget->left -= SPD_S3_RETRY_COST;
    (void)pthread_mutex_unlock(&budget->mutex);
    return ok;
}

static unsigned random_below(unsigned most)
{
    unsigned number = 0;
    if (gnutls_rnd(GNUTLS_RND_NONCE, &number, sizeof number) != 0)
        return most; /* the longest wait is as good */
    return number % (most + 1);
}

bool s3_pause(unsigned n, const atomic_bool *stop)
{
    unsigned most = n < 16 ? SPD_S3_PAUSE_MS << n : SPD_S3_MAX_PAUSE_MS;
    unsigned left = random_below(most < SPD_S3_MAX_PAUSE_MS ? most : SPD_S3_MAX_PAUSE_MS);
    while (left > 0 && !atomic_load(stop)) {
        unsigned step = left < STEP_MS ? left : STEP_MS;
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)step * 1000000}, NULL);
        left -= step;
    }
    return !atomic_load(stop);
}
