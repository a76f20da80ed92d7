/* OpSharding bytes, in the order of decisions of XLA's FromProto. */
#include <inttypes.h>
#include <string.h>

#include "sharding/hlo/proto.h"

enum op_sharding_field {
    TYPE = 1,
    TILE_SHAPE = 2,
    TILE_DIMS = 3,
    DEVICES = 4,
    ELEMENTS = 5,
    REPLICATE_LAST = 6,
    METADATA = 7,
    LAST_TILE_DIMS = 8,
    IOTA_DIMS = 9,
    IOTA_PERM = 10,
    IS_GROUP = 11,
    GROUP_ID = 12,
    GROUP_TYPE = 13,
    NAMED = 14,
};

#define AXES SP_MAX_SHARDING_AXES, "SP_MAX_SHARDING_AXES"

static const struct sp_hlo_field fields[] = {
    {TYPE, SP_HLO_SCALAR, 0, NULL, "type"},
    {TILE_SHAPE, SP_HLO_MESSAGE, 0, NULL, "tile_shape"},
    {TILE_DIMS, SP_HLO_NUMBERS, AXES, "tile_assignment_dimensions"},
    {DEVICES, SP_HLO_NUMBERS, SP_MAX_LISTED_DEVICES, "SP_MAX_LISTED_DEVICES", "tile_assignment_devices"},
    {ELEMENTS, SP_HLO_MESSAGES, SP_MAX_TUPLE_SHARDINGS, "SP_MAX_TUPLE_SHARDINGS", "tuple_shardings"},
    {REPLICATE_LAST, SP_HLO_SCALAR, 0, NULL, "replicate_on_last_tile_dim"},
    {METADATA, SP_HLO_MESSAGES, SP_MAX_SHARDING_METADATA, "SP_MAX_SHARDING_METADATA", "metadata"},
    {LAST_TILE_DIMS, SP_HLO_NUMBERS, AXES, "last_tile_dims"},
    {IOTA_DIMS, SP_HLO_NUMBERS, AXES, "iota_reshape_dims"},
    {IOTA_PERM, SP_HLO_NUMBERS, AXES, "iota_transpose_perm"},
    {IS_GROUP, SP_HLO_SCALAR, 0, NULL, "is_shard_group"},
    {GROUP_ID, SP_HLO_SCALAR, 0, NULL, "shard_group_id"},
    {GROUP_TYPE, SP_HLO_SCALAR, 0, NULL, "shard_group_type"},
    {NAMED, SP_HLO_MESSAGE, 0, NULL, "named_sharding"},
};
static const struct sp_hlo_schema schema = {"OpSharding", sizeof fields / sizeof *fields, fields};

/* A scanned OpSharding. */
struct message {
    const struct sp_hlo_reader *reader;
    struct sp_span span;
    struct sp_hlo_found found[SP_HLO_MAX_FIELD + 1];
};

/* The shape means nothing here, but its bytes must be a shape's: tuples in tuples (field 4), bounded. */
static enum sp_status check_shape(const struct sp_hlo_reader *reader, struct sp_span span, struct sp_error *err)
{
    struct sp_wire stack[SP_MAX_NESTING];
    uint32_t depth = 1;
    stack[0] = sp_wire_of(reader->bytes, span);
    while (depth > 0) {
        struct sp_wire_field field;
        enum sp_status status = sp_wire_next(&stack[depth - 1], &field, err);
        if (status == SP_OK && field.number == 4)
            status = sp_wire_expect(&field, SP_WIRE_LEN, err);
        if (status != SP_OK)
            return status;
        if (field.number == 0) {
            depth--;
        } else if (field.number == 4) {
            if (depth == SP_MAX_NESTING) {
                sp_fail_limit(err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, SP_MAX_NESTING + 1,
                              "The tile_shape at byte %" PRIu64 " has tuples nested deeper than %d.", span.offset,
                              SP_MAX_NESTING);
                sp_error_at(err, "byte %" PRIu64, field.at);
                return SP_ERR_LIMIT;
            }
            stack[depth++] = sp_wire_of(reader->bytes, field.payload);
        }
    }
    return SP_OK;
}

static enum sp_status collect(const struct message *message, uint32_t number, int64_t **ret_items, struct sp_error *err)
{
    return sp_hlo_collect(message->reader, message->span, number, &message->found[number], ret_items, err);
}

static enum sp_status read_group(const struct message *message, struct sp_hlo *hlo, struct sp_error *err)
{
    uint64_t type = message->found[GROUP_TYPE].value;
    if (message->found[IS_GROUP].value == 0)
        return SP_OK;
    if (type > 1)
        return sp_hlo_fail_field(message->reader, "shard_group_type", err, "BAD_SHARD_GROUP",
                                 "The shard group type %" PRIu64 " is neither AS (0) nor LIKE (1).", type);
    hlo->has_group = true;
    hlo->is_group_like = type == 1;
    hlo->group_id = (int64_t)message->found[GROUP_ID].value;
    return SP_OK;
}

/* ---- OTHER ---- */

static enum sp_status read_order(const struct message *message, struct sp_device_order *ret_order, struct sp_error *err)
{
    const struct sp_hlo_found *found = message->found;
    const struct sp_hlo_reader *reader = message->reader;
    int64_t *dims, *perm;
    enum sp_status status;
    if (found[IOTA_DIMS].count == 0 && found[IOTA_PERM].count > 0)
        return sp_hlo_fail_field(reader, "iota_transpose_perm", err, "BAD_PERMUTATION",
                                 "There is an iota_transpose_perm, but no iota_reshape_dims.");
    if (found[IOTA_DIMS].count == 0) {
        if (found[DEVICES].count == 0)
            return sp_hlo_fail_field(reader, "tile_assignment_devices", err, "NO_DEVICES",
                                     "The sharding is OTHER but has neither devices nor an iota of them.");
        status = collect(message, DEVICES, &dims, err);
        if (status == SP_OK)
            status = sp_hlo_list_order(reader->arena, (int64_t)found[DEVICES].count, dims, ret_order, err);
        return sp_hlo_error_at(reader, "tile_assignment_devices", status, err);
    }
    if (found[DEVICES].count > 0)
        return sp_hlo_fail_field(
            reader, "tile_assignment_devices", err, "TWO_DEVICE_LISTS",
            "The sharding has both a device list and an iota of devices; one of them is too many.");
    if (found[IOTA_PERM].count != found[IOTA_DIMS].count)
        return sp_hlo_fail_field(reader, "iota_transpose_perm", err, "BAD_PERMUTATION",
                                 "The iota_transpose_perm should have the same rank as iota_reshape_dims, but has "
                                 "%" PRIu64 " entries for %" PRIu64 " dims.",
                                 found[IOTA_PERM].count, found[IOTA_DIMS].count);
    status = collect(message, IOTA_DIMS, &dims, err);
    if (status == SP_OK)
        status = collect(message, IOTA_PERM, &perm, err);
    if (status == SP_OK)
        status = sp_device_order_iota(reader->arena, (uint32_t)found[IOTA_DIMS].count, dims, perm, ret_order, err);
    return sp_hlo_error_at(reader, "iota_reshape_dims", status, err);
}

static enum sp_status read_subgroups(const struct message *message, struct sp_hlo *hlo, struct sp_error *err)
{
    const struct sp_hlo_reader *reader = message->reader;
    uint64_t count = message->found[LAST_TILE_DIMS].count;
    int64_t *numbers;
    enum sp_hlo_type *types = SP_NEW_ARRAY(reader->arena, (size_t)count, enum sp_hlo_type);
    if (types == NULL)
        return sp_fail_memory(err);
    if (count > hlo->dim_count)
        return sp_hlo_fail_field(reader, "last_tile_dims", err, "TOO_MANY_SUBGROUPS",
                                 "The sharding names %" PRIu64 " kinds of last tile dims, but has %" PRIu32
                                 " tile dims.",
                                 count, hlo->dim_count);
    if (count > 0 && message->found[REPLICATE_LAST].value != 0)
        return sp_hlo_fail_field(reader, "replicate_on_last_tile_dim", err, "BOTH_LAST_DIMS",
                                 "The sharding has both replicate_on_last_tile_dim and last_tile_dims; write "
                                 "REPLICATED in the latter.");
    enum sp_status status = collect(message, LAST_TILE_DIMS, &numbers, err);
    for (uint64_t i = 0; i < count && status == SP_OK; i++) {
        bool is_kind = numbers[i] == SP_HLO_REPLICATED || numbers[i] == SP_HLO_MAXIMAL || numbers[i] == SP_HLO_MANUAL ||
                       numbers[i] == SP_HLO_UNREDUCED;
        if (!is_kind)
            return sp_hlo_fail_field(reader, "last_tile_dims", err, "BAD_SUBGROUP",
                                     "Last tile dim %" PRIu64 " is of type %" PRId64
                                     "; it can be MANUAL, REPLICATED, UNREDUCED or MAXIMAL.",
                                     i, numbers[i]);
        types[i] = (enum sp_hlo_type)numbers[i];
    }
    hlo->subgroup_count = (uint32_t)count;
    hlo->subgroups = types;
    hlo->replicate_last = message->found[REPLICATE_LAST].value != 0;
    return status;
}

static enum sp_status read_tiled(const struct message *message, struct sp_hlo *hlo, struct sp_error *err)
{
    const struct sp_hlo_reader *reader = message->reader;
    int64_t *dims, tiles;
    enum sp_status status = read_order(message, &hlo->order, err);
    if (status != SP_OK)
        return status;
    if (hlo->order.count == 1) {
        sp_hlo_make_plain(hlo, SP_HLO_REPLICATED);
        return SP_OK;
    }
    if (message->found[TILE_DIMS].count == 0)
        return sp_hlo_fail_field(reader, "tile_assignment_dimensions", err, "NO_TILES",
                                 "The sharding is OTHER but has no tile assignment dimensions.");
    status = collect(message, TILE_DIMS, &dims, err);
    if (status != SP_OK)
        return status;
    hlo->dims = dims;
    hlo->dim_count = (uint32_t)message->found[TILE_DIMS].count;
    status = sp_hlo_tile_count(hlo->dim_count, dims, &tiles, err);
    if (status != SP_OK)
        return sp_hlo_error_at(reader, "tile_assignment_dimensions", status, err);
    if (tiles != hlo->order.count)
        return sp_hlo_fail_field(reader, "tile_assignment_dimensions", err, "TILES_MISMATCH",
                                 "The product of the tile assignment dimensions, %" PRId64
                                 ", is not the number of devices, %" PRId64 ".",
                                 tiles, hlo->order.count);
    status = read_subgroups(message, hlo, err);
    return status == SP_OK ? sp_hlo_normalize(reader->arena, hlo, err) : status;
}

/* ---- the others ---- */

/* Kinds without tiles. MAXIMAL may say that it has one tile. */
static enum sp_status read_plain(const struct message *message, struct sp_hlo *hlo, struct sp_error *err)
{
    const struct sp_hlo_found *found = message->found;
    const struct sp_hlo_reader *reader = message->reader;
    int64_t *numbers, tiles = 1;
    bool is_maximal = hlo->type == SP_HLO_MAXIMAL;
    enum sp_status status = SP_OK;
    if (is_maximal && (found[DEVICES].count != 1 || found[IOTA_DIMS].count > 0))
        return sp_hlo_fail_field(reader, "tile_assignment_devices", err, "DEVICES_OF_KIND",
                                 "The sharding is MAXIMAL: maximal shardings should have exactly one device assigned, "
                                 "but this has %" PRIu64 "%s.",
                                 found[DEVICES].count, found[IOTA_DIMS].count > 0 ? " and an iota" : "");
    if (found[TILE_DIMS].count > 0 && is_maximal) {
        status = collect(message, TILE_DIMS, &numbers, err);
        if (status == SP_OK)
            status = sp_hlo_tile_count((uint32_t)found[TILE_DIMS].count, numbers, &tiles, err);
    }
    if (status == SP_OK && (tiles != 1 || (!is_maximal && found[TILE_DIMS].count + found[DEVICES].count +
                                                                  found[IOTA_DIMS].count + found[IOTA_PERM].count >
                                                              0)))
        return sp_hlo_fail_field(reader, "tile_assignment_dimensions", err, "DEVICES_OF_KIND",
                                 "The sharding is wrong: %s shardings should not have any devices assigned%s.",
                                 sp_hlo_type_name(hlo->type), is_maximal ? " but the one, and one tile" : "");
    if (status == SP_OK && (found[LAST_TILE_DIMS].count > 0 || found[REPLICATE_LAST].value != 0))
        return sp_hlo_fail_field(reader, "last_tile_dims", err, "SUBGROUPS_OF_KIND",
                                 "The sharding is %s, which has no last tile dims.", sp_hlo_type_name(hlo->type));
    if (status == SP_OK && is_maximal) {
        status = collect(message, DEVICES, &numbers, err);
        if (status == SP_OK)
            status = sp_hlo_list_order(reader->arena, 1, numbers, &hlo->order, err);
    }
    return sp_hlo_error_at(reader, "tile_assignment_devices", status, err);
}

/* Everything but tuples. */
static enum sp_status read_leaf(const struct message *message, struct sp_hlo *hlo, struct sp_error *err)
{
    const struct sp_hlo_found *found = message->found;
    struct sp_hlo_metadata *metadata;
    *hlo = (struct sp_hlo){.type = (enum sp_hlo_type)found[TYPE].value};
    if (found[ELEMENTS].count > 0)
        return sp_hlo_fail_field(message->reader, "tuple_shardings", err, "ELEMENTS_OF_KIND",
                                 "The sharding is %s, but has elements like a tuple.", sp_hlo_type_name(hlo->type));
    enum sp_status status =
        sp_hlo_read_metadata(message->reader, message->span, METADATA, found[METADATA].count, &metadata, err);
    if (status != SP_OK)
        return status;
    hlo->metadata_count = (uint32_t)found[METADATA].count;
    status = sp_hlo_take_combiner(hlo, metadata, err);
    if (status != SP_OK)
        return sp_hlo_error_at(message->reader, "metadata", status, err);
    if (status == SP_OK)
        status = read_group(message, hlo, err);
    if (status == SP_OK)
        status = hlo->type == SP_HLO_OTHER ? read_tiled(message, hlo, err) : read_plain(message, hlo, err);
    if (status == SP_OK && !sp_hlo_is_partial(hlo))
        hlo->combiner = SP_COMBINE_NONE;
    return status;
}

/* Scans the message and does what needs no element; *ret_is_tuple when the rest is up to the caller. */
static enum sp_status read_message(struct message *message, struct sp_hlo *hlo, bool *ret_is_tuple,
                                   struct sp_error *err)
{
    const struct sp_hlo_found *found = message->found;
    *ret_is_tuple = false;
    enum sp_status status = sp_hlo_scan(message->reader, message->span, &schema, message->found, err);
    if (status == SP_OK && found[TILE_SHAPE].count > 0)
        status = check_shape(message->reader, found[TILE_SHAPE].span, err);
    if (status != SP_OK)
        return status;
    if (found[NAMED].count > 0)
        return sp_hlo_read_named_proto(message->reader, found[NAMED].span, hlo, err);
    if (found[TYPE].value > SP_HLO_UNREDUCED)
        return sp_hlo_fail_field(message->reader, "type", err, "UNKNOWN_TYPE",
                                 "The sharding type %" PRIu64 " does not exist; types are 0 to %d.", found[TYPE].value,
                                 SP_HLO_UNREDUCED);
    *ret_is_tuple = found[TYPE].value == SP_HLO_TUPLE;
    return *ret_is_tuple ? SP_OK : read_leaf(message, hlo, err);
}

static enum sp_status read_tuple(const struct message *tuple, struct sp_hlo *hlo, struct sp_error *err)
{
    const struct sp_hlo_found *found = tuple->found;
    struct sp_wire wire = sp_wire_of(tuple->reader->bytes, tuple->span);
    if (found[METADATA].count > 0)
        return sp_hlo_fail_field(tuple->reader, "metadata", err, "METADATA_OF_TUPLE",
                                 "Tuple sharding is expected to have no metadata; its elements may have some.");
    for (uint32_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint32_t number = fields[i].number;
        if (found[number].count > 0 && number != TYPE && number != ELEMENTS && number != TILE_SHAPE &&
            (fields[i].shape != SP_HLO_SCALAR || found[number].value != 0))
            return sp_hlo_fail_field(tuple->reader, fields[i].name, err, "FIELD_OF_TUPLE",
                                     "A tuple has elements and nothing else, but this one has the field %s.",
                                     fields[i].name);
    }
    uint32_t count = (uint32_t)found[ELEMENTS].count;
    struct sp_hlo *elements = SP_NEW_ARRAY(tuple->reader->arena, count, struct sp_hlo);
    if (elements == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        struct sp_hlo_reader reader = *tuple->reader;
        struct message message = {.reader = &reader};
        bool more, is_tuple = false;
        reader.element = i;
        enum sp_status status = sp_hlo_next_message(&wire, ELEMENTS, &message.span, &more, err);
        if (status == SP_OK)
            status = read_message(&message, &elements[i], &is_tuple, err);
        if (status == SP_OK && is_tuple)
            return sp_hlo_fail_field(&reader, "", err, "NESTED_TUPLE",
                                     "Element %" PRIu32 " of the tuple is a tuple; tuples are flat.", i);
        if (status != SP_OK)
            return status;
    }
    *hlo = (struct sp_hlo){.type = SP_HLO_TUPLE, .element_count = count, .elements = elements};
    return SP_OK;
}

enum sp_status sp_hlo_read_proto(struct sp_arena *arena, const unsigned char *bytes, size_t size,
                                 struct sp_hlo **ret_hlo, struct sp_error *err)
{
    struct sp_hlo_reader reader = {.arena = arena, .bytes = bytes, .element = -1};
    struct message message = {.reader = &reader, .span = {.offset = 0, .size = size}};
    bool is_tuple;
    if (size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(err, "SHARDING_TOO_LARGE", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                             "The sharding has %zu bytes; at most %u are read.", size, SP_MAX_SHARDING_BYTES);
    struct sp_hlo *hlo = SP_NEW(arena, struct sp_hlo);
    if (hlo == NULL)
        return sp_fail_memory(err);
    enum sp_status status = read_message(&message, hlo, &is_tuple, err);
    if (status == SP_OK && is_tuple)
        status = read_tuple(&message, hlo, err);
    if (status == SP_OK)
        *ret_hlo = hlo;
    return status;
}
