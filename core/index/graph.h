#pragma once
/*
 * graph - a model's nodes as boxes and what flows between them: one level of its modules at a time.
 *
 * Exporters name nodes by the modules that they come from, "/encoder/layer.3/attention/MatMul" (modules.h). Where a
 * module has more children than `limit`, neighbours in the order of execution become one box, a *run*, whose path can
 * be asked for like a module's; so each node can be reached, whatever the names are. A module with a single child is
 * shown together with it. Tensors that come from nodes which are not shown, or go there, come from the box "before" and
 * go to the box "after", of kind "outside".
 *
 * A path is what an answer says it is; clients hand it back as it came. It and the name of a node are exact: as long as
 * the longest name and what makes a run of a module. Labels and operators are cut (label.h), and the tensors of edges
 * at a length that no exporter comes near, since they are looked up by it: so the size of an answer is bounded.
 *
 * Whatever was joined or left out because of a limit, `truncated` says: fewer levels than were asked for, runs, boxes
 * of several stages, edges beyond SP_INDEX_MOST_EDGES, stages of a box beyond SP_INDEX_MOST_BOX_STAGES.
 */
#include "base/json_writer.h"
#include "index/index.h"

#define SP_INDEX_MOST_BOXES       500
#define SP_INDEX_MOST_LEVELS      4
#define SP_INDEX_MOST_EDGES       4096 /* the largest ones */
#define SP_INDEX_MOST_BOX_STAGES  256  /* that are listed of a box, the first ones */
#define SP_INDEX_MOST_TENSOR_NAME 512  /* characters of the tensor of an edge */

struct sp_index_graph_query {
    const char *path;   /* "": the whole model */
    uint32_t depth;     /* levels of modules that are told apart, 1 .. SP_INDEX_MOST_LEVELS */
    uint32_t stage;     /* only its nodes; SP_INDEX_NONE: all */
    bool by_stage;      /* boxes are stages, or neighbours of them; the path is "" then, and depth is nothing */
    uint32_t limit;     /* boxes but those outside, 2 .. SP_INDEX_MOST_BOXES */
    uint64_t hash_seed; /* of tables of names, which come from strangers; no answer depends on it */
};

/* Writes the slice as one JSON object. SP_ERR_REQUEST "NO_SUCH_MODULE", "NO_SUCH_STAGE"; SP_ERR_MEMORY. */
enum sp_status sp_index_graph(const struct sp_index *index, const struct sp_index_graph_query *query,
                              struct sp_json *json, struct sp_error *err);
