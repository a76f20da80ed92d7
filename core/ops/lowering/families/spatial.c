/*
 * The parts of Col2Im (spatial.c).
 *
 * Where the windows tile the image it is the operator on the part's image and block. Else the columns of a device make
 * an image of their own, without padding, that lies somewhere in the padded one; it is put there and cut to the part.
 */
#include "base/arith.h"
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"

enum { IN_COLUMNS, IN_IMAGE, IN_BLOCK };

struct columns {
    uint32_t rank;
    const int64_t *image, *block; /* of the whole, as the following */
    int64_t stride[SP_MAX_RANK], dilation[SP_MAX_RANK], low[SP_MAX_RANK], high[SP_MAX_RANK];
    int64_t places[SP_MAX_RANK];                       /* of the block */
    int64_t taps[SP_MAX_RANK], first_tap[SP_MAX_RANK]; /* of the part */
};

static void read_ints(const struct sp_lowering *lower, const char *name, uint32_t start, uint32_t rank,
                      int64_t otherwise, int64_t *values)
{
    uint32_t count;
    const int64_t *given = sp_node_ints(lower->node, name, &count);
    for (uint32_t i = 0; i < rank; i++)
        values[i] = given != NULL && start + i < count ? given[start + i] : otherwise;
}

/* The factor of the taps along spatial axis i. */
static uint8_t tap_of(const struct sp_lowering *lower, uint32_t i)
{
    return lower->rule->inputs[IN_COLUMNS].axes[1].factors[1 + i];
}

/* False for numbers that make no sense, or too large ones to compute with. */
static bool count_places(struct columns *columns, uint32_t i)
{
    const int64_t numbers[] = {columns->image[i],    columns->block[i], columns->stride[i],
                               columns->dilation[i], columns->low[i],   columns->high[i]};
    for (uint32_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        if (numbers[k] < (k < 4 ? 1 : 0) || numbers[k] > INT32_MAX)
            return false;
    int64_t room = columns->image[i] + columns->low[i] + columns->high[i];
    room -= columns->dilation[i] * (columns->block[i] - 1) + 1;
    columns->places[i] = room / columns->stride[i] + 1;
    return room >= 0;
}

static bool read_columns(struct sp_lowering *lower, struct columns *columns)
{
    uint32_t image_count, block_count;
    columns->image = sp_lower_known(lower, IN_IMAGE, &image_count);
    columns->block = sp_lower_known(lower, IN_BLOCK, &block_count);
    columns->rank = lower->outputs[0].rank - 2;
    if (columns->image == NULL || columns->block == NULL || image_count != columns->rank ||
        block_count != columns->rank || columns->rank == 0)
        return false;
    read_ints(lower, "strides", 0, columns->rank, 1, columns->stride);
    read_ints(lower, "dilations", 0, columns->rank, 1, columns->dilation);
    read_ints(lower, "pads", 0, columns->rank, 0, columns->low);
    read_ints(lower, "pads", columns->rank, columns->rank, 0, columns->high);
    int64_t columns_here = 1, extent = lower->inputs[IN_COLUMNS].axes[2].extent;
    for (uint32_t i = 0; i < columns->rank; i++) {
        columns->taps[i] = lower->factors[tap_of(lower, i)].size;
        columns->first_tap[i] = lower->factors[tap_of(lower, i)].start;
        if (!count_places(columns, i) || !sp_mul_i64(columns_here, columns->places[i], &columns_here))
            return false;
    }
    return extent < 0 || extent == columns_here;
}

static struct sp_piece *put_columns(struct sp_lowering *lower, const struct columns *columns, struct sp_piece *x,
                                    const int64_t *image, const int64_t *stride)
{
    struct sp_piece *inputs[] = {x, sp_lower_ints(lower, columns->rank, image),
                                 sp_lower_ints(lower, columns->rank, columns->taps)};
    const struct sp_lower_attribute attributes[] = {SP_INTS_ATTR("strides", columns->rank, stride), SP_NO_ATTR("pads")};
    struct sp_piece *y = sp_lower_same(lower, 3, inputs, 2, attributes);
    int64_t dims[SP_MAX_RANK] = {lower->outputs[0].axes[0].size, lower->outputs[0].axes[1].size};
    for (uint32_t i = 0; i < columns->rank; i++)
        dims[2 + i] = image[i];
    sp_piece_set_dims(lower, y, columns->rank + 2, dims);
    return y;
}

/* Windows that tile the image: [n, c*kh.., h*w..] -> [n, c, h*kh..], and nothing is added. */
static enum sp_status tile(struct sp_lowering *lower, const struct columns *columns)
{
    int64_t image[SP_MAX_RANK] = {0};
    for (uint32_t i = 0; i < columns->rank; i++)
        image[i] = lower->outputs[0].axes[2 + i].size;
    sp_lower_output(lower, 0, put_columns(lower, columns, sp_lower_input(lower, IN_COLUMNS), image, columns->taps));
    return sp_lower_status(lower);
}

/* The columns of whole rows of windows: places [rows->start, rows->limit) along the first spatial axis, those that the
   device does not have filled with zeros. */
static struct sp_piece *whole_rows(struct sp_lowering *lower, const struct columns *columns, struct sp_range *rows)
{
    const struct sp_lower_axis *axis = &lower->inputs[IN_COLUMNS].axes[2];
    int64_t inner = 1;
    for (uint32_t i = 1; i < columns->rank; i++)
        inner *= columns->places[i];
    if (inner < 1)
        return NULL;
    struct sp_range own = {0, inner * columns->places[0]};
    if (axis->is_cut)
        own = axis->ranges.ranges[0];
    *rows = (struct sp_range){own.start / inner, (own.limit + inner - 1) / inner};
    const int64_t low[] = {0, 0, own.start - rows->start * inner}, high[] = {0, 0, rows->limit * inner - own.limit};
    return sp_lower_pad(lower, sp_lower_input(lower, IN_COLUMNS), 3, low, high, 0);
}

static enum sp_status add_columns(struct sp_lowering *lower, const struct columns *columns)
{
    int64_t image[SP_MAX_RANK] = {0}, start[SP_MAX_RANK] = {0};
    int64_t low[SP_MAX_RANK] = {0}, high[SP_MAX_RANK] = {0};
    struct sp_range rows = {0, 0};
    struct sp_piece *x = whole_rows(lower, columns, &rows);
    for (uint32_t i = 0; i < columns->rank; i++) {
        const struct sp_lower_axis *axis = &lower->outputs[0].axes[2 + i];
        int64_t at = columns->first_tap[i] * columns->dilation[i] + (i == 0 ? rows.start * columns->stride[0] : 0);
        int64_t places = i == 0 ? rows.limit - rows.start : columns->places[i];
        image[i] = (places - 1) * columns->stride[i] + columns->dilation[i] * (columns->taps[i] - 1) + 1;
        /* Where the part begins and ends in what the columns make. */
        start[i] = axis->ranges.ranges[0].start + columns->low[i] - at;
        low[2 + i] = start[i] < 0 ? -start[i] : 0;
        high[2 + i] = start[i] + axis->size > image[i] ? start[i] + axis->size - image[i] : 0;
        start[i] += low[2 + i];
    }
    struct sp_piece *y = put_columns(lower, columns, x, image, columns->stride);
    y = sp_lower_pad(lower, y, columns->rank + 2, low, high, 0);
    for (uint32_t i = 0; i < columns->rank; i++)
        y = sp_lower_slice(lower, y, 2 + i, start[i], start[i] + lower->outputs[0].axes[2 + i].size);
    return sp_lower_give_sum(lower, y);
}

enum sp_status sp_lower_col2im(struct sp_lowering *lower)
{
    const struct sp_lower_operand *x = &lower->inputs[IN_COLUMNS], *y = &lower->outputs[0];
    struct columns columns = {0};
    bool is_cut = false;
    for (uint32_t factor = 0; factor < lower->factor_count; factor++) {
        bool is_channel = y->rank > 2 && (factor == sp_lower_output_factor(lower, 0, 0) ||
                                          factor == sp_lower_output_factor(lower, 0, 1));
        is_cut = is_cut || (lower->factors[factor].is_split && !is_channel);
    }
    if (!is_cut)
        return sp_lower_default(lower);
    bool is_known = read_columns(lower, &columns), is_regular = x->axes[2].ranges.count == 1;
    bool is_tiled = lower->rule->outputs[0].axes[2].count > 1;
    for (uint32_t i = 2; i < y->rank; i++)
        is_regular = is_regular && y->axes[i].ranges.count == 1 &&
                     (is_tiled || lower->factors[tap_of(lower, i - 2)].is_contiguous);
    for (uint32_t factor = 2; factor < lower->factor_count; factor++) { /* behind batch and channels */
        if (!is_known)
            sp_lower_refuse(lower, (uint8_t)factor, "its image and its block are not known");
        else if (!is_tiled && !is_regular)
            sp_lower_refuse(lower, (uint8_t)factor, "a device would have several ranges of it");
    }
    if (sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower);
    return is_tiled ? tile(lower, &columns) : add_columns(lower, &columns);
}
