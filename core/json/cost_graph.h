#pragma once
/*
 * cost_graph - the cost graph of json.h, read; private to core/json.
 */
#include "graph/cost_graph.h"
#include "json/tree.h"

/*
 * Reads the document into `graph`, all of which lies in `arena`. SP_ERR_MALFORMED with the JSON pointer of what is
 * wrong, SP_ERR_LIMIT, SP_ERR_MEMORY. `seed` is for the tables of names.
 */
enum sp_status sp_cost_graph_read(const struct sp_tree *tree, struct sp_arena *arena, uint64_t seed,
                                  struct sp_cost_graph *graph);
