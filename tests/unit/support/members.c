#include "members.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef json_object_get
#define MAX_DEPTH 16

/* One read: of a member that is there. */
struct read {
    const json_t *object;
    const char *key; /* the object's own */
    bool is_skipped; /* and all that is in it */
};
static struct read *reads;
static size_t count, capacity;
static char path[512];

static struct read *find(const json_t *object, const char *key)
{
    for (size_t i = count; i-- > 0;) {
        if (reads[i].object == object && strcmp(reads[i].key, key) == 0)
            return &reads[i];
    }
    return NULL;
}

json_t *members_get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (value == NULL || find(object, key) != NULL)
        return value;
    if (count == capacity) {
        capacity = 2 * capacity + 64;
        reads = realloc(reads, capacity * sizeof *reads);
        if (reads == NULL)
            abort();
    }
    reads[count++] = (struct read){object, json_object_iter_key(json_object_iter_at((json_t *)object, key)), false};
    return value;
}

void members_skip(const json_t *object, const char *keys)
{
    char *words = strdup(keys), *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (members_get(object, word) != NULL)
            find(object, word)->is_skipped = true;
    }
    free(words);
}

/* What is being walked through: an object by its keys, a list by places. */
struct place {
    const json_t *value;
    void *member;
    size_t item, length; /* of the path */
};

/* Appends the next step to the path; NULL where nothing is left. A member that is skipped has nothing in it. */
static const json_t *step(struct place *at, bool *ret_unread)
{
    static const json_t nothing = {.type = JSON_NULL};
    const json_t *value = NULL;
    *ret_unread = false;
    path[at->length] = '\0';
    if (json_is_object(at->value) && at->member != NULL) {
        const char *key = json_object_iter_key(at->member);
        value = json_object_iter_value(at->member);
        (void)snprintf(path + at->length, sizeof path - at->length, ".%s", key);
        const struct read *read = find(at->value, key);
        *ret_unread = !json_is_null(value) && read == NULL;
        value = read != NULL && read->is_skipped ? &nothing : value;
        at->member = json_object_iter_next((json_t *)at->value, at->member);
    } else if (json_is_array(at->value) && at->item < json_array_size(at->value)) {
        (void)snprintf(path + at->length, sizeof path - at->length, "[%zu]", at->item);
        value = json_array_get(at->value, at->item++);
    }
    return value;
}

const char *members_unread(const json_t *value)
{
    struct place places[MAX_DEPTH];
    size_t depth = 1;
    bool is_unread = false;
    places[0] = (struct place){.value = value, .member = json_object_iter((json_t *)value)};
    while (depth > 0 && !is_unread) {
        const json_t *next = step(&places[depth - 1], &is_unread);
        if (next == NULL)
            depth--;
        else if (depth < MAX_DEPTH && (json_is_object(next) || json_is_array(next)))
            places[depth++] =
                (struct place){.value = next, .member = json_object_iter((json_t *)next), .length = strlen(path)};
    }
    count = 0;
    return is_unread ? path : NULL;
}
