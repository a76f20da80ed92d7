#include "store/s3/parts.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/s3/client.h"
#include "store/s3/encode.h"
#include "store/s3/xml.h"
#include "util/text.h"

enum state {
    STATE_NEW,
    STATE_BEGINNING, /* a thread asks for the upload's id */
    STATE_OPEN,
    STATE_COMPLETED,
    STATE_FAILED, /* or stopped */
};

struct tag {
    char text[128];
};

struct s3_parts {
    struct s3 *s3;
    char key[SPD_MAX_S3_URL / 4];
    int file;
    uint64_t part_size;
    char upload[SPD_MAX_S3_URL / 4]; /* its id, as it stands in a query; set in STATE_BEGINNING */

    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    enum state state;
    bool was_asked;     /* to begin it */
    bool has_begun;     /* the bucket knows it */
    uint64_t size;      /* bytes that are there */
    bool is_whole;      /* and there will be no more */
    unsigned next;      /* part, from 0 */
    unsigned running;   /* threads that send */
    struct tag *tags;   /* of parts that were sent */
    unsigned room;      /* of these */
    struct problem why; /* it failed */
};

struct s3_parts *s3_parts_create(struct s3 *s3, const char *key, int file, uint64_t size)
{
    struct s3_parts *parts = calloc(1, sizeof *parts);
    if (parts == NULL)
        return NULL;
    uint64_t least = size / SPD_S3_MAX_PARTS + 1;
    parts->s3 = s3;
    (void)snprintf(parts->key, sizeof parts->key, "%s", key);
    parts->file = file;
    parts->part_size = least > SPD_S3_PART_BYTES ? least : SPD_S3_PART_BYTES;
    (void)pthread_mutex_init(&parts->mutex, NULL);
    (void)pthread_cond_init(&parts->changed, NULL);
    return parts;
}

void s3_parts_destroy(struct s3_parts *parts)
{
    if (parts == NULL)
        return;
    (void)pthread_cond_destroy(&parts->changed);
    (void)pthread_mutex_destroy(&parts->mutex);
    free(parts->tags);
    free(parts);
}

/* ---- requests ---- */

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

static bool begin(struct s3_parts *parts, struct problem *problem)
{
    char id[SPD_MAX_S3_URL / 4];
    struct s3_answer answer;
    struct s3_call call = {.request = {.method = "POST", .sha256 = S3_EMPTY_SHA256, .text = "", .file = -1},
                           .key = parts->key,
                           .query = "uploads=",
                           .retries = SPD_S3_RETRIES};
    bool ok = s3_do(parts->s3, &call, &answer, problem);
    if (ok && (answer.status != 200 || !xml_text(answer.body.data, "UploadId", id, sizeof id) ||
               !s3_encode(id, parts->upload, sizeof parts->upload)))
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    return ok;
}

static bool send_part(struct s3_parts *parts, unsigned number, uint64_t size, struct tag *ret_tag,
                      struct problem *problem)
{
    char query[SPD_MAX_S3_URL / 2], sha256[65] = "UNSIGNED-PAYLOAD";
    struct s3_answer answer;
    uint64_t offset = number * parts->part_size;
    if (size - offset < parts->part_size)
        size -= offset;
    else
        size = parts->part_size;
    if (!parts->s3->is_private && !hash_file(parts->file, offset, size, sha256, problem))
        return false;
    (void)snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", number + 1, parts->upload);
    struct s3_call call = {
        .request = {.method = "PUT", .sha256 = sha256, .file = parts->file, .offset = offset, .size = size},
        .key = parts->key,
        .query = query,
        .retries = SPD_S3_RETRIES};
    bool ok = s3_do(parts->s3, &call, &answer, problem);
    if (ok && (answer.status != 200 || answer.etag[0] == '\0' || strpbrk(answer.etag, "<>&") != NULL))
        ok = s3_refused(problem, &answer);
    (void)snprintf(ret_tag->text, sizeof ret_tag->text, "%s", answer.etag);
    sp_buf_release(&answer.body);
    return ok;
}

/* The answer of a completion may get lost: then the upload is not known any more (404), and the object tells. */
static bool complete(struct s3_parts *parts, struct sp_buf *list, struct problem *problem)
{
    char query[SPD_MAX_S3_URL / 2], sha256[65];
    unsigned char digest[32];
    struct s3_answer answer;
    if (sp_buf_failed(list) || gnutls_hash_fast(GNUTLS_DIG_SHA256, list->data, list->size, digest) != 0)
        return problem_no_memory(problem);
    text_to_hex(digest, sizeof digest, sha256);
    (void)snprintf(query, sizeof query, "uploadId=%s", parts->upload);
    struct s3_call call = {.request = {.method = "POST",
                                       .sha256 = sha256,
                                       .headers = {"Content-Type: application/xml"},
                                       .text = list->data,
                                       .file = -1,
                                       .is_slow = true},
                           .key = parts->key,
                           .query = query,
                           .retries = SPD_S3_RETRIES};
    bool ok = s3_do(parts->s3, &call, &answer, problem);
    int status = answer.status;
    if (ok && status != 200 && status != 404)
        ok = s3_refused(problem, &answer);
    sp_buf_release(&answer.body);
    if (!ok || status == 200)
        return ok;
    enum s3_found found = s3_head(parts->s3, parts->key, problem);
    return found == S3_FOUND ||
           problem_set(problem, 503, "BLOBS_UNAVAILABLE", "The object store lost an upload; try again later.");
}

/* ---- who sends what; the mutex is held ---- */

static unsigned whole_parts(const struct s3_parts *parts)
{
    return (unsigned)((parts->size + (parts->is_whole ? parts->part_size - 1 : 0)) / parts->part_size);
}

static unsigned due(const struct s3_parts *parts)
{
    if (parts->state == STATE_COMPLETED || parts->state == STATE_FAILED)
        return 0;
    return whole_parts(parts) - parts->next;
}

static void fail(struct s3_parts *parts, const struct problem *why)
{
    if (parts->state != STATE_FAILED)
        parts->why = *why;
    parts->state = STATE_FAILED;
}

static bool make_room(struct s3_parts *parts)
{
    if (parts->next < parts->room)
        return true;
    unsigned room = parts->room > 0 ? 2 * parts->room : 64;
    struct tag *tags = reallocarray(parts->tags, room, sizeof *tags);
    if (tags == NULL)
        return false;
    parts->tags = tags;
    parts->room = room;
    return true;
}

static void begin_upload(struct s3_parts *parts)
{
    struct problem why = {0};
    parts->state = STATE_BEGINNING;
    parts->was_asked = true;
    parts->running++;
    (void)pthread_mutex_unlock(&parts->mutex);
    bool ok = begin(parts, &why);
    (void)pthread_mutex_lock(&parts->mutex);
    parts->running--;
    parts->has_begun = ok;
    if (!ok)
        fail(parts, &why);
    else if (parts->state == STATE_BEGINNING)
        parts->state = STATE_OPEN;
    (void)pthread_cond_broadcast(&parts->changed);
}

static void send_next(struct s3_parts *parts)
{
    struct problem why = {0};
    struct tag tag = {""};
    if (!make_room(parts)) {
        (void)problem_no_memory(&why);
        fail(parts, &why);
        return;
    }
    const unsigned number = parts->next++;
    const uint64_t size = parts->size;
    parts->running++;
    (void)pthread_mutex_unlock(&parts->mutex);
    bool ok = send_part(parts, number, size, &tag, &why);
    (void)pthread_mutex_lock(&parts->mutex);
    parts->running--;
    if (ok)
        parts->tags[number] = tag;
    else
        fail(parts, &why);
    (void)pthread_cond_broadcast(&parts->changed);
}

/* Whether something was done. */
static bool work(struct s3_parts *parts)
{
    if (due(parts) == 0 || parts->state == STATE_BEGINNING)
        return false;
    if (parts->state == STATE_NEW)
        begin_upload(parts);
    else
        send_next(parts);
    return true;
}

/* ---- calls ---- */

void s3_parts_grow(struct s3_parts *parts, uint64_t size)
{
    (void)pthread_mutex_lock(&parts->mutex);
    parts->size = size;
    (void)pthread_mutex_unlock(&parts->mutex);
}

void s3_parts_end(struct s3_parts *parts, uint64_t size)
{
    (void)pthread_mutex_lock(&parts->mutex);
    parts->size = size;
    parts->is_whole = true;
    (void)pthread_mutex_unlock(&parts->mutex);
}

bool s3_parts_failed(struct s3_parts *parts)
{
    (void)pthread_mutex_lock(&parts->mutex);
    const bool failed = parts->state == STATE_FAILED;
    (void)pthread_mutex_unlock(&parts->mutex);
    return failed;
}

unsigned s3_parts_due(struct s3_parts *parts)
{
    (void)pthread_mutex_lock(&parts->mutex);
    const unsigned count = due(parts);
    (void)pthread_mutex_unlock(&parts->mutex);
    return count;
}

void s3_parts_send(struct s3_parts *parts)
{
    (void)pthread_mutex_lock(&parts->mutex);
    for (;;) {
        while (parts->state == STATE_BEGINNING)
            (void)pthread_cond_wait(&parts->changed, &parts->mutex);
        if (!work(parts))
            break;
    }
    (void)pthread_mutex_unlock(&parts->mutex);
}

bool s3_parts_complete(struct s3_parts *parts, struct problem *problem)
{
    struct sp_buf list;
    sp_buf_init(&list, SPD_MAX_S3_ANSWER);
    (void)pthread_mutex_lock(&parts->mutex);
    while (work(parts) || parts->running > 0) {
        if (parts->running > 0 && (due(parts) == 0 || parts->state == STATE_BEGINNING))
            (void)pthread_cond_wait(&parts->changed, &parts->mutex);
    }
    bool ok = parts->state == STATE_OPEN;
    if (!ok)
        *problem = parts->why;
    sp_buf_text(&list, "<CompleteMultipartUpload>");
    for (unsigned i = 0; ok && i < parts->next; i++)
        sp_buf_printf(&list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1, parts->tags[i].text);
    sp_buf_text(&list, "</CompleteMultipartUpload>");
    (void)pthread_mutex_unlock(&parts->mutex);
    ok = ok && complete(parts, &list, problem);
    (void)pthread_mutex_lock(&parts->mutex);
    parts->state = ok ? STATE_COMPLETED : STATE_FAILED;
    (void)pthread_mutex_unlock(&parts->mutex);
    sp_buf_release(&list);
    return ok;
}

void s3_parts_stop(struct s3_parts *parts)
{
    struct problem why = {0};
    (void)problem_set(&why, 503, "BLOBS_UNAVAILABLE", "The upload to the object store was stopped.");
    (void)pthread_mutex_lock(&parts->mutex);
    if (parts->state != STATE_COMPLETED)
        fail(parts, &why);
    (void)pthread_mutex_unlock(&parts->mutex);
}

bool s3_parts_begun(const struct s3_parts *parts)
{
    return parts->was_asked;
}

void s3_parts_abort(struct s3_parts *parts)
{
    struct problem unused = {0};
    if (parts->has_begun && parts->state != STATE_COMPLETED)
        (void)s3_abort_upload(parts->s3, parts->key, parts->upload, &unused);
}
