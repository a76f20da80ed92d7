#include "index/scan.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"

#define KEY_BYTES 16 /* longer names are none that matter */

/* Depths: a member's name of the plan is at 1, an entry of a list at 2, a member's name of an entry at 3. */
#define DEPTH_MEMBER 1
#define DEPTH_ENTRY  2
#define DEPTH_INNER  3

struct bytes {
    char *data;
    size_t size;
    uint32_t capacity;
};

struct list {
    struct sp_index_row *rows;
    uint32_t count, capacity;
};

/* What is done with the bytes of the member at hand. */
enum fate { KEEP, DROP, COUNT };

struct sp_index_scan {
    struct sp_arena *arena;
    uint64_t size; /* bytes before those at hand */
    uint32_t depth;
    bool in_string, is_escaped, is_key, after_colon, has_begun, has_ended, is_broken, lacks_memory;
    char key[KEY_BYTES];       /* of the string at hand, where that is a name */
    size_t key_size, key_from; /* key_from: in `members`, where the name begins */
    enum fate fate;            /* until the member at `fate_depth` ends */
    uint32_t fate_depth, counted;
    bool has_item;     /* of the array that is counted */
    bool in_stages;    /* the member of the plan is "stages" or "devices" */
    struct list *list; /* that the member of the plan is, or NULL */
    uint64_t row_begin;
    bool is_object; /* what begins there */
    struct list lists[SP_INDEX_LISTS];
    struct bytes members;
    size_t estimate_from, estimate_to; /* in `members`: behind the member's name, and its value */
    bool is_estimate;                  /* the member at hand */
};

struct sp_index_scan *sp_index_scan_create(struct sp_arena *arena)
{
    struct sp_index_scan *scan = SP_NEW(arena, struct sp_index_scan);
    if (scan != NULL)
        scan->arena = arena;
    return scan;
}

/* ---- what is kept ----------------------------------------------------------------------------------------------- */

static void keep(struct sp_index_scan *scan, const char *bytes, size_t size)
{
    struct bytes *members = &scan->members;
    if (scan->fate != KEEP || scan->lacks_memory || size == 0)
        return;
    if (!SP_MAKE_ROOM(scan->arena, members->data, members->size, members->capacity, size)) {
        scan->lacks_memory = true;
        return;
    }
    memcpy(members->data + members->size, bytes, size);
    members->size += size;
}

static void add_row(struct sp_index_scan *scan, uint64_t end)
{
    struct list *list = scan->list;
    if (SP_MAKE_ROOM(scan->arena, list->rows, list->count, list->capacity, 1))
        list->rows[list->count++] = (struct sp_index_row){scan->row_begin, end - scan->row_begin};
    else
        scan->lacks_memory = true;
}

/* ---- members ---------------------------------------------------------------------------------------------------- */

static bool is_name(const struct sp_index_scan *scan, const char *name)
{
    return scan->key_size == strlen(name) && memcmp(scan->key, name, scan->key_size) == 0;
}

/* The name at hand is that of a member whose bytes are not kept: it is taken back, and what the member is replaced by
   follows when it ends. */
static void drop(struct sp_index_scan *scan, enum fate fate)
{
    if (!scan->lacks_memory)
        scan->members.size = scan->key_from;
    scan->fate = fate;
    scan->fate_depth = scan->depth;
    scan->counted = 0;
    scan->has_item = false;
}

static void begin_member(struct sp_index_scan *scan)
{
    static const char *const lists[SP_INDEX_LISTS] = {[SP_INDEX_LIST_TENSORS] = "tensors",
                                                      [SP_INDEX_LIST_COLLECTIVES] = "collectives",
                                                      [SP_INDEX_LIST_DIAGNOSTICS] = "diagnostics"};
    scan->list = NULL;
    scan->in_stages = is_name(scan, "stages") || is_name(scan, "devices");
    for (int i = 0; i < SP_INDEX_LISTS; i++) {
        if (is_name(scan, lists[i]))
            scan->list = &scan->lists[i];
    }
    scan->is_estimate = is_name(scan, "estimate");
    if (scan->is_estimate)
        scan->estimate_from = scan->members.size;
    if (scan->list != NULL || is_name(scan, "outline") || is_name(scan, "moves"))
        drop(scan, DROP);
}

/* A member is over, of the plan or of something in it: the comma or bracket behind it is the next byte. */
static void end_member(struct sp_index_scan *scan)
{
    char text[40];
    const enum fate fate = scan->fate;
    if (scan->is_estimate && scan->depth == DEPTH_MEMBER) {
        scan->estimate_to = scan->members.size;
        scan->is_estimate = false;
    }
    if (fate == KEEP || scan->depth != scan->fate_depth)
        return;
    scan->fate = KEEP;
    if (fate == COUNT) {
        const int size = snprintf(text, sizeof text, "\"node_count\":%u", scan->counted + scan->has_item);
        keep(scan, text, (size_t)size);
    }
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void begin_string(struct sp_index_scan *scan)
{
    scan->in_string = true;
    scan->is_key = scan->fate == KEEP && !scan->after_colon &&
                   (scan->depth == DEPTH_MEMBER || (scan->depth == DEPTH_INNER && scan->in_stages));
    scan->key_size = 0;
    scan->key_from = scan->members.size;
    if (scan->is_key && scan->depth == DEPTH_MEMBER && scan->members.size > 0)
        keep(scan, ",", 1);
    keep(scan, "\"", 1);
}

static void end_string(struct sp_index_scan *scan)
{
    scan->in_string = false;
    keep(scan, "\"", 1);
    if (!scan->is_key)
        return;
    if (scan->depth == DEPTH_MEMBER)
        begin_member(scan);
    else if (is_name(scan, "nodes"))
        drop(scan, COUNT);
}

/* Takes the bytes of a string up to its end, which is told; returns how many. */
static size_t take_string(struct sp_index_scan *scan, const char *bytes, size_t size, bool *ret_over)
{
    size_t at = 0;
    *ret_over = false;
    for (; at < size; at++) {
        if (scan->is_escaped) {
            scan->is_escaped = false;
        } else if (bytes[at] == '"') {
            *ret_over = true;
            break;
        } else {
            scan->is_escaped = bytes[at] == '\\';
        }
    }
    keep(scan, bytes, at);
    for (size_t i = 0; scan->is_key && i < at; i++, scan->key_size++) {
        if (scan->key_size < KEY_BYTES)
            scan->key[scan->key_size] = bytes[i];
    }
    return at;
}

static void open_bracket(struct sp_index_scan *scan, char c, uint64_t at)
{
    scan->is_broken = scan->is_broken || scan->has_ended || (scan->depth == 0 && c != '{') || scan->depth == UINT32_MAX;
    scan->has_begun = true;
    scan->after_colon = false;
    if (scan->depth == DEPTH_ENTRY) {
        scan->is_object = c == '{';
        scan->row_begin = at;
    }
    if (scan->depth > 0)
        keep(scan, &c, 1);
    scan->depth++;
}

static void close_bracket(struct sp_index_scan *scan, char c, uint64_t at)
{
    end_member(scan);
    if (scan->depth == 0) {
        scan->is_broken = true;
        return;
    }
    scan->depth--;
    if (scan->depth == DEPTH_ENTRY && c == '}' && scan->is_object && scan->list != NULL && scan->fate == DROP)
        add_row(scan, at + 1);
    if (scan->depth > 0)
        keep(scan, &c, 1);
    scan->has_ended = scan->depth == 0;
}

static void take_comma(struct sp_index_scan *scan)
{
    end_member(scan);
    scan->after_colon = false;
    scan->counted += scan->fate == COUNT && scan->depth == scan->fate_depth + 1;
    if (scan->depth != DEPTH_MEMBER) /* those between members are written with their names */
        keep(scan, ",", 1);
}

/* A byte outside of strings. */
static void take_byte(struct sp_index_scan *scan, char c, uint64_t at)
{
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
        return;
    scan->is_broken = scan->is_broken || (scan->depth == 0 && c != '{' && c != '}');
    if (c != ',' && c != ']' && scan->fate == COUNT && scan->depth == scan->fate_depth + 1)
        scan->has_item = true;
    switch (c) {
    case '"':
        begin_string(scan);
        break;
    case '{':
    case '[':
        open_bracket(scan, c, at);
        break;
    case '}':
    case ']':
        close_bracket(scan, c, at);
        break;
    case ',':
        take_comma(scan);
        break;
    default:
        scan->after_colon = scan->after_colon || c == ':';
        keep(scan, &c, 1);
    }
}

void sp_index_scan_take(struct sp_index_scan *scan, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        if (!scan->in_string) {
            take_byte(scan, bytes[at], scan->size + at);
            continue;
        }
        bool is_over;
        at += take_string(scan, bytes + at, size - at, &is_over);
        if (is_over)
            end_string(scan);
    }
    scan->size += size;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

bool sp_index_scan_is_whole(const struct sp_index_scan *scan)
{
    return scan->has_begun && scan->has_ended && !scan->is_broken && !scan->lacks_memory;
}

bool sp_index_scan_lacks_memory(const struct sp_index_scan *scan)
{
    return scan->lacks_memory;
}

uint64_t sp_index_scan_size(const struct sp_index_scan *scan)
{
    return scan->size;
}

const struct sp_index_row *sp_index_scan_rows(const struct sp_index_scan *scan, enum sp_index_list list,
                                              uint32_t *ret_count)
{
    *ret_count = scan->lists[list].count;
    return scan->lists[list].rows;
}

const char *sp_index_scan_members(const struct sp_index_scan *scan, size_t *ret_size)
{
    *ret_size = scan->members.size;
    return scan->members.data != NULL ? scan->members.data : "";
}

const char *sp_index_scan_estimate(const struct sp_index_scan *scan, size_t *ret_size)
{
    const char *value = scan->members.data != NULL ? scan->members.data + scan->estimate_from : "";
    const size_t size = scan->estimate_to > scan->estimate_from ? scan->estimate_to - scan->estimate_from : 0;
    const bool is_object = size > 3 && value[0] == ':' && value[1] == '{' && value[size - 1] == '}';
    *ret_size = is_object ? size - 3 : 0;
    return is_object ? value + 2 : "";
}
