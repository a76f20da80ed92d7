#pragma once
/* helix_file - instances of Helix (ASPLOS 2025) as JSON: {"layers", "partial", "nodes": {"0": [rates]}, "links": [[from, to,
   capacity]]}. */
#include "solvers/routes/routes.h"

/* False with a message where the file cannot be read. The problem is in the arena. */
bool helix_read(struct sp_arena *arena, const char *path, struct sp_routes_problem *ret_problem, char *message,
                size_t message_size);
