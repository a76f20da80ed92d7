#include "store/s3/credentials.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/log.h"
#include "store/s3/container.h"
#include "store/s3/web_identity.h"
#include "util/times.h"

struct credentials {
    const char *file; /* "" */
    bool of_environment;
    struct web_identity identity; /* without a role: */
    struct container container;
    const atomic_bool *stop;

    pthread_mutex_t mutex; /* guards the rest, also over a renewal */
    struct s3_keys keys;
    int64_t renew_at, ends_at; /* milliseconds since 1970; 0: they are used as long as the store takes them */
};

/* ---- sources ---- */

static bool lacks(struct problem *problem, const char *what)
{
    return problem_set(problem, 503, "BLOBS_CREDENTIALS", "Credentials for the object store: %s.", what);
}

static bool is_complete(const struct s3_keys *keys, const char *of, struct problem *problem)
{
    if (keys->id[0] != '\0' && keys->secret[0] != '\0')
        return true;
    return problem_set(problem, 503, "BLOBS_CREDENTIALS",
                       "Credentials for the object store: %s lacks an access key id or a secret access key.", of);
}

/* False when it does not fit. */
static bool copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    if (length >= size)
        return false;
    memcpy(to, from, length + 1);
    return true;
}

static bool read_environment(struct s3_keys *keys, struct problem *problem)
{
    const char *id = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY"),
               *token = getenv("AWS_SESSION_TOKEN");
    if (!copy(keys->id, sizeof keys->id, id != NULL ? id : "") ||
        !copy(keys->secret, sizeof keys->secret, secret != NULL ? secret : "") ||
        !copy(keys->token, sizeof keys->token, token != NULL ? token : ""))
        return lacks(problem, "a variable of AWS_.. is too long");
    return is_complete(keys, "the environment", problem);
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

/* One line of the file; false when a value is too long. */
static bool take_line(char *line, struct s3_keys *keys)
{
    char *equals = strchr(line, '=');
    if (equals == NULL)
        return true;
    *equals = '\0';
    const char *name = trimmed(line), *value = trimmed(equals + 1);
    if (strcmp(name, "aws_access_key_id") == 0)
        return copy(keys->id, sizeof keys->id, value);
    if (strcmp(name, "aws_secret_access_key") == 0)
        return copy(keys->secret, sizeof keys->secret, value);
    if (strcmp(name, "aws_session_token") == 0)
        return copy(keys->token, sizeof keys->token, value);
    return true;
}

static bool read_file(const char *path, struct s3_keys *keys, struct problem *problem)
{
    char line[SPD_MAX_S3_TOKEN + 64];
    bool ok = true;
    unsigned profiles = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return problem_set(problem, 503, "BLOBS_CREDENTIALS", "Credentials for the object store: %s: %s.", path,
                           strerrordesc_np(errno));
    while (ok && profiles < 2 && fgets(line, sizeof line, file) != NULL) {
        char *text = trimmed(line);
        profiles += *text == '[';
        if (*text != '#' && *text != '[' && profiles < 2)
            ok = take_line(text, keys);
    }
    (void)fclose(file);
    explicit_bzero(line, sizeof line);
    return ok ? is_complete(keys, path, problem) : lacks(problem, "a value of the file is too long");
}

static bool renew(struct credentials *credentials, struct problem *problem)
{
    struct s3_keys keys = {0};
    int64_t now = times_now(), ends_at = 0, renew_at = 0;
    bool ok;
    if (credentials->file[0] != '\0') {
        ok = read_file(credentials->file, &keys, problem);
        renew_at = now + SPD_S3_FILE_SECONDS * 1000;
    } else if (credentials->of_environment) {
        ok = read_environment(&keys, problem);
    } else {
        ok = credentials->identity.role != NULL
                 ? web_identity_assume(&credentials->identity, credentials->stop, &keys, &ends_at, problem)
                 : container_ask(&credentials->container, credentials->stop, &keys, &ends_at, problem);
        renew_at = ends_at - SPD_S3_RENEW_SECONDS * 1000;
    }
    if (ok) {
        credentials->keys = keys;
        credentials->ends_at = ends_at;
        credentials->renew_at = renew_at;
    }
    explicit_bzero(&keys, sizeof keys);
    return ok;
}

/* ---- calls ---- */

bool credentials_get(struct credentials *credentials, struct s3_keys *ret_keys, struct problem *problem)
{
    struct problem why = {0};
    (void)pthread_mutex_lock(&credentials->mutex);
    int64_t now = times_now();
    bool has_keys = credentials->keys.id[0] != '\0', ok = true;
    if (!has_keys || (credentials->renew_at != 0 && now >= credentials->renew_at)) {
        ok = renew(credentials, &why);
        /* Those of a session are good until they end: there is another try before. */
        if (!ok && has_keys && credentials->ends_at > now) {
            LOG(LOG_WARNING, "credentials of the object store not renewed", log_s("code", why.code),
                log_s("detail", why.detail));
            credentials->renew_at = now + SPD_S3_RENEW_RETRY_SECONDS * 1000;
            ok = true;
        }
    }
    if (ok)
        *ret_keys = credentials->keys;
    (void)pthread_mutex_unlock(&credentials->mutex);
    if (!ok && problem->status == 0)
        *problem = why;
    return ok;
}

void credentials_refused(struct credentials *credentials, const struct s3_keys *keys)
{
    (void)pthread_mutex_lock(&credentials->mutex);
    if (strcmp(credentials->keys.id, keys->id) == 0 && strcmp(credentials->keys.secret, keys->secret) == 0)
        credentials->keys = (struct s3_keys){0};
    (void)pthread_mutex_unlock(&credentials->mutex);
}

/* ---- life ---- */

static bool choose_container(struct credentials *credentials, const char *url, struct problem *problem)
{
    credentials->container = (struct container){.url = url,
                                                .token_file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
                                                .token = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")};
    return container_is_allowed(url) ||
           lacks(problem,
                 "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this host, 169.254.170.2, "
                 "169.254.170.23 or [fd00:ec2::23]");
}

/* Which source it is. Half of one counts as configured. */
static bool choose(struct credentials *credentials, const char *region, struct problem *problem)
{
    const char *role = getenv("AWS_ROLE_ARN"), *token_file = getenv("AWS_WEB_IDENTITY_TOKEN_FILE"),
               *agent = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (credentials->file[0] != '\0')
        return true;
    credentials->of_environment = getenv("AWS_ACCESS_KEY_ID") != NULL || getenv("AWS_SECRET_ACCESS_KEY") != NULL;
    if (credentials->of_environment)
        return true;
    if (role == NULL && token_file == NULL && agent != NULL)
        return choose_container(credentials, agent, problem);
    if (role == NULL && token_file == NULL)
        return lacks(problem, "there are none; give --blobs-credentials-file, AWS_ACCESS_KEY_ID and "
                              "AWS_SECRET_ACCESS_KEY, AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or "
                              "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (role == NULL || token_file == NULL)
        return lacks(problem, "AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE go together");
    credentials->identity = (struct web_identity){.role = role, .token_file = token_file, .region = region};
    return true;
}

bool credentials_open(const char *file, const char *region, const atomic_bool *stop,
                      struct credentials **ret_credentials, struct problem *problem)
{
    struct s3_keys keys;
    struct credentials *credentials = calloc(1, sizeof *credentials);
    if (credentials == NULL)
        return problem_no_memory(problem);
    credentials->file = file;
    credentials->stop = stop;
    (void)pthread_mutex_init(&credentials->mutex, NULL);
    struct problem why = {0};
    bool ok = choose(credentials, region, problem);
    if (ok && !credentials_get(credentials, &keys, &why) && strcmp(why.code, "BLOBS_UNAVAILABLE") != 0) {
        *problem = why;
        ok = false;
    }
    explicit_bzero(&keys, sizeof keys);
    if (!ok) {
        credentials_close(credentials);
        return false;
    }
    *ret_credentials = credentials;
    return true;
}

void credentials_close(struct credentials *credentials)
{
    if (credentials == NULL)
        return;
    (void)pthread_mutex_destroy(&credentials->mutex);
    explicit_bzero(credentials, sizeof *credentials);
    free(credentials);
}
