#include "export/files.h"

#include "export/routes.h"
#include "export/servers/repository.h"

#include "plan/cost_graph.h"
#include "plan/explain/experts.h"
#include "plan/explain/gathered.h"
#include "plan/explain/streamed.h"
#include "plan/micro/micro.h"
#include "plan/service/service.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_TYPE "application/octet-stream"

static const struct realization {
    const char *name;
    bool is_of_devices;
    enum sp_realize_target target;
    const char *text;
} realizations[] = {
    {"simulation", false, SP_TARGET_SESSIONS, "one plain ONNX model that does what all devices do"},
    {"ort-collectives", true, SP_TARGET_ORT, "the devices' models with ONNX Runtime's collectives"},
    {"tensorrt", true, SP_TARGET_TENSORRT, "the devices' models with TensorRT's DistCollective"},
    {"sessions", true, SP_TARGET_SESSIONS, "the devices' models, cut where anything is exchanged"},
    {"genai", true, SP_TARGET_SESSIONS, "the devices' models as the pipeline of onnxruntime-genai's config"},
    {"triton", true, SP_TARGET_SESSIONS, "a repository for Triton: an ensemble of ONNX Runtime's models"},
    {"triton-tensorrt", true, SP_TARGET_TENSORRT, "a repository for Triton: an engine of TensorRT for each rank"},
};
#define REALIZATIONS ((uint32_t)(sizeof realizations / sizeof realizations[0]))

static const struct realization *find_realization(const char *format)
{
    for (uint32_t i = 0; i < REALIZATIONS; i++) {
        if (strcmp(realizations[i].name, format) == 0)
            return &realizations[i];
    }
    return NULL;
}

uint32_t sp_file_format_count(void)
{
    return REALIZATIONS + sp_export_format_count();
}

const char *sp_file_format_name(uint32_t index)
{
    return index < REALIZATIONS ? realizations[index].name : sp_export_format(index - REALIZATIONS)->name;
}

const char *sp_file_format_text(const char *format)
{
    const struct realization *realization = find_realization(format);
    const struct sp_export_format *other = sp_export_find(format);
    return realization != NULL ? realization->text : other != NULL ? other->text : NULL;
}

static bool is_manifest(const struct realization *realization, int64_t device)
{
    return realization->is_of_devices && device == SP_FILE_NO_DEVICE;
}

const char *sp_file_media_type(const char *format, int64_t device)
{
    const struct realization *realization = find_realization(format);
    const struct sp_export_format *other = sp_export_find(format);
    if (realization != NULL)
        return is_manifest(realization, device) ? "application/json" : MODEL_TYPE;
    return other != NULL ? other->media_type : NULL;
}

bool sp_file_is_of_devices(const char *format, enum sp_realize_target *ret_target)
{
    const struct realization *realization = find_realization(format);
    if (realization == NULL || !realization->is_of_devices)
        return false;
    *ret_target = realization->target;
    return true;
}

/* ---- exports: a recipe as a sink -------------------------------------------------------------------------------- */

static bool add_bytes(void *context, const void *bytes, size_t size)
{
    return sp_recipe_add(context, bytes, size);
}

static bool keep_range(void *context, uint64_t offset, uint64_t size)
{
    return sp_recipe_keep(context, 0, offset, size);
}

static enum sp_status on_export_note(void *context, const struct sp_export_note *note, struct sp_error *err)
{
    const struct sp_file_request *request = context;
    return request->note(request->note_context, note->code, note->node, note->message, err);
}

static enum sp_status write_export(const struct sp_file_request *request, struct sp_recipe *recipe,
                                   struct sp_error *err)
{
    const struct sp_export_request export = {
        .subject = request->subject,
        .format = request->format,
        .sink = {.write = add_bytes, .copy = keep_range, .context = recipe},
        .note = request->note != NULL ? on_export_note : NULL,
        .note_context = (void *)(uintptr_t)request,
        .device = request->device == SP_FILE_NO_DEVICE ? 0 : request->device,
        .cores = request->forms.cores,
        .recipe = recipe,
    };
    enum sp_status status = sp_export_write(&export, err);
    if (status != SP_ERR_IO)
        return status;
    sp_error_clear(err); /* a recipe fails for want of memory or at its limits only, and says which */
    return sp_recipe_status(recipe, err);
}

static enum sp_status create_export(const struct sp_file_request *request, struct sp_recipe **ret_recipe,
                                    struct sp_error *err)
{
    struct sp_recipe *recipe = sp_recipe_create();
    enum sp_status status = recipe != NULL ? write_export(request, recipe, err) : sp_fail_memory(err);
    if (status != SP_OK) {
        sp_recipe_destroy(recipe);
        return status;
    }
    *ret_recipe = recipe;
    return SP_OK;
}

/* ---- realisations ----------------------------------------------------------------------------------------------- */

/* Which devices of the cluster run the devices' models: those of each copy, in the order of the models. */
static void write_copies(const struct sp_subject *subject, struct sp_json *json)
{
    const struct sp_plan *plan = subject->plan;
    const struct sp_placement *placement = plan != NULL ? &plan->result->placement : NULL;
    if (placement == NULL || sp_placement_copies(placement) < 2)
        return;
    sp_json_key(json, "copies");
    sp_json_begin_array(json);
    for (uint32_t copy = 0; copy < sp_placement_copies(placement); copy++) {
        sp_json_begin_array(json);
        for (int64_t i = 0; i < subject->device_count; i++)
            sp_json_int(json,
                        sp_cluster_number(plan->cluster, sp_plan_copied(plan, subject->cluster_devices[i], copy)));
        sp_json_end_array(json);
    }
    sp_json_end_array(json);
}

/* How requests are cut, where they are. */
static void write_cuts(const struct sp_plan *plan, struct sp_json *json)
{
    if (plan != NULL && plan->micro != NULL && plan->micro->cuts.count > 1)
        sp_cuts_write(&plan->micro->cuts, json);
}

static void write_pool(struct sp_json *json, const char *name, uint32_t copies, uint32_t devices, const char *folder)
{
    sp_json_key(json, name);
    sp_json_begin_object(json);
    sp_json_member_int(json, "copies", copies);
    sp_json_member_int(json, "devices_per_copy", devices);
    sp_json_member_string(json, "folder", folder);
    sp_json_end_object(json);
}

/* Where the files of devices for prompts and for steps are, each with a manifest of its own. */
static void write_pools(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_service_pools *pools = plan != NULL && plan->service != NULL ? plan->service->pools : NULL;
    if (pools == NULL)
        return;
    sp_json_key(json, "pools");
    sp_json_begin_object(json);
    write_pool(json, "prefill", pools->prompt_copies, pools->prompt_devices, SP_PROMPTS_FOLDER);
    write_pool(json, "decode", pools->step_copies, pools->step_devices, ".");
    sp_json_end_object(json);
}

/* Which models are run in which phase. */
static void write_phases(uint32_t count, const struct sp_phase_models *phases, struct sp_json *json)
{
    if (count == 0)
        return;
    sp_json_key(json, "phases");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_service_phase *phase = phases[i].phase;
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", phase->name);
        sp_json_member_string(json, "configuration", phase->configuration);
        sp_json_key(json, "dims");
        sp_json_begin_object(json);
        for (uint32_t d = 0; d < phase->sizes.dim_count; d++)
            sp_json_member_int(json, phase->sizes.dim_names[d], phase->sizes.dim_values[d]);
        sp_json_end_object(json);
        if (phases[i].plan != NULL)
            sp_device_plan_manifest(phases[i].plan, json);
        write_cuts(phase->plan, json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

enum sp_status sp_file_repository(struct sp_arena *arena, const struct sp_file_request *request,
                                  const struct sp_device_plan *plan, uint32_t *ret_count,
                                  struct sp_repository_file **ret_files, struct sp_error *err)
{
    return strcmp(request->format, "genai") == 0
               ? sp_genai_files(arena, request->subject, plan, ret_count, ret_files, err)
               : sp_triton_files(arena, request->subject, plan, ret_count, ret_files, err);
}

static enum sp_status write_repository(const struct sp_file_request *request, const struct sp_device_plan *plan,
                                       struct sp_json *json, struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(request->subject->arena));
    struct sp_repository_file *files = NULL;
    uint32_t count = 0;
    enum sp_status status =
        arena != NULL ? sp_file_repository(arena, request, plan, &count, &files, err) : sp_fail_memory(err);
    if (status == SP_OK)
        sp_repository_write(count, files, json);
    sp_arena_destroy(arena);
    return status;
}

enum sp_status sp_file_manifest(const struct sp_file_request *request, const struct sp_device_plan *plan,
                                uint32_t phase_count, const struct sp_phase_models *phases,
                                struct sp_recipe **ret_recipe, struct sp_error *err)
{
    const struct sp_subject *subject = request->subject;
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, SP_MAX_MANIFEST_BYTES);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_device_plan_manifest(plan, &json);
    if (subject->plan != NULL)
        sp_file_write_estimate(subject->plan, &json);
    if (subject->plan != NULL)
        sp_streamed_write_manifest(subject->plan, subject->device_count, subject->cluster_devices, &json);
    if (subject->plan != NULL)
        sp_gathered_write_manifest(subject->plan, subject->device_count, subject->cluster_devices, &json);
    if (subject->plan != NULL)
        sp_experts_write_manifest(subject->plan, &json);
    write_copies(subject, &json);
    write_cuts(subject->plan, &json);
    write_pools(subject->plan, &json);
    write_phases(phase_count, phases, &json);
    enum sp_status status = SP_OK;
    if (sp_file_is_repository(request->format))
        status = write_repository(request, plan, &json, err);
    sp_json_end_object(&json);
    struct sp_recipe *recipe = status == SP_OK ? sp_recipe_create() : NULL;
    if (status == SP_OK)
        status = recipe != NULL ? sp_json_finish(&json, err) : sp_fail_memory(err);
    if (status == SP_OK) {
        (void)sp_recipe_add(recipe, buf.data, buf.size);
        (void)sp_recipe_add(recipe, "\n", 1);
        status = sp_recipe_status(recipe, err);
    }
    sp_buf_release(&buf);
    if (status == SP_OK)
        *ret_recipe = recipe;
    else
        sp_recipe_destroy(recipe);
    return status;
}

/* What a device's models are made into: its parts, and the file beside them. */
struct device_files {
    struct sp_recipe **recipes;
    struct sp_recipe *data; /* or NULL */
};

/* The one that is asked for leaves `files`. */
static enum sp_status take_file(const struct sp_file_request *request, struct device_files *files,
                                struct sp_recipe **ret_recipe, struct sp_error *err)
{
    struct sp_recipe **wanted = request->gives_data ? &files->data : &files->recipes[request->part];
    if (request->gives_data && (*wanted == NULL || sp_recipe_size(*wanted) == 0))
        return sp_fail(err, SP_ERR_REQUEST, "NO_DATA",
                       "The models of device %" PRId64 " have no file of weights beside them.", request->device);
    if (*wanted == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_PART",
                       "Nobody needs anything of part %" PRIu32 " of device %" PRId64 ": it has no model.",
                       request->part, request->device);
    *ret_recipe = *wanted;
    *wanted = NULL;
    return SP_OK;
}

/* Where a device's models have a file of weights, it is made with all of them. */
static enum sp_status realize_device(struct sp_arena *arena, const struct sp_file_request *request,
                                     struct sp_realize_request realize, const struct sp_device_plan *plan,
                                     struct device_files *files, struct sp_error *err)
{
    char data_name[sizeof SP_DEVICE_DATA_NAME + 24];
    if (request->has_data) {
        (void)snprintf(data_name, sizeof data_name, SP_DEVICE_DATA_NAME, (long long)request->device);
        files->data = sp_recipe_create();
        realize.data = files->data;
        realize.data_name = data_name;
        realize.places = sp_weight_places_create(arena);
        if (realize.data == NULL || realize.places == NULL)
            return sp_fail_memory(err);
    }
    return sp_realize_device(&realize, plan, request->device, files->recipes, err);
}

static enum sp_status create_model(struct sp_arena *arena, const struct sp_file_request *request,
                                   const struct sp_realize_request *realize, const struct sp_device_plan *plan,
                                   struct sp_recipe **ret_recipe, struct sp_error *err)
{
    const int64_t devices = request->subject->device_count;
    if (request->device < 0 || request->device >= devices)
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_DEVICE",
                       "There is no device %" PRId64 ": the devices are 0 to %" PRId64 ".", request->device,
                       devices - 1);
    const uint32_t parts = sp_device_plan_parts(plan, request->device);
    if (request->part >= parts)
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_PART",
                       "Device %" PRId64 " has no part %" PRIu32 "; the manifest says which there are.",
                       request->device, request->part);
    struct device_files files = {.recipes = calloc(parts, sizeof *files.recipes)};
    if (files.recipes == NULL)
        return sp_fail_memory(err);
    enum sp_status status = realize_device(arena, request, *realize, plan, &files, err);
    if (status == SP_OK)
        status = take_file(request, &files, ret_recipe, err);
    for (uint32_t i = 0; i < parts; i++)
        sp_recipe_destroy(files.recipes[i]);
    sp_recipe_destroy(files.data);
    free(files.recipes);
    return status;
}

static enum sp_status create_of_devices(const struct sp_file_request *request, const struct sp_realize_request *realize,
                                        enum sp_realize_target target, struct sp_recipe **ret_recipe,
                                        struct sp_error *err)
{
    struct sp_device_plan *plan = NULL;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(request->subject->arena));
    enum sp_status status =
        arena != NULL ? sp_device_plan_create(arena, realize, target, &plan, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = request->device == SP_FILE_NO_DEVICE ? sp_file_manifest(request, plan, 0, NULL, ret_recipe, err)
                                                      : create_model(arena, request, realize, plan, ret_recipe, err);
    sp_arena_destroy(arena);
    return status;
}

/* The manifest of all routes, or the model of a device on the first route that it is on. */
static enum sp_status create_on_routes(const struct sp_file_request *request, enum sp_realize_target target,
                                       struct sp_recipe **ret_recipe, struct sp_error *err)
{
    struct sp_subject *subject = NULL;
    struct sp_links links;
    if (sp_file_is_repository(request->format))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "ROUTES_UNSUPPORTED",
                       "A repository has one way for all requests, and this plan has several routes.");
    if (request->device == SP_FILE_NO_DEVICE)
        return sp_file_route_manifest(request, target, ret_recipe, err);
    const bool is_there = request->device >= 0 && request->device < request->subject->device_count;
    const uint32_t route = is_there ? sp_file_route_of(request->subject, request->device) : 0;
    enum sp_status status = sp_subject_on_route(request->subject, route, &subject, err);
    if (status != SP_OK)
        return status;
    struct sp_file_request on_route = *request;
    on_route.subject = subject;
    const struct sp_realize_request realize = sp_file_realization(&on_route, &links);
    status = create_of_devices(&on_route, &realize, target, ret_recipe, err);
    sp_subject_destroy(subject);
    return status;
}

/* ---- models in JSON --------------------------------------------------------------------------------------------- */

static bool read_converted(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_model_file *file = context;
    if (source != 0 || offset > file->size || size > file->size - offset)
        return false;
    memcpy(bytes, (const char *)file->bytes + offset, size);
    return true;
}

/* What the caller has is text: ranges of the file that was made of it are copied. On an error *recipe is destroyed. */
static enum sp_status stand_alone(const struct sp_model_file *file, struct sp_recipe **recipe, struct sp_error *err)
{
    struct sp_recipe *alone = sp_recipe_create();
    const struct sp_recipe_reader reader = {.read = read_converted, .context = (void *)(uintptr_t)file};
    const struct sp_sink sink = {.write = add_bytes, .context = alone};
    enum sp_status status = alone != NULL ? sp_recipe_stream(*recipe, &reader, &sink, err) : sp_fail_memory(err);
    sp_recipe_destroy(*recipe);
    *recipe = NULL;
    if (status == SP_OK)
        *recipe = alone;
    else
        sp_recipe_destroy(alone);
    return status;
}

enum sp_status sp_file_check(const struct sp_subject *subject, const char *format, struct sp_error *err)
{
    const struct sp_export_format *other = sp_export_find(format);
    const bool needs_model = other != NULL ? other->needs_model : find_realization(format) != NULL;
    return needs_model && subject->model == NULL ? sp_costs_refuse(format, err) : SP_OK;
}

enum sp_status sp_file_create(const struct sp_file_request *request, struct sp_recipe **ret_recipe,
                              struct sp_error *err)
{
    const struct realization *realization = find_realization(request->format);
    struct sp_recipe *recipe = NULL;
    struct sp_links links;
    enum sp_status status;
    status = sp_file_check(request->subject, request->format, err);
    if (status != SP_OK)
        return status;
    if (realization == NULL) {
        status = create_export(request, &recipe, err);
    } else if (realization->is_of_devices && sp_file_has_routes(request->subject)) {
        status = create_on_routes(request, realization->target, &recipe, err);
    } else {
        const struct sp_realize_request realize = sp_file_realization(request, &links);
        status = realization->is_of_devices ? create_of_devices(request, &realize, realization->target, &recipe, err)
                                            : sp_realize_simulation(&realize, &recipe, err);
    }
    if (status == SP_OK && realization != NULL && request->subject->file != NULL &&
        request->subject->file->is_converted)
        status = stand_alone(request->subject->file, &recipe, err);
    if (status == SP_OK)
        *ret_recipe = recipe;
    return status;
}
