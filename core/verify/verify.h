#pragma once
/*
 * verify - whether the models of several ranks together compute what an original model computes.
 *
 * Model. The original and all ranks are evaluated in the numbers of verify/field.h: inputs and weights are variables,
 * sums, products and quotients are exact, and every other function is a hash. Equal results there prove, but for a
 * chance of about one in 2^50 for a model of a thousand layers, that the ranks compute the same function of inputs and
 * weights over the reals, whatever was regrouped: sums that are added up in another order, factors taken out, slices of
 * slices. Different results there prove nothing by themselves, as hashed functions have laws of their own
 * (sin(-a) = -sin(a)). So the same evaluation has a part in real numbers: only where that differs, too, are
 * the ranks refuted. What is left is undecided, with the reason. Of exp one law is kept: that of a difference is the
 * quotient of two (verify/exponential.c), so it does not matter what softmaxes take off before they add up.
 *
 *   proved      every element of every output is equal in the field, and together the ranks have all of every output
 *   refuted     some element differs in the reals, the ranks wait for each other forever, a shape does not fit, or a
 *               part of an output is nowhere
 *   undecided   an operator cannot be evaluated, data are missing, or numbers differ in the field alone
 *
 * Large models are evaluated at some indices of each axis (verify/index_sets.h), so that the size of a model does not
 * matter, but only how many nodes it has. Weights without data are then the parts of the original's that names, shapes and
 * the order of ranks say, or the tensors' own metadata (SP_BOX_KEY in realize/realize.h).
 *
 * On request (`weights`) the bytes of each weight of a rank are also compared with the slice of the original's that it is
 * taken for, as streams, wherever they lie: one that differs is refuted, with the first byte that does; one whose data
 * are not there, or that is no slice, is undecided.
 *
 * No element of a weight is taken for a special one, so a proof holds for all weights that are equal where the given
 * ones are. Scalars, integers and constants of nodes are what they are. A proof is for one size of each dimension, and for
 * the values that are given of inputs, and says nothing of rounding.
 *
 * What was evaluated is also how a failure is explained: an element that the original has somewhere, too, is
 * recognised. The first node of a rank is named behind which nothing of the original is recognised any more, although
 * all that it reads is (verify/blame/blame.h).
 *
 * Programs. A rank is one program, or several parts that run one after the other. Programs of one world exchange in
 * collectives: com.microsoft's AllReduce, AllGather and AllToAll, also with the prefix Nccl, ReduceScatter, and
 * TensorRT's DistCollective with its groups; and in com.microsoft's Distributed operators, which are the operator of whole
 * tensors between their shard specs (verify/distributed.c). The n-th collective of a group on each member is one exchange. What a
 * program gets from another one is told by the manifest (realize/realize.h). An input of another type than the original's,
 * or of another extent where both files state it, is refused by a runtime, and refuted here. Without a manifest all programs are ranks
 * of one world in their order, inputs and outputs have the names of the original's, and one that is a fraction of its
 * tensor along one axis is the rank's fraction in their order. An input that the original does not have is the output of
 * that name of another program: so are the models of a pipeline.
 *
 * Lifecycle and ownership. sp_verify() does all the work and returns what was found, which the caller asks for its verdict,
 * writes, and destroys. What the request points to stays the caller's, unchanged, until then: the files' bytes, the manifest's
 * JSON, the watch, the reader of weights. On an error there is nothing to destroy, and struct sp_error has a sentence for
 * the user; a hostile file is an error or a verdict. Memory is bounded by `memory_budget` (SP_ERR_MEMORY beyond it).
 *
 * Threads. A verification is made in the caller's thread, and read in one at a time; different ones are independent. The
 * watch is asked at each node and in the course of large weights, and ends the verification with SP_ERR_CANCELLED.
 *
 * Example: says whether two ranks, which have a part each of the inputs and outputs, compute what a model computes.
 * (tests/unit/verify/verify_example.c is the same, and runs.)
 *
 *     #include <stdio.h>
 *
 *     #include "verify/verify.h"
 *
 *     struct model_bytes {
 *         const void *bytes;
 *         uint64_t size;
 *     };
 *
 *     static bool prove(struct model_bytes original, const struct model_bytes ranks[2], FILE *out)
 *     {
 *         const struct sp_verify_program programs[] = {
 *             {.name = "rank 0", .bytes = ranks[0].bytes, .size = ranks[0].size, .device = 0, .rank = 0},
 *             {.name = "rank 1", .bytes = ranks[1].bytes, .size = ranks[1].size, .device = 1, .rank = 1}};
 *         const struct sp_verify_request request = {
 *             .bytes = original.bytes, .size = original.size, .program_count = 2, .programs = programs};
 *         struct sp_verification *verification = NULL;
 *         struct sp_error err = {0};
 *         struct sp_buf text;
 *         bool is_proved = false;
 *
 *         if (sp_verify(&request, &verification, &err) == SP_OK) {
 *             is_proved = sp_verification_verdict(verification) == SP_PROVED;
 *             sp_buf_init(&text, 1 << 20);
 *             sp_verification_text(verification, &text);
 *             (void)fwrite(text.data, 1, text.size, out);
 *             sp_buf_release(&text);
 *         } else {
 *             (void)fprintf(out, "%s: %s\n", err.code, err.message);
 *         }
 *         sp_verification_destroy(verification);
 *         return is_proved;
 *     }
 *
 * Sources: proposal and prototype, "polynomial identity testing" (Schwartz 1980, Zippel 1979); Mirage (OSDI 2025)
 * verifies kernels by evaluation in finite fields.
 */
#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "graph/given.h"

struct sp_index_cuts;

enum sp_verdict { SP_PROVED, SP_REFUTED, SP_UNDECIDED };

/* A model that a rank runs. Strings and bytes are the caller's, and stay while the verification is there. */
struct sp_verify_program {
    const char *name; /* of its file, for messages */
    const void *bytes;
    uint64_t size;
    int64_t device;
    uint32_t part, world, rank;
    const json_t *inputs, *outputs; /* of the manifest, or NULL */
};

/* Reads what lies in the files beside the models, for a verification that compares weights. `program` is an index in the
   request, or SP_VERIFY_ORIGINAL; `location` is as that model says it: the reader decides which it follows. False where
   there are no such bytes. */
#define SP_VERIFY_ORIGINAL UINT32_MAX
struct sp_verify_weights {
    bool (*read)(void *context, uint32_t program, const char *location, uint64_t offset, void *bytes, size_t size);
    void *context;
};

struct sp_verify_request {
    const void *bytes; /* the original */
    uint64_t size;
    struct sp_model *model; /* the original, where it is read, has shapes, and estimates of open dimensions; or NULL */
    uint32_t program_count;
    const struct sp_verify_program *programs; /* parts of a device in their order */
    uint32_t binding_count;                   /* --dim NAME=N */
    const char *const *binding_names;
    const int64_t *binding_values;
    const json_t
        *inputs; /* "inputs" of a manifest, or NULL: their shapes are what open dimensions were bound to when the
                             ranks' models were made, and are here where no binding says otherwise */
    const struct sp_given *given;     /* --value INPUT=V: of the original (graph/given.h), or NULL */
    uint64_t hash_seed;               /* that no author of a model can guess, for the tables of names */
    size_t memory_budget;             /* bytes; 0: SP_DEFAULT_JOB_BYTES */
    const struct sp_index_cuts *cuts; /* all that the ranks cut (verify/index_sets.h); NULL: not known */
    bool is_brief; /* few indices of each axis, however small the model is: costs little, may leave undecided what a
                             longer look proves, and names no nodes at which ranks go wrong */
    const struct sp_verify_weights *weights; /* all bytes of weights are compared; NULL: what is said in models alone */
    const struct sp_watch *watch;
    bool explains; /* collectives are told with what they make */
};

struct sp_verification;

/* Errors are those of the original's file and of a program's (SP_ERR_MALFORMED, SP_ERR_MODEL, SP_ERR_LIMIT, with the program's
   name as their place), of names in the manifest (SP_ERR_MALFORMED), of sizes and values that do not fit the original
   (SP_ERR_REQUEST), NO_RANKS, SP_ERR_MEMORY and SP_ERR_CANCELLED; anything that is wrong with what a program computes is a
   verdict. *ret_verification is set on success only. */
enum sp_status sp_verify(const struct sp_verify_request *request, struct sp_verification **ret_verification,
                         struct sp_error *err);
void sp_verification_destroy(struct sp_verification *verification); /* NULL is allowed */

enum sp_verdict sp_verification_verdict(const struct sp_verification *verification);
/*
 * {"verdict": "proved" | "refuted" | "undecided",
 *  "programs": N, "nodes": N, "indices": "all" | "some", "compared_elements": N,
 *  "reasons": [{"rank", "part", "collective", "node", "tensor", "of"}],      what each collective makes, on its first rank
 *  "failures": [{"verdict", "rank", "program", "node", "operator", "output", "message", "expected", "nearest"}]}
 */
void sp_verification_json(const struct sp_verification *all, struct sp_json *json);
/* Nodes of the ranks that were evaluated, and elements of outputs that were compared. */
uint64_t sp_verification_nodes(const struct sp_verification *verification);
uint64_t sp_verification_elements(const struct sp_verification *verification);
/* What was found wrong or is undecided: how many, and the message of each with where it is; NULL without memory. */
uint32_t sp_verification_failures(const struct sp_verification *verification);
const char *sp_verification_failure(const struct sp_verification *verification, uint32_t i, struct sp_arena *arena);
/* For people: the verdict, and a paragraph for each failure. */
void sp_verification_text(const struct sp_verification *all, struct sp_buf *buf);

/*
 * The programs of a manifest, in `arena`. `find` gives the bytes of a model that it names; their files are the
 * caller's. SP_ERR_MALFORMED for a manifest that is none.
 */
typedef enum sp_status (*sp_verify_find)(void *context, const char *name, const void **ret_bytes, uint64_t *ret_size,
                                         struct sp_error *err);
enum sp_status sp_verify_read_manifest(struct sp_arena *arena, const json_t *manifest, sp_verify_find find,
                                       void *context, uint32_t *ret_count, struct sp_verify_program **ret_programs,
                                       struct sp_error *err);
