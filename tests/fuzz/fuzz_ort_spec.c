/*
 * ONNX Runtime's specs, as text or JSON. Properties: an error says what; a sharding is written and read again as the
 * same, in its own notation and in others.
 */
#include "dialect_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)256 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    if (arena == NULL)
        return 0;
    for (int i = 0; i < DIALECT_CONTEXTS; i++) {
        struct sp_dialect_context context = dialect_context(i);
        struct sp_losses losses = {0};
        struct sp_sharding *sharding;
        struct sp_error err = {0};
        enum sp_status status =
            sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_ORT, (const char *)bytes, size}, &context,
                            &sharding, &losses, &err);
        if (status == SP_OK) {
            dialect_check_written(arena, SP_DIALECT_ORT, sharding, &context, true);
            dialect_check_sharding(arena, sharding, &context);
        } else {
            dialect_check_error(status, &err);
        }
    }
    sp_arena_destroy(arena);
    return 0;
}
