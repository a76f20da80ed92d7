#pragma once
/*
 * repository - folders that servers load, out of the devices' models with whole inputs and outputs (struct
 * sp_realize_forms).
 *
 *   genai             onnxruntime-genai: genai_config.json with the devices' models as its pipeline (genai.c)
 *   triton            ONNX Runtime: a model for each part of a device, and an ensemble that has them as its steps. Steps
 *                     run as soon as what they need is there, so that several requests are in the pipeline
 *                         NAME/config.pbtxt, NAME/1/                       the ensemble
 *                         NAME_device_0/config.pbtxt, NAME_device_0/1/model.onnx
 *   triton-tensorrt   TensorRT's backend with an engine for each rank, which are built from the models that are written;
 *                     one model of all devices, since one instance is one world
 *                         NAME/config.pbtxt, NAME/1/model.rank0.onnx -> NAME/1/model.plan.rank0
 *
 * A tensor between steps is called as the output that it is, with '#' and the number of its part. What nobody reads is in
 * no map, as an ensemble has to use all that it maps. max_batch_size is 0: models are for the sizes of the plan, or have
 * open ones (-1). Scalars are [1] there.
 *
 * Sources: Triton's model_config.proto and docs (model_configuration, ensemble_models, model_repository), the rules of
 * core/src/ensemble_scheduler, tensorrt_backend's docs/multi_device.md.
 */
#include "plan/subject.h"
#include "realize/realize.h"

struct sp_repository_file {
    const char *path; /* in the repository; a folder's ends in '/' */
    const char *text; /* NULL: a folder, or the model of a device's part */
    bool is_model;
    int64_t device;
    uint32_t part;
};

/* In `arena`. SP_ERR_UNSUPPORTED "TYPE_NOT_SERVED" for what Triton has no type for, "SEVERAL_WORLDS" for engines of more
   than one world, or of one device. */
enum sp_status sp_triton_files(struct sp_arena *arena, const struct sp_subject *subject,
                               const struct sp_device_plan *plan, uint32_t *ret_count,
                               struct sp_repository_file **ret_files, struct sp_error *err);

/* The same for GenAI. SP_ERR_UNSUPPORTED "NOT_A_DECODER", "STAGES_NOT_IN_A_ROW". */
enum sp_status sp_genai_files(struct sp_arena *arena, const struct sp_subject *subject,
                              const struct sp_device_plan *plan, uint32_t *ret_count,
                              struct sp_repository_file **ret_files, struct sp_error *err);

/* The member "repository" of the manifest: [{"path", "text"} | {"path", "model": "device-0.onnx"} | {"path"}]. */
void sp_repository_write(uint32_t count, const struct sp_repository_file *files, struct sp_json *json);
