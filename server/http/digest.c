#include "http/digest.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#define BYTES   32 /* of a SHA-256 */
#define ENCODED 44 /* the same in base64 */

struct digest {
    gnutls_hash_hd_t hash;
    unsigned count;
    struct {
        const char *header;
        unsigned char bytes[BYTES];
    } wanted[2];
};

/* ---- text ---- */

static void write_text(const unsigned char *bytes, char ret[DIGEST_TEXT_SIZE])
{
    gnutls_datum_t from = {(unsigned char *)(uintptr_t)bytes, BYTES}, text = {0};
    ret[0] = '\0';
    if (gnutls_base64_encode2(&from, &text) != 0)
        return;
    if (text.size == ENCODED)
        (void)snprintf(ret, DIGEST_TEXT_SIZE, "sha-256=:%.*s:", ENCODED, (const char *)text.data);
    gnutls_free(text.data);
}

void digest_text(const char *hex, char ret[DIGEST_TEXT_SIZE])
{
    unsigned char bytes[BYTES];
    size_t size = sizeof bytes;
    ret[0] = '\0';
    if (gnutls_hex_decode(&(gnutls_datum_t){(unsigned char *)(uintptr_t)hex, (unsigned)strlen(hex)}, bytes, &size) ==
            0 &&
        size == BYTES)
        write_text(bytes, ret);
}

/* ":BASE64:" at the start of a text. */
static bool read_bytes(const char *text, unsigned char *ret_bytes)
{
    gnutls_datum_t bytes = {0};
    if (text[0] != ':' || strnlen(text + 1, ENCODED) != ENCODED || text[ENCODED + 1] != ':' ||
        gnutls_base64_decode2(&(gnutls_datum_t){(unsigned char *)(uintptr_t)(text + 1), ENCODED}, &bytes) != 0)
        return false;
    bool ok = bytes.size == BYTES;
    if (ok)
        memcpy(ret_bytes, bytes.data, BYTES);
    gnutls_free(bytes.data);
    return ok;
}

/* A dictionary of structured fields: members with commas between them, of which one may be ours. */
static bool read_header(struct digest *digest, const char *name, const char *header, struct problem *problem)
{
    static const char key[] = "sha-256=";
    for (const char *at = header; at != NULL && *at != '\0';) {
        at += strspn(at, " \t,");
        if (strncmp(at, key, sizeof key - 1) == 0) {
            digest->wanted[digest->count].header = name;
            if (read_bytes(at + sizeof key - 1, digest->wanted[digest->count].bytes)) {
                digest->count++;
                return true;
            }
            return problem_set(problem, 400, "BAD_DIGEST",
                               "%s must be like sha-256=:BASE64:, with the 32 bytes of the body's SHA-256.", name);
        }
        at += strcspn(at, ",");
    }
    return true;
}

/* ---- the digest ---- */

bool digest_create(const char *repr_digest, const char *content_digest, struct digest **ret_digest,
                   struct problem *problem)
{
    *ret_digest = NULL;
    if (repr_digest == NULL && content_digest == NULL)
        return true;
    struct digest *digest = calloc(1, sizeof *digest);
    if (digest == NULL)
        return problem_no_memory(problem);
    bool ok = read_header(digest, "Repr-Digest", repr_digest, problem) &&
              read_header(digest, "Content-Digest", content_digest, problem);
    if (ok && digest->count > 0 && gnutls_hash_init(&digest->hash, GNUTLS_DIG_SHA256) != 0)
        ok = problem_no_memory(problem);
    if (ok && digest->count > 0)
        *ret_digest = digest;
    else
        digest_destroy(digest);
    return ok;
}

bool digest_update(struct digest *digest, const void *bytes, size_t size)
{
    return gnutls_hash(digest->hash, bytes, size) == 0;
}

bool digest_finish(struct digest *digest, struct problem *problem)
{
    unsigned char actual[BYTES];
    char expected_text[DIGEST_TEXT_SIZE], actual_text[DIGEST_TEXT_SIZE];
    gnutls_hash_output(digest->hash, actual);
    for (unsigned i = 0; i < digest->count; i++) {
        if (memcmp(actual, digest->wanted[i].bytes, BYTES) == 0)
            continue;
        write_text(digest->wanted[i].bytes, expected_text);
        write_text(actual, actual_text);
        return problem_set(problem, 400, "DIGEST_MISMATCH",
                           "%s says %s, but the body that arrived has %s; nothing was stored.",
                           digest->wanted[i].header, expected_text, actual_text);
    }
    return true;
}

void digest_destroy(struct digest *digest)
{
    if (digest != NULL && digest->hash != NULL)
        gnutls_hash_deinit(digest->hash, NULL);
    free(digest);
}
