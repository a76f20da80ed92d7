#pragma once
/*
 * simulate_variant - a case of the backend tests as the simulation takes it.
 *
 * Where extents depend on the values of inputs (shapes, axes, sizes), a plan needs them known. A variant of the case
 * has these inputs as initializers. `mask` has a bit for each graph input that is one.
 */
#include "backend_cases.h"
#include "infer/dataflow.h"

#define SIMULATE_MAX_INPUTS 32

/* A case's model, read and with its shapes, and the only node's relation and rule. */
struct simulate_case {
    struct sp_arena *arena;
    unsigned char *bytes; /* of the file, from malloc */
    size_t size;
    struct sp_model *model;
    struct sp_dataflow *dataflow;
    const struct sp_relation *relation; /* NULL: the node is what its graphs are */
    struct sp_rule *rule;
    struct sp_error err;
};

/* Reads the file and infers; the values of the inputs in `mask` are known, as the case `test` has them (NULL: a model
   of ours, nothing is known). False with the error in `opened->err`. To be closed in any case. */
bool simulate_open(struct simulate_case *opened, const char *path, struct backend_case *test, uint32_t mask);
void simulate_close(struct simulate_case *opened);

/* The inputs without which less is known of types or of the rule. */
uint32_t simulate_needed(struct backend_case *test, const char *path);

/* The inputs that an operator may ask the numbers of: integer scalars and short vectors, the first input excepted. */
uint32_t simulate_numbers(const struct backend_case *test);

/* Writes the case's file with these inputs as initializers to `fixed_path`; false when one cannot be. */
bool simulate_fix_inputs(struct backend_case *test, const char *path, uint32_t mask, const char *fixed_path);
