#include "http/page.h"

#include <endian.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

#include "http/respond.h"
#include "server_limits.h"
#include "util/text.h"

#define PAGE_BYTES ((size_t)8 << 20)

/* ---- tokens ---- */

/* 16 bytes as 22 letters that need no escape in a query: one block of AES-256, so that nobody without the key reads what
   is in it, or makes one whose check holds. */
#define TOKEN_SIZE (PAGE_TOKEN_SIZE - 1)

struct token {
    uint64_t before;  /* big-endian */
    uint8_t check[8]; /* the first bytes of a hash */
};

static bool cipher(const struct request *request, struct token *token, bool encrypts)
{
    unsigned char zeros[16] = {0}; /* a single block has nothing before it to be chained to */
    const gnutls_datum_t key = {(unsigned char *)request->server->page_key, SERVER_KEY_BYTES};
    const gnutls_datum_t start = {zeros, sizeof zeros};
    gnutls_cipher_hd_t handle;
    if (gnutls_cipher_init(&handle, GNUTLS_CIPHER_AES_256_CBC, &key, &start) != 0)
        return false;
    const int status = encrypts ? gnutls_cipher_encrypt(handle, token, sizeof *token)
                                : gnutls_cipher_decrypt(handle, token, sizeof *token);
    gnutls_cipher_deinit(handle);
    return status == 0;
}

static bool make_check(const struct request *request, const char *list, struct token *token)
{
    uint8_t digest[32];
    char text[512];
    int length = snprintf(text, sizeof text, "%s %s %llx", request->principal.tenant, list,
                          (unsigned long long)be64toh(token->before));
    if (length < 0 || (size_t)length >= sizeof text ||
        gnutls_hash_fast(GNUTLS_DIG_SHA256, text, (size_t)length, digest) != 0)
        return false;
    memcpy(token->check, digest, sizeof token->check);
    return true;
}

bool page_write_token(const struct request *request, const char *list, int64_t before, char ret[PAGE_TOKEN_SIZE])
{
    struct token token = {.before = htobe64((uint64_t)before)};
    gnutls_datum_t text = {0};
    if (!make_check(request, list, &token) || !cipher(request, &token, true) ||
        gnutls_base64_encode2(&(gnutls_datum_t){(unsigned char *)&token, sizeof token}, &text) != 0)
        return false;
    for (int i = 0; i < TOKEN_SIZE; i++) {
        char c = (char)text.data[i];
        ret[i] = (char)(c == '+' ? '-' : c == '/' ? '_' : c);
    }
    ret[TOKEN_SIZE] = '\0';
    gnutls_free(text.data);
    return true;
}

static bool page_read_token(const struct request *request, const char *text, const char *list, int64_t *ret_before)
{
    char padded[] = "AAAAAAAAAAAAAAAAAAAAAA==";
    struct token token, should;
    gnutls_datum_t bytes = {0};
    if (strlen(text) != TOKEN_SIZE)
        return false;
    for (int i = 0; i < TOKEN_SIZE; i++)
        padded[i] = (char)(text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i]);
    if (gnutls_base64_decode2(&(gnutls_datum_t){(unsigned char *)padded, sizeof padded - 1}, &bytes) != 0)
        return false;
    bool ok = bytes.size == sizeof token;
    if (ok)
        memcpy(&token, bytes.data, sizeof token);
    gnutls_free(bytes.data);
    if (!ok || !cipher(request, &token, false))
        return false;
    should = token;
    *ret_before = (int64_t)be64toh(token.before);
    return make_check(request, list, &should) && memcmp(&should, &token, sizeof token) == 0 && *ret_before > 0;
}

/* ---- pages ---- */

bool page_read(const struct request *request, const char *list, int *ret_size, int64_t *ret_before,
               struct problem *problem)
{
    const char *size_text = request_parameter(request, "page_size");
    const char *token = request_parameter(request, "page_token");
    int64_t size = *ret_size;
    if (size_text != NULL && !text_to_int(size_text, 1, INT64_MAX, &size))
        return problem_set(problem, 400, "BAD_PAGE_SIZE", "page_size must be a number from 1 up.");
    if (token != NULL && !page_read_token(request, token, list, ret_before))
        return problem_set(problem, 400, "BAD_PAGE_TOKEN",
                           "page_token must be the next_page_token of an answer to the same query.");
    *ret_size = size > SPD_MAX_PAGE ? SPD_MAX_PAGE : (int)size;
    return true;
}

bool page_begin(struct page *page, struct request *request, const char *name, const char *filters,
                enum verdict *ret_verdict)
{
    struct problem problem = {0};
    *page = (struct page){.request = request, .before = INT64_MAX, .size = SPD_DEFAULT_PAGE};
    (void)snprintf(page->list, sizeof page->list, "%s %s", name, filters);
    if (!page_read(request, page->list, &page->size, &page->before, &problem)) {
        *ret_verdict = respond_problem(request, &problem);
        return false;
    }
    sp_buf_init(&page->buf, PAGE_BYTES);
    sp_json_init_buf(&page->json, false, &page->buf);
    sp_json_begin_object(&page->json);
    sp_json_key(&page->json, name);
    sp_json_begin_array(&page->json);
    return true;
}

bool page_fill(struct page *page, bool (*list)(struct page *page, int limit))
{
    int looked = 0, limit;
    do {
        limit = page->size - page->count + 1; /* one more tells whether there is a next page */
        page->seen = 0;
        if (!list(page, limit))
            return false;
        looked += page->seen;
    } while (page->seen == limit && !page->more && looked < SPD_MAX_LOOKED_AT);
    page->more = page->more || page->seen == limit;
    return true;
}

bool page_item(struct page *page, int64_t seq, bool wanted)
{
    page->seen++;
    if (page->more || (wanted && page->count == page->size)) {
        page->more = true;
        return false;
    }
    page->before = seq;
    if (!wanted)
        return false;
    page->count++;
    sp_json_begin_object(&page->json);
    return true;
}

void page_item_end(struct page *page)
{
    sp_json_end_object(&page->json);
}

enum verdict page_finish(struct page *page, struct request *request, bool ok)
{
    char token[PAGE_TOKEN_SIZE];
    sp_json_end_array(&page->json);
    if (page->more) {
        ok = ok && page_write_token(request, page->list, page->before, token);
        sp_json_member_string(&page->json, "next_page_token", ok ? token : "");
    }
    sp_json_end_object(&page->json);
    if (!ok || sp_json_finish(&page->json, NULL) != SP_OK) {
        sp_buf_release(&page->buf);
        return respond_error(request, 503, "STORE_UNAVAILABLE",
                             "The store does not answer at the moment; try again later.");
    }
    return page->tagged ? respond_fixed(request, "application/json", &page->buf)
                        : respond_buf(request, 200, "application/json", &page->buf);
}
