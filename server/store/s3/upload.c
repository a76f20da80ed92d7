/*
 * Storing an object: at once, or in several parts. Then it is created, its parts sent one after another with the hash of each, completed. What fails in
 * between is aborted, so that no parts stay; those of a daemon that died do, until a rule of the bucket removes them
 * (AbortIncompleteMultipartUpload).
 */
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/s3/client.h"
#include "store/s3/xml.h"
#include "util/text.h"

struct parts {
    struct s3 *s3;
    const char *key;
    int file;
    uint64_t size, part_size;
    char upload[SPD_MAX_S3_URL / 4]; /* its id, as it stands in a query */
    struct sp_buf list;              /* the XML of what completes it */
};

static bool hash_file(int file, uint64_t offset, uint64_t size, char ret_sha256[65], struct problem *problem)
{
    unsigned char digest[32];
    char *block = malloc(SPD_S3_BLOCK);
    gnutls_hash_hd_t hash;
    if (block == NULL || gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0) {
        free(block);
        return problem_no_memory(problem);
    }
    bool ok = true;
    while (ok && size > 0) {
        ssize_t got = pread(file, block, size < SPD_S3_BLOCK ? (size_t)size : SPD_S3_BLOCK, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        ok = got > 0 && gnutls_hash(hash, block, (size_t)got) == 0;
        if (!ok)
            (void)problem_from_errno(problem, got < 0 ? errno : EIO, "Reading a file for the object store");
        offset += ok ? (uint64_t)got : 0;
        size -= ok ? (uint64_t)got : 0;
    }
    gnutls_hash_deinit(hash, digest);
    free(block);
    text_to_hex(digest, sizeof digest, ret_sha256);
    return ok;
}

/* An id may have characters that a query must not have. */
static bool encode(const char *id, char *ret, size_t size)
{
    size_t used = 0;
    for (; *id != '\0'; id++) {
        bool plain = (*id >= 'a' && *id <= 'z') || (*id >= 'A' && *id <= 'Z') || (*id >= '0' && *id <= '9') ||
                     *id == '-' || *id == '.' || *id == '_' || *id == '~';
        int length = snprintf(ret + used, size - used, plain ? "%c" : "%%%02X", (unsigned char)*id);
        if (length < 0 || (size_t)length >= size - used)
            return false;
        used += (size_t)length;
    }
    return used > 0;
}

static bool create(struct parts *parts, struct problem *problem)
{
    char id[SPD_MAX_S3_URL / 4];
    struct s3_answer answer;
    struct s3_call call = {.request = {.method = "POST", .sha256 = S3_EMPTY_SHA256, .text = "", .file = -1},
                           .key = parts->key,
                           .query = "uploads=",
                           .retries = SPD_S3_RETRIES};
    bool ok = s3_do(parts->s3, &call, &answer, problem);
    if (ok && (answer.status != 200 || !xml_text(answer.body.data, "UploadId", id, sizeof id) ||
               !encode(id, parts->upload, sizeof parts->upload)))
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    return ok;
}

static bool send_part(struct parts *parts, unsigned number, uint64_t offset, struct problem *problem)
{
    char query[SPD_MAX_S3_URL / 2], sha256[65];
    struct s3_answer answer;
    uint64_t size = parts->size - offset < parts->part_size ? parts->size - offset : parts->part_size;
    if (!hash_file(parts->file, offset, size, sha256, problem))
        return false;
    (void)snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", number, parts->upload);
    struct s3_call call = {
        .request = {.method = "PUT", .sha256 = sha256, .file = parts->file, .offset = offset, .size = size},
        .key = parts->key,
        .query = query,
        .retries = SPD_S3_RETRIES};
    bool ok = s3_do(parts->s3, &call, &answer, problem);
    if (ok && (answer.status != 200 || answer.etag[0] == '\0' || strpbrk(answer.etag, "<>&") != NULL))
        ok = s3_refused(problem, &answer);
    if (ok)
        sp_buf_printf(&parts->list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", number, answer.etag);
    sp_buf_release(&answer.body);
    return ok;
}

/* The answer of a completion may get lost: then the upload is not known any more (404), and the object tells. */
static bool complete(struct parts *parts, struct problem *problem)
{
    char query[SPD_MAX_S3_URL / 2], sha256[65];
    unsigned char digest[32];
    struct s3_answer answer;
    sp_buf_text(&parts->list, "</CompleteMultipartUpload>");
    if (sp_buf_failed(&parts->list) ||
        gnutls_hash_fast(GNUTLS_DIG_SHA256, parts->list.data, parts->list.size, digest) != 0)
        return problem_no_memory(problem);
    text_to_hex(digest, sizeof digest, sha256);
    (void)snprintf(query, sizeof query, "uploadId=%s", parts->upload);
    struct s3_call call = {.request = {.method = "POST",
                                       .sha256 = sha256,
                                       .headers = {"Content-Type: application/xml", "If-None-Match: *"},
                                       .text = parts->list.data,
                                       .file = -1},
                           .key = parts->key,
                           .query = query,
                           .retries = SPD_S3_RETRIES};
    bool ok = s3_do(parts->s3, &call, &answer, problem);
    int status = answer.status;
    if (ok && status != 200 && status != 412 && status != 404)
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    if (!ok || status == 200)
        return ok;
    enum s3_found found = s3_head(parts->s3, parts->key, problem);
    return found == S3_FOUND ||
           problem_set(problem, 503, "BLOBS_UNAVAILABLE", "The object store lost an upload; try again later.");
}

static void abort_upload(const struct parts *parts)
{
    char query[SPD_MAX_S3_URL / 2];
    struct problem problem = {0};
    struct s3_answer answer;
    (void)snprintf(query, sizeof query, "uploadId=%s", parts->upload);
    struct s3_call call = {.request = {.method = "DELETE", .sha256 = S3_EMPTY_SHA256, .file = -1},
                           .key = parts->key,
                           .query = query,
                           .retries = 1};
    (void)s3_do(parts->s3, &call, &answer, &problem);
    sp_buf_release(&answer.body);
}

static bool put_parts(struct s3 *s3, const char *key, int file, uint64_t size, struct problem *problem)
{
    struct parts parts = {.s3 = s3, .key = key, .file = file, .size = size, .part_size = SPD_S3_PART_BYTES};
    uint64_t least = size / SPD_S3_MAX_PARTS + 1, offset = 0;
    if (parts.part_size < least)
        parts.part_size = least;
    enum s3_found found = s3_head(s3, key, problem);
    if (found != S3_MISSING)
        return found == S3_FOUND;
    if (!create(&parts, problem))
        return false;
    sp_buf_init(&parts.list, SPD_MAX_S3_ANSWER);
    sp_buf_text(&parts.list, "<CompleteMultipartUpload>");
    bool ok = true;
    for (unsigned number = 1; ok && offset < size; number++, offset += parts.part_size)
        ok = send_part(&parts, number, offset, problem);
    ok = ok && complete(&parts, problem);
    if (!ok)
        abort_upload(&parts);
    sp_buf_release(&parts.list);
    return ok;
}

bool s3_put(struct s3 *s3, const char *key, int file, uint64_t size, const char *sha256, struct problem *problem)
{
    struct s3_answer answer;
    if (size > SPD_S3_PART_BYTES)
        return put_parts(s3, key, file, size, problem);
    struct s3_call call = {
        .request = {.method = "PUT", .sha256 = sha256, .headers = {"If-None-Match: *"}, .file = file, .size = size},
        .key = key,
        .retries = SPD_S3_RETRIES};
    bool ok = s3_do(s3, &call, &answer, problem);
    if (ok && answer.status != 200 && answer.status != 412)
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    return ok;
}
