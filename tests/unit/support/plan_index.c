#include "plan_index.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct tee {
    struct sp_buf *json;
    struct sp_index_scan *scan;
};

/* In pieces of all sizes: the scan must not care where they end. */
static bool take_json(void *context, const char *bytes, size_t size)
{
    const struct tee *tee = context;
    sp_buf_append(tee->json, bytes, size);
    for (size_t at = 0, piece = 1; at < size; at += piece, piece = piece % 97 + 1) {
        piece = piece < size - at ? piece : size - at;
        sp_index_scan_take(tee->scan, bytes + at, piece);
    }
    return !sp_buf_failed(tee->json);
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

enum sp_status plan_index_open(const void *bytes, size_t size, struct sp_index *ret_index, void **ret_copy)
{
    struct sp_error err = {0};
    *ret_copy = malloc(size > 0 ? size : 1);
    cr_assert_not_null(*ret_copy);
    if (size > 0)
        memcpy(*ret_copy, bytes, size);
    const enum sp_status status = sp_index_open(*ret_copy, size, ret_index, &err);
    if (status != SP_OK)
        cr_assert_str_eq(err.code, "SHEET_DAMAGED", "%s: %s", err.code, err.message);
    return status;
}

void plan_index_make(struct plan_index *ret_made, const struct sp_plan *plan)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err = {0};
    struct sp_json json;
    struct sp_buf file;
    struct tee tee = {&ret_made->json, sp_index_scan_create(arena)};
    const struct sp_sink sink = {.write = append, .context = &file};
    const struct sp_index_source source = {
        .plan = plan, .scan = tee.scan, .search_seconds = PLAN_INDEX_SECONDS, .hash_seed = 1};
    sp_buf_init(&ret_made->json, (size_t)1 << 28);
    sp_buf_init(&file, (size_t)1 << 28);
    sp_json_init(&json, false, take_json, &tee);
    sp_plan_write_json(plan, PLAN_INDEX_SECONDS, &json);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    cr_assert_eq(sp_index_write(&source, &sink, &err), SP_OK, "%s: %s", err.code, err.message);
    ret_made->size = file.size;
    cr_assert_eq(plan_index_open(file.data, file.size, &ret_made->index, &ret_made->file), SP_OK);
    sp_buf_release(&file);
    sp_arena_destroy(arena);
}

void plan_index_release(struct plan_index *made)
{
    free(made->file);
    sp_buf_release(&made->json);
}
