/* The axes of Shardy's shardings: refs, lists and dims, and the rules of Shardy's verifier for them. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/arith.h"
#include "base/array.h"
#include "sharding/shardy/internal.h"

/* "x", or "x":(2)4. */
struct ref_text {
    char text[96];
};

static struct ref_text ref_text(const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    struct ref_text result;
    if (sp_axis_is_full(mesh, ref))
        (void)snprintf(result.text, sizeof result.text, "\"%.48s\"", mesh->axes[ref.axis].name);
    else
        (void)snprintf(result.text, sizeof result.text, "\"%.48s\":(%" PRId64 ")%" PRId64, mesh->axes[ref.axis].name,
                       ref.pre, ref.size);
    return result;
}

static enum sp_status add_ref(struct sp_shardy_reader *reader, struct sp_axis_ref ref, size_t at)
{
    if (!SP_MAKE_ROOM(reader->cursor.arena, reader->refs, reader->ref_count, reader->ref_capacity, 1) ||
        !SP_MAKE_ROOM(reader->cursor.arena, reader->ref_at, reader->ref_count, reader->at_capacity, 1))
        return sp_fail_memory(reader->cursor.err);
    reader->refs[reader->ref_count] = ref;
    reader->ref_at[reader->ref_count++] = at;
    return SP_OK;
}

/* The rules of Shardy for one sub-axis, in its words. */
static enum sp_status check_sub_axis(struct sp_shardy_reader *reader, struct sp_axis_ref ref, size_t at)
{
    const struct sp_mesh *mesh = reader->mesh;
    int64_t full = mesh->axes[ref.axis].size, next;
    struct ref_text text = ref_text(mesh, ref);
    if (ref.pre < 1)
        return sp_shardy_fail(&reader->cursor, at,
                              "A sub-axis is wrong: sub-axis pre-size must be at least 1, got: %" PRId64 ".", ref.pre);
    if (ref.size <= 1)
        return sp_shardy_fail(&reader->cursor, at,
                              "A sub-axis is wrong: sub-axis sizes must be greater than 1, got: %" PRId64 ".",
                              ref.size);
    if (!sp_mul_i64(ref.pre, ref.size, &next) || next > full || full % next != 0)
        return sp_shardy_fail(&reader->cursor, at,
                              "A sub-axis is wrong: sub-axis next pre-size %" PRId64
                              " doesn't divide the size of the full axis %" PRId64 ": %s.",
                              sp_mul_i64(ref.pre, ref.size, &next) ? next : INT64_MAX, full, text.text);
    if (ref.size == full)
        return sp_shardy_fail(&reader->cursor, at,
                              "A sub-axis is wrong: sub-axis size is equal to the full axis size: \"%.48s\":(1)%" PRId64
                              "; the name alone means the whole axis.",
                              mesh->axes[ref.axis].name, full);
    return SP_OK;
}

/* STRING (':(' PRE ')' SIZE)? */
static enum sp_status read_ref(struct sp_shardy_reader *reader)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    struct sp_axis_ref ref;
    const char *name;
    sp_shardy_skip(cursor);
    size_t at = cursor->at;
    enum sp_status status = sp_shardy_read_string(cursor, "before the name of an axis", &name);
    if (status != SP_OK)
        return status;
    int64_t axis = sp_mesh_find_axis(reader->mesh, name);
    if (axis < 0)
        return sp_shardy_fail(cursor, at, "The sharding is wrong: unknown axis name: \"%s\".", name);
    ref = sp_axis_full(reader->mesh, (uint32_t)axis);
    if (sp_shardy_accept(cursor, ":")) {
        status = sp_shardy_expect(cursor, "(", "before the pre-size of a sub-axis");
        if (status == SP_OK)
            status = sp_shardy_read_int(cursor, "The pre-size of a sub-axis", &ref.pre);
        if (status == SP_OK)
            status = sp_shardy_expect(cursor, ")", "after the pre-size of a sub-axis");
        if (status == SP_OK)
            status = sp_shardy_read_int(cursor, "The size of a sub-axis", &ref.size);
        if (status == SP_OK)
            status = check_sub_axis(reader, ref, at);
    }
    return status == SP_OK ? add_ref(reader, ref, at) : status;
}

/* One list has been read, from ref `first` on: its length, and no neighbours that are one ref. */
static enum sp_status check_list(struct sp_shardy_reader *reader, uint32_t first)
{
    uint32_t count = reader->ref_count - first;
    if (count > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(reader->cursor.err, "SHARDING_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, count,
                             "A list of axes may have at most %d of them.", SP_MAX_SHARDING_AXES);
    for (uint32_t i = first; i + 1 < reader->ref_count; i++) {
        if (sp_axis_can_merge(reader->refs[i], reader->refs[i + 1])) {
            struct ref_text a = ref_text(reader->mesh, reader->refs[i]);
            struct ref_text b = ref_text(reader->mesh, reader->refs[i + 1]);
            return sp_shardy_fail(&reader->cursor, reader->ref_at[i],
                                  "The sharding is wrong: two consecutive sub-axes can be merged: %s, %s.", a.text,
                                  b.text);
        }
    }
    return SP_OK;
}

/* '{' axis,+ '}' behind replicated= and unreduced=: not empty, in the order of the mesh. */
enum sp_status sp_shardy_read_unordered(struct sp_shardy_reader *reader, const char *what, uint32_t *ret_count)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    uint32_t first = reader->ref_count;
    enum sp_status status = sp_shardy_expect(cursor, "{", "before a list of axes");
    if (status != SP_OK)
        return status;
    do
        status = read_ref(reader);
    while (status == SP_OK && sp_shardy_accept(cursor, ","));
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, "}", "after a list of axes");
    for (uint32_t i = first; status == SP_OK && i + 1 < reader->ref_count; i++) {
        if (sp_axis_less(reader->refs[i + 1], reader->refs[i]))
            status = sp_shardy_fail(cursor, reader->ref_at[i + 1],
                                    "The sharding is wrong: %s axes are not ordered w.r.t. mesh.", what);
    }
    if (status == SP_OK)
        status = check_list(reader, first);
    *ret_count = reader->ref_count - first;
    return status;
}

/* ---- dims ---- */

static enum sp_status read_priority(struct sp_shardy_reader *reader, uint32_t index, size_t dim_at,
                                    struct sp_dim_sharding *dim)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    /* 'p' follows the brace and the digits the 'p' directly. */
    if (cursor->at >= cursor->size || cursor->text[cursor->at] != 'p')
        return SP_OK;
    size_t at = ++cursor->at;
    char first = at < cursor->size ? cursor->text[at] : ' ';
    char second = at + 1 < cursor->size ? cursor->text[at + 1] : ' ';
    if (first < '0' || first > '9' || (first == '0' && second >= '0' && second <= '9'))
        return sp_shardy_fail(cursor, at, "A priority is 'p' and a decimal number without leading zeros.");
    enum sp_status status = sp_shardy_read_int(cursor, "A priority", &dim->priority);
    if (status != SP_OK)
        return status;
    dim->has_priority = true;
    if (dim->axes.count == 0 && !dim->is_open)
        return sp_shardy_fail(cursor, dim_at, "The sharding is wrong: dim %u is empty and closed but has a priority.",
                              index);
    return SP_OK;
}

/* '{' (axis,*)? (','? '?')? '}' ('p' NUMBER)? */
static enum sp_status read_dim(struct sp_shardy_reader *reader, uint32_t index, struct sp_dim_sharding *dim)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    uint32_t first = reader->ref_count;
    enum sp_status status = sp_shardy_expect(cursor, "{", "before the axes of a dimension");
    size_t at = cursor->at;
    bool more = status == SP_OK && !sp_shardy_accept(cursor, "}");
    bool closed = !more;
    while (status == SP_OK && more) {
        if (sp_shardy_accept(cursor, "?")) {
            dim->is_open = true;
            break;
        }
        status = read_ref(reader);
        if (status == SP_OK && sp_shardy_accept(cursor, "?")) {
            dim->is_open = true;
            break;
        }
        more = sp_shardy_accept(cursor, ",");
    }
    if (status == SP_OK && !closed)
        status = sp_shardy_expect(cursor, "}", "after the axes of a dimension ('?' stands last)");
    if (status == SP_OK)
        status = check_list(reader, first);
    dim->axes.count = reader->ref_count - first;
    return status == SP_OK ? read_priority(reader, index, at, dim) : status;
}

/* '[' dim,* ']' into `dims`, which has room for SP_MAX_RANK. */
enum sp_status sp_shardy_read_dims(struct sp_shardy_reader *reader, uint32_t *ret_rank, struct sp_dim_sharding *dims)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    uint32_t rank = 0;
    enum sp_status status = sp_shardy_expect(cursor, "[", "before the dimensions of the sharding");
    *ret_rank = 0;
    if (status != SP_OK || sp_shardy_accept(cursor, "]"))
        return status;
    do {
        if (rank == SP_MAX_RANK)
            return sp_fail_limit(cursor->err, "SHARDING_RANK", "SP_MAX_RANK", SP_MAX_RANK, SP_MAX_RANK + 1,
                                 "A sharding may have at most %d dimensions.", SP_MAX_RANK);
        status = read_dim(reader, rank, &dims[rank]);
        rank++;
    } while (status == SP_OK && sp_shardy_accept(cursor, ","));
    *ret_rank = rank;
    return status == SP_OK ? sp_shardy_expect(cursor, "]", "after the dimensions of the sharding") : status;
}

/* ---- all refs together ---- */

struct sorted_ref {
    struct sp_axis_ref ref;
    size_t at;
};

static int compare_refs(const void *a, const void *b)
{
    const struct sorted_ref *left = a, *right = b;
    if (sp_axis_less(left->ref, right->ref))
        return -1;
    if (sp_axis_less(right->ref, left->ref))
        return 1;
    return (left->at > right->at) - (left->at < right->at);
}

/* No two refs may overlap, and one grid must cut each axis for all: sorted by where they begin, neighbours tell. */
enum sp_status sp_shardy_check_overlaps(struct sp_shardy_reader *reader)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    struct sorted_ref *sorted = SP_NEW_ARRAY(cursor->arena, reader->ref_count, struct sorted_ref);
    if (sorted == NULL)
        return sp_fail_memory(cursor->err);
    for (uint32_t i = 0; i < reader->ref_count; i++)
        sorted[i] = (struct sorted_ref){reader->refs[i], reader->ref_at[i]};
    qsort(sorted, reader->ref_count, sizeof *sorted, compare_refs);
    for (uint32_t i = 0; i + 1 < reader->ref_count; i++) {
        struct sp_axis_ref a = sorted[i].ref, b = sorted[i + 1].ref;
        size_t at = sorted[i].at > sorted[i + 1].at ? sorted[i].at : sorted[i + 1].at;
        struct ref_text a_text = ref_text(reader->mesh, a), b_text = ref_text(reader->mesh, b);
        if (a.axis != b.axis || sp_axis_can_coexist_without_overlap(a, b))
            continue;
        if (sp_axis_equal(a, b))
            return sp_shardy_fail(cursor, at, "The sharding is wrong: duplicate axis ref: %s.", a_text.text);
        if (sp_axis_is_full(reader->mesh, a) || sp_axis_is_full(reader->mesh, b))
            return sp_shardy_fail(
                cursor, at, "The sharding is wrong: both sub-axis and full-axis are used for axis name: \"%.48s\".",
                reader->mesh->axes[a.axis].name);
        if (sp_axis_overlaps(a, b))
            return sp_shardy_fail(cursor, at, "The sharding is wrong: overlapping sub-axes: %s, %s.", a_text.text,
                                  b_text.text);
        return sp_shardy_fail(cursor, at,
                              "The sharding is wrong: the sub-axes %s and %s cannot be cut from one axis together.",
                              a_text.text, b_text.text);
    }
    return SP_OK;
}
