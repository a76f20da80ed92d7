#pragma once
/*
 * captures - the graphs of a node, and what they use of the graphs around it.
 *
 * An If whose condition is known runs the branch that is taken, and the other one is not looked at. In graphs inside of
 * graphs both are: where the outer node runs as one operator, they are there.
 */
#include "base/arena.h"
#include "graph/model.h"

/* Whether some attribute is a graph. */
bool sp_has_graphs(const struct sp_node *node);

/* All graphs in the node, those of expanded calls too. False without memory, as below. */
bool sp_graphs_inside(struct sp_arena *arena, const struct sp_node *node, uint32_t *ret_count,
                      const struct sp_graph ***ret_graphs);

/* The values of graphs around the node that its graphs use by name, each once. */
bool sp_captured(struct sp_arena *arena, const struct sp_node *node, uint32_t *ret_count,
                 const struct sp_value ***ret_values);
