/*
 * Signals on shards (rules in signal.c), and operators whose result has axes that no input has.
 *
 * A device that has some frames of STFT reads what these reach over, and runs it on that. Windows, MelWeightMatrix and
 * one-hot codes are made whole, which is less work than anything that is done with them, and cut.
 */
#include "base/arith.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/statistics.h"

/* ---- STFT ------------------------------------------------------------------------------------------------------- */

enum { IN_SIGNAL, IN_STEP, IN_WINDOW, IN_LENGTH };

/* A list of one known integer; -1 where it is not known. */
static int64_t known_number(struct sp_lowering *lower, uint32_t input)
{
    uint32_t count = 0;
    const int64_t *known = input < lower->input_count ? sp_lower_known(lower, input, &count) : NULL;
    return known != NULL && count == 1 ? known[0] : -1;
}

static int64_t frame_length(struct sp_lowering *lower)
{
    if (lower->input_count > IN_LENGTH && lower->inputs[IN_LENGTH].value != NULL)
        return known_number(lower, IN_LENGTH);
    if (lower->input_count > IN_WINDOW && lower->inputs[IN_WINDOW].value != NULL && lower->inputs[IN_WINDOW].rank == 1)
        return lower->inputs[IN_WINDOW].axes[0].extent;
    return lower->inputs[IN_SIGNAL].axes[1].extent;
}

/* Frame f reads elements [f * step, f * step + length). */
enum sp_status sp_lower_stft(struct sp_lowering *lower)
{
    const uint8_t frames = sp_lower_output_factor(lower, 0, 1);
    if (!sp_lower_is_split(lower, frames))
        return sp_lower_default(lower);
    const struct sp_lower_factor *own = &lower->factors[frames];
    const int64_t step = known_number(lower, IN_STEP), length = frame_length(lower);
    int64_t start = 0, limit = 0;
    if (step < 1 || length < 1 || !sp_mul_i64(own->start, step, &start) ||
        !sp_mul_i64(own->start + own->size - 1, step, &limit) || !sp_add_i64(limit, length, &limit))
        sp_lower_refuse(lower, frames, "where a frame begins and ends is not known before the run");
    else if (!own->is_contiguous)
        sp_lower_refuse(lower, frames, "a device would have several ranges of frames");
    if (sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower);
    struct sp_piece **inputs = SP_NEW_ARRAY(lower->arena, lower->input_count, struct sp_piece *);
    if (inputs == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return sp_lower_status(lower);
    }
    inputs[IN_SIGNAL] = sp_lower_input_range(lower, IN_SIGNAL, 1, start, limit);
    for (uint32_t i = IN_STEP; i < lower->input_count; i++)
        inputs[i] = sp_lower_input(lower, i);
    sp_lower_output(lower, 0, sp_lower_same(lower, lower->input_count, inputs, 0, NULL));
    return sp_lower_status(lower);
}

/* ---- results that are made whole -------------------------------------------------------------------------------- */

/* Whether an axis of output 0 is cut by a factor that no input has. */
static bool is_new(const struct sp_lowering *lower, uint32_t axis)
{
    const uint8_t factor = sp_lower_output_factor(lower, 0, axis);
    if (!sp_lower_is_split(lower, factor))
        return false;
    for (uint32_t input = 0; input < lower->rule->input_count; input++)
        if (sp_lower_operand_has(&lower->rule->inputs[input], factor))
            return false;
    return true;
}

enum sp_status sp_lower_made_whole(struct sp_lowering *lower)
{
    const struct sp_lower_operand *output = &lower->outputs[0];
    int64_t *dims = SP_NEW_ARRAY(lower->arena, output->rank, int64_t);
    bool is_any = false;
    for (uint32_t axis = 0; dims != NULL && axis < output->rank; axis++) {
        const bool is_cut = is_new(lower, axis);
        dims[axis] = is_cut ? output->axes[axis].extent : output->axes[axis].size;
        is_any = is_any || is_cut;
    }
    if (dims != NULL && !is_any)
        return sp_lower_default(lower);
    struct sp_piece *piece = dims == NULL ? NULL : sp_lower_same(lower, 0, NULL, 0, NULL);
    if (dims == NULL)
        sp_lower_failed(lower, sp_fail_memory(lower->err));
    sp_piece_set_dims(lower, piece, output->rank, dims);
    for (uint32_t axis = 0; axis < output->rank && sp_lower_status(lower) == SP_OK; axis++)
        if (is_new(lower, axis))
            piece = sp_lower_keep_own(lower, piece, axis, sp_lower_output_factor(lower, 0, axis), 0);
    sp_lower_output(lower, 0, piece);
    return sp_lower_status(lower);
}
