#pragma once
/*
 * rows - lists of numbers in one array (compressed sparse rows): those of row r are items[start[r]] up to
 * items[start[r + 1] - 1].
 *
 * Rows are made by a counting sort, in time linear in the rows and the items, and items of one row keep the order in
 * which they came. Where the row of each number is known as an array:
 *
 *     struct sp_rows nodes;
 *     if (!sp_rows_sort(arena, stage_of, node_count, stage_count, &nodes)) // the nodes of each stage, ascending
 *         return sp_fail_memory(err);
 *     for (uint32_t i = nodes.start[stage]; i < nodes.start[stage + 1]; i++)
 *         visit(nodes.items[i]);
 *
 * Else in two rounds over what is listed, the first of which counts:
 *
 *     sp_rows_begin(arena, rows, &of) && sp_rows_count(&of, row) ... && sp_rows_end_count(arena, rows, &of)
 *     sp_rows_put(&of, row, item) ... as often for each row as it was counted
 *
 * Both arrays are the arena's. False means that there was no memory; a count beyond UINT32_MAX is the same.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define SP_NO_ROW UINT32_MAX

struct sp_rows {
    uint32_t *start, *items;
};

/* The numbers below `count` by row, row_of[i] being that of i: below `rows`, or SP_NO_ROW. */
bool sp_rows_sort(struct sp_arena *arena, const uint32_t *row_of, uint32_t count, uint32_t rows,
                  struct sp_rows *ret_rows);

/* The same into arrays that are there, for `rows` + 2 starts and all items: for who sorts again and again. */
void sp_rows_fill(const uint32_t *row_of, uint32_t count, uint32_t rows, struct sp_rows *of);

bool sp_rows_begin(struct sp_arena *arena, uint32_t rows, struct sp_rows *ret_rows);

/* Starts are two places ahead while they are counted, and one while items are put: each put moves the start of the row
   behind it on, which ends where it belongs. */
static inline void sp_rows_count(struct sp_rows *of, uint32_t row)
{
    of->start[row + 2]++;
}

bool sp_rows_end_count(struct sp_arena *arena, uint32_t rows, struct sp_rows *of);

static inline void sp_rows_put(struct sp_rows *of, uint32_t row, uint32_t item)
{
    of->items[of->start[row + 1]++] = item;
}
