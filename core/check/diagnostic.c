#include "check/diagnostic.h"

#include <stdio.h>
#include <string.h>

const char *sp_severity_name(enum sp_severity severity)
{
    static const char *const names[] = {"note", "warning", "error"};
    return names[severity];
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

static const struct sp_diagnostic_code *const arrays[] = {
    sp_codes_model,
    sp_codes_annotations,
    sp_codes_meaning,
};

#define MAX_CODES 512

const struct sp_diagnostic_code *sp_diagnostic_find(const char *code)
{
    for (size_t a = 0; a < sizeof(arrays) / sizeof(arrays[0]); a++) {
        for (const struct sp_diagnostic_code *entry = arrays[a]; entry->code != NULL; entry++) {
            if (strcmp(entry->code, code) == 0)
                return entry;
        }
    }
    return NULL;
}

const struct sp_diagnostic_code *const *sp_diagnostic_all(uint32_t *ret_count)
{
    static const struct sp_diagnostic_code *all[MAX_CODES];
    uint32_t count = 0;
    for (size_t a = 0; a < sizeof(arrays) / sizeof(arrays[0]); a++) {
        for (const struct sp_diagnostic_code *entry = arrays[a]; entry->code != NULL && count < MAX_CODES; entry++)
            all[count++] = entry; /* the same pointers whoever writes them */
    }
    *ret_count = count;
    return all;
}
