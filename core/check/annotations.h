#pragma once
/*
 * annotations - what the parts of the structural check of multi-device data share; private to core/check.
 *
 *   annotations.c           the configurations, and the walk over every graph of the model
 *   annotations_node.c      what a node says for one configuration: its identity, its stage, the tensors it names
 *   annotations_axes.c      how a spec cuts the axes of its tensor
 *   annotations_devices.c   which devices a spec names, for which shards
 *   annotations_codes.c     the table
 *
 * A node may carry as many records as fit in a file, so nothing here compares all pairs: names are interned, and what
 * was seen at the node or record at hand is stamped by the name's number.
 */
#include "base/intern.h"
#include "check/check.h"

/* What is known of a name at the node, record and spec that are looked at. */
struct sp_name_stamp {
    uint32_t operand;       /* of the node whose operand it is */
    uint32_t position;      /* among that node's inputs, then outputs */
    uint32_t spec;          /* of the record that had a spec for it */
    uint32_t entry;         /* of the node that had a record for this configuration */
    uint32_t configuration; /* 1 + index of the first configuration of this name, 0: none */
    bool is_reported;       /* as a configuration that the model does not have */
};

struct sp_annotation_check {
    struct sp_model *model;
    struct sp_diagnostics *list;
    struct sp_error *err;
    struct sp_arena *scratch;  /* rewound after each spec */
    const char *configuration; /* the only one to look at, or NULL */

    uint32_t stamp_capacity, node_stamp, entry_stamp;
    struct sp_name_stamp *stamps;                 /* by name id */
    uint64_t *entry_counts;                       /* by configuration: annotations that say something */
    bool *functions_seen;                         /* by function: some call of it was walked */
    struct sp_intern *told;                       /* findings in bodies of calls: told once for all calls */
    uint64_t group_devices;                       /* that groups add to the device lists of all specs so far */
    uint32_t searches_left;                       /* names whose likely cause is still looked for */
    bool has_annotations;                         /* some node has one */
    const struct sp_node *node;                   /* at hand */
    const struct sp_node_configuration *entry;    /* at hand */
    const struct sp_device_configuration *device; /* the entry's configuration, or NULL */
    bool is_in_call;                              /* the node is of a function's body */
};

/* A spec at work. */
struct sp_spec_check {
    const struct sp_sharding_spec *spec;
    const struct sp_value *value; /* NULL: unknown tensor */
    const char *tensor;
    int64_t rank;              /* -1: unknown */
    const struct sp_dim *dims; /* `rank` of them, or NULL */
    int64_t shards;            /* of the whole tensor; -1 when that cannot be told */
    int64_t device_count;      /* of the configuration; 0: unknown */
};

/* Adds a finding about the node, entry and tensor at hand; in the body of a call only once for all calls. */
__attribute__((format(printf, 5, 6))) enum sp_status sp_annotation_report(struct sp_annotation_check *check,
                                                                          const char *code, const char *tensor,
                                                                          const char *hint, const char *format, ...);

/* The stamp of a name; NULL without memory. */
struct sp_name_stamp *sp_annotation_stamp(struct sp_annotation_check *check, const char *name);

/* annotations_node.c */
enum sp_status sp_check_node_annotations(struct sp_annotation_check *check, const struct sp_node *node);

/* annotations_axes.c: also sets check->shards. */
enum sp_status sp_check_spec_axes(struct sp_annotation_check *check, struct sp_spec_check *spec);

/* annotations_devices.c */
enum sp_status sp_check_spec_devices(struct sp_annotation_check *check, const struct sp_spec_check *spec);
