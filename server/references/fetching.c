#include "references/fetching.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <string.h>
#include <unistd.h>

#include "server.h"
#include "server_limits.h"
#include "uploads/announce.h"
#include "uploads/part.h"
#include "uploads/uploads.h"
#include "util/text.h"

struct fetching {
    struct server *server;
    const char *url;
    struct upload_row *row;
    struct part *part;
    gnutls_hash_hd_t hash;
    uint64_t deadline_ms;
    struct problem *problem;
};

static bool begin(void *context, uint64_t size)
{
    struct fetching *fetching = context;
    struct upload_row *row = fetching->row;
    uint64_t offset = 0;
    if (size == 0 || size > INT64_MAX)
        return problem_set(fetching->problem, 422, "SOURCE_EMPTY", "There are no bytes at %.256s.", fetching->url);
    const uint64_t most_ms = SPD_FETCH_MS + size / SPD_FETCH_RATE * 1000;
    row->bytes = (int64_t)size;
    fetching->deadline_ms = server_now_ms() + most_ms;
    /* Twice the time: what is made of it needs it afterwards. What a daemon leaves that is killed expires. */
    if (!announce_upload(fetching->server, row, (int64_t)most_ms * 2, fetching->problem))
        return false;
    fetching->part =
        part_open(fetching->server->config->data, row->id, (uint64_t)row->bytes, 0, &offset, fetching->problem);
    return fetching->part != NULL;
}

static bool take(void *context, const void *bytes, size_t size)
{
    struct fetching *fetching = context;
    if (server_now_ms() > fetching->deadline_ms)
        return problem_set(fetching->problem, 422, "SOURCE_SLOW",
                           "What is at %.256s came too slowly: it may take %d seconds, and one for each %lld bytes.",
                           fetching->url, SPD_FETCH_MS / 1000, (long long)SPD_FETCH_RATE);
    return part_write(fetching->part, bytes, size, fetching->problem) &&
           (gnutls_hash(fetching->hash, bytes, size) == 0 || problem_no_memory(fetching->problem));
}

/* All bytes are there. */
static bool complete(struct fetching *fetching)
{
    unsigned char digest[32];
    struct upload_row *row = fetching->row;
    gnutls_hash_output(fetching->hash, digest);
    text_to_hex(digest, sizeof digest, row->digest);
    if (fdatasync(part_file(fetching->part)) != 0)
        return problem_from_errno(fetching->problem, errno, "Storing the upload");
    const enum store_found found = store_complete_upload(fetching->server->store, row->id, row->digest);
    row->is_complete = found == STORE_DONE;
    if (found == STORE_NOT_FOUND)
        return problem_set(fetching->problem, 404, "UPLOAD_NOT_FOUND",
                           "There is no upload with this id, or it expired.");
    return found == STORE_DONE || problem_set(fetching->problem, 503, "STORE_UNAVAILABLE",
                                              "The store does not answer at the moment; try again later.");
}

bool fetch_object(struct server *server, const char *tenant, const struct source *source, const char *url,
                  struct upload_row *ret_row, struct problem *problem)
{
    struct fetching fetching = {.server = server, .url = url, .row = ret_row, .problem = problem};
    const struct s3_sink sink = {.begin = begin, .take = take, .context = &fetching};
    *ret_row = (struct upload_row){0};
    (void)snprintf(ret_row->tenant, sizeof ret_row->tenant, "%s", tenant);
    if (gnutls_hash_init(&fetching.hash, GNUTLS_DIG_SHA256) != 0)
        return problem_no_memory(problem);
    const enum s3_found found = s3_read(source->s3, source->key, &sink, problem);
    if (found == S3_MISSING)
        (void)problem_set(problem, 422, "SOURCE_NOT_FOUND", "There is nothing at %.256s.", url);
    const bool ok = found == S3_FOUND && complete(&fetching);
    part_close(fetching.part);
    gnutls_hash_deinit(fetching.hash, NULL);
    if (!ok && ret_row->id[0] != '\0')
        (void)uploads_remove(server->uploads, ret_row->id);
    return ok;
}
