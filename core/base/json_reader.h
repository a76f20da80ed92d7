#pragma once
/*
 * json_reader - reading JSON objects that strangers wrote, member by member.
 *
 * Every function checks presence, type and range; an error is SP_ERR_REQUEST, its `where` the JSON pointer (RFC 6901)
 * of the member and its message a sentence that says what is expected there. `pointer` is always that of the object at
 * hand. What is read is allocated in the reader's arena.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/limits.h"

struct sp_members_reader {
    struct sp_arena *arena;
    struct sp_error *err;
};

/* A range, both ends included, and how messages call such a number ("a number of bytes"). */
struct sp_members_range {
    const char *what;
    double low, high;
};

/* Pointers below `pointer`: a member, its name escaped ('~' is ~0 and '/' is ~1), and an array's item. NULL without
   memory. */
char *sp_members_child(struct sp_members_reader *reader, const char *pointer, const char *member);
char *sp_members_item(struct sp_members_reader *reader, const char *pointer, size_t index);

/* Records the error; a NULL pointer means that there was no memory to make it, and is SP_ERR_MEMORY. */
__attribute__((format(printf, 4, 5))) enum sp_status
sp_members_refuse(struct sp_members_reader *reader, const char *pointer, const char *code, const char *format, ...);

/* `json` is an object and has no other members than these. `what` begins the message ("A device"). */
enum sp_status sp_members_check(struct sp_members_reader *reader, json_t *json, const char *pointer, const char *what,
                                const char *const *members, size_t count);

/* A number in the range. An absent member is an error when `required`, else *ret_value stays. */
enum sp_status sp_members_number(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 const char *member, const struct sp_members_range *range, bool required,
                                 double *ret_value);

/* An integer from 1 to `high`; required. */
enum sp_status sp_members_count(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                const char *member, uint32_t high, uint32_t *ret_value);

/* A non-empty string without NULs of at most `limit` bytes, copied; an absent one leaves *ret_text. */
enum sp_status sp_members_text(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                               const char *member, size_t limit, const char **ret_text);
