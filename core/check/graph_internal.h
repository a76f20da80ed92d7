#pragma once
/*
 * graph_internal - what the parts of sp_check_graph() share; private to core/check.
 *
 * A check goes over graphs one by one: the main graph, then the graphs below it in the order in which they are found,
 * then each function's body and the graphs below that. Function bodies are read for the check and dropped again.
 */
#include "base/arena.h"
#include "base/hash_map.h"
#include "check/check.h"
#include "graph/model.h"
#include "ops/table/signature.h"

/* What one (domain, operator, overload) is under one list of imports: found once, however many nodes are of it. */
struct sp_known_operator {
    const char *domain, *op_type, *overload;
    const struct sp_opset *opsets;
    int64_t version; /* imported; 0: the domain is not */
    const struct sp_signature *signature;
    const struct sp_function *function; /* of the model, or NULL */
    int64_t first;                      /* without a signature: the least version that has the operator, or 0 */
    bool is_published;                  /* its domain is one whose operators ONNX defines */
    bool is_noted;
};

struct sp_graph_check {
    struct sp_model *model;
    struct sp_diagnostics *list;
    struct sp_error *err;
    struct sp_arena *scratch;
    const struct sp_function *function; /* whose body is being checked, or NULL */

    struct sp_hash_map operators; /* that are known, in an arena of their own */

    const struct sp_graph **graphs; /* those of the current root, in order; more are appended while it is checked */
    uint32_t graph_count, graph_capacity;
};

/* graph_operators.c: what the node is an operator of; NULL without memory. */
struct sp_known_operator *sp_known_operator(struct sp_graph_check *check, const struct sp_node *node);

/* graph_model.c */
enum sp_status sp_check_model_fields(struct sp_graph_check *check);
/* The inputs and outputs of the main graph have types. */
enum sp_status sp_check_interface(struct sp_graph_check *check);

/* graph_nodes.c: a node and its attributes but not what is inside of them. */
enum sp_status sp_check_node(struct sp_graph_check *check, const struct sp_node *node);

/* graph_types.c: element types of inputs against the signature. */
enum sp_status sp_check_node_types(struct sp_graph_check *check, const struct sp_node *node,
                                   const struct sp_signature *signature);

/* graph_tensors.c; `node` is NULL for an initializer of `graph`. */
enum sp_status sp_check_tensor(struct sp_graph_check *check, const struct sp_graph *graph, const struct sp_node *node,
                               const struct sp_tensor *tensor);
enum sp_status sp_check_sparse(struct sp_graph_check *check, const struct sp_graph *graph, const struct sp_node *node,
                               const struct sp_sparse_tensor *sparse);

/* graph_functions.c: a function but for its body; and an operator of its body against the model's imports. */
enum sp_status sp_check_function(struct sp_graph_check *check, const struct sp_function *function);
enum sp_status sp_check_function_node(struct sp_graph_check *check, const struct sp_node *node);

/* Sorts the texts and gives the first that is there twice, or NULL. */
const char *sp_first_duplicate(const char **texts, uint32_t count);
