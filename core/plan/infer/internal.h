#pragma once
/*
 * internal - what the sources of the completion facade share.
 */
#include "plan/accepted.h"
#include "plan/infer/infer.h"
#include "plan/model_file.h"

struct sp_completion {
    struct sp_budget budget;
    struct sp_model_file file;
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment;
    struct sp_communications communications;
    struct sp_accepted accepted;
    const char *configuration, *name;
    bool is_new_configuration;
    bool propagates;
    bool lists_all; /* the text has whole tensors, too */
    int64_t device_count;
    uint32_t *kept;                /* operands of each node that are written: bit sets, see sp_completion_writes() */
    const uint32_t *first_operand; /* by node: where its operands begin in `kept` */
    uint64_t added;
};

/* What a request says. */
struct sp_completion_request {
    const char *configuration;
    bool propagates;
    int64_t devices; /* 0: not said */
    const struct sp_mesh *mesh;
    uint32_t set_count;
    struct sp_set_spec *sets;
};

/* Reads the request; the model is there, for ranks, shapes and patterns. */
enum sp_status sp_completion_read_request(struct sp_completion *completion, const json_t *root,
                                          struct sp_completion_request *ret_request, struct sp_error *err);

/* Decides which specs are written: those that were given, set or inferred, but no inferred whole input that would
   contradict a split one once it is stated; there the device slices what it has. */
enum sp_status sp_completion_choose(struct sp_completion *completion, struct sp_error *err);
bool sp_completion_writes(const struct sp_completion *completion, uint32_t node, uint32_t operand);

/* Looks at the completed model as it will be read again: a finding that is an error is SP_ERR_MODEL, since nothing that
   contradicts itself is written. Lists what devices send each other in the models that are exported of it. */
enum sp_status sp_completion_verify(struct sp_completion *completion, const struct sp_watch *watch,
                                    struct sp_error *err);

/* The tensor of an operand of a node: inputs, then outputs; NULL where it is omitted. */
const struct sp_value *sp_completion_value(const struct sp_node *node, uint32_t operand);
/* The operand's spec as the record of the file. */
enum sp_status sp_completion_spec(const struct sp_completion *completion, struct sp_arena *arena,
                                  const struct sp_value *value, const struct sp_sharding *sharding,
                                  struct sp_sharding_spec *ret_spec, struct sp_error *err);
