/*
 * Trilu and EyeLike on shards: the diagonal moves by where the part begins. Where the part is several ranges, the mask
 * is made from the indices of rows and columns.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/places.h"
#include "ops/table/shape_helpers.h"

/* The part's rows and columns. */
struct part {
    uint8_t rows, columns; /* factors */
    const struct sp_axis_ranges *row_ranges, *column_ranges;
    bool is_block;  /* one range of each */
    int64_t offset; /* of the diagonal of a block */
};

static struct part part_of(const struct sp_lowering *lower)
{
    uint32_t rank = lower->outputs[0].rank;
    struct part part = {.rows = sp_lower_output_factor(lower, 0, rank - 2),
                        .columns = sp_lower_output_factor(lower, 0, rank - 1),
                        .row_ranges = &lower->outputs[0].axes[rank - 2].ranges,
                        .column_ranges = &lower->outputs[0].axes[rank - 1].ranges};
    part.is_block = part.row_ranges->count == 1 && part.column_ranges->count == 1;
    part.offset = part.row_ranges->ranges[0].start - part.column_ranges->ranges[0].start;
    return part;
}

/* [rows, columns]: column - row */
static struct sp_piece *distances(struct sp_lowering *lower, const struct part *part)
{
    struct sp_piece *rows = sp_lower_unsqueeze(lower, sp_lower_indices(lower, part->rows, part->row_ranges), 1);
    struct sp_piece *columns = sp_lower_indices(lower, part->columns, part->column_ranges);
    return sp_lower_binary(lower, "Sub", sp_lower_unsqueeze(lower, columns, 0), rows);
}

static bool check_known(struct sp_lowering *lower, const struct part *part)
{
    char subject[300];
    if (part->is_block || (part->row_ranges->ranges[0].limit >= 0 && part->column_ranges->ranges[0].limit >= 0))
        return true;
    sp_lower_any_whole(lower,
                       "%s has several ranges of one axis of its matrix on a device, and the extent of the other "
                       "is not known, so it is computed whole on every device.",
                       sp_op_subject(lower->node, subject, sizeof subject));
    return false;
}

/* ---- Trilu ---------------------------------------------------------------------------------------------------- */

enum sp_status sp_lower_node_trilu(struct sp_lowering *lower)
{
    struct part part = part_of(lower);
    bool is_upper = sp_node_int(lower->node, "upper", 1) != 0;
    if (!check_known(lower, &part))
        return sp_lower_status(lower);
    struct sp_piece *x = sp_lower_input(lower, 0), *k = sp_lower_input(lower, 1);
    if (part.is_block) {
        struct sp_piece *shift = sp_lower_int(lower, SP_DTYPE_INT64, part.offset);
        struct sp_piece *const inputs[] = {x, k == NULL ? shift : sp_lower_binary(lower, "Add", k, shift)};
        sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, 0, NULL));
        return sp_lower_status(lower);
    }
    struct sp_piece *distance = distances(lower, &part);
    if (k == NULL)
        k = sp_lower_int(lower, SP_DTYPE_INT64, 0);
    struct sp_piece *is_cut = sp_lower_compare(lower, is_upper ? "Less" : "Greater", distance, k);
    sp_lower_output(lower, 0, sp_lower_masked(lower, sp_lower_unary(lower, "Not", is_cut), x));
    return sp_lower_status(lower);
}

/* ---- EyeLike -------------------------------------------------------------------------------------------------- */

/* Something of the part's shape and the input's type: a constant where the shape is known. */
static struct sp_piece *like_part(struct sp_lowering *lower)
{
    const struct sp_lower_operand *x = &lower->inputs[0], *y = &lower->outputs[0];
    const int64_t *dims = sp_lower_part_dims(lower, y);
    struct sp_axis_ranges axes[2] = {y->axes[0].ranges, y->axes[1].ranges};
    if (!sp_lower_is_fine(lower))
        return NULL;
    return dims != NULL ? sp_lower_full(lower, x->value->type.dtype, 2, dims, 0) : sp_lower_input_axes(lower, 0, axes);
}

enum sp_status sp_lower_node_eye_like(struct sp_lowering *lower)
{
    struct part part = part_of(lower);
    int64_t k = sp_node_int(lower->node, "k", 0);
    if (!check_known(lower, &part))
        return sp_lower_status(lower);
    if (part.is_block) {
        struct sp_piece *const like = like_part(lower);
        const struct sp_lower_attribute diagonal = SP_INT_ATTR("k", k + part.offset);
        sp_lower_output(lower, 0, sp_lower_same(lower, 1, &like, 1, &diagonal));
        return sp_lower_status(lower);
    }
    struct sp_piece *is_one =
        sp_lower_compare(lower, "Equal", distances(lower, &part), sp_lower_int(lower, SP_DTYPE_INT64, k));
    sp_lower_output(lower, 0, sp_lower_cast(lower, is_one, lower->outputs[0].value->type.dtype));
    return sp_lower_status(lower);
}
