/*
 * The files of a plan, or of an annotated model, in a folder.
 *
 * Weights that are in the model's file go into the files that are written. Weights that lie beside the model go into
 * data files beside what is written (NAME.onnx.data); where they are not there, what is written refers to them. Where a
 * plan's simulation would repeat many of the devices' weights, these lie in data files, and it refers to them. Where a
 * device has models of several phases, their weights lie in one data file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "export/routes.h"
#include "plan/service/service.h"

#define NAME_SIZE          (SP_DEVICE_MODEL_NAME_SIZE + 8)
#define LARGEST_INNER_DATA ((int64_t)1 << 30)  /* bytes of weights that one model's file holds */
#define MOST_REPEATED_DATA ((int64_t)64 << 20) /* and of those that are written for devices and simulation */
#define MAX_PRINTED_NOTES  20

enum sp_status emit_folder(const char *folder, struct sp_error *err)
{
    struct stat info;
    if (mkdir(folder, 0777) == 0 || (errno == EEXIST && stat(folder, &info) == 0 && S_ISDIR(info.st_mode)))
        return SP_OK;
    return sp_fail(err, SP_ERR_IO, "FOLDER_NOT_WRITABLE", "Cannot make the folder '%s': %s.", folder,
                   strerrordesc_np(errno));
}

/* ---- where the weights are ---- */

enum sp_status emit_init(struct emit *emit, const struct sp_subject *subject, struct sources *sources,
                         const struct sp_watch *watch, struct sp_error *err)
{
    const struct sp_graph *graph = subject->model != NULL ? subject->model->graph : NULL;
    bool has_external = false;
    const char *missing = NULL;
    int64_t bytes = 0;
    *emit = (struct emit){.subject = subject,
                          .sources = sources,
                          .watch = watch,
                          .notes = json_array(),
                          .told = json_object(),
                          .device = SP_FILE_NO_DEVICE};
    emit->arena = sp_arena_create(sp_arena_budget(subject->arena));
    emit->places = emit->arena != NULL ? sp_weight_places_create(emit->arena) : NULL;
    if (emit->notes == NULL || emit->told == NULL || emit->places == NULL)
        return sp_fail_memory(err);
    if (subject->file != NULL && subject->file->is_converted) {
        sources->converted = subject->file->bytes;
        sources->converted_size = subject->file->size;
    }
    for (uint32_t i = 0; graph != NULL && i < graph->initializer_count; i++) {
        const struct sp_tensor *tensor = graph->initializers[i]->tensor;
        if (tensor == NULL)
            continue;
        bytes += tensor->bytes > 0 ? tensor->bytes : 0;
        has_external = has_external || tensor->storage == SP_STORAGE_EXTERNAL;
    }
    enum sp_status status = graph != NULL ? sources_have(sources, subject->model, &missing, err) : SP_OK;
    if (status != SP_OK)
        return status;
    const bool has_all = missing == NULL;
    emit->external = has_all ? SP_EXTERNAL_INLINE : SP_EXTERNAL_REFER;
    emit->uses_data = has_all && (has_external || bytes > LARGEST_INNER_DATA);
    emit->is_large = has_all && bytes > MOST_REPEATED_DATA;
    return SP_OK;
}

/* Whether files of weights are written for what stands in a folder together. */
static bool uses_data_in_folder(const struct emit *emit)
{
    const bool has_all = emit->external == SP_EXTERNAL_INLINE;
    return emit->uses_data || (emit->is_large && emit->with_simulation) || (emit->has_phases && has_all);
}

/* For what has weights in it. */
static void tell_about_weights(struct emit *emit)
{
    if (emit->external == SP_EXTERNAL_REFER && !emit->is_told)
        print_note("the files that the model's weights lie in are not all beside it; what is written refers to them, "
                   "so they must come to lie beside that");
    emit->is_told = true;
}

void emit_release(struct emit *emit)
{
    json_decref(emit->notes);
    json_decref(emit->told);
    sp_arena_destroy(emit->arena);
    *emit = (struct emit){0};
}

static enum sp_status take_note(void *context, const char *code, const struct sp_node *node, const char *message,
                                struct sp_error *err)
{
    struct emit *emit = context;
    if (json_object_get(emit->told, message) != NULL)
        return SP_OK;
    json_t *note = json_pack("{s:s, s:s?, s:s}", "code", code, "node",
                             node != NULL && node->name[0] != '\0' ? node->name : NULL, "message", message);
    if (json_object_set_new(emit->told, message, json_true()) != 0 || note == NULL ||
        json_array_append_new(emit->notes, note) != 0)
        return sp_fail_memory(err);
    return SP_OK;
}

void emit_print_notes(const struct emit *emit)
{
    const size_t count = json_array_size(emit->notes);
    for (size_t i = 0; i < count && i < MAX_PRINTED_NOTES; i++)
        print_note("%s", json_string_value(json_object_get(json_array_get(emit->notes, i), "message")));
    if (count > MAX_PRINTED_NOTES)
        print_note("%zu more notes like these", count - MAX_PRINTED_NOTES);
}

/* ---- writing ---- */

static enum sp_status write_recipe(const struct emit *emit, const char *path, const struct sp_recipe *recipe,
                                   struct sp_error *err)
{
    struct output output = {.fd = -1};
    enum sp_status status = output_open(path, emit->sources->input, &output, err);
    if (status == SP_OK)
        status = output_recipe(&output, recipe, emit->sources, err);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    return status;
}

char *path_in(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL)
        (void)snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static enum sp_status write_in(const struct emit *emit, const char *folder, const char *name,
                               const struct sp_recipe *recipe, struct sp_error *err)
{
    char *path = path_in(folder, name);
    enum sp_status status = path != NULL ? write_recipe(emit, path, recipe, err) : sp_fail_memory(err);
    free(path);
    return status;
}

static struct sp_file_request file_request(struct emit *emit, const char *format)
{
    return (struct sp_file_request){.subject = emit->subject,
                                    .format = format,
                                    .device = emit->device,
                                    .forms = emit->forms,
                                    .external = emit->external,
                                    .watch = emit->watch,
                                    .note = take_note,
                                    .note_context = emit};
}

/* The simulation, with a file for its weights beside it where there is one and a place beside it. */
static enum sp_status emit_simulation(struct emit *emit, const char *path, struct sp_error *err)
{
    const bool uses_data = uses_data_in_folder(emit) && strcmp(path, "-") != 0;
    const struct sp_file_request file = file_request(emit, "simulation");
    const char *slash = strrchr(path, '/');
    const size_t size = strlen(path) + sizeof ".data";
    char *data_path = malloc(size);
    struct sp_links links;
    struct sp_recipe *recipe = NULL, *data = sp_recipe_create();
    struct sp_realize_request request = sp_file_realization(&file, &links);
    enum sp_status status = data != NULL && data_path != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK) {
        (void)snprintf(data_path, size, "%s.data", path);
        if (uses_data) {
            request.data_name = slash != NULL ? data_path + (slash + 1 - path) : data_path;
            request.data = data;
            request.places = emit->places;
        }
        status = sp_realize_simulation(&request, &recipe, err);
    }
    if (status == SP_OK && sp_recipe_size(data) > 0)
        status = write_recipe(emit, data_path, data, err);
    if (status == SP_OK)
        status = write_recipe(emit, path, recipe, err);
    sp_recipe_destroy(recipe);
    sp_recipe_destroy(data);
    free(data_path);
    return status;
}

enum sp_status emit_file(struct emit *emit, const char *path, const char *format, struct sp_error *err)
{
    const struct sp_file_request request = file_request(emit, format);
    struct sp_recipe *recipe = NULL;
    if (strcmp(format, "simulation") == 0 || strcmp(format, "ort") == 0)
        tell_about_weights(emit);
    if (strcmp(format, "simulation") == 0)
        return emit_simulation(emit, path, err);
    enum sp_status status = sp_file_create(&request, &recipe, err);
    if (status == SP_OK)
        status = write_recipe(emit, path, recipe, err);
    sp_recipe_destroy(recipe);
    return status;
}

/* ---- the devices' models ---- */

struct served {
    int64_t device;
    uint32_t part;
    const char *data_name;
    const struct sp_recipe *model, *data;
};

/* A model of a repository, with its weights beside it where they are in a file of their own. */
static enum sp_status write_served(const struct emit *emit, const char *folder, const struct served *served,
                                   struct sp_error *err)
{
    char *data_path = NULL,
         *path = emit_model_path(emit, folder, served->device, served->part, served->data_name, &data_path);
    enum sp_status status = path != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK && sp_recipe_size(served->data) > 0)
        status = write_recipe(emit, data_path, served->data, err);
    if (status == SP_OK)
        status = write_recipe(emit, path, served->model, err);
    free(path);
    free(data_path);
    return status;
}

/* What is made of one subject: the plan, or one of its phases. */
struct realized {
    struct sp_subject *owned; /* of a phase */
    struct sp_file_request file;
    struct sp_links links;
    struct sp_realize_request request;
    struct sp_device_plan *plan;
};

/* All of them: the plan's own first. */
struct realized_phases {
    uint32_t count;
    struct realized *items;
    uint32_t phase_count;
    struct sp_phase_models *phases; /* of the manifest */
};

/* The models of a device on one subject; what is in `data` already is referred to. */
static enum sp_status emit_models(struct emit *emit, const char *folder, const struct realized *of, int64_t device,
                                  const char *data_name, struct sp_recipe *data, struct sp_error *err)
{
    const uint32_t parts = sp_device_plan_parts(of->plan, device);
    struct sp_realize_request request = of->request;
    char name[SP_DEVICE_MODEL_NAME_SIZE];
    struct sp_recipe **recipes = calloc(parts > 0 ? parts : 1, sizeof *recipes);
    enum sp_status status = recipes != NULL ? SP_OK : sp_fail_memory(err);
    if (uses_data_in_folder(emit)) {
        request.data_name = data_name;
        request.data = data;
        request.places = emit->places;
    }
    if (status == SP_OK && parts > 0)
        status = sp_realize_device(&request, of->plan, device, recipes, err);
    for (uint32_t i = 0; status == SP_OK && recipes != NULL && i < parts; i++) {
        if (recipes[i] == NULL) /* nobody needs anything of this part */
            continue;
        status = emit->file_count > 0
                     ? write_served(emit, folder, &(struct served){device, i, data_name, recipes[i], data}, err)
                     : write_in(emit, folder, sp_device_plan_model(request.phase, device, i, name), recipes[i], err);
    }
    for (uint32_t i = 0; recipes != NULL && i < parts; i++)
        sp_recipe_destroy(recipes[i]);
    free(recipes);
    return status;
}

/* The models of a device on all of them, and the file in which their weights lie. */
static enum sp_status emit_device(struct emit *emit, const char *folder, uint32_t count, const struct realized *of,
                                  int64_t device, struct sp_error *err)
{
    char data_name[NAME_SIZE];
    struct sp_recipe *data = sp_recipe_create();
    enum sp_status status = data != NULL ? SP_OK : sp_fail_memory(err);
    (void)snprintf(data_name, sizeof data_name, SP_DEVICE_DATA_NAME, (long long)device);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = emit_models(emit, folder, &of[i], device, data_name, data, err);
    if (status == SP_OK && sp_recipe_size(data) > 0 && emit->file_count == 0)
        status = write_in(emit, folder, data_name, data, err);
    sp_recipe_destroy(data);
    return status;
}

static enum sp_status emit_manifest(struct emit *emit, const char *folder, const struct realized_phases *of,
                                    struct sp_error *err)
{
    struct sp_recipe *recipe = NULL;
    struct sp_file_request file = of->items[0].file;
    file.device = SP_FILE_NO_DEVICE;
    enum sp_status status = sp_file_has_routes(emit->subject)
                                ? sp_file_create(&file, &recipe, err)
                                : sp_file_manifest(&file, of->items[0].plan, of->phase_count, of->phases, &recipe, err);
    if (status == SP_OK)
        status = write_in(emit, folder, "manifest.json", recipe, err);
    sp_recipe_destroy(recipe);
    return status;
}

/* What the models of a subject are made of; `one` stays where it is. */
static enum sp_status realize(struct emit *emit, struct sp_arena *arena, const struct sp_subject *subject,
                              const char *format, enum sp_realize_target target, struct realized *one,
                              struct sp_error *err)
{
    one->file = file_request(emit, format);
    one->file.subject = subject;
    const char *phase = one->request.phase;
    one->request = sp_file_realization(&one->file, &one->links);
    one->request.phase = phase;
    return sp_device_plan_create(arena, &one->request, target, &one->plan, err);
}

/* The models of devices that are on other routes than the first one, each as on its first route. */
static enum sp_status emit_other_routes(struct emit *emit, const char *folder, const char *format,
                                        enum sp_realize_target target, struct sp_error *err)
{
    const struct sp_subject *whole = emit->subject;
    enum sp_status status = SP_OK;
    for (int64_t device = 0; status == SP_OK && device < whole->device_count; device++) {
        const uint32_t route = sp_file_route_of(whole, device);
        struct realized other = {0};
        if (route == 0)
            continue;
        struct sp_arena *arena = sp_arena_create(sp_arena_budget(whole->arena));
        status = arena != NULL ? sp_subject_on_route(whole, route, &other.owned, err) : sp_fail_memory(err);
        if (status == SP_OK)
            status = realize(emit, arena, other.owned, format, target, &other, err);
        if (status == SP_OK)
            status = emit_device(emit, folder, 1, &other, device, err);
        sp_subject_destroy(other.owned);
        sp_arena_destroy(arena);
    }
    return status;
}

/* The plan, and those phases of its service that have models of their own. */
static enum sp_status realize_all(struct emit *emit, struct sp_arena *arena, const char *format,
                                  enum sp_realize_target target, struct realized_phases *all, struct sp_error *err)
{
    const struct sp_plan *plan = emit->subject->plan;
    const struct sp_service *service = plan != NULL ? plan->service : NULL;
    const uint32_t most = service != NULL && !sp_file_is_repository(format) ? service->phase_count : 0;
    all->items = SP_NEW_ARRAY(arena, most + 1, struct realized);
    all->phases = SP_NEW_ARRAY(arena, most, struct sp_phase_models);
    if (all->items == NULL || all->phases == NULL)
        return sp_fail_memory(err);
    enum sp_status status = realize(emit, arena, emit->subject, format, target, &all->items[all->count++], err);
    for (uint32_t i = 0; status == SP_OK && i < most; i++) {
        const struct sp_service_phase *phase = &service->phases[i];
        struct sp_phase_models *models = &all->phases[all->phase_count];
        struct realized *own = &all->items[all->count];
        if (phase->configuration == NULL)
            continue; /* it could not be planned beside the others */
        models->phase = phase;
        all->phase_count++;
        if (phase->plan == NULL)
            continue;
        status = sp_subject_from_plan(phase->job, phase->plan, &own->owned, err);
        if (status != SP_OK)
            break;
        all->count++;
        own->request.phase = phase->file_name;
        status = realize(emit, arena, own->owned, format, target, own, err);
        models->plan = own->plan;
    }
    emit->has_phases = all->count > 1;
    return status;
}

enum sp_status emit_devices(struct emit *emit, const char *folder, const char *format, struct sp_error *err)
{
    enum sp_realize_target target = SP_TARGET_ORT;
    struct realized_phases all = {0};
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(emit->subject->arena));
    json_t *before = emitted_models(folder);
    tell_about_weights(emit);
    (void)sp_file_is_of_devices(format, &target);
    enum sp_status status = SP_ERR_MEMORY;
    if (arena != NULL)
        status = realize_all(emit, arena, format, target, &all, err);
    else
        (void)sp_fail_memory(err);
    if (uses_data_in_folder(emit) && json_object_size(before) > 0)
        emitted_remove_simulation(folder, emit->with_simulation);
    if (status == SP_OK && sp_file_is_repository(format))
        status = emit_repository(emit, folder, format, all.items[0].plan, err);
    for (int64_t device = 0; status == SP_OK && device < emit->subject->device_count; device++)
        status = emit_device(emit, folder, all.count, all.items, device, err);
    if (status == SP_OK && sp_file_has_routes(emit->subject))
        status = emit_other_routes(emit, folder, format, target, err);
    if (status == SP_OK)
        status = emit_manifest(emit, folder, &all, err);
    if (status == SP_OK)
        emitted_remove(folder, before);
    else
        json_decref(before);
    for (uint32_t i = 0; i < all.count; i++)
        sp_subject_destroy(all.items[i].owned);
    sp_arena_destroy(arena);
    return status;
}
