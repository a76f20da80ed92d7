#include "infer/settle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/sorted.h"
#include "sharding/convert_forms.h"

enum rank_of_input { INPUT_GIVEN = 0, INPUT_SET, INPUT_SET_CONSTANT, INPUT_CUT, INPUT_CUT_CONSTANT, INPUT_WHOLE };

struct input {
    uint32_t operand;
    uint32_t rank;  /* enum rank_of_input */
    uint64_t order; /* larger inputs first */
    uint32_t turn;  /* and of equal ones the last */
};

struct settler {
    struct sp_assignment *assignment;
    const struct sp_relation *relation;
    struct sp_arena *scratch;
    struct sp_error *err;
    const struct sp_rule *rule;
    struct sp_spec_entry *own;   /* of the node */
    struct sp_spec_entry *taken; /* of inputs that agree; the others have no sharding */
    struct input *inputs;        /* those that have a sharding, in the order in which they are taken */
    uint32_t input_count;
};

static const struct sp_value *value_of(const struct settler *all, uint32_t operand)
{
    uint32_t tensor = all->relation->tensors[operand];
    const struct sp_value *value = tensor == SP_NO_TENSOR ? NULL : all->assignment->dataflow->tensors[tensor];
    bool has_rank = value != NULL && value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank;
    return has_rank && value->type.shape.rank <= SP_MAX_RANK ? value : NULL;
}

/* ---- views of some of the inputs -------------------------------------------------------------------------------- */

static enum sp_status look(struct settler *all, struct sp_spec_entry *entries, struct sp_view **ret_view)
{
    struct sp_node_specs specs = {.operands = entries};
    struct sp_assignment one = *all->assignment;
    struct sp_relation alone = *all->relation;
    one.nodes = &specs;
    alone.node_id = 0;
    return sp_view_create(all->scratch, &one, &alone, ret_view, all->err);
}

/* As the file will be read: what is said of an input is stated. */
static enum sp_status look_again(struct settler *all, struct sp_view **ret_view)
{
    uint32_t count = all->relation->operand_count;
    struct sp_spec_entry *entries = SP_NEW_ARRAY(all->scratch, count, struct sp_spec_entry);
    if (entries == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = all->own[i];
        if (entries[i].sharding != NULL && entries[i].origin != SP_SPEC_ASSUMED)
            entries[i].origin = SP_SPEC_GIVEN;
    }
    return look(all, entries, ret_view);
}

/* ---- the order -------------------------------------------------------------------------------------------------- */

static bool is_cut(const struct sp_value *value, const struct sp_sharding *sharding)
{
    for (uint32_t axis = 0; axis < value->type.shape.rank; axis++) {
        if (sp_sharding_shards(sharding, axis) > 1)
            return true;
    }
    return false;
}

SP_ASCENDING(by_order, struct input, rank, order, turn)
SP_ASCENDING_NUMBERS(by_number, int64_t)

/* Ascending, each once; how many are left. */
static uint32_t sort_devices(int64_t *devices, uint32_t count)
{
    uint32_t kept = 0;
    qsort(devices, count, sizeof *devices, by_number);
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || devices[kept - 1] != devices[i])
            devices[kept++] = devices[i];
    }
    return kept;
}

static enum sp_status order_inputs(struct settler *all)
{
    all->inputs = SP_NEW_ARRAY(all->scratch, all->relation->input_count, struct input);
    if (all->inputs == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; i < all->relation->input_count; i++) {
        const struct sp_value *value = value_of(all, i);
        const struct sp_spec_entry *entry = &all->own[i];
        if (value == NULL || entry->sharding == NULL || entry->origin == SP_SPEC_ASSUMED)
            continue;
        struct input *input = &all->inputs[all->input_count++];
        int64_t bytes = sp_value_bytes(value);
        bool is_set = entry->origin == SP_SPEC_SET;
        *input = (struct input){.operand = i,
                                .rank = entry->origin == SP_SPEC_GIVEN ? INPUT_GIVEN
                                        : !is_cut(value, entry->sharding)
                                            ? INPUT_WHOLE
                                            : (is_set ? INPUT_SET : INPUT_CUT) + value->is_constant,
                                .order = bytes < 0 ? 0 : UINT64_MAX - (uint64_t)bytes,
                                .turn = UINT32_MAX - i};
    }
    if (all->input_count > 1)
        qsort(all->inputs, all->input_count, sizeof *all->inputs, by_order);
    return SP_OK;
}

/* ---- taking ----------------------------------------------------------------------------------------------------- */

/* The axis of the input that a conflict is about, or -1. */
static int contradicting_axis(const struct settler *all, const struct sp_conflict *conflict, uint32_t operand)
{
    if (conflict->operand == operand && conflict->kind != SP_CONFLICT_DEVICES &&
        conflict->kind != SP_CONFLICT_COVERAGE && conflict->kind != SP_CONFLICT_SEVERAL)
        return (int)conflict->axis;
    const struct sp_operand_rule *rule = &all->rule->inputs[operand];
    for (uint32_t axis = 0; conflict->other == operand && axis < rule->rank; axis++) {
        for (uint8_t k = 0; k < rule->axes[axis].count; k++) {
            if (rule->axes[axis].factors[k] == conflict->factor)
                return (int)axis;
        }
    }
    return -1;
}

/* The sharding with one axis more that is whole; NULL in *ret_whole where that changes nothing, or cannot be said. */
static enum sp_status without_axis(struct settler *all, const struct sp_sharding *from, uint32_t axis,
                                   const struct sp_sharding **ret_whole)
{
    struct sp_sharding *blocks = NULL;
    *ret_whole = NULL;
    if (sp_sharding_shards(from, axis) <= 1)
        return SP_OK;
    enum sp_status status =
        sp_sharding_to_blocks(all->scratch, from, from->rank, all->assignment->device_count, &blocks, NULL, all->err);
    if (status != SP_OK || blocks->first == NULL)
        return status;
    int64_t within = 1, shards = blocks->shard_count, cut = sp_sharding_shards(blocks, axis);
    for (uint32_t a = axis + 1; a < blocks->rank; a++)
        within *= sp_sharding_shards(blocks, a);
    struct sp_sharding *whole = SP_NEW(all->scratch, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(all->scratch, blocks->rank, struct sp_block_dim);
    uint32_t *first = SP_NEW_ARRAY(all->scratch, (size_t)(shards / cut) + 1, uint32_t), used = 0;
    int64_t *devices = SP_NEW_ARRAY(all->scratch, blocks->first[shards], int64_t);
    if (whole == NULL || dims == NULL || first == NULL || devices == NULL)
        return sp_fail_memory(all->err);
    memcpy(dims, blocks->blocks, blocks->rank * sizeof *dims);
    dims[axis] = (struct sp_block_dim){0};
    for (int64_t s = 0; s < shards / cut; s++) {
        uint32_t begin = used;
        for (int64_t c = 0; c < cut; c++) {
            int64_t old = (s / within * cut + c) * within + s % within;
            for (uint32_t d = blocks->first[old]; d < blocks->first[old + 1]; d++)
                devices[used++] = blocks->devices[d];
        }
        used = begin + sort_devices(devices + begin, used - begin);
        first[s + 1] = used;
    }
    *whole = *blocks;
    whole->blocks = dims;
    whole->shard_count = shards / cut;
    whole->first = first;
    whole->devices = devices;
    whole->run = SP_RUN_UNKNOWN;
    return sp_view_cache_sharding(all->assignment->cache, whole, false, ret_whole, all->err);
}

/* Takes an input if it agrees with those that are taken, with some of its axes whole if need be. */
static enum sp_status take(struct settler *all, const struct input *input)
{
    struct sp_spec_entry *entry = &all->taken[input->operand];
    struct sp_view *view = NULL;
    *entry = all->own[input->operand];
    if (entry->origin != SP_SPEC_GIVEN)
        entry->origin = SP_SPEC_INFERRED;
    for (;;) {
        enum sp_status status = look(all, all->taken, &view);
        if (status != SP_OK || view->conflict_count == 0 || input->rank == INPUT_GIVEN)
            return status;
        const struct sp_sharding *next = NULL;
        for (uint32_t i = 0; i < view->conflict_count && next == NULL && status == SP_OK; i++) {
            int axis = contradicting_axis(all, &view->conflicts[i], input->operand);
            if (axis >= 0)
                status = without_axis(all, entry->sharding, (uint32_t)axis, &next);
        }
        if (status != SP_OK)
            return status;
        if (next == NULL) {
            entry->sharding = NULL;
            return SP_OK;
        }
        entry->sharding = next;
    }
}

/* ---- restating -------------------------------------------------------------------------------------------------- */

static enum sp_status restate(struct settler *all, uint32_t operand, const struct sp_sharding *sharding)
{
    const struct sp_value *value = value_of(all, operand);
    char text[SP_ERROR_MESSAGE_SIZE], spec[SP_SPEC_TEXT_SIZE];
    (void)snprintf(text, sizeof text,
                   "'%.120s' arrives %s: as it is otherwise it would contradict the node's other inputs, or what the "
                   "operator needs.",
                   value->name, sp_spec_text(sharding, spec, sizeof spec));
    const char *because = sp_arena_string(all->assignment->arena, text, strlen(text));
    if (because == NULL)
        return sp_fail_memory(all->err);
    all->own[operand] = (struct sp_spec_entry){sharding, SP_SPEC_INFERRED, because};
    return SP_OK;
}

/* Inputs as the view's devices need them: those that were not taken as they are, or all that may change. */
static enum sp_status restate_inputs(struct settler *all, const struct sp_view *view, bool of_all)
{
    for (uint32_t i = 0; i < all->input_count; i++) {
        uint32_t operand = all->inputs[i].operand;
        const struct sp_sharding *needed = NULL;
        struct sp_sharding *part = NULL;
        if (all->inputs[i].rank == INPUT_GIVEN ||
            (!of_all && all->taken[operand].sharding == all->own[operand].sharding))
            continue;
        enum sp_status status = sp_view_part(all->scratch, view, &all->rule->inputs[operand], &part, all->err);
        if (status == SP_OK && part != NULL)
            status = sp_view_cache_sharding(all->assignment->cache, part, false, &needed, all->err);
        if (status == SP_OK && needed != NULL && needed != all->own[operand].sharding)
            status = restate(all, operand, needed);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* One spec for all operands that are one tensor: the first one's. */
static void join_repeated(struct settler *all)
{
    for (uint32_t i = 1; i < all->relation->input_count; i++) {
        for (uint32_t first = 0; first < i; first++) {
            if (all->relation->tensors[i] == SP_NO_TENSOR || all->relation->tensors[i] != all->relation->tensors[first])
                continue;
            if (all->own[first].sharding != NULL)
                all->own[i] = all->own[first];
            break;
        }
    }
}

/* All inputs whole on the devices of those that the file states, or else of all. */
static enum sp_status make_whole(struct settler *all)
{
    const struct sp_sharding **named = SP_NEW_ARRAY(all->scratch, all->input_count + 1, const struct sp_sharding *);
    uint32_t count = 0;
    if (named == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; i < all->input_count; i++) {
        if (all->inputs[0].rank != INPUT_GIVEN || all->inputs[i].rank == INPUT_GIVEN)
            named[count++] = all->own[all->inputs[i].operand].sharding;
    }
    for (uint32_t i = 0; i < all->input_count; i++) {
        uint32_t operand = all->inputs[i].operand;
        const struct sp_sharding *whole = NULL;
        if (all->inputs[i].rank == INPUT_GIVEN)
            continue;
        enum sp_status status = sp_view_cache_whole(all->assignment->cache, value_of(all, operand)->type.shape.rank,
                                                    all->assignment->device_count, count, named, &whole, all->err);
        if (status == SP_OK && whole != NULL && whole != all->own[operand].sharding)
            status = restate(all, operand, whole);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- one node --------------------------------------------------------------------------------------------------- */

static enum sp_status settle(struct settler *all, struct sp_view **view)
{
    struct sp_view *placed = NULL;
    enum sp_status status = order_inputs(all);
    all->taken = SP_NEW_ARRAY(all->scratch, all->relation->operand_count, struct sp_spec_entry);
    if (status == SP_OK && all->taken == NULL)
        status = sp_fail_memory(all->err);
    for (uint32_t i = 0; i < all->input_count && status == SP_OK; i++)
        status = take(all, &all->inputs[i]);
    if (status == SP_OK)
        status = look(all, all->taken, &placed);
    for (int pass = 0; pass < 3 && status == SP_OK; pass++) {
        if (pass == 2)
            status = make_whole(all);
        else if (placed->participant_count > 0)
            status = restate_inputs(all, placed, pass == 1);
        join_repeated(all);
        if (status == SP_OK)
            status = look_again(all, view);
        if (status == SP_OK && (*view)->conflict_count == 0)
            return SP_OK;
    }
    return status;
}

enum sp_status sp_settle_node(struct sp_assignment *assignment, const struct sp_relation *relation,
                              struct sp_arena *scratch, struct sp_view **ret_view, struct sp_error *err)
{
    struct settler all = {.assignment = assignment,
                          .relation = relation,
                          .scratch = scratch,
                          .err = err,
                          .own = assignment->nodes[relation->node_id].operands};
    struct sp_view *view = NULL;
    join_repeated(&all);
    enum sp_status status = look_again(&all, &view);
    if (status == SP_OK && view != NULL && view->conflict_count > 0 && !view->is_too_large) {
        all.rule = view->rule;
        status = settle(&all, &view);
    }
    if (status == SP_OK)
        *ret_view = view;
    return status;
}

enum sp_status sp_settle_all(struct sp_assignment *assignment, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(assignment->arena));
    enum sp_status status = scratch != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t r = 0; r < assignment->dataflow->relation_count && status == SP_OK; r++) {
        const struct sp_relation *relation = &assignment->dataflow->relations[r];
        struct sp_arena_mark mark = sp_arena_mark(scratch);
        struct sp_view *view = NULL;
        if (relation->kind == SP_RELATION_NODE)
            status = sp_settle_node(assignment, relation, scratch, &view, err);
        sp_arena_rewind(scratch, mark);
    }
    sp_arena_destroy(scratch);
    return status;
}
