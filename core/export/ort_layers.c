/*
 * ONNX Runtime's placement by annotations: each node's metadata `layer_ann` names its layer, and the session option
 * session.layer_assignment_settings says on which device layers run: `gpu:0(=stage_0_device_0); gpu:1(=..)`, where '='
 * asks for the whole name.
 *
 * A session has one instance of each execution provider, so of several devices of one kind it uses one. The annotations
 * are worth having all the same: a session for each device, or a tool that splits the model, can follow them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "export/internal.h"

#define TOOL     "ONNX Runtime"
#define SETTING  "session.layer_assignment_settings"
#define METADATA "layer_ann"

enum { NODE_METADATA = 9, ENTRY_KEY = 1, ENTRY_VALUE = 2, METADATA_IR_VERSION = 10 };

struct layers {
    int64_t *device_of; /* by node */
};

static enum sp_status find_layers(const struct sp_export *out, struct layers *layers, struct sp_error *err)
{
    const uint32_t count = out->subject->model->graph->node_count;
    layers->device_of = SP_NEW_ARRAY(out->scratch, count, int64_t);
    enum sp_status status = layers->device_of != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = sp_export_device(out, i, TOOL, &layers->device_of[i], err);
    return status;
}

static void layer_name(int32_t stage, int64_t device, char *text, size_t size)
{
    (void)snprintf(text, size, "stage_%" PRId32 "_device_%" PRId64, stage, device);
}

/* "cpu" for a host processor, a number of a GPU else. */
void sp_export_ort_device(const struct sp_export *out, int64_t device, char *text, size_t size)
{
    const char *const *names = out->subject->device_names;
    if (names != NULL && strncasecmp(names[device], "cpu", 3) == 0)
        (void)snprintf(text, size, "cpu");
    else
        (void)snprintf(text, size, "gpu:%" PRId64, device);
}

static enum sp_status write_metadata(struct sp_export *out, uint32_t node, struct sp_buf *buf, void *context,
                                     struct sp_error *err)
{
    const struct layers *layers = context;
    struct sp_buf entry;
    char name[64];
    layer_name(sp_export_stage(out, node), layers->device_of[node], name, sizeof name);
    sp_buf_init(&entry, 1024);
    sp_export_put_field(&entry, ENTRY_KEY, METADATA, strlen(METADATA));
    sp_export_put_field(&entry, ENTRY_VALUE, name, strlen(name));
    if (!sp_buf_failed(&entry))
        sp_export_put_field(buf, NODE_METADATA, entry.data, entry.size);
    const bool is_made = !sp_buf_failed(&entry) && !sp_buf_failed(buf);
    sp_buf_release(&entry);
    return is_made ? SP_OK : sp_fail_memory(err);
}

/* ---- the setting ------------------------------------------------------------------------------------------------ */

/* The layers of each device, in order of stages: a device may serve several. */
static enum sp_status write_setting(struct sp_export *out, const struct layers *layers, struct sp_buf *buf,
                                    struct sp_error *err)
{
    const struct sp_subject *subject = out->subject;
    char device[32], name[64];
    if (subject->stage_count > SP_MAX_EXPORT_MESHES || subject->device_count > SP_MAX_EXPORT_MESHES)
        return sp_fail_limit(err, "TOO_MANY_GROUPS", "SP_MAX_EXPORT_MESHES", SP_MAX_EXPORT_MESHES,
                             subject->stage_count > subject->device_count ? subject->stage_count
                                                                          : subject->device_count,
                             "More than %d stages or devices are too many layers.", SP_MAX_EXPORT_MESHES);
    const size_t stages = subject->stage_count > 0 ? (size_t)subject->stage_count : 1;
    bool *is_used = SP_NEW_ARRAY(out->scratch, stages * (size_t)subject->device_count, bool);
    if (is_used == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < subject->model->graph->node_count; i++)
        is_used[(size_t)layers->device_of[i] * stages + (size_t)sp_export_stage(out, i)] = true;
    for (int64_t d = 0; d < subject->device_count; d++) {
        bool is_first = true;
        for (size_t s = 0; s < stages; s++) {
            if (!is_used[(size_t)d * stages + s])
                continue;
            sp_export_ort_device(out, d, device, sizeof device);
            layer_name((int32_t)s, d, name, sizeof name);
            if (is_first)
                sp_buf_printf(buf, "%s%s(=%s", buf->size > 0 ? "; " : "", device, name);
            else
                sp_buf_printf(buf, ", =%s", name);
            is_first = false;
        }
        if (!is_first)
            sp_buf_text(buf, ")");
    }
    return sp_buf_failed(buf) ? sp_fail_memory(err) : SP_OK;
}

/* Devices that one session cannot serve together. */
static enum sp_status note_limits(struct sp_export *out, const struct layers *layers, struct sp_error *err)
{
    char text[32];
    int64_t first = -1;
    for (uint32_t i = 0; i < out->subject->model->graph->node_count; i++) {
        const int64_t device = layers->device_of[i];
        sp_export_ort_device(out, device, text, sizeof text);
        if (strcmp(text, "cpu") == 0 || device == first)
            continue;
        if (first >= 0)
            return sp_export_note(out, "ONE_PROVIDER", &out->subject->model->graph->nodes[i], err,
                                  "ONNX Runtime has one instance of an execution provider in a session: of several "
                                  "devices of one kind it uses one. Run a session for each device.");
        first = device;
    }
    return SP_OK;
}

enum sp_status sp_export_ort_layers(struct sp_export *out, struct sp_error *err)
{
    static const char *const keys[] = {METADATA};
    const struct sp_model *model = out->subject->model;
    struct layers layers;
    struct sp_splice *splice = NULL;
    enum sp_status status = find_layers(out, &layers, err);
    const struct sp_export_field field = {NODE_METADATA, 1, keys, write_metadata, &layers};
    if (status == SP_OK)
        status = note_limits(out, &layers, err);
    if (status == SP_OK && model->ir_version < METADATA_IR_VERSION)
        status = sp_export_note(out, "METADATA_IR_VERSION", NULL, err,
                                "Nodes have metadata since IR version %d and the model states version %" PRId64
                                ", which is left as it is; ONNX Runtime reads the metadata all the same.",
                                METADATA_IR_VERSION, model->ir_version);
    if (status == SP_OK)
        status =
            sp_export_note(out, "SESSION_OPTION", NULL, err,
                           "The session option " SETTING " says where the layers run; the format ort-layers-options "
                           "prints it.");
    if (status == SP_OK)
        status = sp_export_fields(out, &field, &splice, err);
    return status == SP_OK ? sp_export_model(out, splice, err) : status;
}

enum sp_status sp_export_ort_layers_options(struct sp_export *out, struct sp_error *err)
{
    struct layers layers;
    struct sp_buf setting;
    sp_buf_init(&setting, SP_MAX_ANSWER_BYTES);
    enum sp_status status = find_layers(out, &layers, err);
    if (status == SP_OK)
        status = write_setting(out, &layers, &setting, err);
    if (status == SP_OK)
        status = note_limits(out, &layers, err);
    if (status == SP_OK) {
        sp_export_text(out, "{\"" SETTING "\": ");
        sp_export_quoted(out, setting.size > 0 ? setting.data : "");
        sp_export_text(out, "}\n");
    }
    sp_buf_release(&setting);
    return status;
}
