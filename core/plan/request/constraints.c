#include <string.h>

#include "base/json_reader.h"
#include "plan/request/constraints_internal.h"

#define LEAST_LATENCY 1e-9 /* seconds */

struct reading {
    struct sp_members_reader reader;
    struct sp_demands *demands;
    uint32_t items; /* patterns, pins, specs and bans so far */
    uint32_t names; /* patterns that are the name of one node */
};

static enum sp_status count_item(struct reading *r)
{
    if (++r->items <= SP_MAX_CONSTRAINTS)
        return SP_OK;
    return sp_fail_limit(r->reader.err, "TOO_MANY_CONSTRAINTS", "SP_MAX_CONSTRAINTS", SP_MAX_CONSTRAINTS, r->items,
                         "One request may have at most %d constraints and patterns.", SP_MAX_CONSTRAINTS);
}

/* A whole number, which may be missing. */
static enum sp_status read_index(struct reading *r, const json_t *json, const char *pointer, const char *member,
                                 uint32_t low, uint32_t high, uint32_t *ret_value)
{
    const json_t *value = json_object_get(json, member);
    const json_int_t number = json_integer_value(value);
    if (value == NULL)
        return SP_OK;
    if (!json_is_integer(value) || number < low || number > high)
        return sp_members_refuse(&r->reader, sp_members_child(&r->reader, pointer, member), "MEMBER_COUNT",
                                 "'%s' must be an integer from %u to %u.", member, low, high);
    *ret_value = (uint32_t)number;
    return SP_OK;
}

/* A pattern is held against all nodes, and a name is looked up. */
static enum sp_status count_pattern(struct reading *r, const char *text)
{
    if (text == NULL || strpbrk(text, "*?") != NULL)
        return count_item(r);
    if (++r->names <= SP_MAX_CONSTRAINT_NAMES)
        return SP_OK;
    return sp_fail_limit(r->reader.err, "TOO_MANY_CONSTRAINTS", "SP_MAX_CONSTRAINT_NAMES", SP_MAX_CONSTRAINT_NAMES,
                         r->names, "One request may name at most %d nodes in its constraints.",
                         SP_MAX_CONSTRAINT_NAMES);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static enum sp_status read_pattern(struct reading *r, const json_t *json, const char *pointer, const char **ret_pattern)
{
    const char *text = json_string_value(json);
    const size_t size = json_string_length(json);
    enum sp_status status = count_pattern(r, text);
    if (status != SP_OK)
        return status;
    if (text == NULL || size == 0 || size > SP_MAX_NAME_BYTES || strlen(text) != size)
        return sp_members_refuse(&r->reader, pointer, "CONSTRAINT_PATTERN",
                                 "A pattern must be a string of 1 to %d bytes: a node's name, with * and ?.",
                                 SP_MAX_NAME_BYTES);
    *ret_pattern = sp_arena_string(r->reader.arena, text, size);
    return *ret_pattern == NULL || pointer == NULL ? sp_fail_memory(r->reader.err) : SP_OK;
}

/* A pattern, or a list of them. */
static enum sp_status read_nodes(struct reading *r, const json_t *json, const char *pointer,
                                 struct sp_demand_nodes *ret_nodes)
{
    const size_t count = json_is_array(json) ? json_array_size(json) : 1;
    if (pointer == NULL)
        return sp_fail_memory(r->reader.err);
    if (count == 0)
        return sp_members_refuse(&r->reader, pointer, "CONSTRAINT_PATTERN", "There must be one pattern at least.");
    if (count > SP_MAX_CONSTRAINT_NAMES)
        return sp_fail_limit(r->reader.err, "TOO_MANY_CONSTRAINTS", "SP_MAX_CONSTRAINT_NAMES", SP_MAX_CONSTRAINT_NAMES,
                             (int64_t)count, "One request may name at most %d nodes in its constraints.",
                             SP_MAX_CONSTRAINT_NAMES);
    const char **patterns = SP_NEW_ARRAY(r->reader.arena, count, const char *);
    const char **where = SP_NEW_ARRAY(r->reader.arena, count, const char *);
    if (patterns == NULL || where == NULL)
        return sp_fail_memory(r->reader.err);
    for (size_t i = 0; i < count; i++) {
        const bool is_list = json_is_array(json);
        where[i] = is_list ? sp_members_item(&r->reader, pointer, i) : pointer;
        enum sp_status status = read_pattern(r, is_list ? json_array_get(json, i) : json, where[i], &patterns[i]);
        if (status != SP_OK)
            return status;
    }
    *ret_nodes = (struct sp_demand_nodes){(uint32_t)count, patterns, where};
    return SP_OK;
}

/* ---- one of each ------------------------------------------------------------------------------------------------- */

static enum sp_status read_pin(struct reading *r, json_t *json, const char *pointer, uint32_t index)
{
    static const char *const members[] = {"nodes", "stage", "device"};
    struct sp_demand_pin *pin = &r->demands->pins[index];
    const bool has_stage = json_object_get(json, "stage") != NULL, has_device = json_object_get(json, "device") != NULL;
    enum sp_status status = sp_members_check(&r->reader, json, pointer, "A pin", members, 3);
    if (status == SP_OK)
        status = read_index(r, json, pointer, "stage", 0, SP_MAX_DEVICES - 1, &pin->number);
    if (status == SP_OK)
        status = read_index(r, json, pointer, "device", 0, SP_MAX_DEVICES - 1, &pin->number);
    if (status != SP_OK)
        return status;
    if (has_stage == has_device || json_object_get(json, "nodes") == NULL)
        return sp_members_refuse(&r->reader, pointer, "CONSTRAINT_PIN",
                                 "A pin has \"nodes\" and one of \"stage\" and \"device\".");
    pin->is_device = has_device;
    pin->where = pointer;
    return read_nodes(r, json_object_get(json, "nodes"), sp_members_child(&r->reader, pointer, "nodes"), &pin->nodes);
}

static enum sp_status read_together(struct reading *r, json_t *json, const char *pointer, uint32_t index)
{
    if (!json_is_array(json))
        return sp_members_refuse(&r->reader, pointer, "MEMBER_TYPE",
                                 "Nodes that stay together are an array of patterns.");
    return read_nodes(r, json, pointer, &r->demands->together[index]);
}

static enum sp_status read_tensor(struct reading *r, const json_t *json, const char *pointer, const char **ret_tensor)
{
    enum sp_status status = sp_members_text(&r->reader, json, pointer, "tensor", SP_MAX_NAME_BYTES, ret_tensor);
    if (status == SP_OK && *ret_tensor == NULL)
        return sp_members_refuse(&r->reader, pointer, "MEMBER_MISSING", "The member 'tensor' is missing here: a name.");
    return status;
}

static enum sp_status read_spec(struct reading *r, json_t *json, const char *pointer, uint32_t index)
{
    static const char *const members[] = {"tensor", "shards"};
    struct sp_demand_spec *spec = &r->demands->specs[index];
    const json_t *shards = json_object_get(json, "shards");
    enum sp_status status = sp_members_check(&r->reader, json, pointer, "A spec", members, 2);
    if (status == SP_OK)
        status = read_tensor(r, json, pointer, &spec->tensor);
    if (status != SP_OK)
        return status;
    if (!json_is_array(shards) || json_array_size(shards) > SP_MAX_RANK)
        return sp_members_refuse(&r->reader, sp_members_child(&r->reader, pointer, "shards"), "CONSTRAINT_SHARDS",
                                 "'shards' must be an array of whole numbers, one for each of at most %d axes.",
                                 SP_MAX_RANK);
    int64_t *counts = SP_NEW_ARRAY(r->reader.arena, json_array_size(shards), int64_t);
    if (counts == NULL)
        return sp_fail_memory(r->reader.err);
    for (size_t a = 0; a < json_array_size(shards); a++) {
        const json_t *count = json_array_get(shards, a);
        counts[a] = json_integer_value(count);
        if (!json_is_integer(count) || counts[a] < 1 || counts[a] > SP_MAX_DEVICES) {
            const char *list = sp_members_child(&r->reader, pointer, "shards");
            return sp_members_refuse(
                &r->reader, list == NULL ? NULL : sp_members_item(&r->reader, list, a), "CONSTRAINT_SHARDS",
                "An axis is cut in 1 (whole) to %d shards; this must be such a number.", SP_MAX_DEVICES);
        }
    }
    spec->where = pointer;
    spec->rank = (uint32_t)json_array_size(shards);
    spec->shards = counts;
    return SP_OK;
}

static enum sp_status read_ban(struct reading *r, json_t *json, const char *pointer, uint32_t index)
{
    static const char *const members[] = {"tensor", "axis", "nodes", "level"};
    struct sp_demand_ban *ban = &r->demands->bans[index];
    enum sp_status status = sp_members_check(&r->reader, json, pointer, "What is forbidden", members, 4);
    const bool has_tensor = json_object_get(json, "tensor") != NULL, has_nodes = json_object_get(json, "nodes") != NULL;
    const bool has_level = json_object_get(json, "level") != NULL, has_axis = json_object_get(json, "axis") != NULL;
    if (status == SP_OK)
        status = read_index(r, json, pointer, "axis", 0, SP_MAX_RANK - 1, &ban->axis);
    if (status != SP_OK)
        return status;
    if (has_tensor != has_axis || has_tensor + has_nodes + has_level != 1)
        return sp_members_refuse(&r->reader, pointer, "CONSTRAINT_FORBID",
                                 "What is forbidden is one of {\"tensor\", \"axis\"}, {\"nodes\"} and {\"level\"}.");
    ban->where = pointer;
    if (has_nodes) {
        ban->kind = SP_DEMAND_BAN_NODES;
        return read_nodes(r, json_object_get(json, "nodes"), sp_members_child(&r->reader, pointer, "nodes"),
                          &ban->nodes);
    }
    ban->kind = has_level ? SP_DEMAND_BAN_LEVEL : SP_DEMAND_BAN_AXIS;
    if (has_level)
        return sp_members_text(&r->reader, json, pointer, "level", SP_MAX_NAME_BYTES, &ban->level);
    return read_tensor(r, json, pointer, &ban->tensor);
}

/* ---- keys and values --------------------------------------------------------------------------------------------- */

static enum sp_status read_cache_object(struct reading *r, json_t *json, const char *pointer,
                                        struct sp_cache_demand *demand)
{
    static const char *const members[] = {"sequences", "positions", "dtype"};
    const char *dtype = NULL;
    uint32_t sequences = 0, positions = 0;
    enum sp_status status = pointer == NULL ? sp_fail_memory(r->reader.err)
                                            : sp_members_check(&r->reader, json, pointer, "A cache", members, 3);
    if (status == SP_OK)
        status = sp_members_count(&r->reader, json, pointer, "sequences", INT32_MAX, &sequences);
    if (status == SP_OK)
        status = sp_members_count(&r->reader, json, pointer, "positions", INT32_MAX, &positions);
    if (status == SP_OK)
        status = sp_members_text(&r->reader, json, pointer, "dtype", SP_MAX_NAME_BYTES, &dtype);
    if (status != SP_OK)
        return status;
    demand->sequences = sequences;
    demand->positions = positions;
    demand->dtype = dtype == NULL ? SP_DTYPE_UNDEFINED : sp_dtype_parse(dtype);
    if (dtype != NULL && (sp_dtype_bits(demand->dtype) == 0))
        return sp_members_refuse(&r->reader, sp_members_child(&r->reader, pointer, "dtype"), "CONSTRAINT_DTYPE",
                                 "'%.60s' is no element type that keys and values can have; float16 is one.", dtype);
    return SP_OK;
}

static enum sp_status read_cache(struct reading *r, json_t *json, const char *pointer)
{
    static const struct sp_members_range bytes = {"a number of bytes", 1, SP_MAX_FIGURE};
    struct sp_demand_cache *cache = &r->demands->cache;
    const bool has_object = json_object_get(json, "kv_cache") != NULL;
    const bool has_bytes = json_object_get(json, "kv_cache_bytes") != NULL;
    if (has_object && has_bytes)
        return sp_members_refuse(
            &r->reader, sp_members_child(&r->reader, pointer, "kv_cache_bytes"), "CONSTRAINT_CONFLICT",
            "The size of the cache is said by \"kv_cache\" or by \"kv_cache_bytes\", not by both.");
    if (has_object) {
        cache->member = "kv_cache";
        return read_cache_object(r, json_object_get(json, "kv_cache"),
                                 sp_members_child(&r->reader, pointer, "kv_cache"), &cache->demand);
    }
    if (has_bytes)
        cache->member = "kv_cache_bytes";
    return sp_members_number(&r->reader, json, pointer, "kv_cache_bytes", &bytes, false, &cache->demand.total_bytes);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

typedef enum sp_status read_one(struct reading *r, json_t *json, const char *pointer, uint32_t index);

/* The members that are arrays, and where their items and the number of these are in struct sp_demands. */
static const struct list {
    const char *member;
    size_t size, items_at, count_at;
    read_one *read;
} lists[] = {
#define LIST(member, items, count, read)                                                                               \
    {                                                                                                                  \
        member, sizeof *((struct sp_demands *)NULL)->items, offsetof(struct sp_demands, items),                        \
            offsetof(struct sp_demands, count), read                                                                   \
    }
    LIST("pins", pins, pin_count, read_pin),
    LIST("together", together, together_count, read_together),
    LIST("specs", specs, spec_count, read_spec),
    LIST("forbid", bans, ban_count, read_ban),
#undef LIST
};

static enum sp_status read_list(struct reading *r, json_t *json, const char *pointer, const struct list *of)
{
    const json_t *list = json_object_get(json, of->member);
    char *place = sp_members_child(&r->reader, pointer, of->member);
    if (list == NULL)
        return SP_OK;
    if (place == NULL)
        return sp_fail_memory(r->reader.err);
    if (!json_is_array(list))
        return sp_members_refuse(&r->reader, place, "MEMBER_TYPE", "'%s' must be an array.", of->member);
    void *items = sp_arena_array(r->reader.arena, json_array_size(list), of->size);
    if (items == NULL)
        return sp_fail_memory(r->reader.err);
    memcpy((char *)r->demands + of->items_at, &items, sizeof items);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char *pointer_of = sp_members_item(&r->reader, place, i);
        enum sp_status status = pointer_of == NULL ? sp_fail_memory(r->reader.err) : count_item(r);
        if (status == SP_OK)
            status = of->read(r, json_array_get(list, i), pointer_of, (uint32_t)i);
        if (status != SP_OK)
            return status;
    }
    const uint32_t count = (uint32_t)json_array_size(list);
    memcpy((char *)r->demands + of->count_at, &count, sizeof count);
    return SP_OK;
}

enum sp_status sp_demands_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                const struct sp_demands **ret_demands, struct sp_error *err)
{
    static const char *const members[] = {"max_stages",     "max_latency_seconds",
                                          "reserved_bytes", "kv_cache",
                                          "kv_cache_bytes", "pins",
                                          "together",       "specs",
                                          "forbid"};
    static const struct sp_members_range bytes = {"a number of bytes", 0, SP_MAX_FIGURE};
    static const struct sp_members_range seconds = {"a number of seconds", LEAST_LATENCY, SP_MAX_SECONDS};
    struct reading r = {.reader = {arena, err}, .demands = SP_NEW(arena, struct sp_demands)};
    json_t *root = (json_t *)(uintptr_t)json;
    if (r.demands == NULL)
        return sp_fail_memory(err);
    struct sp_demands *d = r.demands;
    d->where = sp_arena_string(arena, pointer, strlen(pointer));
    enum sp_status status = d->where == NULL ? sp_fail_memory(err) : SP_OK;
    if (status == SP_OK)
        status =
            sp_members_check(&r.reader, root, pointer, "The constraints", members, sizeof members / sizeof *members);
    if (status == SP_OK)
        status = read_index(&r, root, pointer, "max_stages", 1, SP_MAX_DEVICES, &d->max_stages);
    if (status == SP_OK)
        status = sp_members_number(&r.reader, root, pointer, "max_latency_seconds", &seconds, false,
                                   &d->max_latency_seconds);
    if (status == SP_OK)
        status = sp_members_number(&r.reader, root, pointer, "reserved_bytes", &bytes, false, &d->reserved_bytes);
    if (status == SP_OK)
        status = read_cache(&r, root, pointer);
    for (size_t i = 0; status == SP_OK && i < sizeof lists / sizeof *lists; i++)
        status = read_list(&r, root, pointer, &lists[i]);
    if (status == SP_OK)
        *ret_demands = d;
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_nodes(const struct sp_demand_nodes *nodes, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < nodes->count; i++)
        sp_json_string(json, nodes->patterns[i]);
    sp_json_end_array(json);
}

static void write_cache(const struct sp_demand_cache *cache, struct sp_json *json)
{
    if (cache->demand.total_bytes > 0) {
        sp_json_member_double(json, cache->member, cache->demand.total_bytes);
        return;
    }
    sp_json_key(json, cache->member);
    sp_json_begin_object(json);
    sp_json_member_int(json, "sequences", (int64_t)cache->demand.sequences);
    sp_json_member_int(json, "positions", (int64_t)cache->demand.positions);
    if (cache->demand.dtype != SP_DTYPE_UNDEFINED)
        sp_json_member_string(json, "dtype", sp_dtype_name(cache->demand.dtype));
    sp_json_end_object(json);
}

static void write_pins(const struct sp_demands *demands, struct sp_json *json)
{
    sp_json_key(json, "pins");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < demands->pin_count; i++) {
        const struct sp_demand_pin *pin = &demands->pins[i];
        sp_json_begin_object(json);
        sp_json_key(json, "nodes");
        write_nodes(&pin->nodes, json);
        sp_json_member_int(json, pin->is_device ? "device" : "stage", pin->number);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_specs(const struct sp_demands *demands, struct sp_json *json)
{
    sp_json_key(json, "specs");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < demands->spec_count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "tensor", demands->specs[i].tensor);
        sp_json_key(json, "shards");
        sp_json_begin_array(json);
        for (uint32_t a = 0; a < demands->specs[i].rank; a++)
            sp_json_int(json, demands->specs[i].shards[a]);
        sp_json_end_array(json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_bans(const struct sp_demands *demands, struct sp_json *json)
{
    sp_json_key(json, "forbid");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < demands->ban_count; i++) {
        const struct sp_demand_ban *ban = &demands->bans[i];
        sp_json_begin_object(json);
        if (ban->kind == SP_DEMAND_BAN_NODES) {
            sp_json_key(json, "nodes");
            write_nodes(&ban->nodes, json);
        } else if (ban->kind == SP_DEMAND_BAN_LEVEL) {
            sp_json_member_string(json, "level", ban->level);
        } else {
            sp_json_member_string(json, "tensor", ban->tensor);
            sp_json_member_int(json, "axis", ban->axis);
        }
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

double sp_demands_latency(const struct sp_demands *demands)
{
    return demands->max_latency_seconds;
}

void sp_demands_write(const struct sp_demands *demands, struct sp_json *json)
{
    sp_json_begin_object(json);
    if (demands->max_stages > 0)
        sp_json_member_int(json, "max_stages", demands->max_stages);
    if (demands->max_latency_seconds > 0)
        sp_json_member_double(json, "max_latency_seconds", demands->max_latency_seconds);
    if (demands->reserved_bytes > 0)
        sp_json_member_double(json, "reserved_bytes", demands->reserved_bytes);
    if (demands->cache.member != NULL)
        write_cache(&demands->cache, json);
    if (demands->pin_count > 0)
        write_pins(demands, json);
    if (demands->together_count > 0) {
        sp_json_key(json, "together");
        sp_json_begin_array(json);
        for (uint32_t i = 0; i < demands->together_count; i++)
            write_nodes(&demands->together[i], json);
        sp_json_end_array(json);
    }
    if (demands->spec_count > 0)
        write_specs(demands, json);
    if (demands->ban_count > 0)
        write_bans(demands, json);
    sp_json_end_object(json);
}
