#include "infer/forward.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "infer/settle.h"

/* ---- what a tensor is where it is made ------------------------------------------------------------------------- */

struct made {
    const struct sp_sharding *sharding; /* NULL: nothing known */
    const struct sp_node *by;           /* the node that made or passed it; NULL: an input of the model */
};

/* A node whose inner graph is run again and again. */
struct loop {
    bool is_begun;
    uint8_t rounds;
    uint32_t begin;      /* its first relation */
    uint32_t stop_count; /* stops before it */
};

struct pass {
    struct sp_assignment *assignment;
    struct sp_arena *scratch; /* of one relation */
    struct sp_error *err;
    struct made *made;   /* per tensor */
    struct made *forced; /* per tensor: what a body's input is after the first round */
    struct loop *loops;  /* per node */
    uint8_t *is_told;    /* per node: stops tell what contradicts */
    uint64_t budget;     /* relations that may be looked at again */
};

static const struct sp_value *value_of(const struct pass *pass, uint32_t tensor)
{
    return tensor == SP_NO_TENSOR ? NULL : pass->assignment->dataflow->tensors[tensor];
}

static bool has_rank(const struct sp_value *value)
{
    return value != NULL && value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank &&
           value->type.shape.rank <= SP_MAX_RANK;
}

/* ---- shardings that outlive the scratch ------------------------------------------------------------------------- */

static enum sp_status copy_dims(struct sp_arena *arena, const struct sp_sharding *from, struct sp_block_dim *dims,
                                struct sp_error *err)
{
    for (uint32_t i = 0; i < from->rank; i++) {
        dims[i].part_count = from->blocks[i].part_count;
        dims[i].parts = SP_NEW_ARRAY(arena, dims[i].part_count, struct sp_block_part);
        if (dims[i].parts == NULL)
            return sp_fail_memory(err);
        if (dims[i].part_count > 0)
            memcpy(dims[i].parts, from->blocks[i].parts, dims[i].part_count * sizeof *dims[i].parts);
    }
    return SP_OK;
}

/* A copy of BLOCKS. */
static enum sp_status keep(struct sp_arena *arena, const struct sp_sharding *from, const struct sp_sharding **ret_kept,
                           struct sp_error *err)
{
    struct sp_sharding *kept = SP_NEW(arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, from->rank, struct sp_block_dim);
    size_t count = from->first[from->shard_count];
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)from->shard_count + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(arena, count, int64_t);
    if (kept == NULL || dims == NULL || first == NULL || devices == NULL)
        return sp_fail_memory(err);
    enum sp_status status = copy_dims(arena, from, dims, err);
    if (status != SP_OK)
        return status;
    memcpy(first, from->first, ((size_t)from->shard_count + 1) * sizeof *first);
    memcpy(devices, from->devices, count * sizeof *devices);
    *kept = *from;
    kept->blocks = dims;
    kept->first = first;
    kept->devices = devices;
    *ret_kept = kept;
    return SP_OK;
}

/* Whether two are written alike. */
static bool is_same(const struct sp_sharding *a, const struct sp_sharding *b)
{
    if (a == b)
        return true;
    if (a->kind != SP_SHARDING_BLOCKS || b->kind != SP_SHARDING_BLOCKS || a->rank != b->rank ||
        a->shard_count != b->shard_count)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->blocks[i].part_count != b->blocks[i].part_count)
            return false;
        for (uint32_t k = 0; k < a->blocks[i].part_count; k++)
            if (a->blocks[i].parts[k].shards != b->blocks[i].parts[k].shards ||
                a->blocks[i].parts[k].extent != b->blocks[i].parts[k].extent)
                return false;
    }
    return memcmp(a->first, b->first, ((size_t)a->shard_count + 1) * sizeof *a->first) == 0 &&
           memcmp(a->devices, b->devices, a->first[a->shard_count] * sizeof *a->devices) == 0;
}

/* A sharding of the node's operands that is the same, or a copy: results mostly look like an input. */
static enum sp_status keep_or_share(struct pass *pass, const struct sp_relation *relation,
                                    const struct sp_sharding *result, const struct sp_sharding **ret_kept)
{
    for (uint32_t i = 0; i < relation->operand_count; i++) {
        const struct sp_sharding *operand = sp_spec_of(pass->assignment, relation->node_id, i)->sharding;
        if (operand != NULL && is_same(operand, result)) {
            *ret_kept = operand;
            return SP_OK;
        }
    }
    return keep(pass->assignment->arena, result, ret_kept, pass->err);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 5, 6))) static enum sp_status infer_spec(struct pass *pass, struct sp_spec_entry *entry,
                                                                       const struct sp_sharding *sharding,
                                                                       enum sp_spec_origin origin, const char *format,
                                                                       ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    const char *because = sp_arena_string(pass->assignment->arena, text, strlen(text));
    if (because == NULL)
        return sp_fail_memory(pass->err);
    *entry = (struct sp_spec_entry){sharding, origin, because};
    return SP_OK;
}

/* The spec of who made it. */
static enum sp_status take_made(struct pass *pass, const struct sp_relation *relation, uint32_t input)
{
    struct sp_spec_entry *entry = sp_spec_of(pass->assignment, relation->node_id, input);
    const struct sp_value *value = value_of(pass, relation->tensors[input]);
    char label[264];
    if (value == NULL || entry->sharding != NULL)
        return SP_OK;
    const struct made *made = &pass->made[relation->tensors[input]];
    if (made->sharding == NULL)
        return SP_OK;
    if (made->by == NULL)
        return infer_spec(pass, entry, made->sharding, SP_SPEC_INFERRED, "'%.120s' is an input with this spec.",
                          value->name);
    return infer_spec(pass, entry, made->sharding, SP_SPEC_INFERRED, "'%.120s' is taken as %s makes it.", value->name,
                      sp_node_label(made->by, label, sizeof label));
}

/* Marks the devices of the specs of operands [begin, end); how many there are then. */
static enum sp_status mark_devices(struct pass *pass, const struct sp_relation *relation, uint32_t begin, uint32_t end,
                                   uint8_t *is_in, int64_t *count)
{
    for (uint32_t i = begin; i < end; i++) {
        const struct sp_spec_entry *entry = sp_spec_of(pass->assignment, relation->node_id, i);
        const int64_t *devices = NULL;
        int64_t named = 0;
        if (entry->sharding == NULL || entry->origin == SP_SPEC_ASSUMED)
            continue;
        enum sp_status status = sp_sharding_devices(pass->scratch, entry->sharding, pass->assignment->device_count,
                                                    &named, &devices, pass->err);
        if (status != SP_OK)
            return status;
        for (int64_t d = 0; d < named; d++) {
            *count += !is_in[devices[d]];
            is_in[devices[d]] = 1;
        }
    }
    return SP_OK;
}

/* Whole on the devices that the node uses: those of its inputs, or of its outputs where no input has a spec. */
static enum sp_status devices_of_node(struct pass *pass, const struct sp_relation *relation, int64_t *ret_count,
                                      uint8_t **ret_is_in)
{
    uint8_t *is_in = SP_NEW_ARRAY(pass->scratch, (size_t)pass->assignment->device_count, uint8_t);
    int64_t count = 0;
    if (is_in == NULL)
        return sp_fail_memory(pass->err);
    enum sp_status status = mark_devices(pass, relation, 0, relation->input_count, is_in, &count);
    if (status == SP_OK && count == 0)
        status = mark_devices(pass, relation, relation->input_count, relation->operand_count, is_in, &count);
    *ret_count = count;
    *ret_is_in = is_in;
    return status;
}

static enum sp_status whole_on(struct pass *pass, uint32_t rank, int64_t count, const uint8_t *is_in,
                               struct sp_sharding **ret_whole)
{
    struct sp_arena *arena = pass->assignment->arena;
    struct sp_sharding *whole = SP_NEW(arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, rank, struct sp_block_dim);
    uint32_t *first = SP_NEW_ARRAY(arena, 2, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)count, int64_t), used = 0;
    if (whole == NULL || dims == NULL || first == NULL || devices == NULL)
        return sp_fail_memory(pass->err);
    for (int64_t d = 0; d < pass->assignment->device_count; d++)
        if (is_in[d])
            devices[used++] = d;
    first[1] = (uint32_t)count;
    *whole = (struct sp_sharding){
        .kind = SP_SHARDING_BLOCKS, .rank = rank, .blocks = dims, .shard_count = 1, .first = first, .devices = devices};
    *ret_whole = whole;
    return SP_OK;
}

/* The inputs that nothing is said of. */
static enum sp_status assume_inputs(struct pass *pass, const struct sp_relation *relation)
{
    int64_t count = -1;
    uint8_t *is_in = NULL;
    struct sp_sharding *whole = NULL;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < relation->input_count && status == SP_OK; i++) {
        struct sp_spec_entry *entry = sp_spec_of(pass->assignment, relation->node_id, i);
        const struct sp_value *value = value_of(pass, relation->tensors[i]);
        if (entry->sharding != NULL || !has_rank(value))
            continue;
        if (count < 0)
            status = devices_of_node(pass, relation, &count, &is_in);
        if (status != SP_OK || count == 0 || is_in == NULL)
            return status;
        if (whole == NULL || whole->rank != value->type.shape.rank)
            status = whole_on(pass, value->type.shape.rank, count, is_in, &whole);
        if (status == SP_OK)
            status =
                infer_spec(pass, entry, whole, SP_SPEC_ASSUMED,
                           "Nothing is said of '%.120s': it is whole on all devices that the node uses.", value->name);
    }
    return status;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

static const char *stop_code(enum sp_conflict_kind kind)
{
    switch (kind) {
    case SP_CONFLICT_NEEDS_WHOLE:
        return "NEEDS_WHOLE_AXIS";
    case SP_CONFLICT_BLOCK:
        return "BLOCK";
    case SP_CONFLICT_FACTORS:
        return "NOT_DIVISIBLE";
    case SP_CONFLICT_SEVERAL:
        return "SEVERAL_SHARDS";
    case SP_CONFLICT_DEVICES:
    case SP_CONFLICT_COVERAGE:
        return "DEVICES";
    default:
        return "SPLIT_CONFLICT";
    }
}

/* What the conflicts are said as; whether the inputs contradict each other, so that nothing follows from them. */
static enum sp_status tell_conflicts(struct pass *pass, const struct sp_relation *relation, const struct sp_view *view,
                                     bool *ret_contradict)
{
    enum sp_status status = SP_OK;
    *ret_contradict = false;
    for (uint32_t i = 0; i < view->conflict_count && status == SP_OK; i++) {
        const struct sp_conflict *conflict = &view->conflicts[i];
        const struct sp_value *value = value_of(pass, relation->tensors[conflict->operand]);
        *ret_contradict =
            *ret_contradict || (conflict->kind != SP_CONFLICT_NEEDS_WHOLE && conflict->kind != SP_CONFLICT_BLOCK);
        if (!pass->is_told[relation->node_id])
            status = sp_assignment_stop(pass->assignment, stop_code(conflict->kind), relation->node,
                                        value != NULL ? value->name : NULL, pass->err, "%s", conflict->message);
    }
    if (view->is_too_large && !pass->is_told[relation->node_id])
        status = sp_assignment_stop(pass->assignment, "TOO_LARGE", relation->node, NULL, pass->err,
                                    "The node has too many operands on too many devices to be looked at.");
    pass->is_told[relation->node_id] |= view->conflict_count > 0 || view->is_too_large;
    return status;
}

/* An input axis that is this factor, or part of it is; false when no input has the factor. */
static bool find_source(const struct pass *pass, const struct sp_relation *relation, const struct sp_rule *rule,
                        uint8_t factor, const char **ret_tensor, uint32_t *ret_axis)
{
    for (uint32_t i = 0; i < rule->input_count; i++) {
        const struct sp_operand_rule *input = &rule->inputs[i];
        for (uint32_t axis = 0; axis < input->rank; axis++) {
            for (uint8_t k = 0; k < input->axes[axis].count; k++) {
                if (input->axes[axis].factors[k] != factor)
                    continue;
                *ret_tensor = value_of(pass, relation->tensors[i])->name;
                *ret_axis = axis;
                return true;
            }
        }
    }
    return false;
}

/* "; axis 1 is factor n, as axis 0 of 'W' is" for each axis of the output that is split; what does not fit is left. */
static void describe_axes(const struct pass *pass, const struct sp_relation *relation, const struct sp_view *view,
                          uint32_t output, char *text, size_t size)
{
    const struct sp_operand_rule *operand = &view->rule->outputs[output];
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        for (uint8_t k = 0; k < operand->axes[axis].count && used + 1 < size; k++) {
            uint8_t factor = operand->axes[axis].factors[k];
            const char *tensor;
            uint32_t other;
            if (view->splits[factor].part_count == 0 ||
                !find_source(pass, relation, view->rule, factor, &tensor, &other))
                continue;
            int length = snprintf(text + used, size - used, "; axis %u is factor %s, as axis %u of '%.100s' is", axis,
                                  view->rule->factors[factor].name, other, tensor);
            used += length > 0 ? (size_t)length : 0;
        }
    }
    if (used >= size)
        (void)snprintf(text, size, "; its split axes are factors that its inputs split");
}

static enum sp_status infer_outputs(struct pass *pass, const struct sp_relation *relation, const struct sp_view *view)
{
    bool contradict = false;
    char label[264], axes[400];
    enum sp_status status = tell_conflicts(pass, relation, view, &contradict);
    for (uint32_t i = relation->input_count; i < relation->operand_count && status == SP_OK; i++) {
        struct sp_spec_entry *entry = sp_spec_of(pass->assignment, relation->node_id, i);
        const struct sp_value *value = value_of(pass, relation->tensors[i]);
        uint32_t output = i - relation->input_count;
        const struct sp_sharding *kept = NULL;
        if (value == NULL || entry->sharding != NULL || view->results[output] == NULL || contradict)
            continue;
        status = keep_or_share(pass, relation, view->results[output], &kept);
        describe_axes(pass, relation, view, output, axes, sizeof axes);
        if (status == SP_OK)
            status =
                infer_spec(pass, entry, kept, SP_SPEC_INFERRED, "'%.120s' is what %s computes from its inputs%s%s.",
                           value->name, sp_node_label(relation->node, label, sizeof label), axes,
                           view->is_partial[output] ? ", reduced on all devices that take part" : "");
    }
    return status;
}

/* ---- relations --------------------------------------------------------------------------------------------------- */

static bool has_any_spec(const struct pass *pass, const struct sp_relation *relation)
{
    for (uint32_t i = 0; i < relation->operand_count; i++)
        if (sp_spec_of(pass->assignment, relation->node_id, i)->sharding != NULL)
            return true;
    return false;
}

static enum sp_status pass_node(struct pass *pass, const struct sp_relation *relation)
{
    struct sp_view *view = NULL;
    bool contradict = false;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < relation->input_count && status == SP_OK; i++)
        status = take_made(pass, relation, i);
    if (status != SP_OK || !has_any_spec(pass, relation))
        return status;
    status = assume_inputs(pass, relation);
    if (status == SP_OK)
        status = sp_view_create(pass->scratch, pass->assignment, relation, &view, pass->err);
    if (status == SP_OK && pass->assignment->gathers_contradictions)
        status = tell_conflicts(pass, relation, view, &contradict);
    if (status == SP_OK && pass->assignment->gathers_contradictions)
        status = sp_settle_node(pass->assignment, relation, pass->scratch, &view, pass->err);
    if (status == SP_OK)
        status = infer_outputs(pass, relation, view);
    for (uint32_t i = relation->input_count; i < relation->operand_count && status == SP_OK; i++)
        if (relation->tensors[i] != SP_NO_TENSOR)
            pass->made[relation->tensors[i]] =
                (struct made){sp_spec_of(pass->assignment, relation->node_id, i)->sharding, relation->node};
    return status;
}

/* The entry of the node at whose boundary the relation stands, for the outer tensor; NULL when it is no operand. */
static struct sp_spec_entry *outer_entry(struct pass *pass, const struct sp_relation *relation, uint32_t tensor,
                                         bool is_output)
{
    const struct sp_node *node = relation->node;
    uint32_t begin = is_output ? node->input_count : 0;
    uint32_t end = is_output ? node->input_count + node->output_count : node->input_count;
    for (uint32_t i = begin; i < end; i++) {
        const struct sp_value *value = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        if (value != NULL && value == value_of(pass, tensor))
            return sp_spec_of(pass->assignment, relation->node_id, i);
    }
    return NULL;
}

/* The sharding of one side of a boundary seen from the other: axes that the other has not are needed whole. */
static enum sp_status carry(struct pass *pass, const struct sp_relation *relation, const struct sp_sharding *from,
                            const struct sp_sharding **ret_to)
{
    struct sp_spec_entry operands[2] = {{.sharding = from, .origin = SP_SPEC_GIVEN}, {0}};
    struct sp_node_specs specs = {.operands = operands};
    struct sp_assignment one = *pass->assignment;
    struct sp_relation alone = *relation;
    struct sp_view *view = NULL;
    one.nodes = &specs;
    alone.node_id = 0;
    *ret_to = NULL;
    enum sp_status status = sp_view_create(pass->scratch, &one, &alone, &view, pass->err);
    if (status != SP_OK)
        return status;
    bool contradict = false;
    status = tell_conflicts(pass, relation, view, &contradict);
    if (status != SP_OK || contradict || view->results[0] == NULL)
        return status;
    if (from->kind == SP_SHARDING_BLOCKS && is_same(from, view->results[0])) {
        *ret_to = from;
        return SP_OK;
    }
    return keep(pass->assignment->arena, view->results[0], ret_to, pass->err);
}

static enum sp_status tell_branches(struct pass *pass, const struct sp_relation *relation,
                                    const struct sp_sharding *first, const struct sp_sharding *second)
{
    const struct sp_value *value = value_of(pass, relation->tensors[1]);
    char label[264], text[SP_SPEC_TEXT_SIZE], other[SP_SPEC_TEXT_SIZE];
    return sp_assignment_stop(pass->assignment, "SPLIT_CONFLICT", relation->node, value->name, pass->err,
                              "'%.120s' comes out of the branches of %s differently: %s, and %s. It is taken as the "
                              "first makes it.",
                              value->name, sp_node_label(relation->node, label, sizeof label),
                              sp_spec_text(first, text, sizeof text), sp_spec_text(second, other, sizeof other));
}

/* What goes into an inner graph, or comes out of one. */
static enum sp_status pass_boundary(struct pass *pass, const struct sp_relation *relation)
{
    uint32_t from = relation->tensors[0], to = relation->tensors[1];
    const struct sp_value *inner_from = value_of(pass, from), *inner_to = value_of(pass, to);
    struct sp_spec_entry *in = outer_entry(pass, relation, from, false), *out = outer_entry(pass, relation, to, true);
    const struct sp_sharding *sharding = pass->made[from].sharding, *carried = NULL;
    enum sp_status status = SP_OK;
    if (in != NULL && in->sharding == NULL && sharding != NULL)
        status = infer_spec(pass, in, sharding, SP_SPEC_INFERRED, "'%.120s' is taken as it is made.", inner_from->name);
    if (in != NULL)
        sharding = in->sharding;
    if (status != SP_OK || !has_rank(inner_from) || !has_rank(inner_to))
        return status;
    if (sharding != NULL)
        status = carry(pass, relation, sharding, &carried);
    if (status == SP_OK && pass->forced[to].sharding != NULL)
        carried = pass->forced[to].sharding;
    if (status == SP_OK && out != NULL && out->sharding != NULL && out->origin == SP_SPEC_INFERRED && carried != NULL &&
        !is_same(out->sharding, carried))
        status = tell_branches(pass, relation, out->sharding, carried);
    if (status == SP_OK && out != NULL && out->sharding != NULL)
        carried = out->sharding; /* said at the node itself, or by another branch */
    else if (status == SP_OK && out != NULL && carried != NULL)
        status = infer_spec(pass, out, carried, SP_SPEC_INFERRED, "'%.120s' comes out of the node's inner graph so.",
                            inner_to->name);
    if (carried != NULL)
        pass->made[to] = (struct made){carried, relation->node};
    return status;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

#define MAX_ROUNDS 4 /* a body whose carried values still change then is told of */

static void forget(struct sp_spec_entry *entry)
{
    if (entry->origin == SP_SPEC_INFERRED || entry->origin == SP_SPEC_ASSUMED)
        *entry = (struct sp_spec_entry){0};
}

/* As it was before the loop, for another round. */
static void rewind_loop(struct pass *pass, const struct loop *loop, uint32_t end)
{
    const struct sp_dataflow *dataflow = pass->assignment->dataflow;
    for (uint32_t r = loop->begin; r < end; r++) {
        const struct sp_relation *relation = &dataflow->relations[r];
        const struct sp_node *node = relation->node;
        uint32_t first_out = relation->kind == SP_RELATION_NODE ? relation->input_count : 1;
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++)
            forget(sp_spec_of(pass->assignment, relation->node_id, i));
        for (uint32_t i = first_out; i < relation->operand_count && !relation->is_back; i++)
            if (relation->tensors[i] != SP_NO_TENSOR)
                pass->made[relation->tensors[i]] = (struct made){0};
        pass->is_told[relation->node_id] = 0;
        if (&pass->loops[relation->node_id] != loop)
            pass->loops[relation->node_id] = (struct loop){0};
    }
    pass->assignment->stop_count = loop->stop_count;
}

/* Whether a carried value goes into the next round as it went into this one; `ret_next` is how it would. */
static enum sp_status is_carried_alike(struct pass *pass, const struct sp_relation *relation, bool *ret_is_alike,
                                       const struct sp_sharding **ret_next)
{
    const struct sp_sharding *from = pass->made[relation->tensors[0]].sharding, *carried = NULL;
    const struct sp_sharding *in = pass->made[relation->tensors[1]].sharding;
    *ret_is_alike = true;
    if (from == NULL || !has_rank(value_of(pass, relation->tensors[0])) ||
        !has_rank(value_of(pass, relation->tensors[1])))
        return SP_OK;
    enum sp_status status = carry(pass, relation, from, &carried);
    if (status != SP_OK || carried == NULL)
        return status;
    *ret_is_alike = in != NULL && is_same(in, carried);
    *ret_next = carried;
    return SP_OK;
}

static enum sp_status tell_loop(struct pass *pass, const struct sp_relation *relation, const struct sp_sharding *next)
{
    const struct sp_value *value = value_of(pass, relation->tensors[1]);
    char label[264], text[SP_SPEC_TEXT_SIZE], other[SP_SPEC_TEXT_SIZE];
    return sp_assignment_stop(pass->assignment, "LOOP_NOT_SETTLED", relation->node, value->name, pass->err,
                              "'%.120s' goes into the body of %s %s and comes out of it %s, and no sharding was found "
                              "that stays the same from one round to the next.",
                              value->name, sp_node_label(relation->node, label, sizeof label),
                              sp_spec_text(pass->made[relation->tensors[1]].sharding, text, sizeof text),
                              sp_spec_text(next, other, sizeof other));
}

/* Behind the last relation of a loop, [first, end) being those from one round to the next: once more, with what the
   body gave, until it gives what it got. */
static enum sp_status close_loop(struct pass *pass, uint32_t first, uint32_t end, uint32_t *ret_continue)
{
    const struct sp_dataflow *dataflow = pass->assignment->dataflow;
    struct loop *loop = &pass->loops[dataflow->relations[first].node_id];
    enum sp_status status = SP_OK;
    bool may_repeat = loop->rounds < MAX_ROUNDS && pass->budget >= end - loop->begin, repeats = false;
    for (uint32_t r = first; r < end && status == SP_OK; r++) {
        const struct sp_sharding *next = NULL;
        bool is_same_again = true;
        status = is_carried_alike(pass, &dataflow->relations[r], &is_same_again, &next);
        if (status != SP_OK || is_same_again)
            continue;
        if (may_repeat)
            pass->forced[dataflow->relations[r].tensors[1]] = (struct made){next, dataflow->relations[r].node};
        else
            status = tell_loop(pass, &dataflow->relations[r], next);
        repeats = repeats || may_repeat;
    }
    *ret_continue = end;
    if (status != SP_OK || !repeats)
        return status;
    loop->rounds++;
    pass->budget -= end - loop->begin;
    rewind_loop(pass, loop, end);
    *ret_continue = loop->begin;
    return SP_OK;
}

static void begin_loop(struct pass *pass, uint32_t r)
{
    const struct sp_relation *relation = &pass->assignment->dataflow->relations[r];
    struct loop *loop = &pass->loops[relation->node_id];
    if (loop->is_begun)
        return;
    *loop = (struct loop){.is_begun = true, .begin = r, .stop_count = pass->assignment->stop_count};
}

static enum sp_status pass_relations(struct pass *pass)
{
    const struct sp_dataflow *dataflow = pass->assignment->dataflow;
    enum sp_status status = SP_OK;
    uint32_t r = 0;
    while (r < dataflow->relation_count && status == SP_OK) {
        const struct sp_relation *relation = &dataflow->relations[r];
        struct sp_arena_mark mark = sp_arena_mark(pass->scratch);
        if (relation->is_back) {
            uint32_t end = r;
            while (end < dataflow->relation_count && dataflow->relations[end].is_back &&
                   dataflow->relations[end].node_id == relation->node_id)
                end++;
            status = close_loop(pass, r, end, &r);
        } else if (relation->kind == SP_RELATION_SAME) {
            begin_loop(pass, r);
            status = pass_boundary(pass, relation);
            r++;
        } else {
            status = pass_node(pass, relation);
            r++;
        }
        sp_arena_rewind(pass->scratch, mark);
    }
    return status;
}

enum sp_status sp_infer_forward(struct sp_assignment *assignment, struct sp_error *err)
{
    const struct sp_dataflow *dataflow = assignment->dataflow;
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(assignment->arena));
    struct sp_arena *tables = sp_arena_create(sp_arena_budget(assignment->arena));
    struct pass pass = {.assignment = assignment, .scratch = scratch, .err = err};
    enum sp_status status = SP_OK;
    if (scratch == NULL || tables == NULL) {
        status = sp_fail_memory(err);
        goto cleanup;
    }
    pass.budget = 8 * (uint64_t)dataflow->relation_count;
    pass.made = SP_NEW_ARRAY(tables, dataflow->tensor_count, struct made);
    pass.forced = SP_NEW_ARRAY(tables, dataflow->tensor_count, struct made);
    pass.loops = SP_NEW_ARRAY(tables, dataflow->node_count, struct loop);
    pass.is_told = SP_NEW_ARRAY(tables, dataflow->node_count, uint8_t);
    if (pass.made == NULL || pass.forced == NULL || pass.loops == NULL || pass.is_told == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = pass_relations(&pass);
cleanup:
    sp_arena_destroy(tables);
    sp_arena_destroy(scratch);
    return status;
}
