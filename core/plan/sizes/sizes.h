#pragma once
/*
 * sizes - what a caller says of a model's sizes, beside what the file says.
 *
 *     {"dims": {NAME: N}, "values": {INPUT: V}, "shapes": {TENSOR: SHAPE}, "operators": [..], "state": [..]}
 *
 *   dims     NAME is a symbol of the model ("seq"), also one that inference made for an operator whose result depends
 *            on data ("NonZero_0"); the axis of a tensor ("x:1"); or arithmetic over symbols, as the file writes it
 *            ("past + sequence"): then those that are not given follow. N is 0 or more.
 *   values   V is the value of a graph's input: true, false, a number, or lists of them. What follows from it is known,
 *            too: shapes, which branch of an If runs.
 *   shapes   SHAPE is [2, "seq", null], or {"dtype": "float16", "shape": [..]}: numbers, names or arithmetic as a file
 *            has them, null for what is not known. Of tensors that nobody knows the shape of, outputs of unknown
 *            operators first of all.
 *   operators  rules of operators that the table does not have (ops/table/private.h).
 *   state    which outputs are the inputs of the next step (plan/sizes/given_states.h).
 *
 * They hold for one reading of a model (plan/sizes/bind.h). What contradicts them, or each other, is SP_ERR_REQUEST.
 */
#include <jansson.h>

#include "base/json_writer.h"
#include "graph/given.h"

#define SP_MAX_BOUND_DIMS   4096 /* dimensions that one request may bind */
#define SP_MAX_GIVEN_VALUES 64   /* inputs whose value one request may give */
#define SP_MAX_GIVEN_SHAPES 4096 /* tensors whose shape one request may give */

struct sp_sizes {
    uint32_t dim_count;
    const char *const *dim_names;
    const int64_t *dim_values;
    struct sp_given given; /* all others */
};

/* Whether `member` is one of those that sp_sizes_parse() reads. */
bool sp_sizes_is_member(const char *member);

/* Reads the five members of `json`, of which `pointer` is the JSON pointer, and no others; absent ones are empty. All
   is copied into `arena`. */
enum sp_status sp_sizes_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                              struct sp_sizes *ret_sizes, struct sp_error *err);

/* The members that are not empty, "dims" always; each by name. False without memory. */
bool sp_sizes_write(struct sp_arena *arena, const struct sp_sizes *sizes, struct sp_json *json);
