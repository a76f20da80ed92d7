#pragma once
/* backend_cases - the cases of ONNX's backend tests in memory, with the values of their inputs. */
#include <stdbool.h>

#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "ops/table/op.h"

#define MAX_PATH 1024

struct backend_case {
    const char *name;      /* "test_abs" */
    char folder[MAX_PATH]; /* that holds model.onnx and test_data_set_0 */
    struct sp_arena *arena;
    struct sp_model *model;
    unsigned char *bytes;
    struct sp_type *expected; /* by value id: what the file declares of node outputs, which was taken away */
    struct sp_error err;
};

/* Reads the model, takes the declarations of what nodes make away, and gives the inputs their values. */
bool backend_open(struct backend_case *test, const char *folder, const char *name);
void backend_close(struct backend_case *test);

/* The elements of test_data_set_0/KIND_INDEX.pb, or NULL: not there, no plain numbers, or too many. */
struct sp_data *backend_elements(const struct backend_case *test, const char *kind, uint32_t index);

/* Calls visit() with each case below `root` in the order of names; the number of cases. */
unsigned backend_each(const char *root, void (*visit)(struct backend_case *test, void *context), void *context);

/* Which entries of the operator table had their rule made, by how many nodes: the table that is printed. */
struct coverage;
struct coverage *coverage_create(void);
void coverage_destroy(struct coverage *coverage);
/* Makes the rule of each node of all graphs of the model, and its parts for each way of splitting a factor
   (lowering_check.h); false, with a line printed, when one is refused. */
bool coverage_add(struct coverage *coverage, const char *name, struct sp_model *model);
/* Prints the table; the number of its entries that no node had. */
unsigned coverage_print(const struct coverage *coverage);
/* Kinds of factors that rules had and that the operator's text does not speak of; each printed. */
unsigned coverage_silent_texts(const struct coverage *coverage);
