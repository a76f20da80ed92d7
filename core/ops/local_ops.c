#include <inttypes.h>
#include <string.h>

#include "ops/infer.h"
#include "ops/local_internal.h"

/* ---- operators -------------------------------------------------------------------------------------------------- */

static bool copy_text(struct sp_local *local, const char **text)
{
    if (*text == NULL)
        return true;
    *text = sp_arena_string(local->arena, *text, strlen(*text));
    if (*text == NULL)
        sp_local_failed(local, sp_fail_memory(local->err));
    return *text != NULL;
}

/* A copy in the memory of the node: what it was given may be on the caller's stack. */
static void *copy(struct sp_local *local, const void *from, uint32_t count, size_t size)
{
    void *array = sp_local_array(local, count, size);
    if (array != NULL && from != NULL && count > 0)
        memcpy(array, from, count * size);
    return array;
}

static bool copy_attribute(struct sp_local *local, struct sp_local_attribute *attribute)
{
    if (!copy_text(local, &attribute->name) || !copy_text(local, &attribute->s))
        return false;
    if (attribute->type == SP_ATTR_INTS)
        attribute->ints = copy(local, attribute->ints, attribute->count, sizeof *attribute->ints);
    if (attribute->type == SP_ATTR_FLOATS)
        attribute->floats = copy(local, attribute->floats, attribute->count, sizeof *attribute->floats);
    if (attribute->type == SP_ATTR_STRINGS) {
        const char **strings = copy(local, attribute->strings, attribute->count, sizeof *strings);
        for (uint32_t i = 0; strings != NULL && i < attribute->count; i++)
            if (!copy_text(local, &strings[i]))
                return false;
        attribute->strings = strings;
    }
    return sp_local_is_fine(local);
}

/* What all operators have in common: copies of what it was given. The event, or NULL. */
static struct sp_local_event *add_op(struct sp_local *local, const char *domain, const char *op_type,
                                     uint32_t input_count, struct sp_piece *const *inputs, uint32_t attribute_count,
                                     const struct sp_local_attribute *attributes, uint32_t output_count,
                                     struct sp_piece *const *outputs)
{
    struct sp_piece **inputs_kept = copy(local, inputs, input_count, sizeof *inputs_kept);
    struct sp_piece **outputs_kept = copy(local, outputs, output_count, sizeof *outputs_kept);
    struct sp_local_attribute *kept = copy(local, attributes, attribute_count, sizeof *kept);
    if (!sp_local_is_fine(local) || !copy_text(local, &domain) || !copy_text(local, &op_type))
        return NULL;
    for (uint32_t i = 0; i < attribute_count; i++)
        if (!copy_attribute(local, &kept[i]))
            return NULL;
    struct sp_local_event *event = sp_local_event(local, SP_LOCAL_OP);
    if (event == NULL)
        return NULL;
    event->op.domain = domain;
    event->op.op_type = op_type;
    event->op.input_count = input_count;
    event->op.inputs = inputs_kept;
    event->op.attribute_count = attribute_count;
    event->op.attributes = kept;
    event->op.output_count = output_count;
    event->op.outputs = outputs_kept;
    return event;
}

/* The piece of an output's part, or NULL where the node does not have the output. */
static struct sp_piece *output_piece(struct sp_local *local, uint32_t output)
{
    const struct sp_local_operand *operand = &local->outputs[output];
    const struct sp_value *value = operand->value;
    if (value == NULL)
        return NULL;
    const bool is_tensor = value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_SPARSE_TENSOR;
    struct sp_piece *piece = sp_local_piece(local, value->name, is_tensor ? value->type.dtype : SP_DTYPE_UNDEFINED);
    int64_t *dims = SP_LOCAL_ARRAY(local, operand->rank, int64_t);
    if (piece == NULL || dims == NULL || !is_tensor || !value->type.shape.has_rank)
        return piece;
    for (uint32_t i = 0; i < operand->rank; i++)
        dims[i] = operand->axes[i].size;
    sp_piece_set_dims(local, piece, operand->rank, dims);
    return piece;
}

void sp_local_same_many(struct sp_local *local, uint32_t input_count, struct sp_piece *const *inputs,
                        uint32_t attribute_count, const struct sp_local_attribute *attributes,
                        struct sp_piece **ret_outputs)
{
    if (inputs == NULL) {
        struct sp_piece **parts = SP_LOCAL_ARRAY(local, local->input_count, struct sp_piece *);
        for (uint32_t i = 0; parts != NULL && i < local->input_count; i++)
            parts[i] = sp_local_input(local, i);
        inputs = parts;
        input_count = local->input_count;
    }
    for (uint32_t i = 0; i < local->output_count; i++)
        ret_outputs[i] = NULL;
    for (uint32_t i = 0; i < local->output_count && sp_local_is_fine(local); i++)
        ret_outputs[i] = output_piece(local, i);
    if (!sp_local_is_fine(local))
        return;
    struct sp_local_event *event = add_op(local, local->node->domain, local->node->op_type, input_count, inputs,
                                          attribute_count, attributes, local->output_count, ret_outputs);
    if (event != NULL)
        event->op.is_same = true;
}

struct sp_piece *sp_local_same(struct sp_local *local, uint32_t input_count, struct sp_piece *const *inputs,
                               uint32_t attribute_count, const struct sp_local_attribute *attributes)
{
    struct sp_piece **outputs = SP_LOCAL_ARRAY(local, (size_t)local->output_count + 1, struct sp_piece *);
    if (outputs == NULL || !sp_local_is_fine(local))
        return NULL;
    sp_local_same_many(local, input_count, inputs, attribute_count, attributes, outputs);
    return sp_local_is_fine(local) ? outputs[0] : NULL;
}

void sp_local_op_many(struct sp_local *local, const char *domain, const char *op_type, uint32_t input_count,
                      struct sp_piece *const *inputs, uint32_t attribute_count,
                      const struct sp_local_attribute *attributes, uint32_t output_count, const enum sp_dtype *dtypes,
                      struct sp_piece **ret_outputs)
{
    for (uint32_t i = 0; i < output_count; i++)
        ret_outputs[i] = NULL;
    for (uint32_t i = 0; i < output_count && sp_local_is_fine(local); i++)
        ret_outputs[i] = sp_local_piece(local, op_type, dtypes[i]);
    if (sp_local_is_fine(local))
        (void)add_op(local, domain, op_type, input_count, inputs, attribute_count, attributes, output_count,
                     ret_outputs);
}

struct sp_piece *sp_local_op(struct sp_local *local, const char *op_type, enum sp_dtype dtype, uint32_t input_count,
                             struct sp_piece *const *inputs, uint32_t attribute_count,
                             const struct sp_local_attribute *attributes)
{
    struct sp_piece *piece;
    sp_local_op_many(local, "", op_type, input_count, inputs, attribute_count, attributes, 1, &dtype, &piece);
    return sp_local_is_fine(local) ? piece : NULL;
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

/* The split ones of these factors, ascending, each once; *ret_count of them. */
static const uint8_t *split_ones(struct sp_local *local, uint32_t count, const uint8_t *factors, uint32_t *ret_count)
{
    bool is_named[256] = {false};
    uint32_t used = 0;
    *ret_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (factors[i] >= local->factor_count) {
            sp_local_misuse(local, "names factor %u of %" PRIu32, factors[i], local->factor_count);
            return NULL;
        }
        is_named[factors[i]] = local->factors[factors[i]].is_split;
    }
    uint8_t *list = SP_LOCAL_ARRAY(local, count, uint8_t);
    for (uint32_t i = 0; list != NULL && i < local->factor_count; i++)
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
static enum sp_dtype choose_type(struct sp_local *local, const struct sp_piece *x, enum sp_combiner combiner,
                                 uint8_t factor)
{
    char subject[300];
    if (combiner < SP_COMBINE_SUM || combiner > SP_COMBINE_PROD || x->dtype == SP_DTYPE_UNDEFINED) {
        sp_local_misuse(local, "combines what cannot be combined");
        return SP_DTYPE_UNDEFINED;
    }
    const enum sp_dtype dtype = sp_local_combined_in(local, combiner, x->dtype);
    if (dtype == SP_DTYPE_UNDEFINED)
        sp_local_whole(local, factor,
                       "%s has partial results of type %s, which version %" PRId64
                       " of the operator set cannot combine "
                       "exactly, so it is computed whole on every device.",
                       sp_op_subject(local->node, subject, sizeof subject), sp_dtype_name(x->dtype), local->opset);
    return dtype;
}

struct sp_piece *sp_local_all_reduce(struct sp_local *local, struct sp_piece *x, enum sp_combiner combiner,
                                     uint32_t factor_count, const uint8_t *factors)
{
    uint32_t count;
    if (!sp_local_has(local, x, x))
        return NULL;
    const uint8_t *list = split_ones(local, factor_count, factors, &count);
    if (!sp_local_is_fine(local) || count == 0)
        return sp_local_is_fine(local) ? x : NULL;
    combiner = combiner_for(x->dtype, combiner);
    const enum sp_dtype dtype = choose_type(local, x, combiner, list[0]);
    struct sp_piece *from = sp_local_is_fine(local) ? sp_local_cast(local, x, dtype) : NULL;
    struct sp_piece *piece = sp_local_piece(local, "AllReduce", dtype);
    struct sp_local_event *event = sp_local_event(local, SP_LOCAL_ALL_REDUCE);
    if (event == NULL)
        return NULL;
    event->piece = piece;
    event->collective.from = from;
    event->collective.combiner = combiner;
    event->collective.factor_count = count;
    event->collective.factors = list;
    if (x->dims != NULL)
        sp_piece_set_dims(local, piece, x->rank, x->dims);
    return sp_local_cast(local, piece, x->dtype);
}

struct sp_piece *sp_local_all_gather(struct sp_local *local, struct sp_piece *x, uint8_t factor, uint32_t axis)
{
    uint32_t count;
    if (!sp_local_has(local, x, x))
        return NULL;
    const uint8_t *list = split_ones(local, 1, &factor, &count);
    if (!sp_local_is_fine(local) || count == 0)
        return sp_local_is_fine(local) ? x : NULL;
    if (x->dims == NULL || axis >= x->rank) {
        sp_local_misuse(local, "gathers pieces whose extents it does not say");
        return NULL;
    }
    int64_t *dims = copy(local, x->dims, x->rank, sizeof *dims);
    struct sp_piece *piece = sp_local_piece(local, "AllGather", x->dtype);
    struct sp_local_event *event = sp_local_event(local, SP_LOCAL_ALL_GATHER);
    if (event == NULL || dims == NULL)
        return NULL;
    event->piece = piece;
    event->collective.from = x;
    event->collective.axis = axis;
    event->collective.factor_count = count;
    event->collective.factors = list;
    /* What the others give along the axis is not known here. */
    dims[axis] = -1;
    sp_piece_set_dims(local, piece, x->rank, dims);
    return piece;
}

bool sp_local_operand_has(const struct sp_operand_rule *operand, uint32_t factor)
{
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        for (uint32_t i = 0; i < operand->axes[axis].count; i++)
            if (operand->axes[axis].factors[i] == factor)
                return true;
    return false;
}

const uint8_t *sp_local_partial_factors(struct sp_local *local, uint32_t output, uint32_t *ret_count)
{
    uint32_t used = 0;
    *ret_count = 0;
    if (!sp_local_is_fine(local) || output >= local->rule->output_count)
        return NULL;
    uint8_t *list = SP_LOCAL_ARRAY(local, local->factor_count, uint8_t);
    for (uint32_t i = 0; list != NULL && i < local->factor_count; i++)
        if (local->factors[i].is_split && local->rule->factors[i].kind == SP_FACTOR_REDUCTION &&
            !sp_local_operand_has(&local->rule->outputs[output], i))
            list[used++] = (uint8_t)i;
    *ret_count = used;
    return list;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static struct sp_local_event *add_output(struct sp_local *local, uint32_t output, struct sp_piece *piece,
                                         enum sp_local_output_kind kind)
{
    if (!sp_local_is_fine(local))
        return NULL;
    if (piece == NULL || output >= local->output_count || local->outputs[output].value == NULL) {
        sp_local_misuse(local, "gives output %" PRIu32 ", which is not there", output);
        return NULL;
    }
    for (uint32_t i = 0; i < local->recorder->count; i++) {
        if (local->recorder->events[i].kind == SP_LOCAL_OUTPUT && local->recorder->events[i].output.index == output) {
            sp_local_misuse(local, "gives output %" PRIu32 " twice", output);
            return NULL;
        }
    }
    struct sp_local_event *event = sp_local_event(local, SP_LOCAL_OUTPUT);
    if (event == NULL)
        return NULL;
    event->piece = piece;
    event->output.index = output;
    event->output.kind = kind;
    return event;
}

void sp_local_output(struct sp_local *local, uint32_t output, struct sp_piece *piece)
{
    (void)add_output(local, output, piece, SP_LOCAL_PART);
}

void sp_local_output_whole(struct sp_local *local, uint32_t output, struct sp_piece *piece)
{
    (void)add_output(local, output, piece, SP_LOCAL_WHOLE);
}

void sp_local_output_partial(struct sp_local *local, uint32_t output, struct sp_piece *piece, enum sp_combiner combiner,
                             uint32_t factor_count, const uint8_t *factors)
{
    uint32_t count;
    if (!sp_local_has(local, piece, piece)) {
        (void)add_output(local, output, piece, SP_LOCAL_PARTIAL);
        return;
    }
    const uint8_t *list = split_ones(local, factor_count, factors, &count);
    if (!sp_local_is_fine(local))
        return;
    combiner = combiner_for(piece->dtype, combiner);
    const enum sp_dtype dtype = count == 0 ? piece->dtype : choose_type(local, piece, combiner, list[0]);
    if (dtype != piece->dtype) {
        /* Combined in another type, and the output cannot have that one. */
        piece = sp_local_all_reduce(local, piece, combiner, count, list);
        count = 0;
    }
    struct sp_local_event *event = add_output(local, output, piece, count == 0 ? SP_LOCAL_PART : SP_LOCAL_PARTIAL);
    if (event == NULL || count == 0)
        return;
    event->output.combiner = combiner;
    event->output.factor_count = count;
    event->output.factors = list;
}
