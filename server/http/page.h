#pragma once
/*
 * page - one page of a list, newest first: {"NAME": [...], "next_page_token": "..."}.
 *
 * A token says behind which item the next page begins and, by a checksum, of which tenant's list with which filters. It
 * is sealed with a key of the store, as the number in it counts the items of all tenants. It carries no authority: what
 * a page shows is decided by who asks. Items that a filter leaves out are looked at all the same, at
 * most SPD_MAX_LOOKED_AT of them for one page, so a page may have fewer items than asked for, or none, and go on.
 */
#include "base/json_writer.h"
#include "http/request.h"
#include "store/store.h"

struct page {
    const struct request *request;
    struct sp_buf buf;
    struct sp_json json;
    char list[192]; /* name and filters: what tokens belong to */
    int64_t before; /* items with a smaller sequence number are wanted */
    int size;       /* at most so many are written */
    int count;      /* written */
    int seen;       /* of the rows that were asked for last */
    bool more;      /* there is an item that has no place here */
    bool tagged;    /* the answer has an ETag; to be set after page_begin() */
};

/* Reads page_size and page_token and begins the list; `filters` is any text that tells one filter from another. False
   when an answer was made (stored in *ret_verdict). */
bool page_begin(struct page *page, struct request *request, const char *name, const char *filters,
                enum verdict *ret_verdict);

/* Calls `list` with how many rows to fetch before `page->before`, until the page is full or there are no more. `list`
   is false when the store fails. */
bool page_fill(struct page *page, bool (*list)(struct page *page, int limit));

/* Of each row, in order: begins the object of an item; false when it is not to be written, because the filter says so
   (`wanted`) or the page is full. page_item_end() ends it. */
bool page_item(struct page *page, int64_t seq, bool wanted);
void page_item_end(struct page *page);

#define PAGE_TOKEN_SIZE 23 /* with its NUL */

/* A token itself, for lists that count otherwise: `before` is any number from 1 up, `list` says what it belongs to, in
   at most 192 bytes. */
bool page_write_token(const struct request *request, const char *list, int64_t before, char ret[PAGE_TOKEN_SIZE]);

/* The two parameters, as every list has them: what is not asked for stays as it is, and sizes are at most
   SPD_MAX_PAGE. False with a problem. */
bool page_read(const struct request *request, const char *list, int *ret_size, int64_t *ret_before,
               struct problem *problem);

/* Ends the list and answers with it; `ok` is false when the store failed. */
enum verdict page_finish(struct page *page, struct request *request, bool ok);
