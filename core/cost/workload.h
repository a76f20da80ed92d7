#pragma once
/*
 * workload - a model seen as work: a DAG of nodes that take time and tensors that take memory.
 *
 * The search and the evaluation know nothing of ONNX; they see this. A workload is made from a model whose shapes are
 * known (sp_workload_from_model()); cost graphs that come as JSON will make the same.
 *
 * Glossary
 *  weight    a tensor that is there before the first request: initializers, and outputs of folded nodes. It occupies
 *            every device that uses it, once, and is never transferred during a request.
 *  folded    a node that runs at load time: no time, no activations; its outputs are weights
 *  alias     a tensor that is another one under a different shape (Reshape, Identity): no memory of its own
 *  kind      devices with the same figures share a kind; node seconds are kept per kind
 *
 * Invariants
 *  - Node ids are topological: a node's inputs come from smaller ids.
 *  - Work nodes correspond one to one, in order, to the nodes of the model's main graph.
 */
#include "base/cancel.h"
#include "cost/cluster.h"
#include "graph/model.h"

#define SP_NO_WORK UINT32_MAX

enum sp_work_kind { SP_WORK_ACTIVATION, SP_WORK_INPUT, SP_WORK_WEIGHT };

struct sp_work_tensor {
    const char *name;
    const struct sp_value *value; /* NULL in a workload not made from a model */
    enum sp_work_kind kind;
    double bytes;
    uint32_t producer; /* SP_NO_WORK for inputs and initializers */
    uint32_t alias_of; /* the tensor whose memory this is, or SP_NO_WORK; chains are already followed */
    uint32_t consumer_count;
    uint32_t *consumers; /* ascending, distinct */
    bool is_output;      /* a result of the model: alive to the end */
};

struct sp_work_node {
    const char *name;           /* the node's name, or a made-up unique one ("MatMul_12") */
    const struct sp_node *node; /* NULL in a workload not made from a model */
    bool folded;
    double flops, bytes; /* work and memory traffic; 0 for folded nodes and views */
    double *seconds;     /* per device kind */
    uint32_t input_count, output_count;
    uint32_t *inputs, *outputs; /* tensor ids, distinct */
};

struct sp_workload {
    struct sp_arena *arena;
    uint32_t node_count, tensor_count, kind_count;
    struct sp_work_node *nodes;
    struct sp_work_tensor *tensors;
    uint32_t *kind_of;                 /* device -> kind */
    double flops, bytes, weight_bytes; /* totals; weights counted once */
};

/*
 * Costs every node of `model` (shapes inferred, dims bound) on the devices of `cluster`.
 *
 * Errors: SP_ERR_MODEL or SP_ERR_UNSUPPORTED naming the node whose work cannot be told: an unknown operator, an unbound
 * dimension (the message says which --dim binds it).
 */
enum sp_status sp_workload_from_model(struct sp_arena *arena, struct sp_model *model, const struct sp_cluster *cluster,
                                      const struct sp_watch *watch, struct sp_workload **ret_workload,
                                      struct sp_error *err);

/*
 * Roofline time of one operator on one device:
 *
 *   0 when it does nothing;  else  max(flops / (efficiency * peak(dtype)), bytes / (efficiency * bandwidth)) + launch
 *
 * Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; efficiency and launch as in cluster.h.
 */
double sp_roofline_seconds(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                           double flops, double bytes);

/* FLOPs and traffic of one node, subgraphs and expanded bodies included (a loop body counts once per known trip, else
   once). 0 for folded nodes and views. */
enum sp_status sp_node_work(struct sp_model *model, struct sp_node *node, struct sp_arena *scratch, double *ret_flops,
                            double *ret_bytes, struct sp_error *err);
