/*
 * HloSharding text. Properties: an error has a code, a sentence and a place; what was read is printed so that it is
 * read again as the same, through text, bytes and attribute; it converts to the common form and back without harm.
 */
#include "hlo_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)256 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_hlo *hlo;
    struct sp_error err = {0};
    if (arena == NULL)
        return 0;
    enum sp_status status = sp_hlo_read_text(arena, (const char *)bytes, size, &hlo, &err);
    if (status == SP_OK) {
        hlo_check_text(arena, hlo);
        hlo_check_bytes(arena, hlo);
        hlo_check_conversions(arena, hlo);
    } else {
        hlo_check_error(status, &err);
        hlo_check(status != SP_ERR_MALFORMED || err.where[0] != '\0', "an error has no place", &err);
    }
    sp_error_clear(&err);
    status = sp_hlo_read_attribute(arena, (const char *)bytes, size, &hlo, &err);
    if (status != SP_OK)
        hlo_check_error(status, &err);
    sp_arena_destroy(arena);
    return 0;
}
