#pragma once
/*
 * kernels - which operators of a graph a runtime computes as one kernel.
 *
 * A kernel reads what comes from outside, keeps what its operators hand to each other in registers, and writes what is
 * used outside. So a node in a kernel has its own share of the kernel's work: its FLOPs, the bytes of its operands that
 * pass through memory, and, for one node of each kernel, the start. Shares add up whatever else is split or placed.
 *
 * How kernels are found, in the graph's order (rules of operators say what a node is, ops/table/op.h):
 *   elementwise   each element of the output comes from one of each input; views are part of the kernel they read from
 *   normalisation reductions along the last axes of one input, alone or with the result divided by them (Softmax)
 *   product       a sum over what two inputs have in common: MatMul, Gemm, Conv, Einsum
 * An elementwise node or a normalisation joins the kernel of a producer as the runtime's table says (runtime.h), when
 * all else that it takes is there before that kernel starts. A product, elementwise nodes, a softmax and a product of
 * that are attention. Products of one value by constants of as many rows have one start, where the runtime lays these
 * side by side. Every other node is alone.
 *
 * What splits a kernel between two nodes, a border of stages or a collective, makes two of it: the first one writes
 * what it hands on, the second starts and reads that (sp_roofline_cut_seconds()).
 *
 * A QuantizeLinear whose result products dequantise is a view. It takes a pass over memory where what makes its input
 * is no kernel that the runtime joins it to; of several of one value the first does.
 */
#include "base/arena.h"
#include "base/error.h"
#include "cost/kernels/runtime.h"
#include "graph/model.h"

#define SP_KERNEL_MAX_INPUTS 32 /* of a node, that are told apart; others are read from memory */

struct sp_node_kernel {
    uint32_t kernel;    /* the index of its first node */
    uint32_t inside;    /* a bit for each input that is not read from memory: it is made in the same kernel, or another
                           node of that has read it before */
    bool keeps_output;  /* output 0 is not written to memory: it is used in the same kernel alone, or, being the result
                             of a product's kernel, counts where the product is */
    bool pays_no_start; /* another node of the kernel has its start */
    bool hands_on;      /* output 0 is used in the same kernel by what does work */
    bool goes_by_rows;  /* of a chain with a normalisation, or of a gate: a function of one tensor and another tensor */
    bool is_in_attention; /* of a kernel that is attention */
    bool narrows;         /* a pass of its own quantises the activations of a narrow product; else that is no kernel */
};

struct sp_device;

struct sp_kernels {
    uint32_t node_count;
    struct sp_node_kernel *nodes; /* by the node's index */
};

/*
 * The kernels of one graph, whose shapes are inferred, without those inside its nodes. Linear in operands, but for a
 * bounded search behind each join. In `arena`; errors are those of sp_op_rule().
 */
enum sp_status sp_kernels_find(struct sp_arena *arena, struct sp_model *model, const struct sp_graph *graph,
                               const struct sp_runtime *runtime, struct sp_kernels **ret_kernels, struct sp_error *err);

/* The same for each of several devices, found once for each runtime among them (sp_device_joins()); NULL for one on
   which every operator is a kernel of its own. ret_kernels is an array of `count`. */
enum sp_status sp_kernels_of_devices(struct sp_arena *arena, struct sp_model *model, const struct sp_graph *graph,
                                     const struct sp_device *const *devices, uint32_t count,
                                     const struct sp_kernels ***ret_kernels, struct sp_error *err);
