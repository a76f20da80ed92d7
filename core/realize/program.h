#pragma once
/*
 * program - one ONNX graph while it is written: nodes and weights in recipes, and what pieces are called.
 *
 * A piece has its own name unless something else is the same tensor already: a whole input, an equal box of a weight
 * that another device has in the same program, a piece that an exchange passes on. Then it is another name of that
 * (an alias), and no node is written. Constants and boxes that are equal are written once.
 */
#include "base/hash_map.h"
#include "realize/encode.h"
#include "realize/realize.h"

struct sp_program {
    const struct sp_realize_request *request;
    const struct sp_model *model;
    struct sp_arena *arena;         /* names, tables */
    struct sp_arena *scratch;       /* of one call of a sink */
    struct sp_recipe *nodes;        /* fields of GraphProto */
    struct sp_recipe *initializers; /* and what values are; fields of GraphProto, too */
    struct sp_recipe *message;      /* at work */
    struct sp_recipe *function;     /* a FunctionProto that the file has, or NULL */
    uint32_t constant_count, constant_capacity;
    const char **constants; /* names of the initializers */
    struct sp_weights weights;
    struct sp_encoder encoder;
    int64_t opset;                 /* of ai.onnx */
    const char *marker;            /* "@", "@@", ..: in no name of the model */
    struct sp_intern *aliases;     /* pieces with another name than their own */
    struct sp_intern *made;        /* constants, boxes of inputs and weights: what they are -> their name */
    struct sp_intern *defaults;    /* inputs with a default that stay inputs */
    struct sp_intern *opsets;      /* domains that are used: the mark is the version */
    struct sp_intern *taken;       /* NULL, or while an exchange is written: nodes -> their output */
    struct sp_hash_map node_names; /* digests of those in use */
    uint64_t next;                 /* number of the next name */
    const char *hint;              /* what new names begin with */
    const char *fingerprint;       /* of the manifest, which the model's metadata say (SP_MANIFEST_KEY); NULL: none */
    /* Where a member's piece before an exchange is found; NULL: under its own name. *ret_is_cut: the result is the box
       of it, not all of it. */
    enum sp_status (*source)(void *context, const struct sp_exchange *exchange, uint32_t member,
                             const struct sp_range *box, const char **ret_name, bool *ret_is_cut, struct sp_error *err);
    void *source_context;
    /* Subgraphs: captures of the operator at work. */
    struct sp_intern *captures;
    const struct sp_value *missing; /* one that the operator does not list */
    const char *inner_suffix;       /* for what subgraphs of a function's body define */
};

enum sp_status sp_program_init(struct sp_program *program, const struct sp_realize_request *request,
                               struct sp_error *err);
void sp_program_release(struct sp_program *program);

/* Whether what exchanges pieces is written in operators of a version that ONNX Runtime has no kernels for, and the note
   that says so. */
bool sp_program_is_old(const struct sp_realize_request *request, struct sp_part_note *ret_note);

/* What a piece is called here. */
const char *sp_program_name(const struct sp_program *program, const struct sp_piece *piece);
enum sp_status sp_program_alias(struct sp_program *program, const struct sp_piece *piece, const char *name,
                                struct sp_error *err);

/* The word that a table carries for these bytes; NULL without memory. */
void **sp_program_entry(struct sp_intern *table, const void *bytes, size_t size);

/* ---- program_nodes.c: operators; results are named `want`, or anew where that is NULL. The same inputs to the same
   operator give the same result while program->taken is set. ------------------------------------------------------- */

struct sp_program_op {
    const char *op_type, *domain; /* NULL: ai.onnx */
    uint32_t input_count, attribute_count;
    const char *const *inputs;
    const struct sp_lower_attribute *attributes;
    const char *want;
};

/* An operator of ai.onnx with one output. */
enum sp_status sp_program_emit(struct sp_program *program, const struct sp_program_op *op, const char **ret_name,
                               struct sp_error *err);
/* int64 [count], written once. */
enum sp_status sp_program_ints(struct sp_program *program, uint32_t count, const int64_t *values, const char **ret_name,
                               struct sp_error *err);
/* A tensor that is cut. */
struct sp_program_tensor {
    const char *name;
    uint32_t rank;
    const int64_t *dims; /* -1: not known; NULL: none known */
};
/* One range of each axis; a limit of -1 is the end of an axis. Ranges that are whole are not cut; where none is left the
   result is the tensor. */
enum sp_status sp_program_slice(struct sp_program *program, const struct sp_program_tensor *x,
                                const struct sp_range *ranges, const char *want, const char **ret_name,
                                struct sp_error *err);
/* Any box, of any type. */
enum sp_status sp_program_cut(struct sp_program *program, const struct sp_program_tensor *x, enum sp_dtype dtype,
                              const struct sp_box *box, const char *want, const char **ret_name, struct sp_error *err);
/* Slice and Concat have no types of less than a byte and no float8, and Concat floats only before version 4: these are
   carried as another type that holds all their values. The type itself for all others. */
enum sp_dtype sp_program_carrier(const struct sp_program *program, enum sp_dtype dtype);
enum sp_status sp_program_cast(struct sp_program *program, const char *x, enum sp_dtype dtype, const char *want,
                               const char **ret_name, struct sp_error *err);
enum sp_status sp_program_concat(struct sp_program *program, uint32_t axis, uint32_t count, const char *const *names,
                                 const char *want, const char **ret_name, struct sp_error *err);
/* `parts` has the inputs, of this type, and the name that the result shall have. */
enum sp_status sp_program_combine(struct sp_program *program, enum sp_combiner combiner, enum sp_dtype dtype,
                                  const struct sp_program_op *parts, const char **ret_name, struct sp_error *err);
/* program->message becomes an initializer of the graph, whose field it says (SP_PUT_GRAPH_INITIALIZER or .._SPARSE_..);
   `name` lives as long as the program. */
enum sp_status sp_program_add_initializer(struct sp_program *program, uint32_t field, const char *name,
                                          struct sp_error *err);
/* A name that nothing has. */
const char *sp_program_fresh(struct sp_program *program, const char *what);
/* `name`, or with a number where another node has it. NULL without memory. */
const char *sp_program_node_name(struct sp_program *program, const char *name);

/* ---- program_parts.c: what a partition tells ----------------------------------------------------------------------
 */

/* A part of an input: the graph has an input of this name. */
enum sp_status sp_program_input(struct sp_program *program, const struct sp_part_source *source, struct sp_error *err);
enum sp_status sp_program_weight(struct sp_program *program, const struct sp_part_source *source, struct sp_error *err);
enum sp_status sp_program_constant(struct sp_program *program, const struct sp_part_constant *constant,
                                   struct sp_error *err);
enum sp_status sp_program_operator(struct sp_program *program, const struct sp_part_op *op, struct sp_error *err);
/* Whether the operator means the same in the model's operator sets as where the node stands; imports the domain. */
enum sp_status sp_program_check_opset(struct sp_program *program, const struct sp_node *node, const char *domain,
                                      const char *op_type, struct sp_error *err);
/* The piece `after` of one member, from the pieces before of its group; they must all be of this program. */
enum sp_status sp_program_member(struct sp_program *program, const struct sp_exchange *exchange, uint32_t member,
                                 struct sp_error *err);

/* ---- program_model.c ----------------------------------------------------------------------------------------------
 */

/* The operator sets that are used, each as a field of this number. */
void sp_program_put_opsets(const struct sp_program *program, struct sp_recipe *out, uint32_t field);

/* The whole file: `interface` has the fields for inputs and outputs. The caller destroys the recipe. */
enum sp_status sp_program_finish(struct sp_program *program, const struct sp_recipe *interface, const char *name,
                                 struct sp_recipe **ret_recipe, struct sp_error *err);
