#include "ops/local.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "ops/infer.h"
#include "ops/local_internal.h"

#define LONGEST_HINT 200 /* bytes of a piece's name that come from the model; its number makes it unique */

/* ---- errors ----------------------------------------------------------------------------------------------------- */

bool sp_local_is_fine(const struct sp_local *local)
{
    return local->recorder->status == SP_OK;
}

bool sp_local_has(const struct sp_local *local, const struct sp_piece *a, const struct sp_piece *b)
{
    return sp_local_is_fine(local) && a != NULL && b != NULL;
}

enum sp_status sp_local_status(const struct sp_local *local)
{
    return local->recorder->status;
}

void sp_local_fail(struct sp_local *local, enum sp_status status, const char *code, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    va_list args;
    if (!sp_local_is_fine(local))
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    local->recorder->status = sp_fail(local->err, status, code, "%s", text);
}

void sp_local_failed(struct sp_local *local, enum sp_status status)
{
    if (sp_local_is_fine(local))
        local->recorder->status = status;
}

void sp_local_misuse(struct sp_local *local, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE], subject[300];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sp_local_fail(local, SP_ERR_INTERNAL, "LOCAL_PROGRAM", "%s: its local form %s.",
                  sp_op_subject(local->node, subject, sizeof subject), text);
}

void sp_local_whole(struct sp_local *local, uint8_t factor, const char *format, ...)
{
    struct sp_local_recorder *recorder = local->recorder;
    char text[SP_ERROR_MESSAGE_SIZE];
    va_list args;
    if (!sp_local_is_fine(local))
        return;
    if (factor >= local->factor_count || !local->factors[factor].is_split) {
        sp_local_misuse(local, "asks for factor %u whole, which is not split", factor);
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    recorder->again_message = sp_arena_string(local->arena, text, strlen(text));
    if (recorder->again_message == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return;
    }
    recorder->is_again = true;
    recorder->again_factor = factor;
    recorder->status = SP_ERR_UNSUPPORTED;
}

/* One split factor after the other becomes whole, until nothing is left to be written. */
void sp_local_fail_opset(struct sp_local *local, const char *op_type, int64_t since)
{
    char subject[300];
    for (uint32_t i = 0; i < local->factor_count && sp_local_is_fine(local); i++) {
        if (local->factors[i].is_split)
            sp_local_whole(local, (uint8_t)i,
                           "%s is computed with factor %s whole on every device: with version %" PRId64
                           " of the operator set its parts would need operator '%s' as it is since version %" PRId64
                           ", so convert the model to that.",
                           sp_op_subject(local->node, subject, sizeof subject), local->rule->factors[i].name,
                           local->opset, op_type, since);
    }
    if (sp_local_is_fine(local))
        sp_local_misuse(local, "needs operator %s of a later version where nothing is split", op_type);
}

void *sp_local_array(struct sp_local *local, size_t count, size_t size)
{
    void *array = sp_arena_array(local->arena, count, size);
    if (array == NULL)
        sp_local_failed(local, sp_fail_memory(local->err));
    return array;
}

/* ---- pieces and events ------------------------------------------------------------------------------------------ */

struct sp_piece *sp_local_piece(struct sp_local *local, const char *hint, enum sp_dtype dtype)
{
    struct sp_local_recorder *recorder = local->recorder;
    if (!sp_local_is_fine(local))
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
                                       recorder->marker, local->device, *recorder->next);
    if (piece == NULL || name == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    (*recorder->next)++;
    *piece = (struct sp_piece){.name = name, .device = local->device, .dtype = dtype};
    return piece;
}

void sp_piece_set_dims(struct sp_local *local, struct sp_piece *piece, uint32_t rank, const int64_t *dims)
{
    if (!sp_local_is_fine(local) || piece == NULL)
        return;
    if (rank > SP_MAX_RANK) {
        sp_local_misuse(local, "has a piece of %" PRIu32 " axes", rank);
        return;
    }
    int64_t *kept = SP_NEW_ARRAY(local->recorder->kept, rank, int64_t);
    if (kept == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return;
    }
    for (uint32_t i = 0; i < rank; i++)
        kept[i] = dims[i] < 0 ? -1 : dims[i];
    piece->rank = rank;
    piece->dims = kept;
}

struct sp_local_event *sp_local_event(struct sp_local *local, enum sp_local_event_kind kind)
{
    struct sp_local_recorder *recorder = local->recorder;
    if (!sp_local_is_fine(local))
        return NULL;
    if (recorder->count == recorder->capacity) {
        const uint32_t wanted = recorder->capacity == 0 ? 16 : 2 * recorder->capacity;
        struct sp_local_event *larger = SP_LOCAL_ARRAY(local, wanted, struct sp_local_event);
        if (larger == NULL)
            return NULL;
        if (recorder->count > 0)
            memcpy(larger, recorder->events, recorder->count * sizeof *larger);
        recorder->events = larger;
        recorder->capacity = wanted;
    }
    struct sp_local_event *event = &recorder->events[recorder->count++];
    *event = (struct sp_local_event){.kind = kind};
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

static struct sp_axis_ranges one_range(struct sp_local *local, int64_t start, int64_t limit)
{
    struct sp_range *range = SP_LOCAL_ARRAY(local, 1, struct sp_range);
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

static bool is_all(const struct sp_local_axis *axis, const struct sp_axis_ranges *ranges)
{
    return ranges->count == 1 && ranges->ranges[0].start == 0 &&
           (ranges->ranges[0].limit < 0 || ranges->ranges[0].limit == axis->extent);
}

/* Asks for these indices of an operand; `axes` are in the memory of the node. */
enum asked { PART, WHOLE, BOX };
static struct sp_piece *ask(struct sp_local *local, uint32_t input, enum asked asked, const struct sp_axis_ranges *axes)
{
    const struct sp_local_operand *operand = &local->inputs[input];
    struct sp_piece *piece = sp_local_piece(local, operand->value->name, dtype_of(operand->value));
    int64_t *dims = SP_LOCAL_ARRAY(local, operand->rank, int64_t);
    bool is_whole = true;
    if (piece == NULL || dims == NULL)
        return NULL;
    for (uint32_t i = 0; i < operand->rank; i++) {
        dims[i] = size_of(&axes[i]);
        is_whole = is_whole && is_all(&operand->axes[i], &axes[i]);
    }
    if (has_rank(operand->value))
        sp_piece_set_dims(local, piece, operand->rank, dims);
    struct sp_local_event *event = sp_local_event(local, SP_LOCAL_INPUT);
    if (event == NULL)
        return NULL;
    event->piece = piece;
    event->input.index = input;
    event->input.is_part = asked == PART;
    event->input.is_box = asked == BOX;
    event->input.is_whole = is_whole;
    event->input.axes = axes;
    return piece;
}

/* A piece that was asked for before as the part, or as the whole. Boxes are not compared: two that are the same here
   may differ on another device, and all devices' lists must have the same inputs. */
static struct sp_piece *asked_before(const struct sp_local *local, uint32_t input, bool is_part)
{
    for (uint32_t i = 0; i < local->recorder->count; i++) {
        const struct sp_local_event *event = &local->recorder->events[i];
        if (event->kind == SP_LOCAL_INPUT && event->input.index == input && !event->input.is_box &&
            (is_part ? event->input.is_part : event->input.is_whole))
            return event->piece;
    }
    return NULL;
}

/* Whether there is such an input; NULL pieces stand for omitted ones. */
static bool is_given(struct sp_local *local, uint32_t input)
{
    return sp_local_is_fine(local) && input < local->input_count && local->inputs[input].value != NULL;
}

struct sp_piece *sp_local_input(struct sp_local *local, uint32_t input)
{
    if (!is_given(local, input))
        return NULL;
    const struct sp_local_operand *operand = &local->inputs[input];
    struct sp_piece *piece = asked_before(local, input, true);
    if (piece != NULL)
        return piece;
    struct sp_axis_ranges *axes = SP_LOCAL_ARRAY(local, operand->rank, struct sp_axis_ranges);
    if (axes == NULL)
        return NULL;
    for (uint32_t i = 0; i < operand->rank; i++)
        axes[i] = operand->axes[i].ranges;
    return ask(local, input, PART, axes);
}

struct sp_piece *sp_local_input_whole(struct sp_local *local, uint32_t input)
{
    if (!is_given(local, input))
        return NULL;
    const struct sp_local_operand *operand = &local->inputs[input];
    struct sp_piece *piece = asked_before(local, input, false);
    if (piece != NULL)
        return piece;
    bool is_cut = false;
    for (uint32_t i = 0; i < operand->rank; i++)
        is_cut = is_cut || operand->axes[i].is_cut;
    if (!is_cut)
        return sp_local_input(local, input);
    struct sp_axis_ranges *axes = SP_LOCAL_ARRAY(local, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; axes != NULL && i < operand->rank; i++)
        axes[i] = one_range(local, 0, operand->axes[i].extent);
    return sp_local_is_fine(local) ? ask(local, input, WHOLE, axes) : NULL;
}

/* One axis of a box: within the operand, and not empty. */
static struct sp_axis_ranges box_axis(struct sp_local *local, uint32_t input, uint32_t axis, struct sp_range range)
{
    const int64_t extent = local->inputs[input].axes[axis].extent;
    const int64_t limit = range.limit == -1 ? extent : range.limit;
    if (range.start < 0 || (limit != -1 && limit <= range.start) || (extent >= 0 && limit > extent)) {
        sp_local_misuse(
            local, "asks for [%" PRId64 ", %" PRId64 ") on axis %" PRIu32 " of input %" PRIu32 ", which has %" PRId64,
            range.start, range.limit, axis, input, extent);
        return (struct sp_axis_ranges){0};
    }
    return one_range(local, range.start, limit);
}

/* Several ranges of one axis. */
static struct sp_axis_ranges copy_ranges(struct sp_local *local, uint32_t input, uint32_t axis,
                                         const struct sp_axis_ranges *ranges)
{
    struct sp_range *kept = SP_LOCAL_ARRAY(local, ranges->count, struct sp_range);
    if (ranges->count == 0)
        sp_local_misuse(local, "asks for nothing of axis %" PRIu32 " of input %" PRIu32, axis, input);
    for (uint32_t i = 0; kept != NULL && i < ranges->count && sp_local_is_fine(local); i++) {
        const struct sp_axis_ranges one = box_axis(local, input, axis, ranges->ranges[i]);
        if (one.count == 1)
            kept[i] = one.ranges[0];
        if (i > 0 && (kept[i - 1].limit < 0 || kept[i].start <= kept[i - 1].limit))
            sp_local_misuse(local, "asks for indices of axis %" PRIu32 " of input %" PRIu32 " out of order", axis,
                            input);
    }
    return (struct sp_axis_ranges){ranges->count, kept};
}

struct sp_piece *sp_local_input_range(struct sp_local *local, uint32_t input, uint32_t axis, int64_t start,
                                      int64_t limit)
{
    if (!is_given(local, input))
        return NULL;
    const struct sp_local_operand *operand = &local->inputs[input];
    if (axis >= operand->rank) {
        sp_local_misuse(local, "asks for a range of axis %" PRIu32 " of input %" PRIu32, axis, input);
        return NULL;
    }
    struct sp_axis_ranges *axes = SP_LOCAL_ARRAY(local, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; axes != NULL && i < operand->rank; i++)
        axes[i] = i == axis ? box_axis(local, input, i, (struct sp_range){start, limit}) : operand->axes[i].ranges;
    return sp_local_is_fine(local) ? ask(local, input, BOX, axes) : NULL;
}

struct sp_piece *sp_local_input_box(struct sp_local *local, uint32_t input, const struct sp_range *box)
{
    if (!is_given(local, input))
        return NULL;
    const struct sp_local_operand *operand = &local->inputs[input];
    struct sp_axis_ranges *axes = SP_LOCAL_ARRAY(local, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; axes != NULL && i < operand->rank; i++)
        axes[i] = box[i].start == -1 ? operand->axes[i].ranges : box_axis(local, input, i, box[i]);
    return sp_local_is_fine(local) ? ask(local, input, BOX, axes) : NULL;
}

struct sp_piece *sp_local_input_axes(struct sp_local *local, uint32_t input, const struct sp_axis_ranges *axes)
{
    if (!is_given(local, input))
        return NULL;
    const struct sp_local_operand *operand = &local->inputs[input];
    struct sp_axis_ranges *kept = SP_LOCAL_ARRAY(local, operand->rank, struct sp_axis_ranges);
    for (uint32_t i = 0; kept != NULL && i < operand->rank; i++)
        kept[i] = copy_ranges(local, input, i, &axes[i]);
    return sp_local_is_fine(local) ? ask(local, input, BOX, kept) : NULL;
}

const int64_t *sp_local_known(struct sp_local *local, uint32_t input, uint32_t *ret_count)
{
    struct sp_op_context context = {local->model, local->arena,   local->model->dims,
                                    local->node,  local->version, local->err};
    const struct sp_data *data = sp_local_is_fine(local) ? sp_in_known_ints(&context, input) : NULL;
    *ret_count = 0;
    if (data == NULL)
        return NULL;
    int64_t *ints = SP_LOCAL_ARRAY(local, data->count, int64_t);
    for (uint32_t i = 0; ints != NULL && i < data->count; i++)
        ints[i] = data->ints[i].value;
    *ret_count = ints == NULL ? 0 : data->count;
    return ints;
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

bool sp_local_is_cut(const struct sp_local_operand *operand, uint32_t axis)
{
    return axis < operand->rank && operand->axes[axis].is_cut;
}

static uint8_t only_factor(const struct sp_operand_rule *operand, uint32_t axis)
{
    return axis < operand->rank && operand->axes[axis].count == 1 ? operand->axes[axis].factors[0] : SP_RULE_NO_FACTOR;
}

uint8_t sp_local_input_factor(const struct sp_local *local, uint32_t input, uint32_t axis)
{
    return input < local->rule->input_count ? only_factor(&local->rule->inputs[input], axis) : SP_RULE_NO_FACTOR;
}

uint8_t sp_local_output_factor(const struct sp_local *local, uint32_t output, uint32_t axis)
{
    return output < local->rule->output_count ? only_factor(&local->rule->outputs[output], axis) : SP_RULE_NO_FACTOR;
}

uint8_t sp_local_split_named(const struct sp_local *local, const char *name)
{
    for (uint32_t i = 0; i < local->factor_count; i++)
        if (local->factors[i].is_split && strcmp(local->rule->factors[i].name, name) == 0)
            return (uint8_t)i;
    return SP_RULE_NO_FACTOR;
}

const int64_t *sp_local_part_dims(struct sp_local *local, const struct sp_local_operand *operand)
{
    if (!sp_local_is_fine(local) || operand->value == NULL || !has_rank(operand->value))
        return NULL;
    int64_t *dims = SP_LOCAL_ARRAY(local, operand->rank, int64_t);
    for (uint32_t i = 0; dims != NULL && i < operand->rank; i++) {
        if (operand->axes[i].size < 0)
            return NULL;
        dims[i] = operand->axes[i].size;
    }
    return dims;
}
