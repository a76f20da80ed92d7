#include "http/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/config.h"
#include "http/staging.h"
#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/integrity/sums.h"
#include "store/objects/stage.h"
#include "util/text.h"

struct upload {
    char *path;
    int fd;
    gnutls_hash_hd_t hash;
    struct sums *sums;
    uint64_t size, max_bytes, flushed;
    struct staging *staging;
    struct staging_limits limits;
    uint64_t staged; /* bytes that count there */
    bool kept;
    struct blobs *blobs; /* NULL: nothing is sent early */
    struct stage *stage;
    char source[33], digest[65]; /* of one that came by parts */
};

static struct staging_limits limits_of(const struct config *config)
{
    return (struct staging_limits){.bytes = config->tenant_bytes, .uploads = config->tenant_models};
}

struct upload *upload_create(const struct config *config, const char *owner, const char *tenant,
                             struct problem *problem)
{
    struct upload *upload = calloc(1, sizeof *upload);
    if (upload == NULL) {
        (void)problem_no_memory(problem);
        return NULL;
    }
    upload->fd = -1;
    upload->max_bytes = config->max_upload;
    upload->limits = limits_of(config);
    upload->staging = staging_begin(tenant, &upload->limits, problem);
    if (upload->staging == NULL) {
        upload_destroy(upload);
        return NULL;
    }
    upload->path = files_temporary(config->data, owner);
    upload->sums = sums_create();
    if (upload->path == NULL || upload->sums == NULL || !sums_begin(upload->sums, "") ||
        gnutls_hash_init(&upload->hash, GNUTLS_DIG_SHA256) != 0) {
        (void)problem_no_memory(problem);
        upload_destroy(upload);
        return NULL;
    }
    upload->fd = open(upload->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (upload->fd < 0) {
        (void)problem_from_errno(problem, errno, "Creating a file for the upload");
        upload_destroy(upload);
        return NULL;
    }
    return upload;
}

struct upload *upload_adopt(const struct config *config, const char *owner, const char *id, const char *digest,
                            struct problem *problem)
{
    struct upload *upload = calloc(1, sizeof *upload);
    if (upload == NULL) {
        (void)problem_no_memory(problem);
        return NULL;
    }
    (void)snprintf(upload->source, sizeof upload->source, "%s", id);
    (void)snprintf(upload->digest, sizeof upload->digest, "%s", digest);
    char *from = files_upload(config->data, id);
    upload->path = files_temporary(config->data, owner);
    bool ok = from != NULL && upload->path != NULL;
    if (!ok)
        (void)problem_no_memory(problem);
    else if (link(from, upload->path) != 0)
        ok = problem_from_errno(problem, errno, "Taking the file of the upload");
    upload->fd = ok ? files_open_read(upload->path, &upload->size) : -1;
    if (ok && upload->fd < 0)
        ok = problem_from_errno(problem, errno, "Opening the file of the upload");
    free(from);
    if (!ok) {
        upload_destroy(upload);
        return NULL;
    }
    return upload;
}

const char *upload_source(const struct upload *upload)
{
    return upload->source[0] != '\0' ? upload->source : NULL;
}

void upload_send_early(struct upload *upload, struct blobs *blobs)
{
    upload->blobs = blobs;
}

struct stage *upload_stage(const struct upload *upload)
{
    return upload->stage;
}

static void send_early(struct upload *upload)
{
    if (upload->stage == NULL && upload->size > SPD_S3_PART_BYTES) {
        upload->stage = blobs_stage(upload->blobs, upload->fd);
        if (upload->stage == NULL)
            upload->blobs = NULL;
    }
    if (upload->stage != NULL)
        stage_grow(upload->stage, upload->size);
}

bool upload_write(struct upload *upload, const void *bytes, size_t size, struct problem *problem)
{
    if (size > upload->max_bytes - upload->size)
        return problem_set_limit(
            problem, 413, "MODEL_TOO_LARGE", "--max-upload", (int64_t)upload->max_bytes, (int64_t)(upload->size + size),
            "The model is larger than the %" PRIu64 " bytes that this service accepts.", upload->max_bytes);
    if (!staging_add(upload->staging, size, &upload->limits, problem))
        return false;
    upload->staged += size;
    if (gnutls_hash(upload->hash, bytes, size) != 0)
        return problem_set(problem, 500, "INTERNAL", "Hashing the upload failed.");
    if (!sums_take(upload->sums, bytes, size))
        return problem_no_memory(problem);
    const char *from = bytes;
    size_t left = size;
    while (left > 0) {
        ssize_t written = write(upload->fd, from, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return problem_from_errno(problem, errno, "Writing the upload");
        from += written;
        left -= (size_t)written;
    }
    upload->size += size;
    /* Starts the disk early, so that making the file durable at the end does not take long. */
    if (upload->size - upload->flushed >= SPD_WRITEBACK_BYTES) {
        (void)sync_file_range(upload->fd, (off_t)upload->flushed, (off_t)(upload->size - upload->flushed),
                              SYNC_FILE_RANGE_WRITE);
        upload->flushed = upload->size;
    }
    if (upload->blobs != NULL)
        send_early(upload);
    return true;
}

/* Beside the file, where publishing it finds them; else they are made when they are needed. */
static void keep_sums(const struct upload *upload, const char *id)
{
    char *path = files_sums(upload->path);
    if (path != NULL && sums_end(upload->sums, id, NULL))
        (void)sums_save(upload->sums, path);
    free(path);
}

static void remove_sums(const struct upload *upload)
{
    char *path = files_sums(upload->path);
    if (path != NULL)
        (void)unlink(path);
    free(path);
}

bool upload_finish(struct upload *upload, char ret_id[65], struct problem *problem)
{
    unsigned char digest[32];
    if (upload->hash != NULL) {
        gnutls_hash_output(upload->hash, digest);
        text_to_hex(digest, sizeof digest, ret_id);
        keep_sums(upload, ret_id);
    } else {
        (void)snprintf(ret_id, sizeof upload->digest, "%s", upload->digest);
    }
    int fd = upload->fd;
    upload->fd = -1;
    if (close(fd) != 0)
        return problem_from_errno(problem, errno, "Writing the upload");
    return true;
}

const char *upload_path(const struct upload *upload)
{
    return upload->path;
}

uint64_t upload_size(const struct upload *upload)
{
    return upload->size;
}

void upload_keep(struct upload *upload)
{
    upload->kept = true;
}

void upload_destroy(struct upload *upload)
{
    if (upload == NULL)
        return;
    stage_drop(upload->stage);
    if (upload->fd >= 0)
        (void)close(upload->fd);
    if (!upload->kept && upload->path != NULL) {
        (void)unlink(upload->path);
        remove_sums(upload);
    }
    sums_destroy(upload->sums);
    if (upload->hash != NULL)
        gnutls_hash_deinit(upload->hash, NULL);
    staging_end(upload->staging, upload->staged);
    free(upload->path);
    free(upload);
}
