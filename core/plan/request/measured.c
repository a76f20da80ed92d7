#include "plan/request/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/json_reader.h"
#include "base/sorted.h"

#define KERNEL       "_kernel_time"
#define MICROSECONDS 1e6 /* of a second */

struct parse {
    struct sp_members_reader reader;
    const char *pointer;
    struct sp_profile *profile;
    struct sp_profile_time *times;
    size_t name_bytes;
};

/* ---- times by name ------------------------------------------------------------------------------------------------
 */

static enum sp_status check_size(struct parse *parse, size_t names)
{
    if (names > SP_MAX_PROFILE_NAMES)
        return sp_fail_limit(parse->reader.err, "PROFILE_TOO_LARGE", "SP_MAX_PROFILE_NAMES", SP_MAX_PROFILE_NAMES,
                             (int64_t)names, "A profile may have the times of %d nodes; this one has %zu.",
                             SP_MAX_PROFILE_NAMES, names);
    if (parse->name_bytes > SP_MAX_PROFILE_NAME_BYTES)
        return sp_fail_limit(parse->reader.err, "PROFILE_TOO_LARGE", "SP_MAX_PROFILE_NAME_BYTES",
                             SP_MAX_PROFILE_NAME_BYTES, (int64_t)parse->name_bytes,
                             "The names of a profile may have %d bytes in all; those of this one have more.",
                             SP_MAX_PROFILE_NAME_BYTES);
    return SP_OK;
}

static enum sp_status add_time(struct parse *parse, const char *pointer, const char *name, const char *device,
                               const json_t *seconds)
{
    const double value = json_number_value(seconds);
    if (!json_is_number(seconds) || !(value >= 0) || value > SP_MAX_SECONDS)
        return sp_members_refuse(
            &parse->reader, pointer, "PROFILE_SECONDS",
            "A number of seconds from 0 to %g is expected here, or an object with the seconds on each "
            "device.",
            SP_MAX_SECONDS);
    parse->times[parse->profile->count++] = (struct sp_profile_time){name, device, value};
    return SP_OK;
}

static enum sp_status add_devices(struct parse *parse, const char *pointer, const char *name, const json_t *devices)
{
    struct sp_arena *arena = parse->reader.arena;
    const char *device;
    json_t *seconds;
    enum sp_status status = SP_OK;
    if (json_object_size(devices) == 0)
        return sp_members_refuse(&parse->reader, pointer, "PROFILE_SECONDS",
                                 "No device is named here: the seconds of a node are a number, or an object like "
                                 "{\"a100-sxm4-80gb\": 0.001}.");
    json_object_foreach((json_t *)(uintptr_t)devices, device, seconds)
    {
        const char *copy = sp_arena_string(arena, device, strlen(device));
        if (copy == NULL)
            return sp_fail_memory(parse->reader.err);
        status = add_time(parse, sp_members_child(&parse->reader, pointer, device), name, copy, seconds);
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status read_nodes(struct parse *parse, const json_t *nodes)
{
    struct sp_members_reader *reader = &parse->reader;
    const char *pointer = sp_members_child(reader, parse->pointer, "nodes"), *name;
    size_t room = 0;
    json_t *value;
    if (!json_is_object(nodes))
        return sp_members_refuse(reader, pointer, "MEMBER_TYPE",
                                 "'nodes' is an object: the seconds of each node by name.");
    json_object_foreach((json_t *)(uintptr_t)nodes, name, value)
    {
        room += json_is_object(value) ? json_object_size(value) : 1;
        parse->name_bytes += strlen(name);
    }
    enum sp_status status = check_size(parse, room);
    if (status != SP_OK)
        return status;
    parse->times = SP_NEW_ARRAY(reader->arena, room, struct sp_profile_time);
    if (parse->times == NULL)
        return sp_fail_memory(reader->err);
    json_object_foreach((json_t *)(uintptr_t)nodes, name, value)
    {
        struct sp_arena_mark mark = sp_arena_mark(reader->arena);
        const char *copy = sp_arena_string(reader->arena, name, strlen(name));
        const char *here = sp_members_child(reader, pointer, name);
        if (copy == NULL || here == NULL)
            return sp_fail_memory(reader->err);
        if (json_is_object(value)) {
            status = add_devices(parse, here, copy, value);
        } else {
            status = add_time(parse, here, copy, NULL, value);
            if (status == SP_OK) { /* without the pointer */
                sp_arena_rewind(reader->arena, mark);
                parse->times[parse->profile->count - 1].name = sp_arena_string(reader->arena, name, strlen(name));
            }
        }
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- events of ONNX Runtime ---------------------------------------------------------------------------------------
 */

struct run {
    double begin, end;
};

/* One node's time in one run. */
struct sample {
    uint32_t node, run;
    double seconds;
};

struct events {
    const json_t *list;
    struct sp_arena *scratch;
    struct sp_intern *names;
    struct run *runs;
    struct sample *samples;
    uint32_t run_count, sample_count;
};

static bool text_is(const json_t *event, const char *member, const char *word)
{
    const char *text = json_string_value(json_object_get(event, member));
    return text != NULL && strcmp(text, word) == 0;
}

/* The length of the node's name in "NAME_kernel_time", 0 where it is none. */
static size_t node_name(const json_t *event, const char **ret_name)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const size_t size = name != NULL ? strlen(name) : 0, suffix = sizeof KERNEL - 1;
    *ret_name = name;
    return text_is(event, "cat", "Node") && size > suffix && strcmp(name + size - suffix, KERNEL) == 0 ? size - suffix
                                                                                                       : 0;
}

SP_ASCENDING(by_begin, struct run, begin)

static void find_runs(struct events *events)
{
    size_t i;
    json_t *event;
    json_array_foreach(events->list, i, event)
    {
        const double begin = json_number_value(json_object_get(event, "ts"));
        if (text_is(event, "cat", "Session") && text_is(event, "name", "model_run"))
            events->runs[events->run_count++] =
                (struct run){begin, begin + json_number_value(json_object_get(event, "dur"))};
    }
    if (events->run_count > 1)
        qsort(events->runs, events->run_count, sizeof *events->runs, by_begin);
}

/* The run in which a kernel began, or UINT32_MAX. */
static uint32_t run_at(const struct events *events, double time)
{
    uint32_t at; /* the first run that begins later */
    SP_LOWER_BOUND(at, events->run_count, events->runs[at].begin <= time);
    return at > 0 && time <= events->runs[at - 1].end ? at - 1 : UINT32_MAX;
}

static enum sp_status take_samples(struct parse *parse, struct events *events, const char *pointer)
{
    size_t i;
    json_t *event;
    json_array_foreach(events->list, i, event)
    {
        const char *name;
        const size_t size = node_name(event, &name);
        const json_t *duration = json_object_get(event, "dur");
        if (size == 0)
            continue;
        const double seconds = json_number_value(duration) / MICROSECONDS;
        if (!json_is_number(duration) || !(seconds >= 0) || seconds > SP_MAX_SECONDS)
            return sp_members_refuse(&parse->reader, sp_members_item(&parse->reader, pointer, i), "PROFILE_EVENT",
                                     "The event of a kernel needs 'dur', its microseconds.");
        const uint32_t run =
            events->run_count > 0 ? run_at(events, json_number_value(json_object_get(event, "ts"))) : (uint32_t)i;
        if (run == UINT32_MAX)
            continue; /* the profiler was ended inside a run */
        const uint32_t known = sp_intern_count(events->names), node = sp_intern_add(events->names, name, size);
        if (node == SP_NO_NAME)
            return sp_fail_memory(parse->reader.err);
        parse->name_bytes += node == known ? size : 0;
        events->samples[events->sample_count++] = (struct sample){node, run, seconds};
    }
    return check_size(parse, sp_intern_count(events->names));
}

SP_ASCENDING(by_node, struct sample, node, run)

SP_ASCENDING(by_seconds, struct sample, seconds)

/* The median over the runs of samples[0 .. count), all of one node and in the order of the runs. The first run of all
   is left out where the node is in others too. */
static double median_of_runs(struct sample *samples, uint32_t count, uint32_t first_run)
{
    uint32_t runs = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (runs > 0 && samples[runs - 1].run == samples[i].run)
            samples[runs - 1].seconds += samples[i].seconds;
        else
            samples[runs++] = samples[i];
    }
    if (runs > 1 && samples[0].run == first_run) {
        samples++;
        runs--;
    }
    qsort(samples, runs, sizeof *samples, by_seconds);
    return (samples[(runs - 1) / 2].seconds + samples[runs / 2].seconds) / 2;
}

static enum sp_status take_medians(struct parse *parse, struct events *events)
{
    struct sp_arena *arena = parse->reader.arena;
    uint32_t first_run = UINT32_MAX;
    parse->times = SP_NEW_ARRAY(arena, sp_intern_count(events->names), struct sp_profile_time);
    if (parse->times == NULL)
        return sp_fail_memory(parse->reader.err);
    for (uint32_t i = 0; i < events->sample_count; i++)
        first_run = events->samples[i].run < first_run ? events->samples[i].run : first_run;
    if (events->sample_count > 1)
        qsort(events->samples, events->sample_count, sizeof *events->samples, by_node);
    for (uint32_t first = 0, end; first < events->sample_count; first = end) {
        const char *name = sp_intern_name(events->names, events->samples[first].node);
        for (end = first + 1; end < events->sample_count && events->samples[end].node == events->samples[first].node;)
            end++;
        name = sp_arena_string(arena, name, strlen(name));
        if (name == NULL)
            return sp_fail_memory(parse->reader.err);
        parse->times[parse->profile->count++] = (struct sp_profile_time){
            .name = name, .seconds = median_of_runs(&events->samples[first], end - first, first_run)};
    }
    return SP_OK;
}

static enum sp_status read_events(struct parse *parse, const json_t *list, const char *pointer)
{
    struct sp_members_reader *reader = &parse->reader;
    struct events events = {.list = list, .scratch = sp_arena_create(sp_arena_budget(reader->arena))};
    enum sp_status status = SP_ERR_MEMORY;
    if (events.scratch != NULL) {
        events.names = sp_intern_create(events.scratch, 0);
        events.runs = SP_NEW_ARRAY(events.scratch, json_array_size(list), struct run);
        events.samples = SP_NEW_ARRAY(events.scratch, json_array_size(list), struct sample);
    }
    if (events.names == NULL || events.runs == NULL || events.samples == NULL) {
        (void)sp_fail_memory(reader->err);
    } else {
        find_runs(&events);
        status = take_samples(parse, &events, pointer);
        if (status == SP_OK && events.sample_count == 0)
            status = sp_members_refuse(
                reader, pointer, "PROFILE_EMPTY",
                "No event here is that of a kernel: ONNX Runtime's profiler writes them with \"cat\": "
                "\"Node\" and \"name\": \"NAME_kernel_time\".");
        if (status == SP_OK)
            status = take_medians(parse, &events);
    }
    sp_arena_destroy(events.scratch);
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------
 */

static enum sp_status read_object(struct parse *parse, const json_t *json)
{
    static const char *const members[] = {"nodes", "events", "device"};
    struct sp_members_reader *reader = &parse->reader;
    const json_t *nodes = json_object_get(json, "nodes"), *list = json_object_get(json, "events");
    enum sp_status status = sp_members_check(reader, (json_t *)(uintptr_t)json, parse->pointer, "A profile", members,
                                             sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_members_text(reader, json, parse->pointer, "device", SP_MAX_NAME_BYTES, &parse->profile->device);
    if (status != SP_OK)
        return status;
    if ((nodes == NULL) == (list == NULL))
        return sp_members_refuse(
            reader, parse->pointer, "PROFILE_FORM",
            "A profile has either 'nodes', the seconds of each node by name, or 'events', what ONNX "
            "Runtime's profiler wrote.");
    if (nodes != NULL)
        return read_nodes(parse, nodes);
    const char *pointer = sp_members_child(reader, parse->pointer, "events");
    if (!json_is_array(list))
        return sp_members_refuse(reader, pointer, "MEMBER_TYPE", "'events' is an array of the profiler's events.");
    return read_events(parse, list, pointer);
}

enum sp_status sp_profile_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_profile **ret_profile, struct sp_error *err)
{
    struct parse parse = {.reader = {arena, err}, .pointer = pointer, .profile = SP_NEW(arena, struct sp_profile)};
    if (parse.profile == NULL)
        return sp_fail_memory(err);
    enum sp_status status;
    if (json_is_array(json))
        status = read_events(&parse, json, pointer);
    else
        status = read_object(&parse, json);
    if (status != SP_OK)
        return status;
    parse.profile->times = parse.times;
    *ret_profile = parse.profile;
    return SP_OK;
}

void sp_profile_write(const struct sp_profile *profile, struct sp_json *json)
{
    sp_json_begin_object(json);
    if (profile->device != NULL)
        sp_json_member_string(json, "device", profile->device);
    sp_json_key(json, "nodes");
    sp_json_begin_object(json);
    for (uint32_t t = 0; t < profile->count; t++) {
        const struct sp_profile_time *time = &profile->times[t];
        const bool is_first = t == 0 || time->name != profile->times[t - 1].name;
        const bool is_last = t + 1 == profile->count || time->name != profile->times[t + 1].name;
        if (is_first)
            sp_json_key(json, time->name);
        if (is_first && time->device != NULL)
            sp_json_begin_object(json);
        if (time->device != NULL)
            sp_json_key(json, time->device);
        sp_json_double(json, time->seconds);
        if (is_last && time->device != NULL)
            sp_json_end_object(json);
    }
    sp_json_end_object(json);
    sp_json_end_object(json);
}
