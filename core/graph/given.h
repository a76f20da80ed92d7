#pragma once
/*
 * given - what somebody knows of a model beside its file: values of inputs, shapes of tensors, rules of operators, and
 * which outputs a step hands to the next one.
 *
 * sp_model_give() takes them after reading and before shapes are inferred. A value becomes the known elements of its
 * input. A shape stands in place of what the file declares: inference fills with it what operators leave open.
 * sp_model_verify_given() says afterwards whether the operators agree.
 */
#include "base/hash_map.h"
#include "base/limits.h"
#include "graph/model.h"

struct sp_given_value {
    const char *input;
    uint32_t rank, count; /* rank 0: one number, which an input of any rank is filled with */
    int64_t dims[SP_MAX_RANK];
    double *reals;       /* all numbers */
    const int64_t *ints; /* the same; NULL where some are no integers */
    bool is_bool;        /* written true and false */
};

struct sp_given_extent {
    const char *text; /* a name or arithmetic (sp_dim_parse()), or NULL */
    int64_t value;    /* without a text: the number, or -1: not known */
};

struct sp_given_shape {
    const char *tensor;
    enum sp_dtype dtype; /* UNDEFINED: not said */
    uint32_t rank;
    const struct sp_given_extent *extents;
};

struct sp_given {
    uint32_t value_count, shape_count;
    const struct sp_given_value *values;
    const struct sp_given_shape *shapes;
    const struct sp_private_operators *operators; /* ops/table/private.h, or NULL; must outlive the model */
    const struct sp_given_states *states;         /* graph/states.h, or NULL; likewise */
};

/* A shape in terms of one model. */
struct sp_given_type {
    const char *tensor;
    struct sp_type type;
    struct sp_value *value; /* the last one of that name that inference met, or NULL */
};

struct sp_given_types {
    uint32_t count;
    struct sp_given_type *items;
    struct sp_hash_map by_name; /* items by the address of the interned name */
};

/* SP_ERR_REQUEST: "UNKNOWN_INPUT", "UNKNOWN_TENSOR", "VALUE_CONTRADICTED" (by the input's type). */
enum sp_status sp_model_give(struct sp_model *model, const struct sp_given *given, struct sp_error *err);

/* The shape that was given for a value, or NULL; remembers that it was asked for. */
const struct sp_type *sp_given_type(const struct sp_model *model, struct sp_value *value);

/* After inference. SP_ERR_REQUEST "SHAPE_CONTRADICTED": the operators, or the file, give a tensor another rank or
   extent than the caller. */
enum sp_status sp_model_verify_given(const struct sp_model *model, struct sp_error *err);
