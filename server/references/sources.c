#include "references/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "server_limits.h"

#define SCHEME "s3://"
#define MARK   "{tenant}"

struct entry {
    char url[SPD_MAX_SOURCE_URL + 1]; /* ends with '/' */
    struct s3 *s3;
};

struct sources {
    unsigned count;
    struct entry entries[SPD_MAX_SOURCES];
};

/* ---- opening ---- */

static bool is_wrong(const char *entry, size_t size, struct problem *problem)
{
    return problem_set(
        problem, 422, "SOURCES_OPTION",
        "--model-sources has '%.*s'; an entry is s3://BUCKET/PREFIX/, with '/' at its end, and there are "
        "at most %u.",
        size < 128 ? (int)size : 128, entry, SPD_MAX_SOURCES);
}

static bool open_bucket(const struct config *config, const atomic_bool *stop, struct entry *entry,
                        struct problem *problem)
{
    char bucket[SPD_MAX_SOURCE_URL + 1];
    const size_t scheme = sizeof SCHEME - 1;
    (void)snprintf(bucket, sizeof bucket, "%.*s", (int)(scheme + strcspn(entry->url + scheme, "/")), entry->url);
    const struct s3_options options = {.url = bucket,
                                       .endpoint = config->blobs_endpoint,
                                       .region = config->blobs_region,
                                       .credentials_file = config->blobs_credentials_file,
                                       .stop = stop};
    return s3_open(&options, &entry->s3, problem);
}

static bool add(struct sources *sources, const char *text, size_t size, const struct config *config,
                const atomic_bool *stop, struct problem *problem)
{
    const size_t scheme = sizeof SCHEME - 1;
    const char *slash = size > scheme ? memchr(text + scheme, '/', size - scheme) : NULL;
    if (sources->count >= SPD_MAX_SOURCES || size > SPD_MAX_SOURCE_URL || strncmp(text, SCHEME, scheme) != 0 ||
        slash == NULL || text[size - 1] != '/')
        return is_wrong(text, size, problem);
    struct entry *entry = &sources->entries[sources->count];
    (void)snprintf(entry->url, sizeof entry->url, "%.*s", (int)size, text);
    if (!open_bucket(config, stop, entry, problem))
        return false;
    sources->count++;
    return true;
}

bool sources_open(const struct config *config, const atomic_bool *stop, struct sources **ret_sources,
                  struct problem *problem)
{
    const char *at = config->model_sources + strspn(config->model_sources, " ");
    *ret_sources = NULL;
    if (*at == '\0')
        return true;
    struct sources *sources = calloc(1, sizeof *sources);
    if (sources == NULL)
        return problem_no_memory(problem);
    while (*at != '\0') {
        const size_t size = strcspn(at, " ");
        if (!add(sources, at, size, config, stop, problem)) {
            sources_close(sources);
            return false;
        }
        at += size + strspn(at + size, " ");
    }
    *ret_sources = sources;
    return true;
}

void sources_close(struct sources *sources)
{
    for (unsigned i = 0; sources != NULL && i < sources->count; i++)
        s3_close(sources->entries[i].s3);
    free(sources);
}

/* ---- finding ---- */

/* Whether it has the one form of an address. */
static bool is_address(const char *url)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    if (strlen(url) > SPD_MAX_SOURCE_URL || strncmp(url, SCHEME, sizeof SCHEME - 1) != 0)
        return false;
    for (const char *at = url + sizeof SCHEME - 1;;) {
        const size_t size = strspn(at, letters);
        if (size == 0 || (size == 1 && at[0] == '.') || (size == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += size;
        if (*at == '\0')
            return true;
        if (*at++ != '/')
            return false;
    }
}

/* Whether the address is below the entry, as it is for this tenant. */
static bool permits(const struct entry *entry, const char *tenant, const char *url)
{
    for (const char *at = entry->url; *at != '\0';) {
        const bool is_mark = strncmp(at, MARK, sizeof MARK - 1) == 0;
        const char *expected = is_mark ? tenant : at;
        const size_t size = is_mark ? strlen(tenant) : 1;
        if (size == 0 || strncmp(url, expected, size) != 0)
            return false;
        url += size;
        at += is_mark ? sizeof MARK - 1 : 1;
    }
    return *url != '\0';
}

bool sources_find(const struct sources *sources, const char *tenant, const char *url, struct source *ret_source,
                  struct problem *problem)
{
    if (!is_address(url))
        return problem_set(problem, 422, "BAD_REFERENCE",
                           "The address of a model is s3://BUCKET/KEY, of letters, digits and '-._/', with at most %u "
                           "bytes, and without empty segments, '.' and '..'.",
                           SPD_MAX_SOURCE_URL);
    for (unsigned i = 0; sources != NULL && i < sources->count; i++) {
        if (!permits(&sources->entries[i], tenant, url))
            continue;
        const char *bucket = url + sizeof SCHEME - 1;
        *ret_source = (struct source){.s3 = sources->entries[i].s3, .key = strchr(bucket, '/') + 1};
        return true;
    }
    return problem_set(problem, 403, "SOURCE_NOT_ALLOWED",
                       "This service fetches no model from this address for you; --model-sources says from where it "
                       "does.");
}
