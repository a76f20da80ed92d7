#include "ops/lowering/lowering.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "ops/lowering/internal.h"
#include "ops/table/shape_helpers.h"

#define LONGEST_HINT 200 /* bytes of a piece's name that come from the model; its number makes it unique */

/* ---- errors ----------------------------------------------------------------------------------------------------- */

bool sp_lower_is_fine(const struct sp_lowering *lower)
{
    return lower->recorder->status == SP_OK;
}

bool sp_lower_has(const struct sp_lowering *lower, const struct sp_piece *a, const struct sp_piece *b)
{
    return sp_lower_is_fine(lower) && a != NULL && b != NULL;
}

enum sp_status sp_lower_status(const struct sp_lowering *lower)
{
    return lower->recorder->status;
}

void sp_lower_fail(struct sp_lowering *lower, enum sp_status status, const char *code, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    if (!sp_lower_is_fine(lower))
        return;
    SP_FORMAT(text, format);
    lower->recorder->status = sp_fail(lower->err, status, code, "%s", text);
}

void sp_lower_failed(struct sp_lowering *lower, enum sp_status status)
{
    if (sp_lower_is_fine(lower))
        lower->recorder->status = status;
}

void sp_lower_misuse(struct sp_lowering *lower, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE], subject[300];
    SP_FORMAT(text, format);
    sp_lower_fail(lower, SP_ERR_INTERNAL, "LOCAL_PROGRAM", "%s: its local form %s.",
                  sp_op_subject(lower->node, subject, sizeof subject), text);
}

void sp_lower_whole(struct sp_lowering *lower, uint8_t factor, const char *format, ...)
{
    struct sp_lower_recorder *recorder = lower->recorder;
    char text[SP_ERROR_MESSAGE_SIZE];
    if (!sp_lower_is_fine(lower))
        return;
    if (factor >= lower->factor_count || !lower->factors[factor].is_split) {
        sp_lower_misuse(lower, "asks for factor %u whole, which is not split", factor);
        return;
    }
    SP_FORMAT(text, format);
    recorder->again_message = sp_arena_string(lower->arena, text, strlen(text));
    if (recorder->again_message == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return;
    }
    recorder->is_again = true;
    recorder->again_factor = factor;
    recorder->status = SP_ERR_UNSUPPORTED;
}

/* One split factor after the other becomes whole, until nothing is left to be written. */
void sp_lower_fail_opset(struct sp_lowering *lower, const char *op_type, int64_t since)
{
    char subject[300];
    for (uint32_t i = 0; i < lower->factor_count && sp_lower_is_fine(lower); i++) {
        if (lower->factors[i].is_split)
            sp_lower_whole(lower, (uint8_t)i,
                           "%s is computed with factor %s whole on every device: with version %" PRId64
                           " of the operator set its parts would need operator '%s' as it is since version %" PRId64
                           ", so convert the model to that.",
                           sp_op_subject(lower->node, subject, sizeof subject), lower->rule->factors[i].name,
                           lower->opset, op_type, since);
    }
    if (sp_lower_is_fine(lower))
        sp_lower_misuse(lower, "needs operator %s of a later version where nothing is split", op_type);
}

void *sp_lower_array(struct sp_lowering *lower, size_t count, size_t size)
{
    void *array = sp_arena_array(lower->arena, count, size);
    if (array == NULL)
        sp_lower_failed(lower, sp_fail_memory(lower->err));
    return array;
}

/* ---- pieces and events ------------------------------------------------------------------------------------------ */

struct sp_piece *sp_lower_piece(struct sp_lowering *lower, const char *hint, enum sp_dtype dtype)
{
    struct sp_lower_recorder *recorder = lower->recorder;
    if (!sp_lower_is_fine(lower))
        return NULL;
    size_t length = strnlen(hint, LONGEST_HINT + 1);
    /* Not within a UTF-8 character: names in a model file must be text. */
    if (length > LONGEST_HINT) {
        length = LONGEST_HINT;
        while (length > 0 && ((unsigned char)hint[length] & 0xC0) == 0x80)
            length--;
    }
    struct sp_piece *piece = SP_NEW(recorder->kept, struct sp_piece);
    const char *name = sp_arena_printf(recorder->kept, "%.*s%s%" PRId64 ".%" PRIu64, (int)length, hint,
                                       recorder->marker, lower->device, *recorder->next);
    if (piece == NULL || name == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    (*recorder->next)++;
    *piece = (struct sp_piece){.name = name, .device = lower->device, .dtype = dtype};
    return piece;
}

void sp_piece_set_dims(struct sp_lowering *lower, struct sp_piece *piece, uint32_t rank, const int64_t *dims)
{
    if (!sp_lower_is_fine(lower) || piece == NULL)
        return;
    if (rank > SP_MAX_RANK) {
        sp_lower_misuse(lower, "has a piece of %" PRIu32 " axes", rank);
        return;
    }
    int64_t *kept = SP_NEW_ARRAY(lower->recorder->kept, rank, int64_t);
    if (kept == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return;
    }
    for (uint32_t i = 0; i < rank; i++)
        kept[i] = dims[i] < 0 ? -1 : dims[i];
    piece->rank = rank;
    piece->dims = kept;
}

struct sp_lower_event *sp_lower_event(struct sp_lowering *lower, enum sp_lower_event_kind kind)
{
    struct sp_lower_recorder *recorder = lower->recorder;
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (!SP_MAKE_ROOM(lower->arena, recorder->events, recorder->count, recorder->capacity, 1)) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    struct sp_lower_event *event = &recorder->events[recorder->count++];
    *event = (struct sp_lower_event){.kind = kind};
    return event;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

static bool has_rank(const struct sp_value *value)
{
    return (value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_SPARSE_TENSOR) &&
           value->type.shape.has_rank;
}

static enum sp_dtype dtype_of(const struct sp_value *value)
{
    return value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_SPARSE_TENSOR ? value->type.dtype
                                                                                           : SP_DTYPE_UNDEFINED;
}

static struct sp_axis_ranges one_range(struct sp_lowering *lower, int64_t start, int64_t limit)
{
    struct sp_range *range = SP_LOWER_ARRAY(lower, 1, struct sp_range);
    if (range == NULL)
        return (struct sp_axis_ranges){0};
    *range = (struct sp_range){start, limit};
    return (struct sp_axis_ranges){1, range};
}

/* -1 where the end is not known. */
static int64_t size_of(const struct sp_axis_ranges *axis)
{
    int64_t size = 0;
    for (uint32_t i = 0; i < axis->count; i++) {
        if (axis->ranges[i].limit < 0)
            return -1;
        size += axis->ranges[i].limit - axis->ranges[i].start;
    }
    return size;
}

static bool is_all(const struct sp_lower_axis *axis, const struct sp_axis_ranges *ranges)
{
    return ranges->count == 1 && ranges->ranges[0].start == 0 &&
           (ranges->ranges[0].limit < 0 || ranges->ranges[0].limit == axis->extent);
}

bool sp_lower_is_input_last(const struct sp_lowering *lower, uint32_t input)
{
    const struct sp_like_view *other = &lower->view->other;
    return other->is_last && (other->last_inputs >> input & 1) != 0 && lower->inputs[input].rank > 1;
}

bool sp_lower_is_output_last(const struct sp_lowering *lower, uint32_t output)
{
    return lower->view->other.is_last && output == 0 && lower->outputs[0].rank > 1;
}

struct sp_piece *sp_lower_show(struct sp_lowering *lower, struct sp_piece *stored)
{
    int64_t dims[SP_MAX_RANK];
    struct sp_piece *piece = stored != NULL ? sp_lower_piece(lower, "Transpose", stored->dtype) : NULL;
    if (piece == NULL)
        return NULL;
    for (uint32_t axis = 0; stored->dims != NULL && axis < stored->rank; axis++)
        dims[axis] = stored->dims[sp_like_axis(stored->rank, axis)];
    if (stored->dims != NULL)
        sp_piece_set_dims(lower, piece, stored->rank, dims);
    piece->stored = stored;
    return piece;
}

/* Where an input is in the node. */
static uint32_t own_input(const struct sp_lowering *lower, uint32_t input)
{
    return lower->view != NULL ? lower->view->other.inputs[input] : input;
}

/* The node's own input as the operator sees it, and what that asks for as the node has it. */
static struct sp_piece *viewed(struct sp_lowering *lower, uint32_t input, struct sp_piece *piece)
{
    return lower->view != NULL && sp_lower_is_input_last(lower, input) ? sp_lower_show(lower, piece) : piece;
}

static const struct sp_axis_ranges *own_axes(struct sp_lowering *lower, uint32_t input,
                                             const struct sp_axis_ranges *axes)
{
    uint32_t rank = lower->inputs[input].rank;
    if (lower->view == NULL || !sp_lower_is_input_last(lower, input))
        return axes;
    struct sp_axis_ranges *own = SP_LOWER_ARRAY(lower, rank, struct sp_axis_ranges);
    for (uint32_t axis = 0; own != NULL && axis < rank; axis++)
        own[sp_like_axis(rank, axis)] = axes[axis];
    return own;
}

/* Asks for these indices of an operand; `axes` are in the memory of the node. */
enum asked { PART, WHOLE, BOX };
static struct sp_piece *ask(struct sp_lowering *lower, uint32_t input, enum asked asked,
                            const struct sp_axis_ranges *axes)
{
    const uint32_t own = own_input(lower, input);
    const struct sp_lower_operand *operand = lower->view != NULL ? &lower->view->own->inputs[own] : &lower->inputs[own];
    axes = own_axes(lower, input, axes);
    if (axes == NULL)
        return NULL;
    struct sp_piece *piece = sp_lower_piece(lower, operand->value->name, dtype_of(operand->value));
    int64_t *dims = SP_LOWER_ARRAY(lower, operand->rank, int64_t);
    bool is_whole = true;
    if (piece == NULL || dims == NULL)
        return NULL;
    for (uint32_t i = 0; i < operand->rank; i++) {
        dims[i] = size_of(&axes[i]);
        is_whole = is_whole && is_all(&operand->axes[i], &axes[i]);
    }
    if (has_rank(operand->value))
        sp_piece_set_dims(lower, piece, operand->rank, dims);
    struct sp_lower_event *event = sp_lower_event(lower, SP_LOWER_INPUT);
    if (event == NULL)
        return NULL;
    event->piece = piece;
    event->input.index = own;
    event->input.is_part = asked == PART;
    event->input.is_box = asked == BOX;
    event->input.is_whole = is_whole;
    event->input.axes = axes;
    return viewed(lower, input, piece);
}

/* A piece that was asked for before as the part, or as the whole. Boxes are not compared: two that are the same here
   may differ on another device, and all devices' lists must have the same inputs. */
static struct sp_piece *asked_before(const struct sp_lowering *lower, uint32_t input, bool is_part)
{
    const uint32_t own = own_input(lower, input);
    for (uint32_t i = 0; i < lower->recorder->count; i++) {
        const struct sp_lower_event *event = &lower->recorder->events[i];
        if (event->kind == SP_LOWER_INPUT && event->input.index == own && !event->input.is_box &&
            (is_part ? event->input.is_part : event->input.is_whole))
            return event->piece;
    }
    return NULL;
}

/* Whether there is such an input; NULL pieces stand for omitted ones. */
static bool is_given(struct sp_lowering *lower, uint32_t input)
{
    return sp_lower_is_fine(lower) && input < lower->input_count && lower->inputs[input].value != NULL;
}

struct sp_piece *sp_lower_input(struct sp_lowering *lower, uint32_t input)
{
    if (!is_given(lower, input))
        return NULL;
    const struct sp_lower_operand *operand = &lower->inputs[input];
    struct sp_piece *piece = asked_before(lower, input, true);
    if (piece != NULL)
        return viewed(lower, input, piece);
    struct sp_axis_ranges *axes = SP_LOWER_ARRAY(lower, operand->rank, struct sp_axis_ranges);
    if (axes == NULL)
        return NULL;
    for (uint32_t i = 0; i < operand->rank; i++)
        axes[i] = operand->axes[i].ranges;
    return ask(lower, input, PART, axes);
}

struct sp_piece *sp_lower_input_whole(struct sp_lowering *lower, uint32_t input)
{
    if (!is_given(lower, input))
        return NULL;
    const struct sp_lower_operand *operand = &lower->inputs[input];
    struct sp_piece *piece = asked_before(lower, input, false);
    if (piece != NULL)
        return viewed(lower, input, piece);
    bool is_cut = false;
    for (uint32_t i = 0; i < operand->rank; i++)
        is_cut = is_cut || operand->axes[i].is_cut;
    if (!is_cut)
        return sp_lower_input(lower, input);
    struct sp_axis_ranges *axes = SP_LOWER_ARRAY(lower, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; axes != NULL && i < operand->rank; i++)
        axes[i] = one_range(lower, 0, operand->axes[i].extent);
    return sp_lower_is_fine(lower) ? ask(lower, input, WHOLE, axes) : NULL;
}

/* One axis of a box: within the operand, and not empty. */
static struct sp_axis_ranges box_axis(struct sp_lowering *lower, uint32_t input, uint32_t axis, struct sp_range range)
{
    const int64_t extent = lower->inputs[input].axes[axis].extent;
    const int64_t limit = range.limit == -1 ? extent : range.limit;
    if (range.start < 0 || (limit != -1 && limit <= range.start) || (extent >= 0 && limit > extent)) {
        sp_lower_misuse(
            lower, "asks for [%" PRId64 ", %" PRId64 ") on axis %" PRIu32 " of input %" PRIu32 ", which has %" PRId64,
            range.start, range.limit, axis, input, extent);
        return (struct sp_axis_ranges){0};
    }
    return one_range(lower, range.start, limit);
}

/* Several ranges of one axis. */
static struct sp_axis_ranges copy_ranges(struct sp_lowering *lower, uint32_t input, uint32_t axis,
                                         const struct sp_axis_ranges *ranges)
{
    struct sp_range *kept = SP_LOWER_ARRAY(lower, ranges->count, struct sp_range);
    if (ranges->count == 0)
        sp_lower_misuse(lower, "asks for nothing of axis %" PRIu32 " of input %" PRIu32, axis, input);
    for (uint32_t i = 0; kept != NULL && i < ranges->count && sp_lower_is_fine(lower); i++) {
        const struct sp_axis_ranges one = box_axis(lower, input, axis, ranges->ranges[i]);
        if (one.count == 1)
            kept[i] = one.ranges[0];
        if (i > 0 && (kept[i - 1].limit < 0 || kept[i].start <= kept[i - 1].limit))
            sp_lower_misuse(lower, "asks for indices of axis %" PRIu32 " of input %" PRIu32 " out of order", axis,
                            input);
    }
    return (struct sp_axis_ranges){ranges->count, kept};
}

struct sp_piece *sp_lower_input_range(struct sp_lowering *lower, uint32_t input, uint32_t axis, int64_t start,
                                      int64_t limit)
{
    if (!is_given(lower, input))
        return NULL;
    const struct sp_lower_operand *operand = &lower->inputs[input];
    if (axis >= operand->rank) {
        sp_lower_misuse(lower, "asks for a range of axis %" PRIu32 " of input %" PRIu32, axis, input);
        return NULL;
    }
    struct sp_axis_ranges *axes = SP_LOWER_ARRAY(lower, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; axes != NULL && i < operand->rank; i++)
        axes[i] = i == axis ? box_axis(lower, input, i, (struct sp_range){start, limit}) : operand->axes[i].ranges;
    return sp_lower_is_fine(lower) ? ask(lower, input, BOX, axes) : NULL;
}

struct sp_piece *sp_lower_input_box(struct sp_lowering *lower, uint32_t input, const struct sp_range *box)
{
    if (!is_given(lower, input))
        return NULL;
    const struct sp_lower_operand *operand = &lower->inputs[input];
    struct sp_axis_ranges *axes = SP_LOWER_ARRAY(lower, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; axes != NULL && i < operand->rank; i++)
        axes[i] = box[i].start == -1 ? operand->axes[i].ranges : box_axis(lower, input, i, box[i]);
    return sp_lower_is_fine(lower) ? ask(lower, input, BOX, axes) : NULL;
}

struct sp_piece *sp_lower_input_axes(struct sp_lowering *lower, uint32_t input, const struct sp_axis_ranges *axes)
{
    if (!is_given(lower, input))
        return NULL;
    const struct sp_lower_operand *operand = &lower->inputs[input];
    struct sp_axis_ranges *kept = SP_LOWER_ARRAY(lower, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; kept != NULL && i < operand->rank; i++)
        kept[i] = copy_ranges(lower, input, i, &axes[i]);
    return sp_lower_is_fine(lower) ? ask(lower, input, BOX, kept) : NULL;
}

const int64_t *sp_lower_known(struct sp_lowering *lower, uint32_t input, uint32_t *ret_count)
{
    struct sp_op_context context = {lower->model, lower->arena, lower->model->dims, lower->node, lower->version,
                                    lower->err,   NULL};
    const struct sp_data *data = sp_lower_is_fine(lower) ? sp_in_known_ints(&context, input) : NULL;
    *ret_count = 0;
    if (data == NULL)
        return NULL;
    int64_t *ints = SP_LOWER_ARRAY(lower, data->count, int64_t);
    for (uint32_t i = 0; ints != NULL && i < data->count; i++)
        ints[i] = data->ints[i].value;
    *ret_count = ints == NULL ? 0 : data->count;
    return ints;
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

bool sp_lower_is_cut(const struct sp_lower_operand *operand, uint32_t axis)
{
    return axis < operand->rank && operand->axes[axis].is_cut;
}

static uint8_t only_factor(const struct sp_operand_rule *operand, uint32_t axis)
{
    return axis < operand->rank && operand->axes[axis].count == 1 ? operand->axes[axis].factors[0] : SP_RULE_NO_FACTOR;
}

uint8_t sp_lower_input_factor(const struct sp_lowering *lower, uint32_t input, uint32_t axis)
{
    return input < lower->rule->input_count ? only_factor(&lower->rule->inputs[input], axis) : SP_RULE_NO_FACTOR;
}

uint8_t sp_lower_output_factor(const struct sp_lowering *lower, uint32_t output, uint32_t axis)
{
    return output < lower->rule->output_count ? only_factor(&lower->rule->outputs[output], axis) : SP_RULE_NO_FACTOR;
}

uint8_t sp_lower_split_named(const struct sp_lowering *lower, const char *name)
{
    for (uint32_t i = 0; i < lower->factor_count; i++)
        if (lower->factors[i].is_split && strcmp(lower->rule->factors[i].name, name) == 0)
            return (uint8_t)i;
    return SP_RULE_NO_FACTOR;
}

const int64_t *sp_lower_part_dims(struct sp_lowering *lower, const struct sp_lower_operand *operand)
{
    if (!sp_lower_is_fine(lower) || operand->value == NULL || !has_rank(operand->value))
        return NULL;
    int64_t *dims = SP_LOWER_ARRAY(lower, operand->rank, int64_t);
    for (uint32_t i = 0; dims != NULL && i < operand->rank; i++) {
        if (operand->axes[i].size < 0)
            return NULL;
        dims[i] = operand->axes[i].size;
    }
    return dims;
}
