/* Names of pieces. */
#include "realize/program.h"

void **sp_program_entry(struct sp_intern *table, const void *bytes, size_t size)
{
    const uint32_t id = sp_intern_add(table, bytes, size);
    return id == SP_NO_NAME ? NULL : sp_intern_mark(sp_intern_name(table, id));
}

const char *sp_program_name(const struct sp_program *program, const struct sp_piece *piece)
{
    const uint32_t id = sp_intern_find(program->aliases, (const char *)&piece, sizeof piece);
    return id == SP_NO_NAME ? piece->name : *sp_intern_mark(sp_intern_name(program->aliases, id));
}

enum sp_status sp_program_alias(struct sp_program *program, const struct sp_piece *piece, const char *name,
                                struct sp_error *err)
{
    if (strcmp(piece->name, name) == 0)
        return SP_OK;
    void **entry = sp_program_entry(program->aliases, &piece, sizeof piece);
    if (entry == NULL)
        return sp_fail_memory(err);
    *entry = (void *)name;
    return SP_OK;
}
