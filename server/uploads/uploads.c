#include "uploads/uploads.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "server.h"
#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/identity.h"
#include "store/store.h"
#include "uploads/part.h"
#include "util/text.h"

#define FOLDER_DIGITS 8 /* of the name of a folder, at the end of an id */

struct uploads {
    struct server *server;
    char folder[IDENTITY_SIZE]; /* "": all daemons of the store have this folder */
    struct transfers *transfers;
    atomic_bool stop, is_expiring;
    uint64_t expire_ms; /* of the last look at what has expired; the main thread's */
    struct transfer expiry;
};

/* ---- where they are ---- */

bool uploads_name(const struct uploads *uploads, char ret_id[STORE_ID_SIZE])
{
    unsigned char random[(STORE_ID_SIZE - 1) / 2];
    if (gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0)
        return false;
    text_to_hex(random, sizeof random, ret_id);
    if (uploads->folder[0] != '\0')
        memcpy(ret_id + STORE_ID_SIZE - 1 - FOLDER_DIGITS, uploads->folder, FOLDER_DIGITS);
    return true;
}

bool uploads_are_here(const struct uploads *uploads, const char *id, struct problem *problem)
{
    const char *folder = id + STORE_ID_SIZE - 1 - FOLDER_DIGITS;
    if (uploads->folder[0] == '\0' || memcmp(folder, uploads->folder, FOLDER_DIGITS) == 0 ||
        uploads_offset(uploads, id) > 0) /* it began before ids named folders */
        return true;
    return problem_set(problem, 409, "UPLOAD_ELSEWHERE",
                       "What has come of this upload is in the folder of another daemon: send all requests about it to "
                       "the daemon that it began with (a balancer does so with sticky sessions), or begin it anew.");
}

/* ---- files ---- */

uint64_t uploads_offset(const struct uploads *uploads, const char *id)
{
    struct stat info;
    char *path = files_upload(uploads->server->config->data, id);
    const bool is_there = path != NULL && lstat(path, &info) == 0;
    free(path);
    return is_there ? (uint64_t)info.st_size : 0;
}

void uploads_remove_file(const struct uploads *uploads, const char *id)
{
    char *path = files_upload(uploads->server->config->data, id);
    if (path != NULL)
        (void)unlink(path);
    free(path);
}

bool uploads_remove(struct uploads *uploads, const char *id)
{
    if (store_delete_upload(uploads->server->store, NULL, id) == STORE_ERROR)
        return false;
    uploads_remove_file(uploads, id);
    return true;
}

/* ---- the check at the end ---- */

static bool hash_file(struct uploads *uploads, const struct part *part, char ret_digest[65], struct problem *problem)
{
    unsigned char digest[32];
    const uint64_t size = part_offset(part);
    char *block = malloc(SPD_UPLOAD_BLOCK);
    gnutls_hash_hd_t hash;
    if (block == NULL || gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0) {
        free(block);
        return problem_no_memory(problem);
    }
    bool ok = true;
    for (uint64_t at = 0; ok && at < size;) {
        const size_t step = size - at < SPD_UPLOAD_BLOCK ? (size_t)(size - at) : SPD_UPLOAD_BLOCK;
        if (atomic_load(&uploads->stop))
            ok = problem_set(problem, 503, "STOPPING", "The service is stopping; send the request again.");
        else if (!files_read_at(part_file(part), at, block, step))
            ok = problem_from_errno(problem, errno, "Reading the upload");
        else
            ok = gnutls_hash(hash, block, step) == 0 || problem_no_memory(problem);
        at += step;
    }
    gnutls_hash_deinit(hash, digest);
    text_to_hex(digest, sizeof digest, ret_digest);
    free(block);
    return ok;
}

static bool check(struct upload_check *check)
{
    struct uploads *uploads = check->uploads;
    const struct upload_row *row = check->row;
    if (fdatasync(part_file(check->part)) != 0)
        return problem_from_errno(&check->problem, errno, "Storing the upload");
    if (!hash_file(uploads, check->part, check->digest, &check->problem))
        return false;
    if (row->digest[0] != '\0' && strcmp(row->digest, check->digest) != 0) {
        (void)uploads_remove(uploads, row->id);
        return problem_set(&check->problem, 400, "DIGEST_MISMATCH",
                           "The upload was announced with the SHA-256 %s, but what has come has %s; it is removed.",
                           row->digest, check->digest);
    }
    switch (store_complete_upload(uploads->server->store, row->id, check->digest)) {
    case STORE_DONE:
        return true;
    case STORE_NOT_FOUND:
        return problem_set(&check->problem, 404, "UPLOAD_NOT_FOUND", "There is no upload with this id, or it expired.");
    default:
        return problem_set(&check->problem, 503, "STORE_UNAVAILABLE",
                           "The store does not answer at the moment; try again later.");
    }
}

static void run_check(struct transfer *transfer)
{
    struct upload_check *checked = transfer->context;
    (void)check(checked);
    checked->done(checked);
}

void uploads_check(struct uploads *uploads, struct upload_check *check)
{
    check->uploads = uploads;
    check->transfer = (struct transfer){.run = run_check, .context = check};
    transfers_send(uploads->transfers, &check->transfer);
}

/* ---- what expires ---- */

static void expired(void *context, const char *id)
{
    LOG(LOG_INFO, "upload expired", log_s("upload", id));
    uploads_remove_file(context, id);
}

static void run_expiry(struct transfer *transfer)
{
    struct uploads *uploads = transfer->context;
    (void)store_expire_uploads(uploads->server->store, SPD_EXPIRE_BATCH, expired, uploads);
    atomic_store(&uploads->is_expiring, false);
}

void uploads_tick(struct uploads *uploads, uint64_t now_ms)
{
    if (now_ms - uploads->expire_ms < SPD_EXPIRE_MS || atomic_load(&uploads->stop) ||
        atomic_exchange(&uploads->is_expiring, true))
        return;
    uploads->expire_ms = now_ms;
    uploads->expiry = (struct transfer){.run = run_expiry, .context = uploads};
    transfers_send(uploads->transfers, &uploads->expiry);
}

/* ---- life ---- */

struct uploads *uploads_create(struct server *server, struct problem *problem)
{
    struct uploads *uploads = calloc(1, sizeof *uploads);
    if (uploads == NULL) {
        (void)problem_no_memory(problem);
        return NULL;
    }
    uploads->server = server;
    if (blobs_are_remote(server->blobs) && !identity_name(server->config->data, uploads->folder, problem)) {
        free(uploads);
        return NULL;
    }
    uploads->transfers = transfers_create(SPD_UPLOAD_THREADS);
    if (uploads->transfers == NULL) {
        (void)problem_no_memory(problem);
        free(uploads);
        return NULL;
    }
    return uploads;
}

void uploads_stop(struct uploads *uploads)
{
    atomic_store(&uploads->stop, true);
}

bool uploads_quiet(struct uploads *uploads)
{
    return transfers_idle(uploads->transfers);
}

void uploads_destroy(struct uploads *uploads)
{
    if (uploads == NULL)
        return;
    uploads_stop(uploads);
    transfers_destroy(uploads->transfers);
    free(uploads);
}
