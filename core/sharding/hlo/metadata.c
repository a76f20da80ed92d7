/* Metadata in HloSharding text: {op_name="a" source_line=1}, or several in braces of their own. */
#include <assert.h>

#include "base/array.h"
#include "sharding/hlo/internal.h"

static enum sp_status lex_metadata_int(struct sp_hlo_lexer *lexer, int32_t *field, struct sp_error *err)
{
    int64_t number;
    size_t start = lexer->start;
    enum sp_status status = sp_hlo_lex_int(lexer, &number, err);
    if (status != SP_OK)
        return status;
    if (number < INT32_MIN || number > INT32_MAX)
        return sp_hlo_fail_at(err, start, "NUMBER_TOO_LARGE", "The number at offset %zu does not fit in 32 bits.",
                              start);
    *field = (int32_t)number;
    return SP_OK;
}

static enum sp_status lex_metadata_string(struct sp_hlo_lexer *lexer, const char **field, struct sp_error *err)
{
    if (lexer->token != SP_HLO_STRING)
        return sp_hlo_lex_unexpected(lexer, "a string", err);
    *field = lexer->string[0] != '\0' ? lexer->string : NULL;
    return sp_hlo_lex_next(lexer, err);
}

/* op_type=".." source_line=1 .., up to the brace. */
static enum sp_status lex_metadata_entry(struct sp_hlo_lexer *lexer, struct sp_hlo_metadata *entry,
                                         struct sp_error *err)
{
    struct {
        const char *name;
        const char **text;
        int32_t *number;
        bool seen;
    } fields[] = {
        {"op_type", &entry->op_type, NULL, false},
        {"op_name", &entry->op_name, NULL, false},
        {"source_file", &entry->source_file, NULL, false},
        {"source_line", NULL, &entry->source_line, false},
        {"source_end_line", NULL, &entry->source_end_line, false},
        {"source_column", NULL, &entry->source_column, false},
        {"source_end_column", NULL, &entry->source_end_column, false},
    };
    enum { FIELDS = sizeof fields / sizeof *fields };
    while (!sp_hlo_lex_is(lexer, '}')) {
        size_t i = 0, start = lexer->start;
        if (lexer->token != SP_HLO_ATTRIBUTE)
            return sp_hlo_lex_unexpected(lexer, "a field of the metadata, such as op_name=, or '}'", err);
        while (i < FIELDS && !sp_hlo_lex_is_attribute(lexer, fields[i].name))
            i++;
        if (i == FIELDS || fields[i].seen)
            return sp_hlo_fail_at(err, start, "BAD_METADATA", "The metadata has an %s attribute '%.*s' at offset %zu.",
                                  i == FIELDS ? "unknown" : "already given",
                                  lexer->end - start > 64 ? 64 : (int)(lexer->end - start), lexer->text + start, start);
        assert(fields[i].text != NULL || fields[i].number != NULL);
        fields[i].seen = true;
        enum sp_status status = sp_hlo_lex_next(lexer, err);
        if (status == SP_OK)
            status = fields[i].text != NULL ? lex_metadata_string(lexer, fields[i].text, err)
                                            : lex_metadata_int(lexer, fields[i].number, err);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

enum sp_status sp_hlo_lex_metadata(struct sp_hlo_lexer *lexer, uint32_t *ret_count, struct sp_hlo_metadata **ret_items,
                                   struct sp_error *err)
{
    uint32_t count = 0, capacity = 0;
    struct sp_hlo_metadata *items = NULL;
    bool is_list, more = true;
    enum sp_status status = sp_hlo_lex_expect(lexer, '{', "to begin the metadata", err);
    if (status != SP_OK)
        return status;
    is_list = sp_hlo_lex_is(lexer, '{');
    while (more) {
        if (count == SP_MAX_SHARDING_METADATA)
            return sp_fail_limit(err, "TOO_MUCH_METADATA", "SP_MAX_SHARDING_METADATA", SP_MAX_SHARDING_METADATA,
                                 SP_MAX_SHARDING_METADATA + 1, "The sharding has more than %d metadata entries.",
                                 SP_MAX_SHARDING_METADATA);
        if (!SP_MAKE_ROOM(lexer->arena, items, count, capacity, 1))
            return sp_fail_memory(err);
        if (is_list)
            status = sp_hlo_lex_expect(lexer, '{', "to begin a metadata entry", err);
        if (status == SP_OK)
            status = lex_metadata_entry(lexer, &items[count++], err);
        if (status == SP_OK && is_list)
            status = sp_hlo_lex_expect(lexer, '}', "to end a metadata entry", err);
        more = false;
        if (status == SP_OK && is_list)
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
        if (status != SP_OK)
            return status;
    }
    *ret_count = count;
    *ret_items = items;
    return sp_hlo_lex_expect(lexer, '}', "to end the metadata", err);
}
