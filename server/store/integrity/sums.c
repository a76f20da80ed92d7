#include "store/integrity/sums.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "store/files.h"
#include "util/text.h"

#define MAGIC   "SPSUMS1\n"
#define OF_SIZE 64
#define SHA     32

struct digest {
    unsigned char bytes[16];
};

struct head {
    char magic[8];
    char of[OF_SIZE];
    uint32_t chunk, files;
};

struct entry {
    char name[SUMS_NAME_SIZE];
    uint64_t size;
};

struct sums {
    char of[OF_SIZE + 1];
    struct sums_file files[SUMS_MAX_FILES];
    uint32_t count;
    struct digest *digests;
    size_t digest_count, digest_room;
    XXH3_state_t *hash; /* of the chunk that has begun; NULL in complete ones */
    size_t held;        /* bytes of it */
    unsigned char sha[SHA];
};

struct sums *sums_create(void)
{
    struct sums *sums = calloc(1, sizeof *sums);
    if (sums == NULL)
        return NULL;
    sums->hash = XXH3_createState();
    if (sums->hash == NULL) {
        free(sums);
        return NULL;
    }
    return sums;
}

void sums_destroy(struct sums *sums)
{
    if (sums == NULL)
        return;
    (void)XXH3_freeState(sums->hash);
    free(sums->digests);
    free(sums);
}

/* ---- making ---- */

static bool add_digest(struct sums *sums, const XXH128_hash_t *hash)
{
    XXH128_canonical_t canonical;
    if (sums->digest_count == sums->digest_room) {
        size_t room = sums->digest_room > 0 ? 2 * sums->digest_room : 16;
        struct digest *digests =
            room <= SUMS_MAX_BYTES / sizeof *digests ? reallocarray(sums->digests, room, sizeof *digests) : NULL;
        if (digests == NULL)
            return false;
        sums->digests = digests;
        sums->digest_room = room;
    }
    XXH128_canonicalFromHash(&canonical, *hash);
    memcpy(sums->digests[sums->digest_count++].bytes, canonical.digest, sizeof canonical.digest);
    return true;
}

/* Ends the chunk that has begun. */
static bool end_chunk(struct sums *sums)
{
    if (sums->held == 0)
        return true;
    const XXH128_hash_t hash = XXH3_128bits_digest(sums->hash);
    sums->held = 0;
    return add_digest(sums, &hash);
}

bool sums_begin(struct sums *sums, const char *name)
{
    if (sums->count == SUMS_MAX_FILES || strlen(name) >= SUMS_NAME_SIZE || !end_chunk(sums))
        return false;
    struct sums_file *file = &sums->files[sums->count++];
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    file->first = sums->digest_count;
    return true;
}

bool sums_take(struct sums *sums, const void *bytes, size_t size)
{
    const char *from = bytes;
    sums->files[sums->count - 1].size += size;
    while (size > 0) {
        const size_t room = SUMS_CHUNK - sums->held, part = size < room ? size : room;
        if (sums->held == 0)
            (void)XXH3_128bits_reset(sums->hash);
        (void)XXH3_128bits_update(sums->hash, from, part);
        sums->held += part;
        if (sums->held == SUMS_CHUNK && !end_chunk(sums))
            return false;
        from += part;
        size -= part;
    }
    return true;
}

/* Calls `each` with the pieces of the file up to its SHA-256. */
static bool for_each_piece(const struct sums *sums, bool (*each)(void *context, const void *bytes, size_t size),
                           void *context)
{
    struct head head = {.magic = MAGIC, .chunk = htole32(SUMS_CHUNK), .files = htole32(sums->count)};
    memcpy(head.of, sums->of, sizeof head.of);
    bool ok = each(context, &head, sizeof head);
    for (uint32_t i = 0; ok && i < sums->count; i++) {
        struct entry entry = {.size = htole64(sums->files[i].size)};
        memcpy(entry.name, sums->files[i].name, sizeof entry.name);
        ok = each(context, &entry, sizeof entry);
    }
    return ok && (sums->digest_count == 0 || each(context, sums->digests, sums->digest_count * sizeof(struct digest)));
}

static bool hash_piece(void *context, const void *bytes, size_t size)
{
    return gnutls_hash(context, bytes, size) == 0;
}

bool sums_end(struct sums *sums, const char *of, char ret_digest[SUMS_DIGEST_SIZE])
{
    gnutls_hash_hd_t hash;
    (void)snprintf(sums->of, sizeof sums->of, "%s", of);
    if (!end_chunk(sums) || gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0)
        return false;
    const bool ok = for_each_piece(sums, hash_piece, hash);
    gnutls_hash_deinit(hash, sums->sha);
    if (ret_digest != NULL)
        text_to_hex(sums->sha, SHA, ret_digest);
    return ok;
}

/* ---- the file ---- */

static bool write_piece(void *context, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, context) == size;
}

bool sums_save(const struct sums *sums, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "we") : NULL;
    if (file == NULL) {
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(path);
        }
        return false;
    }
    bool ok = for_each_piece(sums, write_piece, file) && write_piece(file, sums->sha, SHA);
    ok = fclose(file) == 0 && ok;
    const int error = errno;
    if (!ok)
        (void)unlink(path);
    errno = error;
    return ok;
}

/* The files, and where their chunks begin. False when that does not fit `size` bytes of digests. */
static bool read_files(struct sums *sums, const struct entry *entries, uint64_t size)
{
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < sums->count; i++) {
        struct sums_file *file = &sums->files[i];
        memcpy(file->name, entries[i].name, sizeof file->name);
        file->size = le64toh(entries[i].size);
        file->first = chunks;
        if (file->name[SUMS_NAME_SIZE - 1] != '\0' || file->size / SUMS_CHUNK > SUMS_MAX_BYTES)
            return false;
        chunks += file->size / SUMS_CHUNK + (file->size % SUMS_CHUNK > 0);
    }
    return chunks * sizeof(struct digest) == size;
}

/* False with errno: EBADMSG when these are no such sums. */
static bool read_sums(struct sums *sums, const unsigned char *bytes, size_t size, const char *digest)
{
    struct head head;
    struct entry entries[SUMS_MAX_FILES];
    unsigned char sha[SHA];
    char hex[SUMS_DIGEST_SIZE];
    errno = EBADMSG;
    if (size < sizeof head + SHA)
        return false;
    const size_t body = size - SHA;
    memcpy(&head, bytes, sizeof head);
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, body, sha) != 0) {
        errno = ENOMEM;
        return false;
    }
    if (memcmp(sha, bytes + body, SHA) != 0 || memcmp(head.magic, MAGIC, sizeof head.magic) != 0 ||
        memcmp(head.of, sums->of, sizeof head.of) != 0 || le32toh(head.chunk) != SUMS_CHUNK ||
        le32toh(head.files) > SUMS_MAX_FILES)
        return false;
    text_to_hex(sha, SHA, hex);
    if (digest != NULL && strcmp(hex, digest) != 0)
        return false;
    memcpy(sums->sha, sha, SHA);
    sums->count = le32toh(head.files);
    const size_t files = sums->count * sizeof(struct entry);
    if (body < sizeof head + files)
        return false;
    memcpy(entries, bytes + sizeof head, files);
    sums->digest_count = (body - sizeof head - files) / sizeof(struct digest);
    sums->digests = malloc(body - sizeof head - files + 1);
    if (sums->digests == NULL) {
        errno = ENOMEM;
        return false;
    }
    memcpy(sums->digests, bytes + sizeof head + files, body - sizeof head - files);
    return read_files(sums, entries, body - sizeof head - files);
}

static unsigned char *read_all(const char *path, size_t *ret_size)
{
    uint64_t size;
    const int fd = files_open_read(path, &size);
    if (fd < 0)
        return NULL;
    unsigned char *bytes = size <= SUMS_MAX_BYTES ? malloc((size_t)size + 1) : NULL;
    int error = size <= SUMS_MAX_BYTES ? ENOMEM : EBADMSG;
    if (bytes != NULL && !files_read_at(fd, 0, bytes, (size_t)size)) {
        error = errno;
        free(bytes);
        bytes = NULL;
    }
    (void)close(fd);
    errno = error;
    *ret_size = (size_t)size;
    return bytes;
}

struct sums *sums_load(const char *path, const char *of, const char *digest)
{
    size_t size = 0;
    unsigned char *bytes = read_all(path, &size);
    if (bytes == NULL)
        return NULL;
    struct sums *sums = sums_create();
    if (sums != NULL)
        (void)snprintf(sums->of, sizeof sums->of, "%s", of);
    errno = ENOMEM;
    const bool ok = sums != NULL && read_sums(sums, bytes, size, digest);
    const int error = errno;
    free(bytes);
    if (ok)
        return sums;
    sums_destroy(sums);
    errno = error;
    return NULL;
}

const struct sums_file *sums_find(const struct sums *sums, const char *name)
{
    for (uint32_t i = 0; i < sums->count; i++) {
        if (strcmp(sums->files[i].name, name) == 0)
            return &sums->files[i];
    }
    return NULL;
}

bool sums_fit(const struct sums *sums, const struct sums_file *file, uint64_t chunk, const void *bytes, size_t size)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    return chunk <= file->size / SUMS_CHUNK && file->first + chunk < sums->digest_count &&
           memcmp(sums->digests[file->first + chunk].bytes, canonical.digest, sizeof canonical.digest) == 0;
}
