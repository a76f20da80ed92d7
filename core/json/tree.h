#pragma once
/*
 * tree - a JSON text as a table of its values.
 *
 * The text stays where it is. The table has 12 bytes for each value and each member's name, in the order of the text:
 *
 *   {"a": [1, 2], "b": 3}      0 object  1 name a  2 array  3 number  4 number  5 name b  6 number
 *
 * A value is its place in that table; 0 is the document. What belongs to a container follows it, so everything is
 * walked by index and nothing recurses:
 *
 *   for (uint32_t i = sp_tree_begin(array); i != sp_tree_end(tree, array); i = sp_tree_after(tree, i))            items
 *   for (uint32_t i = sp_tree_begin(object); i != sp_tree_end(tree, object); i = sp_tree_after(tree, i + 1))      names, i + 1:
 *                                                                                                        their values
 *
 * RFC 8259, strictly: one value, UTF-8, no comments, no trailing commas; a byte order mark in front is passed over.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

#define SP_TREE_NONE UINT32_MAX

enum sp_tree_kind {
    SP_TREE_OBJECT,
    SP_TREE_ARRAY,
    SP_TREE_STRING,
    SP_TREE_NUMBER,
    SP_TREE_TRUE,
    SP_TREE_FALSE,
    SP_TREE_NULL
};

struct sp_tree_value {
    uint32_t kind : 4;   /* enum sp_tree_kind; a member's name is a string */
    uint32_t start : 28; /* where its text begins; a string's behind the quote */
    uint32_t extent;     /* where the text of a string or number ends; of a container: the value behind it */
    uint32_t parent;     /* the array, or the member's name, or (of a name) the object; SP_TREE_NONE for the document */
};

struct sp_tree {
    struct sp_arena *arena; /* also for texts that are made out of escapes */
    struct sp_error *err;
    const char *text;
    uint32_t size, count;
    struct sp_tree_value *values;
};

/* Text out of the document: may hold NULs, ends without one. */
struct sp_tree_text {
    const char *bytes;
    size_t size;
};

/* Reads the text, which must stay. SP_ERR_MALFORMED with "byte N", SP_ERR_LIMIT, SP_ERR_MEMORY. */
enum sp_status sp_tree_read(struct sp_arena *arena, const char *text, uint64_t size, struct sp_tree *ret_tree,
                            struct sp_error *err);

static inline enum sp_tree_kind sp_tree_kind(const struct sp_tree *tree, uint32_t value)
{
    return (enum sp_tree_kind)tree->values[value].kind;
}

/* The value behind this one and all that belongs to it. */
static inline uint32_t sp_tree_after(const struct sp_tree *tree, uint32_t value)
{
    return sp_tree_kind(tree, value) <= SP_TREE_ARRAY ? tree->values[value].extent : value + 1;
}

static inline uint32_t sp_tree_begin(uint32_t container)
{
    return container + 1;
}

static inline uint32_t sp_tree_end(const struct sp_tree *tree, uint32_t container)
{
    return tree->values[container].extent;
}

uint32_t sp_tree_count(const struct sp_tree *tree, uint32_t array);

/* What a string or name says, escapes resolved; in place where it has none. */
enum sp_status sp_tree_text(const struct sp_tree *tree, uint32_t string, struct sp_tree_text *ret_text);

/* The text of a string or number as it stands, escapes and all. */
struct sp_tree_text sp_tree_raw_text(const struct sp_tree *tree, uint32_t value);

bool sp_tree_text_is(struct sp_tree_text text, const char *word);

static inline bool sp_tree_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* SP_ERR_MALFORMED at this value: `where` is its JSON pointer (RFC 6901). A macro, so that compilers know the result.
 */
#define sp_tree_fail(tree, value, ...) (sp_tree_record((tree), (value), __VA_ARGS__), SP_ERR_MALFORMED)
__attribute__((format(printf, 4, 5))) void sp_tree_record(const struct sp_tree *tree, uint32_t value, const char *code,
                                                          const char *format, ...);

/* Sets `where` of an error that is recorded already to the value's pointer; returns its status. */
enum sp_status sp_tree_at(const struct sp_tree *tree, uint32_t value);
