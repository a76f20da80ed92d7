#include "page.h"

#include <inttypes.h>

#include "respond.h"
#include "server_limits.h"
#include "text.h"

#define PAGE_BYTES ((size_t)4 << 20)

bool page_begin(struct page *page, struct request *request, const char *name, enum verdict *ret_verdict)
{
    const char *size_text = request_parameter(request, "page_size");
    const char *token = request_parameter(request, "page_token");
    int64_t size = SPD_DEFAULT_PAGE;
    *page = (struct page){.before = INT64_MAX};
    if (size_text != NULL && !text_to_int(size_text, 1, INT64_MAX, &size)) {
        *ret_verdict = respond_error(request, 400, "BAD_PAGE_SIZE", "page_size must be a number from 1 up.");
        return false;
    }
    if (token != NULL && !text_to_int(token, 1, INT64_MAX, &page->before)) {
        *ret_verdict =
            respond_error(request, 400, "BAD_PAGE_TOKEN", "page_token must be the next_page_token of an answer.");
        return false;
    }
    page->size = size > SPD_MAX_PAGE ? SPD_MAX_PAGE : (int)size;
    sp_buf_init(&page->buf, PAGE_BYTES);
    sp_json_init_buf(&page->json, false, &page->buf);
    sp_json_begin_object(&page->json);
    sp_json_key(&page->json, name);
    sp_json_begin_array(&page->json);
    return true;
}

int page_wanted(const struct page *page)
{
    return page->size + 1;
}

bool page_item(struct page *page, int64_t seq)
{
    if (++page->count > page->size)
        return false;
    page->last_seq = seq;
    sp_json_begin_object(&page->json);
    return true;
}

void page_item_end(struct page *page)
{
    sp_json_end_object(&page->json);
}

enum verdict page_finish(struct page *page, struct request *request, bool ok)
{
    sp_json_end_array(&page->json);
    if (page->count > page->size) {
        char token[32];
        (void)snprintf(token, sizeof token, "%" PRId64, page->last_seq);
        sp_json_member_string(&page->json, "next_page_token", token);
    }
    sp_json_end_object(&page->json);
    if (!ok || sp_json_finish(&page->json, NULL) != SP_OK) {
        sp_buf_release(&page->buf);
        return respond_error(request, 500, "STORE_ERROR", "The list could not be read from the store.");
    }
    return respond_buf(request, 200, "application/json", &page->buf);
}
