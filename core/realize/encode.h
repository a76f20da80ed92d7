#pragma once
/*
 * encode - nodes as NodeProtos, with all that they hold: attributes of every kind, and subgraphs.
 *
 * Subgraphs are written from memory, so that references to a function's attributes are resolved, names of outer values
 * are the pieces that they are here, and annotations of devices are gone. They are written from the inside outwards
 * with one recipe for each open message: no recursion.
 */
#include "partition/partition.h"
#include "realize/weights.h"

struct sp_encode_frame;

struct sp_encoder {
    const struct sp_model *model;
    struct sp_weights *weights;
    /* What a subgraph's outer value is called here. */
    const char *(*outer_name)(void *context, const struct sp_value *value);
    /* Asked for each node of a subgraph; may be NULL. */
    enum sp_status (*check)(void *context, const struct sp_node *node, struct sp_error *err);
    void *context;
    const char *inner_suffix; /* appended to names that subgraphs define; "" for none */
    uint32_t node_field;      /* of the nodes that are appended: SP_PUT_GRAPH_NODE, or SP_PUT_FUNCTION_NODE */
    bool has_calls;           /* a subgraph was written, or a node that calls a function: functions are needed */
    struct sp_encode_frame *frames;
    struct sp_recipe *tensor; /* the tensor at work */
};

/* SP_ERR_MEMORY. */
enum sp_status sp_encoder_init(struct sp_encoder *encoder, const struct sp_model *model, struct sp_weights *weights,
                               struct sp_error *err);
void sp_encoder_release(struct sp_encoder *encoder);

struct sp_encode_operator {
    const char *domain, *op_type, *overload, *name;
    uint32_t input_count, output_count;
    const char *const *inputs; /* "" where omitted */
    const char *const *outputs;
    const struct sp_node *node; /* whose attributes it has; or NULL */
    uint32_t attribute_count;   /* that replace those of the node, or are more */
    const struct sp_lower_attribute *attributes;
};

/* Appends the operator as a node of a graph, or of a function: a field of encoder->node_field. */
enum sp_status sp_encode_operator(struct sp_encoder *encoder, struct sp_recipe *graph,
                                  const struct sp_encode_operator *op, struct sp_error *err);

/* A function of the model as it stands, but for annotations of devices (field 25 of ModelProto). */
enum sp_status sp_encode_function(const struct sp_model *model, struct sp_recipe *out,
                                  const struct sp_function *function, struct sp_error *err);
