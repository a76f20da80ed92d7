#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

static const char *const target_names[] = {
    [SP_TARGET_ORT] = "ort", [SP_TARGET_TENSORRT] = "tensorrt", [SP_TARGET_SESSIONS] = "sessions"};
#define TARGETS (sizeof target_names / sizeof *target_names)

static struct {
    unsigned every; /* of so many simulations one has devices' models; 0: none */
    bool is_in_turn;
    const char *only;                  /* a target's name, or NULL */
    uint32_t simulations, with_models; /* written before */
} devices;

bool simulate_ask_devices(const char *every, const char *targets)
{
    if (every != NULL)
        devices.every = (unsigned)strtoul(every, NULL, 10);
    if (targets == NULL)
        return true;
    devices.is_in_turn = strcmp(targets, "turn") == 0;
    devices.only = devices.is_in_turn || strcmp(targets, "all") == 0 ? NULL : targets;
    for (size_t i = 0; i < TARGETS && devices.only != NULL; i++) {
        if (strcmp(devices.only, target_names[i]) == 0)
            return true;
    }
    return devices.only == NULL;
}

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
        (void)snprintf(path, sizeof(path), "%s.%s", prefix, sp_device_plan_model(NULL, device, i, model));
        status = simulate_stream(recipes[i], request->partition.model, path, err);
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

/* Whether these devices' models are written for the target: in turn each are for one of them, and not for the same one every
   third time, as models are split in several ways one behind the other. */
static bool is_written(uint32_t number, uint32_t target)
{
    if (devices.only != NULL)
        return strcmp(devices.only, target_names[target]) == 0;
    return !devices.is_in_turn || (number + number / TARGETS) % TARGETS == target;
}

enum sp_status simulate_write_devices(struct sp_arena *arena, struct sp_model *model,
                                      const struct sp_assignment *assignment, const char *path, struct sp_error *err)
{
    const struct sp_realize_request request = {.partition = {.model = model, .assignment = assignment}};
    enum sp_status status = SP_OK;
    if (devices.every == 0 || devices.simulations++ % devices.every != 0)
        return SP_OK;
    const uint32_t number = devices.with_models++;
    for (uint32_t i = 0; status == SP_OK && i < TARGETS; i++) {
        if (!is_written(number, i))
            continue;
        struct sp_error why = {0};
        struct sp_buf text;
        char prefix[SIMULATE_MAX_PATH + 32], file[SIMULATE_MAX_PATH + 64];
        sp_buf_init(&text, (size_t)1 << 28);
        (void)snprintf(prefix, sizeof(prefix), "%s.%s", path, target_names[i]);
        (void)snprintf(file, sizeof(file), "%s.json", prefix);
        if (write_target(arena, &request, (enum sp_realize_target)i, prefix, &text, &why) != SP_OK) {
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
