/* What a request says of the plan of before. */
#include <math.h>
#include <string.h>

#include "plan/replan/replan.h"

static enum sp_status refuse(struct sp_error *err, const char *pointer, const char *member, const char *message)
{
    (void)sp_fail(err, SP_ERR_REQUEST, "INVALID_OPTION", "%s", message);
    return sp_error_at(err, "%s%s", pointer, member);
}

static enum sp_status parse_map(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_replan_terms *terms, struct sp_error *err)
{
    const size_t count = json_array_size(json);
    if (!json_is_array(json) || count == 0 || count > SP_MAX_DEVICES)
        return refuse(err, pointer, "/map",
                      "\"map\" must be an array with a number or null for each device of the plan's cluster, like [0, "
                      "null, 1].");
    int64_t *map = SP_NEW_ARRAY(arena, count, int64_t);
    if (map == NULL)
        return sp_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(json, i);
        if (!json_is_null(item) && (!json_is_integer(item) || json_integer_value(item) < 0))
            return refuse(err, pointer, "/map", "An entry of \"map\" must be the number of a device, or null.");
        map[i] = json_is_null(item) ? -1 : json_integer_value(item);
    }
    terms->map = map;
    terms->map_count = (uint32_t)count;
    return SP_OK;
}

enum sp_status sp_replan_terms_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                     struct sp_replan_terms *ret_terms, struct sp_error *err)
{
    struct sp_replan_terms terms = {.horizon_seconds = SP_REPLAN_HORIZON};
    const json_t *horizon = json_object_get(json, "horizon_seconds"), *map = json_object_get(json, "map");
    const char *name;
    json_t *value;
    terms.from = json_string_value(json_object_get(json, "from"));
    if (terms.from == NULL)
        return refuse(err, pointer, "/from", "\"from\" must be the id of the plan that runs.");
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        if (strcmp(name, "from") != 0 && strcmp(name, "horizon_seconds") != 0 && strcmp(name, "map") != 0)
            return refuse(err, pointer, "", "Of a plan that runs, from, horizon_seconds and map can be given.");
    }
    if (horizon != NULL) {
        terms.horizon_seconds = json_number_value(horizon);
        if (!json_is_number(horizon) || !(terms.horizon_seconds >= 0) || terms.horizon_seconds > SP_REPLAN_MAX_HORIZON)
            return refuse(err, pointer, "/horizon_seconds",
                          "\"horizon_seconds\" must be a number of seconds from 0 to 1e12: how long the new plan will "
                          "run.");
    }
    enum sp_status status = map != NULL ? parse_map(arena, map, pointer, &terms, err) : SP_OK;
    if (status == SP_OK)
        *ret_terms = terms;
    return status;
}

void sp_replan_terms_write(const struct sp_replan_terms *terms, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_string(json, "from", terms->from);
    sp_json_member_double(json, "horizon_seconds", terms->horizon_seconds);
    if (terms->map != NULL) {
        sp_json_key(json, "map");
        sp_json_begin_array(json);
        for (uint32_t i = 0; i < terms->map_count; i++) {
            if (terms->map[i] < 0)
                sp_json_null(json);
            else
                sp_json_int(json, terms->map[i]);
        }
        sp_json_end_array(json);
    }
    sp_json_end_object(json);
}
