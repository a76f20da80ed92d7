#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "index/write_internal.h"

double sp_writing_number(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

void sp_writing_fail(struct sp_writing *writing, enum sp_status status)
{
    if (writing->status == SP_OK)
        writing->status = status;
}

static void fail_large(struct sp_writing *writing, uint64_t actual)
{
    sp_writing_fail(writing,
                    sp_fail_limit(writing->err, "SHEET_TOO_LARGE", "SP_MAX_SHEET_ENTRIES", SP_MAX_SHEET_ENTRIES,
                                  (int64_t)actual,
                                  "The plan has more entries, or longer names in all, than the tables of its sheet can "
                                  "number."));
}

uint32_t sp_writing_text(struct sp_writing *writing, const char *text)
{
    if (text == NULL || writing->status != SP_OK)
        return SP_INDEX_NONE;
    const size_t size = strlen(text);
    const char *kept = sp_intern_text(writing->texts, text, size);
    if (kept == NULL) {
        sp_writing_fail(writing, sp_fail_memory(writing->err));
        return SP_INDEX_NONE;
    }
    void **mark = sp_intern_mark(kept); /* the offset, and 1: NULL is a text that is new */
    if (*mark == NULL) {
        if (size >= SP_MAX_SHEET_ENTRIES - writing->text_size) {
            fail_large(writing, writing->text_size + size + 1);
            return SP_INDEX_NONE;
        }
        *mark = (void *)(uintptr_t)(writing->text_size + 1);
        writing->text_size += size + 1;
    }
    return (uint32_t)((uintptr_t)*mark - 1);
}

void *sp_writing_add(struct sp_writing *writing, enum sp_table_place table, uint64_t count)
{
    const uint64_t used = writing->counts[table];
    const uint32_t size = index_sizes[table];
    if (writing->status == SP_OK && count > SP_MAX_SHEET_ENTRIES - used)
        fail_large(writing, used + count);
    if (writing->status != SP_OK)
        return NULL;
    if (count > writing->capacities[table] - used || writing->tables[table] == NULL) {
        uint64_t capacity = 2 * writing->capacities[table];
        capacity = capacity < used + count ? used + count : capacity;
        void *grown = sp_arena_array(writing->arena, capacity, size);
        if (grown == NULL) {
            sp_writing_fail(writing, sp_fail_memory(writing->err));
            return NULL;
        }
        if (used > 0)
            memcpy(grown, writing->tables[table], used * size);
        writing->tables[table] = grown;
        writing->capacities[table] = capacity;
    }
    writing->counts[table] += count;
    return (char *)writing->tables[table] + used * size;
}
