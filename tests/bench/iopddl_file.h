#pragma once
/*
 * iopddl_file - problems of the 2025 contest on intra-operator parallelism, read from JSON as it streams by.
 *
 * The files are hundreds of megabytes of small integers: they are scanned once, number by number, and nothing of the
 * text is kept. Keys may come in any order; unknown ones with simple values are passed over.
 */
#include "solvers/choice/choice.h"

struct iopddl_numbers { /* an array of arrays of integers, one behind the other */
    int64_t *values;
    size_t *firsts; /* of row r: firsts[r] .. firsts[r + 1] */
    size_t value_count, value_room, row_count, row_room;
};

struct iopddl_file {
    struct iopddl_numbers intervals, costs, usages, edge_nodes, edge_costs;
    struct sp_choice_problem problem; /* points into these */
};

/* Reads all of a stream. False with a sentence in `message` when it is not such a problem. */
bool iopddl_read(int stream, struct iopddl_file *file, char *message, size_t size);
void iopddl_free(struct iopddl_file *file);
