#include "base/rows.h"

#include <string.h>

/* Turns counts into starts, one place ahead; the number of items. */
static uint64_t sum(uint32_t *start, uint32_t rows)
{
    uint64_t total = 0;
    for (size_t row = 2; row < (size_t)rows + 2; row++) {
        total += start[row];
        start[row] = (uint32_t)total;
    }
    return total;
}

bool sp_rows_begin(struct sp_arena *arena, uint32_t rows, struct sp_rows *ret_rows)
{
    uint32_t *start = SP_NEW_ARRAY(arena, (size_t)rows + 2, uint32_t);
    if (start != NULL)
        *ret_rows = (struct sp_rows){.start = start};
    return start != NULL;
}

bool sp_rows_end_count(struct sp_arena *arena, uint32_t rows, struct sp_rows *of)
{
    const uint64_t total = sum(of->start, rows);
    of->items = total > UINT32_MAX ? NULL : SP_NEW_ARRAY(arena, total, uint32_t);
    return of->items != NULL;
}

void sp_rows_fill(const uint32_t *row_of, uint32_t count, uint32_t rows, struct sp_rows *of)
{
    memset(of->start, 0, ((size_t)rows + 2) * sizeof *of->start);
    for (uint32_t i = 0; i < count; i++)
        if (row_of[i] != SP_NO_ROW)
            sp_rows_count(of, row_of[i]);
    (void)sum(of->start, rows);
    for (uint32_t i = 0; i < count; i++)
        if (row_of[i] != SP_NO_ROW)
            sp_rows_put(of, row_of[i], i);
}

bool sp_rows_sort(struct sp_arena *arena, const uint32_t *row_of, uint32_t count, uint32_t rows,
                  struct sp_rows *ret_rows)
{
    struct sp_rows of = {SP_NEW_ARRAY(arena, (size_t)rows + 2, uint32_t), SP_NEW_ARRAY(arena, count, uint32_t)};
    if (of.start == NULL || of.items == NULL)
        return false;
    sp_rows_fill(row_of, count, rows, &of);
    *ret_rows = of;
    return true;
}
