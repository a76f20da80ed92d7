#pragma once
/*
 * files - what a plan or an annotated model is realised and exported as, each file a recipe (realize/recipe.h).
 *
 *   simulation        one plain ONNX model that does what all devices do
 *   ort-collectives   the devices' models with ONNX Runtime's collectives: one file of a device, or the manifest
 *   tensorrt          the same with TensorRT's DistCollective
 *   sessions          the same without collectives: models are cut where anything is exchanged
 *   genai, triton, triton-tensorrt   a folder that a server loads (export/servers/repository.h): the manifest says which model is which file
 *                     of it, and has the text of the others
 *   any of export.h   bytes in another notation, or the model with more in it
 *
 * A recipe is small, streams, and reads the model's file (source 0) and its external data when it is read, so it can
 * be made by one process and sent by another. Of a model that was described in JSON nothing is kept: the recipe stands
 * alone.
 */
#include "export/export.h"
#include "export/forms.h"
#include "export/servers/repository.h"
#include "realize/realize.h"

#define SP_FILE_NO_DEVICE (-1) /* the manifest of the devices' models */

/* The format of the name of the file in which a device's weights lie beside its models, for its number as long long. */
#define SP_DEVICE_DATA_NAME "device-%lld.onnx.data"

struct sp_file_request {
    const struct sp_subject *subject;
    const char *format;
    /* Of the devices' models: which device, and which of its parts. Of "ort": which device, the first when none is
     * said.
     */
    int64_t device;
    uint32_t part;
    struct sp_file_forms forms;
    enum sp_realize_external external;
    /* Of a device's models: the weights lie in a file beside them, "device-<k>.onnx.data" (SP_DEVICE_DATA_NAME), and
       whether that file is made instead of the model. */
    bool has_data, gives_data;
    const struct sp_watch *watch; /* or NULL */
    /* Notes, each a full sentence; may be NULL. */
    enum sp_status (*note)(void *context, const char *code, const struct sp_node *node, const char *message,
                           struct sp_error *err);
    void *note_context;
};

/* All formats in their order: those above, then those of export.h. */
uint32_t sp_file_format_count(void);
const char *sp_file_format_name(uint32_t index);
/* What a format is, for people; its media type; whether it is one of the
   devices' models. NULL and false for a format that there is not. With a device, or without: the manifest is JSON. */
const char *sp_file_format_text(const char *format);
const char *sp_file_media_type(const char *format, int64_t device);
bool sp_file_is_of_devices(const char *format, enum sp_realize_target *ret_target);

/* What realizing the subject takes; `links` is filled for the request to point to. */
struct sp_realize_request sp_file_realization(const struct sp_file_request *request, struct sp_links *links);

/* SP_ERR_UNSUPPORTED "NO_OPERATORS" where the format needs a model and the subject, a plan of a graph of costs, has
   none. Every function below that makes a file says the same; those of realize.h take a model. */
enum sp_status sp_file_check(const struct sp_subject *subject, const char *format, struct sp_error *err);

/* The file. SP_ERR_REQUEST "UNKNOWN_FORMAT", "NEEDS_PLAN", "NO_SUCH_DEVICE", "NO_SUCH_PART", "NO_DATA"; else the errors of
   export.h and realize.h. The caller destroys the recipe; it does not need the subject. */
enum sp_status sp_file_create(const struct sp_file_request *request, struct sp_recipe **ret_recipe,
                              struct sp_error *err);

/* The member "estimate" of a manifest. */
void sp_file_write_estimate(const struct sp_plan *plan, struct sp_json *json);

/* The devices' models of a phase of a service (plan/service/service.h). */
struct sp_phase_models {
    const struct sp_service_phase *phase;
    const struct sp_device_plan *plan; /* NULL: they are those of the plan */
};

/* The manifest of the devices' models alone, of the request's subject and format, with those of the plan's phases;
   likewise. */
enum sp_status sp_file_manifest(const struct sp_file_request *request, const struct sp_device_plan *plan,
                                uint32_t phase_count, const struct sp_phase_models *phases,
                                struct sp_recipe **ret_recipe, struct sp_error *err);
/* Whether the devices' models make a repository. */
bool sp_file_is_repository(const char *format);
/* Its files, in `arena`. */
enum sp_status sp_file_repository(struct sp_arena *arena, const struct sp_file_request *request,
                                  const struct sp_device_plan *plan, uint32_t *ret_count,
                                  struct sp_repository_file **ret_files, struct sp_error *err);
