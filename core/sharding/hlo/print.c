/* HloSharding text, in XLA's order and with its blanks. */
#include <inttypes.h>
#include <string.h>

#include "sharding/hlo/internal.h"

/* C escapes; bytes outside printable ASCII in octal. */
static void put_string(struct sp_buf *buf, char quote, const char *text)
{
    sp_buf_append(buf, &quote, 1);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '\n')
            sp_buf_text(buf, "\\n");
        else if (*c == '\r')
            sp_buf_text(buf, "\\r");
        else if (*c == '\t')
            sp_buf_text(buf, "\\t");
        else if (*c == '"' || *c == '\'' || *c == '\\')
            sp_buf_printf(buf, "\\%c", *c);
        else if (*c < 0x20 || *c > 0x7e)
            sp_buf_printf(buf, "\\%03o", *c);
        else
            sp_buf_append(buf, c, 1);
    }
    sp_buf_append(buf, &quote, 1);
}

static void put_ints(struct sp_buf *buf, int64_t count, const int64_t *items)
{
    for (int64_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%" PRId64, i > 0 ? "," : "", items[i]);
}

/* A list, or an iota. */
static void put_order(struct sp_buf *buf, const struct sp_device_order *order)
{
    if (order->ids != NULL) {
        put_ints(buf, order->count, order->ids);
        return;
    }
    sp_buf_text(buf, "[");
    put_ints(buf, order->rank, order->dims);
    sp_buf_text(buf, "]");
    if (order->rank == 1)
        return;
    for (uint32_t i = 0; i < order->rank; i++)
        sp_buf_printf(buf, "%s%" PRIu32, i > 0 ? "," : "T(", order->perm[i]);
    sp_buf_text(buf, ")");
}

/* ---- metadata ---- */

static void put_field(struct sp_buf *buf, bool *first, const char *name, const char *text)
{
    if (text == NULL)
        return;
    sp_buf_printf(buf, "%s%s=", *first ? "" : " ", name);
    put_string(buf, '"', text);
    *first = false;
}

static void put_line(struct sp_buf *buf, bool *first, const char *name, int32_t number)
{
    if (number == 0)
        return;
    sp_buf_printf(buf, "%s%s=%" PRId32, *first ? "" : " ", name, number);
    *first = false;
}

static void put_entry(struct sp_buf *buf, const struct sp_hlo_metadata *entry)
{
    bool first = true;
    put_field(buf, &first, "op_type", entry->op_type);
    put_field(buf, &first, "op_name", entry->op_name);
    put_field(buf, &first, "source_file", entry->source_file);
    put_line(buf, &first, "source_line", entry->source_line);
    put_line(buf, &first, "source_end_line", entry->source_end_line);
    put_line(buf, &first, "source_column", entry->source_column);
    put_line(buf, &first, "source_end_column", entry->source_end_column);
}

/* `extra` is an entry behind the others, or NULL. One entry stands without braces of its own unless `always_list`. */
static void put_metadata(struct sp_buf *buf, const char *separator, const struct sp_hlo *hlo,
                         const struct sp_hlo_metadata *extra, bool always_list)
{
    uint32_t count = hlo->metadata_count + (extra != NULL);
    bool is_list = always_list || count > 1;
    if (count == 0)
        return;
    sp_buf_printf(buf, "%smetadata={", separator);
    for (uint32_t i = 0; i < count; i++) {
        sp_buf_printf(buf, "%s%s", i > 0 ? ", " : "", is_list ? "{" : "");
        put_entry(buf, i < hlo->metadata_count ? &hlo->metadata[i] : extra);
        sp_buf_text(buf, is_list ? "}" : "");
    }
    sp_buf_text(buf, "}");
}

/* ---- V3 ---- */

static void put_ref(struct sp_buf *buf, const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    put_string(buf, '\'', mesh->axes[ref.axis].name);
    if (!sp_axis_is_full(mesh, ref))
        sp_buf_printf(buf, ":(%" PRId64 ")%" PRId64, ref.pre, ref.size);
}

static void put_refs(struct sp_buf *buf, const struct sp_mesh *mesh, const struct sp_axis_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        sp_buf_text(buf, i > 0 ? ", " : "");
        put_ref(buf, mesh, list->refs[i]);
    }
}

static void put_list(struct sp_buf *buf, const char *name, const struct sp_mesh *mesh, const struct sp_axis_list *list)
{
    if (list->count == 0)
        return;
    sp_buf_printf(buf, ", %s{", name);
    put_refs(buf, mesh, list);
    sp_buf_text(buf, "}");
}

static void put_mesh(struct sp_buf *buf, const struct sp_mesh *mesh)
{
    sp_buf_text(buf, "mesh[");
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        sp_buf_text(buf, i > 0 ? "," : "");
        put_string(buf, '\'', mesh->axes[i].name);
        sp_buf_printf(buf, "=%" PRId64, mesh->axes[i].size);
    }
    sp_buf_text(buf, "]");
    if (mesh->order.count == 0 || (mesh->order.ids == NULL && mesh->order.rank == 1))
        return;
    sp_buf_text(buf, ", device_ids=(");
    put_order(buf, &mesh->order);
    sp_buf_text(buf, ")");
}

static const char *unreduced_name(enum sp_combiner combiner)
{
    if (combiner == SP_COMBINE_MAX)
        return "unreduced=max";
    return combiner == SP_COMBINE_MIN ? "unreduced=min" : "unreduced=";
}

/* Without axes: {unreduced}, {unreduced=max}. */
static void put_unreduced(struct sp_buf *buf, enum sp_combiner combiner)
{
    const char *name = unreduced_name(combiner);
    size_t length = strlen(name);
    sp_buf_append(buf, name, name[length - 1] == '=' ? length - 1 : length);
}

static void put_axes(struct sp_buf *buf, const struct sp_sharding *named)
{
    put_mesh(buf, named->mesh);
    sp_buf_text(buf, ", [");
    for (uint32_t i = 0; i < named->rank; i++) {
        const struct sp_dim_sharding *dim = &named->dims[i];
        sp_buf_text(buf, i > 0 ? ", {" : "{");
        put_refs(buf, named->mesh, &dim->axes);
        if (dim->is_open)
            sp_buf_text(buf, dim->axes.count > 0 ? ", ?" : "?");
        sp_buf_text(buf, "}");
    }
    sp_buf_text(buf, "]");
    put_list(buf, "replicated=", named->mesh, &named->replicated);
    put_list(buf, unreduced_name(named->combiner), named->mesh, &named->partial);
    put_list(buf, "manual=", named->mesh, &named->manual);
}

static void put_named(struct sp_buf *buf, const struct sp_hlo *hlo, bool metadata)
{
    const struct sp_sharding *named = hlo->named;
    sp_buf_text(buf, "{");
    switch ((int)named->kind) {
    case SP_SHARDING_REPLICATED:
        sp_buf_text(buf, "replicated");
        break;
    case SP_SHARDING_UNREDUCED:
        put_unreduced(buf, named->combiner);
        break;
    case SP_SHARDING_SINGLE:
        sp_buf_printf(buf, "maximal_mesh[device_id=%" PRId64 "]", named->device);
        break;
    case SP_SHARDING_MANUAL:
        put_mesh(buf, named->mesh);
        sp_buf_text(buf, ", manual");
        break;
    default:
        put_axes(buf, named);
        break;
    }
    if (metadata)
        put_metadata(buf, ", ", hlo, NULL, true);
    sp_buf_text(buf, "}");
}

/* ---- V1 and V2 ---- */

static void put_tiles(struct sp_buf *buf, const struct sp_hlo *hlo)
{
    sp_buf_text(buf, "devices=[");
    put_ints(buf, hlo->dim_count, hlo->dims);
    sp_buf_text(buf, hlo->order.ids != NULL ? "]" : "]<=");
    put_order(buf, &hlo->order);
    if (hlo->replicate_last)
        sp_buf_text(buf, " last_tile_dim_replicate");
    if (hlo->subgroup_count == 0)
        return;
    sp_buf_text(buf, " last_tile_dims={");
    for (uint32_t i = 0; i < hlo->subgroup_count; i++)
        sp_buf_printf(buf, "%s%s", i > 0 ? ", " : "", sp_hlo_type_name(hlo->subgroups[i]));
    sp_buf_text(buf, "}");
}

/* One sharding that is no tuple. The combiner of a subgroup has no place in the text; it goes, when it is not the sum,
   where the bytes have it, in the metadata. */
static void put_leaf(struct sp_buf *buf, const struct sp_hlo *hlo, bool metadata)
{
    struct sp_hlo_metadata combiner = {.op_type = sp_hlo_reduction_op, .op_name = sp_hlo_combiner_name(hlo->combiner)};
    if (hlo->is_named) {
        put_named(buf, hlo, metadata);
        return;
    }
    sp_buf_text(buf, "{");
    if (hlo->type == SP_HLO_OTHER)
        put_tiles(buf, hlo);
    else if (hlo->type == SP_HLO_UNREDUCED)
        put_unreduced(buf, hlo->combiner);
    else
        sp_buf_text(buf, sp_hlo_type_name(hlo->type));
    if (hlo->type == SP_HLO_MAXIMAL)
        sp_buf_printf(buf, " device=%" PRId64, sp_device_order_at(&hlo->order, 0));
    if (hlo->has_group)
        sp_buf_printf(buf, " shard_%s %" PRId64, hlo->is_group_like ? "like" : "as", hlo->group_id);
    if (metadata) {
        bool needs_combiner = hlo->type == SP_HLO_OTHER && sp_hlo_is_partial(hlo) && hlo->combiner != SP_COMBINE_SUM;
        put_metadata(buf, " ", hlo, needs_combiner ? &combiner : NULL, false);
    }
    sp_buf_text(buf, "}");
}

void sp_hlo_write_text(const struct sp_hlo *hlo, bool metadata, struct sp_buf *buf)
{
    if (hlo->is_named || hlo->type != SP_HLO_TUPLE) {
        put_leaf(buf, hlo, metadata);
        return;
    }
    sp_buf_text(buf, "{");
    for (uint32_t i = 0; i < hlo->element_count; i++) {
        if (i > 0 && i % 5 == 0)
            sp_buf_printf(buf, ", /*index=%" PRIu32 "*/", i);
        else if (i > 0)
            sp_buf_text(buf, ", ");
        put_leaf(buf, &hlo->elements[i], metadata);
    }
    sp_buf_text(buf, "}");
}
