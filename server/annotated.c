#include "annotated.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "log.h"
#include "onnx/splice.h"
#include "text.h"

struct annotated {
    struct server *server;
    struct sp_splice *splice;
    size_t counted; /* of server->loaded_splice_bytes */
    int blob;
};

static bool read_blob(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct annotated *annotated = context;
    return files_read_at(annotated->blob, offset, bytes, size);
}

static bool read_annotated(void *context, uint64_t offset, void *bytes, size_t size)
{
    struct annotated *annotated = context;
    struct sp_source source = {.read = read_blob, .context = annotated};
    char *to = bytes;
    while (size > 0) {
        size_t got = 0;
        struct sp_error err = {0};
        if (sp_splice_read(annotated->splice, &source, offset, to, size, &got, &err) != SP_OK || got == 0)
            return false;
        to += got;
        offset += got;
        size -= got;
    }
    return true;
}

static void free_annotated(void *context)
{
    struct annotated *annotated = context;
    if (annotated->blob >= 0)
        (void)close(annotated->blob);
    sp_splice_destroy(annotated->splice);
    (void)atomic_fetch_sub(&annotated->server->loaded_splice_bytes, annotated->counted);
    free(annotated);
}

/* The same model and the same splice are the same bytes. */
static bool digest(const char *model, const void *bytes, size_t size, char *ret_digest)
{
    unsigned char result[32];
    gnutls_hash_hd_t hash;
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0)
        return false;
    bool ok = gnutls_hash(hash, model, strlen(model)) == 0 && gnutls_hash(hash, bytes, size) == 0;
    gnutls_hash_deinit(hash, result);
    text_to_hex(result, sizeof result, ret_digest);
    return ok;
}

/* Reads the splice file; its size counts against what all downloads together may hold. */
static bool load_splice(struct annotated *annotated, int fd, uint64_t size, const char *model, char *ret_digest,
                        struct problem *problem)
{
    struct sp_error err = {0};
    size_t held = atomic_fetch_add(&annotated->server->loaded_splice_bytes, (size_t)size) + (size_t)size;
    annotated->counted = (size_t)size;
    if (held > SPD_MAX_LOADED_SPLICES && held > size)
        return problem_set_limit(problem, 503, "BUSY", "SPD_MAX_LOADED_SPLICES", SPD_MAX_LOADED_SPLICES, (int64_t)held,
                                 "Too many downloads of large plans run at this moment; try again later.");
    void *bytes = malloc((size_t)size > 0 ? (size_t)size : 1);
    if (bytes == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    bool ok = files_read_at(fd, 0, bytes, (size_t)size);
    if (!ok)
        (void)problem_from_errno(problem, errno, "Reading the annotations");
    if (ok && sp_splice_load(bytes, (size_t)size, &annotated->splice, &err) != SP_OK) {
        LOG(LOG_ERROR, "stored splice damaged", log_s("detail", err.message));
        ok = false;
    }
    if (ok && ret_digest != NULL && !digest(model, bytes, (size_t)size, ret_digest))
        ok = problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    free(bytes);
    return ok;
}

bool annotated_open(struct server *server, const char *model, const char *splice, const char *damaged,
                    struct stream *ret_stream, char *ret_digest, struct problem *problem)
{
    uint64_t size = 0, blob_size = 0;
    struct annotated *annotated = calloc(1, sizeof *annotated);
    if (annotated == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    annotated->server = server;
    char *path = files_blob(server->config->data, model);
    annotated->blob = path != NULL ? files_open_read(path, &blob_size) : -1;
    free(path);
    int fd = splice != NULL ? files_open_read(splice, &size) : -1;
    bool ok = annotated->blob >= 0 && fd >= 0 && load_splice(annotated, fd, size, model, ret_digest, problem) &&
              sp_splice_original_size(annotated->splice) == blob_size;
    if (fd >= 0)
        (void)close(fd);
    if (!ok) {
        free_annotated(annotated);
        return problem_set(problem, 500, damaged, "The stored annotations or their model cannot be read.");
    }
    *ret_stream = (struct stream){.size = sp_splice_size(annotated->splice),
                                  .read = read_annotated,
                                  .release = free_annotated,
                                  .context = annotated};
    return true;
}
