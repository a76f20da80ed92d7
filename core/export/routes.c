#include "export/routes.h"

#include <jansson.h>
#include <string.h>

bool sp_file_has_routes(const struct sp_subject *subject)
{
    return subject->plan != NULL && subject->model != NULL && subject->plan->result->routes != NULL;
}

static bool is_on(const struct sp_route *route, uint32_t device)
{
    uint32_t s = 0;
    while (s < route->count && route->devices[s] != device)
        s++;
    return s < route->count;
}

uint32_t sp_file_route_of(const struct sp_subject *subject, int64_t device)
{
    const struct sp_routed *routed = subject->plan->result->routes;
    uint32_t r = 0;
    while (r + 1 < routed->route_count && !is_on(&routed->routes[r], subject->cluster_devices[device]))
        r++;
    return r;
}

/* ---- manifests of one route ------------------------------------------------------------------------------------- */

static enum sp_status load(const struct sp_subject *subject, const struct sp_device_plan *plan, json_t **ret_json,
                           struct sp_error *err)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, SP_MAX_MANIFEST_BYTES);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_device_plan_manifest(plan, &json);
    sp_file_write_estimate(subject->plan, &json);
    sp_json_end_object(&json);
    enum sp_status status = sp_json_finish(&json, err);
    json_t *loaded = status == SP_OK ? json_loadb(buf.data, buf.size, 0, NULL) : NULL;
    sp_buf_release(&buf);
    if (status == SP_OK && loaded == NULL)
        return sp_fail_memory(err);
    *ret_json = loaded;
    return status;
}

static enum sp_status manifest_of(const struct sp_file_request *request, uint32_t route, enum sp_realize_target target,
                                  json_t **ret_json, struct sp_error *err)
{
    struct sp_subject *subject = NULL;
    struct sp_device_plan *plan = NULL;
    struct sp_file_request on_route = *request;
    struct sp_links links;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(request->subject->arena));
    enum sp_status status =
        arena != NULL ? sp_subject_on_route(request->subject, route, &subject, err) : sp_fail_memory(err);
    if (status == SP_OK) {
        on_route.subject = subject;
        const struct sp_realize_request realize = sp_file_realization(&on_route, &links);
        status = sp_device_plan_create(arena, &realize, target, &plan, err);
    }
    if (status == SP_OK)
        status = load(request->subject, plan, ret_json, err);
    sp_subject_destroy(subject);
    sp_arena_destroy(arena);
    return status;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const json_t *entry_of(const json_t *devices, json_int_t id)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(devices, i, entry) if (json_integer_value(json_object_get(entry, "id")) == id) return entry;
    return NULL;
}

/* The port of any part whose value the name is of: what stands before the device that made it. */
static const char *port_of(const json_t *entry, const char *side, const char *name)
{
    const char *at = strrchr(name, '@');
    const size_t length = at != NULL ? (size_t)(at - name) : strlen(name);
    size_t i, k;
    const json_t *part, *port;
    json_array_foreach(json_object_get(entry, "parts"), i, part)
    {
        json_array_foreach(json_object_get(part, side), k, port)
        {
            const char *other = json_string_value(json_object_get(port, "name")), *end = strrchr(other, '@');
            if ((size_t)(end != NULL ? end - other : (ptrdiff_t)strlen(other)) == length &&
                strncmp(other, name, length) == 0)
                return other;
        }
    }
    return NULL;
}

/* Where the inputs of one device come from on a route. */
static enum sp_status add_inputs(const json_t *models, const json_t *entry, json_t *inputs, struct sp_error *err)
{
    const json_int_t device = json_integer_value(json_object_get(entry, "id"));
    size_t i, k;
    const json_t *part, *port;
    json_array_foreach(json_object_get(entry, "parts"), i, part)
    {
        json_array_foreach(json_object_get(part, "inputs"), k, port)
        {
            const json_int_t from = json_integer_value(json_object_get(port, "device"));
            if (json_object_get(port, "device") == NULL)
                continue;
            const char *input =
                port_of(entry_of(models, device), "inputs", json_string_value(json_object_get(port, "name")));
            const char *output =
                port_of(entry_of(models, from), "outputs", json_string_value(json_object_get(port, "output")));
            if (input == NULL || output == NULL)
                return sp_fail(err, SP_ERR_UNSUPPORTED, "ROUTES_DIFFER",
                               "Device %" JSON_INTEGER_FORMAT " does not exchange the same on all of its routes, so no "
                               "one model is its own. Plan with another strategy.",
                               input == NULL ? device : from);
            if (json_array_append_new(inputs, json_pack("{s:I, s:s, s:I, s:s}", "device", device, "input", input,
                                                        "from", from, "output", output)) != 0)
                return sp_fail_memory(err);
        }
    }
    return SP_OK;
}

static enum sp_status add_route(const struct sp_subject *subject, uint32_t route, const json_t *models,
                                const json_t *manifest, json_t *routes, struct sp_error *err)
{
    const struct sp_route *taken = &subject->plan->result->routes->routes[route];
    json_t *devices = json_array(), *inputs = json_array();
    enum sp_status status = devices != NULL && inputs != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t s = 0; s < taken->count && status == SP_OK; s++) {
        json_int_t number = 0;
        while (subject->cluster_devices[number] != taken->devices[s])
            number++;
        const json_t *entry = entry_of(json_object_get(manifest, "devices"), number);
        if (json_array_append_new(devices, json_integer(number)) != 0)
            status = sp_fail_memory(err);
        if (status == SP_OK && entry != NULL)
            status = add_inputs(models, entry, inputs, err);
    }
    if (status != SP_OK) {
        json_decref(devices);
        json_decref(inputs);
        return status;
    }
    json_t *entry = json_pack("{s:f, s:o, s:O, s:o}", "share", taken->share, "devices", devices, "order",
                              json_object_get(manifest, "order"), "inputs", inputs);
    return json_array_append_new(routes, entry) == 0 ? SP_OK : sp_fail_memory(err);
}

/* The devices, each as on its first route. */
static enum sp_status add_models(const struct sp_subject *subject, json_t *const *manifests, json_t *models,
                                 struct sp_error *err)
{
    for (int64_t d = 0; d < subject->device_count; d++) {
        const json_t *entry =
            entry_of(json_object_get(manifests[sp_file_route_of(subject, d)], "devices"), (json_int_t)d);
        if (entry != NULL && json_array_append(models, (json_t *)(uintptr_t)entry) != 0)
            return sp_fail_memory(err);
    }
    return SP_OK;
}

static enum sp_status save(const json_t *json, struct sp_recipe **ret_recipe, struct sp_error *err)
{
    char *text = json_dumps(json, JSON_COMPACT);
    struct sp_recipe *recipe = sp_recipe_create();
    enum sp_status status = text != NULL && recipe != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK) {
        (void)sp_recipe_add(recipe, text, strlen(text));
        (void)sp_recipe_add(recipe, "\n", 1);
        status = sp_recipe_status(recipe, err);
    }
    free(text);
    if (status == SP_OK)
        *ret_recipe = recipe;
    else
        sp_recipe_destroy(recipe);
    return status;
}

enum sp_status sp_file_route_manifest(const struct sp_file_request *request, enum sp_realize_target target,
                                      struct sp_recipe **ret_recipe, struct sp_error *err)
{
    const struct sp_subject *subject = request->subject;
    const uint32_t count = subject->plan->result->routes->route_count;
    json_t *manifests[SP_ROUTED_ROUTES] = {NULL}, *models = json_array(), *routes = json_array();
    enum sp_status status = models != NULL && routes != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t r = 0; r < count && status == SP_OK; r++)
        status = manifest_of(request, r, target, &manifests[r], err);
    if (status == SP_OK)
        status = add_models(subject, manifests, models, err);
    for (uint32_t r = 0; r < count && status == SP_OK; r++)
        status = add_route(subject, r, models, manifests[r], routes, err);
    if (status == SP_OK &&
        (json_object_set(manifests[0], "devices", models) != 0 || json_object_set(manifests[0], "routes", routes) != 0))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = save(manifests[0], ret_recipe, err);
    for (uint32_t r = 0; r < count; r++)
        json_decref(manifests[r]);
    json_decref(models);
    json_decref(routes);
    return status;
}
