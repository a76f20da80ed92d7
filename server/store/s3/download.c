/* Reading an object, with its hash, over as many requests as it takes. */
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/s3/client.h"
#include "util/text.h"

struct download {
    int file;
    uint64_t offset, before; /* bytes that are there; at the start of the request */
    uint64_t most;
    bool is_too_long;
    gnutls_hash_hd_t hash;
    int error; /* of writing, 0 */
};

static bool begin_anew(struct download *download)
{
    unsigned char unused[32];
    gnutls_hash_output(download->hash, unused); /* which resets it */
    download->offset = download->before = 0;
    download->error = ftruncate(download->file, 0) != 0 ? errno : 0;
    return download->error == 0;
}

static bool take(void *context, int status, const void *bytes, size_t size)
{
    struct download *download = context;
    const char *from = bytes;
    size_t left = size;
    /* The whole of it, though a part was wanted. */
    if (status == 200 && download->before > 0 && !begin_anew(download))
        return false;
    download->is_too_long = size > download->most - download->offset;
    if (download->is_too_long)
        return false;
    while (left > 0) {
        ssize_t written = pwrite(download->file, from, left, (off_t)(download->offset + size - left));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            download->error = written < 0 ? errno : EIO;
            return false;
        }
        from += written;
        left -= (size_t)written;
    }
    download->offset += size;
    return gnutls_hash(download->hash, bytes, size) == 0;
}

/* The same request is sent again only when it brought nothing. */
static bool brought_nothing(void *context)
{
    const struct download *download = context;
    return download->offset == download->before && download->error == 0 && !download->is_too_long;
}

/* One request for what is left. */
static enum s3_found get_rest(struct s3 *s3, const char *key, struct download *download, struct problem *problem)
{
    char range[64];
    struct s3_answer answer;
    struct s3_call call = {
        .request = {.method = "GET", .sha256 = S3_EMPTY_SHA256, .file = -1, .take = take, .context = download},
        .key = key,
        .retries = SPD_S3_RETRIES,
        .rewind = brought_nothing};
    download->before = download->offset;
    (void)snprintf(range, sizeof range, "Range: bytes=%llu-", (unsigned long long)download->before);
    if (download->before > 0)
        call.request.headers[0] = range;
    bool ok = s3_do(s3, &call, &answer, problem);
    int status = answer.status;
    sp_buf_release(&answer.body);
    if (ok && (status == 200 || status == 206 || (status == 416 && download->before > 0)))
        return S3_FOUND; /* 416: it broke behind the last byte */
    if (ok && status == 404)
        return S3_MISSING;
    if (ok)
        (void)problem_set(problem, 503, "BLOBS_REFUSED", "The object store refused a request: %d.", status);
    return S3_FAILED;
}

static enum s3_found get_all(struct s3 *s3, const char *key, struct download *download, struct problem *problem)
{
    enum s3_found found = S3_FAILED;
    for (unsigned n = 0; n < SPD_S3_RESUMES && found == S3_FAILED; n++) {
        struct problem why = {0};
        found = get_rest(s3, key, download, &why);
        if (download->is_too_long)
            return S3_CHANGED;
        if (download->error != 0) {
            (void)problem_from_errno(problem, download->error, "Writing a file of the object store");
            return S3_FAILED;
        }
        if (found == S3_FAILED && (brought_nothing(download) || n + 1 == SPD_S3_RESUMES || atomic_load(s3->stop))) {
            *problem = why;
            return S3_FAILED;
        }
    }
    return found;
}

enum s3_found s3_get(struct s3 *s3, const char *key, int file, const char *sha256, uint64_t most, uint64_t *ret_size,
                     struct problem *problem)
{
    struct download download = {.file = file, .most = most};
    unsigned char digest[32];
    char is[65];
    if (gnutls_hash_init(&download.hash, GNUTLS_DIG_SHA256) != 0) {
        (void)problem_no_memory(problem);
        return S3_FAILED;
    }
    enum s3_found found = get_all(s3, key, &download, problem);
    gnutls_hash_deinit(download.hash, digest);
    text_to_hex(digest, sizeof digest, is);
    if (found != S3_FOUND)
        return found;
    if (strcmp(is, sha256) != 0)
        return S3_CHANGED;
    *ret_size = download.offset;
    return S3_FOUND;
}
