/*
 * The programs that a manifest (realize/realize.h) lists.
 */
#include "base/limits.h"
#include "verify/programs.h"

static enum sp_status refuse(struct sp_error *err)
{
    return sp_fail(
        err, SP_ERR_MALFORMED, "BAD_MANIFEST",
        "The manifest is not one of devices' models: it lists \"devices\" with \"parts\", each with a \"model\".");
}

enum sp_status sp_verify_read_manifest(struct sp_arena *arena, const json_t *manifest, sp_verify_find find,
                                       void *context, uint32_t *ret_count, struct sp_verify_program **ret_programs,
                                       struct sp_error *err)
{
    const json_t *devices = json_object_get(manifest, "devices");
    SP_ARRAY(struct sp_verify_program) programs = {0};
    size_t d, p;
    json_t *device, *part;
    if (!json_is_array(devices))
        return refuse(err);
    json_array_foreach(devices, d, device){json_array_foreach(json_object_get(device, "parts"), p, part){
        const json_int_t world = json_integer_value(json_object_get(device, "world")),
        rank = json_integer_value(json_object_get(device, "rank")),
        number = json_integer_value(json_object_get(part, "part"));
    struct sp_verify_program program = {.name = json_string_value(json_object_get(part, "model")),
                                        .device = json_integer_value(json_object_get(device, "id")),
                                        .inputs = json_object_get(part, "inputs"),
                                        .outputs = json_object_get(part, "outputs")};
    if (program.name == NULL || world < 0 || world > UINT32_MAX || rank < 0 || rank > UINT32_MAX || number < 0 ||
        number > UINT32_MAX || program.inputs == NULL || program.outputs == NULL)
        return refuse(err);
    program.world = (uint32_t)world;
    program.rank = (uint32_t)rank;
    program.part = (uint32_t)number;
    enum sp_status status = find(context, program.name, &program.bytes, &program.size, err);
    if (status != SP_OK)
        return status;
    if (programs.count >= SP_MAX_DEVICES || !SP_PUSH(arena, &programs, program))
        return sp_fail_memory(err);
}
}
*ret_count = programs.count;
*ret_programs = programs.items;
return SP_OK;
}
