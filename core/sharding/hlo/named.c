/* Text of V3: a mesh and the axes that split each dim. */
#include <string.h>

#include "base/array.h"
#include "sharding/hlo/internal.h"

/* A list of refs that grows. */
struct refs {
    struct sp_axis_list list;
    uint32_t capacity;
};

static enum sp_status add_ref(struct sp_arena *arena, struct refs *refs, struct sp_axis_ref ref, struct sp_error *err)
{
    if (refs->list.count == SP_MAX_SHARDING_AXES)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES,
                             SP_MAX_SHARDING_AXES + 1, "A list has more than %d axes.", SP_MAX_SHARDING_AXES);
    if (!SP_MAKE_ROOM(arena, refs->list.refs, refs->list.count, refs->capacity, 1))
        return sp_fail_memory(err);
    refs->list.refs[refs->list.count++] = ref;
    return SP_OK;
}

/* ---- meshes ---- */

static enum sp_status lex_mesh_axes(struct sp_hlo_lexer *lexer, struct sp_mesh_axis axes[static SP_MAX_SHARDING_AXES],
                                    uint32_t *ret_count, struct sp_error *err)
{
    uint32_t count = 0;
    enum sp_status status = sp_hlo_lex_expect(lexer, '[', "to begin the axes of a mesh", err);
    bool more = status == SP_OK && !sp_hlo_lex_is(lexer, ']');
    while (more) {
        if (count == SP_MAX_SHARDING_AXES)
            return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES,
                                 SP_MAX_SHARDING_AXES + 1, "The mesh has more than %d axes.", SP_MAX_SHARDING_AXES);
        if (lexer->token != SP_HLO_STRING)
            return sp_hlo_lex_unexpected(lexer, "the name of a mesh axis in quotes", err);
        axes[count].name = lexer->string;
        status = sp_hlo_lex_next(lexer, err);
        if (status == SP_OK)
            status = sp_hlo_lex_expect(lexer, '=', "between the name of a mesh axis and its size", err);
        if (status == SP_OK)
            status = sp_hlo_lex_int(lexer, &axes[count++].size, err);
        if (status == SP_OK)
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
        if (status != SP_OK)
            return status;
    }
    *ret_count = count;
    return status == SP_OK ? sp_hlo_lex_expect(lexer, ']', "to end the axes of a mesh", err) : status;
}

/* mesh['x'=2,'y'=2], device_ids=(..) and the comma behind it, if there is one. */
static enum sp_status lex_mesh(struct sp_hlo_lexer *lexer, struct sp_mesh **ret_mesh, struct sp_error *err)
{
    struct sp_mesh_axis axes[SP_MAX_SHARDING_AXES];
    struct sp_hlo_numbers ids = {0};
    struct sp_device_order iota = {0};
    uint32_t count = 0;
    size_t start = lexer->start;
    bool comma, has_ids = false;
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK)
        status = lex_mesh_axes(lexer, axes, &count, err);
    if (status == SP_OK)
        status = sp_hlo_lex_skip(lexer, ',', &comma, err);
    if (status == SP_OK && comma && sp_hlo_lex_is_attribute(lexer, "device_ids")) {
        has_ids = true;
        status = sp_hlo_lex_next(lexer, err);
        if (status == SP_OK)
            status = sp_hlo_lex_expect(lexer, '(', "to begin the device ids", err);
        if (status == SP_OK && sp_hlo_lex_is(lexer, '['))
            status = sp_hlo_lex_iota(lexer, &iota, err);
        else if (status == SP_OK)
            status = sp_hlo_lex_ints(lexer, SP_MAX_LISTED_DEVICES, "SP_MAX_LISTED_DEVICES", &ids, err);
        if (status == SP_OK)
            status = sp_hlo_lex_expect(lexer, ')', "to end the device ids", err);
        if (status == SP_OK)
            status = sp_hlo_lex_skip(lexer, ',', &comma, err);
    }
    if (status == SP_OK)
        status = sp_hlo_create_mesh(lexer->arena, count, axes, ids.count > 0 ? &ids : NULL,
                                    has_ids && ids.count == 0 ? &iota : NULL, ret_mesh, err);
    if (status == SP_ERR_MALFORMED)
        sp_error_at(err, "offset %zu", start);
    return status;
}

/* ---- axes ---- */

/* A name, or else the index of an axis in decimal. */
static bool find_axis(const struct sp_mesh *mesh, const char *name, uint32_t *ret_axis)
{
    int64_t found = sp_mesh_find_axis(mesh, name);
    if (found < 0 && name[0] != '\0' && strlen(name) <= 3 && strspn(name, "0123456789") == strlen(name)) {
        found = 0;
        for (const char *c = name; *c != '\0'; c++)
            found = 10 * found + (*c - '0');
    }
    if (found < 0 || found >= mesh->axis_count)
        return false;
    *ret_axis = (uint32_t)found;
    return true;
}

/* 'a' or 'a':(2)4. */
static enum sp_status lex_ref(struct sp_hlo_lexer *lexer, const struct sp_mesh *mesh, struct sp_axis_ref *ret_ref,
                              struct sp_error *err)
{
    struct sp_axis_ref ref = {.pre = 1};
    bool is_sub;
    size_t start = lexer->start;
    if (lexer->token != SP_HLO_STRING)
        return sp_hlo_lex_unexpected(lexer, "the name of a mesh axis in quotes", err);
    if (!find_axis(mesh, lexer->string, &ref.axis))
        return sp_hlo_fail_at(err, start, "UNKNOWN_AXIS",
                              "At offset %zu, '%.64s' is not a valid axis name or index in mesh.", start,
                              lexer->string);
    ref.size = mesh->axes[ref.axis].size;
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK)
        status = sp_hlo_lex_skip(lexer, ':', &is_sub, err);
    if (status == SP_OK && is_sub) {
        status = sp_hlo_lex_expect(lexer, '(', "to begin the pre-size of a sub-axis", err);
        if (status == SP_OK)
            status = sp_hlo_lex_int(lexer, &ref.pre, err);
        if (status == SP_OK)
            status = sp_hlo_lex_expect(lexer, ')', "to end the pre-size of a sub-axis", err);
        if (status == SP_OK)
            status = sp_hlo_lex_int(lexer, &ref.size, err);
    }
    if (status == SP_OK)
        status = sp_hlo_check_ref(mesh, ref, is_sub, err);
    if (status == SP_ERR_MALFORMED)
        sp_error_at(err, "offset %zu", start);
    *ret_ref = ref;
    return status;
}

/* {'a', 'b'}; with `ret_is_open`, a '?' may end it. */
static enum sp_status lex_refs(struct sp_hlo_lexer *lexer, const struct sp_mesh *mesh, struct sp_axis_list *ret_list,
                               bool *ret_is_open, struct sp_error *err)
{
    struct refs refs = {0};
    enum sp_status status = sp_hlo_lex_expect(lexer, '{', "to begin a list of axes", err);
    bool more = status == SP_OK && !sp_hlo_lex_is(lexer, '}'), is_open = false;
    while (status == SP_OK && more) {
        if (is_open && lexer->token == SP_HLO_STRING)
            return sp_hlo_fail_at(err, lexer->start, "AXIS_AFTER_OPEN", "Saw axis ref after '?' at offset %zu.",
                                  lexer->start);
        if (ret_is_open != NULL && !is_open && sp_hlo_lex_is(lexer, '?')) {
            is_open = true;
            status = sp_hlo_lex_next(lexer, err);
        } else {
            struct sp_axis_ref ref = {0};
            status = lex_ref(lexer, mesh, &ref, err);
            if (status == SP_OK)
                status = add_ref(lexer->arena, &refs, ref, err);
        }
        if (status == SP_OK)
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
        /* The comma before '?' may be left out. */
        more = more || (status == SP_OK && sp_hlo_lex_is(lexer, '?'));
    }
    if (status != SP_OK)
        return status;
    *ret_list = refs.list;
    if (ret_is_open != NULL)
        *ret_is_open = is_open;
    return sp_hlo_lex_expect(lexer, '}', "to end a list of axes", err);
}

/* [{'x'}, {'y', ?}] */
static enum sp_status lex_dims(struct sp_hlo_lexer *lexer, struct sp_sharding *axes, struct sp_error *err)
{
    enum sp_status status = sp_hlo_lex_expect(lexer, '[', "to begin the dims", err);
    bool more = status == SP_OK && !sp_hlo_lex_is(lexer, ']');
    struct sp_dim_sharding *dims = SP_NEW_ARRAY(lexer->arena, SP_MAX_RANK, struct sp_dim_sharding);
    if (dims == NULL)
        return sp_fail_memory(err);
    while (more) {
        if (axes->rank == SP_MAX_RANK)
            return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, SP_MAX_RANK + 1,
                                 "The sharding is for tensors of more than %d axes.", SP_MAX_RANK);
        struct sp_dim_sharding *dim = &dims[axes->rank++];
        status = lex_refs(lexer, axes->mesh, &dim->axes, &dim->is_open, err);
        if (status == SP_OK)
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
        if (status != SP_OK)
            return status;
    }
    axes->dims = dims;
    return status == SP_OK ? sp_hlo_lex_expect(lexer, ']', "to end the dims", err) : status;
}

/* sum, max or min, if one stands here. */
static enum sp_status lex_combiner(struct sp_hlo_lexer *lexer, struct sp_sharding *axes, bool *ret_found,
                                   struct sp_error *err)
{
    *ret_found = true;
    axes->combiner = SP_COMBINE_SUM;
    if (sp_hlo_lex_is_word(lexer, "max"))
        axes->combiner = SP_COMBINE_MAX;
    else if (sp_hlo_lex_is_word(lexer, "min"))
        axes->combiner = SP_COMBINE_MIN;
    else if (!sp_hlo_lex_is_word(lexer, "sum"))
        *ret_found = false;
    return *ret_found ? sp_hlo_lex_next(lexer, err) : SP_OK;
}

/* ---- attributes ---- */

struct attributes {
    bool replicated, unreduced, manual, metadata;
};

static enum sp_status lex_attribute(struct sp_hlo_lexer *lexer, struct attributes *seen, struct sp_sharding *axes,
                                    struct sp_hlo *hlo, struct sp_error *err)
{
    size_t start = lexer->start;
    bool found, *flag = sp_hlo_lex_is_attribute(lexer, "replicated")  ? &seen->replicated
                        : sp_hlo_lex_is_attribute(lexer, "unreduced") ? &seen->unreduced
                        : sp_hlo_lex_is_attribute(lexer, "manual")    ? &seen->manual
                        : sp_hlo_lex_is_attribute(lexer, "metadata")  ? &seen->metadata
                                                                      : NULL;
    if (lexer->token != SP_HLO_ATTRIBUTE)
        return sp_hlo_lex_unexpected(lexer, "replicated=, unreduced=, manual= or metadata=", err);
    if (flag == NULL)
        return sp_hlo_fail_at(err, start, "UNKNOWN_ATTRIBUTE",
                              "There is an unknown attribute in named sharding at offset %zu; expected replicated=, "
                              "unreduced=, manual= or metadata=.",
                              start);
    if (*flag)
        return sp_hlo_fail_at(err, start, "GIVEN_TWICE",
                              "The named sharding gives an attribute a second time at "
                              "offset %zu.",
                              start);
    *flag = true;
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    if (status != SP_OK)
        return status;
    if (flag == &seen->metadata) {
        struct sp_hlo_metadata *metadata;
        status = sp_hlo_lex_metadata(lexer, &hlo->metadata_count, &metadata, err);
        if (status == SP_OK)
            hlo->metadata = metadata;
        return status;
    }
    if (flag == &seen->replicated)
        return lex_refs(lexer, axes->mesh, &axes->replicated, NULL, err);
    if (flag == &seen->manual)
        return lex_refs(lexer, axes->mesh, &axes->manual, NULL, err);
    status = lex_combiner(lexer, axes, &found, err);
    return status == SP_OK ? lex_refs(lexer, axes->mesh, &axes->partial, NULL, err) : status;
}

static enum sp_status use_all_axes(struct sp_arena *arena, const struct sp_mesh *mesh, struct sp_axis_list *list,
                                   struct sp_error *err)
{
    list->count = mesh->axis_count;
    list->refs = SP_NEW_ARRAY(arena, mesh->axis_count, struct sp_axis_ref);
    if (list->refs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        list->refs[i] = sp_axis_full(mesh, i);
    return SP_OK;
}

/* unreduced, unreduced=max, unreduced=max{'x'}: behind the word. Without a list, all axes are meant. */
static enum sp_status lex_unreduced(struct sp_hlo_lexer *lexer, bool has_equals, struct sp_sharding *axes,
                                    struct sp_error *err)
{
    bool found = true;
    axes->combiner = SP_COMBINE_SUM;
    enum sp_status status = has_equals ? lex_combiner(lexer, axes, &found, err) : SP_OK;
    if (status == SP_OK && sp_hlo_lex_is(lexer, '{'))
        return lex_refs(lexer, axes->mesh, &axes->partial, NULL, err);
    if (status == SP_OK && !found)
        return sp_hlo_lex_unexpected(lexer, "sum, max, min or a list of axes", err);
    return status == SP_OK ? use_all_axes(lexer->arena, axes->mesh, &axes->partial, err) : status;
}

/* What follows the mesh, up to the metadata of the forms without dims. */
static enum sp_status lex_contents(struct sp_hlo_lexer *lexer, struct attributes *seen, struct sp_sharding *axes,
                                   struct sp_hlo *hlo, struct sp_error *err)
{
    enum sp_status status;
    bool more = true;
    if (sp_hlo_lex_is(lexer, '[')) {
        status = lex_dims(lexer, axes, err);
        while (status == SP_OK && more) {
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
            if (status == SP_OK && more)
                status = lex_attribute(lexer, seen, axes, hlo, err);
        }
        return status;
    }
    bool is_unreduced = sp_hlo_lex_is_word(lexer, "unreduced");
    bool has_combiner = sp_hlo_lex_is_attribute(lexer, "unreduced"), is_manual = sp_hlo_lex_is_word(lexer, "manual");
    if (!is_unreduced && !has_combiner && !is_manual && !sp_hlo_lex_is_word(lexer, "replicated"))
        return sp_hlo_lex_unexpected(lexer, "'[', replicated, manual or unreduced", err);
    status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK && (is_unreduced || has_combiner))
        status = lex_unreduced(lexer, has_combiner, axes, err);
    else if (status == SP_OK && is_manual)
        status = use_all_axes(lexer->arena, axes->mesh, &axes->manual, err);
    seen->replicated = seen->unreduced = seen->manual = true;
    if (status == SP_OK)
        status = sp_hlo_lex_skip(lexer, ',', &more, err);
    return status == SP_OK && more ? lex_attribute(lexer, seen, axes, hlo, err) : status;
}

/* maximal_mesh[device_id=5] */
static enum sp_status lex_maximal(struct sp_hlo_lexer *lexer, struct sp_mesh **ret_mesh, struct sp_error *err)
{
    int64_t device;
    size_t start = lexer->start;
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK)
        status = sp_hlo_lex_expect(lexer, '[', "to begin the device of a maximal mesh", err);
    if (status == SP_OK && !sp_hlo_lex_is_attribute(lexer, "device_id"))
        return sp_hlo_lex_unexpected(lexer, "device_id=", err);
    if (status == SP_OK)
        status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK)
        status = sp_hlo_lex_int(lexer, &device, err);
    if (status == SP_OK)
        status = sp_hlo_lex_expect(lexer, ']', "to end the device of a maximal mesh", err);
    if (status == SP_OK)
        status = sp_mesh_single(lexer->arena, device, ret_mesh, err);
    if (status == SP_ERR_MALFORMED)
        sp_error_at(err, "offset %zu", start);
    return status;
}

enum sp_status sp_hlo_lex_named(struct sp_hlo_lexer *lexer, struct sp_hlo *hlo, struct sp_error *err)
{
    bool is_maximal = sp_hlo_lex_is_word(lexer, "maximal_mesh"), more = false;
    struct sp_mesh *mesh = NULL;
    struct sp_sharding *axes = NULL;
    struct attributes seen = {0};
    size_t start = lexer->start;
    *hlo = (struct sp_hlo){0};
    enum sp_status status = is_maximal ? lex_maximal(lexer, &mesh, err) : lex_mesh(lexer, &mesh, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(lexer->arena, mesh, 0, &axes, err);
    if (status != SP_OK)
        return status;
    if (is_maximal) {
        seen.replicated = seen.unreduced = seen.manual = true;
        status = sp_hlo_lex_skip(lexer, ',', &more, err);
        if (status == SP_OK && more)
            status = lex_attribute(lexer, &seen, axes, hlo, err);
    } else {
        status = lex_contents(lexer, &seen, axes, hlo, err);
    }
    if (status == SP_OK)
        status = sp_hlo_lex_expect(lexer, '}', "to end a named sharding", err);
    if (status == SP_OK)
        status = sp_hlo_set_named(lexer->arena, axes, hlo, err);
    if (status == SP_ERR_MALFORMED)
        sp_error_at(err, "offset %zu", start);
    return status;
}
