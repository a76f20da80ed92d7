#pragma once
/*
 * realize - a partitioned model as ONNX files that runtimes load.
 *
 *   simulation     one model of plain ai.onnx operators with the original's inputs and outputs: every device's
 * operators side by side, collectives written as Add, Max, Min, Mul, Concat and Slice. It computes what the devices
 * would, so it proves a plan on any runtime.
 *
 * A file is a recipe: pieces of the original (and of its external data), new bytes, and strided parts of weights. It is
 * small whatever the weights' size, and streams; weights are never in memory.
 *
 * Names. Pieces are called VALUE@DEVICE, where the model has no '@' in its names (else '@@', ..); model inputs and
 * outputs keep theirs. Nodes are called NODE@DEVICE, so that a profile can be read beside the original.
 */
#include "onnx/splice.h"
#include "partition/partition.h"
#include "realize/recipe.h"

struct sp_realize_request {
    struct sp_partition_request partition;
    const char *name; /* of the graph; NULL: the original's */
    /* Notes of the partition; may be NULL. */
    enum sp_status (*note)(void *context, const struct sp_part_note *note, struct sp_error *err);
    void *note_context;
};

/* The simulation; the caller destroys the recipe, before the model's bytes are unmapped. */
enum sp_status sp_realize_simulation(const struct sp_realize_request *request, struct sp_recipe **ret_recipe,
                                     struct sp_error *err);
