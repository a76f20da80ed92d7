#pragma once
/*
 * workload - a model seen as work: a DAG of nodes that take time and tensors that take memory.
 *
 * The search and the evaluation know nothing of ONNX; they see this. A workload is made from a model whose shapes are
 * known (sp_workload_from_model()), or from a graph of costs (sp_workload_from_costs()).
 *
 * Glossary
 *  weight    a tensor that is there before the first request: initializers, and outputs of folded nodes. It occupies
 *            every device that uses it, once, and is never transferred during a request. One that is quantised has the
 *            bytes of its quantised form (ops/shapes/shapes.h).
 *  folded    a node that runs at load time: no time, no activations; its outputs are weights
 *  alias     a tensor that is another one under a different shape, quantised, or turned for products that read it so
 *            (Reshape, Identity, QuantizeLinear, Transpose): no memory of its own
 *  kind      devices with the same figures share a kind; node seconds are kept per kind
 *  inside    what lies in a node's subgraphs or in the body of the function it calls; it is part of that node. Of an If
 *            whose condition is known it is the branch that is taken
 *  together  nodes that have to be on one device
 *  phase     the same model with other extents, run so often for each request on the same devices (phases/phase_join.h)
 *  state     an input and the output that the next step takes for it (graph/states.h): they are in one stage, in the
 *            same shards, and no shard ends on an axis that grows, so that a loop moves nothing of it
 *
 * Invariants
 *  - Node ids are topological: a node's inputs come from smaller ids.
 *  - Work nodes of a model correspond one to one, in order, to the nodes of its main graph; tensors to its values (id =
 *    value->id).
 *  - Nodes that have to be together have consecutive ids, and none of them is folded: contract.h makes one node of
 *    them.
 *  - A use counts where work is done: consumers are never folded. A folded node still lists its inputs, so that the
 *    graph can be followed through it; they need not be on its device.
 *  - An alias has its root's kind where the root is a weight, else SP_WORK_ACTIVATION. It points to the root itself,
 *    which is no alias. `bytes` of an alias is its size, as what is sent when it crosses a border.
 */
#include "base/cancel.h"
#include "cost/cluster/cluster.h"
#include "cost/kernels/kernels.h"
#include "graph/cost_graph.h"
#include "graph/model.h"
#include "graph/states.h"

#define SP_NO_WORK UINT32_MAX

enum sp_work_kind { SP_WORK_ACTIVATION, SP_WORK_INPUT, SP_WORK_WEIGHT };

/* When a tensor of a workload of several phases takes memory, if it does in its own. */
enum sp_work_life {
    SP_WORK_IN_PHASE,  /* while its phase runs */
    SP_WORK_ALWAYS,    /* in all phases: a state, in the phase in which it is largest */
    SP_WORK_ELSEWHERE, /* never: a state in another phase, which is in the memory of the above */
};

struct sp_work_tensor {
    const char *name;
    const struct sp_value *value; /* NULL in a workload not made from a model */
    enum sp_work_kind kind;
    double bytes;      /* 0 for a tensor that nothing uses and whose size is not known */
    uint32_t producer; /* SP_NO_WORK for inputs and initializers */
    uint32_t alias_of; /* the tensor whose memory this is, or SP_NO_WORK; chains are already followed */
    uint32_t consumer_count;
    uint32_t *consumers; /* ascending, distinct, none of them folded */
    uint32_t phase;      /* whose it is, where there are several; weights of all phases are of the first one */
    enum sp_work_life life;
    bool is_output; /* a result of the model */
    bool has_transfer_seconds;
    double transfer_seconds; /* with has_transfer_seconds: to send it, over whatever link; else its bytes say */
};

struct sp_work_cache; /* cache.h */

struct sp_work_node {
    const char *name;           /* the node's name, or a made-up unique one ("MatMul_12") */
    const struct sp_node *node; /* NULL in a workload not made from a model */
    bool folded;
    double flops, bytes;   /* work and memory traffic, were it a kernel of its own; 0 for folded nodes and views */
    double *moved_bytes;   /* per device kind: traffic as a part of its kernel; NULL: `bytes` */
    double *seconds;       /* per device kind; INFINITY where that cannot run it */
    double *start_seconds; /* of these, what starting its kernel takes, without those inside; NULL: not known */
    double *alone_seconds, *alone_start_seconds; /* the same, were it a kernel of its own; NULL: not known */
    double *measured_scale; /* per kind: how many times the estimate `seconds` are; NULL: nobody measured (profile.h) */
    const uint8_t *classes; /* per kind: enum sp_device_class of its kernel, or of the longest inside it; NULL: somebody
                               measured or stated what it takes */
    double inner_weight_bytes;         /* constants inside it: on its device, beside the weights among its inputs */
    double workspace_bytes;            /* peak of the activations inside it, in memory only while it runs */
    double resident_bytes;             /* kept on its device from request to request: keys and values (cache.h),
                                          states of other micro-batches (micro_batches.h) */
    const struct sp_work_cache *cache; /* what resident_bytes are made of, or NULL */
    uint32_t input_count, output_count;
    uint32_t *inputs, *outputs; /* tensor ids, distinct; inputs include what its subgraphs use by name */
    uint32_t together;          /* 0, or a number that all nodes have that must be on its device */
    uint32_t phase;             /* whose it is, where there are several */
};

/* One of several phases of a workload. Node i of the model is work node i of the first phase, and stands so many nodes
   behind it in each later one; so do tensors. */
struct sp_work_phase {
    const char *name;
    double times; /* how often a request runs it: seconds and bytes sent are of so many runs */
    uint32_t first_node, first_tensor;
};

/* Tensors; the present one is made by a node that runs, and such a node takes the past one. */
struct sp_work_state {
    uint32_t past, present;
    uint32_t axis; /* that is longer in the present one, or SP_STATE_FIXED */
};

struct sp_workload {
    struct sp_arena *arena;
    uint32_t node_count, tensor_count, kind_count;
    struct sp_work_node *nodes;
    struct sp_work_tensor *tensors;
    uint32_t *kind_of;                 /* device -> kind */
    const struct sp_kernels **kernels; /* per kind, of the main graph (cost/kernels/kernels.h); NULL: none are known */
    uint32_t state_count;
    const struct sp_work_state *states;
    uint32_t phase_count; /* 0: one */
    const struct sp_work_phase *phases;
    uint32_t micro_batches;            /* in which each request is cut (cost/micro_batches.h); 0 or 1: none */
    double flops, bytes, weight_bytes; /* totals; weights that a node uses, each once, and those inside nodes */
    double unable_seconds;             /* 0, or what a search takes for INFINITY: see contract.h */
};

/* The tensor whose memory this one is: itself, or what it is an alias of. */
static inline uint32_t sp_work_root(const struct sp_workload *workload, uint32_t tensor)
{
    uint32_t root = workload->tensors[tensor].alias_of;
    return root == SP_NO_WORK ? tensor : root;
}

/* How often a request runs a phase. */
static inline double sp_work_times(const struct sp_workload *workload, uint32_t phase)
{
    return workload->phase_count == 0 ? 1 : workload->phases[phase].times;
}

/* The same node of the model in the first phase: itself, where there is one. */
static inline uint32_t sp_work_first_node(const struct sp_workload *workload, uint32_t node)
{
    return workload->phase_count == 0 ? node : node - workload->phases[workload->nodes[node].phase].first_node;
}

/* Inputs of the model's node; 0 where the workload was not made from a model. */
static inline uint32_t sp_work_operand_count(const struct sp_workload *workload, uint32_t node)
{
    return workload->nodes[node].node == NULL ? 0 : workload->nodes[node].node->input_count;
}

/* Whether this input of a model's node in a later phase is a weight that the node takes in the first phase, too: in every
   phase it is in one layout. */
bool sp_work_ties_weight(const struct sp_workload *workload, uint32_t node, uint32_t operand);

/* Nodes of one phase, ascending nodes being given: entries from .. to - 1 of them. */
struct sp_work_stretch {
    uint32_t from, to;
};
struct sp_work_stretch sp_work_phase_stretch(const struct sp_workload *workload, uint32_t count, const uint32_t *nodes,
                                             uint32_t phase);

/*
 * When a tensor that is alive from *first to *last, entries of these ascending nodes, takes memory: phases run one after
 * the other, so what is there to the end of a stage is there to the end of its phase. A *last beyond all entries is
 * beyond all of the phase. False: it takes none.
 */
bool sp_work_phase_life(const struct sp_workload *workload, uint32_t count, const uint32_t *nodes, uint32_t tensor,
                        uint32_t *first, uint32_t *last);

/* How many nodes use each root, by any of its names, and 0 for other tensors: a weight with one user is that node's
   own. In `arena`; NULL without memory. */
uint32_t *sp_work_users(struct sp_arena *arena, const struct sp_workload *workload);

/*
 * Whether an operand stays in the memory of its device until the request is through there, whoever uses it last: an
 * input of the model that a node takes, or a result of it that a node makes. The caller of the runtime holds both: as
 * with ONNX Runtime it gives the memory of all inputs when it starts a run, and of what it gets none is an input's, so
 * past keys and values are there beside the present ones that they are copied into. All that counts memory asks here.
 * What a step moves of them, where a runtime has both in one buffer, says sp_runtime.caches (cost/kernel_work.h).
 */
static inline bool sp_work_is_held(const struct sp_work_tensor *tensor, bool is_made)
{
    return is_made ? tensor->is_output : tensor->kind == SP_WORK_INPUT;
}

/* Whether a node of a model takes more of its inputs than their shapes. */
bool sp_work_takes_elements(const struct sp_node *node);

/* Of which kernel the node is a part on devices of a kind; NULL: of its own. */
static inline const struct sp_node_kernel *sp_work_kernel(const struct sp_workload *workload, uint32_t kind,
                                                          uint32_t node)
{
    const struct sp_kernels *kernels = workload->kernels != NULL ? workload->kernels[kind] : NULL;
    return kernels != NULL ? &kernels->nodes[node] : NULL;
}

/* What the place in its kernel says of a node's costs, as one number: equal numbers, equal costs. */
static inline uint64_t sp_work_kernel_key(const struct sp_workload *workload, uint32_t kind, uint32_t node)
{
    const struct sp_node_kernel *of = sp_work_kernel(workload, kind, node);
    return of == NULL ? 0
                      : (uint64_t)of->inside << 6 | (uint64_t)of->goes_by_rows << 5 | (uint64_t)of->narrows << 4 |
                            (uint64_t)of->hands_on << 3 | (uint64_t)of->keeps_output << 2 |
                            (uint64_t)of->pays_no_start << 1 | (uint64_t)of->is_in_attention;
}

/* Whether a tensor is handed to a node inside a kernel on devices of a kind, without passing through memory. */
static inline bool sp_work_is_inside(const struct sp_workload *workload, uint32_t kind, uint32_t tensor, uint32_t user)
{
    const uint32_t producer = workload->tensors[tensor].producer;
    const struct sp_node_kernel *made = producer == SP_NO_WORK ? NULL : sp_work_kernel(workload, kind, producer);
    return made != NULL && made->hands_on && made->kernel == sp_work_kernel(workload, kind, user)->kernel;
}

/* Traffic of the node on a device of a kind, as a part of its kernel. */
static inline double sp_work_moved_bytes(const struct sp_work_node *node, uint32_t kind)
{
    return node->moved_bytes != NULL ? node->moved_bytes[kind] : node->bytes;
}

/* What the times of parts of a node have to be multiplied by, where only the whole was measured. */
static inline double sp_work_measured_scale(const struct sp_work_node *node, uint32_t kind)
{
    return node->measured_scale != NULL ? node->measured_scale[kind] : 1;
}

/* Seconds to send a tensor from device a to b; 0 when they are the same. */
static inline double sp_work_transfer_seconds(const struct sp_cluster *cluster, const struct sp_work_tensor *tensor,
                                              uint32_t a, uint32_t b)
{
    if (tensor->has_transfer_seconds)
        return a == b ? 0 : tensor->transfer_seconds;
    return sp_cluster_transfer_seconds(cluster, a, b, tensor->bytes);
}

/*
 * Costs every node of `model` (shapes inferred, dims bound) on the devices of `cluster`; it may be used with every
 * sp_cluster_prefix() of that cluster too. Time and memory are linear in nodes, operands and kinds.
 *
 * An operator without a rule whose outputs' sizes are known is taken as bound by memory: no FLOPs, the bytes of its
 * operands.
 *
 * Errors: SP_ERR_MODEL naming a value whose size is not known (the message says which --dim binds it, or that it
 * depends on data); SP_ERR_UNSUPPORTED naming a node without a rule whose outputs cannot be told, or a value that is no
 * tensor; SP_ERR_CANCELLED.
 */
enum sp_status sp_workload_from_model(struct sp_arena *arena, struct sp_model *model, const struct sp_cluster *cluster,
                                      const struct sp_watch *watch, struct sp_workload **ret_workload,
                                      struct sp_error *err);

/*
 * The workload of a graph of costs on the devices of `cluster`. Kinds are the names of devices (regardless of case).
 * The nodes are in an order in which one device can run them, those of a group together with what lies between them:
 * ret_order[i] is the graph's node of work node i. memory_bytes are weights inside the node; what its edges do not
 * carry of output_bytes is there while it runs.
 *
 * Nodes of the same name get theirs with the id behind it: "Add [7]". The tensor of a node is called as the node;
 * several are "NODE.0", "NODE.1".
 *
 * SP_ERR_MODEL "NO_DEVICE_RUNS": a node, or a whole group, has no seconds for any device of the cluster.
 * "DEVICE_WITHOUT_SECONDS": a device of the cluster has none for any node.
 */
enum sp_status sp_workload_from_costs(struct sp_arena *arena, const struct sp_cost_graph *graph,
                                      const struct sp_cluster *cluster, uint64_t hash_seed,
                                      struct sp_workload **ret_workload, uint32_t **ret_order, struct sp_error *err);

/* Kernels of one class reach one share of what a device can do. */
enum sp_kernel_class {
    SP_KERNEL_OTHER,               /* elementwise operators and copies */
    SP_KERNEL_NORM,                /* what goes through rows (sp_kernel_goes_by_rows()) */
    SP_KERNEL_PRODUCT,             /* matrix products, and convolutions that are such */
    SP_KERNEL_CONVOLUTION,         /* with windows of several elements */
    SP_KERNEL_GROUPED_CONVOLUTION, /* and in groups of channels, each of its own */
    SP_KERNEL_PREFILL,             /* attention of several queries of each sequence, whatever a device has of them */
    SP_KERNEL_DECODE,              /* attention of one query of each sequence */
    SP_KERNEL_NARROWING            /* a pass that quantises activations, by the figures of sp_device_narrowing */
};

/* An attention on one device. */
struct sp_attention_shape {
    double batch, heads, kv_heads; /* sequences; heads of queries, and of keys and values, of each */
    double queries, keys;          /* of each sequence; of the keys, those that any query sees */
    double size;                   /* elements of a head; half of them in each of two products */
};

/* What one kernel does: of the roofline's ceilings, the highest time counts. */
struct sp_kernel_work {
    double flops, bytes;
    double functions; /* elements of which an exponential, a power, ... is computed (SP_OP_FUNCTION) */
    bool permutes;    /* it changes the order of elements (SP_OP_PERMUTES): its bytes are not read in a row */
    enum sp_kernel_class kind;
    struct sp_attention_shape attention; /* of both attentions */
    double rows;                         /* of a narrowing: activations by the extent of the last axis */
    bool pays_no_start;                  /* another operator of the same kernel has it (cost/kernels/kernels.h) */
    double more_starts;                  /* of an operator that is several kernels (ops/table/traffic.h) */
};

/*
 * Roofline time of one operator on one device: 0 when it does nothing, else
 *
 *   start + longest of {flops / (peak(dtype) f), bytes / (bandwidth m), functions / (functions_per_second m)}
 *         + unhidden * (sum of the others)
 *
 * with the device's permuted bandwidth where the operator permutes. Accelerators hide the shorter times behind the
 * longest; a processor core, which waits for its loads, adds them up. start, f and m are those of the kernel's class
 * and type (sp_device_product() and its like); of a device without any, f = m = SP_DEFAULT_EFFICIENCY and the start is
 * SP_DEFAULT_LAUNCH_SECONDS. Where a cluster states them, f = m = its efficiency and the start is its launch_seconds.
 * On a GPU a start is at least the runtime's kernel_seconds.
 *
 *   prefill   f / (1 + half_queries / queries) / idle, idle = units / blocks of 128 queries, from 1 to 8
 *   convolutions  with the ratios of sp_device_convolution() to products; grouped ones with the peak of float32
 *   decode    keys and values count as those of tile_keys positions at least
 *
 *   narrowing rows * row_seconds more, by the runtime's own figures where the device has them, else as others
 *
 * Cutting a node in k parts makes none of the times less than 1/k of the whole's, and no start smaller.
 *
 * Sources: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009 (ceilings); Stengel, Treibig, Hager, Wellein,
 * "Quantifying performance bottlenecks of stencil computations using the Execution-Cache-Memory model", ICS 2015 (times
 * that do not overlap on x86); forms of attention: api/devices/fitting/forms.py.
 */
double sp_roofline_seconds(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                           const struct sp_kernel_work *work);

/* Of which class such a kernel is, which says how far its time is off. */
enum sp_device_class sp_roofline_class(enum sp_dtype dtype, enum sp_kernel_class kind);

/* How far times of such kernels are off there: where the cluster states what kernels reach, as of devices without a
   kind. */
struct sp_device_residual sp_roofline_residual(const struct sp_device *device, const struct sp_cluster *cluster,
                                               enum sp_device_class class);

/* What of these is the start. */
double sp_roofline_start_seconds(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                                 const struct sp_kernel_work *work);

/* What one side of a kernel of this class that is cut takes more, for so many bytes that it had handed on: to write
   them, or, as one that `starts`, to start and read them. */
double sp_roofline_cut_seconds(const struct sp_device *device, const struct sp_cluster *cluster,
                               enum sp_kernel_class class, double bytes, bool starts);

/* Of which class the kernel is, on devices of a kind, that is cut at a tensor. */
static inline enum sp_kernel_class sp_work_cut_class(const struct sp_workload *workload, uint32_t kind, uint32_t tensor)
{
    const uint32_t producer = workload->tensors[tensor].producer;
    const struct sp_node_kernel *of = producer == SP_NO_WORK ? NULL : sp_work_kernel(workload, kind, producer);
    return of != NULL && of->goes_by_rows ? SP_KERNEL_NORM : SP_KERNEL_OTHER;
}

/* The start, f and m of the above. */
struct sp_kernel_reach {
    double start_seconds, flops_share, memory_share;
};
struct sp_kernel_reach sp_roofline_reach(const struct sp_device *device, const struct sp_cluster *cluster,
                                         enum sp_dtype dtype, enum sp_kernel_class kind);

/*
 * The element type whose peak bounds a node: of the largest floating input where the first output is floating (of that
 * output where no input is); else of the first input, so that quantised products count as int8. A node whose first two
 * inputs are both quantised, or dequantised, runs in that type where the device is faster in it: weights that are
 * quantised alone are read as such, and multiplied in the type of the activations.
 */
enum sp_dtype sp_node_dtype(const struct sp_device *device, const struct sp_node *node);

/* What one node does, everything inside it included. */
struct sp_node_cost {
    double flops, bytes;
    double inner_weight_bytes, workspace_bytes; /* as in sp_work_node */
};

/* Room for what a node takes on each of several devices. */
struct sp_node_times {
    double *seconds, *start_seconds;
    double *alone_seconds, *alone_start_seconds; /* were it a kernel of its own */
    double *moved_bytes;
    uint8_t *classes; /* of its longest kernel */
};

/* The devices that a node is timed on. */
struct sp_timed_devices {
    const struct sp_cluster *cluster;
    uint32_t count; /* 0: nothing is timed, and the cluster may be NULL */
    const struct sp_device *const *items;
    const struct sp_kernels *const *kernels; /* of the graph that the node is in, per device; NULL, or an entry NULL:
                                                each operator is a kernel of its own */
};

/*
 * The cost of one node. All 0 for folded nodes, views, and operators that look at shapes only.
 *
 * Inside a node each operator is a kernel of its own: FLOPs, bytes and seconds add up. A loop counts its body once per
 * trip when the number of trips is known, else once; of the branches of an If the most expensive one counts, figure by
 * figure, or the one that is taken where the condition is known. Sizes that are not known inside count as nothing.
 *
 * FLOPs and bytes are those of the operators, each a kernel of its own; of kernels of several, seconds count what
 * passes through memory, which is times->moved_bytes.
 *
 * times->seconds[k] is the node's time on devices->items[k], times->start_seconds[k] what of it is its own start;
 * `times` may be NULL without devices. Errors are those of sp_op_rule().
 */
enum sp_status sp_node_cost(struct sp_model *model, struct sp_node *node, struct sp_arena *scratch,
                            const struct sp_timed_devices *devices, struct sp_node_cost *ret_cost,
                            const struct sp_node_times *times, struct sp_error *err);

/* FLOPs and traffic of one node, as sp_node_cost(). */
enum sp_status sp_node_work(struct sp_model *model, struct sp_node *node, struct sp_arena *scratch, double *ret_flops,
                            double *ret_bytes, struct sp_error *err);
