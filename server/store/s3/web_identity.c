#include "store/s3/web_identity.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/s3/xml.h"
#include "util/text.h"

static bool refused(struct problem *problem, const char *what)
{
    return problem_set(problem, 503, "BLOBS_CREDENTIALS", "Credentials for the object store: %s.", what);
}

/* Percent-encodes all but the characters that never need it. */
static void append_encoded(struct sp_buf *buf, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~';
        if (plain)
            sp_buf_append(buf, &text[i], 1);
        else
            sp_buf_printf(buf, "%%%02X", c);
    }
}

bool web_identity_token(const char *path, char *ret_token, size_t size, struct problem *problem)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)problem_set(problem, 503, "BLOBS_CREDENTIALS", "Credentials for the object store: %s: %s.", path,
                          strerrordesc_np(errno));
        return false;
    }
    size_t used = fread(ret_token, 1, size, file);
    (void)fclose(file);
    const bool fits = used < size;
    while (fits && used > 0 && strchr("\n\r ", ret_token[used - 1]) != NULL)
        used--;
    if (!fits || used == 0 || memchr(ret_token, '\0', used) != NULL)
        return refused(problem, "the file of a token is empty or too long");
    ret_token[used] = '\0';
    return true;
}

static bool write_body(const struct web_identity *identity, struct sp_buf *body, struct problem *problem)
{
    char token[SPD_MAX_S3_TOKEN];
    if (!web_identity_token(identity->token_file, token, sizeof token, problem)) {
        explicit_bzero(token, sizeof token);
        return false;
    }
    sp_buf_text(body, "Action=AssumeRoleWithWebIdentity&RoleArn=");
    append_encoded(body, identity->role, strlen(identity->role));
    sp_buf_text(body, "&RoleSessionName=shardpland&Version=2011-06-15&WebIdentityToken=");
    append_encoded(body, token, strlen(token));
    explicit_bzero(token, sizeof token);
    return !sp_buf_failed(body) || problem_no_memory(problem);
}

static bool read_answer(const char *document, struct s3_keys *keys, int64_t *ret_ends_at, struct problem *problem)
{
    char expiration[64];
    struct tm ends = {0};
    if (!xml_text(document, "AccessKeyId", keys->id, sizeof keys->id) ||
        !xml_text(document, "SecretAccessKey", keys->secret, sizeof keys->secret) ||
        !xml_text(document, "SessionToken", keys->token, sizeof keys->token) ||
        !xml_text(document, "Expiration", expiration, sizeof expiration) ||
        strptime(expiration, "%Y-%m-%dT%H:%M:%S", &ends) == NULL)
        return refused(problem, "the answer of STS is not one of AssumeRoleWithWebIdentity");
    *ret_ends_at = (int64_t)timegm(&ends) * 1000;
    return true;
}

static bool hash_of(const struct sp_buf *body, char ret[65])
{
    unsigned char digest[32];
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, body->data, body->size, digest) != 0)
        return false;
    text_to_hex(digest, sizeof digest, ret);
    return true;
}

static bool ask(CURL *curl, const struct s3_request *request, const atomic_bool *stop, struct s3_keys *ret_keys,
                int64_t *ret_ends_at, struct problem *problem)
{
    struct s3_answer answer;
    char code[64] = "";
    s3_send(curl, request, stop, &answer);
    bool ok = answer.result == CURLE_OK && answer.status == 200;
    if (ok)
        ok = read_answer(answer.body.data, ret_keys, ret_ends_at, problem);
    else if (answer.result != CURLE_OK)
        (void)problem_set(problem, 503, "BLOBS_UNAVAILABLE", "Credentials for the object store: STS: %s.",
                          curl_easy_strerror(answer.result));
    else if (answer.status >= 500)
        (void)problem_set(problem, 503, "BLOBS_UNAVAILABLE", "Credentials for the object store: STS answered %d.",
                          answer.status);
    else
        (void)problem_set(problem, 503, "BLOBS_CREDENTIALS", "Credentials for the object store: STS answered %d (%s).",
                          answer.status, xml_text(answer.body.data, "Code", code, sizeof code) ? code : "no code");
    if (answer.body.data != NULL)
        explicit_bzero(answer.body.data, answer.body.size);
    sp_buf_release(&answer.body);
    return ok;
}

bool web_identity_assume(const struct web_identity *identity, const atomic_bool *stop, struct s3_keys *ret_keys,
                         int64_t *ret_ends_at, struct problem *problem)
{
    const char *endpoint = getenv("AWS_ENDPOINT_URL_STS");
    char url[SPD_MAX_S3_URL], sha256[65];
    struct sp_buf body;
    sp_buf_init(&body, 4 * SPD_MAX_S3_TOKEN);
    CURL *curl = curl_easy_init();
    if (endpoint != NULL)
        (void)snprintf(url, sizeof url, "%s", endpoint);
    else
        (void)snprintf(url, sizeof url, "https://sts.%s.amazonaws.com/", identity->region);
    bool ok = write_body(identity, &body, problem);
    if (ok && (curl == NULL || !hash_of(&body, sha256)))
        ok = problem_no_memory(problem);
    if (ok)
        ok = ask(curl,
                 &(struct s3_request){.method = "POST", .url = url, .sha256 = sha256, .text = body.data, .file = -1},
                 stop, ret_keys, ret_ends_at, problem);
    if (body.data != NULL)
        explicit_bzero(body.data, body.size);
    sp_buf_release(&body);
    curl_easy_cleanup(curl);
    return ok;
}
