#pragma once
/*
 * simulate - plans carried out by the real ONNX Runtime: what the programs that write simulations have in common.
 *
 * A program takes models apart as a partition does, writes each simulation (core/realize/realize.h) into a folder, and
 * a list of what is to be run and compared: one line of JSON for each, as simulate.mjs reads it. A simulation that
 * cannot be written is a line too, with "failure". simulate_report.mjs runs the list and says what came of it.
 *
 *     FOLDER/list.jsonl      the lines
 *     FOLDER/NAME.onnx       simulations, and models that were changed
 *     FOLDER/NAME.onnx.TARGET.json           where they are asked for: the manifest of the devices' models, or
 *                                            {"failure": "CODE: .."}
 *     FOLDER/NAME.onnx.TARGET.device-0.onnx  the models that it names
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "infer/assignment.h"
#include "partition/partition.h"
#include "realize/realize.h"

#define SIMULATE_MAX_PATH 1024

/* A way of splitting a node: each cut factor in so many shards, and so many copies of it all. Positions are numbered
   row-major over the cuts, then the copies. */
#define SIMULATE_MAX_CUTS 2
struct simulate_cut {
    uint8_t factor;
    int64_t shards;
    const int64_t *shares; /* per shard, of as many equal blocks as they are together; NULL: each shard is a block */
    int64_t row; /* not 0: each so many elements of the factor are cut in shards, so that a device has several ranges */
};
struct simulate_way {
    uint32_t count;
    struct simulate_cut cuts[SIMULATE_MAX_CUTS];
    int64_t copies;         /* 0: one */
    const int64_t *devices; /* by position; NULL: device i is at position i */
    bool scatters;          /* the results, which must not have the only cut, are cut along another axis */
};

/* Whether a factor may be cut in so many shards, of which each has elements and is a multiple of the factor's block. */
bool simulate_may_cut(const struct sp_factor *factor, int64_t shards);

/* The equal blocks that a cut is made of: its shards, or their shares. */
int64_t simulate_blocks(const struct simulate_cut *cut);

/* The shortest row of a factor that may be cut in so many shards, of several rows, or 0. */
int64_t simulate_row(const struct sp_factor *factor, int64_t shards);

/* The given specs of one node: shard i of a factor is on the devices that have coordinate i, what does not have a
   factor is whole over it. False, with a reason, where a way has no such specs: a shard would be empty, or an operand
   has a factor twice. */
bool simulate_give(struct sp_assignment *assignment, const struct sp_relation *relation, const struct sp_rule *rule,
                   const struct simulate_way *way, const char **ret_reason);

/* What became of a partition: notes, and whether anything was cut at all. */
struct simulate_account {
    unsigned ops;         /* operators of the node, or of all nodes, over all devices */
    unsigned cut_sources; /* parts of inputs and weights that are not the whole */
    unsigned cut_results; /* parts of model outputs that are not the whole */
    unsigned exchanges;   /* by kind below */
    unsigned controls;    /* nodes with graphs that are run graph by graph */
    unsigned cut_inside;  /* operators in their graphs of which some operand is not the whole */
    unsigned depth;       /* of graphs at work */
    unsigned kinds[16];   /* enum sp_collective */
    json_t *notes;        /* [{"code", "node", "message"}], of the realization */
    bool is_whole;        /* some note is "FACTOR_WHOLE" */
    double *weight_bytes; /* per device: bytes of parts of initializers of floats */
    int64_t device_count;
};
void simulate_account_release(struct simulate_account *account);

/* Goes through the partition, for its account only. */
enum sp_status simulate_tell_parts(struct sp_arena *arena, struct sp_model *model,
                                   const struct sp_assignment *assignment, struct simulate_account *account,
                                   bool tells_notes, struct sp_error *err);

/* Goes through the partition and writes the simulation to `path`, and the models of the devices where they are asked for.
   The model's bytes are read where they lie. */
enum sp_status simulate_write(struct sp_arena *arena, struct sp_model *model, const struct sp_assignment *assignment,
                              const char *path, struct simulate_account *account, struct sp_error *err);

/* Asks for the models of the devices beside each simulation or one of so many (NULL or "0": none), for each target ("all",
   or NULL), for one of them in turn ("turn"), or for the one that is named. False where there is no such target. */
bool simulate_ask_devices(const char *every, const char *targets);
/* Writes these; simulate_write() does it. */
enum sp_status simulate_write_devices(struct sp_arena *arena, struct sp_model *model,
                                      const struct sp_assignment *assignment, const char *path, struct sp_error *err);

/* The recipe's file. */
enum sp_status simulate_stream(const struct sp_recipe *recipe, struct sp_model *model, const char *path,
                               struct sp_error *err);

/* One line of the list; takes the object over. */
void simulate_tell(FILE *list, json_t *line);

/* {"name", "type"} of each output of the main graph. */
json_t *simulate_outputs(const struct sp_model *model);
