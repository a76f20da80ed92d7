/* Which clusters a request asks about. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/json_reader.h"
#include "plan/variants/variants.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])
#define LABEL_BYTES     4096

static const char *const choices[] = {[SP_SWEEP_SMALLEST] = "smallest", [SP_SWEEP_BEST] = "best"};

bool sp_sweep_choice_parse(const char *name, enum sp_sweep_choice *ret_choice)
{
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        if (strcmp(name, choices[i]) == 0) {
            *ret_choice = (enum sp_sweep_choice)i;
            return true;
        }
    }
    return false;
}

/* ---- as people write it ------------------------------------------------------------------------------------------ */

static json_t *make_count(const char *part)
{
    char *end;
    if (part[0] < '0' || part[0] > '9') /* strtoll would skip blanks and take a sign */
        return NULL;
    errno = 0;
    const long long value = strtoll(part, &end, 10);
    return errno == 0 && *end == '\0' && value >= 1 ? json_integer(value) : NULL;
}

static json_t *make_name(const char *part)
{
    return part[0] != '\0' ? json_string(part) : NULL;
}

/* The parts between commas as an array; NULL where one cannot be made. */
static json_t *make_list(const char *text, json_t *(*make)(const char *part))
{
    json_t *array = json_array();
    char *copy = strdup(text), *rest = copy, *part;
    bool ok = array != NULL && copy != NULL;
    while (ok && (part = strsep(&rest, ",")) != NULL)
        ok = json_array_append_new(array, make(part)) == 0;
    free(copy);
    if (ok)
        return array;
    json_decref(array);
    return NULL;
}

bool sp_is_count_list(const char *text)
{
    json_t *counts = make_list(text, make_count);
    json_decref(counts);
    return counts != NULL;
}

static bool is_list(const char *text)
{
    return text != NULL && strchr(text, ',') != NULL;
}

bool sp_plan_lists_sweep(const struct sp_plan_lists *lists)
{
    return is_list(lists->devices) || is_list(lists->types) || lists->choose != NULL ||
           (lists->cluster != NULL && lists->devices != NULL);
}

json_t *sp_plan_lists_json(const struct sp_plan_lists *lists)
{
    const bool is_sweep = sp_plan_lists_sweep(lists);
    if (!is_sweep && lists->cluster != NULL)
        return json_incref(lists->cluster);
    json_t *counts = lists->devices != NULL ? make_list(lists->devices, make_count) : NULL;
    json_t *types = lists->cluster == NULL && lists->types != NULL ? make_list(lists->types, make_name) : NULL;
    json_t *target = NULL;
    if (counts != NULL && !is_sweep && types != NULL)
        target = json_pack("{s:O, s:O}", "device", json_array_get(types, 0), "count", json_array_get(counts, 0));
    else if (counts != NULL && (types != NULL || lists->cluster != NULL))
        target = json_pack("{s:O, s:O, s:s*}", "devices", counts, types != NULL ? "types" : "cluster",
                           types != NULL ? types : lists->cluster, "choose", lists->choose);
    json_decref(counts);
    json_decref(types);
    return target;
}

/* ---- as requests have it ----------------------------------------------------------------------------------------- */

/* What is read, and the parts of the request that are looked at together. */
struct reading {
    struct sp_members_reader members;
    const json_t *sweep;
    uint32_t count_count, type_count; /* type_count 0: prefixes of one cluster */
    uint32_t *counts;
    struct sp_sweep *result;
};

static enum sp_status read_choice(struct reading *r)
{
    const json_t *json = json_object_get(r->sweep, "choose");
    const char *name = json_string_value(json);
    if (json == NULL || (name != NULL && sp_sweep_choice_parse(name, &r->result->choice)))
        return SP_OK;
    return sp_members_refuse(
        &r->members, "/sweep/choose", "SWEEP_CHOICE",
        "\"choose\" must be \"smallest\", the fewest devices that fit, or \"best\", the best plan.");
}

/* "devices": whole numbers, each once. */
static enum sp_status read_counts(struct reading *r, uint32_t most)
{
    const json_t *json = json_object_get(r->sweep, "devices");
    const size_t count = json_array_size(json);
    if (!json_is_array(json) || count == 0)
        return sp_members_refuse(&r->members, "/sweep/devices", "SWEEP_DEVICES",
                                 "\"devices\" must be an array of numbers of devices, like [1, 2, 4].");
    if (count > SP_MAX_VARIANTS) {
        (void)sp_fail_limit(r->members.err, "TOO_MANY_VARIANTS", "SP_MAX_VARIANTS", SP_MAX_VARIANTS, (int64_t)count,
                            "One sweep may plan at most %d clusters; it names %zu numbers of devices.", SP_MAX_VARIANTS,
                            count);
        return sp_error_at(r->members.err, "/sweep/devices");
    }
    r->counts = SP_NEW_ARRAY(r->members.arena, count, uint32_t);
    if (r->counts == NULL)
        return sp_fail_memory(r->members.err);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(json, i);
        const json_int_t value = json_integer_value(item);
        const char *at = sp_members_item(&r->members, "/sweep/devices", i);
        if (!json_is_integer(item) || value < 1 || value > most)
            return sp_members_refuse(&r->members, at, "SWEEP_DEVICES",
                                     "A number of devices must be a whole number from 1 to %u%s.", most,
                                     r->type_count == 0 ? ", the devices of the cluster" : "");
        for (uint32_t j = 0; j < i; j++) {
            if (r->counts[j] == (uint32_t)value)
                return sp_members_refuse(&r->members, at, "SWEEP_TWICE", "%lld devices are asked for twice.",
                                         (long long)value);
        }
        r->counts[i] = (uint32_t)value;
    }
    r->count_count = (uint32_t)count;
    return SP_OK;
}

/* Makes room for that many clusters. */
static enum sp_status make_room(struct reading *r, size_t count)
{
    if (count > SP_MAX_VARIANTS) {
        (void)sp_fail_limit(r->members.err, "TOO_MANY_VARIANTS", "SP_MAX_VARIANTS", SP_MAX_VARIANTS, (int64_t)count,
                            "One sweep may plan at most %d clusters; these are %zu.", SP_MAX_VARIANTS, count);
        return sp_error_at(r->members.err, "/sweep");
    }
    r->result->clusters = SP_NEW_ARRAY(r->members.arena, count, struct sp_cluster *);
    r->result->devices = SP_NEW_ARRAY(r->members.arena, count, const char *);
    if (r->result->clusters == NULL || r->result->devices == NULL)
        return sp_fail_memory(r->members.err);
    return SP_OK;
}

/* "l4-24gb", or "4 x l4-24gb + 2 x cpu-core" of several groups. */
static const char *label(struct sp_arena *arena, const struct sp_cluster *cluster)
{
    struct sp_buf text;
    sp_buf_init(&text, LABEL_BYTES);
    if (cluster->group_count == 1)
        return cluster->groups[0].device.name;
    for (uint32_t g = 0; g < cluster->group_count && text.size + 3 * SP_DEVICE_NAME_SIZE < LABEL_BYTES; g++)
        sp_buf_printf(&text, "%s%u x %s", g == 0 ? "" : " + ", cluster->groups[g].count,
                      cluster->groups[g].device.name);
    const char *copy = sp_buf_failed(&text) ? NULL : sp_arena_string(arena, text.data, text.size);
    sp_buf_release(&text);
    return copy;
}

static enum sp_status add(struct reading *r, struct sp_cluster *cluster)
{
    struct sp_sweep *sweep = r->result;
    sweep->clusters[sweep->count] = cluster;
    sweep->devices[sweep->count] = cluster == NULL ? NULL : label(r->members.arena, cluster);
    if (sweep->devices[sweep->count] == NULL)
        return sp_fail_memory(r->members.err);
    sweep->count++;
    return SP_OK;
}

/* ---- the first devices of one cluster ---- */

static enum sp_status read_prefixes(struct reading *r)
{
    static const char *const members[] = {"cluster", "devices", "choose"};
    struct sp_cluster *cluster;
    enum sp_status status = sp_members_check(&r->members, (json_t *)(uintptr_t)r->sweep, "/sweep",
                                             "A sweep over a cluster", members, COUNT_OF(members));
    if (status == SP_OK)
        status = sp_cluster_parse(r->members.arena, json_object_get(r->sweep, "cluster"), "/sweep/cluster", &cluster,
                                  r->members.err);
    if (status == SP_OK)
        status = read_counts(r, cluster->device_count);
    if (status == SP_OK)
        status = make_room(r, r->count_count);
    for (uint32_t i = 0; status == SP_OK && i < r->count_count; i++)
        status =
            add(r, r->counts[i] == cluster->device_count ? cluster
                                                         : sp_cluster_prefix(r->members.arena, cluster, r->counts[i]));
    return status;
}

/* ---- numbers of devices of several types ---- */

/* {"device": TYPE, "count": N} as a request would say it; what is wrong with the type is said where it stands. */
static enum sp_status read_uniform(struct reading *r, const json_t *type, uint32_t index, uint32_t count)
{
    struct sp_cluster *cluster;
    struct sp_error *err = r->members.err, wrong = {0};
    json_t *json = json_pack("{s:O, s:I, s:O*}", "device", (json_t *)(uintptr_t)type, "count", (json_int_t)count,
                             "runtime", json_object_get(r->sweep, "runtime"));
    if (json == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_cluster_parse(r->members.arena, json, "", &cluster, &wrong);
    json_decref(json);
    if (status == SP_OK)
        return add(r, cluster);
    const char *below = strncmp(wrong.where, "/device", 7) == 0 ? wrong.where + 7 : "";
    char where[SP_ERROR_WHERE_SIZE];
    if (strcmp(wrong.where, "/runtime") == 0)
        (void)snprintf(where, sizeof where, "/sweep/runtime");
    else
        (void)snprintf(where, sizeof where, "/sweep/types/%u%.200s", index, below);
    memcpy(wrong.where, where, sizeof where);
    if (err != NULL)
        *err = wrong;
    return status;
}

static bool is_same_type(const json_t *a, const json_t *b)
{
    if (json_is_string(a) && json_is_string(b))
        return strcasecmp(json_string_value(a), json_string_value(b)) == 0;
    return json_equal(a, b) == 1;
}

static enum sp_status read_types(struct reading *r)
{
    static const char *const members[] = {"devices", "types", "runtime", "choose"};
    const json_t *types = json_object_get(r->sweep, "types");
    enum sp_status status =
        sp_members_check(&r->members, (json_t *)(uintptr_t)r->sweep, "/sweep", "A sweep", members, COUNT_OF(members));
    if (status != SP_OK)
        return status;
    if (!json_is_array(types) || json_array_size(types) == 0)
        return sp_members_refuse(&r->members, "/sweep/types", "SWEEP_TYPES",
                                 "\"types\" must be an array of devices, like [\"h100-sxm-80gb\", \"l4-24gb\"].");
    r->type_count = json_array_size(types) <= SP_MAX_VARIANTS ? (uint32_t)json_array_size(types) : SP_MAX_VARIANTS + 1;
    status = read_counts(r, SP_MAX_DEVICES);
    if (status == SP_OK)
        status = make_room(r, (size_t)r->count_count * json_array_size(types));
    for (uint32_t t = 0; status == SP_OK && t < r->type_count; t++) {
        const json_t *type = json_array_get(types, t);
        for (uint32_t other = 0; status == SP_OK && other < t; other++) {
            if (is_same_type(type, json_array_get(types, other)))
                status = sp_members_refuse(&r->members, sp_members_item(&r->members, "/sweep/types", t), "SWEEP_TWICE",
                                           "This type of device is asked for twice.");
        }
        for (uint32_t i = 0; status == SP_OK && i < r->count_count; i++)
            status = read_uniform(r, type, t, r->counts[i]);
    }
    return status;
}

enum sp_status sp_plan_target_parse(struct sp_arena *arena, const json_t *cluster, const json_t *sweep,
                                    struct sp_plan_target *ret_target, struct sp_error *err)
{
    struct reading reading = {.members = {arena, err}, .sweep = sweep};
    if (sweep == NULL) {
        struct sp_cluster *parsed;
        enum sp_status status = sp_cluster_parse(arena, cluster, "/cluster", &parsed, err);
        if (status == SP_OK)
            *ret_target = (struct sp_plan_target){.cluster = parsed};
        return status;
    }
    if (cluster != NULL)
        return sp_members_refuse(&reading.members, "/sweep", "SWEEP_AND_CLUSTER",
                                 "A request has either \"cluster\" or \"sweep\"; a cluster whose first devices are "
                                 "looked at stands in the sweep.");
    reading.result = SP_NEW(arena, struct sp_sweep);
    if (reading.result == NULL)
        return sp_fail_memory(err);
    enum sp_status status = SP_OK;
    if (json_object_get(sweep, "cluster") != NULL)
        status = read_prefixes(&reading);
    else
        status = read_types(&reading);
    if (status == SP_OK)
        status = read_choice(&reading);
    if (status == SP_OK)
        *ret_target = (struct sp_plan_target){.sweep = reading.result};
    return status;
}
