/* HloSharding text of V1 and V2, tuples and the tile tensor; named.c reads V3, metadata.c metadata. */
#include <inttypes.h>

#include "base/array.h"
#include "sharding/hlo/internal.h"

/* What a sharding's braces hold, in any order. */
struct items {
    bool kinds[SP_HLO_UNREDUCED + 1];
    bool has_device, has_tiles, has_iota, has_subgroups, has_metadata, replicate_last;
    struct sp_hlo_numbers dims, devices, subgroups;
    struct sp_device_order iota;
    bool has_group, is_group_like;
    int64_t group_id;
    uint32_t metadata_count;
    struct sp_hlo_metadata *metadata;
};

/* ---- the tile tensor ---- */

/* One '[' or ']' of nested lists; every list of a depth has as many items as the first of that depth. */
struct tensor {
    int64_t dims[SP_MAX_SHARDING_AXES], seen[SP_MAX_SHARDING_AXES];
    uint32_t depth, rank; /* open brackets; rank is 0 until the first number */
};

static enum sp_status close_list(struct sp_hlo_lexer *lexer, struct tensor *tensor, struct sp_error *err)
{
    uint32_t level = --tensor->depth;
    if (tensor->dims[level] == 0)
        tensor->dims[level] = tensor->seen[level];
    if (tensor->dims[level] != tensor->seen[level])
        return sp_hlo_fail_at(err, lexer->start, "RAGGED_TILES",
                              "The list that ends at offset %zu has %" PRId64 " items, but others of its level have "
                              "%" PRId64 ": the tiles form no tensor.",
                              lexer->start, tensor->seen[level], tensor->dims[level]);
    return SP_OK;
}

/* The items of nested lists, [[0,1],[2,3]]; the lexer stands on the first '['. */
static enum sp_status lex_tensor(struct sp_hlo_lexer *lexer, struct items *items, struct sp_error *err)
{
    struct tensor tensor = {0};
    bool item_next = true; /* else a comma or the end of a list */
    enum sp_status status = SP_OK;
    do {
        if (item_next && tensor.depth > 0)
            tensor.seen[tensor.depth - 1]++;
        if (item_next && sp_hlo_lex_is(lexer, '[')) {
            if (tensor.depth == SP_MAX_SHARDING_AXES)
                return sp_fail_limit(err, "TOO_MANY_TILE_DIMS", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES,
                                     SP_MAX_SHARDING_AXES + 1, "The tiles are lists nested deeper than %d.",
                                     SP_MAX_SHARDING_AXES);
            tensor.seen[tensor.depth++] = 0;
        } else if (item_next && lexer->token == SP_HLO_INT) {
            if (tensor.rank == 0)
                tensor.rank = tensor.depth;
            if (tensor.depth != tensor.rank)
                return sp_hlo_fail_at(err, lexer->start, "RAGGED_TILES",
                                      "The device at offset %zu stands %" PRIu32 " lists deep, but others %" PRIu32 ".",
                                      lexer->start, tensor.depth, tensor.rank);
            status = sp_hlo_numbers_add(lexer->arena, lexer->number, SP_MAX_LISTED_DEVICES, "SP_MAX_LISTED_DEVICES",
                                        &items->devices, err);
            item_next = false;
        } else if (!item_next && sp_hlo_lex_is(lexer, ']')) {
            status = close_list(lexer, &tensor, err);
        } else if (!item_next && sp_hlo_lex_is(lexer, ',')) {
            item_next = true;
        } else {
            return sp_hlo_lex_unexpected(lexer, item_next ? "a device or '['" : "',' or ']'", err);
        }
        if (status == SP_OK)
            status = sp_hlo_lex_next(lexer, err);
    } while (status == SP_OK && tensor.depth > 0);
    for (uint32_t i = 0; i < tensor.rank && status == SP_OK; i++)
        status = sp_hlo_numbers_add(lexer->arena, tensor.dims[i], SP_MAX_SHARDING_AXES, "SP_MAX_SHARDING_AXES",
                                    &items->dims, err);
    items->has_tiles = true;
    return status;
}

/* ---- items ---- */

static bool is_next_bracket(const struct sp_hlo_lexer *lexer)
{
    struct sp_hlo_lexer ahead = *lexer;
    return sp_hlo_lex_next(&ahead, NULL) == SP_OK && sp_hlo_lex_is(&ahead, '[');
}

/* Behind "devices=". */
static enum sp_status lex_devices(struct sp_hlo_lexer *lexer, struct items *items, struct sp_error *err)
{
    if (sp_hlo_lex_is(lexer, '[') && is_next_bracket(lexer))
        return lex_tensor(lexer, items, err);
    items->has_tiles = true;
    enum sp_status status = sp_hlo_lex_expect(lexer, '[', "to begin the tile dims", err);
    if (status == SP_OK)
        status = sp_hlo_lex_ints(lexer, SP_MAX_SHARDING_AXES, "SP_MAX_SHARDING_AXES", &items->dims, err);
    if (status == SP_OK)
        status = sp_hlo_lex_expect(lexer, ']', "to end the tile dims", err);
    if (status != SP_OK)
        return status;
    if (lexer->token != SP_HLO_LIST)
        return sp_hlo_lex_ints(lexer, SP_MAX_LISTED_DEVICES, "SP_MAX_LISTED_DEVICES", &items->devices, err);
    items->has_iota = true;
    status = sp_hlo_lex_next(lexer, err);
    return status == SP_OK ? sp_hlo_lex_iota(lexer, &items->iota, err) : status;
}

/* Behind "last_tile_dims=". */
static enum sp_status lex_subgroups(struct sp_hlo_lexer *lexer, struct items *items, struct sp_error *err)
{
    static const enum sp_hlo_type types[] = {SP_HLO_MANUAL, SP_HLO_MAXIMAL, SP_HLO_REPLICATED, SP_HLO_UNREDUCED};
    enum sp_status status = sp_hlo_lex_expect(lexer, '{', "to begin the kinds of the last tile dims", err);
    bool more = status == SP_OK && !sp_hlo_lex_is(lexer, '}');
    items->has_subgroups = true;
    while (more) {
        size_t i = 0;
        while (i < sizeof types / sizeof *types && !sp_hlo_lex_is_word(lexer, sp_hlo_type_name(types[i])))
            i++;
        if (i == sizeof types / sizeof *types)
            return sp_hlo_lex_unexpected(lexer, "manual, maximal, replicated or unreduced", err);
        status = sp_hlo_numbers_add(lexer->arena, types[i], SP_MAX_SHARDING_AXES, "SP_MAX_SHARDING_AXES",
                                    &items->subgroups, err);
        if (status == SP_OK)
            status = sp_hlo_lex_next(lexer, err);
        if (status == SP_OK)
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
        if (status != SP_OK)
            return status;
    }
    return status == SP_OK ? sp_hlo_lex_expect(lexer, '}', "to end the kinds of the last tile dims", err) : status;
}

static enum sp_status fail_twice(const char *what, size_t start, struct sp_error *err)
{
    return sp_hlo_fail_at(err, start, "GIVEN_TWICE", "The sharding gives %s a second time at offset %zu.", what, start);
}

static enum sp_status lex_attribute(struct sp_hlo_lexer *lexer, struct items *items, struct sp_error *err)
{
    size_t start = lexer->start;
    struct sp_hlo_lexer at = *lexer;
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    if (status != SP_OK)
        return status;
    if (sp_hlo_lex_is_attribute(&at, "device") || sp_hlo_lex_is_attribute(&at, "devices")) {
        if (items->has_device || items->has_tiles)
            return fail_twice("devices", start, err);
        if (sp_hlo_lex_is_attribute(&at, "devices"))
            return lex_devices(lexer, items, err);
        items->has_device = true;
        int64_t device;
        status = sp_hlo_lex_int(lexer, &device, err);
        return status == SP_OK
                   ? sp_hlo_numbers_add(lexer->arena, device, 1, "SP_MAX_LISTED_DEVICES", &items->devices, err)
                   : status;
    }
    if (sp_hlo_lex_is_attribute(&at, "last_tile_dims"))
        return items->has_subgroups ? fail_twice("last_tile_dims", start, err) : lex_subgroups(lexer, items, err);
    if (sp_hlo_lex_is_attribute(&at, "metadata")) {
        if (items->has_metadata)
            return fail_twice("metadata", start, err);
        items->has_metadata = true;
        return sp_hlo_lex_metadata(lexer, &items->metadata_count, &items->metadata, err);
    }
    return sp_hlo_fail_at(err, start, "UNKNOWN_ATTRIBUTE",
                          "There is an unknown attribute in sharding at offset %zu; expected device=, devices=, "
                          "metadata= or last_tile_dims=.",
                          start);
}

static enum sp_status lex_word(struct sp_hlo_lexer *lexer, struct items *items, struct sp_error *err)
{
    static const enum sp_hlo_type kinds[] = {SP_HLO_REPLICATED, SP_HLO_MAXIMAL, SP_HLO_MANUAL, SP_HLO_UNKNOWN,
                                             SP_HLO_UNREDUCED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (sp_hlo_lex_is_word(lexer, sp_hlo_type_name(kinds[i]))) {
            items->kinds[kinds[i]] = true;
            return sp_hlo_lex_next(lexer, err);
        }
    }
    if (sp_hlo_lex_is_word(lexer, "last_tile_dim_replicate")) {
        items->replicate_last = true;
        return sp_hlo_lex_next(lexer, err);
    }
    bool is_like = sp_hlo_lex_is_word(lexer, "shard_like");
    if (!is_like && !sp_hlo_lex_is_word(lexer, "shard_as"))
        return sp_hlo_lex_unexpected(lexer, "a kind of sharding, an attribute of one, or '}'", err);
    if (items->has_group)
        return fail_twice("a shard group", lexer->start, err);
    items->has_group = true;
    items->is_group_like = is_like;
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    return status == SP_OK ? sp_hlo_lex_int(lexer, &items->group_id, err) : status;
}

/* ---- what the items make ---- */

static enum sp_status make_tiled(struct sp_hlo_lexer *lexer, size_t start, const struct items *items,
                                 struct sp_hlo *hlo, struct sp_error *err)
{
    int64_t tiles;
    if (items->dims.count == 0)
        return sp_hlo_fail_at(err, start, "NO_TILES",
                              "The sharding at offset %zu is wrong: non-maximal shardings must have a tile assignment "
                              "list including dimensions.",
                              start);
    if (!items->has_iota && items->devices.count < 2)
        return sp_hlo_fail_at(err, start, "ONE_DEVICE",
                              "The sharding at offset %zu is wrong: non-maximal shardings must have more than one "
                              "device assigned.",
                              start);
    enum sp_status status = sp_hlo_tile_count((uint32_t)items->dims.count, items->dims.items, &tiles, err);
    if (status != SP_OK)
        return status;
    int64_t devices = items->has_iota ? items->iota.count : items->devices.count;
    if (tiles != devices)
        return sp_hlo_fail_at(err, start, "TILES_MISMATCH",
                              "The number of devices, %" PRId64 ", does not match the tile assignment %s, %" PRId64 ".",
                              devices, items->has_iota ? "dimensions product" : "size", tiles);
    if (items->replicate_last && items->has_subgroups)
        return sp_hlo_fail_at(err, start, "BOTH_LAST_DIMS",
                              "The sharding at offset %zu has both last_tile_dim_replicate and last_tile_dims; write "
                              "replicated in the latter.",
                              start);
    if (items->subgroups.count > items->dims.count)
        return sp_hlo_fail_at(err, start, "TOO_MANY_SUBGROUPS",
                              "The sharding names %" PRId64 " kinds of last tile dims, but has %" PRId64 " tile dims.",
                              items->subgroups.count, items->dims.count);
    hlo->dim_count = (uint32_t)items->dims.count;
    hlo->dims = items->dims.items;
    hlo->replicate_last = items->replicate_last;
    hlo->order = items->iota;
    if (!items->has_iota)
        status = sp_hlo_list_order(lexer->arena, items->devices.count, items->devices.items, &hlo->order, err);
    enum sp_hlo_type *subgroups = SP_NEW_ARRAY(lexer->arena, (size_t)items->subgroups.count, enum sp_hlo_type);
    if (subgroups == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < items->subgroups.count; i++)
        subgroups[i] = (enum sp_hlo_type)items->subgroups.items[i];
    hlo->subgroups = subgroups;
    hlo->subgroup_count = (uint32_t)items->subgroups.count;
    return status;
}

static enum sp_status make_sharding(struct sp_hlo_lexer *lexer, size_t start, const struct items *items,
                                    struct sp_hlo *hlo, struct sp_error *err)
{
    static const enum sp_hlo_type precedence[] = {SP_HLO_REPLICATED, SP_HLO_MAXIMAL, SP_HLO_MANUAL, SP_HLO_UNKNOWN,
                                                  SP_HLO_UNREDUCED};
    size_t i = 0;
    while (i < sizeof precedence / sizeof *precedence && !items->kinds[precedence[i]])
        i++;
    *hlo = (struct sp_hlo){
        .type = i < sizeof precedence / sizeof *precedence ? precedence[i] : SP_HLO_OTHER,
        .has_group = items->has_group,
        .is_group_like = items->is_group_like,
        .group_id = items->group_id,
        .metadata_count = items->metadata_count,
    };
    enum sp_status status = SP_OK;
    const char *name = sp_hlo_type_name(hlo->type);
    if (hlo->type == SP_HLO_OTHER)
        status = make_tiled(lexer, start, items, hlo, err);
    else if (hlo->type == SP_HLO_MAXIMAL && items->devices.count != 1)
        return sp_hlo_fail_at(err, start, "DEVICES_OF_KIND",
                              "The sharding at offset %zu is wrong: maximal shardings should have exactly one device "
                              "assigned.",
                              start);
    else if (hlo->type == SP_HLO_MAXIMAL)
        status = sp_hlo_list_order(lexer->arena, 1, items->devices.items, &hlo->order, err);
    else if (items->has_device || items->has_tiles)
        return sp_hlo_fail_at(err, start, "DEVICES_OF_KIND",
                              "The sharding at offset %zu is wrong: %s shardings should not have any devices assigned.",
                              start, name);
    if (status == SP_OK && hlo->type != SP_HLO_OTHER && (items->replicate_last || items->has_subgroups))
        return sp_hlo_fail_at(err, start, "SUBGROUPS_OF_KIND",
                              "The sharding at offset %zu is %s, which has no last tile dims.", start, name);
    if (status == SP_OK)
        status = sp_hlo_take_combiner(hlo, items->metadata, err);
    if (status == SP_OK)
        status = sp_hlo_normalize(lexer->arena, hlo, err);
    if (status == SP_OK && !sp_hlo_is_partial(hlo))
        hlo->combiner = SP_COMBINE_NONE;
    if (status == SP_ERR_MALFORMED)
        sp_error_at(err, "offset %zu", start);
    return status;
}

/* XLA prints V3 without its mesh where that does not matter, then with a comma before the metadata: {replicated,
   metadata={{..}}}. Nothing else looks like it. */
static enum sp_status lex_meshless(struct sp_hlo_lexer *lexer, struct items *items, struct sp_hlo *hlo,
                                   struct sp_error *err)
{
    struct sp_mesh *mesh;
    struct sp_sharding *named;
    struct sp_hlo_metadata *metadata = NULL;
    uint32_t count = 0;
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK && !sp_hlo_lex_is_attribute(lexer, "metadata"))
        return sp_hlo_lex_unexpected(lexer, "metadata=", err);
    if (status == SP_OK)
        status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK)
        status = sp_hlo_lex_metadata(lexer, &count, &metadata, err);
    if (status == SP_OK)
        status = sp_hlo_lex_expect(lexer, '}', "to end a named sharding", err);
    *hlo = (struct sp_hlo){.type = SP_HLO_UNREDUCED, .combiner = SP_COMBINE_SUM};
    if (status == SP_OK && items->kinds[SP_HLO_REPLICATED]) {
        status = sp_mesh_empty(lexer->arena, &mesh, err);
        if (status == SP_OK)
            status = sp_sharding_create_axes(lexer->arena, mesh, 0, &named, err);
        if (status == SP_OK)
            status = sp_hlo_set_named(lexer->arena, named, hlo, err);
    }
    hlo->metadata_count = count;
    hlo->metadata = metadata;
    return status;
}

/* From behind the '{' to behind the '}'. */
static enum sp_status lex_body(struct sp_hlo_lexer *lexer, size_t start, struct sp_hlo *hlo, struct sp_error *err)
{
    struct items items = {0};
    enum sp_status status = SP_OK;
    uint32_t count = 0;
    if (sp_hlo_lex_is_word(lexer, "mesh") || sp_hlo_lex_is_word(lexer, "maximal_mesh"))
        return sp_hlo_lex_named(lexer, hlo, err);
    while (status == SP_OK && !sp_hlo_lex_is(lexer, '}')) {
        bool is_meshless = count == 1 && (items.kinds[SP_HLO_REPLICATED] || items.kinds[SP_HLO_UNREDUCED]);
        if (is_meshless && sp_hlo_lex_is(lexer, ','))
            return lex_meshless(lexer, &items, hlo, err);
        if (lexer->token == SP_HLO_ATTRIBUTE)
            status = lex_attribute(lexer, &items, err);
        else if (lexer->token == SP_HLO_WORD)
            status = lex_word(lexer, &items, err);
        else
            status = sp_hlo_lex_unexpected(lexer, "a kind of sharding, an attribute of one, or '}'", err);
        count = 1 + (count > 0);
    }
    if (status == SP_OK)
        status = sp_hlo_lex_next(lexer, err);
    return status == SP_OK ? make_sharding(lexer, start, &items, hlo, err) : status;
}

/* ---- tuples ---- */

static enum sp_status lex_element(struct sp_hlo_lexer *lexer, struct sp_hlo *element, struct sp_error *err)
{
    size_t start = lexer->start;
    enum sp_status status = sp_hlo_lex_expect(lexer, '{', "to start sharding attribute", err);
    return status == SP_OK ? lex_body(lexer, start, element, err) : status;
}

static enum sp_status lex_tuple(struct sp_hlo_lexer *lexer, struct sp_hlo *hlo, struct sp_error *err)
{
    uint32_t capacity = 0;
    struct sp_hlo *elements = NULL;
    enum sp_status status = SP_OK;
    bool more = true;
    *hlo = (struct sp_hlo){.type = SP_HLO_TUPLE};
    while (more) {
        if (hlo->element_count == SP_MAX_TUPLE_SHARDINGS)
            return sp_fail_limit(err, "TUPLE_TOO_LARGE", "SP_MAX_TUPLE_SHARDINGS", SP_MAX_TUPLE_SHARDINGS,
                                 SP_MAX_TUPLE_SHARDINGS + 1, "The tuple has more than %d shardings.",
                                 SP_MAX_TUPLE_SHARDINGS);
        if (!SP_MAKE_ROOM(lexer->arena, elements, hlo->element_count, capacity, 1))
            return sp_fail_memory(err);
        status = lex_element(lexer, &elements[hlo->element_count++], err);
        if (status == SP_OK)
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
        if (status != SP_OK)
            return status;
    }
    hlo->elements = elements;
    return sp_hlo_lex_expect(lexer, '}', "to end sharding attribute", err);
}

static enum sp_status lex_sharding(struct sp_hlo_lexer *lexer, struct sp_hlo *hlo, struct sp_error *err)
{
    size_t start = lexer->start;
    if (sp_hlo_lex_is(lexer, '[')) {
        struct items items = {0};
        enum sp_status status = lex_tensor(lexer, &items, err);
        return status == SP_OK ? make_sharding(lexer, start, &items, hlo, err) : status;
    }
    enum sp_status status = sp_hlo_lex_expect(lexer, '{', "to start sharding attribute", err);
    if (status != SP_OK)
        return status;
    if (sp_hlo_lex_is(lexer, '{'))
        return lex_tuple(lexer, hlo, err);
    if (!sp_hlo_lex_is(lexer, '}'))
        return lex_body(lexer, start, hlo, err);
    *hlo = (struct sp_hlo){.type = SP_HLO_TUPLE};
    return sp_hlo_lex_next(lexer, err);
}

enum sp_status sp_hlo_read_text(struct sp_arena *arena, const char *text, size_t size, struct sp_hlo **ret_hlo,
                                struct sp_error *err)
{
    struct sp_hlo_lexer lexer;
    struct sp_hlo *hlo = SP_NEW(arena, struct sp_hlo);
    if (hlo == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_hlo_lex_start(&lexer, arena, text, size, err);
    if (status == SP_OK)
        status = lex_sharding(&lexer, hlo, err);
    if (status == SP_OK && lexer.token != SP_HLO_END)
        return sp_hlo_fail_at(err, lexer.start, "EXTRA_CONTENT", "Extra content after sharding at offset %zu.",
                              lexer.start);
    if (status == SP_OK)
        *ret_hlo = hlo;
    return status;
}
