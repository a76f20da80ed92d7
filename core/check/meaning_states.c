/* What a loop hands from step to step: an output and the input that the next step takes for it, with one sharding. */
#include <stdio.h>

#include "base/limits.h"
#include "check/meaning.h"
#include "graph/states.h"
#include "ops/table/op.h"

struct states {
    struct sp_meaning *meaning;
    uint64_t steps; /* devices compared */
};

/* How the state is made; NULL: nothing is said of it. */
static const struct sp_sharding *made_as(const struct sp_meaning *meaning, const struct sp_value *present)
{
    const struct sp_node *node = present->producer;
    const uint32_t id =
        node == NULL || node->body != NULL ? UINT32_MAX : sp_dataflow_node(meaning->assignment->dataflow, node);
    if (id == UINT32_MAX)
        return NULL;
    const struct sp_spec_entry *entry =
        sp_spec_of(meaning->assignment, id, node->input_count + present->producer_output);
    return sp_meaning_is_said(entry) ? entry->sharding : NULL;
}

/* How a node takes it; NULL: nothing is said, or it looks at the shape alone. */
static const struct sp_sharding *taken_as(const struct sp_meaning *meaning, const struct sp_use *use)
{
    const bool is_looked_at = use->node->op != NULL && (use->node->op->flags & SP_OP_METADATA) != 0;
    const uint32_t id = use->input == UINT32_MAX || use->node->body != NULL || is_looked_at
                            ? UINT32_MAX
                            : sp_dataflow_node(meaning->assignment->dataflow, use->node);
    const struct sp_spec_entry *entry = id == UINT32_MAX ? NULL : sp_spec_of(meaning->assignment, id, use->input);
    return entry != NULL && sp_meaning_is_said(entry) ? entry->sharding : NULL;
}

static enum sp_status report(struct sp_meaning *meaning, const struct sp_state *state, const struct sp_use *use,
                             const struct sp_sharding *made, const struct sp_sharding *taken)
{
    char from[SP_SPEC_TEXT_SIZE], to[SP_SPEC_TEXT_SIZE], label[SP_ERROR_WHERE_SIZE];
    return sp_meaning_report(meaning, "STATE_RESHARD", state->present->producer, state->present->name, NULL, 0,
                             "A step makes '%.120s' (%s), and the next one takes it as '%.120s' (%s) at %s: in a loop "
                             "each step moves it.",
                             state->present->name, sp_spec_text(made, from, sizeof from), state->past->name,
                             sp_spec_text(taken, to, sizeof to), sp_node_label(use->node, label, sizeof label));
}

static enum sp_status report_growth(struct sp_meaning *meaning, const struct sp_state *state,
                                    const struct sp_sharding *made)
{
    char text[SP_SPEC_TEXT_SIZE];
    return sp_meaning_report(meaning, "STATE_RESHARD", state->present->producer, state->present->name, NULL, 0,
                             "'%.120s' (%s), which the next step takes as '%.120s', is split along axis %u, and that "
                             "grows: in a loop elements change their shards at each step.",
                             state->present->name, sp_spec_text(made, text, sizeof text), state->past->name,
                             state->axis);
}

static enum sp_status compare(struct states *states, const struct sp_state *state, const struct sp_sharding *made)
{
    struct sp_meaning *meaning = states->meaning;
    for (uint32_t i = 0; i < state->past->use_count; i++) {
        const struct sp_use *use = &state->past->uses[i];
        const struct sp_sharding *taken = taken_as(meaning, use);
        bool is_equal = true;
        if (taken == NULL || taken == made)
            continue;
        states->steps += (uint64_t)meaning->assignment->device_count;
        if (states->steps > SP_MAX_COMPOSE_STEPS)
            return SP_OK;
        struct sp_arena_mark mark = sp_arena_mark(meaning->scratch);
        enum sp_status status = sp_sharding_equal(meaning->scratch, made, taken, state->past->type.shape.rank, NULL,
                                                  &is_equal, meaning->err);
        sp_arena_rewind(meaning->scratch, mark);
        if (status != SP_OK || !is_equal)
            return status == SP_OK ? report(meaning, state, use, made, taken) : status;
    }
    return SP_OK;
}

static enum sp_status check_state(struct states *states, const struct sp_state *state)
{
    const struct sp_sharding *made = made_as(states->meaning, state->present);
    if (made == NULL || !state->past->type.shape.has_rank)
        return SP_OK;
    if (state->axis != SP_STATE_FIXED && sp_sharding_shards(made, state->axis) > 1)
        return report_growth(states->meaning, state, made);
    return compare(states, state, made);
}

enum sp_status sp_check_meaning_states(struct sp_meaning *meaning)
{
    struct sp_states found = {0};
    struct states states = {.meaning = meaning};
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(meaning->list->arena));
    enum sp_status status =
        arena != NULL ? sp_model_states(arena, meaning->model, &found, meaning->err) : sp_fail_memory(meaning->err);
    for (uint32_t i = 0; status == SP_OK && i < found.count; i++)
        status = check_state(&states, &found.items[i]);
    if (status == SP_OK && states.steps > SP_MAX_COMPOSE_STEPS)
        status =
            sp_meaning_report(meaning, "NOT_LOOKED_AT", NULL, NULL, NULL, 0,
                              "Not all states of the model were compared: there are too many for so many devices.");
    sp_arena_destroy(arena);
    return status;
}
