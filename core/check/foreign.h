#pragma once
/*
 * foreign - shardings that other programs write into a model; private to core/check.
 *
 *   foreign.c          every node and value of every graph
 *   foreign_ort.c      ONNX Runtime's Distributed* nodes: their attributes
 *   foreign_kernels.c  what its kernels do with them
 *   foreign_views.c    what they make devices exchange, by the rule of the operator that they distribute
 *   foreign_hlo.c      XLA's shardings in metadata
 *   foreign_codes.c    the table
 */
#include "check/check.h"
#include "infer/view/view.h"
#include "sharding/dialect.h"

struct sp_foreign_check {
    struct sp_model *model;
    struct sp_diagnostics *list;
    struct sp_arena *scratch; /* rewound after each node */
    struct sp_error *err;
    const struct sp_dataflow *dataflow;
    struct sp_assignment *assignment; /* of the Distributed* nodes' specs; NULL while there are none */
    int64_t device_count;             /* that they name */
};

/* An operand of a Distributed* node. */
struct sp_ort_operand {
    const struct sp_value *value; /* NULL: there are more specs than operands */
    struct sp_ort_spec spec;
    uint32_t sharded_count;
    int64_t axis;                       /* the first sharded one, or -1 */
    const struct sp_sharding *sharding; /* NULL: the devices repeat in no regular way */
};

struct sp_ort_node {
    const struct sp_node *node;
    uint32_t input_count, output_count; /* with a spec */
    struct sp_ort_operand *inputs, *outputs;
};

__attribute__((format(printf, 5, 6))) enum sp_status sp_foreign_report(struct sp_foreign_check *check, const char *code,
                                                                       const struct sp_node *node, const char *tensor,
                                                                       const char *format, ...);

#define SP_ORT_DOMAIN "com.microsoft"
bool sp_is_ort_distributed(const struct sp_node *node);
enum sp_status sp_check_ort_node(struct sp_foreign_check *check, const struct sp_node *node);

/* What ONNX Runtime's kernel does with a node whose attributes are sound. */
enum sp_status sp_check_ort_kernel(struct sp_foreign_check *check, const struct sp_ort_node *ort);

/* The extent of an axis of the whole tensor: that is what a Distributed* node's values have here. -1: not known. */
int64_t sp_ort_extent(const struct sp_ort_operand *operand, uint32_t axis);

/* Notes the specs of a node's operands; then what all noted nodes communicate. */
enum sp_status sp_ort_state(struct sp_foreign_check *check, const struct sp_ort_node *ort);
enum sp_status sp_check_ort_views(struct sp_foreign_check *check);

/* Metadata of a node (for its outputs), of a value and of the model. */
enum sp_status sp_check_hlo_node(struct sp_foreign_check *check, const struct sp_node *node);
enum sp_status sp_check_hlo_value(struct sp_foreign_check *check, const struct sp_value *value);
enum sp_status sp_check_hlo_model(struct sp_foreign_check *check);
