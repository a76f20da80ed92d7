/* Measured times: whatever is accepted is written out and read again as the same text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "plan/request/measured.h"

#define MAX_TEXT ((size_t)64 << 20)

static void write_profile(const struct sp_profile *profile, struct sp_buf *buf)
{
    struct sp_json json;
    sp_buf_init(buf, MAX_TEXT);
    sp_json_init_buf(&json, false, buf);
    sp_profile_write(profile, &json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        abort();
}

static void check_round_trip(struct sp_arena *arena, const struct sp_profile *profile)
{
    struct sp_buf first, second;
    struct sp_profile *again;
    struct sp_error err = {0};
    write_profile(profile, &first);
    json_t *json = json_loadb(first.data, first.size, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL || sp_profile_parse(arena, json, "", &again, &err) != SP_OK) {
        (void)fprintf(stderr, "refused its own text: %s\n%s\n", err.message, first.data);
        abort();
    }
    write_profile(again, &second);
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0)
        abort();
    json_decref(json);
    sp_buf_release(&first);
    sp_buf_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)64 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    if (arena != NULL && json != NULL) {
        struct sp_profile *profile;
        struct sp_error err = {0};
        if (sp_profile_parse(arena, json, "", &profile, &err) == SP_OK)
            check_round_trip(arena, profile);
        else if (err.message[0] == '\0' || err.code[0] == '\0')
            abort();
    }
    json_decref(json);
    sp_arena_destroy(arena);
    return 0;
}
