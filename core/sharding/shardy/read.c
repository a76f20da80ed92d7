/* Shardy's tensor shardings: #sdy.sharding<@mesh, [{"x"}, {"y", ?}p1], replicated={..}, unreduced={..}>. */
#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "sharding/shardy/internal.h"

/* ---- meshes ---- */

static struct sp_mesh *find_mesh(const struct sp_shardy_reader *reader, const char *name)
{
    for (const struct sp_shardy_definition *each = reader->meshes; each != NULL; each = each->next) {
        if (strcmp(each->mesh->name, name) == 0)
            return each->mesh;
    }
    return NULL;
}

/* sdy.mesh @name = <..>, of which 'sdy.mesh' has been passed. */
static enum sp_status read_definition(struct sp_shardy_reader *reader)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    const char *name;
    enum sp_status status = sp_shardy_expect(cursor, "@", "before the name of the mesh");
    size_t at = cursor->at;
    if (status == SP_OK)
        status = sp_shardy_read_symbol(cursor, &name);
    if (status != SP_OK)
        return status;
    if (reader->mesh_count == SP_MAX_SHARDING_MESHES)
        return sp_fail_limit(cursor->err, "SHARDING_MESHES", "SP_MAX_SHARDING_MESHES", SP_MAX_SHARDING_MESHES,
                             SP_MAX_SHARDING_MESHES + 1, "At most %d meshes may be defined before a sharding.",
                             SP_MAX_SHARDING_MESHES);
    if (find_mesh(reader, name) != NULL)
        return sp_shardy_fail(cursor, at, "The mesh @%s is defined twice.", name);
    struct sp_shardy_definition *definition = SP_NEW(cursor->arena, struct sp_shardy_definition);
    if (definition == NULL)
        return sp_fail_memory(cursor->err);
    status = sp_shardy_expect(cursor, "=", "after the name of the mesh");
    if (status == SP_OK)
        status = sp_shardy_read_mesh_body(cursor, &definition->mesh);
    if (status != SP_OK)
        return status;
    definition->mesh->name = name;
    definition->next = reader->meshes;
    reader->meshes = definition;
    reader->mesh_count++;
    return SP_OK;
}

/* @name, or mesh<..>. */
static enum sp_status read_mesh_ref(struct sp_shardy_reader *reader)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    const struct sp_mesh *given = reader->context == NULL ? NULL : reader->context->mesh;
    struct sp_mesh *mesh;
    const char *name;
    enum sp_status status;
    if (sp_shardy_accept(cursor, "mesh")) {
        status = sp_shardy_read_mesh_body(cursor, &mesh);
        if (status == SP_OK)
            reader->mesh = mesh;
        return status;
    }
    status = sp_shardy_expect(cursor, "@", "and the name of a mesh, or mesh<..>, at the beginning of the sharding");
    size_t at = cursor->at;
    if (status == SP_OK)
        status = sp_shardy_read_symbol(cursor, &name);
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

/* ---- the whole ---- */

struct sharding_parts {
    uint32_t rank;
    struct sp_dim_sharding dims[SP_MAX_RANK];
    uint32_t replicated_first, replicated_count, partial_first, partial_count;
    enum sp_combiner combiner;
};

/* ', replicated=' axes and ', unreduced=' redop? axes, each at most once. */
static enum sp_status read_attributes(struct sp_shardy_reader *reader, struct sharding_parts *parts)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    enum sp_status status = SP_OK;
    parts->combiner = SP_COMBINE_SUM;
    while (status == SP_OK && sp_shardy_accept(cursor, ",")) {
        bool replicated = sp_shardy_accept(cursor, "replicated");
        size_t at = cursor->at;
        if (!replicated && !sp_shardy_accept(cursor, "unreduced"))
            return sp_shardy_fail(cursor, at, "Expected 'replicated=' or 'unreduced=' after the dimensions.");
        if ((replicated ? parts->replicated_count : parts->partial_count) > 0)
            return sp_shardy_fail(cursor, at, "The sharding lists its %s axes twice.",
                                  replicated ? "replicated" : "unreduced");
        status = sp_shardy_expect(cursor, "=", replicated ? "after 'replicated'" : "after 'unreduced'");
        if (status == SP_OK && !replicated) {
            if (sp_shardy_accept(cursor, "max"))
                parts->combiner = SP_COMBINE_MAX;
            else if (sp_shardy_accept(cursor, "min"))
                parts->combiner = SP_COMBINE_MIN;
            else
                (void)sp_shardy_accept(cursor, "sum");
        }
        uint32_t *first = replicated ? &parts->replicated_first : &parts->partial_first;
        *first = reader->ref_count;
        if (status == SP_OK)
            status = sp_shardy_read_unordered(reader, replicated ? "replicated" : "unreduced",
                                              replicated ? &parts->replicated_count : &parts->partial_count);
    }
    return status;
}

static enum sp_status copy_list(struct sp_shardy_reader *reader, uint32_t first, uint32_t count,
                                struct sp_axis_list *ret_list)
{
    struct sp_axis_list run = {count, count == 0 ? NULL : reader->refs + first};
    return sp_axes_copy(reader->cursor.arena, &run, ret_list, reader->cursor.err);
}

static enum sp_status make_sharding(struct sp_shardy_reader *reader, size_t at, struct sharding_parts *parts,
                                    struct sp_sharding **ret_sharding)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    struct sp_sharding *sharding;
    if (sp_mesh_is_single(reader->mesh)) {
        if (parts->rank > 0)
            return sp_shardy_fail(
                cursor, at,
                "The sharding is wrong: a maximal sharding can only have a sharding with rank 0 and no "
                "replicated or unreduced axes.");
        sharding = SP_NEW(cursor->arena, struct sp_sharding);
        if (sharding == NULL) {
            (void)sp_fail_memory(cursor->err);
            return SP_ERR_MEMORY;
        }
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
        (void)sp_error_at(cursor->err, "offset %zu", at);
        return SP_ERR_REQUEST;
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
static enum sp_status read_body(struct sp_shardy_reader *reader, struct sp_sharding **ret_sharding)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    struct sharding_parts parts;
    memset(&parts, 0, sizeof parts);
    enum sp_status status = sp_shardy_expect(cursor, "<", "before the sharding");
    size_t at = cursor->at;
    reader->ref_count = 0;
    if (status == SP_OK)
        status = read_mesh_ref(reader);
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, ",", "after the mesh");
    if (status == SP_OK)
        status = sp_shardy_read_dims(reader, &parts.rank, parts.dims);
    if (status == SP_OK)
        status = read_attributes(reader, &parts);
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, ">", "at the end of the sharding");
    if (status == SP_OK)
        status = sp_shardy_check_overlaps(reader);
    return status == SP_OK ? make_sharding(reader, at, &parts, ret_sharding) : status;
}

/* sharding_per_value<[<..>, <..>]>, of which everything before the first '<' has been passed. */
static enum sp_status read_tuple(struct sp_shardy_reader *reader, struct sp_sharding **ret_sharding)
{
    struct sp_shardy_cursor *cursor = &reader->cursor;
    struct sp_sharding *tuple = SP_NEW(cursor->arena, struct sp_sharding);
    uint32_t capacity = 0;
    enum sp_status status = sp_shardy_expect(cursor, "<", "before the shardings of the values");
    if (tuple == NULL)
        return sp_fail_memory(cursor->err);
    tuple->kind = SP_SHARDING_TUPLE;
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, "[", "before the shardings of the values");
    bool more = status == SP_OK && !sp_shardy_accept(cursor, "]");
    bool closed = !more;
    while (status == SP_OK && more) {
        struct sp_sharding *element = NULL;
        status = read_body(reader, &element);
        if (status != SP_OK)
            return status;
        if (tuple->element_count == SP_MAX_TUPLE_SHARDINGS)
            return sp_fail_limit(cursor->err, "SHARDING_TUPLE", "SP_MAX_TUPLE_SHARDINGS", SP_MAX_TUPLE_SHARDINGS,
                                 SP_MAX_TUPLE_SHARDINGS + 1, "A tuple may have at most %d shardings.",
                                 SP_MAX_TUPLE_SHARDINGS);
        if (!SP_MAKE_ROOM(cursor->arena, tuple->elements, tuple->element_count, capacity, 1))
            return sp_fail_memory(cursor->err);
        tuple->elements[tuple->element_count++] = *element;
        more = sp_shardy_accept(cursor, ",");
    }
    if (status == SP_OK && !closed)
        status = sp_shardy_expect(cursor, "]", "after the shardings of the values");
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, ">", "after the shardings of the values");
    if (status == SP_OK)
        *ret_sharding = tuple;
    return status;
}

enum sp_status sp_shardy_read(struct sp_arena *arena, const char *text, size_t size,
                              const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                              struct sp_error *err)
{
    struct sp_shardy_reader reader = {.context = context};
    struct sp_sharding *sharding = NULL;
    enum sp_status status = sp_shardy_begin(arena, text, size, &reader.cursor, err);
    while (status == SP_OK && sp_shardy_accept(&reader.cursor, "sdy.mesh"))
        status = read_definition(&reader);
    if (status != SP_OK)
        return status;
    if (sp_shardy_accept(&reader.cursor, "sdy.sharding"))
        status = sp_shardy_expect(&reader.cursor, "=", "after the name of the attribute");
    if (status == SP_OK && sp_shardy_accept(&reader.cursor, "#sdy.sharding_per_value")) {
        status = read_tuple(&reader, &sharding);
    } else if (status == SP_OK) {
        (void)sp_shardy_accept(&reader.cursor, "#sdy.sharding");
        status = read_body(&reader, &sharding);
    }
    if (status == SP_OK)
        status = sp_shardy_end(&reader.cursor);
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}
