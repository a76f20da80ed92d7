#include "graph/states.h"

#include <string.h>

#include "base/hash_map.h"
#include "graph/state_names.h"

#define NONE             UINT32_MAX
#define LONGEST_CHAIN    64 /* readings of outputs with one digest that are looked at: names that repeat say nothing */
#define NAME_BYTES_SHOWN 120

/* A reading of an output's name; its words are read again where they are compared. */
struct reading {
    uint32_t output;
    uint32_t next; /* of the same digest, or NONE */
    uint8_t number, role;
    bool names_state;
};

struct finder {
    struct sp_arena *arena;
    const struct sp_graph *graph;
    struct sp_error *err;
    uint32_t *output_of; /* per input: its counterpart, or NONE */
    uint32_t *axis_of;   /* per input, with a counterpart */
    bool *is_given;      /* likewise */
    bool *is_taken;      /* per output */
    uint32_t reading_count;
    struct reading *readings;
    struct sp_hash_map outputs; /* output + 1, by the address of its name; of what the caller says */
    struct sp_hash_map first;   /* reading + 1, by the digest of its words */
};

/* ---- types ------------------------------------------------------------------------------------------------------ */

static bool is_state_input(const struct sp_value *value)
{
    return value->kind == SP_VALUE_INPUT && value->tensor == NULL && value->sparse == NULL;
}

static const struct sp_shape *shape_of(const struct sp_value *value)
{
    return value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank ? &value->type.shape : NULL;
}

/* Whether nothing contradicts that one is the other a step later; which axis grows. */
static bool may_continue(const struct sp_value *past, const struct sp_value *present, uint32_t *ret_axis)
{
    const struct sp_shape *from = shape_of(past), *to = shape_of(present);
    uint32_t grown = NONE, open = NONE, open_count = 0;
    *ret_axis = SP_STATE_FIXED;
    if (past->type.dtype != present->type.dtype)
        return past->type.dtype == SP_DTYPE_UNDEFINED || present->type.dtype == SP_DTYPE_UNDEFINED;
    if (from == NULL || to == NULL)
        return true;
    if (from->rank != to->rank)
        return false;
    for (uint32_t axis = 0; axis < from->rank; axis++) {
        const struct sp_dim a = from->dims[axis], b = to->dims[axis];
        if (sp_dim_equal(a, b))
            continue;
        if (!sp_dim_is_known(a) || !sp_dim_is_known(b)) {
            open = axis;
            open_count++;
            continue;
        }
        if (grown != NONE || b.value < a.value)
            return false;
        grown = axis;
    }
    *ret_axis = grown != NONE ? grown : open_count == 1 ? open : SP_STATE_FIXED;
    return true;
}

static void take(struct finder *finder, uint32_t input, uint32_t output, uint32_t axis, bool is_given)
{
    finder->output_of[input] = output;
    finder->axis_of[input] = axis;
    finder->is_given[input] = is_given;
    finder->is_taken[output] = true;
}

/* ---- what the caller says ---------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static enum sp_status refuse(struct finder *finder, const char *code,
                                                                   const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    (void)sp_fail(finder->err, SP_ERR_REQUEST, code, "%s", text);
    return sp_error_at(finder->err, "/options/state");
}

/* Whether a name fits a pattern with one * at most: what that stands for. */
static bool fits(const char *pattern, const char *name, const char **ret_text, size_t *ret_size)
{
    const char *star = strchr(pattern, '*');
    const size_t size = strlen(name), head = star != NULL ? (size_t)(star - pattern) : size;
    const size_t tail = star != NULL ? strlen(star + 1) : 0;
    *ret_text = name + head;
    *ret_size = size - head - tail;
    if (star == NULL)
        return strcmp(pattern, name) == 0;
    return size >= head + tail && memcmp(pattern, name, head) == 0 && memcmp(star + 1, name + size - tail, tail) == 0;
}

/* The output of a name that is the pattern with this text in place of its *. */
static enum sp_status find_output(struct finder *finder, const char *pattern, const char *text, size_t size,
                                  uint32_t *ret_output)
{
    const struct sp_intern *names = finder->graph->model->names;
    const size_t head = strcspn(pattern, "*");
    const bool has_star = pattern[head] != '\0';
    struct sp_arena_mark mark = sp_arena_mark(finder->arena);
    const char *name = !has_star ? pattern
                                 : sp_arena_printf(finder->arena, "%.*s%.*s%s", (int)head, pattern, (int)size, text,
                                                   pattern + head + 1);
    if (name == NULL)
        return sp_fail_memory(finder->err);
    const uint32_t id = sp_intern_find(names, name, strlen(name));
    const struct sp_hash_slot *slot =
        id == SP_NO_NAME ? NULL : sp_hash_map_get(&finder->outputs, (uintptr_t)sp_intern_name(names, id));
    sp_arena_rewind(finder->arena, mark);
    *ret_output = slot == NULL ? NONE : (uint32_t)slot->number - 1;
    return SP_OK;
}

/* Outputs by their names. */
static enum sp_status list_outputs(struct finder *finder)
{
    for (uint32_t o = 0; o < finder->graph->output_count; o++) {
        struct sp_hash_slot *slot = sp_hash_map_put(&finder->outputs, (uintptr_t)finder->graph->outputs[o]->name);
        if (slot == NULL)
            return sp_fail_memory(finder->err);
        slot->number = o + 1;
    }
    return SP_OK;
}

static enum sp_status give(struct finder *finder, const struct sp_given_state *given, bool must_be)
{
    bool is_found = false;
    for (uint32_t i = 0; i < finder->graph->input_count; i++) {
        const struct sp_value *input = finder->graph->inputs[i];
        const char *text;
        size_t size;
        uint32_t axis, output = NONE;
        if (finder->output_of[i] != NONE || !is_state_input(input) || !fits(given->past, input->name, &text, &size))
            continue;
        is_found = true;
        if (find_output(finder, given->present, text, size, &output) != SP_OK)
            return SP_ERR_MEMORY;
        if (output == NONE || finder->is_taken[output]) {
            if (must_be)
                return refuse(finder, "STATE_UNKNOWN",
                              "The model has no output '%.*s' that is free for the state of its input '%.*s'.",
                              NAME_BYTES_SHOWN, given->present, NAME_BYTES_SHOWN, input->name);
            continue;
        }
        if (may_continue(input, finder->graph->outputs[output], &axis))
            take(finder, i, output, axis, true);
        else if (must_be)
            return refuse(finder, "STATE_CONTRADICTED",
                          "The output '%.*s' cannot be the next '%.*s': they need one type of elements, and equal "
                          "extents on all axes but one, which grows.",
                          NAME_BYTES_SHOWN, finder->graph->outputs[output]->name, NAME_BYTES_SHOWN, input->name);
    }
    if (!is_found && must_be)
        return refuse(finder, "STATE_UNKNOWN", "The model has no input '%.*s' to be a state.", NAME_BYTES_SHOWN,
                      given->past);
    return SP_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static uint64_t digest_of(const struct finder *finder, const struct sp_state_reading *reading)
{
    return sp_digest(reading->words, strlen(reading->words), finder->graph->model->hash_seed);
}

static enum sp_status read_outputs(struct finder *finder)
{
    const uint32_t outputs = finder->graph->output_count;
    finder->readings = SP_NEW_ARRAY(finder->arena, (size_t)SP_STATE_READINGS * outputs, struct reading);
    if (finder->readings == NULL)
        return sp_fail_memory(finder->err);
    for (uint32_t o = outputs; o-- > 0;) { /* so that a chain begins with the first */
        struct sp_state_reading list[SP_STATE_READINGS];
        const uint32_t count = sp_state_read_name(finder->graph->outputs[o]->name, true, list);
        for (uint32_t r = 0; r < count; r++) {
            struct sp_hash_slot *slot = sp_hash_map_put(&finder->first, digest_of(finder, &list[r]));
            if (slot == NULL)
                return sp_fail_memory(finder->err);
            finder->readings[finder->reading_count] =
                (struct reading){.output = o,
                                 .next = slot->number == 0 ? NONE : (uint32_t)slot->number - 1,
                                 .number = (uint8_t)r,
                                 .role = (uint8_t)list[r].role,
                                 .names_state = list[r].names_state};
            slot->number = ++finder->reading_count;
        }
    }
    return SP_OK;
}

/* Whether an output of this reading is the input's next state, by names of this rank and by types. */
static bool is_counterpart(const struct finder *finder, const struct sp_value *past,
                           const struct sp_state_reading *read, const struct reading *reading, uint32_t rank,
                           uint32_t *ret_axis)
{
    const struct sp_value *present = finder->graph->outputs[reading->output];
    const struct sp_state_reading role = {.role = reading->role, .names_state = reading->names_state};
    struct sp_state_reading list[SP_STATE_READINGS];
    if (finder->is_taken[reading->output] || sp_state_rank(read, &role) != rank || shape_of(past) == NULL ||
        shape_of(present) == NULL || !may_continue(past, present, ret_axis))
        return false;
    return sp_state_read_name(present->name, true, list) > reading->number &&
           strcmp(read->words, list[reading->number].words) == 0;
}

/* Takes the first output that an input may have become by names of this rank. */
static void find_counterpart(struct finder *finder, uint32_t input, uint32_t rank)
{
    const struct sp_value *past = finder->graph->inputs[input];
    struct sp_state_reading list[SP_STATE_READINGS];
    const uint32_t count = sp_state_read_name(past->name, false, list);
    for (uint32_t r = 0; r < count; r++) {
        const struct sp_hash_slot *slot = sp_hash_map_get(&finder->first, digest_of(finder, &list[r]));
        uint32_t at = slot == NULL ? NONE : (uint32_t)slot->number - 1;
        for (uint32_t steps = 0; at != NONE && steps < LONGEST_CHAIN; steps++, at = finder->readings[at].next) {
            const struct reading *reading = &finder->readings[at];
            uint32_t axis = SP_STATE_FIXED;
            if (!is_counterpart(finder, past, &list[r], reading, rank, &axis))
                continue;
            take(finder, input, reading->output, axis, false);
            return;
        }
    }
}

static enum sp_status find_by_name(struct finder *finder)
{
    enum sp_status status = read_outputs(finder);
    for (uint32_t rank = 0; status == SP_OK && rank < SP_STATE_RANKS; rank++) {
        for (uint32_t i = 0; i < finder->graph->input_count; i++)
            if (finder->output_of[i] == NONE && is_state_input(finder->graph->inputs[i]))
                find_counterpart(finder, i, rank);
    }
    return status;
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

static enum sp_status find(struct finder *finder, const struct sp_given_states *given)
{
    const uint32_t inputs = finder->graph->input_count;
    finder->output_of = SP_NEW_ARRAY(finder->arena, inputs, uint32_t);
    finder->axis_of = SP_NEW_ARRAY(finder->arena, inputs, uint32_t);
    finder->is_given = SP_NEW_ARRAY(finder->arena, inputs, bool);
    finder->is_taken = SP_NEW_ARRAY(finder->arena, finder->graph->output_count, bool);
    if (finder->output_of == NULL || finder->axis_of == NULL || finder->is_given == NULL || finder->is_taken == NULL) {
        (void)sp_fail_memory(finder->err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    for (uint32_t i = 0; i < inputs; i++)
        finder->output_of[i] = NONE;
    enum sp_status status = given != NULL ? list_outputs(finder) : SP_OK;
    for (uint32_t g = 0; given != NULL && status == SP_OK && g < given->count; g++)
        status = give(finder, &given->items[g], given->are_all);
    if (status == SP_OK && (given == NULL || !given->are_all))
        status = find_by_name(finder);
    return status;
}

enum sp_status sp_model_states(struct sp_arena *arena, const struct sp_model *model, struct sp_states *ret_states,
                               struct sp_error *err)
{
    const struct sp_graph *graph = model->graph;
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    struct finder finder = {
        .arena = scratch, .graph = graph, .err = err, .outputs = {.arena = scratch}, .first = {.arena = scratch}};
    struct sp_states states = {.items = SP_NEW_ARRAY(arena, graph->input_count, struct sp_state)};
    if (scratch == NULL || states.items == NULL) {
        sp_arena_destroy(scratch);
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY;
    }
    enum sp_status status = find(&finder, model->given_states);
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        if (finder.output_of[i] != NONE)
            states.items[states.count++] =
                (struct sp_state){graph->inputs[i], graph->outputs[finder.output_of[i]], finder.axis_of[i],
                                  finder.is_given[i] ? SP_STATE_GIVEN : SP_STATE_BY_NAME};
    }
    sp_arena_destroy(scratch);
    if (status == SP_OK)
        *ret_states = states;
    return status;
}
