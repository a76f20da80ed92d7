/*
 * What simulate_write() is, and beside each simulation PATH the models of the devices, for each target:
 *
 *     PATH.TARGET.json           the manifest, or {"failure": "CODE: .."}
 *     PATH.TARGET.device-0.onnx  the models that it names
 */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

enum sp_status write_simulation(struct sp_arena *arena, struct sp_model *model, const struct sp_assignment *assignment,
                                const char *path, struct simulate_account *account, struct sp_error *err);
#define simulate_write write_simulation
#include "simulate_write.c"
#undef simulate_write

static enum sp_status write_device(const struct sp_realize_request *request, const struct sp_device_plan *plan,
                                   int64_t device, const char *prefix, struct sp_error *err)
{
    struct sp_recipe *recipes[1024] = {NULL};
    char path[SIMULATE_MAX_PATH + 128], model[SP_DEVICE_MODEL_NAME_SIZE];
    const uint32_t parts = sp_device_plan_parts(plan, device);
    if (parts == 0 || parts > sizeof recipes / sizeof *recipes)
        return parts == 0 ? SP_OK : sp_fail(err, SP_ERR_LIMIT, "TOO_MANY_PARTS", "There are %u parts.", parts);
    enum sp_status status = sp_realize_device(request, plan, device, recipes, err);
    for (uint32_t i = 0; status == SP_OK && i < parts; i++) {
        if (recipes[i] == NULL)
            continue;
        (void)snprintf(path, sizeof(path), "%s.%s", prefix, sp_device_plan_model(device, i, model));
        status = stream(recipes[i], request->partition.model, path, err);
    }
    for (uint32_t i = 0; i < parts; i++)
        sp_recipe_destroy(recipes[i]);
    return status;
}

static enum sp_status write_target(struct sp_arena *arena, const struct sp_realize_request *request,
                                   enum sp_realize_target target, const char *prefix, struct sp_buf *text,
                                   struct sp_error *err)
{
    struct sp_device_plan *plan = NULL;
    struct sp_json json;
    enum sp_status status = sp_device_plan_create(arena, request, target, &plan, err);
    for (int64_t i = 0; status == SP_OK && i < request->partition.assignment->device_count; i++)
        status = write_device(request, plan, i, prefix, err);
    if (status != SP_OK)
        return status;
    sp_json_init_buf(&json, false, text);
    sp_json_begin_object(&json);
    sp_device_plan_manifest(plan, &json);
    sp_json_end_object(&json);
    return sp_json_finish(&json, err);
}

/* Whether this model is written for the target: with DEVICE_TARGETS=turn each is for one of them, and not for the same
   one every third time, as models are split in several ways one behind the other. */
static bool is_turn(uint32_t model, uint32_t target, uint32_t targets)
{
    const char *asked = getenv("DEVICE_TARGETS");
    return asked == NULL || strcmp(asked, "turn") != 0 || (model + model / targets) % targets == target;
}

enum sp_status simulate_write(struct sp_arena *arena, struct sp_model *model, const struct sp_assignment *assignment,
                              const char *path, struct simulate_account *account, struct sp_error *err)
{
    static const char *const names[] = {
        [SP_TARGET_ORT] = "ort", [SP_TARGET_TENSORRT] = "tensorrt", [SP_TARGET_SESSIONS] = "sessions"};
    enum sp_status status = write_simulation(arena, model, assignment, path, account, err);
    const struct sp_realize_request request = {.partition = {.model = model, .assignment = assignment}};
    static uint32_t models; /* written before */
    const uint32_t targets = sizeof names / sizeof *names, number = models++;
    for (uint32_t i = 0; status == SP_OK && i < targets; i++) {
        if (!is_turn(number, i, targets))
            continue;
        const enum sp_realize_target target = (enum sp_realize_target)i;
        struct sp_error why = {0};
        struct sp_buf text;
        char prefix[SIMULATE_MAX_PATH + 32], file[SIMULATE_MAX_PATH + 64];
        sp_buf_init(&text, (size_t)1 << 28);
        (void)snprintf(prefix, sizeof(prefix), "%s.%s", path, names[i]);
        (void)snprintf(file, sizeof(file), "%s.json", prefix);
        if (write_target(arena, &request, target, prefix, &text, &why) != SP_OK) {
            sp_buf_clear(&text);
            sp_buf_printf(&text, "{\"failure\": \"%s: %s\"}", why.code, why.message);
        }
        FILE *out = fopen(file, "wb");
        if (out == NULL || fwrite(text.data, 1, text.size, out) != text.size || fclose(out) != 0)
            status = sp_fail(err, SP_ERR_IO, "NO_FILE", "The file %s cannot be written.", file);
        sp_buf_release(&text);
    }
    return status;
}
