#pragma once
/*
 * signature - what ONNX's published schemas say of each operator version: inputs, outputs, attributes.
 *
 * ops/table/op.h has one entry for an operator with the rule; a signature is for one version of it, because attributes
 * became inputs and types were added over the years. The table is data, made from the published schemas (onnx.defs) of
 * the domains ai.onnx, ai.onnx.ml, ai.onnx.training and ai.onnx.preview*; operators of other domains state theirs in
 * their entry (sp_op.signature), and are parsed from there.
 */
#include "graph/model.h"

struct sp_signature_operand {
    const char *name;
    bool is_optional;
    bool is_variadic;    /* the last one, any number of them */
    bool is_homogeneous; /* variadic: all of one type */
    bool is_parameter;   /* `type` is a type parameter: all operands of it that are tensors have one element type */
    const char *type;    /* type parameter ("T") or type ("tensor(int64)"); NULL: any, not checked */
    uint32_t dtypes;     /* element types that a tensor may have: bits 1 << enum sp_dtype */
    uint32_t kinds;      /* what else than a tensor it may be: bits 1 << enum sp_type_kind */
};

struct sp_signature_attribute {
    const char *name;
    enum sp_attr_type type;
    bool is_required;
};

struct sp_signature {
    const char *domain, *name;
    int64_t since;
    bool is_deprecated; /* from this version on */
    uint32_t input_count, output_count, attribute_count;
    uint32_t min_inputs, max_inputs, min_outputs, max_outputs; /* UINT32_MAX: variadic */
    const struct sp_signature_operand *inputs, *outputs;
    const struct sp_signature_attribute *attributes;
};

/* The signature in force at `version` of the domain ("" is ai.onnx), or NULL: the operator is not known there. */
const struct sp_signature *sp_signature_find(const char *domain, const char *name, int64_t version);

/* Whether ONNX defines the operators of this domain: one that the published schemas do not have is wrong there. */
bool sp_signature_domain(const char *domain);

/* The least version of the domain that has the operator, or 0: no version of it has. */
int64_t sp_signature_first(const char *domain, const char *name);

/* All signatures of the published schemas, sorted by domain, name and version. */
const struct sp_signature *sp_signature_all(uint32_t *ret_count);
