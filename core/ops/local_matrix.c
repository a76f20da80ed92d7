/*
 * Trilu and EyeLike on shards: the diagonal moves by where the part begins. Where the part is several ranges, the mask
 * is made from the indices of rows and columns.
 */
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_places.h"

/* The part's rows and columns. */
struct part {
    uint8_t rows, columns; /* factors */
    const struct sp_axis_ranges *row_ranges, *column_ranges;
    bool is_block;  /* one range of each */
    int64_t offset; /* of the diagonal of a block */
};

static struct part part_of(const struct sp_local *local)
{
    uint32_t rank = local->outputs[0].rank;
    struct part part = {.rows = sp_local_output_factor(local, 0, rank - 2),
                        .columns = sp_local_output_factor(local, 0, rank - 1),
                        .row_ranges = &local->outputs[0].axes[rank - 2].ranges,
                        .column_ranges = &local->outputs[0].axes[rank - 1].ranges};
    part.is_block = part.row_ranges->count == 1 && part.column_ranges->count == 1;
    part.offset = part.row_ranges->ranges[0].start - part.column_ranges->ranges[0].start;
    return part;
}

/* [rows, columns]: column - row */
static struct sp_piece *distances(struct sp_local *local, const struct part *part)
{
    struct sp_piece *rows = sp_local_unsqueeze(local, sp_local_indices(local, part->rows, part->row_ranges), 1);
    struct sp_piece *columns = sp_local_indices(local, part->columns, part->column_ranges);
    return sp_local_binary(local, "Sub", sp_local_unsqueeze(local, columns, 0), rows);
}

static bool check_known(struct sp_local *local, const struct part *part)
{
    char subject[300];
    if (part->is_block || (part->row_ranges->ranges[0].limit >= 0 && part->column_ranges->ranges[0].limit >= 0))
        return true;
    sp_local_any_whole(local,
                       "%s has several ranges of one axis of its matrix on a device, and the extent of the other "
                       "is not known, so it is computed whole on every device.",
                       sp_op_subject(local->node, subject, sizeof(subject)));
    return false;
}

/* ---- Trilu ---------------------------------------------------------------------------------------------------- */

enum sp_status sp_local_node_trilu(struct sp_local *local)
{
    struct part part = part_of(local);
    bool is_upper = sp_node_int(local->node, "upper", 1) != 0;
    if (!check_known(local, &part))
        return sp_local_status(local);
    struct sp_piece *x = sp_local_input(local, 0), *k = sp_local_input(local, 1);
    if (part.is_block) {
        struct sp_piece *shift = sp_local_int(local, SP_DTYPE_INT64, part.offset);
        struct sp_piece *const inputs[] = {x, k == NULL ? shift : sp_local_binary(local, "Add", k, shift)};
        sp_local_output(local, 0, sp_local_same(local, 2, inputs, 0, NULL));
        return sp_local_status(local);
    }
    struct sp_piece *distance = distances(local, &part);
    if (k == NULL)
        k = sp_local_int(local, SP_DTYPE_INT64, 0);
    struct sp_piece *is_cut = sp_local_compare(local, is_upper ? "Less" : "Greater", distance, k);
    sp_local_output(local, 0, sp_local_masked(local, sp_local_unary(local, "Not", is_cut), x));
    return sp_local_status(local);
}

/* ---- EyeLike -------------------------------------------------------------------------------------------------- */

/* Something of the part's shape and the input's type: a constant where the shape is known. */
static struct sp_piece *like_part(struct sp_local *local)
{
    const struct sp_local_operand *x = &local->inputs[0], *y = &local->outputs[0];
    const int64_t *dims = sp_local_part_dims(local, y);
    struct sp_axis_ranges axes[2] = {y->axes[0].ranges, y->axes[1].ranges};
    if (!sp_local_is_fine(local))
        return NULL;
    return dims != NULL ? sp_local_full(local, x->value->type.dtype, 2, dims, 0) : sp_local_input_axes(local, 0, axes);
}

enum sp_status sp_local_node_eye_like(struct sp_local *local)
{
    struct part part = part_of(local);
    int64_t k = sp_node_int(local->node, "k", 0);
    if (!check_known(local, &part))
        return sp_local_status(local);
    if (part.is_block) {
        struct sp_piece *const like = like_part(local);
        const struct sp_local_attribute diagonal = SP_INT_ATTR("k", k + part.offset);
        sp_local_output(local, 0, sp_local_same(local, 1, &like, 1, &diagonal));
        return sp_local_status(local);
    }
    struct sp_piece *is_one =
        sp_local_compare(local, "Equal", distances(local, &part), sp_local_int(local, SP_DTYPE_INT64, k));
    sp_local_output(local, 0, sp_local_cast(local, is_one, local->outputs[0].value->type.dtype));
    return sp_local_status(local);
}
