#pragma once
/*
 * export - a plan, or an annotated model, in the notations of other tools.
 *
 * A format is an entry of a table: its name, what it needs, and the function that writes it to a sink. Nothing is held
 * in memory but what a format says itself; text is streamed and bounded by SP_MAX_EXPORT_BYTES, models are splices.
 *
 *  op-sharding            JSON lines, one for each operand: XLA's OpSharding as bytes (base64) and as text
 *  shardy                 an MLIR module: its meshes, and the #sdy.sharding of every value
 *  poprt                  YAML for PopRT's manual sharding: the points from which its walk gives the plan
 *  poprt-model            the model with __ipu_number and __pipeline_stage at each node
 *  qualcomm-mdp           JSON for qaic-compile's -mdp-load-partition-config
 *  ort                    one rank's model with ONNX Runtime's Distributed operators
 *  ort-layers             the model with the metadata layer_ann at each node
 *  ort-layers-options     the session options that go with it, as JSON
 *  ort-layers-names       the other session option, which knows nodes by their names
 *  olive-splits           split_assignments of Olive's SplitModel
 *  netron                 the model with metadata of stage and devices at each node
 *  polygraphy-hints       JSON for polygraphy multi-device shard, of context parallelism
 *  vllm-args, sglang-args, trtllm-args, llamacpp-args, mlx, exo   options of servers of language models
 *  perfetto               a binary trace of the first requests
 *  model-explorer, ..     node data for Model Explorer: stage, device, seconds, bytes
 *  csv, csv-..            tables of nodes, devices, tensors, collectives
 *
 * What the other notation cannot say, or its tool is known to refuse, is told as a note; what it cannot express at all
 * is SP_ERR_UNSUPPORTED with a sentence that names the node.
 */
#include "onnx/splice.h"
#include "plan/subject.h"
#include "realize/recipe.h"

#define SP_MAX_EXPORT_NOTES 1000 /* of one export; the last one says that there are more */

struct sp_export_note {
    const char *code;           /* stable, e.g. "ONE_PROVIDER" */
    const struct sp_node *node; /* or NULL */
    const char *message;        /* a full sentence; lives until the callback returns */
};

struct sp_export_request {
    const struct sp_subject *subject;
    const char *format;
    struct sp_sink sink; /* `copy` is used for models where it is there: ranges of what the caller gave */
    enum sp_status (*note)(void *context, const struct sp_export_note *note, struct sp_error *err); /* or NULL */
    void *note_context;
    /* For "ort": whose model it is, and a recipe over the model's file to which the model is appended in place of being
       sent to the sink; NULL: its bytes go to the sink. */
    int64_t device;
    struct sp_recipe *recipe;
    int64_t cores; /* "qualcomm-mdp": of each device; 0: 16 */
};

struct sp_export_format {
    const char *name;
    const char *media_type; /* "text/csv" */
    const char *text;       /* what it is, for people: no dot at the end */
    bool needs_plan;        /* figures: an annotated model is not enough */
    bool needs_model;       /* it is not for plans of graphs of costs */
};

/* All formats, in the order of the list above. */
uint32_t sp_export_format_count(void);
const struct sp_export_format *sp_export_format(uint32_t index);
/* The format of this name, or NULL. */
const struct sp_export_format *sp_export_find(const char *name);

/* Writes it. SP_ERR_REQUEST "UNKNOWN_FORMAT", "NEEDS_PLAN"; SP_ERR_UNSUPPORTED; SP_ERR_LIMIT; SP_ERR_IO when the sink
   failed. What was written before an error is no result. */
enum sp_status sp_export_write(const struct sp_export_request *request, struct sp_error *err);
