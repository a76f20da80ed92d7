#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server_limits.h"
#include "version.h"

static const char usage[] =
    "Usage: shardpland [OPTION]...\n"
    "Serves model planning over HTTP.\n"
    "\n"
    "  --listen ADDR:PORT   address to serve on (default 127.0.0.1:8080; port 0: any free one)\n"
    "  --data DIR           where models and plans are kept (default $XDG_DATA_HOME/shardplan\n"
    "                       or ~/.local/share/shardplan); one daemon per folder\n"
    "  --workers N          plans that run at a time (default: one per core)\n"
    "  --max-upload BYTES   largest model that is accepted (default 16G)\n"
    "  --job-memory BYTES   memory of one job beside the model file (default 2G)\n"
    "  --job-seconds S      time of one job (default 300)\n"
    "  --log-format FORMAT  text or json, one line per event on standard error (default text)\n"
    "  --help, --version\n"
    "\n"
    "BYTES may end in K, M, G or T (powers of 1024).\n";

/* A whole number with an optional suffix, between least and most. */
static bool parse_size(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    static const char suffixes[] = "KMGT";
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, *end);
        if (suffix == NULL || end[1] != '\0')
            return false;
        for (const char *s = suffixes; s <= suffix; s++) {
            if (__builtin_mul_overflow(value, 1024ull, &value))
                return false;
        }
    }
    if (value < least || value > most)
        return false;
    *ret = value;
    return true;
}

/* "127.0.0.1:8080" or "[::1]:8080". */
static bool parse_listen(const char *text, struct config *config)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return false;
    const char *host = text;
    size_t length = (size_t)(colon - text);
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    uint64_t port;
    if (length == 0 || length >= sizeof config->host || !parse_size(colon + 1, 0, 65535, &port))
        return false;
    memcpy(config->host, host, length);
    config->host[length] = '\0';
    (void)snprintf(config->port, sizeof config->port, "%u", (unsigned)port);
    config->listen = text;
    return true;
}

static char *absolute(const char *path)
{
    char *result = NULL;
    if (path[0] == '/')
        return strdup(path);
    char *here = getcwd(NULL, 0);
    if (here != NULL && asprintf(&result, "%s/%s", here, path) < 0)
        result = NULL;
    free(here);
    return result;
}

static char *default_data(void)
{
    char *result = NULL;
    const char *home = getenv("XDG_DATA_HOME");
    int length = -1;
    if (home != NULL && home[0] == '/') {
        length = asprintf(&result, "%s/shardplan", home);
    } else {
        home = getenv("HOME");
        if (home != NULL && home[0] == '/')
            length = asprintf(&result, "%s/.local/share/shardplan", home);
    }
    return length < 0 ? NULL : result;
}

static unsigned default_workers(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1)
        cores = 1;
    return cores > SPD_MAX_WORKERS ? SPD_MAX_WORKERS : (unsigned)cores;
}

static enum config_result wrong(const char *option, const char *value, const char *expected)
{
    (void)fprintf(stderr, "shardpland: --%s %s: expected %s\n", option, value, expected);
    return CONFIG_WRONG;
}

enum option_id {
    OPTION_LISTEN = 256,
    OPTION_DATA,
    OPTION_WORKERS,
    OPTION_MAX_UPLOAD,
    OPTION_JOB_MEMORY,
    OPTION_JOB_SECONDS,
    OPTION_LOG_FORMAT,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option options[] = {
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"data", required_argument, NULL, OPTION_DATA},
    {"workers", required_argument, NULL, OPTION_WORKERS},
    {"max-upload", required_argument, NULL, OPTION_MAX_UPLOAD},
    {"job-memory", required_argument, NULL, OPTION_JOB_MEMORY},
    {"job-seconds", required_argument, NULL, OPTION_JOB_SECONDS},
    {"log-format", required_argument, NULL, OPTION_LOG_FORMAT},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {0},
};

static enum config_result take_number(struct config *config, int id, const char *value)
{
    uint64_t number;
    switch (id) {
    case OPTION_WORKERS:
        if (!parse_size(value, 1, SPD_MAX_WORKERS, &number))
            return wrong("workers", value, "a number from 1 to 64");
        config->workers = (unsigned)number;
        break;
    case OPTION_MAX_UPLOAD:
        if (!parse_size(value, 1, INT64_MAX, &config->max_upload))
            return wrong("max-upload", value, "a number of bytes, like 2000000 or 16G");
        break;
    case OPTION_JOB_MEMORY:
        if (!parse_size(value, 1u << 20, INT64_MAX / 4, &config->job_memory))
            return wrong("job-memory", value, "a number of bytes from 1M up");
        break;
    default:
        if (!parse_size(value, 1, 86400, &number))
            return wrong("job-seconds", value, "a number of seconds from 1 to 86400");
        config->job_seconds = (unsigned)number;
        break;
    }
    return CONFIG_RUN;
}

static enum config_result take(struct config *config, int id, const char *value)
{
    switch (id) {
    case OPTION_LISTEN:
        return parse_listen(value, config) ? CONFIG_RUN : wrong("listen", value, "ADDRESS:PORT, like 127.0.0.1:8080");
    case OPTION_DATA:
        free(config->data);
        config->data = absolute(value);
        return CONFIG_RUN;
    case OPTION_LOG_FORMAT:
        config->log_json = strcmp(value, "json") == 0;
        return config->log_json || strcmp(value, "text") == 0 ? CONFIG_RUN : wrong("log-format", value, "text or json");
    case OPTION_HELP:
        (void)fputs(usage, stdout);
        return CONFIG_DONE;
    case OPTION_VERSION:
        (void)puts("shardpland " SPD_VERSION);
        return CONFIG_DONE;
    case '?':
        (void)fputs("Try 'shardpland --help'.\n", stderr);
        return CONFIG_WRONG;
    default:
        return take_number(config, id, value);
    }
}

enum config_result config_read(int argc, char **argv, struct config *config)
{
    *config = (struct config){
        .workers = default_workers(),
        .max_upload = SPD_DEFAULT_MAX_UPLOAD,
        .job_memory = SPD_DEFAULT_JOB_MEMORY,
        .job_seconds = SPD_DEFAULT_JOB_SECONDS,
    };
    (void)parse_listen("127.0.0.1:8080", config);
    int id;
    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        enum config_result result = take(config, id, optarg);
        if (result != CONFIG_RUN)
            return result;
    }
    if (optind < argc) {
        (void)fprintf(stderr, "shardpland: unexpected argument '%s'\n", argv[optind]);
        return CONFIG_WRONG;
    }
    if (config->data == NULL)
        config->data = default_data();
    if (config->data == NULL || strlen(config->data) > PATH_MAX - 256) {
        (void)fputs("shardpland: there is no usable data folder: give one with --data DIR\n", stderr);
        return CONFIG_WRONG;
    }
    return CONFIG_RUN;
}

void config_release(struct config *config)
{
    free(config->data);
    config->data = NULL;
}
