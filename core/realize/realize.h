#pragma once
/*
 * realize - a partitioned model as ONNX files that runtimes load.
 *
 *   simulation  one model of plain ai.onnx operators with the original's inputs and outputs: every device's operators
 *               side by side, collectives written as Add, Max, Min, Mul, Concat and Slice. It computes what the devices
 *               would, so it proves a plan on any runtime.
 *
 * A file is a recipe: pieces of the original (and of its external data), new bytes, and strided parts of weights. It is
 * small whatever the weights' size, and streams; weights are never in memory.
 *
 * Names. Pieces are called VALUE@DEVICE, where the model has no '@' in its names (else '@@', ..); model inputs and
 * outputs keep theirs. Nodes are called NODE@DEVICE, so that a profile can be read beside the original.
 *
 * What a simulation does not have: annotations, training information, documentation, and what only describes (value
 * infos, quantisation annotations). Inputs with a default stay inputs; below IR version 4, where every weight is listed
 * as an input, they are weights, and the file says IR version 4. Model-local functions are kept where a node still
 * calls one.
 */
#include "onnx/splice.h"
#include "partition/partition.h"
#include "realize/recipe.h"

/* What becomes of weights that lie in other files. */
enum sp_realize_external {
    SP_EXTERNAL_INLINE = 0, /* they are read when the result is, and are part of it */
    SP_EXTERNAL_REFER       /* the result refers to the same files; parts of them that are not one run of bytes are cut
                               out by a node, and a note says so */
};

struct sp_realize_request {
    struct sp_partition_request partition;
    const char *name; /* of the graph; NULL: the original's */
    enum sp_realize_external external;
    /* Weights above a kilobyte go into a file of their own beside the model, which is needed where all is more than
       2 GiB: the name that the model calls it by, and the recipe that they are appended to. NULL: they are in the
       model. */
    const char *data_name;
    struct sp_recipe *data;
    /* Notes of the partition; may be NULL. */
    enum sp_status (*note)(void *context, const struct sp_part_note *note, struct sp_error *err);
    void *note_context;
};

/* The simulation; the caller destroys the recipe, before the model's bytes are unmapped. */
enum sp_status sp_realize_simulation(const struct sp_realize_request *request, struct sp_recipe **ret_recipe,
                                     struct sp_error *err);
