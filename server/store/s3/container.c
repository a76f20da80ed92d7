#include "store/s3/container.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "store/s3/web_identity.h"

static bool refused(struct problem *problem, const char *what)
{
    return problem_set(problem, 503, "BLOBS_CREDENTIALS", "Credentials for the object store: %s.", what);
}

static bool is_https(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0;
}

bool container_is_allowed(const char *url)
{
    static const char *const near[] = {"127.0.0.1",     "[::1]",          "localhost",
                                       "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (is_https(url))
        return true;
    if (strncasecmp(url, "http://", 7) != 0)
        return false;
    const char *host = url + 7;
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        const size_t size = strlen(near[i]);
        /* A port of digits, so that nothing before an '@' is taken for the host. */
        if (strncmp(host, near[i], size) == 0) {
            const char *rest = host + size;
            if (*rest == ':')
                rest += 1 + strspn(rest + 1, "0123456789");
            if (*rest == '/' || *rest == '\0')
                return true;
        }
    }
    return false;
}

/* The header, or "" where no token is asked for. */
static bool write_header(const struct container *container, char *header, size_t size, struct problem *problem)
{
    char token[SPD_MAX_S3_TOKEN] = "";
    header[0] = '\0';
    if (container->token_file == NULL && container->token == NULL)
        return true;
    bool ok = true;
    if (container->token_file != NULL)
        ok = web_identity_token(container->token_file, token, sizeof token, problem);
    else if (strlen(container->token) >= sizeof token)
        ok = refused(problem, "AWS_CONTAINER_AUTHORIZATION_TOKEN is too long");
    else
        (void)snprintf(token, sizeof token, "%s", container->token);
    if (ok && strpbrk(token, "\r\n") != NULL)
        ok = refused(problem, "the token for the container's credentials has more than one line");
    if (ok)
        (void)snprintf(header, size, "Authorization: %s", token);
    explicit_bzero(token, sizeof token);
    return ok;
}

static bool take(const json_t *answer, const char *name, char *ret, size_t size)
{
    const char *text = json_string_value(json_object_get(answer, name));
    if (text == NULL || text[0] == '\0' || strlen(text) >= size)
        return false;
    (void)snprintf(ret, size, "%s", text);
    return true;
}

static bool read_answer(const struct sp_buf *body, struct s3_keys *keys, int64_t *ret_ends_at, struct problem *problem)
{
    char expiration[64];
    struct tm ends = {0};
    json_t *answer = json_loadb(body->data != NULL ? body->data : "", body->size, JSON_REJECT_DUPLICATES, NULL);
    const bool ok = take(answer, "AccessKeyId", keys->id, sizeof keys->id) &&
                    take(answer, "SecretAccessKey", keys->secret, sizeof keys->secret) &&
                    take(answer, "Token", keys->token, sizeof keys->token) &&
                    take(answer, "Expiration", expiration, sizeof expiration) &&
                    strptime(expiration, "%Y-%m-%dT%H:%M:%S", &ends) != NULL;
    json_decref(answer);
    if (!ok)
        return refused(problem, "the answer of AWS_CONTAINER_CREDENTIALS_FULL_URI has no keys of a session");
    *ret_ends_at = (int64_t)timegm(&ends) * 1000;
    return true;
}

bool container_ask(const struct container *container, const atomic_bool *stop, struct s3_keys *ret_keys,
                   int64_t *ret_ends_at, struct problem *problem)
{
    char header[SPD_MAX_S3_TOKEN + 32];
    struct s3_answer answer = {0};
    if (!write_header(container, header, sizeof header, problem))
        return false;
    CURL *curl = curl_easy_init();
    if (curl == NULL) {
        explicit_bzero(header, sizeof header);
        return problem_no_memory(problem);
    }
    s3_send(curl,
            &(struct s3_request){.method = "GET",
                                 .url = container->url,
                                 .sha256 = S3_EMPTY_SHA256,
                                 .headers = {header[0] != '\0' ? header : NULL},
                                 .file = -1,
                                 .is_near = !is_https(container->url)},
            stop, &answer);
    bool ok = answer.result == CURLE_OK && answer.status == 200;
    if (ok)
        ok = read_answer(&answer.body, ret_keys, ret_ends_at, problem);
    else if (answer.result != CURLE_OK || answer.status >= 500 || answer.status == 429)
        (void)problem_set(problem, 503, "BLOBS_UNAVAILABLE",
                          "Credentials for the object store: AWS_CONTAINER_CREDENTIALS_FULL_URI: %s (%d).",
                          curl_easy_strerror(answer.result), answer.status);
    else
        (void)problem_set(problem, 503, "BLOBS_CREDENTIALS",
                          "Credentials for the object store: AWS_CONTAINER_CREDENTIALS_FULL_URI answered %d.",
                          answer.status);
    if (answer.body.data != NULL)
        explicit_bzero(answer.body.data, answer.body.size);
    sp_buf_release(&answer.body);
    explicit_bzero(header, sizeof header);
    curl_easy_cleanup(curl);
    return ok;
}
