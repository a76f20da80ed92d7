#pragma once
/*
 * programs - the original and the ranks' programs while they are evaluated; private to core/verify.
 */
#include "base/array.h"
#include "base/hash_map.h"
#include "base/ranges.h"
#include "graph/model.h"
#include "verify/index_sets.h"
#include "verify/operators/evaluate.h"
#include "verify/tensor_data.h"
#include "verify/verify.h"

/* What a value came to: numbers, or why there are none. */
struct sp_outcome {
    const struct sp_numbers *numbers;
    const char *why;          /* a clause; NULL with numbers */
    const struct sp_node *at; /* where `why` arose first, or NULL */
    bool is_wrong;            /* it cannot run: not a matter of what we can evaluate */
    struct sp_verify_run *run;
    /* For blame: the value of the original that all items are of. */
    const struct sp_value *of;
    bool is_scattered; /* the items are those of the value of its name, in another order */
};

enum sp_run_state { SP_RUN_READY, SP_RUN_WAITS, SP_RUN_DONE };

struct sp_verify_run {
    const struct sp_verify_program *program; /* NULL: the original */
    struct sp_model *model;
    struct sp_hash_map outcomes; /* struct sp_value * -> struct sp_outcome * */
    enum sp_run_state state;
    uint32_t next;          /* node of the main graph */
    struct sp_node **order; /* nodes evaluated, in order, subgraphs and bodies included */
    uint32_t order_count, order_capacity;
    uint32_t collectives; /* that were carried out */
    bool has_inputs;
};

struct sp_verify_failure {
    enum sp_verdict verdict;
    const struct sp_verify_run *run; /* NULL: of no rank */
    const struct sp_node *node;      /* NULL: of none */
    const char *output;              /* of the original; NULL: of none */
    const char *message;             /* a full sentence */
    const char *expected, *nearest;  /* or NULL */
    int certainty;                   /* for blame: 2 a wrong input, 1 a node unlike its peers: comes first */
};

/* A collective that was carried out. */
struct sp_verify_exchange {
    uint32_t member_count;
    struct sp_verify_run **runs;
    struct sp_node **nodes;
};

/* What a rank's weight is taken for. */
struct sp_verify_part {
    const struct sp_verify_run *run;
    const struct sp_value *value, *original;
    const struct sp_axis_ranges *box; /* of the original's; NULL: all of it */
    bool is_slice;                    /* it has the elements of that box, at the indices that are evaluated */
};

struct sp_verification {
    struct sp_budget budget;
    struct sp_arena *arena, *scratch;
    const struct sp_verify_request *request;
    struct sp_verify_run original;
    struct sp_index_sets sets;   /* at which the original's inputs and weights are evaluated */
    struct sp_hash_map computed; /* nodes with what they made, by digest: ranks repeat what others have computed */
    struct sp_hash_map names;    /* values of the original by the hash of their name */
    struct sp_verify_run *runs;  /* one for each program */
    uint32_t run_count;
    enum sp_verdict verdict;
    uint64_t compared, nodes;
    bool is_original_wrong;           /* it does not run on the inputs that were chosen */
    bool has_weights;                 /* known_weights is filled, */
    bool lacks_weights;               /* but for weights whose data are not there */
    struct sp_hash_map known_weights; /* elements of the original's weights */
    unsigned char *window; /* of SP_VERIFY_WINDOW_BYTES, where weights are read; used for one tensor at a time */
    SP_ARRAY(struct sp_verify_part) parts;
    SP_ARRAY(struct sp_verify_failure) failures;
    SP_ARRAY(struct sp_verify_exchange) exchanges;
};

/* Reads a model and infers its shapes; unknown dimensions are estimated. */
enum sp_status sp_run_open(struct sp_verification *all, struct sp_verify_run *run, const void *bytes, uint64_t size,
                           struct sp_error *err);
struct sp_outcome *sp_run_outcome(const struct sp_verify_run *run, const struct sp_value *value);
/* Whether numbers stand for any others, and what a value came to where it does; or NULL. */
bool sp_is_variable(const struct sp_numbers *x);
struct sp_outcome *sp_variable_of(const struct sp_verify_run *run, const struct sp_value *value);
enum sp_status sp_run_set(struct sp_verification *all, struct sp_verify_run *run, const struct sp_value *value,
                          struct sp_outcome outcome, struct sp_error *err);
/* Evaluates nodes until the run is done, or its next node is a collective. */
enum sp_status sp_run_on(struct sp_verification *all, struct sp_verify_run *run, struct sp_error *err);

/* ---- initializers.c, weights.c ---------------------------------------------------------------------------------- */

/* What an operand came to; an initializer is read when it is first asked for. NULL in *ret for an omitted one. */
enum sp_status sp_run_operand(struct sp_verification *all, struct sp_verify_run *run, const struct sp_value *value,
                              const struct sp_outcome **ret, struct sp_error *err);
/* The bytes of a program's tensor. */
struct sp_tensor_data sp_run_data(struct sp_verification *all, const struct sp_verify_run *run,
                                  const struct sp_tensor *tensor);
/* Compares all bytes of the ranks' weights with the parts that they are taken for. */
enum sp_status sp_weights_compare(struct sp_verification *all, struct sp_error *err);

/* ---- exchanges.c ------------------------------------------------------------------------------------------------ */

bool sp_is_collective(const struct sp_node *node);
/* Carries out the collectives whose members all wait at them; *ret_any says whether there was one. */
enum sp_status sp_exchange_all(struct sp_verification *all, bool *ret_any, struct sp_error *err);

/* ---- distributed.c ---------------------------------------------------------------------------------------------- */

/* Whether a node is one of ONNX Runtime's Distributed operators. */
bool sp_is_distributed(const struct sp_node *node);
/* Evaluates the one at which all members of a world wait. */
enum sp_status sp_distributed_evaluate(struct sp_verification *all, uint32_t member_count, struct sp_verify_run **runs,
                                       struct sp_error *err);

/* Says of each run that still waits why. */
enum sp_status sp_exchange_tell_stuck(struct sp_verification *all, struct sp_error *err);

/* ---- ports.c ---------------------------------------------------------------------------------------------------- */

/* SP_ERR_MALFORMED where the manifest lists an input or output that the program's model does not have. */
enum sp_status sp_ports_check(const struct sp_verify_run *run, struct sp_error *err);
/* Gives a program its inputs where all are there already. */
enum sp_status sp_ports_give(struct sp_verification *all, struct sp_verify_run *run, bool *ret_given,
                             struct sp_error *err);
/* Whether a program reads an input of the original. */
bool sp_ports_read(const struct sp_verify_run *run, const char *input);
/* The value of another program that is given for an input, and that program; NULL where none is. */
const struct sp_value *sp_ports_source(struct sp_verification *all, const struct sp_verify_run *run,
                                       const struct sp_value *input, struct sp_verify_run **ret_giver);
/* Compares the outputs of all programs with the original's. */
enum sp_status sp_ports_compare(struct sp_verification *all, struct sp_error *err);

/* ---- verify.c and blame/blame.c --------------------------------------------------------------------------------------- */

enum sp_status sp_verify_fail(struct sp_verification *all, struct sp_verify_failure failure, struct sp_error *err);
/* Names the nodes at which runs go wrong (verify/blame/blame.h). */
enum sp_status sp_blame(struct sp_verification *all, struct sp_error *err);

/* The rank's fraction of a tensor that has these extents in its program; *ret NULL where it is whole. */
enum sp_status sp_guess_box(struct sp_verification *all, const struct sp_verify_run *run,
                            const struct sp_numbers *whole, uint32_t rank, const int64_t *extents,
                            struct sp_axis_ranges **ret, struct sp_error *err);
/* Recognises what collectives make: sets sp_outcome.of of their first member. */
enum sp_status sp_recognise(struct sp_verification *all, struct sp_error *err);

/* Makes the index of names, once the original is read. */
enum sp_status sp_original_index(struct sp_verification *all, struct sp_error *err);
/* The value of the original that a name of a rank's tensor is a part of ("W@3"), or NULL. */
const struct sp_value *sp_original_value(const struct sp_verification *all, const char *name);
/* Largest difference, as a share of the numbers' size, that constants rounded to float32 may make. */
#define SP_VERIFY_TOLERANCE 1e-5
