#include "plan/proof/verify_question.h"

#include <string.h>

#include "base/json_reader.h"

static enum sp_status refuse_ways(struct sp_members_reader *reader)
{
    return sp_members_refuse(
        reader, "", "VERIFY_WHAT",
        "Give \"original\" with one of \"ranks\", \"simulation\", and \"manifest\" with \"ranks\"; or "
        "\"annotated\" alone.");
}

static enum sp_status check_count(struct sp_members_reader *reader, size_t count)
{
    if (count == 0)
        return sp_members_refuse(reader, "/ranks", "NO_RANKS", "There must be the model of one rank at least.");
    if (count <= SP_MAX_VERIFY_MODELS)
        return SP_OK;
    (void)sp_fail_limit(reader->err, "TOO_MANY_RANKS", "SP_MAX_VERIFY_MODELS", SP_MAX_VERIFY_MODELS, (int64_t)count,
                        "One request verifies at most %d models of ranks; these are %zu.", SP_MAX_VERIFY_MODELS, count);
    return sp_error_at(reader->err, "/ranks");
}

/* A list of models: the members of `array`, one behind the other. */
static enum sp_status read_list(struct sp_members_reader *reader, const json_t *array,
                                struct sp_verify_question *question)
{
    const size_t count = json_array_size(array);
    const char **ranks = SP_NEW_ARRAY(reader->arena, count, const char *);
    enum sp_status status = ranks != NULL ? check_count(reader, count) : sp_fail_memory(reader->err);
    for (size_t i = 0; status == SP_OK && i < count; i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_string(item))
            return sp_members_refuse(reader, sp_members_item(reader, "/ranks", i), "MEMBER_TEXT",
                                     "A rank's model is given by its id.");
        ranks[i] = sp_arena_string(reader->arena, json_string_value(item), json_string_length(item));
        status = ranks[i] != NULL ? SP_OK : sp_fail_memory(reader->err);
    }
    question->rank_count = (uint32_t)count;
    question->ranks = ranks;
    return status;
}

/* The models of a manifest by the names that it gives them. */
static enum sp_status read_names(struct sp_members_reader *reader, const json_t *object,
                                 struct sp_verify_question *question)
{
    const size_t count = json_object_size(object);
    const char **ranks = SP_NEW_ARRAY(reader->arena, count, const char *);
    const char **names = SP_NEW_ARRAY(reader->arena, count, const char *);
    enum sp_status status = ranks != NULL && names != NULL ? check_count(reader, count) : sp_fail_memory(reader->err);
    const char *name;
    json_t *model;
    size_t i = 0;
    if (status != SP_OK)
        return status;
    json_object_foreach((json_t *)(uintptr_t)object, name, model)
    {
        if (!json_is_string(model))
            return sp_members_refuse(reader, sp_members_child(reader, "/ranks", name), "MEMBER_TEXT",
                                     "A rank's model is given by its id.");
        names[i] = sp_arena_string(reader->arena, name, strlen(name));
        ranks[i] = sp_arena_string(reader->arena, json_string_value(model), json_string_length(model));
        if (names[i] == NULL || ranks[i] == NULL)
            return sp_fail_memory(reader->err);
        i++;
    }
    question->rank_count = (uint32_t)count;
    question->ranks = ranks;
    question->names = names;
    return SP_OK;
}

static enum sp_status read_ranks(struct sp_members_reader *reader, const json_t *json,
                                 struct sp_verify_question *question)
{
    const json_t *ranks = json_object_get(json, "ranks"), *simulation = json_object_get(json, "simulation");
    question->manifest = json_object_get(json, "manifest");
    if ((ranks != NULL) == (simulation != NULL) || (question->manifest != NULL && ranks == NULL))
        return refuse_ways(reader);
    if (simulation != NULL) {
        const char **one = SP_NEW_ARRAY(reader->arena, 1, const char *);
        question->rank_count = 1;
        question->ranks = one;
        return one != NULL ? sp_members_text(reader, json, "", "simulation", SP_MAX_NAME_BYTES, &one[0])
                           : sp_fail_memory(reader->err);
    }
    if (question->manifest != NULL && !json_is_object(question->manifest))
        return sp_members_refuse(reader, "/manifest", "MEMBER_TYPE", "The manifest must be a JSON object.");
    if (question->manifest != NULL ? !json_is_object(ranks) : !json_is_array(ranks))
        return sp_members_refuse(
            reader, "/ranks", "MEMBER_TYPE",
            "\"ranks\" lists the ids of models in the order of the ranks; with a manifest it is an "
            "object, the id of each model by the name that the manifest gives it.");
    return question->manifest != NULL ? read_names(reader, ranks, question) : read_list(reader, ranks, question);
}

static enum sp_status read_phase(struct sp_members_reader *reader, const json_t *json,
                                 struct sp_verify_question *question)
{
    enum sp_status status = sp_members_text(reader, json, "", "phase", SP_MAX_NAME_BYTES, &question->phase);
    if (status != SP_OK || question->phase == NULL || strcmp(question->phase, "prompt") == 0 ||
        strcmp(question->phase, "token") == 0)
        return status;
    return sp_members_refuse(reader, "/phase", "MEMBER_TEXT", "\"phase\" must be \"prompt\" or \"token\".");
}

enum sp_status sp_verify_question_parse(struct sp_arena *arena, const json_t *json,
                                        struct sp_verify_question *ret_question, struct sp_error *err)
{
    static const char *const members[] = {"original", "annotated", "ranks",  "simulation", "manifest", "weights",
                                          "dims",     "values",    "shapes", "operators",  "phase"};
    struct sp_members_reader reader = {arena, err};
    struct sp_verify_question question = {0};
    const char *annotated = NULL;
    enum sp_status status = sp_members_check(&reader, (json_t *)(uintptr_t)json, "", "A request to verify", members,
                                             sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_members_text(&reader, json, "", "original", SP_MAX_NAME_BYTES, &question.original);
    if (status == SP_OK)
        status = sp_members_text(&reader, json, "", "annotated", SP_MAX_NAME_BYTES, &annotated);
    if (status == SP_OK)
        status = read_phase(&reader, json, &question);
    if (status == SP_OK)
        status = sp_sizes_parse(arena, json, "", &question.sizes, err);
    const json_t *weights = json_object_get(json, "weights");
    if (status == SP_OK && weights != NULL && !json_is_boolean(weights))
        status = sp_members_refuse(&reader, "/weights", "MEMBER_TYPE", "\"weights\" is true or false.");
    if (status != SP_OK)
        return status;
    question.weights = json_is_true(weights);
    question.is_annotated = annotated != NULL;
    if (question.is_annotated && question.weights)
        return sp_members_refuse(&reader, "/weights", "NO_WEIGHTS",
                                 "An annotated model is one file: there are no other weights to compare its own with.");
    if ((question.original != NULL) == question.is_annotated)
        return refuse_ways(&reader);
    if (!question.is_annotated)
        status = read_ranks(&reader, json, &question);
    else if (json_object_get(json, "ranks") != NULL || json_object_get(json, "simulation") != NULL ||
             json_object_get(json, "manifest") != NULL)
        status = refuse_ways(&reader);
    if (question.is_annotated)
        question.original = annotated;
    if (status == SP_OK)
        *ret_question = question;
    return status;
}
