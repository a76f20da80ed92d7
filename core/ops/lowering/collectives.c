#include <inttypes.h>

#include "ops/lowering/internal.h"
#include "ops/table/shape_helpers.h"

/* ---- collectives ------------------------------------------------------------------------------------------------ */

/* The split ones of these factors, ascending, each once; *ret_count of them. */
static const uint8_t *split_ones(struct sp_lowering *lower, uint32_t count, const uint8_t *factors, uint32_t *ret_count)
{
    bool is_named[256] = {false};
    uint32_t used = 0;
    *ret_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (factors[i] >= lower->factor_count) {
            sp_lower_misuse(lower, "names factor %u of %" PRIu32, factors[i], lower->factor_count);
            return NULL;
        }
        is_named[factors[i]] = lower->factors[factors[i]].is_split;
    }
    uint8_t *list = SP_LOWER_ARRAY(lower, count, uint8_t);
    for (uint32_t i = 0; list != NULL && i < lower->factor_count; i++)
        if (is_named[i])
            list[used++] = (uint8_t)i;
    *ret_count = used;
    return list;
}

/* bool has no sums: any of them is true, or all are. */
static enum sp_combiner combiner_for(enum sp_dtype dtype, enum sp_combiner combiner)
{
    if (dtype == SP_DTYPE_BOOL && combiner == SP_COMBINE_SUM)
        return SP_COMBINE_MAX;
    return dtype == SP_DTYPE_BOOL && combiner == SP_COMBINE_PROD ? SP_COMBINE_MIN : combiner;
}

/* The type to combine in, or UNDEFINED after an error. */
static enum sp_dtype choose_type(struct sp_lowering *lower, const struct sp_piece *x, enum sp_combiner combiner,
                                 uint8_t factor)
{
    char subject[300];
    if (combiner < SP_COMBINE_SUM || combiner > SP_COMBINE_PROD || x->dtype == SP_DTYPE_UNDEFINED) {
        sp_lower_misuse(lower, "combines what cannot be combined");
        return SP_DTYPE_UNDEFINED;
    }
    const enum sp_dtype dtype = sp_lower_combined_in(lower, combiner, x->dtype);
    if (dtype == SP_DTYPE_UNDEFINED)
        sp_lower_whole(lower, factor,
                       "%s has partial results of type %s, which version %" PRId64
                       " of the operator set cannot combine "
                       "exactly, so it is computed whole on every device.",
                       sp_op_subject(lower->node, subject, sizeof subject), sp_dtype_name(x->dtype), lower->opset);
    return dtype;
}

struct sp_piece *sp_lower_all_reduce(struct sp_lowering *lower, struct sp_piece *x, enum sp_combiner combiner,
                                     uint32_t factor_count, const uint8_t *factors)
{
    uint32_t count;
    if (!sp_lower_has(lower, x, x))
        return NULL;
    const uint8_t *list = split_ones(lower, factor_count, factors, &count);
    if (!sp_lower_is_fine(lower) || count == 0)
        return sp_lower_is_fine(lower) ? x : NULL;
    combiner = combiner_for(x->dtype, combiner);
    const enum sp_dtype dtype = choose_type(lower, x, combiner, list[0]);
    struct sp_piece *from = sp_lower_is_fine(lower) ? sp_lower_cast(lower, x, dtype) : NULL;
    sp_lower_write(lower, from);
    struct sp_piece *piece = sp_lower_piece(lower, "AllReduce", dtype);
    struct sp_lower_event *event = sp_lower_event(lower, SP_LOWER_ALL_REDUCE);
    if (event == NULL)
        return NULL;
    event->piece = piece;
    event->collective.from = from;
    event->collective.combiner = combiner;
    event->collective.factor_count = count;
    event->collective.factors = list;
    if (x->dims != NULL)
        sp_piece_set_dims(lower, piece, x->rank, x->dims);
    return sp_lower_cast(lower, piece, x->dtype);
}

struct sp_piece *sp_lower_all_gather(struct sp_lowering *lower, struct sp_piece *x, uint8_t factor, uint32_t axis)
{
    uint32_t count;
    if (!sp_lower_has(lower, x, x))
        return NULL;
    const uint8_t *list = split_ones(lower, 1, &factor, &count);
    if (!sp_lower_is_fine(lower) || count == 0)
        return sp_lower_is_fine(lower) ? x : NULL;
    if (x->dims == NULL || axis >= x->rank) {
        sp_lower_misuse(lower, "gathers pieces whose extents it does not say");
        return NULL;
    }
    int64_t *dims = sp_lower_copy(lower, x->dims, x->rank, sizeof *dims);
    sp_lower_write(lower, x);
    struct sp_piece *piece = sp_lower_piece(lower, "AllGather", x->dtype);
    struct sp_lower_event *event = sp_lower_event(lower, SP_LOWER_ALL_GATHER);
    if (event == NULL || dims == NULL)
        return NULL;
    event->piece = piece;
    event->collective.from = x;
    event->collective.axis = axis;
    event->collective.factor_count = count;
    event->collective.factors = list;
    /* What the others give along the axis is not known here. */
    dims[axis] = -1;
    sp_piece_set_dims(lower, piece, x->rank, dims);
    return piece;
}

bool sp_lower_operand_has(const struct sp_operand_rule *operand, uint32_t factor)
{
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        for (uint32_t i = 0; i < operand->axes[axis].count; i++)
            if (operand->axes[axis].factors[i] == factor)
                return true;
    return false;
}

const uint8_t *sp_lower_partial_factors(struct sp_lowering *lower, uint32_t output, uint32_t *ret_count)
{
    uint32_t used = 0;
    *ret_count = 0;
    if (!sp_lower_is_fine(lower) || output >= lower->rule->output_count)
        return NULL;
    uint8_t *list = SP_LOWER_ARRAY(lower, lower->factor_count, uint8_t);
    for (uint32_t i = 0; list != NULL && i < lower->factor_count; i++)
        if (lower->factors[i].is_split && lower->rule->factors[i].kind == SP_FACTOR_REDUCTION &&
            !sp_lower_operand_has(&lower->rule->outputs[output], i))
            list[used++] = (uint8_t)i;
    *ret_count = used;
    return list;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static struct sp_lower_event *add_output(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece,
                                         enum sp_lower_output_kind kind)
{
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (lower->view != NULL && piece != NULL && sp_lower_is_output_last(lower, output))
        piece = sp_lower_store(lower, piece);
    if (piece == NULL || output >= lower->output_count || lower->outputs[output].value == NULL) {
        sp_lower_misuse(lower, "gives output %" PRIu32 ", which is not there", output);
        return NULL;
    }
    for (uint32_t i = 0; i < lower->recorder->count; i++) {
        if (lower->recorder->events[i].kind == SP_LOWER_OUTPUT && lower->recorder->events[i].output.index == output) {
            sp_lower_misuse(lower, "gives output %" PRIu32 " twice", output);
            return NULL;
        }
    }
    struct sp_lower_event *event = sp_lower_event(lower, SP_LOWER_OUTPUT);
    if (event == NULL)
        return NULL;
    event->piece = piece;
    event->output.index = output;
    event->output.kind = kind;
    return event;
}

void sp_lower_output(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece)
{
    (void)add_output(lower, output, piece, SP_LOWER_PART);
}

void sp_lower_output_whole(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece)
{
    (void)add_output(lower, output, piece, SP_LOWER_WHOLE);
}

void sp_lower_output_partial(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece,
                             enum sp_combiner combiner, uint32_t factor_count, const uint8_t *factors)
{
    uint32_t count;
    if (!sp_lower_has(lower, piece, piece)) {
        (void)add_output(lower, output, piece, SP_LOWER_PARTIAL);
        return;
    }
    const uint8_t *list = split_ones(lower, factor_count, factors, &count);
    if (!sp_lower_is_fine(lower))
        return;
    combiner = combiner_for(piece->dtype, combiner);
    const enum sp_dtype dtype = count == 0 ? piece->dtype : choose_type(lower, piece, combiner, list[0]);
    if (dtype != piece->dtype) {
        /* Combined in another type, and the output cannot have that one. */
        piece = sp_lower_all_reduce(lower, piece, combiner, count, list);
        count = 0;
    }
    struct sp_lower_event *event = add_output(lower, output, piece, count == 0 ? SP_LOWER_PART : SP_LOWER_PARTIAL);
    if (event == NULL || count == 0)
        return;
    event->output.combiner = combiner;
    event->output.factor_count = count;
    event->output.factors = list;
}
