#include "export/servers/repository.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/limits.h"
#include "onnx/splice.h"
#include "plan/internal.h"

#define MAX_NAME 64 /* bytes of the model's name that a folder's has */

struct repository {
    struct sp_arena *arena;
    const struct sp_subject *subject;
    const struct sp_device_plan *plan;
    char name[MAX_NAME + 1];
    uint32_t count, capacity;
    struct sp_repository_file *files;
    struct sp_buf text; /* of the file at work */
    struct sp_error *err;
};

/* The file's name without its folder and end, of letters that a folder of a repository may have. */
static void name_repository(struct repository *all)
{
    const char *text = all->subject->name != NULL ? all->subject->name : "", *slash = strrchr(text, '/');
    text = slash != NULL ? slash + 1 : text;
    const char *dot = strrchr(text, '.');
    size_t size = dot != NULL && dot > text ? (size_t)(dot - text) : strlen(text);
    size = size < MAX_NAME ? size : MAX_NAME;
    for (size_t i = 0; i < size; i++)
        all->name[i] = isalnum((unsigned char)text[i]) ? text[i] : '_';
    if (size == 0)
        memcpy(all->name, "model", sizeof "model");
}

static enum sp_status add_file(struct repository *all, struct sp_repository_file file)
{
    if (file.path == NULL || !SP_MAKE_ROOM(all->arena, all->files, all->count, all->capacity, 1))
        return sp_fail_memory(all->err);
    all->files[all->count++] = file;
    return SP_OK;
}

/* The text at work is a file. */
static enum sp_status end_file(struct repository *all, const char *path)
{
    const char *text = sp_buf_failed(&all->text) ? NULL : sp_arena_string(all->arena, all->text.data, all->text.size);
    sp_buf_clear(&all->text);
    return text == NULL ? sp_fail_memory(all->err)
                        : add_file(all, (struct sp_repository_file){.path = path, .text = text});
}

static const char *model_name(const struct repository *all, int64_t device, uint32_t part)
{
    return part == 0 ? sp_arena_printf(all->arena, "%s_device_%" PRId64, all->name, device)
                     : sp_arena_printf(all->arena, "%s_device_%" PRId64 "_part_%" PRIu32, all->name, device, part);
}

/* ---- text of protobuf ------------------------------------------------------------------------------------------- */

static void put_string(struct sp_buf *buf, const char *text)
{
    sp_buf_text(buf, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            sp_buf_printf(buf, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            sp_buf_printf(buf, "\\%03o", *c);
        else
            sp_buf_append(buf, c, 1);
    }
    sp_buf_text(buf, "\"");
}

static const char *type_name(enum sp_dtype dtype)
{
    static const char *const names[] = {
        [SP_DTYPE_FLOAT] = "TYPE_FP32",    [SP_DTYPE_UINT8] = "TYPE_UINT8",   [SP_DTYPE_INT8] = "TYPE_INT8",
        [SP_DTYPE_UINT16] = "TYPE_UINT16", [SP_DTYPE_INT16] = "TYPE_INT16",   [SP_DTYPE_INT32] = "TYPE_INT32",
        [SP_DTYPE_INT64] = "TYPE_INT64",   [SP_DTYPE_STRING] = "TYPE_STRING", [SP_DTYPE_BOOL] = "TYPE_BOOL",
        [SP_DTYPE_FLOAT16] = "TYPE_FP16",  [SP_DTYPE_DOUBLE] = "TYPE_FP64",   [SP_DTYPE_UINT32] = "TYPE_UINT32",
        [SP_DTYPE_UINT64] = "TYPE_UINT64", [SP_DTYPE_BFLOAT16] = "TYPE_BF16",
    };
    return (size_t)dtype < sizeof names / sizeof *names ? names[dtype] : NULL;
}

/* input [ { name: "x" data_type: TYPE_FP32 dims: [ 2, -1 ] } ] */
static enum sp_status put_tensor(struct repository *all, const char *field, const char *name,
                                 const struct sp_model_port *port)
{
    const char *type = port->has_rank ? type_name(port->dtype) : NULL;
    if (type == NULL)
        return sp_fail(all->err, SP_ERR_UNSUPPORTED, "TYPE_NOT_SERVED",
                       "Triton has no type for the tensor '%.200s', or its rank is not known.", name);
    sp_buf_printf(&all->text, "%s {\n  name: ", field);
    put_string(&all->text, name);
    sp_buf_printf(&all->text, "\n  data_type: %s\n  dims: [ ", type);
    for (uint32_t i = 0; i < port->rank; i++)
        sp_buf_printf(&all->text, "%s%" PRId64, i > 0 ? ", " : "", port->dims[i] > 0 ? port->dims[i] : -1);
    sp_buf_text(&all->text, port->rank == 0 ? "1 ]\n}\n" : " ]\n}\n");
    return SP_OK;
}

static enum sp_status put_tensors(struct repository *all, int64_t device, uint32_t part)
{
    enum sp_status status = SP_OK;
    for (int is_output = 0; is_output < 2; is_output++) {
        const uint32_t count = sp_device_plan_port_count(all->plan, device, part, is_output);
        for (uint32_t i = 0; status == SP_OK && i < count; i++) {
            const struct sp_model_port port = sp_device_plan_port(all->plan, device, part, is_output, i, all->arena);
            status = put_tensor(all, is_output ? "output" : "input", port.name, &port);
        }
    }
    return status;
}

static void put_head(struct repository *all, const char *name, const char *kind, const char *value)
{
    sp_buf_text(&all->text, "name: ");
    put_string(&all->text, name);
    sp_buf_printf(&all->text, "\n%s: \"%s\"\nmax_batch_size: 0\n", kind, value);
}

/* ---- ensembles of ONNX Runtime's models ------------------------------------------------------------------------- */

static bool is_processor(const struct sp_subject *subject, int64_t device)
{
    return subject->device_names != NULL && strncasecmp(subject->device_names[device], "cpu", 3) == 0;
}

/* The device of each copy of the plan. */
static void put_instances(struct repository *all, int64_t device)
{
    const struct sp_subject *subject = all->subject;
    const struct sp_placement *placement = subject->plan != NULL ? &subject->plan->result->placement : NULL;
    const uint32_t copies = placement != NULL ? sp_placement_copies(placement) : 1;
    if (is_processor(subject, device)) {
        sp_buf_printf(&all->text, "instance_group [ { kind: KIND_CPU count: %" PRIu32 " } ]\n",
                      copies > 0 ? copies : 1);
        return;
    }
    sp_buf_printf(&all->text, "instance_group [ { kind: KIND_GPU count: 1 gpus: [ %" PRId64, device);
    for (uint32_t copy = 1; copy < copies; copy++)
        sp_buf_printf(
            &all->text, ", %" PRId64,
            (int64_t)sp_cluster_number(subject->plan->cluster,
                                       sp_plan_copied(subject->plan, subject->cluster_devices[device], copy)));
    sp_buf_text(&all->text, " ] } ]\n");
}

static enum sp_status add_stage(struct repository *all, int64_t device, uint32_t part)
{
    const char *name = model_name(all, device, part);
    if (name == NULL)
        return sp_fail_memory(all->err);
    put_head(all, name, "backend", "onnxruntime");
    enum sp_status status = put_tensors(all, device, part);
    put_instances(all, device);
    if (status == SP_OK)
        status = end_file(all, sp_arena_printf(all->arena, "%s/config.pbtxt", name));
    return status == SP_OK
               ? add_file(all, (struct sp_repository_file){.path = sp_arena_printf(all->arena, "%s/1/model.onnx", name),
                                                           .is_model = true,
                                                           .device = device,
                                                           .part = part})
               : status;
}

/* "h@0#1": what the part gives to others. */
static const char *tensor_of(const struct repository *all, const struct sp_model_port *port, uint32_t part)
{
    return port->tensor != NULL ? port->tensor : sp_arena_printf(all->arena, "%s#%" PRIu32, port->name, part);
}

/* By the name of a tensor of the ensemble: what is said of it. */
struct seen {
    bool is_read, is_told;
};

static enum sp_status see(struct repository *all, struct sp_intern *tensors, const char *name, struct seen **ret_seen)
{
    const char *known = name != NULL ? sp_intern_text(tensors, name, strlen(name)) : NULL;
    void **mark = known != NULL ? sp_intern_mark(known) : NULL;
    if (mark != NULL && *mark == NULL)
        *mark = SP_NEW(all->arena, struct seen);
    if (mark == NULL || *mark == NULL) {
        (void)sp_fail_memory(all->err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    *ret_seen = *mark;
    return SP_OK;
}

/* What each part reads. */
static enum sp_status see_inputs(struct repository *all, struct sp_intern *tensors, int64_t device, uint32_t part)
{
    const uint32_t count = sp_device_plan_port_count(all->plan, device, part, false);
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        const struct sp_model_port port = sp_device_plan_port(all->plan, device, part, false, i, all->arena);
        const char *name = tensor_of(all, &port, port.part);
        struct seen *seen;
        status = see(all, tensors, name, &seen);
        if (status == SP_OK)
            seen->is_read = true;
        if (status == SP_OK && port.tensor != NULL && !seen->is_told) {
            seen->is_told = true;
            status = put_tensor(all, "input", port.tensor, &port);
        }
    }
    return status;
}

static void put_map(struct repository *all, const char *map, const char *key, const char *value)
{
    sp_buf_printf(&all->text, "    %s { key: ", map);
    put_string(&all->text, key);
    sp_buf_text(&all->text, " value: ");
    put_string(&all->text, value);
    sp_buf_text(&all->text, " }\n");
}

static enum sp_status put_step(struct repository *all, struct sp_intern *tensors, int64_t device, uint32_t part)
{
    const char *model = model_name(all, device, part);
    enum sp_status status = model != NULL ? SP_OK : sp_fail_memory(all->err);
    sp_buf_text(&all->text, "  step {\n    model_name: ");
    put_string(&all->text, model != NULL ? model : "");
    sp_buf_text(&all->text, "\n    model_version: -1\n");
    for (int is_output = 0; is_output < 2; is_output++) {
        const uint32_t count = sp_device_plan_port_count(all->plan, device, part, is_output);
        for (uint32_t i = 0; status == SP_OK && i < count; i++) {
            const struct sp_model_port port = sp_device_plan_port(all->plan, device, part, is_output, i, all->arena);
            const char *name = tensor_of(all, &port, is_output ? part : port.part);
            struct seen *seen;
            status = see(all, tensors, name, &seen);
            if (status == SP_OK && (!is_output || port.tensor != NULL || seen->is_read))
                put_map(all, is_output ? "output_map" : "input_map", port.name, name);
        }
    }
    sp_buf_text(&all->text, "  }\n");
    return status;
}

static enum sp_status put_results(struct repository *all, int64_t device, uint32_t part)
{
    const uint32_t count = sp_device_plan_port_count(all->plan, device, part, true);
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        const struct sp_model_port port = sp_device_plan_port(all->plan, device, part, true, i, all->arena);
        if (port.tensor != NULL)
            status = put_tensor(all, "output", port.tensor, &port);
    }
    return status;
}

/* Calls for each part that has a model. */
static enum sp_status each_part(struct repository *all, struct sp_intern *tensors,
                                enum sp_status (*visit)(struct repository *all, struct sp_intern *tensors,
                                                        int64_t device, uint32_t part))
{
    enum sp_status status = SP_OK;
    for (int64_t d = 0; status == SP_OK && d < all->subject->device_count; d++) {
        for (uint32_t p = 0; status == SP_OK && p < sp_device_plan_parts(all->plan, d); p++)
            status = sp_device_plan_has(all->plan, d, p) ? visit(all, tensors, d, p) : SP_OK;
    }
    return status;
}

static enum sp_status stage_of(struct repository *all, struct sp_intern *tensors, int64_t device, uint32_t part)
{
    (void)tensors;
    return add_stage(all, device, part);
}

static enum sp_status results_of(struct repository *all, struct sp_intern *tensors, int64_t device, uint32_t part)
{
    (void)tensors;
    return put_results(all, device, part);
}

static enum sp_status add_ensemble(struct repository *all)
{
    struct sp_intern *tensors = sp_intern_create(all->arena, 0);
    enum sp_status status = tensors != NULL ? each_part(all, tensors, stage_of) : sp_fail_memory(all->err);
    put_head(all, all->name, "platform", "ensemble");
    if (status == SP_OK)
        status = each_part(all, tensors, see_inputs);
    if (status == SP_OK)
        status = each_part(all, tensors, results_of);
    sp_buf_text(&all->text, "ensemble_scheduling {\n");
    if (status == SP_OK)
        status = each_part(all, tensors, put_step);
    sp_buf_text(&all->text, "}\n");
    if (status == SP_OK)
        status = end_file(all, sp_arena_printf(all->arena, "%s/config.pbtxt", all->name));
    return status == SP_OK
               ? add_file(all, (struct sp_repository_file){.path = sp_arena_printf(all->arena, "%s/1/", all->name)})
               : status;
}

/* ---- engines of TensorRT ---------------------------------------------------------------------------------------- */

/* All devices are one world, and nothing goes from model to model. */
static bool is_one_world(const struct repository *all)
{
    if (all->subject->device_count < 2)
        return false;
    for (int64_t d = 0; d < all->subject->device_count; d++) {
        if (sp_device_plan_parts(all->plan, d) != 1)
            return false;
        for (int is_output = 0; is_output < 2; is_output++) {
            for (uint32_t i = 0; i < sp_device_plan_port_count(all->plan, d, 0, is_output); i++) {
                if (sp_device_plan_port(all->plan, d, 0, is_output, i, all->arena).tensor == NULL)
                    return false;
            }
        }
    }
    return true;
}

static void put_parameter(struct repository *all, const char *key, const char *value)
{
    sp_buf_printf(&all->text, "parameters { key: \"%s\" value { string_value: \"%s\" } }\n", key, value);
}

static enum sp_status add_engines(struct repository *all)
{
    struct sp_buf gpus;
    if (!is_one_world(all))
        return sp_fail(
            all->err, SP_ERR_UNSUPPORTED, "SEVERAL_WORLDS",
            "Triton's TensorRT backend runs one world of two devices or more in a model, and what a stage gives "
            "another one is in no world: plan with --strategy tensor on all devices, or export the format "
            "triton.");
    sp_buf_init(&gpus, SP_MAX_RECORD_BYTES);
    put_head(all, all->name, "backend", "tensorrt");
    enum sp_status status = put_tensors(all, 0, 0);
    sp_buf_text(&all->text, "instance_group [ { kind: KIND_MODEL count: 1 } ]\n");
    for (int64_t d = 0; d < all->subject->device_count; d++)
        sp_buf_printf(&gpus, "%s%" PRId64, d > 0 ? "," : "", d);
    if (sp_buf_failed(&gpus))
        status = status == SP_OK ? sp_fail_memory(all->err) : status;
    put_parameter(all, "enable_multi_device", "true");
    put_parameter(all, "multi_device_gpus", sp_buf_failed(&gpus) ? "" : gpus.data);
    put_parameter(all, "multi_device_per_rank_engines", "true");
    sp_buf_release(&gpus);
    if (status == SP_OK)
        status = end_file(all, sp_arena_printf(all->arena, "%s/config.pbtxt", all->name));
    for (int64_t d = 0; status == SP_OK && d < all->subject->device_count; d++)
        status = add_file(all, (struct sp_repository_file){
                                   .path = sp_arena_printf(all->arena, "%s/1/model.rank%" PRId64 ".onnx", all->name, d),
                                   .is_model = true,
                                   .device = d});
    return status;
}

enum sp_status sp_triton_files(struct sp_arena *arena, const struct sp_subject *subject,
                               const struct sp_device_plan *plan, uint32_t *ret_count,
                               struct sp_repository_file **ret_files, struct sp_error *err)
{
    struct repository all = {.arena = arena, .subject = subject, .plan = plan, .err = err};
    sp_buf_init(&all.text, SP_MAX_EXPORT_BYTES);
    name_repository(&all);
    enum sp_status status = sp_device_plan_target(plan) == SP_TARGET_TENSORRT ? add_engines(&all) : add_ensemble(&all);
    sp_buf_release(&all.text);
    *ret_count = all.count;
    *ret_files = all.files;
    return status;
}

void sp_repository_write(uint32_t count, const struct sp_repository_file *files, struct sp_json *json)
{
    char text[SP_DEVICE_MODEL_NAME_SIZE];
    sp_json_key(json, "repository");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "path", files[i].path);
        if (files[i].text != NULL)
            sp_json_member_string(json, "text", files[i].text);
        if (files[i].is_model)
            sp_json_member_string(json, "model", sp_device_plan_model(NULL, files[i].device, files[i].part, text));
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}
