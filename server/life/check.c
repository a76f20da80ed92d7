/* --check-config: what reading the options alone cannot find. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "life/life.h"
#include "net/tls.h"

static void say(bool *ok, const char *option, const char *path, const char *what)
{
    (void)fprintf(stderr, "shardpland: --%s %s: %s.\n", option, path, what);
    *ok = false;
}

static void check_tokens(const struct config *config, bool *ok)
{
    struct auth *auth = NULL;
    struct problem problem = {0};
    if (!auth_create(config, &auth, &problem)) {
        (void)fprintf(stderr, "shardpland: %s\n", problem.detail);
        *ok = false;
    }
    auth_destroy(auth);
}

/* Certificate, key and authority are read as the daemon does it at its start. */
static void check_tls(const struct config *config, bool *ok)
{
    struct tls *tls = NULL;
    struct problem problem = {0};
    if (!tls_create(config, &tls, &problem)) {
        (void)fprintf(stderr, "shardpland: %s\n", problem.detail);
        *ok = false;
    }
    tls_destroy(tls);
}

static void check_password(const struct config *config, bool *ok)
{
    const char *path = config->store_password_file;
    char line[2] = "";
    if (path[0] == '\0')
        return;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        say(ok, "store-password-file", path, strerrordesc_np(errno));
        return;
    }
    if (fgets(line, sizeof line, file) == NULL || line[0] == '\n')
        say(ok, "store-password-file", path, "there is no password in it");
    (void)fclose(file);
}

/* A folder that is not there yet is made at the start. */
static void check_data(const struct config *config, bool *ok)
{
    struct stat info;
    if (stat(config->data, &info) != 0) {
        if (errno != ENOENT)
            say(ok, "data", config->data, strerrordesc_np(errno));
    } else if (!S_ISDIR(info.st_mode)) {
        say(ok, "data", config->data, "it is no folder");
    } else if (access(config->data, R_OK | W_OK | X_OK) != 0) {
        say(ok, "data", config->data, strerrordesc_np(errno));
    }
}

int life_check(const struct config *config)
{
    bool ok = true;
    check_tokens(config, &ok);
    check_tls(config, &ok);
    check_password(config, &ok);
    check_data(config, &ok);
    if (ok)
        (void)puts("OK");
    return ok ? 0 : 2;
}
