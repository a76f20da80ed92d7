/*
 * Signals on shards (rules in signal.c), and operators whose result has axes that no input has.
 *
 * A device that has some frames of STFT reads what these reach over, and runs it on that. Windows, MelWeightMatrix and
 * one-hot codes are made whole, which is less work than anything that is done with them, and cut.
 */
#include "base/arith.h"
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_parts.h"
#include "ops/local_statistics.h"

/* ---- STFT ------------------------------------------------------------------------------------------------------- */

enum { IN_SIGNAL, IN_STEP, IN_WINDOW, IN_LENGTH };

/* A list of one known integer; -1 where it is not known. */
static int64_t known_number(struct sp_local *local, uint32_t input)
{
    uint32_t count = 0;
    const int64_t *known = input < local->input_count ? sp_local_known(local, input, &count) : NULL;
    return known != NULL && count == 1 ? known[0] : -1;
}

static int64_t frame_length(struct sp_local *local)
{
    if (local->input_count > IN_LENGTH && local->inputs[IN_LENGTH].value != NULL)
        return known_number(local, IN_LENGTH);
    if (local->input_count > IN_WINDOW && local->inputs[IN_WINDOW].value != NULL && local->inputs[IN_WINDOW].rank == 1)
        return local->inputs[IN_WINDOW].axes[0].extent;
    return local->inputs[IN_SIGNAL].axes[1].extent;
}

/* Frame f reads elements [f * step, f * step + length). */
enum sp_status sp_local_stft(struct sp_local *local)
{
    const uint8_t frames = sp_local_output_factor(local, 0, 1);
    if (!sp_local_is_split(local, frames))
        return sp_local_default(local);
    const struct sp_local_factor *own = &local->factors[frames];
    const int64_t step = known_number(local, IN_STEP), length = frame_length(local);
    int64_t start = 0, limit = 0;
    if (step < 1 || length < 1 || !sp_mul_i64(own->start, step, &start) ||
        !sp_mul_i64(own->start + own->size - 1, step, &limit) || !sp_add_i64(limit, length, &limit))
        sp_local_refuse(local, frames, "where a frame begins and ends is not known before the run");
    else if (!own->is_contiguous)
        sp_local_refuse(local, frames, "a device would have several ranges of frames");
    if (sp_local_status(local) != SP_OK)
        return sp_local_status(local);
    struct sp_piece **inputs = SP_NEW_ARRAY(local->arena, local->input_count, struct sp_piece *);
    if (inputs == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return sp_local_status(local);
    }
    inputs[IN_SIGNAL] = sp_local_input_range(local, IN_SIGNAL, 1, start, limit);
    for (uint32_t i = IN_STEP; i < local->input_count; i++)
        inputs[i] = sp_local_input(local, i);
    sp_local_output(local, 0, sp_local_same(local, local->input_count, inputs, 0, NULL));
    return sp_local_status(local);
}

/* ---- results that are made whole -------------------------------------------------------------------------------- */

/* Whether an axis of output 0 is cut by a factor that no input has. */
static bool is_new(const struct sp_local *local, uint32_t axis)
{
    const uint8_t factor = sp_local_output_factor(local, 0, axis);
    if (!sp_local_is_split(local, factor))
        return false;
    for (uint32_t input = 0; input < local->rule->input_count; input++)
        if (sp_local_operand_has(&local->rule->inputs[input], factor))
            return false;
    return true;
}

enum sp_status sp_local_made_whole(struct sp_local *local)
{
    const struct sp_local_operand *output = &local->outputs[0];
    int64_t *dims = SP_NEW_ARRAY(local->arena, output->rank, int64_t);
    bool is_any = false;
    for (uint32_t axis = 0; dims != NULL && axis < output->rank; axis++) {
        const bool is_cut = is_new(local, axis);
        dims[axis] = is_cut ? output->axes[axis].extent : output->axes[axis].size;
        is_any = is_any || is_cut;
    }
    if (dims != NULL && !is_any)
        return sp_local_default(local);
    struct sp_piece *piece = dims == NULL ? NULL : sp_local_same(local, 0, NULL, 0, NULL);
    if (dims == NULL)
        sp_local_failed(local, sp_fail_memory(local->err));
    sp_piece_set_dims(local, piece, output->rank, dims);
    for (uint32_t axis = 0; axis < output->rank && sp_local_status(local) == SP_OK; axis++)
        if (is_new(local, axis))
            piece = sp_local_keep_own(local, piece, axis, sp_local_output_factor(local, 0, axis), 0);
    sp_local_output(local, 0, piece);
    return sp_local_status(local);
}
