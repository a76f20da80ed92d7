#include "plan/sizes/given_states.h"

#include <string.h>

#define KIND_BYTES 64 /* of what stands between past_ and _names */

struct list {
    struct sp_members_reader *reader;
    struct sp_given_states *states;
    struct sp_given_state *items;
};

static enum sp_status add(struct list *list, const char *pointer, struct sp_given_state state)
{
    const char *past = strchr(state.past, '*'), *present = strchr(state.present, '*');
    if (list->states->count == SP_MAX_GIVEN_STATES)
        return sp_fail_limit(list->reader->err, "TOO_MANY_STATES_GIVEN", "SP_MAX_GIVEN_STATES", SP_MAX_GIVEN_STATES,
                             SP_MAX_GIVEN_STATES + 1, "One request may give at most %d states.", SP_MAX_GIVEN_STATES);
    if ((past == NULL) != (present == NULL) || (past != NULL && strchr(past + 1, '*') != NULL) ||
        (present != NULL && strchr(present + 1, '*') != NULL))
        return sp_members_refuse(list->reader, pointer, "INVALID_OPTION",
                                 "Both names of a state have one *, which stands for the same text, or neither has.");
    list->items[list->states->count++] = state;
    return SP_OK;
}

static const char *copy(struct list *list, const char *text, size_t size)
{
    return sp_arena_string(list->reader->arena, text, size);
}

/* ---- pairs ------------------------------------------------------------------------------------------------------ */

static bool is_name(const json_t *json)
{
    const size_t size = json_string_length(json);
    return json_is_string(json) && size > 0 && size <= SP_MAX_NAME_BYTES && strlen(json_string_value(json)) == size;
}

static enum sp_status read_pairs(struct list *list, const json_t *json, const char *pointer)
{
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *pair = json_array_get(json, i), *past = json_array_get(pair, 0),
                     *present = json_array_get(pair, 1);
        const char *at = sp_members_item(list->reader, pointer, i);
        if (json_array_size(pair) != 2 || !is_name(past) || !is_name(present))
            return sp_members_refuse(list->reader, at, "INVALID_OPTION",
                                     "A state is the name of an input and that of an output, like "
                                     "[\"past_key_values.*\", \"present.*\"].");
        const struct sp_given_state state = {copy(list, json_string_value(past), json_string_length(past)),
                                             copy(list, json_string_value(present), json_string_length(present)), NULL};
        if (at == NULL || state.past == NULL || state.present == NULL)
            return sp_fail_memory(list->reader->err);
        enum sp_status status = add(list, at, state);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- genai_config.json ------------------------------------------------------------------------------------------ */

/* Of "past_key_names" what follows "past_": "key_names" with `kind` "key"; false for other members. */
static bool is_past_member(const char *name, const char **ret_rest, size_t *ret_kind)
{
    static const char head[] = "past_", tail[] = "names";
    const size_t size = strlen(name), head_size = sizeof head - 1, tail_size = sizeof tail - 1;
    if (size < head_size + tail_size || strncmp(name, head, head_size) != 0 ||
        strcmp(name + size - tail_size, tail) != 0 || size - head_size - tail_size > KIND_BYTES)
        return false;
    *ret_rest = name + head_size;
    *ret_kind = size - head_size - tail_size; /* with the _ behind it */
    return *ret_kind == 0 || name[head_size + *ret_kind - 1] == '_';
}

/* A name of that file, in which %d is a number. */
static const char *pattern_of(struct list *list, const json_t *json)
{
    const char *name = json_string_value(json), *number = strstr(name, "%d");
    if (number == NULL)
        return copy(list, name, strlen(name));
    return sp_arena_printf(list->reader->arena, "%.*s*%s", (int)(number - name), name, number + 2);
}

static enum sp_status read_config(struct list *list, json_t *config, const char *pointer)
{
    const json_t *decoder = json_object_get(json_object_get(config, "model"), "decoder");
    json_t *inputs = json_object_get(decoder, "inputs"), *outputs = json_object_get(decoder, "outputs"), *past;
    const char *member, *rest;
    size_t kind;
    char name[sizeof "present_names" + KIND_BYTES];
    if (!json_is_object(config) || !json_is_object(decoder))
        return sp_members_refuse(list->reader, pointer, "INVALID_OPTION",
                                 "A genai_config.json is an object with the member model.decoder.");
    json_object_foreach(inputs, member, past)
    {
        if (!is_past_member(member, &rest, &kind))
            continue;
        (void)snprintf(name, sizeof name, "present_%s", rest);
        const json_t *present = json_object_get(outputs, name);
        if (!is_name(past) || !is_name(present))
            continue; /* empty where there is none */
        const struct sp_given_state state = {pattern_of(list, past), pattern_of(list, present),
                                             copy(list, rest, kind > 0 ? kind - 1 : 0)};
        if (state.past == NULL || state.present == NULL || state.kind == NULL)
            return sp_fail_memory(list->reader->err);
        enum sp_status status = add(list, pointer, state);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

enum sp_status sp_given_states_parse(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                     const struct sp_given_states **ret_states)
{
    static const char *const members[] = {"genai_config"};
    struct list list = {reader, SP_NEW(reader->arena, struct sp_given_states),
                        SP_NEW_ARRAY(reader->arena, SP_MAX_GIVEN_STATES, struct sp_given_state)};
    enum sp_status status = SP_OK;
    if (list.states == NULL || list.items == NULL)
        return sp_fail_memory(reader->err);
    list.states->items = list.items;
    list.states->are_all = json_is_array(json);
    if (json_is_array(json)) {
        status = read_pairs(&list, json, pointer);
    } else if (json_is_object(json)) {
        const char *at = sp_members_child(reader, pointer, members[0]);
        status = sp_members_check(reader, json, pointer, "A description of states", members, 1);
        if (status == SP_OK)
            status =
                at != NULL ? read_config(&list, json_object_get(json, members[0]), at) : sp_fail_memory(reader->err);
    } else {
        status = sp_members_refuse(reader, pointer, "INVALID_OPTION",
                                   "\"state\" is a list of pairs of names, or {\"genai_config\": {..}}.");
    }
    if (status == SP_OK)
        *ret_states = list.states;
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void write_names(const struct sp_given_states *states, const char *side, bool is_past, struct sp_json *json)
{
    char member[sizeof "present__names" + KIND_BYTES], name[SP_MAX_NAME_BYTES + 2];
    sp_json_key(json, is_past ? "inputs" : "outputs");
    sp_json_begin_object(json);
    for (uint32_t i = 0; i < states->count; i++) {
        const struct sp_given_state *state = &states->items[i];
        const char *pattern = is_past ? state->past : state->present;
        const size_t head = strcspn(pattern, "*");
        (void)snprintf(member, sizeof member, "%s_%s%snames", side, state->kind, state->kind[0] != '\0' ? "_" : "");
        (void)snprintf(name, sizeof name, "%.*s%s%s", (int)head, pattern, pattern[head] != '\0' ? "%d" : "",
                       pattern[head] != '\0' ? pattern + head + 1 : "");
        sp_json_member_string(json, member, name);
    }
    sp_json_end_object(json);
}

void sp_given_states_write(const struct sp_given_states *states, struct sp_json *json)
{
    if (states->are_all) {
        sp_json_begin_array(json);
        for (uint32_t i = 0; i < states->count; i++) {
            sp_json_begin_array(json);
            sp_json_string(json, states->items[i].past);
            sp_json_string(json, states->items[i].present);
            sp_json_end_array(json);
        }
        sp_json_end_array(json);
        return;
    }
    static const char *const around[] = {"genai_config", "model", "decoder"};
    sp_json_begin_object(json);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        sp_json_key(json, around[i]);
        sp_json_begin_object(json);
    }
    write_names(states, "past", true, json);
    write_names(states, "present", false, json);
    for (size_t i = 0; i <= sizeof around / sizeof *around; i++)
        sp_json_end_object(json);
}
