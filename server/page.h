#pragma once
/*
 * page - one page of a list, newest first: {"NAME": [...], "next_page_token": "..."}.
 *
 * The token is the sequence number of the last item; it carries no authority. One item more than asked for is fetched,
 * which tells whether there is a next page.
 */
#include "base/json_writer.h"
#include "request.h"
#include "store.h"

struct page {
    struct sp_buf buf;
    struct sp_json json;
    int64_t before;   /* items with a smaller sequence number are wanted */
    int64_t last_seq; /* of the last item written */
    int count, size;
};

/* Reads page_size and page_token and begins the list; false when an answer was made (stored in *ret_verdict). */
bool page_begin(struct page *page, struct request *request, const char *name, enum verdict *ret_verdict);

/* How many items to fetch. */
int page_wanted(const struct page *page);

/* Begins the object of an item; false when it is the one too many, which is not written. page_item_end() ends it. */
bool page_item(struct page *page, int64_t seq);
void page_item_end(struct page *page);

/* Ends the list and answers with it; `ok` is false when the store failed. */
enum verdict page_finish(struct page *page, struct request *request, bool ok);
