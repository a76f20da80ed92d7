/* Shardy's tensor shardings: #sdy.sharding<@mesh, [{"x"}, {"y", ?}p1], replicated={..}, unreduced={..}>. */
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "sharding/shardy_internal.h"

/* A mesh that the text defines before the sharding. */
struct mesh_definition {
    struct sp_mesh *mesh;
    struct mesh_definition *next;
};

struct sharding_reader {
    struct shardy_cursor cursor;
    const struct sp_dialect_context *context;
    struct mesh_definition *meshes;
    uint32_t mesh_count;
    const struct sp_mesh *mesh; /* of the sharding at hand */

    /* All refs of the sharding at hand, and where each stands in the text; lists are runs of them. */
    uint32_t ref_count, ref_capacity;
    struct sp_axis_ref *refs;
    size_t *ref_at;
};

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

/* ---- meshes ---- */

static struct sp_mesh *find_mesh(const struct sharding_reader *reader, const char *name)
{
    for (const struct mesh_definition *each = reader->meshes; each != NULL; each = each->next) {
        if (strcmp(each->mesh->name, name) == 0)
            return each->mesh;
    }
    return NULL;
}

/* sdy.mesh @name = <..>, of which 'sdy.mesh' has been passed. */
static enum sp_status read_definition(struct sharding_reader *reader)
{
    struct shardy_cursor *cursor = &reader->cursor;
    const char *name;
    enum sp_status status = shardy_expect(cursor, "@", "before the name of the mesh");
    size_t at = cursor->at;
    if (status == SP_OK)
        status = shardy_read_symbol(cursor, &name);
    if (status != SP_OK)
        return status;
    if (reader->mesh_count == SP_MAX_SHARDING_MESHES)
        return sp_fail_limit(cursor->err, "SHARDING_MESHES", "SP_MAX_SHARDING_MESHES", SP_MAX_SHARDING_MESHES,
                             SP_MAX_SHARDING_MESHES + 1, "At most %d meshes may be defined before a sharding.",
                             SP_MAX_SHARDING_MESHES);
    if (find_mesh(reader, name) != NULL)
        return shardy_fail(cursor, at, "The mesh @%s is defined twice.", name);
    struct mesh_definition *definition = SP_NEW(cursor->arena, struct mesh_definition);
    if (definition == NULL)
        return sp_fail_memory(cursor->err);
    status = shardy_expect(cursor, "=", "after the name of the mesh");
    if (status == SP_OK)
        status = shardy_read_mesh_body(cursor, &definition->mesh);
    if (status != SP_OK)
        return status;
    definition->mesh->name = name;
    definition->next = reader->meshes;
    reader->meshes = definition;
    reader->mesh_count++;
    return SP_OK;
}

/* @name, or mesh<..>. */
static enum sp_status read_mesh_ref(struct sharding_reader *reader)
{
    struct shardy_cursor *cursor = &reader->cursor;
    const struct sp_mesh *given = reader->context == NULL ? NULL : reader->context->mesh;
    struct sp_mesh *mesh;
    const char *name;
    enum sp_status status;
    if (shardy_accept(cursor, "mesh")) {
        status = shardy_read_mesh_body(cursor, &mesh);
        if (status == SP_OK)
            reader->mesh = mesh;
        return status;
    }
    status = shardy_expect(cursor, "@", "and the name of a mesh, or mesh<..>, at the beginning of the sharding");
    size_t at = cursor->at;
    if (status == SP_OK)
        status = shardy_read_symbol(cursor, &name);
    if (status != SP_OK)
        return status;
    reader->mesh = find_mesh(reader, name);
    if (reader->mesh == NULL && given != NULL && (given->name == NULL || strcmp(given->name, name) == 0))
        reader->mesh = given;
    if (reader->mesh != NULL)
        return SP_OK;
    (void)sp_fail(cursor->err, SP_ERR_REQUEST, "MESH_UNKNOWN",
                  "The sharding refers to an unknown mesh: @%s; define it before the sharding (sdy.mesh @%s = "
                  "<[\"x\"=2]>) or give the mesh apart from the sharding.",
                  name, name);
    return sp_error_at(cursor->err, "offset %zu", at);
}

/* ---- axes ---- */

static enum sp_status add_ref(struct sharding_reader *reader, struct sp_axis_ref ref, size_t at)
{
    if (reader->ref_count == reader->ref_capacity) {
        uint32_t capacity = reader->ref_capacity == 0 ? 16 : 2 * reader->ref_capacity;
        struct sp_axis_ref *refs = SP_NEW_ARRAY(reader->cursor.arena, capacity, struct sp_axis_ref);
        size_t *ref_at = SP_NEW_ARRAY(reader->cursor.arena, capacity, size_t);
        if (refs == NULL || ref_at == NULL)
            return sp_fail_memory(reader->cursor.err);
        for (uint32_t i = 0; i < reader->ref_count; i++) {
            refs[i] = reader->refs[i];
            ref_at[i] = reader->ref_at[i];
        }
        reader->refs = refs;
        reader->ref_at = ref_at;
        reader->ref_capacity = capacity;
    }
    reader->refs[reader->ref_count] = ref;
    reader->ref_at[reader->ref_count++] = at;
    return SP_OK;
}

/* The rules of Shardy for one sub-axis, in its words. */
static enum sp_status check_sub_axis(struct sharding_reader *reader, struct sp_axis_ref ref, size_t at)
{
    const struct sp_mesh *mesh = reader->mesh;
    int64_t full = mesh->axes[ref.axis].size, next;
    struct ref_text text = ref_text(mesh, ref);
    if (ref.pre < 1)
        return shardy_fail(&reader->cursor, at,
                           "A sub-axis is wrong: sub-axis pre-size must be at least 1, got: %" PRId64 ".", ref.pre);
    if (ref.size <= 1)
        return shardy_fail(&reader->cursor, at,
                           "A sub-axis is wrong: sub-axis sizes must be greater than 1, got: %" PRId64 ".", ref.size);
    if (!sp_mul_i64(ref.pre, ref.size, &next) || next > full || full % next != 0)
        return shardy_fail(&reader->cursor, at,
                           "A sub-axis is wrong: sub-axis next pre-size %" PRId64
                           " doesn't divide the size of the full axis %" PRId64 ": %s.",
                           sp_mul_i64(ref.pre, ref.size, &next) ? next : INT64_MAX, full, text.text);
    if (ref.size == full)
        return shardy_fail(&reader->cursor, at,
                           "A sub-axis is wrong: sub-axis size is equal to the full axis size: \"%.48s\":(1)%" PRId64
                           "; the name alone means the whole axis.",
                           mesh->axes[ref.axis].name, full);
    return SP_OK;
}

/* STRING (':(' PRE ')' SIZE)? */
static enum sp_status read_ref(struct sharding_reader *reader)
{
    struct shardy_cursor *cursor = &reader->cursor;
    struct sp_axis_ref ref;
    const char *name;
    shardy_skip(cursor);
    size_t at = cursor->at;
    enum sp_status status = shardy_read_string(cursor, "before the name of an axis", &name);
    if (status != SP_OK)
        return status;
    int64_t axis = sp_mesh_find_axis(reader->mesh, name);
    if (axis < 0)
        return shardy_fail(cursor, at, "The sharding is wrong: unknown axis name: \"%s\".", name);
    ref = sp_axis_full(reader->mesh, (uint32_t)axis);
    if (shardy_accept(cursor, ":")) {
        status = shardy_expect(cursor, "(", "before the pre-size of a sub-axis");
        if (status == SP_OK)
            status = shardy_read_int(cursor, "The pre-size of a sub-axis", &ref.pre);
        if (status == SP_OK)
            status = shardy_expect(cursor, ")", "after the pre-size of a sub-axis");
        if (status == SP_OK)
            status = shardy_read_int(cursor, "The size of a sub-axis", &ref.size);
        if (status == SP_OK)
            status = check_sub_axis(reader, ref, at);
    }
    return status == SP_OK ? add_ref(reader, ref, at) : status;
}

/* One list has been read, from ref `first` on: its length, and no neighbours that are one ref. */
static enum sp_status check_list(struct sharding_reader *reader, uint32_t first)
{
    uint32_t count = reader->ref_count - first;
    if (count > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(reader->cursor.err, "SHARDING_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, count,
                             "A list of axes may have at most %d of them.", SP_MAX_SHARDING_AXES);
    for (uint32_t i = first; i + 1 < reader->ref_count; i++) {
        if (sp_axis_can_merge(reader->refs[i], reader->refs[i + 1])) {
            struct ref_text a = ref_text(reader->mesh, reader->refs[i]);
            struct ref_text b = ref_text(reader->mesh, reader->refs[i + 1]);
            return shardy_fail(&reader->cursor, reader->ref_at[i],
                               "The sharding is wrong: two consecutive sub-axes can be merged: %s, %s.", a.text,
                               b.text);
        }
    }
    return SP_OK;
}

/* '{' axis,+ '}' behind replicated= and unreduced=: not empty, in the order of the mesh. */
static enum sp_status read_unordered(struct sharding_reader *reader, const char *what, uint32_t *ret_count)
{
    struct shardy_cursor *cursor = &reader->cursor;
    uint32_t first = reader->ref_count;
    enum sp_status status = shardy_expect(cursor, "{", "before a list of axes");
    if (status != SP_OK)
        return status;
    do
        status = read_ref(reader);
    while (status == SP_OK && shardy_accept(cursor, ","));
    if (status == SP_OK)
        status = shardy_expect(cursor, "}", "after a list of axes");
    for (uint32_t i = first; status == SP_OK && i + 1 < reader->ref_count; i++) {
        if (sp_axis_less(reader->refs[i + 1], reader->refs[i]))
            status = shardy_fail(cursor, reader->ref_at[i + 1],
                                 "The sharding is wrong: %s axes are not ordered w.r.t. mesh.", what);
    }
    if (status == SP_OK)
        status = check_list(reader, first);
    *ret_count = reader->ref_count - first;
    return status;
}

/* ---- dims ---- */

static enum sp_status read_priority(struct sharding_reader *reader, uint32_t index, size_t dim_at,
                                    struct sp_dim_sharding *dim)
{
    struct shardy_cursor *cursor = &reader->cursor;
    /* 'p' follows the brace and the digits the 'p' directly. */
    if (cursor->at >= cursor->size || cursor->text[cursor->at] != 'p')
        return SP_OK;
    size_t at = ++cursor->at;
    char first = at < cursor->size ? cursor->text[at] : ' ';
    char second = at + 1 < cursor->size ? cursor->text[at + 1] : ' ';
    if (first < '0' || first > '9' || (first == '0' && second >= '0' && second <= '9'))
        return shardy_fail(cursor, at, "A priority is 'p' and a decimal number without leading zeros.");
    enum sp_status status = shardy_read_int(cursor, "A priority", &dim->priority);
    if (status != SP_OK)
        return status;
    dim->has_priority = true;
    if (dim->axes.count == 0 && !dim->is_open)
        return shardy_fail(cursor, dim_at, "The sharding is wrong: dim %u is empty and closed but has a priority.",
                           index);
    return SP_OK;
}

/* '{' (axis,*)? (','? '?')? '}' ('p' NUMBER)? */
static enum sp_status read_dim(struct sharding_reader *reader, uint32_t index, struct sp_dim_sharding *dim)
{
    struct shardy_cursor *cursor = &reader->cursor;
    uint32_t first = reader->ref_count;
    enum sp_status status = shardy_expect(cursor, "{", "before the axes of a dimension");
    size_t at = cursor->at;
    bool more = status == SP_OK && !shardy_accept(cursor, "}");
    bool closed = !more;
    while (status == SP_OK && more) {
        if (shardy_accept(cursor, "?")) {
            dim->is_open = true;
            break;
        }
        status = read_ref(reader);
        if (status == SP_OK && shardy_accept(cursor, "?")) {
            dim->is_open = true;
            break;
        }
        more = shardy_accept(cursor, ",");
    }
    if (status == SP_OK && !closed)
        status = shardy_expect(cursor, "}", "after the axes of a dimension ('?' stands last)");
    if (status == SP_OK)
        status = check_list(reader, first);
    dim->axes.count = reader->ref_count - first;
    return status == SP_OK ? read_priority(reader, index, at, dim) : status;
}

/* '[' dim,* ']' into `dims`, which has room for SP_MAX_RANK. */
static enum sp_status read_dims(struct sharding_reader *reader, uint32_t *ret_rank, struct sp_dim_sharding *dims)
{
    struct shardy_cursor *cursor = &reader->cursor;
    uint32_t rank = 0;
    enum sp_status status = shardy_expect(cursor, "[", "before the dimensions of the sharding");
    *ret_rank = 0;
    if (status != SP_OK || shardy_accept(cursor, "]"))
        return status;
    do {
        if (rank == SP_MAX_RANK)
            return sp_fail_limit(cursor->err, "SHARDING_RANK", "SP_MAX_RANK", SP_MAX_RANK, SP_MAX_RANK + 1,
                                 "A sharding may have at most %d dimensions.", SP_MAX_RANK);
        status = read_dim(reader, rank, &dims[rank]);
        rank++;
    } while (status == SP_OK && shardy_accept(cursor, ","));
    *ret_rank = rank;
    return status == SP_OK ? shardy_expect(cursor, "]", "after the dimensions of the sharding") : status;
}

/* ---- the whole ---- */

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
static enum sp_status check_overlaps(struct sharding_reader *reader)
{
    struct shardy_cursor *cursor = &reader->cursor;
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
            return shardy_fail(cursor, at, "The sharding is wrong: duplicate axis ref: %s.", a_text.text);
        if (sp_axis_is_full(reader->mesh, a) || sp_axis_is_full(reader->mesh, b))
            return shardy_fail(cursor, at,
                               "The sharding is wrong: both sub-axis and full-axis are used for axis name: \"%.48s\".",
                               reader->mesh->axes[a.axis].name);
        if (sp_axis_overlaps(a, b))
            return shardy_fail(cursor, at, "The sharding is wrong: overlapping sub-axes: %s, %s.", a_text.text,
                               b_text.text);
        return shardy_fail(cursor, at,
                           "The sharding is wrong: the sub-axes %s and %s cannot be cut from one axis together.",
                           a_text.text, b_text.text);
    }
    return SP_OK;
}

struct sharding_parts {
    uint32_t rank;
    struct sp_dim_sharding dims[SP_MAX_RANK];
    uint32_t replicated_first, replicated_count, partial_first, partial_count;
    enum sp_combiner combiner;
};

/* ', replicated=' axes and ', unreduced=' redop? axes, each at most once. */
static enum sp_status read_attributes(struct sharding_reader *reader, struct sharding_parts *parts)
{
    struct shardy_cursor *cursor = &reader->cursor;
    enum sp_status status = SP_OK;
    parts->combiner = SP_COMBINE_SUM;
    while (status == SP_OK && shardy_accept(cursor, ",")) {
        bool replicated = shardy_accept(cursor, "replicated");
        size_t at = cursor->at;
        if (!replicated && !shardy_accept(cursor, "unreduced"))
            return shardy_fail(cursor, at, "Expected 'replicated=' or 'unreduced=' after the dimensions.");
        if ((replicated ? parts->replicated_count : parts->partial_count) > 0)
            return shardy_fail(cursor, at, "The sharding lists its %s axes twice.",
                               replicated ? "replicated" : "unreduced");
        status = shardy_expect(cursor, "=", replicated ? "after 'replicated'" : "after 'unreduced'");
        if (status == SP_OK && !replicated) {
            if (shardy_accept(cursor, "max"))
                parts->combiner = SP_COMBINE_MAX;
            else if (shardy_accept(cursor, "min"))
                parts->combiner = SP_COMBINE_MIN;
            else
                (void)shardy_accept(cursor, "sum");
        }
        uint32_t *first = replicated ? &parts->replicated_first : &parts->partial_first;
        *first = reader->ref_count;
        if (status == SP_OK)
            status = read_unordered(reader, replicated ? "replicated" : "unreduced",
                                    replicated ? &parts->replicated_count : &parts->partial_count);
    }
    return status;
}

static enum sp_status copy_list(struct sharding_reader *reader, uint32_t first, uint32_t count,
                                struct sp_axis_list *ret_list)
{
    struct sp_axis_list run = {count, count == 0 ? NULL : reader->refs + first};
    return sp_axes_copy(reader->cursor.arena, &run, ret_list, reader->cursor.err);
}

static enum sp_status make_sharding(struct sharding_reader *reader, size_t at, struct sharding_parts *parts,
                                    struct sp_sharding **ret_sharding)
{
    struct shardy_cursor *cursor = &reader->cursor;
    struct sp_sharding *sharding;
    if (sp_mesh_is_single(reader->mesh)) {
        if (parts->rank > 0)
            return shardy_fail(cursor, at,
                               "The sharding is wrong: a maximal sharding can only have a sharding with rank 0 and no "
                               "replicated or unreduced axes.");
        sharding = SP_NEW(cursor->arena, struct sp_sharding);
        if (sharding == NULL)
            return sp_fail_memory(cursor->err);
        sharding->kind = SP_SHARDING_SINGLE;
        sharding->device = sp_device_order_at(&reader->mesh->order, 0);
        *ret_sharding = sharding;
        return SP_OK;
    }
    int64_t rank = reader->context == NULL ? -1 : reader->context->rank;
    if (rank >= 0 && rank != parts->rank) {
        (void)sp_fail(cursor->err, SP_ERR_REQUEST, "RANK_MISMATCH",
                      "The sharding is wrong for this tensor: sharding doesn't match tensor rank: %u != %" PRId64 ".",
                      parts->rank, rank);
        return sp_error_at(cursor->err, "offset %zu", at);
    }
    enum sp_status status = sp_sharding_create_axes(cursor->arena, reader->mesh, parts->rank, &sharding, cursor->err);
    uint32_t first = 0;
    for (uint32_t i = 0; status == SP_OK && i < parts->rank; i++) {
        struct sp_dim_sharding *dim = &sharding->dims[i];
        uint32_t count = parts->dims[i].axes.count;
        *dim = parts->dims[i];
        status = copy_list(reader, first, count, &dim->axes);
        first += count;
    }
    if (status == SP_OK)
        status = copy_list(reader, parts->replicated_first, parts->replicated_count, &sharding->replicated);
    if (status == SP_OK)
        status = copy_list(reader, parts->partial_first, parts->partial_count, &sharding->partial);
    if (status == SP_OK) {
        if (parts->partial_count > 0)
            sharding->combiner = parts->combiner;
        *ret_sharding = sharding;
    }
    return status;
}

/* '<' meshref ', [' dim,* ']' .. '>' */
static enum sp_status read_body(struct sharding_reader *reader, struct sp_sharding **ret_sharding)
{
    struct shardy_cursor *cursor = &reader->cursor;
    struct sharding_parts parts;
    memset(&parts, 0, sizeof parts);
    enum sp_status status = shardy_expect(cursor, "<", "before the sharding");
    size_t at = cursor->at;
    reader->ref_count = 0;
    if (status == SP_OK)
        status = read_mesh_ref(reader);
    if (status == SP_OK)
        status = shardy_expect(cursor, ",", "after the mesh");
    if (status == SP_OK)
        status = read_dims(reader, &parts.rank, parts.dims);
    if (status == SP_OK)
        status = read_attributes(reader, &parts);
    if (status == SP_OK)
        status = shardy_expect(cursor, ">", "at the end of the sharding");
    if (status == SP_OK)
        status = check_overlaps(reader);
    return status == SP_OK ? make_sharding(reader, at, &parts, ret_sharding) : status;
}

/* sharding_per_value<[<..>, <..>]>, of which everything before the first '<' has been passed. */
static enum sp_status read_tuple(struct sharding_reader *reader, struct sp_sharding **ret_sharding)
{
    struct shardy_cursor *cursor = &reader->cursor;
    struct sp_sharding *tuple = SP_NEW(cursor->arena, struct sp_sharding);
    uint32_t capacity = 0;
    enum sp_status status = shardy_expect(cursor, "<", "before the shardings of the values");
    if (tuple == NULL)
        return sp_fail_memory(cursor->err);
    tuple->kind = SP_SHARDING_TUPLE;
    if (status == SP_OK)
        status = shardy_expect(cursor, "[", "before the shardings of the values");
    bool more = status == SP_OK && !shardy_accept(cursor, "]");
    bool closed = !more;
    while (status == SP_OK && more) {
        struct sp_sharding *element;
        status = read_body(reader, &element);
        if (status != SP_OK)
            return status;
        if (tuple->element_count == SP_MAX_TUPLE_SHARDINGS)
            return sp_fail_limit(cursor->err, "SHARDING_TUPLE", "SP_MAX_TUPLE_SHARDINGS", SP_MAX_TUPLE_SHARDINGS,
                                 SP_MAX_TUPLE_SHARDINGS + 1, "A tuple may have at most %d shardings.",
                                 SP_MAX_TUPLE_SHARDINGS);
        if (tuple->element_count == capacity) {
            capacity = capacity == 0 ? 4 : 2 * capacity;
            struct sp_sharding *grown = SP_NEW_ARRAY(cursor->arena, capacity, struct sp_sharding);
            if (grown == NULL)
                return sp_fail_memory(cursor->err);
            for (uint32_t i = 0; i < tuple->element_count; i++)
                grown[i] = tuple->elements[i];
            tuple->elements = grown;
        }
        tuple->elements[tuple->element_count++] = *element;
        more = shardy_accept(cursor, ",");
    }
    if (status == SP_OK && !closed)
        status = shardy_expect(cursor, "]", "after the shardings of the values");
    if (status == SP_OK)
        status = shardy_expect(cursor, ">", "after the shardings of the values");
    if (status == SP_OK)
        *ret_sharding = tuple;
    return status;
}

enum sp_status sp_shardy_read(struct sp_arena *arena, const char *text, size_t size,
                              const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                              struct sp_error *err)
{
    struct sharding_reader reader = {.context = context};
    struct sp_sharding *sharding;
    enum sp_status status = shardy_begin(arena, text, size, &reader.cursor, err);
    while (status == SP_OK && shardy_accept(&reader.cursor, "sdy.mesh"))
        status = read_definition(&reader);
    if (status != SP_OK)
        return status;
    if (shardy_accept(&reader.cursor, "sdy.sharding"))
        status = shardy_expect(&reader.cursor, "=", "after the name of the attribute");
    if (status == SP_OK && shardy_accept(&reader.cursor, "#sdy.sharding_per_value")) {
        status = read_tuple(&reader, &sharding);
    } else if (status == SP_OK) {
        (void)shardy_accept(&reader.cursor, "#sdy.sharding");
        status = read_body(&reader, &sharding);
    }
    if (status == SP_OK)
        status = shardy_end(&reader.cursor);
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}
