/* NamedShardingProto: V3 as bytes. */
#include <inttypes.h>

#include "sharding/hlo/proto.h"

#define AXES SP_MAX_SHARDING_AXES, "SP_MAX_SHARDING_AXES"
#define SCHEMA(message, table)                                                                                         \
    {                                                                                                                  \
        .name = (message), .count = sizeof table / sizeof *(table), .fields = (table)                                  \
    }

static const struct sp_hlo_field sub_axis_fields[] = {
    {1, SP_HLO_SCALAR, 0, NULL, "pre_size"},
    {2, SP_HLO_SCALAR, 0, NULL, "size"},
};
static const struct sp_hlo_schema sub_axis = SCHEMA("AxisRefProto.SubAxisInfo", sub_axis_fields);

static const struct sp_hlo_field axis_ref_fields[] = {
    {1, SP_HLO_SCALAR, 0, NULL, "mesh_axis_index"},
    {2, SP_HLO_MESSAGE, 0, NULL, "sub_axis_info"},
};
static const struct sp_hlo_schema axis_ref = SCHEMA("AxisRefProto", axis_ref_fields);

static const struct sp_hlo_field dim_fields[] = {
    {1, SP_HLO_MESSAGES, AXES, "axes"},
    {2, SP_HLO_SCALAR, 0, NULL, "is_closed"},
};
static const struct sp_hlo_schema dim_sharding = SCHEMA("DimensionSharding", dim_fields);

static const struct sp_hlo_field mesh_axis_fields[] = {
    {1, SP_HLO_TEXT, 0, NULL, "name"},
    {2, SP_HLO_SCALAR, 0, NULL, "size"},
};
static const struct sp_hlo_schema mesh_axis = SCHEMA("MeshProto.MeshAxis", mesh_axis_fields);

static const struct sp_hlo_field iota_fields[] = {
    {1, SP_HLO_NUMBERS, AXES, "reshape_dims"},
    {2, SP_HLO_NUMBERS, AXES, "transpose_perm"},
};
static const struct sp_hlo_schema iota_transform = SCHEMA("MeshProto.IotaTransform", iota_fields);

static const struct sp_hlo_field mesh_fields[] = {
    {1, SP_HLO_MESSAGES, AXES, "axes"},
    {2, SP_HLO_NUMBERS, SP_MAX_LISTED_DEVICES, "SP_MAX_LISTED_DEVICES", "device_ids"},
    {3, SP_HLO_MESSAGE, 0, NULL, "iota_transform"},
};
static const struct sp_hlo_schema mesh_schema = SCHEMA("MeshProto", mesh_fields);

static const struct sp_hlo_field named_fields[] = {
    {2, SP_HLO_MESSAGE, 0, NULL, "mesh"},
    {3, SP_HLO_MESSAGES, SP_MAX_RANK, "SP_MAX_RANK", "dim_shardings"},
    {4, SP_HLO_MESSAGES, AXES, "replicated_axes"},
    {5, SP_HLO_MESSAGES, AXES, "unreduced_axes"},
    {6, SP_HLO_MESSAGES, SP_MAX_SHARDING_METADATA, "SP_MAX_SHARDING_METADATA", "metadata"},
    {7, SP_HLO_MESSAGES, AXES, "manual_axes"},
    {8, SP_HLO_SCALAR, 0, NULL, "reduction_op"},
};
static const struct sp_hlo_schema named_schema = SCHEMA("NamedShardingProto", named_fields);

static enum sp_status read_mesh_axes(const struct sp_hlo_reader *reader, struct sp_span span, uint32_t count,
                                     struct sp_mesh_axis *axes, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, span);
    struct sp_hlo_found found[SP_HLO_MAX_FIELD + 1];
    for (uint32_t i = 0; i < count; i++) {
        struct sp_span item;
        bool more;
        const char *name = NULL;
        enum sp_status status = sp_hlo_next_message(&wire, 1, &item, &more, err);
        if (status == SP_OK)
            status = sp_hlo_scan(reader, item, &mesh_axis, found, err);
        if (status == SP_OK)
            status = sp_hlo_read_name(reader, found[1].span, &name, err);
        if (status != SP_OK)
            return status;
        axes[i] = (struct sp_mesh_axis){.name = name != NULL ? name : "", .size = (int64_t)found[2].value};
    }
    return SP_OK;
}

static enum sp_status read_iota(const struct sp_hlo_reader *reader, struct sp_span span,
                                struct sp_device_order *ret_order, struct sp_error *err)
{
    struct sp_hlo_found found[SP_HLO_MAX_FIELD + 1];
    int64_t *dims, *perm;
    enum sp_status status = sp_hlo_scan(reader, span, &iota_transform, found, err);
    if (status == SP_OK && found[1].count != found[2].count)
        return sp_hlo_fail_field(reader, "named_sharding.mesh.iota_transform", err, "BAD_PERMUTATION",
                                 "The iota_transform of the mesh has %" PRIu64 " dims, but its permutation has %" PRIu64
                                 " entries.",
                                 found[1].count, found[2].count);
    if (status == SP_OK)
        status = sp_hlo_collect(reader, span, 1, &found[1], &dims, err);
    if (status == SP_OK)
        status = sp_hlo_collect(reader, span, 2, &found[2], &perm, err);
    return status == SP_OK ? sp_device_order_iota(reader->arena, (uint32_t)found[1].count, dims, perm, ret_order, err)
                           : status;
}

static enum sp_status read_mesh(const struct sp_hlo_reader *reader, struct sp_span span, struct sp_mesh **ret_mesh,
                                struct sp_error *err)
{
    struct sp_hlo_found found[SP_HLO_MAX_FIELD + 1];
    struct sp_mesh_axis axes[SP_MAX_SHARDING_AXES];
    struct sp_hlo_numbers ids = {0};
    struct sp_device_order order;
    enum sp_status status = sp_hlo_scan(reader, span, &mesh_schema, found, err);
    if (status != SP_OK)
        return status;
    uint32_t count = (uint32_t)found[1].count;
    ids.count = (int64_t)found[2].count;
    if (ids.count > 0 && found[3].count > 0)
        return sp_hlo_fail_field(reader, "named_sharding.mesh", err, "BAD_MESH",
                                 "The mesh has both device_ids and an iota_transform; one of them says it all.");
    if (count == 0 && (ids.count > 1 || found[3].count > 0))
        return sp_hlo_fail_field(reader, "named_sharding.mesh", err, "BAD_MESH",
                                 "The mesh has no axes: a maximal mesh must have exactly 1 device id, and no iota.");
    status = read_mesh_axes(reader, span, count, axes, err);
    if (status == SP_OK && ids.count > 0)
        status = sp_hlo_collect(reader, span, 2, &found[2], &ids.items, err);
    else if (status == SP_OK && found[3].count > 0)
        status = read_iota(reader, found[3].span, &order, err);
    if (status == SP_OK && count == 0 && ids.count == 1)
        status = sp_mesh_single(reader->arena, ids.items[0], ret_mesh, err);
    else if (status == SP_OK)
        status = sp_hlo_create_mesh(reader->arena, count, axes, ids.count > 0 ? &ids : NULL,
                                    found[3].count > 0 ? &order : NULL, ret_mesh, err);
    return sp_hlo_error_at(reader, "named_sharding.mesh", status, err);
}

static enum sp_status read_ref(const struct sp_hlo_reader *reader, struct sp_span span, const struct sp_mesh *mesh,
                               struct sp_axis_ref *ret_ref, struct sp_error *err)
{
    struct sp_hlo_found found[SP_HLO_MAX_FIELD + 1], sub[SP_HLO_MAX_FIELD + 1];
    enum sp_status status = sp_hlo_scan(reader, span, &axis_ref, found, err);
    bool is_sub = status == SP_OK && found[2].count > 0;
    if (is_sub)
        status = sp_hlo_scan(reader, found[2].span, &sub_axis, sub, err);
    if (status != SP_OK)
        return status;
    struct sp_axis_ref ref = {.axis = found[1].value < UINT32_MAX ? (uint32_t)found[1].value : UINT32_MAX, .pre = 1};
    if (is_sub) {
        ref.pre = (int64_t)sub[1].value;
        ref.size = (int64_t)sub[2].value;
    } else if (ref.axis < mesh->axis_count) {
        ref.size = mesh->axes[ref.axis].size;
    }
    *ret_ref = ref;
    return sp_hlo_check_ref(mesh, ref, is_sub, err);
}

/* The refs under this field number of a message that was scanned. */
static enum sp_status read_refs(const struct sp_hlo_reader *reader, struct sp_span message, uint32_t number,
                                uint64_t count, const struct sp_mesh *mesh, struct sp_axis_list *ret_list,
                                struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, message);
    struct sp_axis_list list = {.count = (uint32_t)count,
                                .refs = SP_NEW_ARRAY(reader->arena, (size_t)count, struct sp_axis_ref)};
    if (list.refs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < list.count; i++) {
        struct sp_span item;
        bool more;
        enum sp_status status = sp_hlo_next_message(&wire, number, &item, &more, err);
        if (status == SP_OK)
            status = read_ref(reader, item, mesh, &list.refs[i], err);
        if (status != SP_OK)
            return status;
    }
    *ret_list = list;
    return SP_OK;
}

static enum sp_status read_dims(const struct sp_hlo_reader *reader, struct sp_span message, struct sp_sharding *axes,
                                struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, message);
    struct sp_hlo_found found[SP_HLO_MAX_FIELD + 1];
    for (uint32_t i = 0; i < axes->rank; i++) {
        struct sp_span item;
        bool more;
        enum sp_status status = sp_hlo_next_message(&wire, 3, &item, &more, err);
        if (status == SP_OK)
            status = sp_hlo_scan(reader, item, &dim_sharding, found, err);
        if (status == SP_OK)
            status = read_refs(reader, item, 1, found[1].count, axes->mesh, &axes->dims[i].axes, err);
        if (status != SP_OK)
            return status;
        axes->dims[i].is_open = found[2].value == 0;
    }
    return SP_OK;
}

static enum sp_status read_axes(const struct sp_hlo_reader *reader, struct sp_span span,
                                const struct sp_hlo_found found[static SP_HLO_MAX_FIELD + 1], struct sp_sharding *axes,
                                struct sp_error *err)
{
    static const enum sp_combiner combiners[] = {SP_COMBINE_SUM, SP_COMBINE_MAX, SP_COMBINE_MIN};
    if (found[8].value >= sizeof combiners / sizeof *combiners)
        return sp_hlo_fail_field(reader, "named_sharding.reduction_op", err, "BAD_REDUCTION_OP",
                                 "The reduction operator %" PRIu64 " is none of SUM (0), MAX (1) and MIN (2).",
                                 found[8].value);
    axes->combiner = combiners[found[8].value];
    enum sp_status status = read_dims(reader, span, axes, err);
    if (status == SP_OK)
        status = read_refs(reader, span, 4, found[4].count, axes->mesh, &axes->replicated, err);
    if (status == SP_OK)
        status = read_refs(reader, span, 5, found[5].count, axes->mesh, &axes->partial, err);
    if (status == SP_OK)
        status = read_refs(reader, span, 7, found[7].count, axes->mesh, &axes->manual, err);
    return status;
}

enum sp_status sp_hlo_read_named_proto(const struct sp_hlo_reader *reader, struct sp_span span, struct sp_hlo *hlo,
                                       struct sp_error *err)
{
    struct sp_hlo_found found[SP_HLO_MAX_FIELD + 1];
    struct sp_mesh *mesh = NULL;
    struct sp_sharding *axes = NULL;
    struct sp_hlo_metadata *metadata = NULL;
    *hlo = (struct sp_hlo){0};
    enum sp_status status = sp_hlo_scan(reader, span, &named_schema, found, err);
    if (status == SP_OK)
        status = read_mesh(reader, found[2].span, &mesh, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(reader->arena, mesh, (uint32_t)found[3].count, &axes, err);
    if (status == SP_OK)
        status = read_axes(reader, span, found, axes, err);
    if (status == SP_OK)
        status = sp_hlo_set_named(reader->arena, axes, hlo, err);
    if (status == SP_OK)
        status = sp_hlo_read_metadata(reader, span, 6, found[6].count, &metadata, err);
    if (status == SP_OK) {
        hlo->metadata_count = (uint32_t)found[6].count;
        hlo->metadata = metadata;
    }
    return sp_hlo_error_at(reader, "named_sharding", status, err);
}
