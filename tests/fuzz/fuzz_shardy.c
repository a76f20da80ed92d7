/*
 * Shardy's meshes and shardings. Properties: an error says what and where; what was read is printed so that it is read
 * again as the same; it converts to other notations and back without harm.
 */
#include "dialect_checks.h"

static struct sp_buf mesh_text(const struct sp_mesh *mesh)
{
    struct sp_buf buf;
    sp_buf_init(&buf, DIALECT_MAX_TEXT);
    sp_shardy_write_mesh(mesh, &buf);
    dialect_check(!sp_buf_failed(&buf), "the mesh has no text", NULL);
    return buf;
}

static void check_mesh(struct sp_arena *arena, const char *text, size_t size)
{
    struct sp_mesh *mesh, *again;
    struct sp_error err = {0};
    enum sp_status status = sp_shardy_read_mesh(arena, text, size, &mesh, &err);
    if (status != SP_OK) {
        dialect_check_error(status, &err);
        dialect_check(status != SP_ERR_MALFORMED || err.where[0] != '\0', "an error has no place", &err);
        return;
    }
    struct sp_buf first = mesh_text(mesh);
    status = sp_shardy_read_mesh(arena, first.data, first.size, &again, &err);
    dialect_check(status == SP_OK || dialect_gave_up(status), first.data, &err);
    if (status == SP_OK) {
        struct sp_buf second = mesh_text(again);
        dialect_check(sp_mesh_equal(mesh, again, true), first.data, NULL);
        dialect_check(first.size == second.size && memcmp(first.data, second.data, first.size) == 0, first.data, NULL);
        sp_buf_release(&second);
    }
    sp_buf_release(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)256 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    if (arena == NULL)
        return 0;
    check_mesh(arena, (const char *)bytes, size);
    for (int i = 0; i < DIALECT_CONTEXTS; i++) {
        struct sp_dialect_context context = dialect_context(i);
        struct sp_losses losses = {0};
        struct sp_sharding *sharding;
        struct sp_error err = {0};
        enum sp_status status =
            sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_SHARDY, (const char *)bytes, size}, &context,
                            &sharding, &losses, &err);
        if (status != SP_OK) {
            dialect_check_error(status, &err);
            continue;
        }
        dialect_check_written(arena, SP_DIALECT_SHARDY, sharding, &context, true);
        if (sharding->kind != SP_SHARDING_TUPLE)
            dialect_check_sharding(arena, sharding, &context);
    }
    sp_arena_destroy(arena);
    return 0;
}
