#pragma once
/*
 * writer - multi-device annotations into and out of a model, by splicing the original bytes.
 *
 * Adding: each annotated NodeProto gets a NodeDeviceConfigurationProto, the ModelProto a DeviceConfigurationProto, and
 * the length prefixes of the messages above are rewritten. `ir_version` is raised to 11 when it is lower; a file from
 * before operator sets had versions then also gets imports of version 1, which is what it means. A metadata entry (key
 * SP_WRITER_METADATA_KEY) records the original value, how many imports were added, and the configuration, so that
 * sp_onnx_strip() can give the original back byte for byte. All other bytes, unknown fields included, come out as they
 * went in. A length prefix that was longer than needed keeps its width.
 *
 * Several configurations may be written at once: a model that runs in phases has one for each way to lay its activations.
 *
 * Existing annotations of the same configuration name are replaced, in subgraphs and functions too; other
 * configurations are kept. A replaced annotation that was not ours cannot be given back by sp_onnx_strip().
 *
 * Source: ONNX proposal 0006, IR.md section on multi-device, wire numbers of IR 11.
 */
#include <jansson.h>

#include "base/buf.h"
#include "graph/model.h"
#include "onnx/splice.h"

#define SP_WRITER_METADATA_KEY     "shardplan.annotations"
#define SP_MULTI_DEVICE_IR_VERSION 11

/* One node's annotation. Specs follow proposal 0006; has_stage says whether pipeline_stage is written. */
struct sp_annotation {
    const struct sp_node
        *node; /* of the main graph or a subgraph; what is expanded from a function is not in the file */
    struct sp_node_configuration configuration; /* its configuration_id is ignored: the set's name is used */
};

/* For qsort(): annotations in the order of the file. A node's subgraphs are inside the node, so theirs come after it. */
int sp_annotation_by_place(const void *a, const void *b);

struct sp_annotations {
    const char *configuration; /* the DeviceConfiguration's name, not empty */
    int32_t num_devices;
    const char *const *device_names; /* num_devices of them, or NULL */
    uint32_t count;
    const struct sp_annotation
        *nodes; /* in the order of the file: ascending node->span.offset (sp_annotation_by_place()) */
    /* The configuration is the file's and stays: specs are added behind those that a node has for it, and nodes that
       have none get an entry. sp_onnx_strip() takes exactly these off again. */
    bool is_completing;
    /* {TENSOR: SPEC}, or NULL: how devices hold inputs and weights of the main graph before the first node, where no
       node says it. Kept in the metadata entry; infer/assignment.h reads it. */
    json_t *stored;
    /* Another configuration that is written together with this one, or NULL; neither completes one. All have names of
       their own. */
    const struct sp_annotations *next;
};

/* The annotated model as a splice over the model's bytes; the caller destroys it. */
enum sp_status sp_onnx_annotate(const struct sp_model *model, const struct sp_annotations *annotations,
                                struct sp_splice **ret_splice, struct sp_error *err);

/*
 * The model without multi-device annotations. When the metadata entry of sp_onnx_annotate() is there, exactly what it
 * added is removed and the original `ir_version` restored; otherwise every configuration and node annotation goes.
 */
enum sp_status sp_onnx_strip(const struct sp_model *model, struct sp_splice **ret_splice, struct sp_error *err);

/* The `ir_version` of the model before sp_onnx_annotate() raised it: for files that are made of it and hold no
   annotations. 0 where it had none, and where its record is broken. */
int64_t sp_onnx_original_ir_version(const struct sp_model *model);

/* A ShardingSpecProto alone in canonical proto2 encoding, appended; `scratch` is rewound. SP_ERR_MEMORY is the only
   error. */
enum sp_status sp_encode_sharding_spec(const struct sp_sharding_spec *spec, struct sp_arena *scratch,
                                       struct sp_buf *buf, struct sp_error *err);
