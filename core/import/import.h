#pragma once
/*
 * import - what files of other tools say of where a model's nodes run.
 *
 *   Qualcomm        {"partitions": [{"name", "nodeList": [NODE, ..], "devices": [{"deviceId"}]}], "connections"}, the file of
 *                   qaic-compile -mdp-load-partition-config: a partition is a stage
 *   ONNX Runtime    {"session.name_based_layer_assignment": "gpu:0(PART, ..); gpu:1(..)"}: the longest of the parts that a
 *                   node's name has in it counts; {"session.layer_assignment_settings": "gpu:0(=LAYER, PREFIX); .."}: of
 *                   the nodes' metadata `layer_ann`, prefixes before whole names, then the first
 *   PopRT           YAML, [{node, device, stage}]: from each point, in the order of the model, towards the inputs, whatever
 *                   no earlier point has taken; what is left goes to the next device
 *   GenAI           genai_config.json: "model"."decoder"."pipeline", stages with names of the tensors that they take and
 *                   give; a stage is what lies between these
 *   Polygraphy      {"parallelism": "CP", "inputs": [{"name", "seq_len_idx"}], "outputs", "attention_layers"}: all devices
 *                   run all nodes, on parts of the sequences
 *
 * Which of them a file is follows from its members. An import has a place for each node of the main graph, or none; or
 * the axes along which tensors are split. Nodes inside of others are where these are.
 *
 * What is read becomes annotations in memory (sp_import_check), so that the findings are those of annotations, or
 * constraints of a plan (sp_import_constraints), or the manifest of a pipeline's models (sp_import_stages).
 *
 * Sources: QEfficient, compile/mdp_generator.py; ONNX Runtime, docs/annotated_partitioning and layering_annotations.cc; the
 * user guide of PopRT; onnxruntime-genai, src/config.cpp; Polygraphy, tools/multi_device.
 */
#include <jansson.h>

#include "check/diagnostic.h"

#define SP_NOT_PLACED UINT32_MAX

/* Where nodes run together. */
struct sp_import_place {
    const char *name; /* "Partition0", "gpu:1", "device 0", "decoder_0" */
    int32_t stage;
    bool has_devices;
    uint32_t device_count;
    const int64_t *devices; /* ascending */
};

/* A tensor that all devices split along one axis, or each takes whole (axis -1). */
struct sp_import_split {
    const struct sp_value *value;
    int32_t axis;
    const struct sp_node *at; /* that takes it so; NULL: wherever it is */
};

struct sp_import {
    const char *tool; /* "Qualcomm's partition configuration" */
    uint32_t place_count;
    const struct sp_import_place *places; /* by stage */
    const uint32_t *place_of;             /* by node of the main graph, or SP_NOT_PLACED; NULL: all on all devices */
    uint32_t split_count;
    const struct sp_import_split *splits;
    int64_t device_count; /* that the file names; 0: it does not say */
    bool has_stages;      /* the file says them; else they are numbered in the order of the places' first nodes */
};

/*
 * Reads a file. Names that the model does not have, and whatever else does not fit the model, are findings in `list`;
 * SP_ERR_REQUEST "PLACEMENT_FILE" is for bytes that are none of these files, with the place in them. The import is in
 * `arena`, and text is copied.
 */
enum sp_status sp_import_read(struct sp_arena *arena, struct sp_model *model, const char *text, size_t size,
                              struct sp_diagnostics *list, struct sp_import *ret_import, struct sp_error *err);

/*
 * The same, and checks it as annotations would be: findings for where nodes run, and those of check/meaning.h. The
 * model's shapes are inferred. The annotations stay in the model as its only ones, under the name "placement".
 * `memory_bytes` per device, 0: not known.
 */
enum sp_status sp_import_check(struct sp_model *model, const char *text, size_t size, double memory_bytes,
                               struct sp_diagnostics *list, struct sp_error *err);

/*
 * What a plan must keep (plan/request/constraints.h) so that nodes run where the file says; a new reference.
 * `device_count` is that of the cluster. Findings that are errors are SP_ERR_REQUEST "PLACEMENT_FILE", and so is what no
 * constraint can say. The model's shapes are inferred.
 */
enum sp_status sp_import_constraints(struct sp_model *model, const char *text, size_t size, int64_t device_count,
                                     json_t **ret_constraints, struct sp_error *err);

/* Which of a pipeline's stages run: those of a prompt, and those of each token behind it. */
enum sp_import_phase { SP_PHASE_ANY, SP_PHASE_PROMPT, SP_PHASE_TOKEN };

/* Whether this is a genai_config.json that lists a pipeline. */
bool sp_import_is_pipeline(const json_t *config);

/*
 * The manifest (realize/realize.h) of the stages that a genai_config.json lists; a new reference. `original` is the whole model: what a stage takes under the name of one of its inputs is that input, anything
 * else an earlier stage must give. SP_PHASE_ANY is refused where prompts and tokens run different stages.
 */
enum sp_status sp_import_stages(const json_t *config, const struct sp_model *original, enum sp_import_phase phase,
                                json_t **ret_manifest, struct sp_error *err);
