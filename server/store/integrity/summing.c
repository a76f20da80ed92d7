/* Sums of files that are there. */
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/files.h"
#include "store/integrity/internal.h"
#include "util/text.h"

bool stored_sum_bytes(int fd, struct sums *sums, gnutls_hash_hd_t sha, stored_pace pace, void *context)
{
    unsigned char *block = malloc(SUMS_CHUNK);
    ssize_t got = 1;
    uint64_t at = 0;
    int error = block != NULL ? 0 : ENOMEM;
    while (error == 0 && got > 0) {
        got = pread(fd, block, SUMS_CHUNK, (off_t)at);
        if (got < 0)
            error = errno;
        else if (got > 0 && pace != NULL && !pace(context, (size_t)got))
            error = ECANCELED;
        else if (!sums_take(sums, block, (size_t)got) || (sha != NULL && gnutls_hash(sha, block, (size_t)got) != 0))
            error = ENOMEM;
        at += got > 0 ? (uint64_t)got : 0;
    }
    free(block);
    errno = error;
    return error == 0;
}

struct sums *stored_sum_file(int fd, const char *of, char ret_sha[65], stored_pace pace, void *context)
{
    gnutls_hash_hd_t sha = NULL;
    unsigned char digest[32];
    struct sums *sums = sums_create();
    bool ok =
        sums != NULL && sums_begin(sums, "") && (ret_sha == NULL || gnutls_hash_init(&sha, GNUTLS_DIG_SHA256) == 0);
    int error = ENOMEM;
    if (ok) {
        ok = stored_sum_bytes(fd, sums, sha, pace, context);
        error = errno;
    }
    if (sha != NULL) {
        gnutls_hash_deinit(sha, digest);
        text_to_hex(digest, sizeof digest, ret_sha);
    }
    if (ok && sums_end(sums, of, NULL))
        return sums;
    sums_destroy(sums);
    errno = ok ? ENOMEM : error;
    return NULL;
}

void stored_put_sums(const struct stored *stored, const struct sums *sums, const char *beside)
{
    char *path = files_temporary(stored->options.data, stored->options.owner);
    if (path != NULL && sums_save(sums, path) && rename(path, beside) != 0)
        (void)unlink(path);
    free(path);
}

void stored_seal_file(const char *path, const char *id)
{
    uint64_t size;
    char *beside = files_sums(path);
    const int fd = beside != NULL ? files_open_read(path, &size) : -1;
    struct sums *sums = fd >= 0 ? stored_sum_file(fd, id, NULL, NULL, NULL) : NULL;
    if (sums != NULL)
        (void)sums_save(sums, beside);
    sums_destroy(sums);
    if (fd >= 0)
        (void)close(fd);
    free(beside);
}
