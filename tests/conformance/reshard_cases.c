/*
 * reshard_cases: published reshards. Ours must end at the same sharding, checked on data, and never take longer than
 * the published steps on any of some link hierarchies; of ONNX Runtime's, every rank must hold the published numbers
 * and no more steps be taken than needed.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/data_files.h"
#include "../unit/support/members.h"
#include "../unit/support/reshard_simulator.h"
#include "sharding/dialect.h"
#include "step_costs.h"

#define MAX_RANK 8

struct test {
    const char *name;
    struct sp_arena *arena;
    struct sp_error err;
    uint32_t rank;
    int64_t shape[MAX_RANK];
    struct sp_mesh *meshes[2];
    const char *mesh_names[2];
    char why[1400]; /* a failure, as a sentence */
};

__attribute__((format(printf, 2, 3))) static bool fail(struct test *test, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(test->why, sizeof(test->why), format, args);
    va_end(args);
    return false;
}

static bool fail_with_error(struct test *test, const char *what)
{
    return fail(test, "%s: %s: %s", what, test->err.code, test->err.message);
}

static bool read_shape(struct test *test, const json_t *shape)
{
    test->rank = (uint32_t)json_array_size(shape);
    if (test->rank > MAX_RANK)
        return fail(test, "the rank is above %d", MAX_RANK);
    for (uint32_t a = 0; a < test->rank; a++)
        test->shape[a] = json_integer_value(json_array_get(shape, a));
    return true;
}

static int64_t element_count(const struct test *test)
{
    int64_t count = 1;
    for (uint32_t a = 0; a < test->rank; a++)
        count *= test->shape[a];
    return count;
}

/* Plans and carries out; the numbers of the tensor are 0, 1, 2, .. The simulation is left at its end. */
static bool plan_and_run(struct test *test, const struct sp_links *links, const struct sp_sharding *from,
                         const struct sp_sharding *to, int64_t device_count, struct sp_reshard **ret_plan,
                         struct sp_simulation **ret_simulation)
{
    struct sp_reshard_request request = {.links = links,
                                         .rank = test->rank,
                                         .shape = test->shape,
                                         .dtype = SP_DTYPE_FLOAT,
                                         .from = from,
                                         .to = to,
                                         .device_count = device_count};
    int64_t count = element_count(test);
    int64_t *values = SP_NEW_ARRAY(test->arena, (size_t)count, int64_t);
    for (int64_t i = 0; i < count; i++)
        values[i] = i;
    if (sp_reshard_plan(test->arena, &request, ret_plan, &test->err) != SP_OK)
        return fail_with_error(test, "planning");
    if (sp_simulation_create(test->arena, from, test->rank, test->shape, device_count, values, 1, ret_simulation,
                             &test->err) != SP_OK)
        return fail_with_error(test, "laying out");
    for (uint32_t i = 0; i < (*ret_plan)->step_count; i++)
        if (sp_simulation_step(*ret_simulation, &(*ret_plan)->steps[i], &test->err) != SP_OK)
            return fail_with_error(test, sp_collective_name((*ret_plan)->steps[i].kind));
    if (sp_simulation_compare(*ret_simulation, to, values, &test->err) != SP_OK)
        return fail_with_error(test, "the result");
    return true;
}

/* ---- Shardy ---- */

static struct sp_mesh *read_mesh(struct test *test, const json_t *definition)
{
    struct sp_buf buf;
    struct sp_mesh *mesh = NULL;
    const json_t *axes = json_object_get(definition, "axes"), *ids = json_object_get(definition, "device_ids");
    sp_buf_init(&buf, 1 << 16);
    sp_buf_text(&buf, "<[");
    for (size_t i = 0; i < json_array_size(axes); i++) {
        const json_t *axis = json_array_get(axes, i);
        sp_buf_printf(&buf, "%s\"%s\"=%" JSON_INTEGER_FORMAT, i ? ", " : "", json_string_value(json_array_get(axis, 0)),
                      json_integer_value(json_array_get(axis, 1)));
    }
    sp_buf_text(&buf, "]");
    for (size_t i = 0; i < json_array_size(ids); i++)
        sp_buf_printf(&buf, "%s%" JSON_INTEGER_FORMAT, i ? ", " : ", device_ids=[",
                      json_integer_value(json_array_get(ids, i)));
    sp_buf_text(&buf, json_array_size(ids) ? "]>" : ">");
    if (sp_shardy_read_mesh(test->arena, buf.data, buf.size, &mesh, &test->err) != SP_OK)
        fail_with_error(test, buf.data);
    sp_buf_release(&buf);
    return mesh;
}

/* `[{"x"}, {}]` with what follows the lists, on a mesh. */
static struct sp_sharding *read_sharding(struct test *test, const struct sp_mesh *mesh, int64_t rank, const char *dims,
                                         const char *extra)
{
    struct sp_sharding *sharding = NULL;
    struct sp_dialect_context context = {.rank = rank, .mesh = mesh};
    const char *between = !extra || !*extra ? "" : *extra == ',' ? "" : ", ";
    const char *text = sp_arena_printf(test->arena, "#sdy.sharding<@mesh, %s%s%s>", dims, between, extra ? extra : "");
    struct sp_mesh *named = SP_NEW(test->arena, struct sp_mesh);
    *named = *mesh;
    named->name = "mesh";
    context.mesh = named;
    if (sp_shardy_read(test->arena, text, strlen(text), &context, &sharding, &test->err) != SP_OK)
        fail_with_error(test, text);
    return sharding;
}

/* Every axis that an argument names, `[{"x"}, {"y"}]` or `[{"x"}: 0->2, {"y"}: 1->0]`, as one list. */
static bool read_axes(struct test *test, const struct sp_mesh *mesh, const char *text, struct sp_axis_list *ret_axes)
{
    *ret_axes = (struct sp_axis_list){0};
    for (const char *open = strchr(text, '{'); open; open = strchr(open + 1, '{')) {
        const char *close = strchr(open, '}');
        if (!close)
            return fail(test, "the argument '%s' is not closed", text);
        const char *dims = sp_arena_printf(test->arena, "[%.*s]", (int)(close - open + 1), open);
        struct sp_sharding *sharding = read_sharding(test, mesh, 1, dims, NULL);
        if (!sharding)
            return false;
        if (sp_axes_append(test->arena, ret_axes, &sharding->dims[0].axes, ret_axes, &test->err) != SP_OK)
            return fail_with_error(test, text);
    }
    return true;
}

static double tile_bytes(struct test *test, const struct sp_sharding *sharding)
{
    int64_t tile[MAX_RANK];
    double bytes = 4;
    if (sp_sharding_tile_shape(sharding, test->rank, test->shape, tile, &test->err) != SP_OK)
        return NAN;
    for (uint32_t a = 0; a < test->rank; a++)
        bytes *= (double)tile[a];
    return bytes;
}

/* The slowest device's transfer from the nearest one that holds its tile. */
static double permute_seconds(struct test *test, const struct sp_links *links, const struct sp_sharding *before,
                              const struct sp_sharding *after)
{
    const struct sp_device_order *order = &after->mesh->order;
    double worst = 0, bytes = tile_bytes(test, after);
    for (int64_t p = 0; p < order->count; p++) {
        int64_t target = sp_device_order_at(order, p);
        struct sp_tile want, have;
        uint32_t nearest = 0;
        bool found, any = false;
        sp_sharding_tile(after, test->rank, test->shape, target, &found, &want, &test->err);
        for (int64_t q = 0; q < before->mesh->order.count; q++) {
            int64_t source = sp_device_order_at(&before->mesh->order, q);
            sp_sharding_tile(before, test->rank, test->shape, source, &found, &have, &test->err);
            bool is_same = true;
            for (uint32_t a = 0; a < test->rank; a++)
                is_same = is_same && want.ranges[a].start == have.ranges[a].start;
            if (!is_same)
                continue;
            uint32_t level = sp_links_between(links, source, target);
            nearest = level > nearest ? level : nearest;
            any = true;
        }
        if (!any)
            return NAN;
        if (nearest < links->level_count)
            worst = fmax(worst, links->levels[nearest].latency + bytes / links->levels[nearest].bandwidth);
    }
    return worst;
}

/* Seconds of one published step, NAN when it cannot be told. */
static double published_seconds(struct test *test, const struct sp_links *links, const char *op, const char *arg,
                                const struct sp_sharding *before, const struct sp_sharding *after)
{
    struct sp_axis_list axes;
    if (strcmp(op, "all_slice") == 0)
        return 0;
    if (strcmp(op, "collective_permute") == 0)
        return permute_seconds(test, links, before, after);
    if (!read_axes(test, after->mesh, arg, &axes))
        return NAN;
    if (strcmp(op, "all_gather") == 0)
        return step_seconds(links, after->mesh, &axes, SP_ALL_GATHER, tile_bytes(test, after));
    if (strcmp(op, "all_to_all") == 0)
        return step_seconds(links, after->mesh, &axes, SP_ALL_TO_ALL,
                            (double)sp_axes_size(&axes) * tile_bytes(test, before));
    if (strcmp(op, "all_reduce") == 0)
        return step_seconds(links, after->mesh, &axes, SP_ALL_REDUCE, tile_bytes(test, before));
    if (strcmp(op, "reduce_scatter") == 0)
        return step_seconds(links, after->mesh, &axes, SP_REDUCE_SCATTER, tile_bytes(test, before));
    return NAN;
}

static const struct sp_mesh *mesh_of_step(const struct test *test, const json_t *step)
{
    const char *name = json_string_value(json_object_get(step, "out_mesh"));
    return name && test->mesh_names[1] && strcmp(name, test->mesh_names[1]) == 0 ? test->meshes[1] : test->meshes[0];
}

/* All published steps together; *ret_known is false when one of them is not a collective. */
static bool published_sum(struct test *test, const struct sp_links *links, const json_t *steps,
                          const struct sp_sharding *from, bool *ret_known, double *ret_seconds)
{
    const struct sp_sharding *before = from;
    *ret_seconds = 0;
    *ret_known = true;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        const char *op = json_string_value(json_object_get(step, "op"));
        const char *arg = json_string_value(json_object_get(step, "arg"));
        if (strcmp(op, "reshard") == 0) {
            *ret_known = false;
            return true;
        }
        const struct sp_sharding *after = read_sharding(test, mesh_of_step(test, step), test->rank,
                                                        json_string_value(json_object_get(step, "out")), NULL);
        if (!after)
            return false;
        double seconds = published_seconds(test, links, op, arg, before, after);
        if (isnan(seconds))
            return *test->why || fail(test, "the time of the published step %s %s cannot be told", op, arg);
        *ret_seconds += seconds;
        before = after;
    }
    return true;
}

/* One level, two, or three; slow and fast outside; cheap and dear messages. */
static uint32_t make_links(int64_t devices, uint32_t choice, struct sp_mesh_level levels[3])
{
    static const double bandwidths[3] = {2.5e10, 1e11, 4e11};
    uint32_t count = choice % 3 + 1, rest = (uint32_t)devices;
    for (uint32_t l = 0; l < count; l++) {
        uint32_t size = rest;
        if (l + 1 < count)
            for (size = 2; rest % size != 0 && size < rest;)
                size++;
        size = rest == 1 ? 1 : size;
        rest /= size;
        levels[l] = (struct sp_mesh_level){.name = "level",
                                           .size = size,
                                           .bandwidth = bandwidths[choice >= 6 ? 0 : l],
                                           .latency = choice >= 3 && choice < 6 ? 1e-3 : 1e-8};
    }
    return count;
}

static int64_t lcm(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Makes the extents divisible by the shards of a sharding; returns whether they were. */
static bool stretch(struct test *test, const struct sp_sharding *sharding)
{
    bool is_even = true;
    for (uint32_t a = 0; a < test->rank; a++) {
        int64_t shards = sp_sharding_shards(sharding, a);
        is_even = is_even && test->shape[a] % shards == 0;
        test->shape[a] = lcm(test->shape[a], shards);
    }
    return is_even;
}

/* Our plans on some links: right, and not dearer than the published steps if `is_even`. */
static bool compare_on_links(struct test *test, const json_t *steps, const struct sp_sharding *from,
                             const struct sp_sharding *to, bool is_even)
{
    int64_t devices = test->meshes[0]->order.count > 0 ? test->meshes[0]->order.count : 1;
    for (uint32_t choice = 0; choice < 9; choice++) {
        struct sp_mesh_level levels[3];
        struct sp_links links = {.level_count = make_links(devices, choice, levels), .levels = levels};
        struct sp_reshard *plan;
        struct sp_simulation *simulation;
        double published;
        bool is_known;
        if (!plan_and_run(test, &links, from, to, devices, &plan, &simulation) ||
            !published_sum(test, &links, steps, from, &is_known, &published))
            return false;
        if (is_known && is_even && plan->seconds > published * (1 + 1e-12))
            return fail(test, "%.9g s in %" PRIu32 " steps, the published ones take %.9g s on links %" PRIu32,
                        plan->seconds, plan->step_count, published, choice);
    }
    return true;
}

static bool run_shardy(struct test *test, const json_t *json)
{
    const json_t *target_mesh = json_object_get(json, "out_mesh_def"), *steps = json_object_get(json, "steps");
    test->mesh_names[0] = json_string_value(json_object_get(json, "mesh"));
    test->mesh_names[1] = json_string_value(json_object_get(json, "out_mesh"));
    test->meshes[0] = read_mesh(test, json_object_get(json, "mesh_def"));
    test->meshes[1] = target_mesh ? read_mesh(test, target_mesh) : test->meshes[0];
    if (!read_shape(test, json_object_get(json, "shape")) || !test->meshes[0] || !test->meshes[1])
        return false;
    struct sp_sharding *from =
        read_sharding(test, test->meshes[0], test->rank, json_string_value(json_object_get(json, "in")),
                      json_string_value(json_object_get(json, "in_extra")));
    struct sp_sharding *to =
        read_sharding(test, test->meshes[1], test->rank, json_string_value(json_object_get(json, "out")),
                      json_string_value(json_object_get(json, "out_extra")));
    if (!from || !to)
        return false;
    int64_t shape[MAX_RANK];
    memcpy(shape, test->shape, sizeof(shape));
    bool is_even = stretch(test, from);
    is_even = stretch(test, to) && is_even;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        const struct sp_sharding *after = read_sharding(test, mesh_of_step(test, step), test->rank,
                                                        json_string_value(json_object_get(step, "out")), NULL);
        if (!after)
            return false;
        is_even = stretch(test, after) && is_even;
    }
    /* Published steps on blocks that shift are no way for the data; on extents that divide they are. */
    if (!is_even && !compare_on_links(test, steps, from, to, true))
        return false;
    memcpy(test->shape, shape, sizeof(shape));
    return compare_on_links(test, steps, from, to, is_even);
}

/* ---- ONNX Runtime ---- */

static struct sp_sharding *read_ort(struct test *test, const json_t *mesh, const char *spec)
{
    struct sp_sharding *sharding = NULL;
    struct sp_dialect_context context = {.rank = test->rank, .shape = test->shape};
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    sp_buf_printf(&buf, "%s device_mesh_shape=[%zu] device_mesh_elements=[", spec, json_array_size(mesh));
    for (size_t i = 0; i < json_array_size(mesh); i++)
        sp_buf_printf(&buf, "%s%" JSON_INTEGER_FORMAT, i ? "," : "", json_integer_value(json_array_get(mesh, i)));
    sp_buf_text(&buf, "]");
    if (sp_dialect_read(test->arena, &(struct sp_dialect_text){SP_DIALECT_ORT, buf.data, buf.size}, &context, &sharding,
                        NULL, &test->err) != SP_OK)
        fail_with_error(test, buf.data);
    sp_buf_release(&buf);
    return sharding;
}

static bool check_local(struct test *test, const struct sp_simulation *simulation, const json_t *local)
{
    const char *rank;
    json_t *expected;
    json_object_foreach((json_t *)local, rank, expected)
    {
        uint64_t count;
        const int64_t *values;
        int64_t device = strtoll(rank, NULL, 10);
        if (sp_simulation_local(simulation, device, &count, &values, &test->err) != SP_OK)
            return fail_with_error(test, rank);
        if (count != json_array_size(expected))
            return fail(test, "rank %s holds %" PRIu64 " numbers, not %zu", rank, count, json_array_size(expected));
        for (uint64_t i = 0; i < count; i++)
            if (values[i] != json_integer_value(json_array_get(expected, i)))
                return fail(test, "rank %s holds %" PRId64 " at place %" PRIu64, rank, values[i], i);
    }
    return true;
}

static bool run_ort(struct test *test, const json_t *json)
{
    const json_t *shape = json_object_get(json, "global_shape"), *mesh = json_object_get(json, "mesh");
    json_t *other_shape = json_pack("[ii]", 4, 2), *other_mesh = json_pack("[ii]", 0, 1);
    const json_t *minimal = json_object_get(json, "minimal_steps"), *locals = json_object_get(json, "src_local");
    struct sp_mesh_level level = {.name = "level", .size = 2, .bandwidth = 1e11, .latency = 1e-6};
    struct sp_links links = {.level_count = 1, .levels = &level};
    struct sp_simulation *simulation;
    struct sp_reshard *plan, *nothing;
    /* The two cases in which there is nothing to do name neither shape nor mesh. */
    bool is_right = read_shape(test, shape ? shape : other_shape);
    mesh = mesh ? mesh : other_mesh;
    level.size = (uint32_t)json_array_size(mesh);
    struct sp_sharding *from = read_ort(test, mesh, json_string_value(json_object_get(json, "src_spec")));
    struct sp_sharding *to = read_ort(test, mesh, json_string_value(json_object_get(json, "dst_spec")));
    is_right = is_right && from && to && plan_and_run(test, &links, from, from, level.size, &nothing, &simulation) &&
               check_local(test, simulation, locals) &&
               plan_and_run(test, &links, from, to, level.size, &plan, &simulation) &&
               check_local(test, simulation, json_object_get(json, "dst_local"));
    if (is_right && plan->step_count > json_array_size(minimal))
        is_right = fail(test, "%" PRIu32 " steps, %zu are enough", plan->step_count, json_array_size(minimal));
    json_decref(other_shape);
    json_decref(other_mesh);
    return is_right;
}

/* ---- files ---- */

/* Runs one list of cases of a file; returns how many fail. `skipped`: members that are remarks. */
static size_t run_file(const char *kind, const char *file, const char *list, const char *name_member,
                       const char *skipped, bool (*run)(struct test *test, const json_t *json))
{
    json_error_t error;
    char path[4096];
    size_t right = 0;
    snprintf(path, sizeof(path), "%s/%s", data_folder(), file);
    json_t *json = json_load_file(path, 0, &error);
    if (!json) {
        printf("ok reshard/%s # SKIP %s: %s\n", kind, path, error.text);
        return 0;
    }
    const json_t *cases = json_object_get(json, list);
    size_t count = json_array_size(cases);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(cases, i);
        struct test test = {.name = json_string_value(json_object_get(item, name_member)),
                            .arena = sp_arena_create(NULL)};
        bool is_right = run(&test, item);
        members_skip(item, skipped);
        const char *unread = members_unread(item);
        if (is_right && unread != NULL)
            is_right = fail(&test, "%s is not read", unread);
        if (is_right) {
            printf("ok reshard/%s %s\n", kind, test.name);
            right++;
        } else
            printf("not ok reshard/%s %s: %s\n", kind, test.name, test.why);
        sp_arena_destroy(test.arena);
    }
    printf("# reshard/%s: %zu of %zu\n", kind, right, count);
    if (count == 0)
        printf("not ok reshard/%s: %s has no %s\n", kind, file, list);
    json_decref(json);
    return count == 0 ? 1 : count - right;
}

int main(void)
{
    size_t failed =
        run_file("sdy", "sdy_reshard_cases.json", "cases", "name", "src verified_by_simulation", run_shardy);
    failed += run_file("ort", "ort_distributed_cases.json", "reshard_cases", "id", "exercised_by ort_steps ort_result",
                       run_ort);
    return failed != 0;
}
