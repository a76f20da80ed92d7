#include "base/rows.h"

bool sp_rows_begin(struct sp_arena *arena, uint32_t rows, struct sp_rows *ret_rows)
{
    uint32_t *start = SP_NEW_ARRAY(arena, (size_t)rows + 2, uint32_t);
    if (start != NULL)
        *ret_rows = (struct sp_rows){.start = start};
    return start != NULL;
}

bool sp_rows_end_count(struct sp_arena *arena, uint32_t rows, struct sp_rows *of)
{
    uint64_t total = 0;
    for (size_t row = 2; row < (size_t)rows + 2; row++) {
        total += of->start[row];
        of->start[row] = (uint32_t)total;
    }
    of->items = total > UINT32_MAX ? NULL : SP_NEW_ARRAY(arena, total, uint32_t);
    return of->items != NULL;
}

bool sp_rows_sort(struct sp_arena *arena, const uint32_t *row_of, uint32_t count, uint32_t rows,
                  struct sp_rows *ret_rows)
{
    struct sp_rows of;
    if (!sp_rows_begin(arena, rows, &of))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (row_of[i] != SP_NO_ROW)
            sp_rows_count(&of, row_of[i]);
    if (!sp_rows_end_count(arena, rows, &of))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (row_of[i] != SP_NO_ROW)
            sp_rows_put(&of, row_of[i], i);
    *ret_rows = of;
    return true;
}
