#include "plan/service/expert_load.h"

#include <math.h>
#include <string.h>

static enum sp_status refuse_form(struct sp_members_reader *r, const char *pointer)
{
    return sp_members_refuse(r, pointer, "EXPERT_LOAD_FORM",
                             "An expected load of experts is a list with a share for each, like [4, 2, 1, 1], of "
                             "which some are above 0 and none below, or {\"zipf\": 1.2}.");
}

static enum sp_status read_shares(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                  struct sp_load_list *list)
{
    const size_t count = json_array_size(json);
    double sum = 0;
    if (count > SP_MAX_EXPERTS)
        return sp_fail_limit(r->err, "TOO_MANY_EXPERTS", "SP_MAX_EXPERTS", SP_MAX_EXPERTS, (int64_t)count,
                             "A list may have the shares of at most %d experts.", SP_MAX_EXPERTS);
    double *shares = SP_NEW_ARRAY(r->arena, count, double);
    if (shares == NULL)
        return sp_fail_memory(r->err);
    for (size_t e = 0; e < count; e++) {
        const json_t *item = json_array_get(json, e);
        shares[e] = json_number_value(item);
        if (!json_is_number(item) || !(shares[e] >= 0 && shares[e] <= SP_MAX_LOAD_SHARE))
            return refuse_form(r, sp_members_item(r, pointer, e));
        sum += shares[e];
    }
    if (!(sum > 0))
        return refuse_form(r, pointer);
    list->count = (uint32_t)count;
    list->shares = shares;
    return SP_OK;
}

static bool is_distribution(const json_t *json)
{
    return json_object_size(json) == 1 && json_is_number(json_object_get(json, "zipf"));
}

static enum sp_status read_list(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                struct sp_load_list *list)
{
    static const struct sp_members_range zipf = {"an exponent", 0, SP_MAX_ZIPF};
    if (pointer == NULL)
        return sp_fail_memory(r->err);
    if (json_is_array(json))
        return read_shares(r, json, pointer, list);
    return is_distribution(json) ? sp_members_number(r, json, pointer, "zipf", &zipf, true, &list->zipf)
                                 : refuse_form(r, pointer);
}

static enum sp_status read_lists(struct sp_members_reader *r, json_t *json, const char *pointer,
                                 struct sp_given_loads *loads)
{
    const size_t count = json_is_object(json) && !is_distribution(json) ? json_object_size(json) : 1;
    const char *name;
    json_t *value;
    if (count == 0)
        return refuse_form(r, pointer);
    if (count > SP_MAX_LOAD_LISTS)
        return sp_fail_limit(r->err, "TOO_MANY_EXPERTS", "SP_MAX_LOAD_LISTS", SP_MAX_LOAD_LISTS, (int64_t)count,
                             "Loads of experts may be given for at most %d layers.", SP_MAX_LOAD_LISTS);
    struct sp_load_list *lists = SP_NEW_ARRAY(r->arena, count, struct sp_load_list);
    if (lists == NULL)
        return sp_fail_memory(r->err);
    loads->lists = lists;
    if (!json_is_object(json) || is_distribution(json)) {
        loads->count = 1;
        return read_list(r, json, pointer, &lists[0]);
    }
    json_object_foreach(json, name, value)
    {
        lists[loads->count].node = sp_arena_string(r->arena, name, strlen(name));
        if (lists[loads->count].node == NULL)
            return sp_fail_memory(r->err);
        const enum sp_status status = read_list(r, value, sp_members_child(r, pointer, name), &lists[loads->count++]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_order(struct sp_members_reader *r, const json_t *workload, const char *pointer,
                                 bool has_load, bool *ret_is_balanced)
{
    const json_t *json = json_object_get(workload, "expert_order");
    const char *text = json_string_value(json);
    if (json == NULL)
        return SP_OK;
    *ret_is_balanced = text != NULL && strcmp(text, "balanced") == 0;
    if (has_load && text != NULL && (*ret_is_balanced || strcmp(text, "model") == 0))
        return SP_OK;
    return sp_members_refuse(r, sp_members_child(r, pointer, "expert_order"), "EXPERT_ORDER",
                             "\"expert_order\" is \"model\" or \"balanced\", and stands beside \"expert_load\".");
}

enum sp_status sp_expert_load_parse(struct sp_members_reader *r, const json_t *workload, const char *pointer,
                                    const struct sp_given_loads **ret_loads)
{
    json_t *json = json_object_get(workload, "expert_load");
    const char *at = sp_members_child(r, pointer, "expert_load");
    struct sp_given_loads *loads = SP_NEW(r->arena, struct sp_given_loads);
    if (at == NULL || loads == NULL)
        return sp_fail_memory(r->err);
    loads->where = at;
    enum sp_status status = read_order(r, workload, pointer, json != NULL, &loads->is_balanced);
    if (status == SP_OK && json != NULL)
        status = read_lists(r, json, at, loads);
    if (status == SP_OK)
        *ret_loads = json != NULL ? loads : NULL;
    return status;
}
