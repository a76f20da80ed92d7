#include "base/json_reader.h"

#include <math.h>

#define MAX_QUOTED_MEMBER 64 /* bytes of an unknown member's name that an error repeats; longer ones are left out */

/* A member's name as part of a pointer: '~' is ~0 and '/' is ~1. */
static char *escape(struct sp_members_reader *reader, const char *member)
{
    char *token = sp_arena_alloc(reader->arena, 2 * strlen(member) + 1);
    size_t size = 0;

    if (token == NULL)
        return NULL;
    for (const char *c = member; *c != '\0'; c++) {
        if (*c == '~' || *c == '/') {
            token[size++] = '~';
            token[size++] = *c == '~' ? '0' : '1';
        } else {
            token[size++] = *c;
        }
    }
    return token;
}

char *sp_members_child(struct sp_members_reader *reader, const char *pointer, const char *member)
{
    const char *token = escape(reader, member);
    return token == NULL ? NULL : sp_arena_printf(reader->arena, "%s/%s", pointer, token);
}

char *sp_members_item(struct sp_members_reader *reader, const char *pointer, size_t index)
{
    return sp_arena_printf(reader->arena, "%s/%zu", pointer, index);
}

enum sp_status sp_members_refuse(struct sp_members_reader *reader, const char *pointer, const char *code,
                                 const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    if (pointer == NULL)
        return sp_fail_memory(reader->err);
    (void)sp_fail(reader->err, SP_ERR_REQUEST, code, "%s", message);
    (void)sp_error_at(reader->err, "%s", pointer);
    return SP_ERR_REQUEST;
}

enum sp_status sp_members_check(struct sp_members_reader *reader, json_t *json, const char *pointer, const char *what,
                                const char *const *members, size_t count)
{
    char known[SP_ERROR_MESSAGE_SIZE / 2] = "";
    const char *name;
    json_t *value;

    if (!json_is_object(json))
        return sp_members_refuse(reader, pointer, "MEMBER_TYPE", "%s must be a JSON object.", what);
    for (size_t i = 0, size = 0; i < count && size < sizeof known; i++)
        size += (size_t)snprintf(known + size, sizeof known - size, "%s%s", i == 0 ? "" : ", ", members[i]);
    json_object_foreach(json, name, value)
    {
        size_t i = 0;
        while (i < count && strcmp(members[i], name) != 0)
            i++;
        if (i < count)
            continue;
        if (strlen(name) > MAX_QUOTED_MEMBER)
            return sp_members_refuse(reader, pointer, "MEMBER_UNKNOWN",
                                     "%s has an unknown member with a long name; known are %s.", what, known);
        return sp_members_refuse(reader, sp_members_child(reader, pointer, name), "MEMBER_UNKNOWN",
                                 "%s has the unknown member '%s'; known are %s.", what, name, known);
    }
    return SP_OK;
}

enum sp_status sp_members_number(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 const char *member, const struct sp_members_range *range, bool required,
                                 double *ret_value)
{
    const json_t *value = json_object_get(json, member);
    double number;

    if (value == NULL && !required)
        return SP_OK;
    if (value == NULL)
        return sp_members_refuse(reader, pointer, "MEMBER_MISSING", "The member '%s' is missing here: %s.", member,
                                 range->what);
    number = json_is_number(value) ? json_number_value(value) : NAN;
    if (!(number >= range->low && number <= range->high))
        return sp_members_refuse(reader, sp_members_child(reader, pointer, member), "MEMBER_NUMBER",
                                 "'%s' must be %s, a JSON number from %g to %g.", member, range->what, range->low,
                                 range->high);
    *ret_value = number;
    return SP_OK;
}

enum sp_status sp_members_count(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                const char *member, uint32_t high, uint32_t *ret_value)
{
    const json_t *value = json_object_get(json, member);
    json_int_t number;

    if (value == NULL)
        return sp_members_refuse(reader, pointer, "MEMBER_MISSING", "The member '%s' is missing here: an integer.",
                                 member);
    number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > (json_int_t)high)
        return sp_members_refuse(reader, sp_members_child(reader, pointer, member), "MEMBER_COUNT",
                                 "'%s' must be an integer from 1 to %u.", member, high);
    *ret_value = (uint32_t)number;
    return SP_OK;
}

enum sp_status sp_members_text(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                               const char *member, size_t limit, const char **ret_text)
{
    const json_t *value = json_object_get(json, member);
    size_t size = json_string_length(value);
    const char *text = json_string_value(value);

    if (value == NULL)
        return SP_OK;
    if (text == NULL || size == 0 || size > limit || strlen(text) != size)
        return sp_members_refuse(reader, sp_members_child(reader, pointer, member), "MEMBER_TEXT",
                                 "'%s' must be a string of 1 to %zu bytes.", member, limit);
    *ret_text = sp_arena_string(reader->arena, text, size);
    return *ret_text == NULL ? sp_fail_memory(reader->err) : SP_OK;
}
