#pragma once
/*
 * members - which members of a published case a runner has read. What a case says and no runner compares is an error:
 * a case of the same set that has a member more would pass untested.
 *
 * Behind this header json_object_get() and json_object_foreach() note what they read.
 */
#include <jansson.h>

json_t *members_get(const json_t *object, const char *key);

/* Members, in words, that say nothing to be compared, with all that is in them: sources, remarks. */
void members_skip(const json_t *object, const char *keys);

/* The path of a member that nobody read since the last call; NULL: all were read. Those that are null say nothing. */
const char *members_unread(const json_t *value);

#undef json_object_foreach
#define json_object_foreach(object, key, value)                                                                        \
    for ((key) = json_object_iter_key(json_object_iter((json_t *)(object)));                                           \
         (key) != NULL && ((value) = members_get(object, key)) != NULL;                                                \
         (key) = json_object_iter_key(                                                                                 \
             json_object_iter_next((json_t *)(object), json_object_iter_at((json_t *)(object), key))))
#define json_object_get(object, key) members_get(object, key)
